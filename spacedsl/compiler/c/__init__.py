"""The C printer: propagators as one translation unit, for the engine that searches run on."""

from __future__ import annotations

from spacedsl.compiler.c.expressions import UnprintableError
from spacedsl.compiler.c.module import CModule, print_c
from spacedsl.compiler.c.tables import StaticTables, Table, TableKind

__all__ = ["CModule", "StaticTables", "Table", "TableKind", "UnprintableError", "print_c"]

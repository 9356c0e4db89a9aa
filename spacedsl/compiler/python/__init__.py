"""The Python printer: propagators as a module that a person can read and step through."""

from __future__ import annotations

from spacedsl.compiler.python.module import PythonModule, print_python
from spacedsl.compiler.python.tables import HostTable, StaticTable, host_table, static_table

__all__ = ["HostTable", "PythonModule", "StaticTable", "host_table", "print_python", "static_table"]

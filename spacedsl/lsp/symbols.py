"""What names stand for, as an editor asks about it.

In: made by `indexing.py`. Out: an `Index`: every set, choice, value, variable, .. with each place where it is
declared or used. Where it is used is not found here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from spacedsl.diagnostics import Source, Span


class SymbolKind(enum.StrEnum):
    SET = "set"
    CHOICE = "choice"
    QUANTITY = "quantity"
    MAP = "map"
    VALUE = "value"
    VARIABLE = "variable"
    ORDERING = "ordering"
    VIEW = "view"


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """One thing with a name. Equality is identity: each variable is bound once."""

    kind: SymbolKind
    name: str
    """A variable's name stands without its `$`."""
    place: Span
    """The name where it is declared."""
    declaration: Span
    """The whole declaration."""
    doc: str = ""
    params: tuple[str, ...] = ()
    """The sets of the parameters."""
    ranges_over: str = ""
    """The set of a variable's objects."""
    owner: Symbol | None = None
    """The choice of a value."""
    node: object = None
    """The syntax of a set, choice, quantity, map or ordering."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    span: Span
    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Index:
    occurrences: tuple[Occurrence, ...]
    sets: Mapping[str, Symbol]
    choices: Mapping[str, Symbol]
    """Choices, counters, quantities, maps and representatives, which share one namespace."""
    values: Mapping[str, Mapping[str, Symbol]]
    """By choice: values and aliases, in order of declaration."""
    symbols: tuple[Symbol, ...]
    """In order of declaration."""

    def at(self, source: Source, offset: int) -> Occurrence | None:
        """The name that the offset lies in or at the end of; a name that begins there comes first."""
        touching = [
            o for o in self.occurrences if o.span.source is source and o.span.start <= offset <= o.span.end
        ]
        return max(touching, key=lambda o: o.span.start, default=None)

    def of(self, symbol: Symbol) -> tuple[Span, ...]:
        """Every place where the symbol is named, its declaration first."""
        return tuple(o.span for o in self.occurrences if o.symbol is symbol)

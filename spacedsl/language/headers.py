"""What can be said of a declaration from its header alone, before any body has been read.

In: what `sets.py`, `choices.py` and `checker.py` read of headers. Out: frozen records, by which uses are
checked wherever they stand in a file. Nothing is looked up here, and nothing said of bodies.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.diagnostics import Span
from spacedsl.language import space, syntax
from spacedsl.language.inclusion import Meant


@dataclass(frozen=True, slots=True)
class SetHeader:
    """What can be said of a set from its header alone."""

    name: syntax.Name
    params: tuple[str, ...]
    param_sets: tuple[Meant, ...]
    """Of each parameter, over the names of those before it."""
    supersets: tuple[Meant, ...]
    """Over the names of the parameters."""


@dataclass(frozen=True, slots=True)
class CounterHeader:
    """What can be said of a counter from its header alone; `position` orders the declarations."""

    name: str
    params: tuple[space.Binder, ...]
    visibility: space.Visibility
    product: bool
    position: int
    span: Span


@dataclass(frozen=True, slots=True)
class QuantityHeader:
    """What can be said of a quantity from its header, and its type, which its body shows."""

    name: str
    params: tuple[space.Binder, ...]
    values: tuple[str, ...] | None
    """Of an ordered enum's type; None for integers."""
    span: Span


@dataclass(frozen=True, slots=True)
class Misdeclared:
    """A declared name whose header is wrong: that has been reported, and its uses need not be."""

    span: Span


Valued = space.EnumChoice | space.IntegerChoice | CounterHeader | QuantityHeader
"""What has a value on objects."""

Declared = Valued | space.Map | Misdeclared
"""Choices, quantities and maps share one namespace."""

"""Where the elements lie of a value that goes through memory, once that is decided.

In: the dimensions that have room there, how the loops that load them again are nested, and what lies between
rows. Out: how many elements one iteration of each moves. Code generation makes temporaries of it, and the
bound of a GPU says which banks threads find their elements in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

_Dim = TypeVar("_Dim")

PADDINGS: Mapping[str, int] = MappingProxyType({"NONE": 0, "WORD": 4, "VECTOR": 16})
"""What lies between rows, in bytes."""

LEAST_ROW_BYTES = 64
"""Of rows between which there may be gaps: they make an array larger by a quarter at most."""


def innermost_first(
    dims: Sequence[_Dim], is_outside: Callable[[_Dim, _Dim], bool], is_apart: Callable[[_Dim], bool]
) -> list[_Dim]:
    """In the order in which they lie in memory, neighbours first.

    `is_outside`: of the loops of two of them. `is_apart`: what lies further apart than all others.
    """

    def inside(dim: _Dim) -> tuple[bool, int]:
        return is_apart(dim), sum(is_outside(dim, other) for other in dims if other is not dim)

    return sorted(dims, key=inside)


def element_steps(dims: Iterable[tuple[str, int]], item_bytes: int, padding: int) -> tuple[list[int], int]:
    """Elements that one iteration of each moves, and of all of them.

    `dims`: pairs (index, size), in the order in which they lie. `padding`: bytes behind each row, which is
    along the index that the innermost of them is of.
    """
    found: list[int] = []
    elements, gap, row = 1, padding // item_bytes, ""
    for index, size in dims:
        if row not in ("", index) and elements * item_bytes >= LEAST_ROW_BYTES:
            elements, gap = elements + gap, 0
        row = index if size > 1 else row
        found.append(elements)
        elements *= size
    return found, elements

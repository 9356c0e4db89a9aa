"""The two orientations of a pair: what a mask of one says of the other.

In: the choices of a space and the layout of an instance. Out: by cell, the cell of the other orientation and
the masks there, for `Domains`, which keeps the two in step. Nothing is narrowed here.
"""

from __future__ import annotations

from spacedsl.engine.domains import Inverses
from spacedsl.engine.layout import Layout
from spacedsl.language.space import EnumChoice, Space

INVERSE_TABLE_BITS = 12


class LazyInverses(dict[int, int]):
    """The inverses of masks that are too wide for a table, as they are asked for."""

    def __init__(self, choice: EnumChoice) -> None:
        super().__init__()
        self._choice = choice

    def __missing__(self, mask: int) -> int:
        value = self[mask] = self._choice.invert(mask)
        return value


def twins(space: Space, layout: Layout) -> list[tuple[int, Inverses] | None]:
    """By cell: the other orientation, where there is one."""
    found: list[tuple[int, Inverses] | None] = [None] * len(layout.initial)
    inverses: dict[str, Inverses] = {}
    for cell, other in layout.twins.items():
        name = layout.owners[cell][0]
        if name not in inverses:
            choice = space.choices[name]
            assert isinstance(choice, EnumChoice)
            inverses[name] = _inverses(choice)
        found[cell] = other, inverses[name]
    return found


def _inverses(choice: EnumChoice) -> Inverses:
    if len(choice.values) > INVERSE_TABLE_BITS:
        return LazyInverses(choice)
    return tuple(choice.invert(mask) for mask in range(choice.full + 1))

"""The part of a kernel that is checked: none is lowered to find out that it is too large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from spacedsl.codegen.cuda.checking import _easy, executed
from spacedsl.codegen.generation import Corner
from spacedsl.codegen.tree.expressions import Number, Register, Type
from spacedsl.codegen.tree.program import Assign, Loop, Program
from spacedsl.kernels.dtypes import DType

F32 = Type(DType.F32)


def loop(turns: int) -> Program:
    body = Loop("i", turns, (Assign(Register("r", F32), Number(0.0, F32)),))
    return Program("p", (), (), (body,))


CASES: Mapping[str, tuple[Sequence[tuple[float, int]], list[int]]] = {
    "the first one is easy": ([(100, 20), (50, 10)], [0]),
    "what must be too large is passed over": ([(900, 900), (400, 400), (90, 90), (30, 30), (9, 9)], [0, 3]),
    "what turns out to be too large": ([(900, 900), (90, 90), (30, 60), (9, 9)], [0, 2, 3]),
    "the last one, whatever it takes": ([(900, 900), (400, 400), (390, 390)], [0, 2]),
    "work that nobody knows": ([(0, 900), (0, 400), (0, 20)], [0, 1, 2]),
    "a single one": ([(900, 900)], [0]),
}
"""Work and turns of each part; those that are lowered."""


@pytest.mark.parametrize("case", CASES)
def test_the_largest_easy_part_is_taken(case: str) -> None:
    parts, expected = CASES[case]
    lowered: list[int] = []

    def corner(number: int, work: float, turns: int) -> Corner:
        def lower() -> tuple[dict[str, int], Program]:
            lowered.append(number)
            return {"i": turns}, loop(turns)

        return Corner(work, lower)

    part, program, count = _easy([corner(n, *each) for n, each in enumerate(parts)], 80)
    assert lowered == expected
    assert part == {"i": parts[expected[-1]][1]}
    assert count == executed(program.body)

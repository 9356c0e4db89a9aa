"""How lanes move, judged by where each of them leads."""

from __future__ import annotations

from fractions import Fraction

import pytest

from spacedsl.kernels.pipeline.affine import Linear, extreme, quotient, remainder, variable
from spacedsl.kernels.pipeline.lanes import pace
from tests.codegen.interpreter import position

X, Y = variable("x"), variable("y")
PACES = {
    "neighbours": (X + Y * 3 + Linear(-2), Fraction(1)),
    "every second": (X * 2 + quotient(Y, 3), Fraction(2)),
    "every eighth": (X * 8, Fraction(8)),
    "each twice": (quotient(X + Y, 2) + Linear(5), Fraction(1, 2)),
    "each four times": (quotient(X + Linear(3), 4), Fraction(1, 4)),
}
OTHERS = {
    "every third": X * 3,
    "backwards": X * -1,
    "each three times": quotient(X, 3),
    "halves of every third": quotient(X * 3, 2),
    "in turns": remainder(X, 2),
    "two ways": X + quotient(X, 2),
    "up to an edge": extreme("min", X, Linear(7)),
    "at one place": Y,
}


@pytest.mark.parametrize("case", PACES)
def test_lanes_lead_as_far_as_their_pace_says(case: str) -> None:
    form, wanted = PACES[case]
    assert pace(form, "x") == wanted
    count = 32
    ends = [position(form, {"x": x, "y": 5}) for x in (0, count)]
    assert ends[1] - ends[0] == count * wanted


@pytest.mark.parametrize("case", OTHERS)
def test_others_have_none(case: str) -> None:
    assert pace(OTHERS[case], "x") is None

"""Residues of positions are judged by positions at random numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacedsl.codegen.tree.expressions import Index, Position, Share
from spacedsl.codegen.tree.program import Sweep
from spacedsl.codegen.tree.residues import ANY, MOST, Residue, is_aligned, residue, swept
from spacedsl.kernels.pipeline.affine import Linear, extreme, quotient, remainder, variable
from tests.codegen.interpreter import position
from tests.kernels.pipeline.positions import positions

NAMES = ("a", "b", "c")
MODULI = st.sampled_from([1, 2, 4, 8, MOST])
NUMBERS = st.fixed_dictionaries({name: st.integers(-40, 40) for name in NAMES})


def known(numbers: Mapping[str, int], moduli: Mapping[str, int]) -> dict[str, Residue]:
    """True of these numbers."""
    return {name: Residue(n, numbers[name] % n) for name, n in moduli.items()}


def holds(found: Residue, number: int) -> bool:
    return MOST % found.modulus == 0 and number % found.modulus == found.rest


@given(positions(NAMES), NUMBERS, st.dictionaries(st.sampled_from(NAMES), MODULI))
def test_they_hold_of_any_position(at: Position, numbers: dict[str, int], moduli: dict[str, int]) -> None:
    assert holds(residue(at, known(numbers, moduli)), position(at, numbers))


@given(positions(NAMES, 1), positions(NAMES, 1), st.integers(1, 20), NUMBERS, st.dictionaries(
    st.sampled_from(NAMES), MODULI
))  # fmt: skip
def test_they_hold_in_all_iterations(
    first: Position, last: Position, step: int, numbers: dict[str, int], moduli: dict[str, int]
) -> None:
    for end in (last, extreme("min", first, last)):
        found = swept(Sweep("i", first, end, step, ()), known(numbers, moduli))
        turns = range(position(first, numbers), position(end, numbers) + 1, step)
        assert all(holds(found, turn) for turn in turns)


X, Y = variable("x"), variable("y")
FOUR = {"x": Residue(4, 0), "y": Residue(8, 2)}

EXPECTED: Mapping[str, tuple[Linear, Residue]] = {
    "multiples": (X * 4, Residue(16, 0)),
    "what is known": (X * 3 + Linear(1), Residue(4, 1)),
    "a sum": (X + Y, Residue(4, 2)),
    "one of two": (extreme("max", X + Linear(2), Y), Residue(4, 2)),
    "one of two others": (extreme("min", X, Y), Residue(2, 0)),
    "what is left": (remainder(Y, 12), Residue(4, 2)),
    "a quotient": (quotient(Y, 2) * 8, Residue(8, 0)),
    "nothing": (variable("z"), ANY),
}


@pytest.mark.parametrize("case", EXPECTED)
def test_as_much_is_known_as_follows(case: str) -> None:
    at, expected = EXPECTED[case]
    assert residue(at, FOUR) == expected


def test_a_condition_goes_on_from_nowhere() -> None:
    """A loop with one iteration at most is where it begins."""
    once = Sweep("i", X, extreme("min", X, Y), 1, ())
    assert swept(once, FOUR) == FOUR["x"]
    assert swept(Sweep("i", X, Y, 1, ()), FOUR) == ANY


def test_shares_add_multiples_of_their_strides() -> None:
    index = Index(4, (("x", 1),), (("z", Share(2, 8, 12)),))
    assert is_aligned(index, 4, FOUR)
    assert not is_aligned(index, 4)
    assert not is_aligned(index, 8, FOUR)

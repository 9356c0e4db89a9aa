"""Which nests of a program are timed by themselves: those that a parallel loop ends."""

from __future__ import annotations

import pytest

from spacedsl.codegen.tree.parts import timed_phases
from spacedsl.codegen.tree.program import Let, ParallelLoop, Phase, Program, Statement
from spacedsl.kernels.pipeline.affine import Linear

STATEMENTS: dict[str, Statement] = {"p": ParallelLoop("i", 4, ()), "s": Let("x", Linear(0))}


def phases(*nests: str) -> tuple[str, ...]:
    """Of nests with sequential and parallel statements, named by their places."""
    found = tuple(
        Phase(str(place), tuple(STATEMENTS[letter] for letter in nest)) for place, nest in enumerate(nests)
    )
    body = tuple(statement for phase in found for statement in phase.statements)
    return timed_phases(Program("f", (), (), body, (), found))


@pytest.mark.parametrize(
    ("nests", "expected"),
    [
        ((), ()),
        (("s",), ()),
        (("p", "p"), ("0", "1")),
        (("p", "s", "p", "p"), ("0", "", "3")),
        (("sp", "pp", "p"), ("0", "1", "1", "2")),
        (("ps", "p"), ("0", "")),
        (("p", "s"), ("0",)),
    ],
)
def test_what_a_loop_ends_is_one_nest_or_nobody_knows(
    nests: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert phases(*nests) == expected


def test_programs_of_one_nest_have_no_phases() -> None:
    assert timed_phases(Program("f", (), (), (STATEMENTS["p"],))) == ()

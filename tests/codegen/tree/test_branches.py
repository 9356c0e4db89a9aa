"""Branches beside each other become one, and compute the same."""

from __future__ import annotations

from spacedsl.codegen.tree.branches import joined
from spacedsl.codegen.tree.expressions import Index, Number, Register, Type
from spacedsl.codegen.tree.program import Assign, Branch, Loop, Statement, Store
from spacedsl.kernels.dtypes import DType

F32 = Type(DType.F32)
R, S = Register("r", F32), Register("s", F32)
ZERO, ONE = Number(0.0, F32), Number(1.0, F32)


def store(register: Register, at: int) -> Store:
    return Store("y", Index(at, (("i", 4),)), register)


def branch(*body: Statement, limit: int = 3, otherwise: tuple[Statement, ...] = ()) -> Branch:
    return Branch("i", limit, body, otherwise)


def test_neighbours_with_the_same_condition_are_one() -> None:
    body = (branch(store(R, 0)), branch(store(R, 1), otherwise=(store(S, 1),)), branch(store(R, 2)))
    assert joined(body) == (branch(store(R, 0), store(R, 1), store(R, 2), otherwise=(store(S, 1),)),)


def test_other_conditions_stay_apart() -> None:
    body = (branch(store(R, 0)), branch(store(R, 1), limit=2), branch(store(R, 2)))
    assert joined(body) == body


def test_a_number_in_between_is_given_before() -> None:
    body = (branch(store(R, 0)), Assign(S, ZERO), branch(Assign(S, ONE)))
    assert joined(body) == (Assign(S, ZERO), branch(store(R, 0), Assign(S, ONE)))


def test_a_number_that_the_first_branch_has_to_do_with_keeps_its_place() -> None:
    for first in (store(S, 0), Assign(S, ONE)):
        body = (branch(first), Assign(S, ZERO), branch(Assign(S, ONE)))
        assert joined(body) == body


def test_what_a_register_is_given_from_another_keeps_its_place() -> None:
    body = (branch(store(R, 0)), Assign(S, R), branch(store(S, 1)))
    assert joined(body) == body


def test_blocks_are_looked_at_as_well() -> None:
    both = (branch(store(R, 0)), branch(store(R, 1)))
    inner = (branch(store(R, 0), store(R, 1)),)
    assert joined((Loop("j", 2, both),)) == (Loop("j", 2, inner),)
    assert joined((branch(*both, limit=2),)) == (branch(*inner, limit=2),)

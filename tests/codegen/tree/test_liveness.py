"""What is live is judged by the statements that are really done, loops written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from spacedsl.codegen.tree.expressions import Add, Expression, Number, Register, Type
from spacedsl.codegen.tree.liveness import most_live_words
from spacedsl.codegen.tree.parts import assigned, own_expressions
from spacedsl.codegen.tree.program import Assign, Loop, Multiply, Statement
from spacedsl.kernels.dtypes import DType

F32 = Type(DType.F32)
A, B, C = (Register(name, F32) for name in "abc")
WIDE = Register("wide", Type(DType.F64, 2))
ONE = Number(1.0, F32)
REGISTERS = [A, B, C, *(Register(f"r{n}", F32) for n in range(6))]


def written_out(body: Sequence[Statement]) -> Iterator[Statement]:
    for statement in body:
        if isinstance(statement, Loop):
            for _ in range(statement.first, statement.extent):
                yield from written_out(statement.body)
        else:
            yield statement


def by_hand(body: Sequence[Statement]) -> int:
    live: set[Register] = set()
    most = 0
    for statement in reversed(list(written_out(body))):
        gone = set(assigned(statement))
        most = max(most, sum(r.type.words for r in live | gone))
        live = (live - gone) | {e for e in own_expressions(statement) if isinstance(e, Register)}
        most = max(most, sum(r.type.words for r in live))
    return most


def random_body(random: Random, depth: int) -> tuple[Statement, ...]:
    def one() -> Statement:
        if depth and random.random() < 0.4:
            return Loop(f"i{depth}{random.random()}", 3, random_body(random, depth - 1))
        result, left, right = random.choices(REGISTERS, k=3)
        values: list[Expression] = [ONE, left, Add(left, right)]
        return Assign(result, random.choice(values))

    return tuple(one() for _ in range(random.randint(1, 5)))


@pytest.mark.parametrize("seed", range(200))
def test_it_is_no_less_than_that_of_the_loops_written_out(seed: int) -> None:
    plain, nested = (random_body(Random(seed), depth) for depth in (0, 3))
    assert most_live_words(plain) == by_hand(plain)
    assert by_hand(nested) <= most_live_words(nested) <= len(REGISTERS)


def test_what_the_next_iteration_needs_lives_through_this_one() -> None:
    inside = (Assign(B, ONE), Assign(C, Add(B, B)), Assign(A, Add(A, C)))
    assert most_live_words((Assign(A, ONE), Loop("i", 2, inside))) == 2
    assert most_live_words((Assign(A, ONE), *inside)) == 2
    assert most_live_words((Assign(WIDE, Number(0.0, WIDE.type)), *inside, Assign(WIDE, WIDE))) == 4 + 2


def test_a_product_goes_on_with_its_result() -> None:
    product = Multiply((A,), (B,), (C,), DType.BF16)
    assert most_live_words((product,)) == 3

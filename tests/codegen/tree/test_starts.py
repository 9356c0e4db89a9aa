"""Sums that start from nothing: fewer statements, the same values, and no register without one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from spacedsl.codegen.tree.expressions import (
    Add,
    Broadcast,
    Expression,
    FirstLane,
    Fma,
    Index,
    Max,
    Min,
    Mul,
    Number,
    Register,
    Type,
)
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import Assign, Loop, Program, Statement, Store
from spacedsl.codegen.tree.starts import without_starts
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine
from spacedsl.kernels.tensors import Tensor
from tests.codegen.interpreter import interpret

F32, I32 = Type(DType.F32), Type(DType.I32)
A, B, S, T = (Register(name, F32) for name in "abst")
ZERO = Number(0.0, F32)


@pytest.mark.parametrize(
    ("start", "value", "first"),
    [
        (0.0, Fma(A, B, S), Mul(A, B)),
        (0.0, Add(A, S), A),
        (0.0, Add(S, Mul(A, B)), Mul(A, B)),
        (1.0, Mul(S, A), A),
        (-math.inf, Max(A, S), A),
        (math.inf, Min(S, A), A),
    ],
)
def test_the_first_term_becomes_the_start(start: float, value: Expression, first: Expression) -> None:
    between = Assign(T, A)
    assert without_starts((Assign(S, Number(start, F32)), between, Assign(S, value))) == (
        between,
        Assign(S, first),
    )


@pytest.mark.parametrize(
    ("start", "between", "value"),
    [
        (1.0, (), Fma(A, B, S)),
        (0.0, (), Mul(A, S)),
        (0.0, (), Max(A, S)),
        (math.inf, (), Max(A, S)),
        (0.0, (), Fma(A, S, S)),
        (0.0, (), Add(S, S)),
        (0.0, (Assign(T, S),), Add(A, S)),
        (0.0, (Loop("i", 2, (Assign(T, S),)),), Add(A, S)),
        (0.0, (Loop("i", 2, (Assign(S, Add(S, A)),)),), Add(A, S)),
    ],
)
def test_what_is_needed_stays(start: float, between: tuple[Statement, ...], value: Expression) -> None:
    body = (Assign(S, Number(start, F32)), *between, Assign(S, value))
    assert without_starts(body) == body


def test_integers_start_a_maximum_from_their_least_number() -> None:
    s, a = Register("s", I32), Register("a", I32)
    least = Assign(s, Number(DType.I32.least, I32))
    assert without_starts((least, Assign(s, Max(a, s)))) == (Assign(s, a),)


def test_the_lanes_of_a_vector_start_together() -> None:
    wide, x = Register("wide", Type(DType.F32, 8)), Register("x", Type(DType.F32, 8))
    for start in (Broadcast(ZERO, 8), FirstLane(ZERO, 8, Combine.SUM)):
        assert without_starts((Assign(wide, start), Assign(wide, Add(x, wide)))) == (Assign(wide, x),)
    one = FirstLane(Number(1.0, F32), 8, Combine.SUM)
    body = Assign(wide, one), Assign(wide, Add(x, wide))
    assert without_starts(body) == body


OUT = Tensor("out", DType.F32, (4,), (1,), is_output=True)
NAMES = [Register(f"r{n}", F32) for n in range(4)]


def _body(random: Random, depth: int) -> tuple[Statement, ...]:
    """Starts and terms in any order; blocks inside assign to what there is outside them."""

    def one() -> Statement:
        if depth and random.random() < 0.2:
            return Loop(f"i{depth}_{random.getrandbits(40)}", 2, _body(random, depth - 1))
        result, left, right = random.choices(NAMES, k=3)
        values: list[Expression] = [
            ZERO,
            Number(1.0, F32),
            Number(float(random.randint(2, 9)), F32),
            Add(left, result),
            Add(result, right),
            Fma(left, right, result),
            Mul(left, result),
        ]
        return Assign(result, random.choice(values))

    return tuple(one() for _ in range(random.randint(2, 9)))


@pytest.mark.parametrize("seed", range(200))
def test_random_statements_compute_the_same(seed: int) -> None:
    body = _body(Random(seed), 2)
    changed = without_starts(body)
    np.testing.assert_equal(_results(changed), _results(body))
    assert len(list(statements(changed))) <= len(list(statements(body)))


def _results(body: Sequence[Statement]) -> list[float]:
    """Of a verified program of these statements: what all registers hold in the end."""
    known = (Assign(r, Number(float(n), F32)) for n, r in enumerate(NAMES, 3))
    kept = (Store("out", Index(n), r) for n, r in enumerate(NAMES))
    memory = {"out": [0.0] * len(NAMES)}
    interpret(verify(Program("starts", (OUT,), (), (*known, *body, *kept))), memory, {})
    return memory["out"]

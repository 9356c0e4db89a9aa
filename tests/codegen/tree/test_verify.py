"""The verifier accepts what lowering makes and refuses each single mistake in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import (
    Add,
    Blend,
    Broadcast,
    Convert,
    FirstLane,
    Index,
    LaneReduction,
    Load,
    Neg,
    Number,
    ParameterValue,
    PartialLoad,
    Register,
    Share,
    Type,
)
from spacedsl.codegen.tree.program import (
    Assign,
    Branch,
    Loop,
    ParallelLoop,
    PartialStore,
    Prefetch,
    Program,
    Statement,
    Store,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine
from spacedsl.kernels.tensors import Tensor
from tests.codegen.kernels import axpy, matmul
from tests.codegen.listings import AXPY_VECTOR, MATMUL_TILED
from tests.codegen.scripts import script

F32, F32X16, HALF = Type(DType.F32), Type(DType.F32, 16), Type(DType.BF16)


def axpy_program() -> Program:
    kernel = axpy(480, "{i: [[10], [16]]}").backbone
    return lower(kernel, script(kernel, AXPY_VECTOR.format(i0=3, i1=10)))


def inner(change: Callable[[tuple[Any, ...]], tuple[Statement, ...]]) -> Program:
    """The axpy program with the statements of its inner loop changed: load_x, load_y, fma, store_z."""
    program = axpy_program()
    (parallel,) = program.body
    assert isinstance(parallel, ParallelLoop)
    (loop,) = parallel.body
    assert isinstance(loop, Loop)
    body = change(loop.body)
    return replace(program, body=(replace(parallel, body=(replace(loop, body=body),)),))


def outer(change: Callable[[ParallelLoop], tuple[Statement, ...]]) -> Program:
    program = axpy_program()
    (parallel,) = program.body
    assert isinstance(parallel, ParallelLoop)
    return replace(program, body=change(parallel))


def test_lowered_programs_are_accepted() -> None:
    kernel = matmul(32, 64, 9, "{i: [[2], [8]], j: [[2], [16]], p: []}").backbone
    program = lower(kernel, script(kernel, MATMUL_TILED.format(i0=2, i1=2, j0=2, k=9)))
    assert verify(program) is program
    assert verify(axpy_program()) == axpy_program()


def _shift(store: Store, by: int) -> Store:
    return replace(store, index=replace(store.index, constant=store.index.constant + by))


def _inside(parallel: ParallelLoop, part: slice) -> ParallelLoop:
    return replace(parallel, body=(_first(parallel, part),))


def _first(parallel: ParallelLoop, part: slice) -> Loop:
    (loop,) = parallel.body
    assert isinstance(loop, Loop)
    return replace(loop, body=loop.body[part])


def _renamed(loop: Loop) -> Loop:
    """The same loop with a variable of its own, and accesses that do not use it."""
    body = tuple(
        replace(s, value=replace(s.value, index=Index(0, (("i0", 160),))))
        if isinstance(s, Assign) and isinstance(s.value, Load)
        else s
        for s in loop.body
    )
    return replace(loop, variable="other", body=body)


Z = Index(0)
OWN = Tensor("own", DType.F32, (1,), (1,), is_output=True)
MISTAKES: dict[str, tuple[Program, str]] = {
    "a value used before it is made": (
        inner(lambda b: (b[2], b[0], b[1], b[3])),
        "register load_x has no value here",
    ),
    "a register of another thread": (
        outer(
            lambda p: (Assign(Register("load_x", F32X16), Load("x", Z, F32X16)), _inside(p, slice(1, None)))
        ),
        "register load_x has no value here",
    ),
    "a register of a loop that has ended": (
        outer(lambda p: (replace(p, body=(_renamed(_first(p, slice(0, 3))), _first(p, slice(3, 4)))),)),
        "register fma has no value here",
    ),
    "an index past the end": (inner(lambda b: (*b[:3], _shift(b[3], 1))), "1 to 480 are accessed"),
    "an index before the start": (inner(lambda b: (*b[:3], _shift(b[3], -1))), "-1 to 478 are accessed"),
    "a wrong stride": (
        inner(lambda b: (*b[:3], replace(b[3], index=Index(0, (("i0", 161), ("i1", 16)))))),
        "0 to 481 are accessed",
    ),
    "an index with a foreign variable": (
        inner(lambda b: (*b[:3], replace(b[3], index=Index(0, (("i0", 160), ("i7", 16)))))),
        "uses i7 outside of its loop",
    ),
    "a prefetch of what is no argument": (
        inner(lambda b: (Prefetch("w", Z), *b)),
        "there is no argument w to prefetch",
    ),
    "a prefetch with a foreign variable": (
        inner(lambda b: (Prefetch("x", Index(0, (("i7", 16),))), *b)),
        "a prefetch of x uses i7 outside of its loop",
    ),
    "a prefetch with a share of a foreign loop": (
        inner(lambda b: (Prefetch("x", Index(0, (), (("i7", Share(8, 2, 16)),))), *b)),
        "a prefetch of x uses i7 outside of its loop",
    ),
    "a loop that is too short": (
        outer(lambda p: (replace(p, extent=2),)),
        "has 480 elements, but only 320 are written",
    ),
    "a loop that is too long": (outer(lambda p: (replace(p, extent=4),)), "0 to 639 are accessed"),
    "an empty loop": (outer(lambda p: (replace(p, extent=0),)), "loop i0 has 0 iterations"),
    "a parallel loop inside a loop": (
        outer(lambda p: (Loop("t", 2, (p,)),)),
        "parallel loop i0 is not outermost",
    ),
    "a parallel loop inside another, whose iterations do the same": (
        outer(lambda p: (ParallelLoop("t", 2, (p,)),)),
        "iterations of parallel loop t may store to the same z",
    ),
    "a parallel loop inside another, beside something": (
        outer(lambda p: (ParallelLoop("t", 1, (Assign(Register("a", F32), Number(0, F32)), p)),)),
        "parallel loop t has another one beside something else",
    ),
    "a parallel loop inside another, with memory of its own": (
        outer(lambda p: (ParallelLoop("t", 1, (replace(p, private=(OWN,)),)),)),
        "parallel loop i0 has memory of its own inside another",
    ),
    "two loops of one name": (outer(lambda p: (p, p)), "the name i0 is used twice"),
    "a loop named like a tensor": (outer(lambda p: (replace(p, variable="x"),)), "the name x is used twice"),
    "a store to an input": (
        inner(lambda b: (*b, replace(b[3], tensor="x"))),
        "x is not an output",
    ),
    "a store that all threads make": (
        inner(lambda b: (*b, replace(b[3], index=Index(0, (("i1", 16),))))),
        "iterations of parallel loop i0 may store to the same z",
    ),
    "an output that is read first": (
        inner(lambda b: (replace(b[0], value=replace(b[0].value, tensor="z")), *b[1:])),
        "output z is read before it is written",
    ),
    "an unknown tensor": (inner(lambda b: (*b, replace(b[3], tensor="w"))), "there is no tensor w"),
    "an unknown parameter": (
        inner(lambda b: (Assign(Register("a", F32), ParameterValue("beta", F32)), *b)),
        "there is no parameter beta",
    ),
    "a parameter of another type": (
        inner(lambda b: (Assign(Register("a", F32X16), ParameterValue("alpha", F32X16)), *b)),
        "there is no parameter alpha of type f32x16",
    ),
    "a value of another type": (
        inner(lambda b: (replace(b[0], register=Register("load_x", F32)), *b[1:])),
        "register load_x is f32, its value is f32x16",
    ),
    "a register that changes its type": (
        inner(lambda b: (*b, Assign(Register("fma", F32), Number(0, F32)))),
        "register fma changes its type",
    ),
    "a register used with another type": (
        inner(lambda b: (*b[:3], replace(b[3], value=Register("fma", F32)))),
        "register fma is f32x16, it is used as f32",
    ),
    "lanes that disagree": (
        inner(lambda b: (*b, Assign(Register("a", F32), Add(Number(1, F32), b[0].register)))),
        "operands of different types: f32, f32x16",
    ),
    "an element type that disagrees": (
        inner(lambda b: (*b, Assign(Register("a", Type(DType.I32)), Load("x", Z, Type(DType.I32))))),
        "x holds f32, it is accessed as i32",
    ),
    "an uneven vector": (
        inner(lambda b: (Assign(Register("a", Type(DType.F32, 3)), Load("x", Z, Type(DType.F32, 3))), *b)),
        "a vector has 2, 4, 8, .. lanes, not 3",
    ),
    "arithmetic in 16 bits": (
        inner(lambda b: (*b, Assign(Register("a", HALF), Neg(Convert(Load("x", Z, F32), DType.BF16))))),
        "there is no arithmetic in bf16",
    ),
    "a conversion that would round twice": (
        inner(lambda b: (*b, Assign(Register("a", HALF), Convert(Number(1, Type(DType.F64)), DType.BF16)))),
        "there is no conversion from f64 to bf16",
    ),
    "a conversion that is not said": (
        inner(lambda b: (*b, Assign(Register("a", F32), Convert(Load("x", Z, F32), DType.F64)))),
        "register a is f32, its value is f64",
    ),
    "a vector number": (
        inner(lambda b: (Assign(Register("a", F32X16), Number(0, F32X16)), *b)),
        "a number is a scalar",
    ),
    "a broadcast vector": (
        inner(lambda b: (*b[:3], replace(b[3], value=Broadcast(b[0].register, 16)))),
        "f32x16 cannot be spread",
    ),
    "a vector in the first lane": (
        inner(lambda b: (*b[:3], replace(b[3], value=FirstLane(b[0].register, 16, Combine.SUM)))),
        "f32x16 cannot be spread",
    ),
    "the lanes of a scalar": (
        inner(lambda b: (Assign(Register("a", F32), LaneReduction(Number(0, F32), Combine.SUM)), *b)),
        "the lanes of a scalar are combined",
    ),
    "a register named like a loop": (
        inner(lambda b: (Assign(Register("i1", F32), Number(0, F32)), *b)),
        "register i1 has the name of something else",
    ),
    "a name that is no identifier": (
        outer(lambda p: (Loop("i 0", 1, (Assign(Register("a", F32), Number(0, F32)),)), p)),
        "'i 0' is not an identifier",
    ),
    "a branch that is always taken": (
        inner(lambda b: (Branch("i1", 10, b, b),)),
        "a branch at 10 of i1 is always taken, or never",
    ),
    "a branch that is never taken": (
        inner(lambda b: (Branch("i0", 0, b, b),)),
        "a branch at 0 of i0 is always taken, or never",
    ),
    "a branch on what is no loop": (
        inner(lambda b: (Branch("i7", 1, b, b),)),
        "a branch at 1 of i7 is always taken, or never",
    ),
    "a branch that goes past the end": (
        inner(lambda b: (Branch("i1", 9, (), (*b[:3], _shift(b[3], 1))),)),
        "145 to 480 are accessed",
    ),
    "a branch that leaves something out": (
        inner(lambda b: (Branch("i1", 9, b, b[:3]),)),
        "has 480 elements, but only 432 are written",
    ),
    "a register of the other branch": (
        inner(lambda b: (Branch("i1", 9, b, b[3:]),)),
        "register fma has no value here",
    ),
    "a partial vector that is whole": (
        inner(lambda b: (Assign(Register("a", F32X16), PartialLoad("x", Z, F32X16, 16)), *b)),
        "16 lanes are no part of f32x16",
    ),
    "a partial store of nothing": (
        inner(lambda b: (*b, PartialStore("z", b[3].index, b[3].value, 0))),
        "0 lanes are no part of f32x16",
    ),
    "a partial load past the end": (
        inner(lambda b: (Assign(Register("a", F32X16), PartialLoad("x", Index(478), F32X16, 3)), *b)),
        "478 to 480 are accessed",
    ),
    "a partial vector that is not enough": (
        inner(lambda b: (*b[:3], PartialStore("z", b[3].index, b[3].value, 15))),
        "has 480 elements, but only 450 are written",
    ),
    "lanes of different vectors": (
        inner(lambda b: (*b[:3], replace(b[3], value=Blend(b[0].register, Broadcast(Number(0, F32), 8), 3)))),
        "lanes of f32x16 are blended with lanes of f32x8",
    ),
    "an output that is never written": (outer(lambda _: ()), "only 0 are written"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_refused(mistake: str) -> None:
    program, message = MISTAKES[mistake]
    with pytest.raises(VerificationError) as caught:
        verify(program)
    assert message in str(caught.value)

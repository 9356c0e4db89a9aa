"""Vectors put together from others, and positions of lanes: generated C does what the interpreter does."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import (
    EveryOther,
    Expression,
    Gather,
    Index,
    Interleave,
    Load,
    Number,
    Pack,
    Taken,
    Type,
)
from spacedsl.codegen.tree.program import Program, Statement, Store, TakeEach
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMPY_TYPE
from spacedsl.kernels.tensors import Tensor
from tests.codegen.interpreter import interpret

ELEMENTS = 64


def load(first: int, lanes: int, dtype: DType) -> Load:
    return Load("given", Index(first), Type(dtype, lanes))


def program(dtype: DType, lanes: int, *body: Statement) -> Program:
    given = Tensor("given", dtype, (ELEMENTS,), (1,), is_output=False)
    where = Tensor("where", DType.I32, (ELEMENTS + 16,), (1,), is_output=False)
    return Program("k", (given, where, Tensor("out", dtype, (lanes,), (1,), is_output=True)), (), body)


def shuffled(value: Expression, dtype: DType, lanes: int) -> Program:
    return program(dtype, lanes, Store("out", Index(0), value))


def looked_up(dtype: DType, lanes: int) -> Program:
    """Elements where others say, held within the array."""
    names = tuple(f"at_{lane}" for lane in range(lanes))
    taken = TakeEach(names, Load("where", Index(3), Type(DType.I32, lanes)), 5, 40)
    found = Pack(tuple(Load("given", Index(0, ((name, 1),)), Type(dtype)) for name in names))
    return program(dtype, lanes, taken, Store("out", Index(0), found))


def run(
    whole: Program, dtype: DType, lanes: int, folder: Path, flags: tuple[str, ...] = ()
) -> tuple[list[float], list[float]]:
    """What C stores, and what the interpreter does."""
    whole = verify(whole)
    given = np.arange(ELEMENTS).astype(NUMPY_TYPE[dtype])
    where = ((np.arange(ELEMENTS + 16) * 13) % 101 - 30).astype(np.int32)
    out = np.zeros(lanes, NUMPY_TYPE[dtype])
    # A library of the same path is loaded once.
    library = folder / f"{len([*folder.iterdir()])}.so"
    build_library(print_c(whole, 1), library, extra_flags=flags)
    ctypes.CDLL(str(library)).k(*(ctypes.c_void_p(array.ctypes.data) for array in (given, where, out)))
    memory: dict[str, list[Any]] = {"given": given.tolist(), "where": where.tolist(), "out": [0] * lanes}
    interpret(whole, memory, {})
    return out.tolist(), memory["out"]


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("dtype", [DType.U8, DType.I16, DType.F32, DType.F64])
def test_lanes_in_turns_and_every_other_one(dtype: DType, lanes: int, tmp_path: Path) -> None:
    halves = Interleave(load(10, lanes // 2, dtype), load(30, lanes // 2, dtype))
    found, wanted = run(shuffled(halves, dtype, lanes), dtype, lanes, tmp_path)
    assert found == wanted == [n for i in range(lanes // 2) for n in (10 + i, 30 + i)]
    other = EveryOther(load(7, lanes, dtype), load(7 + lanes - 1, lanes, dtype))
    found, wanted = run(shuffled(other, dtype, lanes), dtype, lanes, tmp_path)
    assert found == wanted == [7 + 2 * i for i in range(lanes)]


@pytest.mark.parametrize("lanes", [2, 8, 16])
@pytest.mark.parametrize("dtype", [DType.U8, DType.F32])
def test_each_lane_leads_somewhere(dtype: DType, lanes: int, tmp_path: Path) -> None:
    found, wanted = run(looked_up(dtype, lanes), dtype, lanes, tmp_path)
    where = [(n * 13) % 101 - 30 for n in range(3, 3 + lanes)]
    assert found == wanted == [max(5, min(40, at)) for at in where]


def gathered(dtype: DType, lanes: int, *, high: int = 40, extent: int = ELEMENTS) -> Program:
    """Elements where two vectors say together, the second one in steps of three."""
    kind = Type(DType.I32, lanes)
    taken = Taken(Load("where", Index(3), kind), 5, high, 1), Taken(Load("where", Index(4), kind), -2, 7, 3)
    return program(
        dtype, lanes, Store("out", Index(0), Gather("given", extent, Index(2), taken, Type(dtype, lanes)))
    )


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize(
    "dtype", [DType.BOOL, DType.I8, DType.U8, DType.I16, DType.F32, DType.U32, DType.F64, DType.I64]
)
@pytest.mark.parametrize("flags", [("-D__znver1__",), tuple(f"-U__znver{n}__" for n in range(1, 6))])
def test_lanes_are_gathered_from_all_over_an_array(
    dtype: DType, lanes: int, flags: tuple[str, ...], tmp_path: Path
) -> None:
    """Up to its last element, also where four bytes from there would lead out of it; lane by lane, and by
    instructions of the machine.
    """
    found, wanted = run(gathered(dtype, lanes), dtype, lanes, tmp_path, flags)
    where = [(n * 13) % 101 - 30 for n in range(3, 4 + lanes)]
    held = [2 + max(5, min(40, a)) + 3 * max(-2, min(7, b)) for a, b in pairwise(where)]
    assert max(held) == ELEMENTS - 1 or lanes < 8
    given = np.arange(ELEMENTS).astype(NUMPY_TYPE[dtype]).tolist()
    assert found == wanted == [given[at] for at in held]


def _taken(whole: Program) -> TakeEach:
    taken = whole.body[0]
    assert isinstance(taken, TakeEach)
    return taken


SINGLE, FOUR, EIGHT = (load(0, lanes, DType.F32) for lanes in (1, 4, 8))
RIGHT = looked_up(DType.F32, 4)
WRONG = {
    "the lanes of f32 and f32": shuffled(Interleave(SINGLE, SINGLE), DType.F32, 2),
    "the lanes of f32x4 and f32x8": shuffled(EveryOther(FOUR, EIGHT), DType.F32, 4),
    "i32x4 from 5 to 4": replace(RIGHT, body=(replace(_taken(RIGHT), high=4), *RIGHT.body[1:])),
    "i32 from 5 to 40": replace(
        RIGHT, body=(replace(_taken(RIGHT), value=Number(7, Type(DType.I32))), *RIGHT.body[1:])
    ),
    "is accessed": replace(RIGHT, body=(replace(_taken(RIGHT), high=ELEMENTS), *RIGHT.body[1:])),
    "accessed nobody knows where": gathered(DType.F32, 4, high=42),
    "given has 64 elements, not 60": gathered(DType.F32, 4, extent=60),
    "no gathers of f16x4": gathered(DType.F16, 4),
    "no gathers of u8x2 from 3 elements": gathered(DType.U8, 2, extent=3),
    "places from 5 to 2147483648": gathered(DType.F32, 4, high=1 << 31),
    "variable at_0 has the name": replace(RIGHT, body=(RIGHT.body[0], *RIGHT.body)),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_is_refused(message: str) -> None:
    verify(RIGHT)
    with pytest.raises(VerificationError, match=message):
        verify(WRONG[message])

"""Sweeps, names, conditions and positions in generated C, which does what the interpreter does."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.tree.expressions import Add, Convert, Counted, Index, Load, Mul, Number, Type
from spacedsl.codegen.tree.program import (
    Let,
    Loop,
    ParallelLoop,
    Program,
    Statement,
    Store,
    Sweep,
    Take,
    When,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMPY_TYPE
from spacedsl.kernels.pipeline.affine import Linear, extreme, remainder, variable
from spacedsl.kernels.tensors import Tensor
from tests.codegen.interpreter import interpret
from tests.codegen.tree.test_ranges import nests
from tests.kernels.pipeline.positions import positions

I32 = Type(DType.I32)
ELEMENTS = 40
GIVEN = Tensor("given", DType.I32, (ELEMENTS,), (1,), is_output=False)
NUMBERS = [(37 * n * n) % 101 - 50 for n in range(ELEMENTS)]


def index(form: Linear) -> Index:
    """Somewhere in an array, wherever the position is."""
    inside = extreme("max", extreme("min", form, Linear(ELEMENTS - 1)), Linear(0))
    return Index(inside.constant, (), atoms=inside.terms)


@st.composite
def bodies(draw: st.DrawFn, out: str) -> tuple[Statement, ...]:
    """A nest that goes on with what it finds, so that the order of its iterations counts."""
    nest = draw(nests())
    forms = positions(nest.names)

    def updated(place: Linear) -> Statement:
        before = Mul(Load(out, index(place), I32), Number(3, I32))
        return Store(out, index(place), Add(before, Counted(draw(forms), I32)))

    statements: tuple[Statement, ...] = (updated(remainder(draw(forms), ELEMENTS)),)
    if draw(st.booleans()):
        low, high = sorted(draw(st.tuples(st.integers(-30, 60), st.integers(-30, 60))))
        taken = Take("taken", Load("given", index(draw(forms)), I32), low, high)
        statements = (*statements, taken, updated(variable("taken") + draw(forms)))
    if draw(st.booleans()):
        least = tuple(draw(st.lists(forms, min_size=1, max_size=2)))
        otherwise = (updated(draw(forms)),) if draw(st.booleans()) else ()
        statements = (When(least, statements, otherwise),)
    for name, ends in reversed(nest.variables):
        if len(ends) == 1:
            statements = (Let(name, ends[0]), *statements)
        else:
            step = draw(st.sampled_from([1, 1, 2, 3]))
            statements = (Sweep(name, ends[0], ends[1], step, statements),)
    return statements


def outputs(count: int) -> list[Tensor]:
    return [Tensor(f"out{n}", DType.I32, (ELEMENTS,), (1,), is_output=True) for n in range(count)]


def zeros(tensors: Sequence[Tensor]) -> tuple[Statement, ...]:
    return tuple(
        Loop(f"zero_{t.name}", ELEMENTS, (Store(t.name, Index(0, ((f"zero_{t.name}", 1),)), _zero(t.dtype)),))
        for t in tensors
    )


def _zero(dtype: DType) -> Number:
    return Number(0, Type(dtype))


def assert_same(program: Program, numbers: dict[str, list[int]]) -> None:
    """In C and in the interpreter."""
    memory = {t.name: list(numbers.get(t.name, [0] * t.span)) for t in program.tensors}
    arrays = {t.name: np.array(memory[t.name], NUMPY_TYPE[t.dtype]) for t in program.tensors}
    interpret(verify(program), memory, {})
    with tempfile.TemporaryDirectory() as folder:
        flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-Wno-unused-parameter")
        library = build_library(print_c(program, 2), Path(folder) / "p.so", extra_flags=flags)
        function = getattr(ctypes.CDLL(str(library)), program.name)
        function(*(ctypes.c_void_p(a.ctypes.data) for a in arrays.values()))
    for tensor in program.tensors:
        wanted = np.array(memory[tensor.name], NUMPY_TYPE[tensor.dtype])
        np.testing.assert_array_equal(arrays[tensor.name], wanted)


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.data())
def test_c_does_what_random_nests_mean(data: st.DataObject) -> None:
    tensors = outputs(8)
    body = [Loop(f"once_{t.name}", 1, data.draw(bodies(t.name))) for t in tensors]
    assert_same(Program("nests", (GIVEN, *tensors), (), (*zeros(tensors), *body)), {"given": NUMBERS})


EDGES = {
    DType.U8: [0, 1, 200, 255], DType.I8: [-128, -1, 0, 127], DType.U16: [0, 3, 40000, 65535],
    DType.I16: [-(2**15), -7, 8, 2**15 - 1], DType.I32: [-(2**31), -1, 5, 2**31 - 1],
    DType.U32: [0, 2**31, 2**32 - 1, 6], DType.I64: [-(2**63), 2**63 - 1, -3, 4],
}  # fmt: skip


@pytest.mark.parametrize("dtype", EDGES)
def test_what_is_taken_is_held_and_computed_in_its_own_type(dtype: DType) -> None:
    """Also a sum that its type does not hold."""
    values = Tensor("values", dtype, (4,), (1,), is_output=False)
    (out,) = outputs(1)
    element = Load("values", Index(0, (("i", 1),)), Type(dtype))
    seven = Convert(Number(7, I32), dtype) if dtype is not DType.I32 else Number(7, I32)
    body: tuple[Statement, ...] = (
        Take("a", element, -2, 9),
        Store("out0", Index(2, (("a", 1),)), Counted(variable("i") + Linear(1), I32)),
        Take("b", Add(element, seven), 3, 30),
        Store("out0", Index(8, (("b", 1),)), Counted(variable("a") * 1000 + variable("b"), I32)),
    )
    program = Program("held", (values, out), (), (*zeros([out]), Loop("i", 4, body)))
    assert_same(program, {"values": EDGES[dtype]})


def test_threads_see_their_own_names() -> None:
    """Loops that are shared out together, with positions in each, and a name for something else around."""
    out = Tensor("out0", DType.I32, (4, 10), (10, 1), is_output=True)
    place = Let("place", variable("u") * 5)
    last = extreme("min", variable("place") + Linear(4), Linear(8))
    store = Store("out0", Index(0, (("t", 10), ("x", 1))), Counted(variable("x") * 7 + variable("u"), I32))
    shared = ParallelLoop(
        "t", 4, (ParallelLoop("u", 2, (place, Sweep("x", variable("place"), last, 1, (store,)))),)
    )
    around = Let("x", Linear(5))
    assert_same(Program("shared", (out,), (), (*zeros([out]), around, shared)), {})


def test_a_count_keeps_its_last_bits_in_every_lane() -> None:
    tensors, body = [], []
    for dtype in (DType.U8, DType.I8, DType.U16, DType.I32, DType.I64):
        for lanes in (1, 4):
            name = f"out_{dtype.label}_{lanes}"
            tensors.append(Tensor(name, dtype, (ELEMENTS,), (1,), is_output=True))
            form = variable(f"x_{name}") * 2_000_003 + Linear(-254)
            count = Counted(form, Type(dtype, lanes))
            store = Store(name, Index(0, ((f"x_{name}", 1),)), count)
            body.append(Sweep(f"x_{name}", Linear(0), Linear(ELEMENTS - lanes), lanes, (store,)))
    assert_same(Program("counts", tuple(tensors), (), (*zeros(tensors), *body)), {})

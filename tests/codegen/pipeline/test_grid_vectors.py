"""Vectors on GPUs: which elements are moved together, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.cuda.nvrtc import QUICKLY, compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.pipeline.grid_vectors import joined
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import (
    Add,
    Expression,
    Index,
    Load,
    Number,
    Position,
    Register,
    Type,
    type_of,
)
from spacedsl.codegen.tree.parts import expressions, statements
from spacedsl.codegen.tree.program import Assign, Grid, Program, Statement, Store, Sweep
from spacedsl.codegen.tree.verify import verify
from spacedsl.compiler import compile_space
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.kernel_file import PIPELINE_CUDA_SPACE, PipelineFile
from spacedsl.kernels.tensors import Tensor
from spacedsl.language.loader import load_space
from tests.codegen.cuda.grids import device
from tests.codegen.interpreter import interpret
from tests.codegen.pipeline.on_gpus import grids_of, schedule
from tests.codegen.pipeline.test_additions import differences, edited
from tests.kernels.pipeline.cases import scheduled
from tests.kernels.pipeline.files import pipeline

I32 = Type(DType.I32)

# ---- Statements --------------------------------------------------------------------------------------------

ROW = 24
ARRAYS = ("a", "b")


@st.composite
def runs(draw: st.DrawFn) -> list[Assign | Store]:
    """Loads, sums and stores of elements near each other, in any order: of one array, or of two."""
    made: list[Assign | Store] = [Assign(Register(f"r{n}", I32), Number(n, I32)) for n in range(4)]
    registers = st.integers(0, 3).map(lambda n: Register(f"r{n}", I32))
    rows = [(("x", 1),), (("x", 1), ("y", ROW))][: draw(st.sampled_from([1, 1, 1, 2]))]
    loaded, stored = draw(st.sampled_from([("a", "a"), ("a", "b"), ("ab", "b"), ("ab", "ab")]))
    for number in range(draw(st.integers(8, 30))):
        place = Index(draw(st.integers(0, 3)), draw(st.sampled_from(rows)))
        value: Expression = Add(draw(registers), Number(number, I32))
        match draw(st.sampled_from(["load", "load", "store", "store", "add", "update"])):
            case "load":
                made.append(Assign(draw(registers), Load(draw(st.sampled_from(loaded)), place, I32)))
            case "store":
                made.append(Store(draw(st.sampled_from(stored)), place, value))
            case "add":
                made.append(Assign(draw(registers), value))
            case _ if draw(st.integers(0, 3)) == 0:
                tensor, other = (
                    draw(st.sampled_from(stored)),
                    replace(place, constant=draw(st.integers(0, 3))),
                )
                made.append(Store(tensor, place, Add(draw(registers), Load(tensor, other, I32))))
    return made


def done(body: Sequence[Statement]) -> dict[str, list[Any]]:
    """What memory is like after it."""
    memory: dict[str, list[Any]] = {
        name: [100 * n + k for k in range(3 * ROW)] for n, name in enumerate(ARRAYS)
    }
    tensors = tuple(Tensor(name, DType.I32, (3 * ROW,), (1,), True) for name in ARRAYS)
    sweeps = body
    for name, last in (("y", 1), ("x", 12)):
        sweeps = (Sweep(name, Position(0), Position(last), 4 if name == "x" else 1, tuple(sweeps)),)
    interpret(Program("p", tensors, (), tuple(sweeps)), memory, {})
    return memory


def with_vectors(body: Sequence[Statement], apart: Mapping[str, int] | None = None) -> tuple[Statement, ...]:
    numbers = count()
    around = Sweep("x", Position(0), Position(12), 4, tuple(body))
    (made,) = joined((around,), apart or dict.fromkeys(ARRAYS, ROW), lambda name: f"{name}{next(numbers)}_")
    assert isinstance(made, Sweep)
    return made.body


def lanes(body: Sequence[Statement]) -> list[int]:
    """Of loads, then of stores; single elements left out."""
    loads = [e.type.lanes for e in expressions(body) if isinstance(e, Load)]
    stores = [type_of(s.value).lanes for s in statements(body) if isinstance(s, Store)]
    return [n for n in (*loads, *stores) if n > 1]


@given(runs())
def test_memory_is_the_same_whatever_is_moved_together(body: list[Assign | Store]) -> None:
    assert done(with_vectors(body)) == done(body)


def load(number: int, at: int, tensor: str = "a") -> Assign:
    return Assign(Register(f"r{number}", I32), Load(tensor, Index(at, (("x", 1),)), I32))


def store(at: int, number: int, tensor: str = "b") -> Store:
    return Store(tensor, Index(at, (("x", 1),)), Register(f"r{number}", I32))


X0, X1 = (Index(n, (("x", 1),)) for n in (0, 1))
R0 = Register("r0", I32)
FOUR = [load(n, n) for n in range(4)]

MOVED: Mapping[str, tuple[Sequence[Statement], list[int]]] = {
    "four": (FOUR, [4]),
    "four, and two": ([*FOUR, load(4, 4), load(5, 5)], [4, 2]),
    "from the second on": ([load(n, n + 1) for n in range(4)], [2]),
    "in any order": ([load(0, 2), load(1, 0), load(2, 3), load(3, 1)], [4]),
    "one of them twice": ([*FOUR, load(4, 2)], [4]),
    "to four": ([*FOUR, *(store(n, n) for n in range(4))], [4, 4]),
    "what is stored twice": ([*FOUR, *(store(n, n) for n in range(4)), store(1, 0)], [4, 2]),
    "each once it is loaded": (
        [s for n in range(4) for s in (load(n, n), store(n, n, "a"))], [4, 4]
    ),
    "what others have been stored to": ([store(0, 0, "a"), *FOUR], []),
    "what others read on their way": (
        [*FOUR, store(0, 0), Store("b", X1, Add(R0, Load("b", X0, I32)))], [4]
    ),
    "another place, which may be the same": (
        [*FOUR, Store("a", Index(0, (("y", 1),)), R0)], []
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MOVED)
def test_neighbours_are_moved_together(case: str) -> None:
    body, expected = MOVED[case]
    assert lanes(with_vectors(body)) == expected


def test_a_vector_ends_within_its_row() -> None:
    assert lanes(with_vectors(FOUR, {"a": 6})) == [2, 2]
    assert lanes(with_vectors(FOUR, {"a": 7})) == []
    assert lanes(with_vectors(FOUR, {"a": 0})) == [4]


def test_what_may_come_to_lie_in_registers_is_left_there() -> None:
    assert lanes(with_vectors(FOUR, {"b": ROW})) == []


def test_wide_elements_are_two_at_most() -> None:
    wide = Type(DType.F64)
    body = [Assign(Register(f"r{n}", wide), Load("a", Index(n, (("x", 1),)), wide)) for n in range(4)]
    assert lanes(with_vectors(body)) == [2, 2]


# ---- Schedules ---------------------------------------------------------------------------------------------

TILES = {"f.x.TASK": 64, "f.y.TASK": 4, "f.x.LANE": 4, "f.y.LANE": 1}


def sound(
    stages: str, sites: Mapping[str, str], width: int = 192, dtype: str = "f32"
) -> tuple[PipelineFile, Program]:
    image = f"{{image: {{dtype: {dtype}, extents: [{width + 8}, 20]}}}}"
    file = pipeline(stages, f"{{f: {{x: {width}, y: 16}}}}", image)
    return file, grids_of(file, schedule(file, sites, TILES))


def moved(program: Program, name: str) -> set[int]:
    """Lanes of what is loaded or stored of an array."""
    loads = {e.type.lanes for e in expressions(program.body) if isinstance(e, Load) and e.tensor == name}
    stores = (s for s in statements(program.body) if isinstance(s, Store) and s.tensor == name)
    return loads | {type_of(s.value).lanes for s in stores}


POINTS = "f(x, y) = image(x, y) * image(x, y)"


def test_a_thread_with_four_points_of_a_row_moves_them_together() -> None:
    _, program = sound(POINTS, {})
    assert moved(program, "image") == moved(program, "f") == {4}


def test_rows_that_begin_anywhere_are_moved_in_smaller_parts() -> None:
    """Nobody but the caller says how long rows of arguments are."""
    assert moved(sound(POINTS, {}, 190)[1], "f") >= {2}
    assert moved(sound(POINTS, {}, 190)[1], "f").isdisjoint({4})
    assert moved(sound(POINTS, {}, 189)[1], "f") == {1}


STENCIL = "a(x, y) = image(x, y) + image(x + 1, y)\nf(x, y) = a(x, y) + a(x + 1, y) * a(x + 2, y)"


@pytest.mark.parametrize("site", ["TASK", "ROOT"])
def test_rows_of_what_threads_share_begin_where_vectors_may(site: str) -> None:
    _, program = sound(STENCIL, {"a": site})
    assert moved(program, "a") >= {4}
    made = {t.name: t for s in program.body if isinstance(s, Grid) for t in s.shared}
    made |= {s.tensor.name: s.tensor for s in program.scratch}
    rows = made["a"].strides[0]
    assert rows % (4 if site == "TASK" else 8) == 0
    assert rows >= made["a"].shape[-1]


def test_rows_are_no_longer_than_points_where_each_thread_has_one() -> None:
    file = pipeline(STENCIL, "{f: {x: 192, y: 16}}", "{image: {dtype: f32, extents: [200, 20]}}")
    tiles = {**TILES, "f.x.LANE": 1, "a.x.LANE": 1}
    program = grids_of(file, schedule(file, {"a": "TASK"}, tiles))
    (shared,) = (t for s in program.body if isinstance(s, Grid) for t in s.shared)
    assert shared.shape == (4, 66)
    assert shared.strides == (66, 1)


def test_rows_that_others_go_down_are_no_longer_than_points() -> None:
    stages = "a(x, y) = image(x, y) + 1\nf(x, y) = a(y, x) + a(y + 1, x) * a(y, x)"
    file = pipeline(stages, "{f: {x: 128, y: 16}}", "{image: {dtype: f32, extents: [200, 200]}}")
    tiles = {"f.x.TASK": 64, "f.y.TASK": 4, "f.x.LANE": 4, "f.y.LANE": 1, "a.x.LANE": 1, "a.y.LANE": 1}
    candidate = schedule(file, {"a": "TASK"}, tiles)
    steps = {step.name: step for step in file.backbone.inner}
    assert CandidateDecisions(candidate).beside(steps["a"]) == 1
    (shared,) = (t for s in grids_of(file, candidate).body if isinstance(s, Grid) for t in s.shared)
    assert shared.strides == (5, 1)


def test_a_space_need_not_say_what_is_beside_each_other(tmp_path: Path) -> None:
    """There are no vectors then that need longer rows."""
    for path in PIPELINE_CUDA_SPACE.parent.glob("pipeline*.space"):
        text = path.read_text()
        if path == PIPELINE_CUDA_SPACE:
            begin, end = text.index("set Row("), text.index("/// Bytes of what a block shares")
            text = (text[:begin] + text[end:]).replace("room($b)", "extent($b)")
            assert "beside(" not in text
        (tmp_path / path.name).write_text(text)
    file = pipeline(STENCIL, "{f: {x: 192, y: 16}}", "{image: {dtype: f32, extents: [200, 20]}}")
    rules = compile_space(load_space(tmp_path / PIPELINE_CUDA_SPACE.name))
    here = instantiate(rules, file.backbone, device(), Engine.NATIVE)
    candidate = scheduled(here, {"a": "TASK"}, TILES)
    (shared,) = (t for s in grids_of(file, candidate).body if isinstance(s, Grid) for t in s.shared)
    assert shared.strides == (66, 1)


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize(
    "dtype", ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"]
)
def test_vectors_of_all_types_are_right(dtype: str, tmp_path: Path) -> None:
    file, program = sound(STENCIL, {"a": "TASK"}, dtype=dtype)
    assert max(moved(program, "f")) == (2 if dtype in ("u64", "i64", "f64") else 4)
    assert differences(file, [program], tmp_path) == [""]
    compile_cubin(print_cuda(program), device().compute_capability, QUICKLY)


def test_a_vector_that_begins_anywhere_is_refused() -> None:
    _, program = sound(POINTS, {})

    def off(statement: Statement) -> Sequence[Statement]:
        if isinstance(statement, Store) and type_of(statement.value).lanes == 4:
            return [replace(statement, index=replace(statement.index, constant=statement.index.constant + 1))]
        return [statement]

    with pytest.raises(VerificationError, match="a vector of f32x4 in f begins where none may"):
        verify(replace(program, body=edited(program.body, off), phases=()))

"""Partial results of tasks: what they begin with, where they lie, and how they become one."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import (
    Broadcast,
    Compare,
    Convert,
    Expression,
    Index,
    Load,
    Number,
    Register,
)
from spacedsl.codegen.tree.parts import with_blocks
from spacedsl.codegen.tree.program import Assign, ParallelLoop, Program, Statement, Store, Sweep
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline.affine import Linear
from spacedsl.kernels.pipeline.algorithm import Comparator, Stage, Update
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.lanes import summed_along
from spacedsl.kernels.pipeline.reductions import neutral
from spacedsl.kernels.pipeline.reference import evaluate
from tests.codegen.pipeline.test_lower import found, lowered
from tests.kernels.pipeline.cases import IMAGE, inputs_of, instance, named, scheduled
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.pointwise import combined, elements, held
from tests.kernels.pipeline.scheduled import outputs_of

PARTS: Mapping[str, Mapping[str, int]] = {
    "a histogram": {"h.1.r.TASK": 2, "rows.1.r.TASK": 4, "rows.1.y.CHUNK": 2},
    "a histogram of each column": {"h.1.r.TASK": 1, "h.1.x.CHUNK": 4},
    "a product": {"f_sum.1.k.TASK": 2, "f_sum.1.y.CHUNK": 3, "f_sum.1.x.CHUNK": 2},
    "two updates": {"f.1.r.TASK": 2, "f.2.r.TASK": 1},
    "reductions of every kind": {"s.1.q.TASK": 3, "b.1.r.TASK": 4, "m.1.r.TASK": 2, "m.2.r.TASK": 3},
    "one value": {"t.1.q.TASK": 2},
    "the best of many": {"f.1.q.TASK": 2, "f.2.r.TASK": 1, "f.2.x.CHUNK": 3, "l.1.r.TASK": 2},
    "updates of an output": {"f.1.r.TASK": 1},
}  # fmt: skip


def in_parts(case: str, vector_bytes: int = 16) -> tuple[PipelineFile, Program]:
    file = named(case)
    candidate = scheduled(instance(file.backbone), {}, PARTS[case])
    return file, lowered(file, candidate, vector_bytes)


def is_right(file: PipelineFile, program: Program) -> bool:
    try:
        return found(file, program) == outputs_of(
            file.algorithm, elements(file.algorithm, file.boxes, inputs_of(file))
        )
    except TypeError:
        # An element that nobody has stored is None.
        return False


@pytest.mark.parametrize("vector_bytes", [4, 16, 64])
@pytest.mark.parametrize("case", PARTS)
def test_what_tasks_have_is_combined(case: str, vector_bytes: int) -> None:
    file, program = in_parts(case, vector_bytes)
    loops = [s.variable for s in program.body if isinstance(s, ParallelLoop)]
    assert sum("combined" in name for name in loops) == len(file.backbone.reductions)
    assert is_right(file, program)


def test_large_results_are_combined_by_many() -> None:
    stages = "f(x, y) = x - y\nf(x, y) += image(x, r) * (r + y) for r in 0:9"
    file = pipeline(stages, "{f: {x: 67, y: 301}}", IMAGE)
    candidate = scheduled(instance(file.backbone), {}, {"f.1.r.TASK": 2})
    program = lowered(file, candidate, 32)
    (loop,) = [s for s in program.body if isinstance(s, ParallelLoop) and "combined" in s.variable]
    assert loop.extent > 2
    assert is_right(file, program)


# ---- Mistakes ---------------------------------------------------------------------------------------------

Edit = Callable[[Statement], Sequence[Statement]]


def edited(body: Sequence[Statement], edit: Edit) -> tuple[Statement, ...]:
    return tuple(e for s in body for e in edit(with_blocks(s, lambda inner: edited(inner, edit))))


def in_one_part(index: Index, is_part: Callable[[str], bool]) -> Index:
    return replace(index, terms=tuple(term for term in index.terms if not is_part(term[0])))


@pytest.mark.parametrize("case", PARTS)
def test_tasks_that_share_partial_results_are_refused(case: str) -> None:
    _, program = in_parts(case)
    names = {s.tensor.name for s in program.scratch if s.tensor.name.endswith("_parts")}

    def edit(statement: Statement) -> Sequence[Statement]:
        if isinstance(statement, Store) and statement.tensor in names:
            at = in_one_part(statement.index, lambda name: name.endswith("_task"))
            return (replace(statement, index=at),)
        return (statement,)

    with pytest.raises(VerificationError, match="may store to the same"):
        verify(replace(program, body=edited(program.body, edit)))


def is_start(statement: Statement) -> bool:
    """Whether it stores a number that does not depend on anything."""
    if not isinstance(statement, Store):
        return False
    value = statement.value
    while isinstance(value, Broadcast | Convert):
        value = value.value
    return isinstance(value, Number)


def other(value: Expression) -> Expression:
    """A number that is not neutral, in its place."""
    if isinstance(value, Broadcast | Convert):
        return replace(value, value=other(value.value))
    assert isinstance(value, Number)
    return replace(value, value=2 if value.type.dtype is not DType.BOOL else 1)


def backward(statement: Statement, part: str, last: int) -> Statement:
    """With what the last part has in place of the first one, and so on."""
    match statement:
        case Assign(_, Load(_, index) as load):
            apart = sum(number for name, number in index.terms if name == part)
            terms = tuple((name, -number if name == part else number) for name, number in index.terms)
            there = replace(index, constant=index.constant + apart * last, terms=terms)
            return replace(statement, value=replace(load, index=there))
    return statement


DIFFERENCES = ("a histogram of each column", "two updates")
"""What is the same for all points has no effect there."""

BEST = "the best of many"
"""Of which it makes no difference how often it is looked at, but in which order."""

EQUALS: Mapping[str, Comparator] = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}

MISTAKES = ("a part too few", "each part twice", "not begun", "begun with something else")


@pytest.mark.parametrize(
    ("case", "mistake"),
    [
        (case, mistake)
        for case in PARTS
        for mistake in MISTAKES
        if (mistake != "begun with something else" or case not in DIFFERENCES)
        and (mistake != "each part twice" or case != BEST)
    ]
    + [(BEST, "the last part first"), (BEST, "another one of equals")],
)
def test_mistakes_are_seen(case: str, mistake: str) -> None:
    file, program = in_parts(case)
    names = {s.tensor.name for s in program.scratch if s.tensor.name.endswith("_parts")}

    def edit(statement: Statement) -> Sequence[Statement]:
        match statement:
            case Sweep(variable, _, last, _, body) if variable.startswith("part"):
                if mistake == "a part too few":
                    return (replace(statement, last=last + Linear(-1)),)
                if mistake == "each part twice":
                    return (replace(statement, body=(*body, *body)),)
                if mistake == "the last part first":
                    backwards = tuple(backward(inner, variable, last.constant) for inner in body)
                    return (replace(statement, body=backwards),)
            case Assign(Register(name), Compare() as compared) if name.startswith("is_better"):
                if mistake == "another one of equals":
                    turned = replace(compared, comparator=EQUALS[compared.comparator])
                    return (replace(statement, value=turned),)
            case Store(tensor, _, value) if tensor in names and is_start(statement):
                if mistake == "not begun":
                    return ()
                if mistake == "begun with something else":
                    return (replace(statement, value=other(value)),)
        return (statement,)

    assert not is_right(file, replace(program, body=edited(program.body, edit)))


# ---- Numbers ----------------------------------------------------------------------------------------------

OPERATORS = {
    "+": (DType.I8, DType.U32, DType.F16, DType.F32, DType.F64), "*": (DType.I32, DType.F32),
    "min": (DType.I16, DType.U8, DType.I64), "max": (DType.I32, DType.U64), "&": (DType.I8, DType.U16),
    "|": (DType.I64, DType.U8), "^": (DType.I32,),
}  # fmt: skip


FLOATS = (DType.F16, DType.BF16, DType.F32, DType.F64)


def update_of(operator: str, dtype: DType, *, is_scattered: bool) -> tuple[Stage, Update]:
    at, value = ("f(i32(a(r, 0)) % 3)", "a(0, r)") if is_scattered else ("f(x)", "a(r, x)")
    joined = f"{operator}({at}, {value})" if operator in ("min", "max") else f"{at} {operator} {value}"
    text = f"f(x) = {dtype.label}(1)\n{at} = {joined} for r in 0:4"
    file = pipeline(text, "{f: {x: 3}}", f"{{a: {{dtype: {dtype.label}, rank: 2}}}}")
    (stage,) = [s for s in file.algorithm.stages if s.name == "f"]
    return stage, stage.updates[0]


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_neutral_changes_nothing(operator: str) -> None:
    """Not even the sign of a zero."""
    for dtype in OPERATORS[operator]:
        start = neutral(*update_of(operator, dtype, is_scattered=True))
        assert start is not None
        (constant,) = start
        numbers = (
            [0.0, -0.0, 1.5, -math.inf, math.inf] if dtype.is_float else [dtype.least, 0, dtype.greatest, 5]
        )
        for number in numbers:
            value = held(number, dtype)
            after = held(combined(operator, value, held(constant.value, dtype)), dtype)
            assert (after, math.copysign(1, after)) == (value, math.copysign(1, value))


def test_extremes_of_floats_have_parts_only_where_each_element_meets_a_point() -> None:
    """What is no number would become one elsewhere."""
    assert neutral(*update_of("max", DType.F32, is_scattered=False)) is not None
    assert neutral(*update_of("max", DType.F32, is_scattered=True)) is None
    assert neutral(*update_of("-", DType.F32, is_scattered=False)) is None


def test_lanes_have_no_parts_of_what_keeps_the_best() -> None:
    """They go through a row in turns, and the first of several equals would not be the first."""
    row = "m() = (0, 0)\nm() = (image(r, 0), r) for r in 0:70 where image(r, 0) > m().0"
    file = pipeline(row, "{m: {}}", IMAGE)
    (step,) = file.backbone.reductions
    assert summed_along(step, {}) is None
    assert is_right(file, lowered(file, scheduled(instance(file.backbone), {}, {"m.1.r.TASK": 32}), 32))
    greatest = pipeline("m() = 0\nm() max= image(r, 0) for r in 0:70", "{m: {}}", IMAGE)
    assert summed_along(greatest.backbone.reductions[0], {}) == "r"


@pytest.mark.parametrize("dtype", [DType.U8, DType.I32, DType.U64, *FLOATS])
def test_of_equals_in_several_parts_the_first_is_kept(dtype: DType, tmp_path: Path) -> None:
    """In vectors, whatever is compared; what is no number is in none of them, nor a zero of another sign."""
    count, label = 61, dtype.label
    stages = (
        f"f(x) = ({label}(0), i64(-1))\nf(x) = (a(x, r), i64(r)) for r in 0:40 where a(x, r) > f(x).0\n"
        f"g(x) = ({label}(100), i64(-1))\ng(x) = (a(x, r), i64(r)) for r in 0:40 where a(x, r) < g(x).0"
    )
    outputs = f"{{f: {{x: {count}}}, g: {{x: {count}}}}}"
    file = pipeline(stages, outputs, f"{{a: {{dtype: {label}, extents: [{count}, 40]}}}}")
    candidate = scheduled(instance(file.backbone), {}, {"f.1.r.TASK": 6, "g.1.r.TASK": 1})
    special = [0.0, -0.0, math.nan, -math.inf, 1, 2] if dtype.is_float else [0, 1, 2, 3]
    drawn = np.random.default_rng(5).choice(np.array(special), (40, count))
    given = drawn.astype(NUMBER_TYPE[dtype])
    library = ctypes.CDLL(str(build_library(print_c(lowered(file, candidate, 32), 2), tmp_path / "f.so")))
    expected = [
        array for arrays in evaluate(file.algorithm, file.boxes, {"a": given}).values() for array in arrays
    ]
    found = [np.zeros_like(array) for array in expected]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (given, *found)]
    getattr(library, entry_name("k"))(*pointers)
    assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]
    assert len({*expected[1].tolist()}) > 1


def test_results_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    """Of floats neither, to the last bit."""
    photo = "{photo: {dtype: f32, extents: [640]}}"
    file = pipeline("f(i) = 0.5\nf(r % 37) += photo(r) for r in 0:640", "{f: {i: 37}}", photo)
    candidate = scheduled(instance(file.backbone), {}, {"f.1.r.TASK": 24})
    program = lowered(file, candidate, 32)
    given = np.random.default_rng(4).random(640, np.float32)
    results = []
    for threads in (1, 2, 5):
        library = ctypes.CDLL(str(build_library(print_c(program, threads), tmp_path / f"{threads}.so")))
        result = np.zeros(37, np.float32)
        run = getattr(library, entry_name(program.name))
        run(ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(result.ctypes.data))
        results.append(result)
    expected = 0.5 + np.bincount(np.arange(640) % 37, given)
    assert np.allclose(results[0], expected)
    assert all((result == results[0]).all() for result in results)

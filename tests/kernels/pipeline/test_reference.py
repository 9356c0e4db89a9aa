"""The evaluator of whole arrays, against one that goes point by point."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline import contractions, reference
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Cast,
    Comparator,
    Compare,
    Constant,
    Expression,
    Extent,
    Input,
    Read,
    Select,
    Stage,
    Unary,
    Variable,
)
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.reference import evaluate, shape
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.pointwise import Point, elements

Array = NDArray[Any]


def inputs_of(file: PipelineFile, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {
        i.name: generator.integers(0, 100, shape(file.boxes[i.name])).astype(NUMBER_TYPE[i.dtype])
        for i in file.algorithm.inputs
        if i.name in file.boxes
    }


def compare(file: PipelineFile, inputs: dict[str, Array]) -> None:
    """All elements of all stages are the same, to the last bit."""

    def element(name: str) -> Any:
        lows = [e.low for e in file.boxes[name]]

        def at(point: Point) -> Any:
            found = inputs[name][tuple(p - low for p, low in zip(point, lows, strict=True))[::-1]]
            return found if found.dtype.kind == "f" else int(found)

        return at

    expected = elements(file.algorithm, file.boxes, {name: element(name) for name in inputs})
    found = evaluate(file.algorithm, file.boxes, inputs)
    for stage in file.algorithm.stages:
        box = file.boxes[stage.name]
        for point, values in expected[stage.name].items():
            at = tuple(p - e.low for p, e in zip(point, box, strict=True))[::-1]
            for array, value in zip(found[stage.name], values, strict=True):
                assert value is None or np.array_equal(array[at], value, equal_nan=array.dtype.kind == "f"), (
                    stage.name, point, array[at], value,
                )  # fmt: skip


@pytest.mark.parametrize(
    ("stages", "outputs"),
    [
        ("f(x, y) = u8(image(x, y) * 3 - image(y, x))", "{f: {x: 7, y: 5}}"),
        ("f(x, y) = x - 2 * y\nf(x, 3) = 9\nf(2, y) += x0(y)".replace("x0(y)", "y"), "{f: {x: 5, y: 6}}"),
        ("f(i) = 0\nf(image(r, s) % 8) += 1 for r in 0:6, s in 0:5 where r < s", "{f: {i: 8}}"),
        ("f(i) = 0\nf(image(r, s) % 8) += r for r in 0:80, s in 0:70 where r != s", "{f: {i: 8}}"),
        ("f(x, y) = i32(image(x, y))\nf(x, r) = f(x, r - 1) * 3 + f(x, r) for r in 1:6", "{f: {x: 4, y: 6}}"),
        ("f(x, y) = 1\nf(r, s) = f(r - 1, s) + f(r, s - 1) for r in 1:6, s in 1:5", "{f: {x: 6, y: 5}}"),
        ("f(x) = sum[r in -2:3, s in 0:2](i32(image(x + r, s)) * r)", "{f: {x: 6}}"),
        ("f(x) = argmin[r in 0:9](image(x, r)) + argmax[r in 2:9](image(r, x))", "{f: {x: 6}}"),
        ("f(x) = max[r in 0:4](image(x, r)) - min[r in 0:4](image(r, x))", "{f: {x: 6}}"),
        ("f(x) = (0, 1)\nf(x) = (f(x).1, f(x).0 + r) for r in 0:5\ng(x) = f(x).0 - f(x).1", "{g: {x: 3}}"),
        (
            "b(i) = (-1, 0)\nb(image(r, 0) % 4) = (i32(image(r, 1)), r) for r in 0:9 "
            "where image(r, 1) >= b(image(r, 0) % 4).0\ng(i) = b(i).0 - b(i).1",
            "{g: {i: 4}}",
        ),
        ("g(x) = undefined(f32)\ng(r) = f32(r) / 3 for r in 0:4\nf(x) = g(x)", "{f: {x: 4}}"),
        ("f(x, y) = select(x < y, image(x, y), x == y, 7, image(y, x))", "{f: {x: 4, y: 4}}"),
        ("f(x) = mux(x - 1, 5, 6, image(x, x))", "{f: {x: 6}}"),
        ("f(x) = absd(image(x, 0), image(x, 1)) + u8(absd(x, 3))", "{f: {x: 6}}"),
        ("f(x) = u8_sat(image(x, 0) * 4) + i8_sat(i32(x) * 50 - 170)", "{f: {x: 8}}"),
        (
            "f(x) = i32_sat((f32(image(x, 0)) - 128) * 3e8) + i32(u32_sat(f64(image(x, 1)) * 9e7))",
            "{f: {x: 9}}",
        ),
        ("f(x) = i16_sat(f16(image(x, 0)) * 400) - i16_sat(bf16(image(x, 1)) * -400)", "{f: {x: 9}}"),
        ("f(x) = u64_sat(f32(image(x, 0)) * 1e17) ^ u64(i64_sat((f64(x) - 4) * 5e18))", "{f: {x: 9}}"),
        ("f(x) = select(bool(0.5), 1, 2) + i32(select(x > 3, true, 0)) + u8(x) * true", "{f: {x: 6}}"),
        ("f(x) = -7 / (x - 2) + -7 % (x - 2)", "{f: {x: 6}}"),
        ("f(x, y) = image(2 * x + 1, y / 2) + image(y, 3)", "{f: {x: 4, y: 6}}"),
        ("f(x, y, c) = image(y, c) + image(c, x)", "{f: {x: 2, y: 3, c: 4}}"),
        ("k = 3\nf(x) = k + x", "{f: {x: 2}}"),
    ],
)
def test_values_are_those_of_single_points(stages: str, outputs: str) -> None:
    file = pipeline(stages, outputs, "{image: {dtype: u8, rank: 2}}")
    compare(file, inputs_of(file))


@pytest.mark.parametrize("rule", ["repeat_edge", "repeat_image", "mirror_image", "mirror_interior"])
def test_what_lies_outside_of_an_input(rule: str) -> None:
    """NumPy knows the same rules by other names."""
    mode = {"repeat_edge": "edge", "repeat_image": "wrap", "mirror_image": "symmetric"}.get(rule, "reflect")
    file = pipeline(f"f(x) = {rule}(a, x)", "{f: {x: -9:16}}", "{a: {dtype: i32, extents: [7]}}")
    (given,) = inputs_of(file).values()
    (found,) = evaluate(file.algorithm, file.boxes, {"a": given})["f"]
    assert np.array_equal(found, np.pad(given, 9, mode=mode))  # type: ignore[call-overload]


@pytest.mark.parametrize("rule", ["repeat_edge", "repeat_image", "mirror_image", "mirror_interior"])
@pytest.mark.parametrize("low", [0, 3, -4])
def test_what_lies_outside_of_a_stage(rule: str, low: int) -> None:
    """As of an input that has what the stage has there."""
    name = f"{rule}(g, x in {low}:{low} + 7, y)"
    file = pipeline(f"g(x, y) = 3 * x * x + y\nf(x, y) = {name}", f"{{f: {{x: {low - 9}:{low + 16}, y: 2}}}}")
    (found,) = evaluate(file.algorithm, file.boxes, {})["f"]
    mode = {"repeat_edge": "edge", "repeat_image": "wrap", "mirror_image": "symmetric"}.get(rule, "reflect")
    stage = 3 * np.arange(low, low + 7) ** 2 + np.arange(2)[:, None]
    assert np.array_equal(found, np.pad(stage, ((0, 0), (9, 9)), mode=mode))  # type: ignore[call-overload]
    assert [(e.low, e.high) for e in file.boxes["g"]] == [(low, low + 6), (0, 1)]


def test_a_constant_outside_of_a_stage_with_several_values() -> None:
    file = pipeline("g(x) = (x, x * x)\nf(x) = constant_exterior(g, -5, x in 2:6).1", "{f: {x: 9}}", "{}")
    (found,) = evaluate(file.algorithm, file.boxes, {})["f"]
    assert found.tolist() == [-5, -5, 4, 9, 16, 25, -5, -5, -5]


def test_a_constant_outside_of_an_input() -> None:
    file = pipeline("f(x) = constant_exterior(a, -5, x)", "{f: {x: -2:9}}", "{a: {dtype: i32, extents: [7]}}")
    (given,) = inputs_of(file).values()
    (found,) = evaluate(file.algorithm, file.boxes, {"a": given})["f"]
    assert np.array_equal(found, np.pad(given, 2, constant_values=-5))


def test_a_histogram_of_many_points_is_that_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: all at once, and one after the other."""
    file = pipeline("f(i) = 0\nf(a(r)) += 1 for r in 0:5000", "{f: {i: 256}}", "{a: {dtype: u8, rank: 1}}")
    (given,) = inputs_of(file).values()
    for most in (reference.MOST_TURNS, 10**9):
        monkeypatch.setattr(reference, "MOST_TURNS", most)
        (found,) = evaluate(file.algorithm, file.boxes, {"a": given})["f"]
        assert np.array_equal(found, np.bincount(given, minlength=256))


GATHERED = {
    "the greatest of all": ("m() = 0; m() max= a(x, y) - 50 for x in 0:80, y in 0:70", "{m: {}}"),
    "least ones under a condition": (
        "m(y) = 9; m(y) min= a(r, y + s) - 60 for r in 0:80, s in 0:60 where r != s", "{m: {y: 9}}"
    ),
    "sums that wrap around": (
        "b(x, y) = u8(a(x, y)); m(y) = u8(0); m(y) += b(r, y + s) * 3 for r in 0:80, s in 0:60", "{m: {y: 9}}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GATHERED)
@pytest.mark.parametrize("together", [1, 37, 1000, 10**6])
def test_what_gathers_many_points_does_so_in_blocks(
    case: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one after the other: ranges whole, in parts, and point by point."""
    stages, outputs = GATHERED[case]
    inputs = "{a: {dtype: i32, extents: [80, 70]}}"
    file = pipeline(stages.replace("; ", "\n"), outputs, inputs)
    given = inputs_of(file)
    monkeypatch.setattr(reference, "MOST_TOGETHER", together)
    (found,) = evaluate(file.algorithm, file.boxes, given)["m"]
    monkeypatch.setattr(reference, "MOST_TURNS", 10**9)
    (expected,) = evaluate(file.algorithm, file.boxes, given)["m"]
    np.testing.assert_array_equal(found, expected)


CONTRACTED = {
    "a convolution": (
        "s(c, x, y) = 1.5; "
        "s(c, x, y) += w(k, i, c) * a(k, 2 * x + i, y + j) for k in 0:3, i in 0:4, j in 0:2",
        "{s: {c: 4, x: -3:5, y: 1:7}}",
    ),
    "one for each channel": (
        "s(c, x) = f32(0); s(c, x) += a(c, x - i, 3) * w(i, c, c) for i in -2:3", "{s: {c: 5, x: 9}}"
    ),
    "what depends on less": (
        "s(x, y) = f32(2); s(x, y) += w(k, x, 0) * w(x, k, 1) for k in 0:6, r in 0:3", "{s: {x: 4, y: 5}}"
    ),
    "one value": ("s() = f32(0); s() += w(k, i, 0) * a(i, 4 - k, k) for k in 0:4, i in 1:3", "{s: {}}"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTRACTED)
@pytest.mark.parametrize("copied", [7, 10**6])
def test_sums_of_products_are_contracted(case: str, copied: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one after the other; sums of integers, which no order rounds."""
    stages, outputs = CONTRACTED[case]
    file = pipeline(
        stages.replace("; ", "\n"), outputs, "{w: {dtype: f32, rank: 3}, a: {dtype: f32, rank: 3}}"
    )
    given = inputs_of(file)
    (expected,) = evaluate(file.algorithm, file.boxes, given)["s"]
    done: list[bool] = []

    def contract(*of: Any) -> bool:
        done.append(contractions.contract(*of))
        return done[-1]

    monkeypatch.setattr(reference, "MOST_TOGETHER", 0)
    monkeypatch.setattr(contractions, "MOST_COPIED", copied)
    monkeypatch.setattr(reference, "contract", contract)
    (found,) = evaluate(file.algorithm, file.boxes, given)["s"]
    np.testing.assert_array_equal(found, expected)
    assert done == [case != "one value" or copied > 7]


def test_other_sums_are_not_contracted() -> None:
    def is_contracted(value: str, dtype: str = "f32") -> bool:
        stages = f"s(x) = {dtype}(0)\ns(x) += {value} for k in 0:3"
        file = pipeline(stages, "{s: {x: 4}}", f"{{a: {{dtype: {dtype}, rank: 1}}}}")
        stage = file.algorithm.stage("s")
        gathered = reference.gathering(stage, stage.updates[0])
        assert gathered is not None
        arrays = {name: (array,) for name, array in inputs_of(file).items()}
        axes, along = [("x", Extent(0, 4))], [("k", Extent(0, 3))]
        result = np.zeros(4, NUMBER_TYPE[stage.dtypes[0]])
        return contractions.contract(gathered.right, arrays, file.boxes, axes, along, result)

    assert is_contracted("a(x) * a(k)")
    for value in ("a(x) + a(k)", "a(x) * 2", "a(x / 2) * a(k)", "a(i32(clamp(a(x), 0, 3))) * a(k)"):
        assert not is_contracted(value), value
    assert not is_contracted("a(x) * a(k)", "i32")


# ---- Generated expressions of all types -------------------------------------------------------------------

_INTEGERS = [d for d in DType if d.is_integer]


def _constants(dtype: DType) -> st.SearchStrategy[Expression]:
    if dtype.is_float:
        return st.floats(-4, 4, width=16).map(lambda v: Constant(v, dtype))
    if dtype is DType.BOOL:
        return st.booleans().map(lambda v: Constant(v, dtype))
    return st.integers(max(dtype.least, -200), min(dtype.greatest, 200)).map(lambda v: Constant(v, dtype))


@st.composite
def expressions(draw: st.DrawFn, dtype: DType, depth: int) -> Expression:
    """Of a type, over `x`, and over inputs of all types at points near it."""
    kind = draw(st.integers(0, 7)) if depth else draw(st.integers(0, 1))
    inner = expressions(dtype, depth - 1)
    if kind == 0:
        return draw(_constants(dtype))
    if kind == 1:
        offset = Constant(draw(st.integers(-2, 2)), DType.I32)
        return Read(f"in_{dtype.label}", (Binary("+", Variable("x"), offset),), dtype)
    if kind == 2:
        other = draw(st.sampled_from(_INTEGERS if not dtype.is_float else tuple(DType)))
        return Cast(dtype, draw(expressions(other, depth - 1)))
    if kind == 3:
        return Select(draw(expressions(DType.BOOL, depth - 1)), draw(inner), draw(inner))
    if dtype is DType.BOOL:
        if kind < 6:
            other = draw(st.sampled_from([*_INTEGERS, DType.F32]))
            operator = draw(st.sampled_from(get_args(Comparator)))
            return Compare(operator, draw(expressions(other, depth - 1)), draw(expressions(other, depth - 1)))
        return Binary(draw(st.sampled_from(["&&", "||"])), draw(inner), draw(inner))
    if kind == 4 and not dtype.is_float:
        return Unary(draw(st.sampled_from(["-", "~"])), draw(inner))
    operators = ["+", "-", "*", "min", "max"]
    operators += ["&", "|", "^", "/", "%"] if dtype.is_integer else []
    return Binary(draw(st.sampled_from(operators)), draw(inner), draw(inner))


@settings(deadline=None)
@given(st.data(), st.sampled_from(tuple(DType)), st.integers(0, 2**32))
def test_generated_expressions_have_the_values_of_single_points(
    data: st.DataObject, dtype: DType, seed: int
) -> None:
    value = data.draw(expressions(dtype, 3))
    read = [Input(f"in_{d.label}", d, 1) for d in DType]
    algorithm = Algorithm("k", tuple(read), (), (Stage("f", ("x",), (value,)),), {"f": (Extent(0, 6),)})
    generator = np.random.default_rng(seed)
    given_arrays = {}
    for each in read:
        given_arrays[each.name] = generator.integers(-300, 300, 10).astype(NUMBER_TYPE[each.dtype])
    boxes = {"f": (Extent(0, 6),), **{i.name: (Extent(-2, 10),) for i in read}}

    def element(name: str) -> Any:
        array = given_arrays[name]
        return lambda point: array[point[0] + 2] if array.dtype.kind == "f" else array[point[0] + 2].item()

    expected = elements(algorithm, boxes, {i.name: element(i.name) for i in read})["f"]
    (found,) = evaluate(algorithm, boxes, given_arrays)["f"]
    assert found.dtype == NUMBER_TYPE[dtype]
    for x in range(6):
        assert np.array_equal(found[x], expected[x,][0], equal_nan=dtype.is_float), (x, value)

"""How far a correct program may be off: against evaluations that round otherwise, and against mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spacedsl.kernels.pipeline import reference, rounding
from spacedsl.kernels.pipeline.algorithm import Apply, Binary, Expression, operands
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.reference import Evaluator, Grid, computed, evaluate, scalars_of
from spacedsl.kernels.pipeline.rounding import Rounded, evaluate_rounded
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, NAMES, load, random_input

Array = NDArray[Any]


class Shaken(Evaluator):
    """Of two numbers that a result lies between, takes the one that is further off."""

    rng = np.random.default_rng(3)

    def value(self, node: Expression, grid: Grid) -> Any:
        if not node.dtype.is_float or not isinstance(node, Binary | Apply):
            return super().value(node, grid)
        given = [self.value(operand, grid) for operand in operands(node)]
        value = computed(node, given)
        if isinstance(node, Apply):
            is_exact = node.function in ("abs", "floor")
            other = np.nextafter(value, self.rng.choice((-9, 9), np.shape(value)).astype(value.dtype))
            return value if is_exact else np.where(value == 0, 0, other).astype(value.dtype)
        wide = computed(node, [np.asarray(v, np.float64) for v in given])
        towards = np.where(wide > value, np.inf, -np.inf).astype(value.dtype)
        return np.where(wide == value, value, np.nextafter(value, towards)).astype(value.dtype)


def shaken(file: PipelineFile, inputs: Mapping[str, Array]) -> dict[str, tuple[Array, ...]]:
    arrays: dict[str, tuple[Array, ...]] = {name: (array,) for name, array in inputs.items()}
    for stage in file.algorithm.stages:
        with np.errstate(all="ignore"):
            Shaken(file.boxes, arrays, scalars_of(file.algorithm, None)).stage(stage)
    return arrays


def inputs_of(file: PipelineFile, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {i.name: random_input(file, i, rng) for i in file.algorithm.inputs}


def errors(found: Rounded) -> Array:
    return np.zeros(found.elements.shape) if found.error is None else found.error


@pytest.mark.parametrize("name", NAMES)
def test_elements_are_those_of_the_reference(name: str) -> None:
    file = load(name, CASES[name].sizes)
    inputs = inputs_of(file, 7)
    found = evaluate_rounded(file.algorithm, file.boxes, inputs)
    expected = evaluate(file.algorithm, file.boxes, inputs)
    assert found.keys() == expected.keys()
    for stage, arrays in expected.items():
        for rounded, array in zip(found[stage], arrays, strict=True):
            np.testing.assert_array_equal(rounded.elements, array)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_rounded_otherwise_stays_within_the_errors(name: str) -> None:
    """In every stage, decisions that go another way included; few of the errors of outputs are large."""
    file = load(name, CASES[name].sizes)
    inputs = inputs_of(file, 8)
    found = evaluate_rounded(file.algorithm, file.boxes, inputs)
    for stage, arrays in shaken(file, inputs).items():
        for rounded, array in zip(found.get(stage, ()), arrays, strict=stage in found):
            if array.dtype == np.bool_:
                continue
            with np.errstate(invalid="ignore"):
                apart = np.abs(array.astype(np.float64) - rounded.elements.astype(np.float64))
            is_same = np.isnan(array) & np.isnan(rounded.elements)
            assert np.all((apart <= errors(rounded)) | is_same | np.isinf(errors(rounded))), stage
    for output in file.algorithm.outputs:
        (rounded,) = found[output]
        largest = np.nanmax(np.abs(rounded.elements.astype(np.float64)))
        assert np.mean(errors(rounded) > largest / 16) < 0.05


def test_integers_have_no_errors() -> None:
    for name in ("blur", "stencil_chain", "toy_add"):
        file = load(name, CASES[name].sizes)
        for stage in evaluate_rounded(file.algorithm, file.boxes, inputs_of(file, 1)).values():
            assert [rounded.error for rounded in stage] == [None]


def rounded_of(stages: str, output: str, inputs: str, arrays: Mapping[str, Array]) -> Rounded:
    """Of a stage of that name."""
    file = pipeline(stages, output, inputs)
    (name,) = file.algorithm.outputs
    return evaluate_rounded(file.algorithm, file.boxes, arrays)[name][0]


ONE = "{a: {dtype: f32, extents: [8]}}"


def test_floats_that_need_no_rounding_have_no_errors() -> None:
    small = np.arange(8, dtype=np.float32) - 3
    assert rounded_of("f(x) = a(x) * a(x) + 2 - a(x) / 4", "{f: {x: 8}}", ONE, {"a": small}).error is None
    thirds = rounded_of("f(x) = a(x) / 3", "{f: {x: 8}}", ONE, {"a": small}).error
    assert thirds is not None and thirds[3] == 0 < thirds[4] < 1e-6


def test_what_is_exact_in_the_reference_may_be_rounded_on_other_operands() -> None:
    third = errors(rounded_of("f(x) = a(x) / 3", "{f: {x: 8}}", ONE, {"a": np.full(8, 4, np.float32)}))
    found = rounded_of("f(x) = (a(x) / 3 - 1) * 8 + 8", "{f: {x: 8}}", ONE, {"a": np.full(8, 4, np.float32)})
    assert np.all(errors(found) >= 8 * third + np.spacing(found.elements))


def test_a_comparison_is_open_only_where_its_sides_are_as_near_as_rounding_goes() -> None:
    values = np.array([0.1, 0.30000001, 0.3, 0.5, 1, 2, 3, 4], np.float32)
    found = rounded_of("f(x) = select(a(x) * 3 < 0.9, 1.0, 5.0)", "{f: {x: 8}}", ONE, {"a": values})
    np.testing.assert_array_equal(errors(found), [0, 4, 4, 0, 0, 0, 0, 0])


def test_an_integer_is_open_where_rounding_reaches_the_next_one() -> None:
    values = np.array([0.1, 1.2, 2.0 / 7, 3.1, 4.1, 5, 6.1, 6.99], np.float32)
    found = rounded_of("f(x) = i32(a(x) * 3.5)", "{f: {x: 8}}", ONE, {"a": values})
    np.testing.assert_array_equal(errors(found) > 0, [False, False, True, False, False, False, False, False])


@pytest.mark.parametrize("kind", ["i32", "u8", "i16", "u32", "i64", "u64"])
def test_what_an_integer_does_not_hold_may_become_any(kind: str) -> None:
    values = np.array([np.nan, 1e15, np.inf, 9.5, 1, 4, 0, 25], np.float32)
    found = rounded_of(f"f(x) = {kind}(a(x))", "{f: {x: 8}}", ONE, {"a": values})
    is_long = kind.endswith("64") or kind == "u32"
    np.testing.assert_array_equal(errors(found) > 0, [True, not is_long, True, *[False] * 5])


def test_a_position_that_is_no_number_is_inside() -> None:
    """As it is held in code that is made, on every machine at another place."""
    values = np.array([-4, 104, 125, 104, 104, 104, 104, 104], np.float32)
    position = "p(x) = i32(max(9.0, min(12.0, sqrt(a(x)))))\n"
    read = rounded_of(f"g(i) = i\n{position}f(x) = g(p(x))", "{f: {x: 8}}", ONE, {"a": values})
    np.testing.assert_array_equal(errors(read) > 0, [True, *[False] * 7])
    np.testing.assert_array_equal(read.elements[1:], [10, 11, *[10] * 5])
    counted = f"{position}f(i) = 0\nf(p(r)) += 1 for r in 0:8"
    bins = rounded_of(counted, "{f: {i: '9:13'}}", ONE, {"a": values})
    assert bins.elements.sum() == 8 and np.all(errors(bins) >= 1)


def test_what_is_read_at_an_open_position_may_be_a_neighbour() -> None:
    table = np.array([1, 10, 100, 1000, 0, 0, 0, 0], np.float32)
    stages = "p(x) = clamp(i32(b(x) * 3.5), 0, 7)\nf(x) = a(p(x))"
    inputs = "{a: {dtype: f32, extents: [8]}, b: {dtype: f32, extents: [2]}}"
    given = np.array([2.0 / 7, 0.4], np.float32)
    found = rounded_of(stages, "{f: {x: 2}}", inputs, {"a": table, "b": given})
    np.testing.assert_array_equal(found.elements, [10, 10])
    np.testing.assert_array_equal(errors(found), [90, 0])


def test_what_is_counted_at_an_open_position_may_be_counted_beside_it() -> None:
    stages = "f(i) = 0\nf(clamp(i32(a(r) * 3.5), 0, 7)) += 1 for r in 0:8"
    values = np.array([2.0 / 7, 0.4, 0.4, 1.5, 1.5, 1.5, 0, 0], np.float32)
    found = rounded_of(stages, "{f: {i: 8}}", ONE, {"a": values})
    np.testing.assert_array_equal(found.elements, [2, 3, 0, 0, 0, 3, 0, 0])
    np.testing.assert_array_equal(errors(found), [1, 1, 1, 0, 0, 0, 0, 0])


def test_a_product_may_be_off_where_its_factors_are_nearly_zero() -> None:
    """By as much as both of them together."""
    values = np.full(8, 0.1, np.float32)
    apart = "m() = sum[r in 0:8](a(r)) / 8\nd(x) = a(x) - m()\n"
    factor = errors(rounded_of(f"{apart}f(x) = d(x)", "{f: {x: 8}}", ONE, {"a": values}))
    product = errors(rounded_of(f"{apart}f(x) = d(x) * d(x)", "{f: {x: 8}}", ONE, {"a": values}))
    assert np.all(factor > 0) and np.all(product >= factor**2)


@pytest.mark.parametrize("value", ["(p(x) + q(x)) % 2", "(p(x) + q(x)) & 1", "i32(u8((p(x) + q(x)) << 7))"])
def test_what_rises_and_falls_between_open_integers_is_open(value: str) -> None:
    """Their sum is off by two, which changes nothing, or by one."""
    stages = f"p(x) = i32(a(x) * 3.5)\nq(x) = i32(b(x) * 3.5)\nf(x) = {value}"
    inputs = "{a: {dtype: f32, extents: [2]}, b: {dtype: f32, extents: [2]}}"
    given = np.array([2.0 / 7, 0.4], np.float32)
    found = rounded_of(stages, "{f: {x: 2}}", inputs, {"a": given, "b": given})
    assert errors(found)[0] >= 1 and errors(found)[1] == 0


def test_a_sine_of_what_is_off_by_a_period_may_be_anything() -> None:
    values = np.full(8, 26353588 / 0.3, np.float32)
    found = rounded_of("f(x) = sin(a(x) * 0.3)", "{f: {x: 8}}", ONE, {"a": values})
    assert np.all(np.abs(found.elements) + errors(found) >= 1)


def test_numbers_below_all_normal_ones_are_off_by_one_of_their_steps() -> None:
    """Also those that are kept as f64, whose errors are not."""
    values = np.array([-103, -100, -95, -90, -88, -1, 0, -200], np.float32)
    found = rounded_of("f(x) = exp(a(x))", "{f: {x: 8}}", ONE, {"a": values})
    assert np.all(errors(found)[:-1] >= np.spacing(found.elements[:-1])) and errors(found)[-1] == 0
    wide = rounded_of("f(x) = exp(f64(a(x)))", "{f: {x: 8}}", ONE, {"a": values * 3})
    assert np.all(errors(wide) >= np.spacing(wide.elements))


def test_what_is_no_number_is_one_nowhere() -> None:
    values = np.array([-1, 4, 0, 1, 1, 1, 1, 1], np.float32)
    found = rounded_of("f(x) = sqrt(a(x)) + 0.1", "{f: {x: 8}}", ONE, {"a": values})
    assert np.isnan(found.elements[0]) and errors(found)[0] < 1e-3


@pytest.mark.parametrize("count", [3, 4096])
def test_a_long_sum_may_be_off_by_more_than_a_short_one_and_by_less_than_a_term(count: int) -> None:
    """However many there are; in another order, pairwise, and in 64 bits."""
    rng = np.random.default_rng(count)
    values = (rng.random((count, 2048)) - 0.5).astype(np.float32)
    inputs = f"{{a: {{dtype: f32, extents: [2048, {count}]}}}}"
    found = rounded_of(
        f"f(x) = sum[r in 0:{count}](a(x, r) * a(x, r))", "{f: {x: 2048}}", inputs, {"a": values}
    )
    for other in (
        np.sum((values * values)[::-1], 0, dtype=np.float32),
        np.sum(values.astype(np.float64) ** 2, 0),
        np.cumsum(values[::-1] * values[::-1], 0, dtype=np.float32)[-1],
    ):
        assert np.all(np.abs(other - found.elements) <= errors(found))
    assert np.all(errors(found) < np.quantile(values**2, 0.25))


@pytest.mark.parametrize("count", [1 << 18, 1 << 20, 1 << 22])
def test_small_terms_may_be_lost_beside_a_long_sum(count: int) -> None:
    """Most squares are small: they are rounded down more often than up."""
    values = np.random.default_rng(count).random(count).astype(np.float32) - np.float32(0.5)
    inputs = f"{{a: {{dtype: f32, extents: [{count}]}}}}"
    found = rounded_of(f"s() = sum[r in 0:{count}](a(r) * a(r))", "{s: {}}", inputs, {"a": values})
    one_by_one = np.cumsum(values * values, dtype=np.float32)[-1]
    assert abs(one_by_one - found.elements) <= errors(found)
    assert np.all(errors(found) < found.elements / 16)


def test_errors_of_what_is_done_at_once_are_about_those_of_one_term_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of many products, and of all that one value is the greatest of."""
    rng = np.random.default_rng(8)
    given = {"a": (rng.random((60, 90)) - 0.3).astype(np.float32)}
    inputs = "{a: {dtype: f32, extents: [90, 60]}}"
    for stages, outputs in (
        ("f(x, y) = sum[k in 0:60](a(x, k) * a(k, y))", "{f: {x: 90, y: 60}}"),
        ("f() = 0.5\nf() max= a(x, y) * 1.7 for x in 0:90, y in 0:60", "{f: {}}"),
        ("f() = 0.5\nf() += a(x, y) * 1.7 for x in 0:90, y in 0:60", "{f: {}}"),
    ):
        each = rounded_of(stages, outputs, inputs, given)
        with monkeypatch.context() as patched:
            for module in (reference, rounding):
                patched.setattr(module, "MOST_TOGETHER", 1000)
            once = rounded_of(stages, outputs, inputs, given)
        assert np.all(np.abs(once.elements - each.elements) <= np.maximum(errors(each), errors(once)))
        assert np.all(errors(once) > 0)
        assert np.all(errors(once) < 20 * errors(each))


COUNTED = {
    "one value": ("c() = 0\nc() += 1", "{c: {}}"),
    "each point": ("c(y) = 0\nc(y) += 1", "{c: {y: 1}}"),
    "where values say": ("c(y) = 0\nc(clamp(i32(a(r)), 0, 0)) += 1", "{c: {y: 1}}"),
}


@pytest.mark.parametrize("count", [9, 5000])
@pytest.mark.parametrize("case", COUNTED)
def test_what_may_count_or_not_is_open_however_many_there_are(case: str, count: int) -> None:
    """A third of 0.3, and whether it is more than a tenth."""
    stages, outputs = COUNTED[case]
    stages = f"b(x) = a(x) / 3\n{stages} for r in 0:{count} where b(r) > 0.1"
    inputs = f"{{a: {{dtype: f32, extents: [{count}]}}}}"
    found = rounded_of(stages, outputs, inputs, {"a": np.full(count, 0.3, np.float32)})
    assert np.all(errors(found) >= count)


@pytest.mark.parametrize("count", [9, 5000])
@pytest.mark.parametrize("target", ["m(y)", "m(clamp(i32(c(r)), 0, 0))"])
def test_the_greatest_of_what_may_count_or_not_may_be_the_next_one(target: str, count: int) -> None:
    """All of them are there in the reference, and it is not certain of any."""
    stages = f"b(x) = a(x) / 3\nm(y) = f32(-100)\n{target} max= c(r) for r in 0:{count} where b(r) >= 0.1"
    inputs = f"{{a: {{dtype: f32, extents: [{count}]}}, c: {{dtype: f32, extents: [{count}]}}}}"
    values = np.full(count, -5, np.float32)
    values[3] = 7
    given = {"a": np.full(count, 0.3, np.float32), "c": values}
    found = rounded_of(stages, "{m: {y: 1}}", inputs, given)
    assert found.elements == 7 and errors(found) >= 95
    given["a"][:5] = 1
    found = rounded_of(stages, "{m: {y: 1}}", inputs, given)
    assert found.elements == 7 and errors(found) == 0


@pytest.mark.parametrize("count", [9, 5000])
@pytest.mark.parametrize("operator", ["max=", "="])
def test_what_may_be_put_beside_its_place_changes_what_is_there(operator: str, count: int) -> None:
    """Where it is in the reference, there is the same already."""
    stages = f"m(i) = f32(-100)\nm(clamp(i32(d(r) * 3.5), 0, 3)) {operator} c(r) for r in 0:{count}"
    inputs = f"{{c: {{dtype: f32, extents: [{count}]}}, d: {{dtype: f32, extents: [{count}]}}}}"
    places = np.full(count, 0.3, np.float32)
    places[3] = 2.0 / 7
    found = rounded_of(stages, "{m: {i: 4}}", inputs, {"c": np.full(count, 5, np.float32), "d": places})
    np.testing.assert_array_equal(found.elements, [-100, 5, -100, -100])
    assert np.all(errors(found)[[0, 2]] >= 105) and errors(found)[3] == 0


def test_long_sums_of_half_floats_are_those_of_one_term_after_the_other() -> None:
    values = np.random.default_rng(0).random(5000).astype(np.float16)
    found = rounded_of(
        "s() = f16(0)\ns() += a(r) for r in 0:5000", "{s: {}}", "{a: {dtype: f16, rank: 1}}", {"a": values}
    )
    one_by_one = np.add.accumulate(values, dtype=np.float16)[-1]
    assert found.elements == one_by_one


def test_the_error_of_the_greatest_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reference, rounding):
        monkeypatch.setattr(module, "MOST_TOGETHER", 1000)
    values = np.full(20_000, 1e-3, np.float32)
    values[12_345] = 1e6
    found = rounded_of(
        "m() = f32(0)\nm() max= a(r) / 3 for r in 0:20000",
        "{m: {}}",
        "{a: {dtype: f32, rank: 1}}",
        {"a": values},
    )
    assert errors(found) >= np.spacing(np.float32(1e6 / 3))


def test_counts_that_get_stuck_may_be_as_large_as_they_are_in_another_order() -> None:
    """In f16, 2048 and one more is 2048; parts that are summed up each on its own come to 8192."""
    file = pipeline(
        "f(i) = f16(0)\nf(clamp(i32(a(r)), 0, 3)) += f16(1) for r in 0:8192",
        "{f: {i: 4}}",
        "{a: {dtype: u8, extents: [8192]}}",
    )
    inputs = {"a": np.full(8192, 2, np.uint8)}
    (found,) = evaluate_rounded(file.algorithm, file.boxes, inputs)["f"]
    assert found.elements[2] == 2048 and found.error is not None
    assert found.error[2] >= 8192 - 2048

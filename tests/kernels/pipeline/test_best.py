"""What keeps the best of what it meets: which updates do, and all at once as one point after the other."""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline import reference, rounding
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Box,
    Cast,
    Compare,
    Constant,
    Expression,
    Extent,
    Input,
    Range,
    Read,
    Select,
    Stage,
    Update,
    Variable,
)
from spacedsl.kernels.pipeline.best import Best, Order, best
from spacedsl.kernels.pipeline.reductions import neutral
from spacedsl.kernels.pipeline.reference import Evaluator, evaluate
from spacedsl.kernels.pipeline.rounding import Rounded, evaluate_rounded
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.pointwise import Elements, Point, elements, held

Array = NDArray[Any]
TURNED: Mapping[Order, Order] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
X, R, S = map(Variable, "xrs")
EXTENTS = {"r": 5, "s": 4, "x": 3}


def kept(update: str) -> Best | None:
    """Of an update of `m`, `where` something holds."""
    left, _, where = update.partition(" where ")
    file = pipeline(
        f"m(x) = (0, 0, f32(0))\n{left} for r in 0:6" + (where and f" where {where}"),
        "{m: {x: 4}}",
        "{a: {dtype: i32, rank: 2}, b: {dtype: f32, rank: 2}}",
    )
    stage = file.algorithm.stage("m")
    return best(stage, stage.updates[-1])


KEPT = {
    "values that are selected": (
        "m(x) = (select(a(x, r) > m(x).0, a(x, r), m(x).0), select(a(x, r) > m(x).0, r, m(x).1), "
        "select(a(x, r) > m(x).0, b(x, r), m(x).2))",
        (0, ">", False),
    ),
    "a condition": ("m(x) = (r, a(x, r), b(x, r)) where b(x, r) < m(x).2", (2, "<", False)),
    "the old value on the left": ("m(x) = (r, a(x, r), b(x, r)) where m(x).1 <= a(x, r)", (1, ">=", False)),
    "one that others go along with": (
        "m(x) = (r, a(x, r), b(x, r)) where a(x, r) != 3 && a(x, r) <= m(x).1 && r < x", (1, "<=", True)
    ),
    "both": (
        "m(x) = (select(m(x).0 > r && x > 0, r, m(x).0), select(m(x).0 > r && x > 0, a(x, r), m(x).1), "
        "select(m(x).0 > r && x > 0, b(x, r), m(x).2)) where r != 2",
        (0, "<", True),
    ),
    "where values say": (
        "m(a(1, r) % 4) = (r, a(0, r), b(0, r)) where r >= m(a(1, r) % 4).0", (0, ">=", False)
    ),
}  # fmt: skip
OTHER = {
    "another value than the one compared": "m(x) = (r, a(x, r) + 1, b(x, r)) where a(x, r) > m(x).1",
    "another element": "m(x) = (r, a(x, r), b(x, r)) where a(x, r) > m(x).0",
    "another point": "m(r) = (r, a(0, r), b(0, r)) where a(0, r) > m(0).1",
    "what goes on with old values": "m(x) = (m(x).0 + r, a(x, r), b(x, r)) where a(x, r) > m(x).1",
    "no order": "m(x) = (r, a(x, r), b(x, r)) where a(x, r) != m(x).1",
    "two orders": "m(x) = (r, a(x, r), b(x, r)) where a(x, r) > m(x).1 && b(x, r) > m(x).2",
    "one or the other": "m(x) = (r, a(x, r), b(x, r)) where a(x, r) > m(x).1 || r == 2",
    "the opposite": "m(x) = (r, a(x, r), b(x, r)) where !(b(x, r) <= m(x).2)",
    "nothing old": "m(x) = (r, a(x, r), b(x, r)) where a(x, r) > 3",
    "a place that the old value says": "m(m(r).0 % 4) = (r, a(0, r), b(0, r)) where r > m(m(r).0 % 4).0",
    "conditions of their own": (
        "m(x) = (select(a(x, r) > m(x).0, a(x, r), m(x).0), select(a(x, r) >= m(x).0, r, m(x).1), "
        "select(a(x, r) > m(x).0, b(x, r), m(x).2))"
    ),
    "the old one where it is better": (
        "m(x) = (select(a(x, r) > m(x).0, m(x).0, a(x, r)), select(a(x, r) > m(x).0, m(x).1, r), "
        "select(a(x, r) > m(x).0, m(x).2, b(x, r)))"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_what_keeps_the_best_is_known_as_such(case: str) -> None:
    text, expected = KEPT[case]
    found = kept(text)
    assert found is not None
    assert (found.decisive, found.comparator, found.condition is not None) == expected


@pytest.mark.parametrize("case", OTHER)
def test_other_updates_are_not(case: str) -> None:
    assert kept(OTHER[case]) is None


# ---- Values -----------------------------------------------------------------------------------------------


@st.composite
def keeping(draw: st.DrawFn, dtype: DType) -> tuple[Stage, Best]:
    """A stage over `x`, or of one value, with an update over `r`, or `r` and `s`, and what that keeps."""
    variables = draw(st.sampled_from([(), ("x",)]))
    ranges = draw(st.sampled_from([("r",), ("r", "s")]))
    point = tuple(map(Variable, variables))
    at = tuple(Variable(v) if v in (*variables, *ranges) else Constant(1, DType.I32) for v in "rsx")
    read = Read("a", at, dtype)
    numbers: list[Expression] = [read, Binary("*", read, Constant(3, dtype))]
    compared = draw(st.sampled_from(numbers))
    comparator = draw(st.sampled_from(get_args(Order)))
    others: list[Expression] = [Read("a", at[::-1], dtype), Cast(DType.F32, compared)]
    other = draw(st.sampled_from(others))
    where = Binary("-", Binary("*", R, Constant(2, DType.I32)), S if "s" in ranges else R)
    places = draw(st.permutations(range(3)))
    values: tuple[Expression, ...] = tuple((compared, where, other)[p] for p in places)
    decisive = places.index(0)
    condition = draw(st.sampled_from([None, Compare("!=", R, Constant(2, DType.I32)), _never()]))
    first = [0, 1, 7, *([-0.0, math.nan, math.inf, -math.inf] if dtype.is_float else [dtype.least])]
    starts = tuple(Constant(_typed(draw(st.sampled_from(first)), v.dtype), v.dtype) for v in values)
    old = [Read("m", point, v.dtype, n) for n, v in enumerate(values)]
    holds: Expression = Compare(comparator, compared, old[decisive])
    if draw(st.booleans()):
        holds = Compare(TURNED[comparator], old[decisive], compared)
    if draw(st.booleans()):
        selected = tuple(Select(holds, v, o) for v, o in zip(values, old, strict=True))
        update = Update(point, selected, _ranges(ranges), condition)
    else:
        both = holds if condition is None else Binary("&&", condition, holds)
        update = Update(point, values, _ranges(ranges), both)
    return Stage("m", variables, starts, (update,)), Best(values, decisive, comparator, condition)


def _never() -> Expression:
    return Compare("<", R, Constant(0, DType.I32))


def _ranges(names: tuple[str, ...]) -> tuple[Range, ...]:
    return tuple(Range(name, 0, EXTENTS[name]) for name in names)


def _typed(number: float, dtype: DType) -> float:
    if dtype.is_float:
        return float(number)
    return int(held(number if math.isfinite(number) else 0, dtype))


def _numbers(dtype: DType, seed: int) -> Array:
    """Few, so that many are equal; of floats, zeros with both signs, and what is no number."""
    special = (
        [0.0, -0.0, math.nan, math.inf, -math.inf, 1, 2] if dtype.is_float else [0, 1, 2, dtype.greatest]
    )
    if dtype.is_integer and dtype.least:
        special += [-1, dtype.least]
    drawn = np.random.default_rng(seed).integers(0, len(special), (5, 5, 5))
    return np.array(special, object)[drawn].astype(NUMBER_TYPE[dtype])


def algorithm_of(stage: Stage, dtype: DType) -> tuple[Algorithm, dict[str, Box]]:
    """The stage alone, with what is needed of it and of `a`."""
    box = tuple(Extent(0, EXTENTS[v]) for v in stage.variables)
    algorithm = Algorithm("k", (Input("a", dtype, 3),), (), (stage,), {"m": box})
    return algorithm, {"m": box, "a": (Extent(0, 5),) * 3}


def of_points(stage: Stage, numbers: Array) -> Elements:
    """One after the other."""
    dtype = next(d for d, kind in NUMBER_TYPE.items() if kind == numbers.dtype)

    def element(point: Point) -> Any:
        found = numbers[point[::-1]]
        return found if dtype.is_float else int(found)

    return elements(*algorithm_of(stage, dtype), {"a": element})["m"]


TYPES = tuple(d for d in DType if d is not DType.BOOL)


@settings(deadline=None)
@given(st.data(), st.sampled_from(TYPES), st.integers(0, 2**32), st.sampled_from([1, 2, 7, 11, 10**6]))
def test_the_best_of_many_is_that_of_one_after_the_other(
    data: st.DataObject, dtype: DType, seed: int, together: int
) -> None:
    """Among equals, too; what is no number is never better, and stays where it is."""
    stage, expected = data.draw(keeping(dtype))
    assert best(stage, stage.updates[0]) == expected
    algorithm, boxes = algorithm_of(stage, dtype)
    given_numbers = _numbers(dtype, seed)
    points = of_points(stage, given_numbers)
    with pytest.MonkeyPatch.context() as patched:
        for module in (reference, rounding):
            patched.setattr(module, "MOST_TOGETHER", together)
        patched.setattr(Evaluator, "turns", None)
        arrays = evaluate(algorithm, boxes, {"a": given_numbers})["m"]
        rounded = evaluate_rounded(algorithm, boxes, {"a": given_numbers})["m"]
    for array, again, start in zip(arrays, rounded, stage.values, strict=True):
        assert array.tobytes() == again.elements.tobytes()
        assert array.dtype == NUMBER_TYPE[start.dtype]
    for point, values in points.items():
        for array, value, start in zip(arrays, values, stage.values, strict=True):
            assert _spelled(array[point], start.dtype) == _spelled(value, start.dtype), (point, stage)


def _spelled(value: Any, dtype: DType) -> str:
    """With the sign of a zero."""
    return repr(float(value)) if dtype.is_float else str(int(value))


# ---- Parts ------------------------------------------------------------------------------------------------

COMPARED = {"<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge}


@settings(deadline=None)
@given(st.data(), st.sampled_from(TYPES), st.integers(0, 2**32), st.integers(1, 4))
def test_the_best_of_parts_is_that_of_all(data: st.DataObject, dtype: DType, seed: int, size: int) -> None:
    """In their order, each beginning with what is neutral; where nothing is, parts are not combined."""
    stage, wanted = data.draw(keeping(dtype))
    (update,) = stage.updates
    starts = neutral(stage, update)
    if starts is None:
        assert wanted.comparator in ("<=", ">=") and (dtype.is_float or wanted.condition is not None)
        return
    numbers = _numbers(dtype, seed)
    *inner, outer = update.ranges
    made = of_points(replace(stage, updates=()), numbers)
    for low in range(0, outer.high, size):
        part = replace(outer, low=low, high=min(low + size, outer.high))
        own = replace(stage, values=starts, updates=(replace(update, ranges=(*inner, part)),))
        for point, values in of_points(own, numbers).items():
            before = made[point]
            is_better = COMPARED[wanted.comparator](values[wanted.decisive], before[wanted.decisive])
            made[point] = values if is_better else before
    assert repr(made) == repr(of_points(stage, numbers))


@pytest.mark.parametrize(("dtype", "comparator"), [("f32", ">"), ("i32", ">="), ("f32", ">="), ("f64", "<=")])
def test_a_part_in_which_there_is_no_number_is_not_the_last_of_equals(dtype: str, comparator: str) -> None:
    """As it would be of infinite ones, which are as bad as what a part begins with."""
    stages = f"m() = ({dtype}(0), 0)\nm() = (a(r), r) for r in 0:6 where a(r) {comparator} m().0"
    stage = pipeline(stages, "{m: {}}", f"{{a: {{dtype: {dtype}, rank: 1}}}}").algorithm.stage("m")
    is_parted = comparator == ">" or dtype == "i32"
    assert (neutral(stage, stage.updates[0]) is not None) is is_parted


# ---- Errors -----------------------------------------------------------------------------------------------

THIRDS = "{a: {dtype: f32, extents: [6]}}"
WHERE = "f() = (f32(-9), -1)\nf() = (b(r), r) for r in 0:6 where "


def rounded_of(stages: str, numbers: list[float], together: int) -> tuple[Rounded, ...]:
    """Of `f`, over six numbers `a`, of which `b` are the thirds."""
    file = pipeline(f"b(x) = a(x) / 3\n{stages}", "{f: {}}", THIRDS)
    with pytest.MonkeyPatch.context() as patched:
        for module in (reference, rounding):
            patched.setattr(module, "MOST_TOGETHER", together)
        return evaluate_rounded(file.algorithm, file.boxes, {"a": np.array(numbers, np.float32)})["f"]


def errors(found: tuple[Rounded, ...]) -> list[float]:
    return [0.0 if each.error is None else float(each.error) for each in found]


@pytest.mark.parametrize("together", [1, 4, 100])
def test_what_may_be_better_says_how_far_positions_may_be_off(together: int) -> None:
    """0.3 and what is next to it, thirds of which may be rounded to the same; else, the best is certain."""
    near = float(np.nextafter(np.float32(0.3), np.float32(1)))
    value, place = errors(rounded_of(WHERE + "b(r) > f().0", [0, 0.3, 0.1, 0.2, near, 0.2], together))
    assert 0 < value < 1e-6
    assert place == 3
    value, place = errors(rounded_of(WHERE + "b(r) > f().0", [0, 0.3, 0.1, 0.2, 0.4, 0.2], together))
    assert 0 < value < 1e-6
    assert place == 0


@pytest.mark.parametrize("start", [np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(0))])
def test_what_was_there_may_be_as_good(start: np.float32) -> None:
    """Whether it is kept or not."""
    stages = f"f() = (f32({start}), -1)\nf() = (b(r), r) for r in 0:6 where b(r) > f().0"
    value, place = rounded_of(stages, [0.3, 0, 0, 0, 0, 0], 4)
    assert bool(place.elements == 0) is bool(value.elements > start)
    assert place.error == 1


def test_of_equals_that_are_certain_the_first_is_certain() -> None:
    """Thirds of others are not."""
    assert errors(rounded_of(WHERE + "b(r) > f().0", [-1, 0, 0, -2, 0, -1], 4)) == [0, 0]


def test_what_may_be_kept_has_an_error_of_its_own() -> None:
    stages = "f() = (f32(-9), 9.0)\nf() = (b(r), b(r) * f32(r - 1)) for r in 0:6 where b(r) > f().0"
    found = rounded_of(stages, [0, 0.3, 0.1, 0.2, 0.3, 0.2], 100)
    assert found[1].elements == 0
    assert errors(found)[1] > np.float32(0.3) / 3 * 3 + 1e-8


def test_the_best_of_exact_numbers_has_no_error_and_takes_along_that_of_others() -> None:
    stages = "f() = (f32(-9), 0.5)\nf() = (a(r), b(r)) for r in 0:6 where a(r) > f().0"
    first, second = rounded_of(stages, [1, 2, 5, 5, 4, 3], 4)
    assert first.error is None
    assert second.elements == np.float32(5) / 3
    assert second.error is not None
    assert 0 < second.error < 1e-6


def test_what_may_not_be_there_leaves_all_others_as_the_best() -> None:
    """A third of 0.3 may be more than a tenth, or not."""
    _, place = errors(rounded_of(WHERE + "b(r) != 0.1 && b(r) > f().0", [0, 0.2, 0, 0, 0.3, 0], 100))
    assert place >= 3

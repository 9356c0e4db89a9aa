"""Bounds inference: against examples, brute force over points, and CP-SAT for single positions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Binary,
    Cast,
    Constant,
    Expression,
    Extent,
    Input,
    Read,
    Stage,
    Variable,
)
from spacedsl.kernels.pipeline.bounds import infer
from spacedsl.kernels.pipeline.intervals import UNKNOWN, Interval, interval
from tests.kernels.pipeline.files import boxes, pipeline


def test_a_producer_of_neighbours_needs_one_more_point() -> None:
    """The example of the schedule-tree post, 512 to 513."""
    file = pipeline(
        """
        g(x, y) = x * y
        f(x, y) = g(x, y) + g(x + 1, y + 1)
        """,
        "{f: {x: 512, y: 512}}",
    )
    assert [e.size for e in file.boxes["g"]] == [513, 513]


@pytest.mark.parametrize(
    ("position", "needed"),
    [
        ("x - 3", (-3, 6)),
        ("9 - x", (0, 9)),
        ("2 * x + 1", (1, 19)),
        ("x / 2", (0, 4)),
        ("(x + 1) / 2", (0, 5)),
        ("-x / 4", (-3, 0)),
        ("x % 3", (0, 2)),
        ("(x + 12) % 32", (12, 21)),
        ("(4 * x + 3) / 2", (1, 19)),
        ("x - x", (0, 0)),
        ("2 * (x / 2) + 1 - x / 2 * 2", (1, 1)),
        ("clamp(x, 2, 5)", (2, 5)),
        ("min(x, 4) + max(x, 4)", (4, 13)),
        ("select(x < 5, 1, 100)", (1, 100)),
        ("x * x", (0, 81)),
        ("i32(u8(x))", (0, 9)),
        ("i32(clamp(table(x), 2, 7))", (2, 7)),
        ("i32(small(x))", (-3, 4)),
        ("bytes(x)", (0, 255)),
        ("i32(f32(bytes(x)) / 255 * 10 + 0.5)", (0, 10)),
        ("bytes(x) & 15", (0, 15)),
        ("i32(sqrt(f32(x)))", (0, 3)),
        ("i32(f32(x) * 1.6666666)", (0, 15)),
        ("i32(f32(x) * 2.5)", (0, 22)),
        ("clamp(i32(table(x)) + 3, 2, 7)", (2, 7)),
        ("clamp((i32(table(x)) + small(x)) / 2, 2, 7)", (2, 7)),
        ("i32(u32(x) * 7 / 3)", (0, 21)),
        ("i32((i64(x) + 3000000000) / 1000000000)", (3, 3)),
    ],
)
def test_what_a_position_needs(position: str, needed: tuple[int, int]) -> None:
    file = pipeline(
        f"""
        g(i) = i
        f(x) = g({position})
        """,
        "{f: {x: 10}}",
        "{table: {dtype: f32, rank: 1}, bytes: {dtype: u8, rank: 1}, "
        "small: {dtype: i32, rank: 1, values: [-3, 4]}}",
    )
    assert boxes(file)["g"] == [needed]


def test_a_stage_needs_what_all_of_its_readers_need_together() -> None:
    file = pipeline(
        """
        g(x) = x
        a(x) = g(x - 5)
        b(x) = g(x + 7) + a(x)
        """,
        "{b: {x: 10}, a: {x: 3}}",
    )
    assert boxes(file) == {"g": [(-5, 16)], "a": [(0, 9)], "b": [(0, 9)]}


def test_what_updates_write_and_read_of_their_stage_is_part_of_it() -> None:
    file = pipeline(
        """
        f(x, y) = 0
        f(x, r) = f(x, r - 1) + source(x, r) for r in 1:20
        g(x, y) = f(x + 1, y)
        """,
        "{g: {x: 8, y: 3}}",
        "{source: {dtype: i32, rank: 2}}",
    )
    assert boxes(file) == {"g": [(0, 7), (0, 2)], "f": [(1, 8), (0, 19)], "source": [(1, 8), (1, 19)]}


def test_an_update_at_positions_that_depend_on_others_it_keeps() -> None:
    file = pipeline(
        """
        f(x, y) = 0
        f(x + y, y) += 1 for x in 0:4
        """,
        "{f: {x: 2, y: 5}}",
    )
    assert boxes(file)["f"] == [(0, 7), (0, 4)]


def test_a_stage_that_nobody_needs_has_no_box() -> None:
    file = pipeline("g(x) = x\nf(x) = 2 * x", "{f: {x: 4}}")
    assert set(file.boxes) == {"f"}
    assert [stage.name for stage in file.algorithm.stages] == ["f"]


def test_a_position_may_depend_on_a_long_chain_of_stages() -> None:
    chain = [f"s{n}(x) = max(s{n - 1}(x), {n})" for n in range(1, 400)]
    file = pipeline(
        "\n".join(["g(i) = i", "s0(x) = min(image(x), 5)", *chain, "f(x) = g(s399(x))"]),
        "{f: {x: 10}}",
        "{image: {dtype: i32, rank: 1}}",
    )
    assert boxes(file)["g"] == [(399, 399)]


# ---- Generated pipelines, point by point ------------------------------------------------------------------


@dataclass(frozen=True)
class Tap:
    """Reads (times * variable + offset) // by of a producer."""

    producer: int
    times: int
    offset: int
    by: int


_TAPS = st.builds(
    Tap,
    st.integers(0, 10),
    st.sampled_from([-2, -1, 1, 2, 3]),
    st.integers(-4, 4),
    st.sampled_from([1, 1, 2, 3]),
)


@settings(deadline=None)
@given(st.lists(st.lists(_TAPS, min_size=1, max_size=3), min_size=1, max_size=7), st.integers(1, 9))
def test_generated_stages_need_the_hull_of_the_points_that_are_read(
    graph: list[list[Tap]], extent: int
) -> None:
    """The first stage is an input; each of the others reads some before it."""
    stages = []
    for number, taps in enumerate(graph, 1):
        value: Expression = Constant(0, DType.I32)
        for tap in taps:
            scaled = Binary("*", Constant(tap.times, DType.I32), Variable("x"))
            moved = Binary("+", scaled, Constant(tap.offset, DType.I32))
            at = Binary("/", moved, Constant(tap.by, DType.I32))
            value = Binary("+", value, Read(f"s{tap.producer % number}", (at,), DType.I32))
        stages.append(Stage(f"s{number}", ("x",), (value,)))
    last = f"s{len(graph)}"
    found, problems = infer(stages, [Input("s0", DType.I32, 1)], {last: (Extent(0, extent),)})

    # Hulls of the points that are read, of all of the points of a stage's hull.
    needed: dict[str, list[int]] = {last: [0, extent - 1]}
    for number in range(len(graph), 0, -1):
        hull = needed.get(f"s{number}")
        if hull is None:
            continue
        for tap in graph[number - 1]:
            points = [(tap.times * x + tap.offset) // tap.by for x in range(hull[0], hull[1] + 1)]
            other = needed.setdefault(f"s{tap.producer % number}", [points[0], points[0]])
            other[:] = [min(other[0], *points), max(other[1], *points)]
    assert not problems
    assert {name: [e.low, e.high] for name, (e,) in found.items()} == needed


@pytest.mark.parametrize("divisor", [3, 7, 9, 10])
def test_a_rounded_product_stays_within_its_ends(divisor: int) -> None:
    """Of f32: some are a whole number only because they are rounded."""
    for number in range(1, 100):
        factor = np.float32(number / divisor)
        product = Binary("*", Cast(DType.F32, Variable("x")), Constant(float(factor), DType.F32))
        found = interval(Cast(DType.I32, product), {"x": Interval(1, 9)}, lambda _: UNKNOWN)
        assert found.low <= int(factor) and int(np.float32(9) * factor) <= found.high


def test_integers_that_a_float_does_not_hold_are_rounded_to_either_side() -> None:
    found = interval(Cast(DType.F32, Variable("x")), {"x": Interval(0, 2**31 - 2)}, lambda _: UNKNOWN)
    assert found.low == 0 and found.high >= 2.0**31


@pytest.mark.parametrize(
    ("position", "value"),
    [
        ("min(x + 2147483647, x)", -(2**31)),
        ("max(x + 2000000000, 1500000000)", 1_500_000_000),
        ("max(x * 1000000 + 5000000, 0)", 0),
    ],
)
def test_sums_that_wrap_around_are_not_compared_as_whole_numbers(position: str, value: int) -> None:
    """Both sides of an extreme may be anything then: of x up to a billion."""
    file = pipeline(f"f(x) = {position}", "{f: {x: 8}}")
    (stage,) = file.algorithm.stages
    found = interval(stage.values[0], {"x": Interval(0, 10**9)}, lambda _: UNKNOWN)
    assert found.low <= value <= found.high


# ---- Single positions, against a solver -------------------------------------------------------------------

_LEAVES = st.sampled_from(["x", "y"]).map(Variable) | st.integers(-9, 9).map(lambda n: Constant(n, DType.I32))


def _combined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    divisor = st.integers(1, 7).map(lambda n: Constant(n, DType.I32))
    factor = st.integers(-3, 3).map(lambda n: Constant(n, DType.I32))
    return st.one_of(
        st.builds(Binary, st.sampled_from(["+", "-", "min", "max"]), inner, inner),
        st.builds(Binary, st.sampled_from(["/", "%"]), inner, divisor),
        st.builds(Binary, st.just("*"), factor, inner),
    )


POSITIONS: st.SearchStrategy[Expression] = st.recursive(_LEAVES, _combined, max_leaves=6)
RANGES = st.tuples(st.integers(-9, 9), st.integers(0, 9)).map(lambda r: (r[0], r[0] + r[1]))


class _Solver:
    """The least and the greatest value of a position, by CP-SAT."""

    def __init__(self, ranges: dict[str, tuple[int, int]]) -> None:
        self.model = cp_model.CpModel()
        self.names = {name: self.model.new_int_var(*ends, name) for name, ends in ranges.items()}

    def ends(self, node: Expression) -> tuple[int, int]:
        found = []
        value = self.value(node)
        for objective in (self.model.minimize, self.model.maximize):
            objective(value)
            solver = cp_model.CpSolver()
            assert solver.solve(self.model) == cp_model.OPTIMAL
            found.append(round(solver.objective_value))
        return found[0], found[1]

    def value(self, node: Expression) -> Any:
        match node:
            case Constant(value):
                return int(value)
            case Variable(name):
                return self.names[name]
            case Binary("+", left, right):
                return self.value(left) + self.value(right)
            case Binary("-", left, right):
                return self.value(left) - self.value(right)
            case Binary("*", Constant(factor), right):
                return int(factor) * self.value(right)
            case Binary("/" | "%" as operator, left, Constant(divisor)):
                quotient = self.model.new_int_var(-10_000, 10_000, "")
                rest = self.model.new_int_var(0, int(divisor) - 1, "")
                self.model.add(self.value(left) == int(divisor) * quotient + rest)
                return quotient if operator == "/" else rest
            case Binary("min" | "max" as operator, left, right):
                both = [self.value(left), self.value(right)]
                extreme = self.model.new_int_var(-10_000, 10_000, "")
                (self.model.add_min_equality if operator == "min" else self.model.add_max_equality)(
                    extreme, both
                )
                return extreme
        raise AssertionError(node)


@settings(deadline=None)
@given(POSITIONS, RANGES, RANGES)
def test_an_interval_contains_what_a_solver_finds(
    node: Expression, x: tuple[int, int], y: tuple[int, int]
) -> None:
    least, greatest = _Solver({"x": x, "y": y}).ends(node)
    found = interval(node, {"x": Interval(*x), "y": Interval(*y)}, lambda _: UNKNOWN)
    assert found.low <= least <= greatest <= found.high


@settings(deadline=None)
@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(-9, 9), st.integers(1, 6), RANGES, RANGES)
def test_an_interval_is_exact_where_a_sum_is_divided(
    a: int, b: int, c: int, divisor: int, x: tuple[int, int], y: tuple[int, int]
) -> None:
    """Twice the first variable, written twice, counts once."""
    terms = [Binary("*", Constant(n, DType.I32), Variable(v)) for n, v in ((a, "x"), (b, "y"), (a, "x"))]
    node: Expression = Constant(c, DType.I32)
    for term in terms:
        node = Binary("+", node, term)
    node = Binary("/", node, Constant(divisor, DType.I32))
    points = itertools.product(range(x[0], x[1] + 1), range(y[0], y[1] + 1))
    values = [(c + 2 * a * i + b * j) // divisor for i, j in points]
    found = interval(node, {"x": Interval(*x), "y": Interval(*y)}, lambda _: UNKNOWN)
    assert (found.low, found.high) == (min(values), max(values))

"""Arithmetic that nobody can do without: never more than what is left when all that is equal is merged."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Constant,
    Expression,
    Read,
    Scalar,
    Select,
    Stage,
    Variable,
    operands,
    walk,
)
from spacedsl.kernels.pipeline.distinct import Kind, operations
from spacedsl.kernels.pipeline.reductions import is_accumulation
from tests.kernels.pipeline.algorithms import algorithms
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.pointwise import Point, held, points, value
from tests.kernels.pipeline.test_library import CASES, load

Node = int


class Graph:
    """All operations of a pipeline, each once: the same operation of the same operands is one node."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.stages = {stage.name: stage for stage in algorithm.stages}
        self.scalars = {p.name: p.value for p in algorithm.parameters}
        self.nodes: dict[Any, Node] = {}
        self.needs: list[tuple[Node, ...]] = []
        """Those that must be computed for it."""
        self.kinds: list[tuple[str, DType] | None] = []
        self.made: dict[tuple[str, Point, int], Node] = {}
        self.outputs = {
            self.read(name, at, element)
            for name, box in algorithm.outputs.items()
            for at in itertools.product(*(range(e.low, e.high + 1) for e in box))
            for element in range(len(self.stages[name].values))
        }

    def node(self, key: Any, needs: tuple[Node, ...] = (), kind: tuple[str, DType] | None = None) -> Node:
        if key not in self.nodes:
            self.nodes[key] = len(self.needs)
            self.needs.append(needs)
            self.kinds.append(kind)
        return self.nodes[key]

    def read(self, source: str, at: Point, element: int) -> Node:
        if source not in self.stages:
            return self.node(("input", source, at))
        if (source, at, element) not in self.made:
            self.made |= {
                (source, at, n): node for n, node in enumerate(self.computed(self.stages[source], at))
            }
        return self.made[source, at, element]

    def computed(self, stage: Stage, at: Point) -> list[Node]:
        here = dict(zip(stage.variables, at, strict=True))
        if any(u.condition is not None or not is_accumulation(stage, u) for u in stage.updates):
            return [self.node(("whatever", stage.name, at, n)) for n in range(len(stage.values))]
        own = [self.of(v, here, {}) for v in stage.values]
        for update in stage.updates:
            for turn in points({r.name: (r.low, r.high - 1) for r in update.ranges}):
                before = {(stage.name, n): node for n, node in enumerate(own)}
                own = [self.of(v, {**here, **turn}, before) for v in update.values]
        return own

    def of(self, node: Expression, at: Mapping[str, int], own: Mapping[tuple[str, int], Node]) -> Node:
        if isinstance(node, Read) and (node.source, node.element) in own:
            return own[node.source, node.element]
        if not any(isinstance(n, Read) for n in walk(node)) and not node.dtype.is_float:
            return self.node(("number", repr(self.number(node, at))))
        match node:
            case Constant(number):
                return self.node(repr(held(number, node.dtype)))
            case Scalar(name):
                return self.node(("scalar", name))
            case Variable(name):
                return self.node(repr(at[name]))
            case Read(source, place, _, element):
                if any(isinstance(n, Read) for p in place for n in walk(p)):
                    where = tuple(self.of(p, at, own) for p in place)
                    return self.node(("gather", source, element, where), where)
                found = tuple(self.number(p, at) for p in place)
                return self.read(source, tuple(int(n) for n in found if isinstance(n, int)), element)
            case Select(condition, yes, no):
                if not any(isinstance(n, Read) for n in walk(condition)):
                    chosen = self.number(condition, at)
                    if isinstance(chosen, bool):
                        return self.of(yes if chosen else no, at, own)
                parts = tuple(self.of(p, at, own) for p in (condition, yes, no))
                return self.node(("select", parts), parts[:1])
        parts = tuple(self.of(p, at, own) for p in operands(node))
        if not isinstance(node, Binary):
            return self.node(
                (type(node).__name__, repr(node.dtype), str(getattr(node, "function", "")), parts), parts
            )
        if node.operator in ("+", "*", "min", "max"):
            parts = tuple(sorted(parts))
        needs = parts[:1] if node.operator in ("&&", "||") else parts
        kind = {"+": "+", "-": "+", "*": "*", "/": "*"}.get(node.operator)
        is_counted = kind is not None and node.dtype in (DType.F32, DType.F64)
        return self.node(
            (node.operator, node.dtype, parts), needs, (kind or "", node.dtype) if is_counted else None
        )

    def number(self, node: Expression, at: Mapping[str, int]) -> object:
        """What an expression without reads is; of what has no value, where it stands."""
        try:
            return value(node, at, self.scalars, lambda *_: None)
        except (TypeError, ValueError, ArithmeticError):
            return node, tuple(at.items())

    def count(self) -> Counter[tuple[str, DType]]:
        seen: set[Node] = set()
        pending = [*self.outputs]
        while pending:
            node = pending.pop()
            if node not in seen:
                seen.add(node)
                pending += self.needs[node]
        return Counter(kind for node in seen if (kind := self.kinds[node]) is not None)


def check(algorithm: Algorithm) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        left = Graph(algorithm).count()
    finally:
        sys.setrecursionlimit(before)
    for kind, number in total(algorithm).items():
        assert number <= left[kind], kind


def total(algorithm: Algorithm) -> Counter[Kind]:
    found: Counter[Kind] = Counter()
    for kinds in operations(algorithm).values():
        found.update(kinds)
    return found


INPUTS = "{a: {dtype: f32, rank: 2}, b: {dtype: f32, rank: 2}, t: {dtype: f32, extents: [40]}}"
F32 = DType.F32

COUNTED = {
    "a stencil": ("f(x, y) = a(x, y) + a(x + 1, y) * 3", "{f: {x: 7, y: 5}}", {"+": 35, "*": 35}),
    "a product": (
        "p(x, y) = 0.0\np(x, y) += a(k, y) * b(x, k) for k in 0:6", "{p: {x: 4, y: 3}}", {"+": 60, "*": 72},
    ),
    "a convolution": (
        "p(x) = 0.0\np(x) += a(x + i, 0) * b(i, 0) for i in 0:3", "{p: {x: 9}}", {"+": 18, "*": 27},
    ),
    "the same in two stages": (
        "g(x) = t(x) * t(x + 1)\nh(x) = t(x) * t(x + 1)\nf(x) = g(x) + h(x)", "{f: {x: 9}}", {"+": 4, "*": 4},
    ),
    "the same at another point": ("f(x) = t(x) * 5 - t(x + 1) * 5", "{f: {x: 9}}", {"+": 9, "*": 9}),
    "each value for two points": ("f(x) = t(x / 2) * 3", "{f: {x: 10}}", {"*": 5}),
    "at an edge": ("f(x) = repeat_edge(t, x) * 3", "{f: {x: -5:50}}", {"*": 40}),
    "what does not move": ("f(x, y) = t(x) * 3 + a(x, y)", "{f: {x: 6, y: 7}}", {"+": 42, "*": 6}),
    "a sum for a row": (
        "f(x, y) = sum[i in 0:9](t(i + x)) + a(x, y)", "{f: {x: 4, y: 3}}", {"+": 4 * 8 + 12},
    ),
    "a sum of all": ("g() = sum[i in 0:9](t(i) * 3)\nf(x) = t(x) - g()", "{f: {x: 4}}", {"+": 8 + 4, "*": 9}),
    "both ways round": ("f(x, y) = t(x) * t(y)", "{f: {x: 8, y: 8}}", {"*": 32}),
    "a branch": ("f(x) = select(t(x) * 3 > 1, t(x) * 5, 0)", "{f: {x: 4}}", {"*": 4}),
    "easy factors": ("f(x) = t(x) * 2 + t(x) * 1", "{f: {x: 4}}", {"+": 4}),
    "values that depend on others": (
        "f(x) = t(x)\nf(r) = f(r - 1) * 3 + t(r) for r in 1:9", "{f: {x: 9}}", {},
    ),
    "integers": ("f(x) = i32(t(x)) * 3", "{f: {x: 4}}", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_what_counts(name: str) -> None:
    stages, outputs, expected = COUNTED[name]
    algorithm = pipeline(stages, outputs, INPUTS).algorithm
    assert total(algorithm) == {(kind, F32): number for kind, number in expected.items()}
    check(algorithm)


SMALL = {
    "harris": {"width": 12, "height": 9},
    "unsharp": {"width": 9, "height": 8},
    "conv_layer": {"inputs": 3, "outputs": 4, "width": 5, "height": 4, "batch": 2},
    "matmul": {"n": 9},
    "depthwise_separable_conv": {"inputs": 3, "outputs": 4, "width": 5, "height": 4, "batch": 1},
    "toy_blur": {},
}


@pytest.mark.parametrize("name", SMALL)
def test_no_more_counts_than_is_left_of_applications(name: str) -> None:
    algorithm = load(name, SMALL[name] or CASES[name].sizes).algorithm
    assert operations(algorithm)
    check(algorithm)


@given(algorithms(6))
def test_no_more_counts_than_is_left_of_any(algorithm: Algorithm) -> None:
    check(algorithm)

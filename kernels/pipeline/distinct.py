"""Which arithmetic a pipeline cannot do without, whatever its schedule and its compiler.

In: an algorithm. Out: products and sums of floats, counted by type. Whatever is computed twice may be
computed once: in one stage or in several, at one point or at several. So of all operations that are made
alike, but for where they read, those that certainly read different elements count, and of several such places
in the text the one that has the most. What stands behind a branch or a condition counts nothing, nor what a
compiler may find in another way: products with small numbers, minima, functions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Linear, linear
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Constant,
    Expression,
    Read,
    Scalar,
    Stage,
    Update,
    Variable,
    operands,
    walk,
    with_operands,
)
from spacedsl.kernels.pipeline.footprints import (
    Points,
    Positions,
    certain_operands,
    certain_points,
    definitions_of,
    evaluated,
    values_of,
)
from spacedsl.kernels.pipeline.reductions import is_accumulation, is_associative, turn_count

Kind = tuple[str, DType]
"""`*` (also divisions) or `+` (also differences), of a type."""

_EASY = frozenset({-2.0, -1.0, 0.0, 1.0, 2.0})
"""Factors that are no products."""

Place = tuple[str, int | None]
"""A stage, and which of its updates; None: its definition."""

Shape = int
"""What is made alike has the same one, wherever it reads."""


@dataclass(frozen=True, slots=True)
class _Made:
    """An expression of a definition."""

    shape: Shape
    positions: tuple[Expression, ...]
    """All that it reads at."""
    swapped: int
    """In how many ways its operands may change places, as a power of two."""


@dataclass(slots=True)
class _Counter:
    points: Mapping[str, Points]
    shapes: dict[Hashable, Shape] = field(default_factory=dict)
    of_stages: dict[tuple[str, int], Shape] = field(default_factory=dict)
    found: dict[tuple[Kind, Shape], tuple[int, Place]] = field(default_factory=dict)
    """How many, and where most of them are."""

    def shape(self, key: Hashable) -> Shape:
        return self.shapes.setdefault(key, len(self.shapes))

    def add(self, kind: Kind, shape: Shape, number: int, place: Place) -> None:
        if number > self.found.get((kind, shape), (0, place))[0]:
            self.found[kind, shape] = number, place

    # ---- Stages ------------------------------------------------------------------------------------------

    def stage(self, stage: Stage) -> None:
        counted = {id(d) for d in definitions_of(stage)} if stage.name in self.points else set()
        made = [self.made(value) for value in stage.values]
        if id(stage) in counted:
            self.count(stage.values, values_of(stage, stage, self.points[stage.name]), (stage.name, None))
        shapes = [m.shape for m in made]
        for which, update in enumerate(stage.updates):
            self.of_stages |= {(stage.name, n): shape for n, shape in enumerate(shapes)}
            updated = [self.made(value).shape for value in update.values]
            ranges = tuple((r.low, r.high) for r in update.ranges)
            at = tuple(map(repr, update.point))
            shapes = [
                self.shape(("update", old, new, ranges, at)) for old, new in zip(shapes, updated, strict=True)
            ]
            if id(update) in counted:
                values = values_of(stage, update, self.points[stage.name])
                self.update(stage, update, values, (stage.name, which))
        self.of_stages |= {(stage.name, n): shape for n, shape in enumerate(shapes)}

    def update(self, stage: Stage, update: Update, values: Mapping[str, Positions], place: Place) -> None:
        """What is added up counts for each point and turn; the first one may be no sum."""
        if not (is_accumulation(stage, update) and is_associative(stage, update)):
            # Of what goes on with other values of its stage, nothing is known.
            return
        terms = [v.right for v in update.values if isinstance(v, Binary)]
        self.count(terms, values, place)
        ranges = {r.name for r in update.ranges}
        turns = turn_count(update)
        for value, term in zip(update.values, terms, strict=True):
            if not (isinstance(value, Binary) and value.operator == "+" and value.dtype.is_float):
                continue
            made = self.made(term)
            kept = {name: points for name, points in values.items() if name not in ranges}
            names = _names(made.positions)
            if not ranges <= names:
                continue
            still = {name: points[:1] for name, points in values.items() if name in ranges}
            points = _different(made.positions, {**kept, **still}) >> made.swapped
            shape = self.shape(("sum", made.shape, turns))
            self.add(("+", value.dtype), shape, points * (turns - 1), place)

    # ---- Expressions -------------------------------------------------------------------------------------

    def count(self, expressions: Sequence[Expression], values: Mapping[str, Positions], place: Place) -> None:
        for node in _certain(expressions):
            kind = _kind(node)
            # What reads nothing may be known before the program runs.
            if kind is not None and (made := self.made(node)).positions:
                number = _different(made.positions, values) >> made.swapped
                self.add(kind, made.shape, number, place)

    def made(self, node: Expression) -> _Made:
        if isinstance(node, Read):
            known = self.of_stages.get((node.source, node.element))
            shape = self.shape(("input", node.source)) if known is None else known
            return _Made(shape, node.point, 0)
        parts = [self.made(each) for each in operands(node)]
        shapes = [part.shape for part in parts]
        swapped = sum(part.swapped for part in parts)
        if isinstance(node, Binary) and node.operator in ("+", "*"):
            swapped += shapes[0] == shapes[1]
            shapes.sort()
        key = (_said(node), tuple(shapes))
        return _Made(self.shape(key), tuple(p for part in parts for p in part.positions), swapped)


def operations(algorithm: Algorithm) -> Mapping[Place, Mapping[Kind, int]]:
    """How many there are at least, each counted at the place that has the most of those that are made alike.

    What is at ROOT computes its own in its phase, whatever else is made alike: so all of them can be shared
    out among phases.
    """
    counter = _Counter(certain_points(algorithm))
    for stage in algorithm.stages:
        counter.stage(stage)
    total: dict[Place, dict[Kind, int]] = defaultdict(lambda: defaultdict(int))
    for (kind, _), (number, place) in counter.found.items():
        total[place][kind] += number
    return {place: dict(kinds) for place, kinds in total.items()}


def _kind(node: Expression) -> Kind | None:
    if not isinstance(node, Binary) or node.dtype not in (DType.F32, DType.F64):
        return None
    if node.operator in ("+", "-"):
        return "+", node.dtype
    if node.operator not in ("*", "/"):
        return None
    is_easy = any(isinstance(o, Constant) and float(o.value) in _EASY for o in (node.left, node.right))
    return None if is_easy else ("*", node.dtype)


def _certain(expressions: Sequence[Expression]) -> Iterator[Expression]:
    """All that nothing stands before, without positions."""
    pending = [*expressions]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, Read):
            pending.extend(certain_operands(node))


def _said(node: Expression) -> Hashable:
    """A node without what is below it."""
    if isinstance(node, Variable):
        return "a variable"
    if isinstance(node, Constant | Scalar):
        return repr(node)
    nothing = tuple(Constant(0, o.dtype) for o in operands(node))
    return repr(with_operands(node, nothing))


def _names(positions: Sequence[Expression]) -> set[str]:
    return {n.name for position in positions for n in walk(position) if isinstance(n, Variable)}


def _different(positions: Sequence[Expression], values: Mapping[str, Positions]) -> int:
    """How many combinations of these positions there are at least, while variables take their values.

    A variable that stands alone in a position has as many as that takes. What is then fixed is a number in
    other positions; there, one variable more that all of it rises or falls with has as many as it has values.
    All others stand still.
    """
    counts: dict[str, int] = {}
    forms: list[Linear] = []
    for position in dict.fromkeys(positions):
        if any(isinstance(n, Read | Scalar) for n in walk(position)):
            continue
        names = _names([position])
        if len(names) == 1:
            (name,) = names
            different = len(np.unique(np.atleast_1d(evaluated(position, {name: values[name]}))))
            counts[name] = max(counts.get(name, 0), different)
        elif names:
            forms.append(linear(position))
    whole = {name for name, number in counts.items() if number == len(values[name])}
    for form in forms:
        others = form.names - whole
        moved = [name for name in sorted(others) if _moves(form, name)]
        if len(others) == 1 and moved:
            (name,) = moved
            counts[name] = len(values[name])
            whole.add(name)
        elif moved and not others & counts.keys():
            # Of several, all but one stand still.
            name = max(moved, key=lambda n: len(values[n]))
            counts[name] = len(values[name])
            counts |= dict.fromkeys(others - {name}, 1)
    return math.prod(counts.values())


def _moves(form: Linear, name: str) -> bool:
    """Whether it rises or falls with a variable, by the same for each step."""
    return any(atom == Variable(name) for atom, _ in form.terms) and all(
        atom == Variable(name) or name not in atom.names for atom, _ in form.terms
    )

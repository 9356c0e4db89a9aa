"""Where a row has edges, and what the number of a dimension decides: all that a step compares, or reads.

In: a step, the stages that are inlined, a point. Out: conditions of the middle of a row, as positions that
are not negative there; whether a dimension alone decides something, and whether even and odd numbers along it
do. What is made of it is for `bodies.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spacedsl.codegen.pipeline.blocks import Point
from spacedsl.codegen.pipeline.positions import condition
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline import lanes
from spacedsl.kernels.pipeline.affine import (
    Linear,
    Remainder,
    atoms,
    compared,
    fixed,
    has_values,
    linear,
    substituted,
    variable,
)
from spacedsl.kernels.pipeline.algorithm import (
    Compare,
    Expression,
    Read,
    Stage,
    Update,
    Variable,
    expressions,
    operands,
)
from spacedsl.kernels.pipeline.interior import conditions, usable
from spacedsl.kernels.pipeline.reductions import unrolled

_ORDERS = ("<", "<=", ">", ">=")


def middle_conditions(
    definition: Stage | Update, inlined: Mapping[str, Stage], point: Point, name: str
) -> Iterator[Linear]:
    """What is not negative in the middle of a row. `name`: the variable along it."""
    for node, at in _met(definition, inlined, point):
        if isinstance(node, Compare) and node.left.dtype is DType.I32 and node.operator in _ORDERS:
            sides = [substituted(linear(side), at) for side in (node.left, node.right)]
            holds = condition(node.operator, *sides)
            if [atom for atom, _ in holds.terms if atom == Variable(name)]:
                yield from usable(holds, name)
        if isinstance(node, Read):
            for position in node.point:
                yield from conditions(substituted(linear(position), at), name)


def count_reads(definition: Stage | Update, inlined: Mapping[str, Stage]) -> int:
    """How many elements of arrays a point reads."""
    met = _met(definition, inlined, {})
    return sum(isinstance(node, Read) and node.source not in inlined for node, _ in met)


def decides(definition: Stage | Update, inlined: Mapping[str, Stage], point: Point, dim: str) -> bool:
    """Whether something is compared that depends on nothing but where a point is along a dimension."""
    return any(not has_values(apart) for apart in _compared(definition, inlined, point, dim))


def by_parity(definition: Stage | Update, inlined: Mapping[str, Stage], point: Point, dim: str) -> bool:
    """Whether something is compared that follows from whether a number along a dimension is even."""
    found = (atom for apart in _compared(definition, inlined, point, dim) for atom in atoms(apart))
    return any(isinstance(atom, Remainder) and atom.divisor == 2 for atom in found)


def _compared(
    definition: Stage | Update, inlined: Mapping[str, Stage], point: Point, dim: str
) -> Iterator[Linear]:
    """How far apart the sides of comparisons are in which no other dimension stands."""
    for node, at in _met(definition, inlined, {**point, dim: variable(dim)}):
        if (apart := compared(node)) is not None and (apart := substituted(apart, at)).names == {dim}:
            yield apart


def is_woven(
    definition: Stage, inlined: Mapping[str, Stage], layouts: lanes.Layouts, point: Point, dim: str
) -> bool:
    """Whether even and odd points along a dimension are better computed apart."""
    twice, others = set[object](), set[object]()
    for node, at in _met(definition, inlined, {**point, dim: variable(dim)}):
        if not isinstance(node, Read) or node.source in inlined or not node.point:
            continue
        rest = [substituted(linear(position), at) for position in node.point]
        first = rest.pop(layouts.get(node.source, 0))
        names = [form.names for form in rest]
        if dim in first.names.union(*names):
            kind = twice if lanes.is_read_twice(first, names, dim) else others
            kind.add((node.source, node.element, first, *rest))
    return lanes.is_woven(len(twice), len(others))


def _met(
    definition: Stage | Update, inlined: Mapping[str, Stage], point: Point
) -> list[tuple[Read | Compare, Point]]:
    """All reads and comparisons of a definition, also in what is inlined, with the point that each is at."""
    seen: set[tuple[str, tuple[Linear, ...]]] = set()
    found: list[tuple[Read | Compare, Point]] = []

    def look(node: Expression, at: Point) -> None:
        if isinstance(node, Read):
            found.append((node, at))
            if (stage := inlined.get(node.source)) is not None:
                positions = tuple(substituted(linear(p), at) for p in node.point)
                if (node.source, positions) not in seen:
                    seen.add((node.source, positions))
                    there = dict(zip(stage.variables, positions, strict=True))
                    for inner, turn in unrolled(stage):
                        at_turn = {**there, **fixed(turn)}
                        for value in expressions(inner):
                            look(value, at_turn)
        elif isinstance(node, Compare):
            found.append((node, at))
        for part in operands(node):
            look(part, at)

    for node in expressions(definition):
        look(node, point)
    return found

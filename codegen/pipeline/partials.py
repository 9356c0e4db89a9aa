"""Partial results of a reduction: an array for each task, what it begins with, how all of them are combined.

In: a step whose points are shared out in parts, the array of its stage, how many parts there are. Out: the
arrays, as one in memory; statements before the points of a part, and a parallel loop behind all parts. The
order in which partial results are combined is that of parts, and does not depend on the number of threads.
What is computed in a part is for `bodies.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from spacedsl.codegen.pipeline.arithmetic import ARITHMETIC, Value, computed, constant, single
from spacedsl.codegen.pipeline.blocks import Array, index
from spacedsl.codegen.pipeline.placement import Span, Spans
from spacedsl.codegen.tree.expressions import (
    Bitwise,
    Broadcast,
    Compare,
    Load,
    Register,
    Select,
    Type,
    type_of,
)
from spacedsl.codegen.tree.program import Assign, Let, ParallelLoop, Statement, Store, Sweep
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Linear, extreme, quotient, variable
from spacedsl.kernels.pipeline.algorithm import Binary, Constant, Operator, Stage, Update
from spacedsl.kernels.pipeline.backbone import Step
from spacedsl.kernels.pipeline.best import Best
from spacedsl.kernels.tensors import Tensor, dense_strides

COMBINED = 1 << 15
"""Elements of partial results that a task combines, at least: less is not worth another thread."""

VECTORS = 4
"""That are combined side by side, since each waits for itself."""

Fresh = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Partials:
    """Those of a step."""

    step: Step
    result: Array
    """What they are combined with."""
    counts: tuple[int, ...]
    """Of the parts along each of the loops that share the range out, the outermost first."""
    names: tuple[str, ...]
    """Of arrays, one for each value."""
    vector_bytes: int

    @property
    def stage(self) -> Stage:
        return self.step.stage

    @property
    def parts(self) -> int:
        return math.prod(self.counts)

    @property
    def memory(self) -> Iterator[Tensor]:
        """All arrays with one value, each with those of all parts."""
        shape = (*self.counts, *self.result.extents[::-1])
        apart = (self.step.part_points * stride for stride in dense_strides(self.counts))
        strides = (*apart, *self.result.strides[::-1])
        for name, dtype in zip(self.names, self.stage.dtypes, strict=True):
            yield Tensor(name, dtype, shape, strides, True)

    def array(self, part: Linear) -> Array:
        """That of one part."""
        room = next(self.memory).span
        return replace(self.result, tensors=self.names, begin=part * self.step.part_points, room=room)

    def lanes(self, dtype: DType) -> int:
        """Of vectors; what becomes f32 on the way is as wide as that."""
        return 1 if dtype is DType.BOOL else self.vector_bytes // dtype.arithmetic_bytes

    # ---- Before a part -----------------------------------------------------------------------------------

    def begun(self, part: Linear, spans: Spans, fresh: Fresh) -> tuple[Statement, ...]:
        """What is neutral, at all points that the part may come to: in these spans, and along all else."""
        array = self.array(part)
        starts = self.step.neutral
        assert starts is not None
        whole = {
            v: Span(first, first + Linear(extent - 1), extent, True)
            for v, first, extent in zip(self.stage.variables, array.origin, array.extents, strict=True)
        }
        spans = {v: spans[v] if v in self.step.variables else whole[v] for v in whole}
        found: list[Statement] = []
        for tensor, start in zip(self.names, starts, strict=True):
            found += self.filled(tensor, start, array, spans, fresh)
        return tuple(found)

    def filled(
        self, tensor: str, start: Constant, array: Array, spans: Spans, fresh: Fresh
    ) -> tuple[Statement, ...]:
        """One value at all points of these spans."""
        names = {v: fresh(f"{self.stage.name}_{v}") for v in self.stage.variables}
        place = index(array.index([variable(name) for name in names.values()]))
        value = constant(start.value, start.dtype)

        def stored(lanes: int) -> tuple[Statement, ...]:
            return (Store(tensor, place, Broadcast(value, lanes) if lanes > 1 else value),)

        if not names:
            return stored(1)
        others = [*names]
        along = others.pop(array.inner)
        row = spans[along]
        lanes = below(self.lanes(start.dtype), row.most)
        statements = in_vectors(names[along], row.first, row.last, lanes, stored)
        for v in others:
            statements = (Sweep(names[v], spans[v].first, spans[v].last, 1, statements),)
        return statements

    # ---- Behind all parts --------------------------------------------------------------------------------

    def combined(self, fresh: Fresh) -> ParallelLoop:
        """The result with all partial results, in their order: elements in a row, some for each task."""
        definition, update, best = self.step.definition, self.step.update, self.step.best
        assert isinstance(definition, Update) and update is not None
        count = self.result.span
        widest = VECTORS * max(self.lanes(dtype) for dtype in self.stage.dtypes)
        size = -(-max(1, COMBINED // self.parts) // widest) * widest
        name = f"{self.stage.name}_{update + 1}_combined"
        task, begin = fresh(f"{name}_task"), fresh(name)
        first = variable(begin)
        last = extreme("min", first + Linear(size - 1), Linear(count - 1))
        body: list[Statement] = [Let(begin, variable(task) * size)]
        if best is not None:
            body += self.combined_best(best, first, last, fresh)
        else:
            for element, value in enumerate(definition.values):
                assert isinstance(value, Binary)
                body += self.combined_value(element, value.operator, first, last, fresh)
        return ParallelLoop(task, -(-count // size), tuple(body))

    def combined_value(
        self, element: int, operator: Operator, first: Linear, last: Linear, fresh: Fresh
    ) -> tuple[Statement, ...]:
        result, parts = self.result.tensors[element], self.names[element]
        dtype, count = self.stage.dtypes[element], self.result.span
        lanes = below(self.lanes(dtype), count)
        wide = below(VECTORS * lanes, count) if lanes > 1 else 1
        at, part = fresh("element"), fresh("part")

        def statements(points: int) -> tuple[Statement, ...]:
            kind = Type(dtype, min(points, lanes))
            places = [variable(at) + Linear(n) for n in range(0, points, kind.lanes)]
            sums = [Register(fresh("sum"), kind) for _ in places]
            behind = variable(part) * self.step.part_points
            more = tuple(
                Assign(own, together(operator, own, Load(parts, index(place + behind), kind)))
                for own, place in zip(sums, places, strict=True)
            )
            return (
                *(Assign(s, Load(result, index(p), kind)) for s, p in zip(sums, places, strict=True)),
                Sweep(part, Linear(0), Linear(self.parts - 1), 1, more),
                *(Store(result, index(p), s) for s, p in zip(sums, places, strict=True)),
            )

        return in_vectors(at, first, last, wide, statements)

    def combined_best(self, best: Best, first: Linear, last: Linear, fresh: Fresh) -> tuple[Statement, ...]:
        """All values together; of those that are equal, the order of parts decides."""
        count, dtypes = self.result.span, self.stage.dtypes
        at, part = fresh("element"), fresh("part")

        def statements(lanes: int) -> tuple[Statement, ...]:
            kinds = [Type(dtype, lanes) for dtype in dtypes]
            place = index(variable(at))
            there = index(variable(at) + variable(part) * self.step.part_points)
            own = [Register(fresh("best"), kind) for kind in kinds]
            new = [Register(fresh("other"), kind) for kind in kinds]
            more = (
                *(Assign(n, Load(t, there, k)) for n, t, k in zip(new, self.names, kinds, strict=True)),
                *better(best, own, new, fresh),
            )
            results = self.result.tensors
            return (
                *(Assign(o, Load(t, place, k)) for o, t, k in zip(own, results, kinds, strict=True)),
                Sweep(part, Linear(0), Linear(self.parts - 1), 1, more),
                *(Store(t, place, o) for t, o in zip(results, own, strict=True)),
            )

        return in_vectors(at, first, last, below(min(map(self.lanes, dtypes)), count), statements)


def together(operator: Operator, left: Value, right: Value) -> Value:
    """Two partial results as one."""
    if operator in ("&", "|", "^"):
        return Bitwise(operator, left, right)
    return computed(type_of(left).dtype, ARITHMETIC[operator], left, right)


def better(
    best: Best, own: Sequence[Register], new: Sequence[Register], fresh: Fresh
) -> tuple[Statement, ...]:
    """The new ones take the place of a step's own results, where they are better."""
    compared = single(new[best.decisive]), single(own[best.decisive])
    is_better = Register(fresh("is_better"), Type(DType.BOOL, own[0].type.lanes))
    taken = (Assign(o, Select(is_better, n, o)) for o, n in zip(own, new, strict=True))
    return (Assign(is_better, Compare(best.comparator, *compared)), *taken)


def below(count: int, most: int) -> int:
    """A power of two, and no more than there are."""
    return min(count, 1 << most.bit_length() - 1)


def in_vectors(
    name: str,
    first: Linear,
    last: Linear,
    lanes: int,
    statements: Callable[[int], Sequence[Statement]],
) -> tuple[Statement, ...]:
    """From one end of a row to the other: so many points at once, then what is left of them."""
    if lanes == 1:
        return (Sweep(name, first, last, 1, tuple(statements(1))),)
    rest = first + extreme("max", quotient(last + first * -1 + Linear(1), lanes), Linear(0)) * lanes
    return (
        Sweep(name, first, last + Linear(1 - lanes), lanes, tuple(statements(lanes))),
        Sweep(name, rest, last, 1, tuple(statements(1))),
    )

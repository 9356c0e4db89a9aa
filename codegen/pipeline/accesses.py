"""Loads and stores of a pipeline: vectors of neighbours, shuffles of them, gathers, or lanes one by one.

In: positions along each dimension of an array. Out: expressions that load, and statements that store. Which
positions those are is for `values.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.codegen.pipeline.arithmetic import Value
from spacedsl.codegen.pipeline.blocks import Array, Block, index
from spacedsl.codegen.pipeline.positions import Positions
from spacedsl.codegen.tree import expressions
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import (
    Broadcast,
    Counted,
    Gather,
    Index,
    Lane,
    Load,
    Pack,
    Taken,
    Type,
    type_of,
)
from spacedsl.codegen.tree.program import AtomicCombine, Store, Take, TakeEach
from spacedsl.codegen.tree.rules import is_gathered
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Linear, substituted, variable
from spacedsl.kernels.pipeline.algorithm import Read, Variable
from spacedsl.kernels.pipeline.lanes import pace


@dataclass(slots=True, kw_only=True)
class Accesses(Positions):
    arrays: Mapping[str, Array]
    written: frozenset[str]
    """Stages that statements around write to, so that what is read of them may change."""
    loaded: dict[tuple[str, tuple[Linear, ...]], None] = field(default_factory=dict)
    """Stages and inputs, and where they have been read so far."""

    def load(self, node: Read, positions: Sequence[Linear], block: Block) -> Value:
        array = self.arrays[node.source]
        self.loaded[node.source, tuple(positions)] = None
        tensor, scalar = array.tensors[node.element], Type(node.dtype)
        leads = self.leads(array, positions, block)
        together = self.together(array, leads, block)
        if together is not None:
            lanes = self.lanes if self.moves(array, positions) else None
            return Load(tensor, together, Type(node.dtype, 1 if lanes is None else lanes.count))
        found = self.shuffled(node, array, positions, block) or self.gathered(node, array, leads, block)
        if found is not None:
            return found
        return Pack(tuple(Load(tensor, place, scalar) for place in self.places(array, leads, block)))

    def is_plain(self, block: Block) -> bool:
        """Whether all that has been loaded is plainly inside of its array."""
        return all(self.is_inside(self.arrays[source], at, block) for source, at in self.loaded)

    def is_inside(self, array: Array, positions: Sequence[Linear], block: Block) -> bool:
        """Whether it is known of all lanes; what values say is held inside."""
        sizes = zip(positions, array.origin, array.extents, strict=True)
        for dimension, (at, first, extent) in enumerate(sizes):
            if dimension == array.folded:
                continue
            ends = (at + first * -1, first + Linear(extent - 1) + at * -1)
            is_said = any(name in self.numbers for name in at.names)
            if extent > 1 and not is_said and not all(self.is_natural(end, block) for end in ends):
                return False
        return True

    def store(self, array: Array, positions: Sequence[Linear], values: Sequence[Value], block: Block) -> None:
        leads = self.leads(array, positions, block)
        together = self.together(array, leads, block)
        places = () if together is not None else self.places(array, leads, block)
        for tensor, value in zip(array.tensors, values, strict=True):
            if together is not None:
                is_spread = self.moves(array, positions) and type_of(value).lanes == 1 and self.lanes
                stored = Broadcast(value, self.lanes.count) if is_spread and self.lanes else value
                block.statements.append(Store(tensor, together, stored))
            for number, place in enumerate(places):
                lane = value if type_of(value).lanes == 1 else Lane(self.kept(value, block), number)
                block.statements.append(Store(tensor, place, lane))

    def add(self, array: Array, positions: Sequence[Linear], values: Sequence[Value], block: Block) -> None:
        """Adds to elements, of one lane."""
        place = self.together(array, self.leads(array, positions, block), block)
        assert place is not None
        block.statements += [AtomicCombine(t, place, v) for t, v in zip(array.tensors, values, strict=True)]

    def weave(
        self,
        array: Array,
        positions: Sequence[Linear],
        even: Sequence[Value],
        odd: Sequence[Value],
        block: Block,
    ) -> None:
        """Stores lanes of both in turns, from the position of the first even one on."""
        assert self.lanes is not None
        place = index(self.simple(array.index(positions), block))
        for tensor, *pair in zip(array.tensors, even, odd, strict=True):
            wide = (v if type_of(v).lanes > 1 else Broadcast(v, self.lanes.count) for v in pair)
            block.statements.append(Store(tensor, place, expressions.Interleave(*wide)))

    # ---- Lanes together ----------------------------------------------------------------------------------

    def leads(self, array: Array, positions: Sequence[Linear], block: Block) -> list[Linear | Value]:
        """Where each dimension leads: to a position, or each lane to that of its integer."""
        found: list[Linear | Value] = []
        for dimension, at in enumerate(positions):
            if not any(name in self.numbers for name in at.names):
                found.append(at)
                continue
            number = self.kept(self.integer(at, block), block)
            is_wide = type_of(number).lanes > 1
            found.append(number if is_wide else self.taken(number, array, dimension, block))
        return found

    def together(self, array: Array, leads: Sequence[Linear | Value], block: Block) -> Index | None:
        """Where all lanes lead to the same element, or to neighbours: where the first one does."""
        fixed = [lead for lead in leads if isinstance(lead, Linear)]
        if len(fixed) < len(leads):
            return None
        form = array.index(fixed)
        moving = [(atom, number) for atom, number in form.terms if self.varies(atom)]
        are_neighbours = self.lanes is not None and moving == [(Variable(self.lanes.variable), 1)]
        return index(self.simple(form, block)) if are_neighbours or not moving else None

    def moves(self, array: Array, positions: Sequence[Linear]) -> bool:
        """Whether lanes lead to different elements."""
        return any(self.is_lane(name) for name in array.index(positions).names)

    def shuffled(self, node: Read, array: Array, positions: Sequence[Linear], block: Block) -> Value | None:
        """Vectors of neighbours whose lanes make up what is read; None where they do not.

        They do where each lane leads to the second, fourth, .. element behind that of the one before, or two,
        four, .. lanes lead to each element, along the innermost dimension, and all of them are inside of it.
        """
        lanes, along = self.lanes, array.inner
        is_computed = any(name in self.numbers for at in positions for name in at.names)
        if lanes is None or is_computed or not positions or array.extents[along] == 1:
            return None
        inner = self.simple(positions[along] + array.origin[along] * -1, block)
        rest = array.index(positions) + inner * -1
        tensor, step = array.tensors[node.element], pace(inner, lanes.variable)
        if any(self.varies(atom) for atom, _ in self.simple(rest, block).terms):
            return None
        are_inside = True

        def load(first: Linear, count: int) -> Value:
            nonlocal are_inside
            first = self.simple(first, block)
            ends = (first, first * -1 + Linear(array.extents[along] - count))
            are_inside = are_inside and all(block.ranges.is_natural(end) for end in ends)
            return Load(tensor, index(self.simple(first + rest, block)), Type(node.dtype, count))

        def every(first: Linear, step: int) -> Value:
            if step == 1:
                return load(first, lanes.count)
            half = step // 2
            return expressions.EveryOther(
                every(first, half), every(first + Linear(half * (lanes.count - 1)), half)
            )

        def in_turns(lane: int, step: int, divisor: int) -> Value:
            """Each of these lanes leads one element further."""
            if step == divisor:
                there = substituted(inner, {lanes.variable: variable(lanes.variable) + Linear(lane)})
                return load(there, lanes.count // divisor)
            halves = (in_turns(lane + more, 2 * step, divisor) for more in (0, step))
            return expressions.Interleave(*halves)

        found: Value | None = None
        if step is not None and step > 1:
            found = every(inner, step.numerator)
        elif step is not None and 1 < 2 * step.denominator <= lanes.count:
            found = in_turns(0, 1, step.denominator)
        return found if are_inside else None

    def gathered(
        self, node: Read, array: Array, leads: Sequence[Linear | Value], block: Block
    ) -> Value | None:
        """Elements that lie anywhere; None where they cannot be read together."""
        assert self.lanes is not None
        kind, extent = Type(node.dtype, self.lanes.count), array.span
        if not is_gathered(kind, extent):
            return None
        base, taken = array.begin, list[Taken]()
        for dimension, (lead, stride) in enumerate(zip(leads, array.strides, strict=True)):
            first, last = array.origin[dimension], array.extents[dimension] - 1
            if last == 0:
                continue
            if dimension == array.folded:
                if not isinstance(lead, Linear) or any(self.varies(atom) for atom, _ in lead.terms):
                    return None
                base += array.offset(dimension, lead)
                continue
            if not isinstance(lead, Linear):
                begin = _fixed(first)
                taken.append(Taken(lead, begin, begin + last, stride))
                base += Linear(-begin * stride)
                continue
            moving = [(atom, number) for atom, number in lead.terms if self.varies(atom)]
            match moving:
                case []:
                    pass
                case [(Variable(), number)]:
                    lanes = Counted(Linear(0), Type(DType.I32, kind.lanes))
                    taken.append(Taken(lanes, 0, kind.lanes - 1, number * stride))
                case _ if node.source in self.written:
                    # What may be anywhere in an array may be what others write.
                    return None
                case _:
                    each = self.kept(self.integer(lead + first * -1, block), block)
                    taken.append(Taken(each, 0, last, stride))
                    continue
            base += (lead + first * -1) * stride
        if not taken:
            # There is one place along all that moves.
            return None
        return Gather(
            array.tensors[node.element], extent, index(self.simple(base, block)), tuple(taken), kind
        )

    # ---- Lanes one by one --------------------------------------------------------------------------------

    def places(self, array: Array, leads: Sequence[Linear | Value], block: Block) -> tuple[Index, ...]:
        """One for each lane."""
        assert self.lanes is not None
        known = [
            lead if isinstance(lead, Linear) else self.taken_each(lead, array, dimension, block)
            for dimension, lead in enumerate(leads)
        ]
        return tuple(
            index(array.index([self.of_lane(at, lane) for at in known])) for lane in range(self.lanes.count)
        )

    def of_lane(self, at: Linear | tuple[Linear, ...], lane: int) -> Linear:
        """The position of one lane."""
        assert self.lanes is not None
        if isinstance(at, Linear):
            return substituted(at, {self.lanes.variable: variable(self.lanes.variable) + Linear(lane)})
        return at[lane]

    def taken(self, number: Value, array: Array, dimension: int, block: Block) -> Linear:
        """An integer as a position, held within the array."""
        (position,) = self.taken_each(number, array, dimension, block)
        return position

    def taken_each(self, number: Value, array: Array, dimension: int, block: Block) -> tuple[Linear, ...]:
        """The same for each lane of a vector."""
        first = _fixed(array.origin[dimension])
        last = first + array.extents[dimension] - 1
        key = (number, first, last)
        if key not in block.taken:
            names = tuple(self.fresh("at") for _ in range(type_of(number).lanes))
            block.statements.append(
                Take(names[0], number, first, last)
                if len(names) == 1
                else TakeEach(names, number, first, last)
            )
            block.taken[key] = tuple(variable(name) for name in names)
        return block.taken[key]


def _fixed(origin: Linear) -> int:
    """Where a box begins of which values say what is read."""
    if origin.terms:
        raise LoweringError("a box that moves is read where a value says")
    return origin.constant

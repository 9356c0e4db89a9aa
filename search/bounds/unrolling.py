"""Which dimension of a nest can still be its vector, where counters limit the unrolled copies of its body.

In: an instance, then what a candidate leaves of kinds and sizes. Out: the kinds without the vectors that are
impossible. Sizes of several dimensions are looked at together: what the loops and the vector of an index do
not cover is unrolled, and copies along different indices multiply. The rules of the space are not relied on:
a counter counts here only if its definition says that it counts copies.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.engine.instance import Instance
from spacedsl.kernels.linalg.backbone import Dimension, Instruction
from spacedsl.language.space import Counter, EnumChoice, Is, Visibility
from spacedsl.language.space import Use as ChoiceUse

Ranges = Mapping[Dimension, tuple[int, int]]
"""The least and the greatest size that a dimension can have."""


@dataclass(frozen=True, slots=True)
class UnrollCounter:
    """A number that is at least the product of the sizes of those of some dimensions that are unrolled."""

    upper_end: int
    """Where the most that it can be lies in the vector of a candidate."""
    dims: frozenset[Dimension]


@dataclass(frozen=True, slots=True)
class UnrolledNest:
    """An instruction that certainly runs, and what counts the unrolled copies of it."""

    instruction: Instruction
    counters: tuple[UnrollCounter, ...]
    vector_bit: int
    unroll_bit: int
    """Of the domains of `dim_kind`."""

    def kinds_left(
        self, kinds: Mapping[Dimension, int], ranges: Ranges, vector: Sequence[int]
    ) -> dict[Dimension, int] | None:
        """The kinds of its dimensions, without vectors beside which there would be too many copies.

        None where this is so whichever of them is the vector, and if none is: there is no implementation.
        """
        dims = self.instruction.dims
        certain: list[Dimension | None] = [d for d in dims if kinds[d] == self.vector_bit]
        possible = certain or [None, *(d for d in dims if kinds[d] & self.vector_bit)]
        left = [v for v in possible if self._has_room(v, kinds, ranges, vector)]
        if not left:
            return None
        found = {d: kinds[d] if d in left else kinds[d] & ~self.vector_bit for d in dims}
        if len(left) == 1 and left[0] is not None:
            found[left[0]] = self.vector_bit
        return found

    def _has_room(
        self, chosen: Dimension | None, kinds: Mapping[Dimension, int], ranges: Ranges, vector: Sequence[int]
    ) -> bool:
        """Whether counters allow one dimension, or none, to be the vector."""
        unrolled = {
            d
            for d in self.instruction.dims
            if d is not chosen and kinds[d] & ~self.vector_bit == self.unroll_bit
        }
        return all(
            self._least_copies(unrolled & c.dims, ranges) <= vector[c.upper_end] for c in self.counters
        )

    def _least_copies(self, unrolled: Collection[Dimension], ranges: Ranges) -> int:
        """Of each index, the levels that are unrolled cover what the others cannot."""
        product = 1
        for logical in self.instruction.logical_dims:
            own = [ranges[d][0] for d in logical.dims if d in unrolled]
            others = [ranges[d][1] for d in logical.dims if d not in unrolled]
            if own:
                product *= max(math.prod(own), -(-logical.extent // math.prod(others)))
        return product


def unroll_counters(instance: Instance, instruction: Instruction) -> Iterator[UnrollCounter]:
    """Those that a space has for an instruction, whatever their names."""
    objects, dim_kind = instance.objects, instance.space.choices["dim_kind"]
    number = objects.ids[id(instruction)]
    for counter in instance.space.choices.values():
        if not isinstance(counter, Counter) or (number,) not in objects.keys(counter.params):
            continue
        is_product = counter.product and isinstance(counter.base, int) and counter.base >= 1
        if not is_product or counter.visibility is Visibility.HALF or len(counter.foralls) != 1:
            continue
        binder, condition = counter.foralls[0], counter.condition
        here = {counter.params[0].name: number}
        counted = {
            objects.objects[member]
            for member in objects.of(binder.set, here)
            if objects.passes(binder.where, {**here, binder.name: member})
        }
        if (
            counter.value == ChoiceUse("size", (binder.name,))
            and isinstance(dim_kind, EnumChoice)
            and isinstance(condition, Is)
            and condition.use == ChoiceUse("dim_kind", (binder.name,))
            and "UNROLL" in dim_kind.names(condition.mask)
        ):
            dims = frozenset(d for d in instruction.dims if d in counted)
            yield UnrollCounter(instance.offset(counter.name, instruction) + 1, dims)

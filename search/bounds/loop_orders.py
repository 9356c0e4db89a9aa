"""What the order of loops costs: operands that registers and caches cannot keep until they are used again.

In: nests, and views of candidates. Out: nanoseconds. The dimensions of an instruction become loops in some
order. Cut this order anywhere: all loops inside the cut run as one *segment*, once for each iteration of the
loops outside. A segment touches a certain footprint, of which registers or caches held no more at its
beginning than they have room for; the rest has to come in, in every segment. Where tiles may end early,
segments differ: what all of them touch, less what is there at each beginning, is what an average segment
touches, less that, times their number. So every set of innermost dimensions gives a bound, an order of loops
gives the largest of those that it passes through, and a candidate the least over all orders that its domains
still allow. Where sizes are open, the least over them is taken.

Nothing is said about instructions other than the one whose dimensions these are, and its operands in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spacedsl.search.bounds.certain import LINE_BYTES, LONGEST_UNROLLED, least_lines
from spacedsl.search.bounds.domains import View
from spacedsl.search.bounds.nests import Border, Nest, Operand, may_follow, members
from spacedsl.search.bounds.rates import byte_rate


@dataclass(frozen=True, slots=True)
class Pressure:
    """The least time over all orders, and the cut at which the best of these orders takes it."""

    time_ns: float
    inner: int
    resource: str
    """The level behind the border, or "loads"."""
    segments: float
    amount: float
    """That one segment touches: bytes, or load instructions."""


NOTHING = Pressure(0.0, 0, "", 0.0, 0.0)
NEVER = Pressure(math.inf, 0, "", 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class NestView:
    """A nest and what a candidate leaves of it. The reference of the compiled bound: simple, slow."""

    nest: Nest
    view: View

    def loads(self) -> Pressure:
        """Load instructions that registers cannot save."""
        return self._least(lambda inner: [self._loads(inner)])

    def traffic(self) -> Pressure:
        """Bytes that cross the borders of caches."""
        return self._least(lambda inner: [self._bytes(inner, border) for border in self.nest.borders])

    def _least(self, pressures: object) -> Pressure:
        """Over all orders, the least of the greatest pressure at any cut."""
        nest, view = self.nest, self.view
        around = [(0, 0)] * len(nest.dims)
        bits = view.order_bits
        for (a, b), cell in nest.order_cells.items():
            inside, outside = around[a]
            inside |= bool(view.vector[cell] & bits.outer) << b
            outside |= bool(view.vector[cell] & bits.inner) << b
            around[a] = inside, outside
        best: dict[int, Pressure] = {}
        for position in reversed(range(len(nest.cuts))):
            cut = nest.cuts[position]
            own = max(pressures(cut.inner), key=lambda p: p.time_ns, default=NOTHING)  # type: ignore[operator]
            ways = [
                best[to]
                for dim, to in cut.outwards
                if may_follow(cut.inner, dim, nest.all_dims, around) and self._has_registers(cut.inner, dim)
            ]
            # A set from which no order goes on is passed by none.
            end = NOTHING if cut.inner == nest.all_dims else NEVER
            beyond = min(ways, key=lambda p: p.time_ns, default=end)
            best[position] = max(own, beyond, key=lambda p: p.time_ns)
        return NOTHING if best[0] is NEVER else best[0]

    def _has_registers(self, inner: int, dim: int) -> bool:
        """Whether the copies of accumulators inside a reduced dimension can still be as many as needed."""
        copied = [self.nest.dims[d] for d in members(inner & self.nest.copied[dim])]
        least = math.prod(self.view.freedoms[d].least for d in copied)
        if not self.nest.instruction.reduced_dims:
            return True
        return least <= self.view.accumulators(self.nest.instruction) * self.view.lanes(copied)

    def _loads(self, inner: int) -> Pressure:
        view, nest = self.view, self.nest
        lanes = {
            operand: view.lanes((*operand.dims, *(made for made, used in operand.made if inner >> used & 1)))
            for operand in nest.operands
        }
        rate = view.rates.most_loads([o.load for o in nest.operands])
        widest = view.lanes(nest.dims)
        least = Pressure(math.inf, inner, "loads", 0.0, 0.0)
        for sizes in self._corners(inner):
            segments = self._segments(sizes)
            loads = sum(_elements(operand, sizes) / lanes[operand] for operand in nest.operands)
            missing = loads - nest.kept_loads
            if math.prod(sizes) / widest < LONGEST_UNROLLED:
                missing = 0.0
            time_ns = segments * max(0.0, missing) / (rate * view.speedup(nest.dims))
            if time_ns < least.time_ns:
                least = Pressure(time_ns, inner, "loads", segments, loads)
        return least

    def _bytes(self, inner: int, border: Border) -> Pressure:
        """Where all dimensions are inside, what was there before the run counts: not here."""
        view, nest = self.view, self.nest
        if inner == nest.all_dims:
            return NOTHING
        rate = byte_rate(border.level, view.threads(nest.sharing), view.rates.device.threads)
        # Segments of different threads may run side by side, and one brings in what all of them need.
        outside = (dim for number, dim in enumerate(nest.dims) if not inner >> number & 1)
        beside = min(view.threads(outside), border.sharers)
        lines = [self._lines(operand, inner) for operand in nest.operands]
        element_bytes = [o.item_bytes if view.may_be(o.copies) else o.element_bytes for o in nest.operands]
        least = Pressure(math.inf, inner, border.level.name, 0.0, 0.0)
        for sizes in self._corners(inner):
            segments = self._segments(sizes)
            touched = sum(
                max(_elements(operand, sizes) * nbytes, n * LINE_BYTES)
                for operand, nbytes, n in zip(nest.operands, element_bytes, lines, strict=True)
            )
            time_ns = segments / beside * max(0.0, touched - border.kept_bytes) / rate
            if time_ns < least.time_ns:
                least = Pressure(time_ns, inner, border.level.name, segments, touched)
        return least

    def _segments(self, sizes: Sequence[float]) -> float:
        return math.prod(extent / size for extent, size in zip(self.nest.extents, sizes, strict=True))

    def _corners(self, inner: int) -> Iterator[tuple[float, ...]]:
        """Least and greatest numbers of values of each index inside a cut, in all combinations.

        Footprint and number of segments are monotone in 1 / n for each index, and so is what follows from
        them: the least time over all sizes is that of a corner. Of a ragged index these are averages.
        """
        ranges: list[tuple[float, ...]] = []
        for index, extent in enumerate(self.nest.extents):
            least: float
            most: float
            within, around = [1, 1], [1, 1]
            for number, dim in enumerate(self.nest.dims):
                if self.nest.index_of[number] == index:
                    freedom = self.view.freedoms[dim]
                    product = within if inner >> number & 1 else around
                    product[0] *= freedom.least
                    product[1] *= freedom.most
            least = max(within[0], -(-extent // around[1]))
            most = max(least, min(within[1], extent // around[0]))
            if self.nest.ragged[index]:
                most = average(extent, max(least, min(within[1], extent)))
                least = average(extent, least)
            ranges.append((least,) if least == most else (least, most))
        return itertools.product(*ranges)

    def _lines(self, operand: Operand, inner: int) -> float:
        """Cache lines of an operand inside a cut; 0 where its place is not certain, or the size of a tile.

        Of an index that lies inside as a whole, every segment has all values, whatever the sizes. Where
        segments differ, those that are whole count, and the average is over all.
        """
        if self.view.may_be(operand.copies):
            return 0
        nest = self.nest
        within = {nest.index_of[d] for d in range(len(nest.dims)) if inner >> d & 1}
        around = {nest.index_of[d] for d in range(len(nest.dims)) if not inner >> d & 1}
        split = within & around
        inside = [1] * len(nest.extents)
        steps = [
            (step, extent)
            for index, (step, extent) in enumerate(zip(operand.steps, nest.extents, strict=True))
            if step and index not in around
        ]
        for number, dim in enumerate(nest.dims):
            step = operand.steps[nest.index_of[number]]
            freedom = self.view.freedoms[dim]
            if not step or nest.index_of[number] not in split:
                continue
            if freedom.least != freedom.most:
                return 0
            if inner >> number & 1:
                inside[nest.index_of[number]] *= freedom.least
                tile = (self.view.freedoms[nest.dims[d]].least for d in nest.inner_levels[number])
                steps.append((step * math.prod(tile), freedom.least))
        whole = math.prod(
            (extent // size) / -(-extent // size)
            for index, (extent, size) in enumerate(zip(nest.extents, inside, strict=True))
            if nest.ragged[index] and operand.steps[index] and index in split
        )
        return least_lines(steps, operand.item_bytes) * whole


def average(extent: int, size: int) -> float:
    """Of the pieces of `size` that an index falls into, the last of which may be smaller."""
    return extent / -(-extent // size)


def _elements(operand: Operand, sizes: Sequence[float]) -> float:
    return math.prod(size for size, matters in zip(sizes, operand.indices, strict=True) if matters)

"""The intervals of all nodes of a graph for the working vector, kept up to date as domains change.

In: a graph, the working vector, the universes of integers. Out: `low[n]` and `high[n]` after `refresh`.
Nothing here is part of a candidate: when another vector is loaded, the leaves whose words differ are computed
anew, and of the other nodes only those that a change reaches, each once, in order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from spacedsl.compiler.ir import SATURATED
from spacedsl.engine.quantities.intervals import Interval, clamped, computed
from spacedsl.engine.quantities.nodes import INFINITE, LEAVES, Graph, Node, Op
from spacedsl.engine.quantities.reach import reached


class Words(Protocol):
    """A working vector, or one that differs from it in one domain."""

    def __getitem__(self, cell: int, /) -> int: ...


def leaf(node: Node, v: Words, universes: Mapping[int, tuple[int, ...]]) -> Interval:
    """The interval of a leaf for a working vector."""
    word = v[node.cell]
    match node.op:
        case Op.POSITION:
            return (word & -word).bit_length() - 1, word.bit_length() - 1
        case Op.INTEGER:
            universe = universes[node.cell]
            least = universe[(word & -word).bit_length() - 1]
            return clamped(least), clamped(universe[word.bit_length() - 1])
        case Op.COUNTER:
            low, high = word, v[node.cell + 1]
            return clamped(low), INFINITE if high == SATURATED else clamped(high)
        case Op.IN_MASK:
            mask = node.data[0]
            return int(not word & ~mask), int(bool(word & mask))
    raise TypeError(f"no leaf: {node}")


@dataclass(slots=True, eq=False)
class Evaluation:
    """One mutable state, of the working vector `v`; `changed` takes note of cells, `refresh` computes."""

    graph: Graph
    v: Sequence[int]
    universes: Mapping[int, tuple[int, ...]]
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    _read: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By cell: the words that the intervals are of."""
    _dirty: set[int] = field(default_factory=set)
    differing: set[int] | None = None
    """Nodes that differ from those of the vector loaded last; None: any may."""

    def __post_init__(self) -> None:
        for node in self.graph.nodes:
            low, high = (
                leaf(node, self.v, self.universes)
                if node.op in LEAVES
                else computed(node, self.low, self.high)
            )
            self.low.append(low)
            self.high.append(high)
        for cell in self.graph.leaves:
            self._read[cell] = self._words(cell)

    def load(self) -> None:
        """Another vector has been written over the working one."""
        self._dirty.update(cell for cell, words in self._read.items() if words != self._words(cell))
        self.refresh()
        self.differing = set()

    def _words(self, cell: int) -> tuple[int, int]:
        """Both ends of a counter, or the one mask."""
        return self.v[cell], self.v[cell + 1] if cell in self.graph.counters else 0

    def changed(self, cell: int) -> None:
        if cell in self._read:
            self._dirty.add(cell)

    def refresh(self) -> None:
        if not self._dirty:
            return
        changes: list[tuple[int, Interval]] = []
        for cell in self._dirty:
            self._read[cell] = self._words(cell)
            nodes = self.graph.leaves[cell]
            changes += [(n, leaf(self.graph.nodes[n], self.v, self.universes)) for n in nodes]
        self._dirty.clear()
        before = self._spread(changes, None, self._computed)
        if self.differing is not None:
            self.differing.update(before)

    def may_fail(self, cells: Sequence[int], watched: Sequence[int], within: Set[int]) -> bool:
        """Whether some values at the cells could make a watched condition false, as far as one pass can tell.

        `within`: the nodes that the watched ones depend on.
        """
        leaves = [n for cell in cells for n in self.graph.leaves[cell]]
        undo = self._spread([(n, (self.high[n], self.low[n])) for n in leaves], within, self._reached)
        fails = any(not self.high[n] for n in watched)
        self._restore(undo)
        return fails

    def probe(self, cell: int, mask: int, watched: Sequence[int], within: Set[int]) -> list[int]:
        """Which of the watched conditions are false if the domain at the cell is `mask`."""
        trial = _Trial(self.v, cell, mask)
        changes = [(n, leaf(self.graph.nodes[n], trial, self.universes)) for n in self.graph.leaves[cell]]
        undo = self._spread(changes, within, self._computed)
        failed = [n for n in watched if not self.high[n]]
        self._restore(undo)
        return failed

    def _computed(self, n: int, before: Mapping[int, Interval]) -> Interval:
        return computed(self.graph.nodes[n], self.low, self.high)

    def _reached(self, n: int, before: Mapping[int, Interval]) -> Interval:
        now = self.low[n], self.high[n]
        return reached(self.graph.nodes[n], self.low, self.high, before, now)

    def _restore(self, intervals: Mapping[int, Interval]) -> None:
        for n, (low, high) in intervals.items():
            self.low[n], self.high[n] = low, high

    def _spread(
        self,
        changes: Sequence[tuple[int, Interval]],
        within: Set[int] | None,
        compute: Callable[[int, Mapping[int, Interval]], Interval],
    ) -> dict[int, Interval]:
        """Writes new ends of leaves, and all that follows; the intervals from before of what differs."""
        users, lows, highs = self.graph.users, self.low, self.high
        before: dict[int, Interval] = {}
        pending: list[int] = []
        queued: set[int] = set()

        def write(n: int, low: int, high: int) -> None:
            if low == lows[n] and high == highs[n]:
                return
            before[n] = lows[n], highs[n]
            lows[n], highs[n] = low, high
            for user in users[n]:
                if user not in queued and (within is None or user in within):
                    queued.add(user)
                    heappush(pending, user)

        for n, (low, high) in changes:
            write(n, low, high)
        while pending:
            n = heappop(pending)
            write(n, *compute(n, before))
        return before


@dataclass(frozen=True, slots=True)
class _Trial:
    """The vector with one domain replaced."""

    v: Sequence[int]
    cell: int
    mask: int

    def __getitem__(self, cell: int) -> int:
        return self.mask if cell == self.cell else self.v[cell]

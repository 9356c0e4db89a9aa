"""Limits: comparisons with quantities that must hold, and the values that cannot meet them.

In: a graph and the working vector. Out: what propagators ask (`possible`, `require`), and narrowed domains.
From a limit that must hold, intervals that nodes have to lie in are handed down, each node after all that
read it, by the inverses of operations and the intervals of all other operands (`inverse.py`); a value of a
choice outside of what is asked of a leaf is removed. One walk down, each limit by itself: what one limit asks
of a node is not added to what another asks. Where a choice is read in several places, each is looked at by
itself, so that a value may be left with which the limit is false; once decided, that is a contradiction.

A limit is looked at once nothing else is waiting, if something below it has changed. The propagator of a
limit says whether it still must hold, which collects it, and is called once more to remove values, so that
each removal has its propagator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from spacedsl.engine.domains import Contradiction, Domains
from spacedsl.engine.quantities.evaluation import Evaluation
from spacedsl.engine.quantities.intervals import TRUE, Interval, clamped, common
from spacedsl.engine.quantities.inverse import asked
from spacedsl.engine.quantities.nodes import LEAVES, Graph, Node, Op
from spacedsl.engine.wakes import Call

UNGROUNDED = -1
"""The node of any comparison before there is a graph: it may hold, and may not."""


class Ungrounded(dict[object, int]):
    """Nodes of a comparison by objects, as far as there are any."""

    def __missing__(self, key: object) -> int:
        return UNGROUNDED


@dataclass(slots=True, eq=False)
class Limits:
    domains: Domains
    decisions: frozenset[int]
    """Cells of enums and integers."""
    evaluation: Evaluation | None = None
    """None: before there is a graph, and while what involves no quantity is propagated at the root."""
    calls: Mapping[int, Sequence[Call]] = field(default_factory=dict)
    """By node: the propagators that ask about it."""
    waiting: dict[Call, None] = field(default_factory=dict)
    listening: bool = False
    """Whether every change is noticed; otherwise the vector is compared before each answer."""
    _above: dict[int, tuple[Call, ...]] = field(default_factory=dict)
    _collected: dict[int, Call] | None = None
    _calling: Call | None = None
    _removes: bool = False
    """Whether what must hold removes values at once; otherwise it waits."""

    # ---- For propagators ----------------------------------------------------------------------------------

    def possible(self, node: int) -> bool:
        """Whether the comparison may hold."""
        return self.evaluation is None or node == UNGROUNDED or bool(self._current().high[node])

    def require(self, node: int) -> None:
        """The comparison must hold."""
        if self.evaluation is None or node == UNGROUNDED:
            return
        current = self._current()
        if not current.high[node]:
            raise Contradiction
        if current.low[node]:
            return
        if self._collected is not None:
            assert self._calling is not None
            self._collected[node] = self._calling
            return
        if self.listening and not self._removes:
            self.waiting.update(dict.fromkeys(self.calls[node]))
            return
        self._remove(node)

    # ---- For the queue ------------------------------------------------------------------------------------

    def notice(self, cell: int) -> None:
        """The words at the cell have changed."""
        if self.evaluation is None:
            return
        self.evaluation.changed(cell)
        if cell not in self._above:
            self._above[cell] = tuple(self._calls_above(cell))
        self.waiting.update(dict.fromkeys(self._above[cell]))

    def run(self) -> None:
        """Asks all that are waiting which limits must hold, and removes the values that cannot meet them."""
        self._collected = {}
        while self.waiting:
            self._calling, _ = self.waiting.popitem()
            function, arguments = self._calling
            function(*arguments)
        collected, self._collected = self._collected, None
        if self.domains.queue:
            # What has changed meanwhile comes first: the intervals are not of that yet.
            self.waiting.update(dict.fromkeys(collected.values()))
            return
        self._removes = True
        for function, arguments in collected.values():
            function(*arguments)
        self._removes = False

    def forget(self) -> None:
        self.waiting.clear()
        self._removes = False
        self._collected = None

    # ---- Removing values ----------------------------------------------------------------------------------

    def _current(self) -> Evaluation:
        assert self.evaluation is not None
        if not self.listening:
            self.evaluation.load()
        self.evaluation.refresh()
        return self.evaluation

    def _remove(self, limit: int) -> None:
        """Takes away the values that are outside of what the limit asks of the leaves below it."""
        current = self._current()
        nodes, low, high = current.graph.nodes, current.low, current.high
        needs: dict[int, Interval] = {limit: TRUE}
        pending = [-limit]
        while pending:
            n = -heappop(pending)
            node, need = nodes[n], common(needs[n], (low[n], high[n]))
            if need[0] > need[1]:
                raise Contradiction
            if node.op in LEAVES:
                self._keep(node, need)
                continue
            for operand, interval in asked(node, need, low, high):
                if interval[0] <= low[operand] and high[operand] <= interval[1]:
                    continue
                if operand not in needs:
                    heappush(pending, -operand)
                needs[operand] = common(interval, needs.get(operand, interval))

    def _keep(self, leaf: Node, need: Interval) -> None:
        """The values of an enum or an integer choice with which the leaf lies in `need`."""
        if leaf.cell not in self.decisions:
            return
        assert self.evaluation is not None
        word = self.domains.v[leaf.cell]
        match leaf.op:
            case Op.POSITION:
                kept = word & (2 << need[1]) - 1 & ~((1 << need[0]) - 1)
            case Op.INTEGER:
                universe = self.evaluation.universes[leaf.cell]
                inside = (need[0] <= clamped(value) <= need[1] for value in universe)
                kept = word & sum(1 << bit for bit, holds in enumerate(inside) if holds)
            case _:
                kept = word & (leaf.data[0] if need[0] else ~leaf.data[0])
        if kept != word:
            self.domains.narrow(leaf.cell, kept)

    def _calls_above(self, cell: int) -> dict[Call, None]:
        """The propagators of all limits that read the cell, at any distance."""
        assert self.evaluation is not None
        graph: Graph = self.evaluation.graph
        pending = list(graph.leaves.get(cell, ()))
        seen = set(pending)
        found: dict[Call, None] = {}
        while pending:
            node = pending.pop()
            found.update(dict.fromkeys(self.calls.get(node, ())))
            for user in graph.users[node]:
                if user not in seen:
                    seen.add(user)
                    pending.append(user)
        return found

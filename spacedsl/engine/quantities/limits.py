"""Limits: comparisons with quantities that must hold, and the values that cannot meet them.

In: a graph and the working vector. Out: what propagators ask (`possible`, `require`), and narrowed domains.
A value of a choice is removed where a limit would be false if the choice had it, by the intervals of all
other domains. That is all that is said of the result; three things keep most values from being tried:

* A limit is looked at once nothing else is waiting, with all others that are, and only if something below
  it has changed.
* Choices are left out that no limit depends on together with something that differs from the vector loaded
  last.
* One pass bounds how far a choice, or a few together, can move each limit (`reach.py`).

The propagator of a limit says whether it still must hold, which collects it, and is called once more to
remove what was found, so that each removal has its propagator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from spacedsl.engine.domains import Contradiction, Domains
from spacedsl.engine.quantities.evaluation import Evaluation
from spacedsl.engine.quantities.nodes import LEAVES, Graph, Op
from spacedsl.engine.wakes import Call

TOGETHER = 6
"""Choices whose reach is bounded in one pass first: most passes say that none of them matters."""
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
    standing: frozenset[int] = frozenset()
    """Nodes that must hold from the start, whatever is decided."""
    waiting: dict[Call, None] = field(default_factory=dict)
    listening: bool = False
    """Whether every change is noticed; otherwise the vector is compared before each answer."""
    _above: dict[int, tuple[Call, ...]] = field(default_factory=dict)
    _collected: dict[int, Call] | None = None
    _calling: Call | None = None
    _found: dict[int, dict[int, int]] | None = None
    """By node: by cell, the values to remove, while they are being removed."""

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
        if self.listening and self._found is None:
            self.waiting.update(dict.fromkeys(self.calls[node]))
            return
        found = self._shave([node]) if self._found is None else self._found
        v = self.domains.v
        for cell, mask in found.pop(node, {}).items():
            if v[cell] & mask:
                self.domains.narrow(cell, v[cell] & ~mask)

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
            # What has changed meanwhile comes first: trying values is dear.
            self.waiting.update(dict.fromkeys(collected.values()))
            return
        self._found = self._shave(list(collected))
        for node in list(self._found):
            function, arguments = collected[node]
            function(*arguments)
        self._found = None

    def forget(self) -> None:
        self.waiting.clear()
        self._found = None
        self._collected = None

    # ---- Trying values ------------------------------------------------------------------------------------

    def _current(self) -> Evaluation:
        assert self.evaluation is not None
        if not self.listening:
            self.evaluation.load()
        self.evaluation.refresh()
        return self.evaluation

    def _shave(self, limits: Sequence[int]) -> dict[int, dict[int, int]]:
        found: dict[int, dict[int, int]] = {}
        if not limits:
            return found
        current, v = self._current(), self.domains.v
        live = self._below(limits, None)
        for cell in self._movers(self._suspects(limits, live), limits, live):
            rest = v[cell]
            while rest:
                value = rest & -rest
                rest &= rest - 1
                failed = current.probe(cell, value, limits, live)
                if failed:
                    removed = found.setdefault(failed[0], {})
                    removed[cell] = removed.get(cell, 0) | value
        return found

    def _movers(self, cells: Sequence[int], limits: Sequence[int], live: Set[int]) -> list[int]:
        """The cells that could move a limit far enough; a few that together could not go at once."""
        current, found = self._current(), list[int]()
        for start in range(0, len(cells), TOGETHER):
            few = cells[start : start + TOGETHER]
            if current.may_fail(few, limits, live):
                found += [cell for cell in few if current.may_fail([cell], limits, live)]
        return found

    def _suspects(self, limits: Sequence[int], live: Set[int]) -> list[int]:
        """The undecided choices of which a value might fail now, in order of position.

        On the vector that was loaded, each value of each choice met each limit that had to hold. So only
        choices matter that a limit depends on together with something that differs since then; for a limit
        that had not to hold before, all that it depends on.
        """
        current, v = self._current(), self.domains.v
        differing = current.differing if self.listening else None
        if differing is None:
            nodes = live
        else:
            users = (user for n in differing for user in current.graph.users[n])
            starts = {n for n in (*differing, *users) if n in live}
            nodes = self._below([*(n for n in limits if n not in self.standing), *sorted(starts)], live)
        leaves = (current.graph.nodes[n] for n in nodes if current.graph.nodes[n].op in LEAVES)
        cells = {leaf.cell for leaf in leaves if leaf.cell in self.decisions}
        return sorted(cell for cell in cells if v[cell] & (v[cell] - 1))

    def _below(self, starts: Iterable[int], within: Set[int] | None) -> Set[int]:
        """The nodes that these depend on as far as they are open, and they themselves."""
        current = self._current()
        nodes, low, high = current.graph.nodes, current.low, current.high
        pending = list(starts)
        seen = set(pending)
        while pending:
            node = nodes[pending.pop()]
            operands: Sequence[int] = node.operands
            if node.op is Op.SELECT:
                pairs = zip(operands[::2], operands[1::2], strict=True)
                operands = [n for c, x in pairs if high[c] for n in (c, x)]
            for n in operands:
                if low[n] != high[n] and n not in seen and (within is None or n in within):
                    seen.add(n)
                    pending.append(n)
        return seen

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

"""Why the interval of a quantity excludes values: the quantities between it and what a derivation narrowed.

In: an instance, a quantity on objects, a claim about it, and a derivation after which it holds of the
interval. Out: ends of intervals in order of need, each with the quantities and the parts of the derivation
that it follows from, none of them in vain; the last one is that of the quantity itself.

The graph is one in which every quantity has a node of its own, and what is settled before any propagation is
constant, so that everything else has its reason; where that cannot be built (a branch that propagation rules
out reads what does not exist), what is settled at the root is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.claims import Claim
from spacedsl.engine.derivation import Derivation, Goal, Widening
from spacedsl.engine.instance import Instance
from spacedsl.engine.quantities.building import Builder
from spacedsl.engine.quantities.evaluation import Evaluation, leaf
from spacedsl.engine.quantities.grounding import Grounding
from spacedsl.engine.quantities.intervals import Interval, computed
from spacedsl.engine.quantities.nodes import LEAVES, Graph
from spacedsl.engine.static import Statics

Key = tuple[str, tuple[int, ...]]
"""A quantity, and the ids of its objects."""


@dataclass(frozen=True, slots=True)
class End:
    """The least or greatest value of a quantity: before any propagation, and after the derivation."""

    quantity: Key
    is_greatest: bool
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Bounding:
    """Ends of a quantity; `parts` are positions in the derivation, `bounds` of earlier ones of these."""

    ends: tuple[End, ...]
    parts: tuple[int, ...]
    bounds: tuple[int, ...]


def reasoned_graph(instance: Instance) -> Graph:
    """Of all quantities; raises `DiagnosticError` where the root, too, reads what does not exist."""
    try:
        return _graph(instance, instance.layout.initial)
    except DiagnosticError:
        root = instance.root()
        if root is None:
            raise
        return _graph(instance, list(instance.propagation.unpacked(root.vector)))


def claimed(instance: Instance, graph: Graph, quantity: Key, claim: Claim) -> Goal:
    """Whether the claim holds of the interval in a working vector."""
    words = list(instance.layout.initial)
    evaluation = Evaluation(graph, words, instance.layout.universes)
    node = graph.instances[quantity]

    def goal(v: Sequence[int]) -> bool:
        words[:] = v
        evaluation.load()
        return claim.holds((evaluation.low[node], evaluation.high[node]))

    return goal


def boundings(
    instance: Instance, graph: Graph, quantity: Key, claim: Claim, derivation: Derivation
) -> tuple[Bounding, ...]:
    """Why the claim holds of the interval after a derivation of that."""
    return _Reasons(instance, graph, quantity, derivation).boundings(claim)


def _graph(instance: Instance, vector: Sequence[int]) -> Graph:
    builder = Builder(vector, instance.layout.universes, is_apart=True)
    grounding = Grounding(Statics(instance.objects, instance.layout), builder)
    grounding.all_instances()
    return grounding.graph()


class _Reasons:
    """From the quantity that is asked about down to what the derivation narrowed."""

    def __init__(self, instance: Instance, graph: Graph, quantity: Key, derivation: Derivation) -> None:
        self.instance, self.graph, self.derivation = instance, graph, derivation
        self.top = graph.instances[quantity]
        self.names: dict[int, Key] = {node: key for key, node in reversed(list(graph.instances.items()))}
        self.names[self.top] = quantity
        self.widening = Widening(instance)
        self.before = self._intervals(instance.layout.initial, self._all())
        self.after = self._intervals(derivation.after, self._all())

    def boundings(self, claim: Claim) -> tuple[Bounding, ...]:
        needed: dict[int, set[bool]] = {self.top: set(claim.ends(self.after[self.top]))}
        found: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        # Operands have smaller numbers: what reads a quantity comes before it.
        pending = [-self.top]
        while pending:
            node = -heappop(pending)
            goal = self._goal(node, needed[node]) if node != self.top else claim.holds
            found[node] = self._reasons(node, goal, needed)
            for below in found[node][1]:
                if below not in found and -below not in pending:
                    heappush(pending, -below)
        order = {node: at for at, node in enumerate(sorted(found))}
        return tuple(
            Bounding(
                tuple(self._end(node, is_greatest) for is_greatest in sorted(needed[node])),
                found[node][0],
                tuple(sorted(order[below] for below in found[node][1])),
            )
            for node in order
        )

    def _end(self, node: int, is_greatest: bool) -> End:
        before, after = self.before[node][is_greatest], self.after[node][is_greatest]
        return End(self.names[node], is_greatest, before, after)

    def _goal(self, node: int, ends: set[bool]) -> Callable[[Interval], bool]:
        low, high = self.after[node]
        return lambda i: (False not in ends or i[0] >= low) and (True not in ends or i[1] <= high)

    def _reasons(
        self, node: int, goal: Callable[[Interval], bool], needed: dict[int, set[bool]]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Parts and quantities; what is needed of the latter is added to `needed`."""
        inside, below = self._inside(node)
        given = {n: self.after[n] for n in below}
        kept: set[int] = set()
        for n in below:
            for is_greatest in (False, True):
                if self.before[n][is_greatest] == self.after[n][is_greatest]:
                    continue
                low, high = given[n]
                wide = (low, self.before[n][1]) if is_greatest else (self.before[n][0], high)
                if goal(self._intervals(self.derivation.after, inside, {**given, n: wide})[node]):
                    given[n] = wide
                else:
                    kept.add(n)
                    needed.setdefault(n, set()).add(is_greatest)
        v = list(self.derivation.after)
        parts: list[int] = []
        # What was narrowed last is given back first, as ends of counters need.
        for at in reversed(range(len(self.derivation.inferences))):
            wider = list(v)
            for narrowing in reversed(self.derivation.inferences[at].narrowings):
                self.widening.widen(wider, narrowing)
            if goal(self._intervals(wider, inside, given)[node]):
                v = wider
            else:
                parts.append(at)
        return tuple(reversed(parts)), tuple(sorted(kept))

    def _inside(self, node: int) -> tuple[list[int], list[int]]:
        """The nodes that one quantity's own definition makes, in order, and the quantities that it reads."""
        inside, below = {node}, set()
        stack = [node]
        while stack:
            for operand in self.graph.nodes[stack.pop()].operands:
                if operand in self.names:
                    below.add(operand)
                elif operand not in inside:
                    inside.add(operand)
                    stack.append(operand)
        return sorted(inside), sorted(below)

    def _all(self) -> Sequence[int]:
        return range(len(self.graph.nodes))

    def _intervals(
        self, v: Sequence[int], nodes: Sequence[int], given: Mapping[int, Interval] | None = None
    ) -> dict[int, Interval]:
        """Of the nodes, in order, from those that are given."""
        low, high = [0] * len(self.graph.nodes), [0] * len(self.graph.nodes)
        for n, (least, greatest) in (given or {}).items():
            low[n], high[n] = least, greatest
        for n in nodes:
            node = self.graph.nodes[n]
            is_leaf = node.op in LEAVES
            low[n], high[n] = (
                leaf(node, v, self.instance.layout.universes) if is_leaf else computed(node, low, high)
            )
        return {n: (low[n], high[n]) for n in nodes}

"""The search tree: nodes are candidates, edges restrict one decision, closed nodes are not visited again.

In: expansions, results and cuts, in the order in which the search made them; the same sequence gives the same
tree. Out: for policies, the live children with their bounds and statistics; for reports, the least live bound
and the share of the space that was cut. Nothing is propagated here but to rebuild a candidate from its path.

Bounds are kept as the model gave them, raised to the parent's; `scale` (at most 1) multiplies all of them
once a measurement has shown that the device is faster than its description says.
"""

from __future__ import annotations

import enum
import math
from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance


class Step(NamedTuple):
    """One decision restricted: the variable's index in the instance, and the values that it keeps."""

    variable: int
    mask: int


class Closed(enum.Enum):
    """Why nothing below a node is worth another look."""

    CONSTRAINTS = "constraints"  # no implementation lies below it
    BOUND = "bound"  # none below it is faster than the best one
    MEASURED = "measured"  # it is an implementation, and its outcome is known or awaited
    EXPLORED = "explored"  # all its children are closed


@dataclass(frozen=True, slots=True)
class Expansion:
    """What branching on a node's next decision gave; values refused by the constraints have no child.

    `forced` are decisions that had a single valid group: they belong to the node itself, and `bound_ns` is
    its bound after them. `variable` is None where nothing is left to decide.
    """

    forced: tuple[Step, ...]
    bound_ns: float
    variable: int | None
    masks: tuple[int, ...]
    bounds_ns: tuple[float, ...]
    refused: int
    """Groups of values, here and on the way, that the constraints refused."""


@dataclass(slots=True, eq=False)
class Node:
    """A candidate in the tree, as the steps that lead to it from its parent."""

    parent: Node | None
    index: int
    """Position among the parent's children."""
    steps: tuple[Step, ...]
    bound_ns: float
    """Not scaled; at least the parent's."""
    mass: float
    """Share of the space: the parent's, split equally over its valid children."""
    closed: Closed | None = None
    is_expanded: bool = False
    children: tuple[Node, ...] = ()
    visits: int = 0
    fastest: list[tuple[float, str]] = field(default_factory=list)
    """The least distinct (time in ns, digest of the code) found through this node, ascending."""
    least_ns: float = 0.0
    """Least bound of the open nodes below, itself included; infinite once closed. Not scaled."""
    cut: float = 0.0
    """Mass below that is closed by a bound or by constraints."""

    @property
    def live(self) -> list[Node]:
        return [child for child in self.children if child.closed is None]

    def ancestry(self) -> Iterator[Node]:
        """This node, its parent, .. the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def path(self) -> tuple[int, ...]:
        """Positions of the children to take from the root."""
        return tuple(node.index for node in self.ancestry() if node.parent is not None)[::-1]


class Tree:
    """`kept_times`: how many fastest results each node remembers, as the policy needs them.

    `kept_candidates`: how many decision vectors stay in memory; others are rebuilt from their paths.
    """

    def __init__(
        self,
        instance: Instance,
        root: Candidate,
        root_bound_ns: float,
        kept_times: int,
        kept_candidates: int = 4096,
    ) -> None:
        self.root = Node(None, 0, (), root_bound_ns, 1.0, least_ns=root_bound_ns)
        self.scale = 1.0
        self.cut_ns: float | None = None
        self._instance = instance
        self._root_candidate = root
        self._kept_times = kept_times
        self._kept_candidates = kept_candidates
        self._candidates: OrderedDict[Node, Candidate] = OrderedDict()
        self._nodes = [self.root]  # parents before their children

    @property
    def is_exhausted(self) -> bool:
        return self.root.closed is not None

    @property
    def least_live_bound_ns(self) -> float:
        """No implementation that is still to be found is faster; infinite once the tree is exhausted."""
        return self.root.least_ns * self.scale

    @property
    def share_cut(self) -> float:
        """Mass of the nodes that a bound, or constraints after they had been made, closed."""
        return self.root.cut

    def follow(self, path: Iterable[int]) -> Node:
        node = self.root
        for index in path:
            node = node.children[index]
        return node

    def holder(self, implementation: Candidate) -> Node:
        """The deepest node that an implementation lies below, or the first closed one on the way there."""
        node = self.root
        while node.children and node.closed is None:
            node = next(child for child in node.children if self._holds(child, implementation))
        return node

    def _holds(self, child: Node, implementation: Candidate) -> bool:
        """Whether an implementation below a node's parent is below the node: by the step that parts them."""
        first = child.steps[0]
        return bool(implementation.mask(self._instance.variables[first.variable]) & first.mask)

    def candidate(self, node: Node) -> Candidate:
        """The node's candidate, rebuilt from the nearest ancestor that is still in memory."""
        missing: list[Node] = []
        found: Candidate | None = None
        for ancestor in node.ancestry():
            found = self._candidates.get(ancestor)
            if found is not None:
                break
            missing.append(ancestor)
        candidate = found if found is not None else self._root_candidate
        for ancestor in reversed(missing):
            candidate = replay(self._instance, candidate, ancestor.steps)
        if missing:
            self._keep(node, candidate)
        return candidate

    def steps(self, node: Node) -> tuple[Step, ...]:
        """All decisions from the root's candidate to the node's."""
        chain = list(node.ancestry())
        return tuple(step for ancestor in reversed(chain) for step in ancestor.steps)

    def expand(self, node: Node, expansion: Expansion, candidates: Sequence[Candidate] = ()) -> None:
        """Gives the node its children; `candidates` are theirs where the caller has them."""
        self._candidates.pop(node, None)
        node.is_expanded = True
        node.steps = (*node.steps, *expansion.forced)
        node.bound_ns = max(node.bound_ns, expansion.bound_ns)
        if expansion.variable is not None and not expansion.masks:
            self.close(node, Closed.CONSTRAINTS)
            return
        share = node.mass / max(1, len(expansion.masks))
        node.children = tuple(
            Node(node, i, (Step(expansion.variable, mask),), max(bound_ns, node.bound_ns), share)
            for i, (mask, bound_ns) in enumerate(zip(expansion.masks, expansion.bounds_ns, strict=True))
            if expansion.variable is not None
        )
        self._nodes += node.children
        for child, candidate in zip(node.children, candidates, strict=False):
            self._keep(child, candidate)
        for member in (*node.children, *node.ancestry()):
            self._refresh(member)

    def visit(self, node: Node) -> None:
        """Counts a visit of the node and of all its ancestors."""
        for ancestor in node.ancestry():
            ancestor.visits += 1

    def record(self, node: Node, time_ns: float, digest: str) -> None:
        """Adds a result to the node and to all its ancestors."""
        for ancestor in node.ancestry():
            if (time_ns, digest) not in ancestor.fastest:
                insort(ancestor.fastest, (time_ns, digest))
                del ancestor.fastest[self._kept_times :]

    def revise(self, times_ns: Mapping[str, float | None]) -> None:
        """Gives results new times, by the digest of their code, or (None) takes them back."""
        for node in self._nodes:
            if any(digest in times_ns for _, digest in node.fastest):
                revised = [(times_ns.get(digest, time_ns), digest) for time_ns, digest in node.fastest]
                node.fastest = sorted((time_ns, digest) for time_ns, digest in revised if time_ns is not None)

    def close(self, node: Node, cause: Closed) -> None:
        node.closed = cause
        self._candidates.pop(node, None)
        for member in node.ancestry():
            self._refresh(member)

    def raise_bound(self, node: Node, bound_ns: float) -> None:
        """Everything below was found to have at least this bound (not scaled); infinite: nothing is there."""
        if math.isinf(bound_ns):
            self.close(node, Closed.CONSTRAINTS)
            return
        node.bound_ns = max(node.bound_ns, bound_ns)
        for child in node.children:
            child.bound_ns = max(child.bound_ns, node.bound_ns)
        for member in (*node.children, *node.ancestry()):
            self._refresh(member)

    def recut(self, cut_ns: float | None, scale: float) -> None:
        """Closes by the new cut what is open, and opens again what it no longer closes."""
        self.cut_ns = cut_ns
        self.scale = scale
        for node in reversed(self._nodes):
            self._refresh(node)

    def _is_cut(self, node: Node) -> bool:
        return self.cut_ns is not None and node.bound_ns * self.scale >= self.cut_ns

    def _refresh(self, node: Node) -> None:
        """The node's status from its own bound and its children, which are up to date."""
        if node.closed not in (Closed.CONSTRAINTS, Closed.MEASURED):
            node.closed = None
            if self._is_cut(node):
                node.closed = Closed.BOUND
            elif node.children and not node.live:
                node.closed = Closed.EXPLORED
        if node.closed in (Closed.CONSTRAINTS, Closed.BOUND):
            node.cut = node.mass
        else:
            node.cut = sum(child.cut for child in node.children)
        if node.closed is not None:
            node.least_ns = math.inf
        else:
            below = min((child.least_ns for child in node.children), default=node.bound_ns)
            node.least_ns = max(node.bound_ns, below)

    def _keep(self, node: Node, candidate: Candidate) -> None:
        self._candidates[node] = candidate
        self._candidates.move_to_end(node)
        while len(self._candidates) > self._kept_candidates:
            self._candidates.popitem(last=False)


def replay(instance: Instance, candidate: Candidate, steps: Iterable[Step]) -> Candidate:
    """The candidate after the steps; raises `ReplayError` where the constraints now refuse one."""
    for step in steps:
        restricted = instance.restrict(candidate, instance.variables[step.variable], step.mask)
        if restricted is None:
            raise ReplayError(instance.variables[step.variable].choice)
        candidate = restricted
    return candidate


class ReplayError(Exception):
    """Recorded decisions that contradict each other: they were recorded with another space or engine."""

    def __init__(self, choice: str) -> None:
        super().__init__(f"a recorded decision on `{choice}` is refused: was the space changed since?")

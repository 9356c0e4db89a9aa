"""Random descents with refutation: what they count, and when they fail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import Branches, DescentCounts, random_descent
from spacedsl.engine.instance import Instance, Variable
from tests.engine.small import Things, World, things, world

COLOURING = """
choice enum colour($x in Things):
  value R:
  value G:
  value B:
end
require forall $x in Things: forall $y in Near($x): colour($x) != colour($y)
"""


def any_open(instance: Instance, rng: np.random.Generator) -> Branches:
    """A random open decision, value by value."""

    def branches(candidate: Candidate) -> tuple[Variable, Sequence[int]] | None:
        variables = [x for x in instance.variables if candidate.is_open(x)]
        if not variables:
            return None
        variable = variables[rng.integers(len(variables))]
        mask = candidate.mask(variable)
        return variable, [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]

    return branches


def descend(here: World, counts: DescentCounts, seed: int) -> Candidate | None:
    rng = np.random.default_rng(seed)
    return random_descent(here.instance, here.root(), any_open(here.instance, rng), rng, counts)


def graph(edges: Sequence[tuple[int, int]], count: int) -> Things:
    nodes = things(count)
    for a, b in edges:
        nodes[a].near = (*nodes[a].near, nodes[b])
    return Things(nodes)


def test_descents_end_in_valid_implementations_and_are_counted() -> None:
    # Two cliques of three joined by edges: propagation alone does not see every dead end.
    edges = [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (0, 3), (1, 4), (2, 5), (0, 4)]
    here = world(COLOURING, graph(edges, 6))
    counts = DescentCounts()
    for seed in range(30):
        leaf = descend(here, counts, seed)
        if leaf is not None:
            colours = [leaf.value("colour", node) for node in here.things]
            assert all(colours[a] != colours[b] for a, b in edges)
    assert counts.descents == 30
    assert counts.complete > 0
    assert counts.decisions >= counts.complete


def test_a_value_that_fails_is_dropped_and_the_descent_goes_on() -> None:
    # Whatever is tried first, the counter allows one A only where two things must differ from the third.
    text = """
choice enum kind($x in Things):
  value A:
  value B:
  value C:
end
choice counter squares(): forall $x in Things: forall $y in Things: sum 1 when: kind($x) == kind($y) end
require squares() <= 0
"""
    here = world(text, 3)
    counts = DescentCounts()
    for seed in range(10):
        leaf = descend(here, counts, seed)
        assert leaf is not None
        assert {leaf.value("kind", x) for x in here.things} == {"A", "B", "C"}
    assert counts.complete == 10


def test_a_descent_fails_where_no_value_is_left() -> None:
    complete_graph = [(a, b) for a in range(4) for b in range(a)]
    here = world(COLOURING, graph(complete_graph, 4))
    assert here.instance.root() is not None, "propagation does not see that four nodes need four colours"
    counts = DescentCounts()
    assert descend(here, counts, 0) is None
    # One node is coloured, the next fails with its first colour, and so it does without it.
    assert (counts.decisions, counts.refutations, counts.complete) == (1, 1, 0)
    assert (counts.dead_ends, counts.dead_end_rate) == (1, 1.0)

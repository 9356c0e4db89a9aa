"""Random descents with refutation: what they count, and when they fail."""

from __future__ import annotations

import random
from collections.abc import Sequence

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import Choose, Statistics, descend
from spacedsl.engine.instance import Instance, Variable
from tests.engine.small import Things, things, world

COLOURING = """
choice enum colour($x in Things):
  value R:
  value G:
  value B:
end
require forall $x in Things: forall $y in Near($x): colour($x) != colour($y)
"""


def random_choice(instance: Instance, rng: random.Random) -> Choose:
    def choose(candidate: Candidate) -> tuple[Variable, Sequence[int]] | None:
        variables = [x for x in instance.variables if candidate.is_open(x)]
        if not variables:
            return None
        variable = rng.choice(variables)
        mask = candidate.mask(variable)
        bits = [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]
        rng.shuffle(bits)
        return variable, bits

    return choose


def graph(edges: Sequence[tuple[int, int]], count: int) -> Things:
    nodes = things(count)
    for a, b in edges:
        nodes[a].near = (*nodes[a].near, nodes[b])
    return Things(nodes)


def test_descents_end_in_valid_implementations_and_count_their_dead_ends() -> None:
    # Two cliques of three joined by edges: propagation alone does not see every dead end.
    edges = [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (0, 3), (1, 4), (2, 5), (0, 4)]
    here = world(COLOURING, graph(edges, 6))
    statistics = Statistics()
    for seed in range(30):
        leaf = descend(
            here.instance, here.root(), random_choice(here.instance, random.Random(seed)), statistics
        )
        if leaf is not None:
            colours = [leaf.value("colour", node) for node in here.things]
            assert all(colours[a] != colours[b] for a, b in edges)
    assert statistics.descents == 30
    assert statistics.complete > 0
    assert statistics.decisions >= statistics.complete


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
    statistics = Statistics()
    for seed in range(10):
        leaf = descend(
            here.instance, here.root(), random_choice(here.instance, random.Random(seed)), statistics
        )
        assert leaf is not None
        assert {leaf.value("kind", x) for x in here.things} == {"A", "B", "C"}
    assert statistics.complete == 10


def test_a_descent_fails_where_no_value_is_left() -> None:
    complete_graph = [(a, b) for a in range(4) for b in range(a)]
    here = world(COLOURING, graph(complete_graph, 4))
    root = here.instance.root()
    assert root is not None, "propagation does not see that four nodes need four colours"
    statistics = Statistics()
    choose = random_choice(here.instance, random.Random(0))
    assert descend(here.instance, root, choose, statistics) is None
    # One node is coloured, the next fails with its first colour, and so it does without it.
    assert (statistics.decisions, statistics.dead_ends, statistics.complete) == (1, 1, 0)

"""Masses, bounds and closings of the tree."""

from __future__ import annotations

import math

import pytest

from spacedsl.search.tree import Closed, Expansion, Node, ReplayError, Step, Tree
from tests.search.toy import Constraint, ToyCandidate, ToyInstance


def tree(sizes: tuple[int, ...] = (2, 4, 2), kept_candidates: int = 4096) -> Tree:
    instance = ToyInstance(sizes)
    root = instance.root()
    assert root is not None
    return Tree(instance, root, 1.0, kept_times=3, kept_candidates=kept_candidates)


def expand(t: Tree, node: Node, variable: int, *bounds_ns: float) -> tuple[Node, ...]:
    masks = tuple(1 << i for i in range(len(bounds_ns)))
    t.expand(node, Expansion((), node.bound_ns, variable, masks, bounds_ns, 0))
    return node.children


def test_mass_is_split_equally_over_valid_children_and_a_cut_takes_its_share() -> None:
    t = tree()
    left, right = expand(t, t.root, 0, 5.0, 50.0)
    expand(t, left, 1, 5.0, 60.0, 6.0, 7.0)
    t.recut(55.0, 1.0)
    assert t.share_cut == pytest.approx(1 / 8)
    t.recut(50.0, 1.0)
    assert right.closed is Closed.BOUND
    assert t.share_cut == pytest.approx(1 / 8 + 1 / 2)


def test_measured_leaves_are_closed_but_not_cut() -> None:
    t = tree()
    left, right = expand(t, t.root, 0, 5.0, 50.0)
    t.close(left, Closed.MEASURED)
    assert t.share_cut == 0
    assert t.least_live_bound_ns == 50.0
    t.close(right, Closed.MEASURED)
    assert t.is_exhausted
    assert t.root.closed is Closed.EXPLORED
    assert math.isinf(t.least_live_bound_ns)


def test_a_childs_bound_is_at_least_its_parents() -> None:
    t = tree()
    (child, *_) = expand(t, t.root, 0, 0.5, 3.0)
    assert child.bound_ns == 1.0


def test_a_node_without_valid_children_is_closed_by_the_constraints() -> None:
    t = tree()
    left, _ = expand(t, t.root, 0, 5.0, 6.0)
    t.expand(left, Expansion((), 5.0, 1, (), (), 4))
    assert left.closed is Closed.CONSTRAINTS
    assert t.share_cut == 0.5


def test_lowering_the_scale_opens_again_what_bounds_had_closed_and_nothing_else() -> None:
    t = tree()
    left, right = expand(t, t.root, 0, 5.0, 50.0)
    below = expand(t, left, 1, 30.0, 40.0, 100.0, 100.0)
    t.close(below[0], Closed.MEASURED)
    t.close(below[1], Closed.CONSTRAINTS)
    t.recut(40.0, 1.0)
    assert t.is_exhausted
    t.recut(40.0, 0.5)
    assert t.root.closed is None
    assert right.closed is None
    assert [node.closed for node in below] == [
        Closed.MEASURED, Closed.CONSTRAINTS, Closed.BOUND, Closed.BOUND,
    ]  # fmt: skip
    assert left.closed is Closed.EXPLORED
    assert t.least_live_bound_ns == 25.0


def test_a_bound_proven_for_all_below_closes_now_and_opens_under_a_lower_scale() -> None:
    t = tree()
    left, _ = expand(t, t.root, 0, 5.0, 6.0)
    expand(t, left, 1, 5.0, 5.0, 5.0, 5.0)
    t.recut(20.0, 1.0)
    t.raise_bound(left, 22.0)
    assert left.closed is Closed.BOUND
    t.recut(20.0, 0.9)
    assert left.closed is None
    t.raise_bound(left, math.inf)
    assert left.closed is Closed.CONSTRAINTS


def test_forced_decisions_belong_to_the_node() -> None:
    t = tree()
    left, _ = expand(t, t.root, 0, 5.0, 6.0)
    t.expand(left, Expansion((Step(1, 0b10),), 8.0, 2, (1, 2), (8.0, 9.0), 3))
    assert left.bound_ns == 8.0
    assert t.steps(left.children[1]) == (Step(0, 1), Step(1, 2), Step(2, 2))
    candidate = t.candidate(left.children[1])
    assert isinstance(candidate, ToyCandidate)
    assert candidate.masks == (1, 2, 2)


@pytest.mark.parametrize("kept", [0, 1, 4096])
def test_a_candidate_is_the_same_kept_or_rebuilt(kept: int) -> None:
    t = tree(kept_candidates=kept)
    for child in expand(t, t.root, 0, 5.0, 6.0):
        for grandchild in expand(t, child, 1, 5.0, 6.0, 7.0, 8.0):
            candidate = t.candidate(grandchild)
            assert isinstance(candidate, ToyCandidate)
            assert candidate.masks == (1 << child.index, 1 << grandchild.index, 0b11)


def test_a_path_leads_back_to_its_node() -> None:
    t = tree()
    node = expand(t, expand(t, t.root, 0, 5.0, 6.0)[1], 1, 5.0, 6.0, 7.0, 8.0)[2]
    assert node.path() == (1, 2)
    assert t.follow((1, 2)) is node


def test_recorded_steps_that_no_longer_hold_are_named() -> None:
    instance = ToyInstance([2, 2], [Constraint((0, 1), lambda a, b: a != b)])
    root = instance.root()
    assert root is not None
    t = Tree(instance, root, 0.0, kept_times=1)
    child, _ = expand(t, t.root, 0, 0.0, 0.0)
    # As if it had been recorded with a space that allowed equal values.
    t.expand(child, Expansion((), 0.0, 1, (1, 2), (0.0, 0.0), 0))
    with pytest.raises(ReplayError, match="`x`"):
        t.candidate(child.children[0])

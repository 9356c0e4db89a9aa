"""The state that a search keeps up step by step, against figures computed anew from the whole tree."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from spacedsl.kernels.evaluation import Failure, Outcome, Timing
from spacedsl.search.comparison import Comparison
from spacedsl.search.policies import ThresholdAscent
from spacedsl.search.state import Evaluation, Iteration, State, gap
from spacedsl.search.store import Store
from spacedsl.search.tree import Closed, Node, Tree
from tests.search import long_run
from tests.search.toy import ToyInstance


def take(state: State, happened: Iteration | Evaluation) -> None:
    if isinstance(happened, Iteration):
        state.absorb(happened)
    else:
        state.evaluate(happened)


def frontier(tree: Tree, node: Node) -> list[Node]:
    """The open nodes without children at or below a node."""
    if node.closed in (Closed.CONSTRAINTS, Closed.MEASURED) or is_cut(tree, node):
        return []
    if not node.children:
        return [node]
    return [leaf for child in node.children for leaf in frontier(tree, child)]


def is_cut(tree: Tree, node: Node) -> bool:
    return tree.cut_ns is not None and node.bound_ns * tree.scale >= tree.cut_ns


def mass_cut(tree: Tree, node: Node) -> float:
    if node.closed is Closed.CONSTRAINTS or (node.closed is not Closed.MEASURED and is_cut(tree, node)):
        return node.mass
    return math.fsum(mass_cut(tree, child) for child in node.children)


@pytest.mark.parametrize("slack", [0.4, 0.9, 1.5])
def test_what_is_kept_up_equals_what_is_computed_anew(tmp_path: Path, slack: float) -> None:
    long_run.run(tmp_path, slack=slack)
    instance = long_run.instance()
    root = instance.root()
    assert root is not None
    bound = long_run.bound(instance, slack)
    tree = Tree(instance, root, bound(root), ThresholdAscent().kept_times)
    state = State(tree, kept_contenders=5)
    with Store.open(tmp_path, read_only=True) as store:
        history = list(store.history())
    assert sum(isinstance(happened, Iteration) for happened in history) > 3
    for happened in history:
        if isinstance(happened, Comparison):
            break
        take(state, happened)
        leaves = frontier(tree, tree.root)
        assert tree.is_exhausted == (not leaves)
        assert tree.share_cut == pytest.approx(mass_cut(tree, tree.root))
        least = min((leaf.bound_ns for leaf in leaves), default=math.inf)
        assert tree.least_live_bound_ns == least * tree.scale
        assert tree.root.visits == state.iterations
        assert (
            tree.root.fastest
            == sorted(
                {(t.outcome.timing.time_ns, t.digest) for t in state.trials if t.outcome.timing is not None}
            )[:10]
        )
    assert (state.bound_violations > 0) == (slack > 1)


def test_a_result_that_turns_out_wrong_no_longer_guides(tmp_path: Path) -> None:
    run = long_run.run(tmp_path, evaluations=30)
    lost, slower = run.finalists[0].digest, run.finalists[1].digest
    instance = long_run.instance()
    root = instance.root()
    assert root is not None
    tree = Tree(instance, root, 0.0, ThresholdAscent().kept_times)
    state = State(tree, kept_contenders=5)
    with Store.open(tmp_path, read_only=True) as store:
        for happened in store.history():
            if not isinstance(happened, Comparison):
                take(state, happened)
    wrong = Outcome(None, Failure.WRONG_RESULT, "C differs")
    state.compare(Comparison({lost: wrong, slower: Outcome(Timing(1e6, 1e6, 1e6, 9))}))
    assert lost not in {digest for _, digest in tree.root.fastest}
    assert (1e6, slower) in tree.root.fastest
    assert tree.root.fastest == sorted(tree.root.fastest)


def test_the_candidates_of_a_restored_tree_are_those_that_its_paths_say(tmp_path: Path) -> None:
    long_run.run(tmp_path, evaluations=20)
    instance = long_run.instance()
    root = instance.root()
    assert root is not None
    tree = Tree(instance, root, 0.0, 10, kept_candidates=2)
    state = State(tree, kept_contenders=5)
    bound = long_run.bound(instance, 0.4)
    with Store.open(tmp_path, read_only=True) as store:
        for happened in store.history():
            if isinstance(happened, Iteration):
                state.absorb(happened)
                node = tree.follow(happened.path)
                for child in node.children:
                    assert child.bound_ns >= bound(tree.candidate(child))
            elif isinstance(happened, Evaluation):
                state.evaluate(happened)


@pytest.mark.parametrize(
    ("best_ns", "least_ns", "expected"),
    [(None, 10.0, None), (100.0, 75.0, 0.25), (100.0, math.inf, 0.0), (100.0, 120.0, 0.0)],
)
def test_the_gap_is_how_much_faster_anything_else_could_be(
    best_ns: float | None, least_ns: float, expected: float | None
) -> None:
    assert gap(best_ns, least_ns) == expected


def test_the_toy_has_the_solutions_that_it_should() -> None:
    assert len(list(long_run.instance().solutions())) == 5 * 4 * 5 * 5
    assert len(list(ToyInstance([2, 3]).solutions())) == 6

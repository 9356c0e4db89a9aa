"""Complete candidates of a space, for their own sake: no bound, no measurement, no statistics.

In: a root candidate and an ordering. Out: solutions, each once. `all_solutions` walks the tree in order.
`random_solutions` descends at random, backtracks, and starts again elsewhere before it is lost in one corner.
Both end when there are no more solutions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Variable
from spacedsl.search.orderings import Ordering

FIRST_PATIENCE = 16
"""Dead ends and solutions met again in one descent before the first restart; doubled at each."""

Pick = Callable[[Sequence[int]], int]
"""Which of these masks of values is tried first."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A candidate, from which a branch that has been walked is removed before it is looked at."""

    candidate: Candidate
    walked: tuple[Variable, int] | None


def all_solutions(root: Candidate, ordering: Ordering) -> Iterator[Candidate | None]:
    """Every solution once, first values first; None at each dead end, so that callers can stop."""
    return _walk(root, ordering, lambda masks: masks[0])


def random_solutions(
    root: Candidate, ordering: Ordering, rng: np.random.Generator
) -> Iterator[Candidate | None]:
    """Different solutions, each found from the root anew; None at each dead end."""
    met: set[tuple[Decision, ...]] = set()
    patience = FIRST_PATIENCE
    while True:
        left, is_new = patience, False
        for found in _walk(root, ordering, lambda masks: masks[int(rng.integers(len(masks)))]):
            if found is not None and (decisions := found.decisions()) not in met:
                met.add(decisions)
                is_new = True
                yield found
                break
            yield None
            left -= 1
            if not left:
                break
        else:
            return  # the whole tree, and nothing new in it
        if not is_new:
            patience *= 2


def _walk(root: Candidate, ordering: Ordering, pick: Pick) -> Iterator[Candidate | None]:
    """Depth first: each solution, and None for each branch that propagation contradicts."""
    pending = [_Node(root, None)]
    while pending:
        node = pending.pop()
        candidate = node.candidate
        if node.walked is not None:
            variable, walked = node.walked
            rest = candidate.mask(variable) & ~walked
            without = candidate.instance.restrict(candidate, variable, rest) if rest else None
            if without is None:
                continue
            candidate = without
        branching = ordering.next(candidate)
        if branching is None:
            yield candidate
            continue
        mask = pick(branching.masks)
        pending.append(_Node(candidate, (branching.variable, mask)))
        child = candidate.instance.restrict(candidate, branching.variable, mask)
        if child is None:
            yield None
        else:
            pending.append(_Node(child, None))

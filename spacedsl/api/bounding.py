"""What the bound of a candidate consists of.

In: a posed problem and decisions about it. Out: a `Bounded`, its terms in words. Nothing is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spacedsl.api.problem import EmptySpaceError, Problem, UnknownNameError
from spacedsl.api.targets import target_of
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision, UnknownDecisionError
from spacedsl.search.bounds.protocol import Bound, BoundTerm
from spacedsl.search.run import ContradictionError, decided


@dataclass(frozen=True, slots=True)
class Bounded:
    """No implementation that the decisions leave is faster than `bound_ns`, which is the largest term."""

    bound_ns: float
    terms: tuple[BoundTerm, ...]
    """The largest first."""


def explain_bound(problem: Problem, decisions: Sequence[Decision] = ()) -> Bounded:
    """After decisions, besides those that the kernel file fixes.

    Raises `UnknownNameError` for what this space does not offer, `EmptySpaceError` where nothing is left.
    """
    try:
        candidate = decided(problem.instance, problem.root, decisions)
    except UnknownDecisionError as error:
        raise UnknownNameError(str(error)) from None
    except ContradictionError as error:
        raise EmptySpaceError(f"{problem.kernel.path}: {error}") from None
    bound = target_of(problem.device).bound(problem.instance, problem.device)
    check_bounded(problem, bound, candidate)
    terms = bound.explain(candidate)
    return Bounded(max((term.bound_ns for term in terms), default=0.0), terms)


def check_bounded(problem: Problem, bound: Bound, candidate: Candidate) -> None:
    """Raises `EmptySpaceError` where the bound leaves nothing of what the constraints leave."""
    if math.isinf(bound(candidate)):
        impossible, *_ = bound.explain(candidate)
        raise EmptySpaceError(f"{problem.kernel.path}: {impossible.resource}: {impossible.detail}")

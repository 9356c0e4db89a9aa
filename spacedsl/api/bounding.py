"""What the bound of a candidate consists of.

In: a posed problem and decisions about it. Out: a `Bounded`, its terms in words. Nothing is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spacedsl.api.problem import EmptySpaceError, Problem, UnknownNameError
from spacedsl.engine.candidate import Decision
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.bounds.protocol import BoundTerm
from spacedsl.search.run import ContradictionError, UnknownDecisionError, decided


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
    terms = CpuBound(problem.instance, problem.device).explain(candidate)
    _check_finite(problem, terms)
    return Bounded(max((term.bound_ns for term in terms), default=0.0), terms)


def check_bounded(problem: Problem) -> None:
    """Raises `EmptySpaceError` where the bound leaves nothing of what the constraints leave."""
    bound = CpuBound(problem.instance, problem.device)
    if math.isinf(bound(problem.root)):
        _check_finite(problem, bound.explain(problem.root))


def _check_finite(problem: Problem, terms: Sequence[BoundTerm]) -> None:
    if terms and math.isinf(terms[0].bound_ns):
        raise EmptySpaceError(f"{problem.kernel.path}: {terms[0].resource}: {terms[0].detail}")

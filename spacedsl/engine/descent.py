"""Descents: from a candidate to a complete one, with refutation of dead ends.

In: an instance, a candidate, a rule that names the next decision and its branches. Out: the complete
candidate, or None, and counts of what happened. A value that leads to a contradiction is removed from the
parent, which is propagated again, so a descent fails only where a decision has no value left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable

Choose = Callable[[Candidate], tuple[Variable, Sequence[int]] | None]
"""The next open decision and masks of its values, the first of which is taken; None: complete."""


@dataclass(slots=True)
class Statistics:
    """Counts over descents; each one's owner adds to it."""

    descents: int = 0
    complete: int = 0
    decisions: int = 0
    """Branches taken."""
    dead_ends: int = 0
    """Branches that propagation contradicted, and that were removed."""


def descend(
    instance: Instance, candidate: Candidate, choose: Choose, statistics: Statistics | None = None
) -> Candidate | None:
    """Takes the first branch that `choose` offers until the candidate is complete; None where none is left.

    `choose` is asked again after a removal, with the smaller domain.
    """
    counts = statistics if statistics is not None else Statistics()
    counts.descents += 1
    while True:
        chosen = choose(candidate)
        if chosen is None:
            counts.complete += 1
            return candidate
        variable, branches = chosen
        child = instance.restrict(candidate, variable, branches[0])
        if child is not None:
            counts.decisions += 1
            candidate = child
            continue
        counts.dead_ends += 1
        smaller = refute(instance, candidate, variable, branches[0])
        if smaller is None:
            return None
        candidate = smaller


def refute(instance: Instance, candidate: Candidate, variable: Variable, mask: int) -> Candidate | None:
    """The candidate without the values of `mask`, which are known to fail; None where nothing is left."""
    rest = candidate.mask(variable) & ~mask
    return instance.restrict(candidate, variable, rest) if rest else None

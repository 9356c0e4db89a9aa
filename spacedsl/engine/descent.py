"""Random descents: from a candidate to a complete one, with refutation of values that fail.

In: an instance, a candidate, a rule that names the next decision and its branches, random numbers. Out: the
complete candidate, or None, and counts of what happened. A branch that propagation contradicts is removed
from the parent, which is propagated again: so a descent draws uniformly among the branches that are valid,
and meets a dead end, as Beaugnon's thesis counts them (section 5.2), only where a decision has no valid
branch left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable
from spacedsl.engine.streams import Draws

Branches = Callable[[Candidate], tuple[Variable, Sequence[int]] | None]
"""The next open decision and the disjoint masks that its domain is split into; None: complete."""


@dataclass(slots=True)
class DescentCounts:
    """Counts over descents; each one's owner adds to it."""

    descents: int = 0
    complete: int = 0
    decisions: int = 0
    """Branches taken."""
    refutations: int = 0
    """Branches that propagation contradicted, and that were removed."""

    def add(self, other: DescentCounts) -> None:
        self.descents += other.descents
        self.complete += other.complete
        self.decisions += other.decisions
        self.refutations += other.refutations

    @property
    def dead_ends(self) -> int:
        """Descents that ended at a decision without a valid branch."""
        return self.descents - self.complete

    @property
    def dead_end_rate(self) -> float:
        """Dead ends per descent; 0 where there was none."""
        return self.dead_ends / self.descents if self.descents else 0.0


def random_descent(
    instance: Instance,
    candidate: Candidate,
    branches: Branches,
    rng: Draws,
    counts: DescentCounts,
) -> Candidate | None:
    """Takes random branches until the candidate is complete; None where a decision has none left."""
    counts.descents += 1
    while True:
        split = branches(candidate)
        if split is None:
            counts.complete += 1
            return candidate
        variable, masks = split
        drawn = masks[int(rng.integers(len(masks)))]
        child = instance.restrict(candidate, variable, drawn)
        if child is not None:
            counts.decisions += 1
            candidate = child
            continue
        counts.refutations += 1
        rest = candidate.mask(variable) & ~drawn
        smaller = instance.restrict(candidate, variable, rest) if rest else None
        if smaller is None:
            return None
        candidate = smaller

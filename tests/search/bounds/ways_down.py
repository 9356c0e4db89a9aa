"""Random ways from a candidate to an implementation, decision by decision."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.search.orderings import branches_of, select_ordering


def way_down(candidate: Candidate, order: str | None, random: np.random.Generator) -> Iterator[Candidate]:
    """From a candidate to an implementation, or to where another decision would be needed."""
    instance = candidate.instance
    choose = branches_of(select_ordering(instance, instance.space, order))
    yield candidate
    while (split := choose(candidate)) is not None:
        variable, masks = split
        mask = masks[int(random.integers(len(masks)))]
        child = instance.restrict(candidate, variable, mask)
        if child is None:
            child = instance.restrict(candidate, variable, candidate.mask(variable) & ~mask)
        if child is None:
            return
        yield child
        candidate = child

"""How many complete candidates lie below one: counted, or estimated by probes of the tree of decisions.

In: a candidate, a rule that names the next decision and its branches, random numbers. Out: numbers of leaves,
one for each probe; nothing is averaged here. A node's children are the branches that propagation does not
contradict; a node without any is a dead end, as Beaugnon (section 5.2) counts them. Knuth, "Estimating the
efficiency of backtrack programs" (1975); Chen, "Heuristic sampling" (1992). This is the reference of
`compiler/c/sizes.h`, and takes the same random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import Branches
from spacedsl.engine.instance import Variable
from spacedsl.engine.streams import Stream

Stratify = Callable[[Candidate], int]
"""Which nodes of a level are taken for alike; 0 for complete ones, and only for them."""


def count_leaves(root: Candidate, branches: Branches, most: int) -> int | None:
    """All complete candidates; None where the tree has more than `most` nodes."""
    pending = [root]
    leaves = nodes = 0
    while pending:
        nodes += 1
        if nodes > most:
            return None
        candidate = pending.pop()
        split = branches(candidate)
        if split is None:
            leaves += 1
            continue
        variable, masks = split
        children = (candidate.instance.restrict(candidate, variable, mask) for mask in masks)
        pending += [child for child in children if child is not None]
    return leaves


def knuth_probe(root: Candidate, branches: Branches, rng: Stream) -> int:
    """One random way down, and the product of the numbers of children on it; 0 at a dead end."""
    estimate, candidate = 1, root
    while (split := branches(candidate)) is not None:
        variable, masks = split
        children = _children(candidate, variable, _shuffled(masks, rng))
        if not children:
            return 0
        estimate *= len(children)
        candidate = children[-1]
    return estimate


def _children(candidate: Candidate, variable: Variable, masks: list[int]) -> list[Candidate]:
    tried = (candidate.instance.restrict(candidate, variable, mask) for mask in masks)
    return [child for child in tried if child is not None]


def _shuffled(masks: Sequence[int], rng: Stream) -> list[int]:
    order: list[int] = []
    for mask in masks:
        place = rng.integers(len(order) + 1)
        order.append(mask)
        order[place], order[-1] = order[-1], order[place]
    return order


@dataclass(slots=True)
class _Stratum:
    """A node that stands for all that were met of its stratum, and how many those are estimated to be."""

    candidate: Candidate
    weight: int


def chen_probe(root: Candidate, branches: Branches, stratify: Stratify, rng: Stream) -> int:
    """Level by level, one node of each stratum; which one is drawn by weight."""
    if not stratify(root):
        return 1
    level = {stratify(root): _Stratum(root, 1)}
    leaves = 0
    while level:
        below: dict[int, _Stratum] = {}
        for stratum in level.values():
            split = branches(stratum.candidate)
            assert split is not None
            for child in _children(stratum.candidate, split[0], list(split[1])):
                kind = stratify(child)
                if not kind:
                    leaves += stratum.weight
                elif kind not in below:
                    below[kind] = _Stratum(child, stratum.weight)
                else:
                    met = below[kind]
                    met.weight += stratum.weight
                    if rng.fraction() * met.weight < stratum.weight:
                        met.candidate = child
        level = below
    return leaves

"""Statistics of a space on a kernel: how many implementations it has, how random descents fare, how fast.

In: a posed problem. Out: a `SpaceStatistics`. Rates are per second of processor time of one thread, and count
complete descents only.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from spacedsl.api.solving import Unmeasured
from spacedsl.api.space_size import SpaceSize, measure_size
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.native.descents import random_descents
from spacedsl.engine.packing import Packing
from spacedsl.engine.streams import Stream
from spacedsl.search.orderings import Ordering, branches_of, native_ordering, select_ordering

BATCH_DESCENTS = 64


@dataclass(frozen=True, slots=True)
class SpaceStatistics:
    """What a space is like on a kernel; times are of one processor."""

    engine: str
    """What propagates: `native` or `python`."""
    no_native: str | None
    """Why not the native engine, where it did not run."""
    descents: int
    descents_per_s: float
    decisions_per_descent: float
    refutations_per_descent: float
    """Values that propagation contradicted on the way."""
    dead_end_rate: float
    """Of random walks that nothing repairs, as the paper counts them: that of `size`."""
    vector_bytes: int
    packed_bytes: int
    open_decisions: int
    """At the root."""
    by_choice: dict[str, int]
    """The same, by choice."""
    size: SpaceSize


def measure_space(
    problem: Unmeasured, *, seed: int = 0, ordering: str | None = None, seconds: float = 1.0
) -> SpaceStatistics:
    """Random descents for so much processor time, then probes for as much again.

    Raises `EmptySpaceError` where the root is none.
    """
    instance, root = problem.instance, problem.root
    if root is None:
        raise problem.empty()
    rule = select_ordering(instance, problem.space, ordering)
    counts, spent_s = _descents(root, rule, seed, seconds)
    size = measure_size(root, rule, seed, seconds)
    open_by_choice = Counter(v.choice for v in instance.variables if root.is_open(v))
    return SpaceStatistics(
        engine=instance.engine.value,
        no_native=instance.no_native,
        descents=counts.descents,
        descents_per_s=counts.complete / spent_s,
        decisions_per_descent=counts.decisions / counts.descents,
        refutations_per_descent=counts.refutations / counts.descents,
        dead_end_rate=size.dead_end_rate,
        vector_bytes=len(root.vector) * root.vector.itemsize,
        packed_bytes=Packing(root).size_bytes,
        open_decisions=sum(open_by_choice.values()),
        by_choice=dict(open_by_choice),
        size=size,
    )


def _descents(root: Candidate, rule: Ordering, seed: int, seconds: float) -> tuple[DescentCounts, float]:
    """What happened, in how many seconds of processor time."""
    instance = root.instance
    compiled = native_ordering(instance, rule) if instance.native is not None else None
    counts = DescentCounts()
    started = time.thread_time()
    while (spent_s := time.thread_time() - started) < seconds or not counts.descents:
        if instance.native is not None and compiled is not None:
            batch = random_descents(
                instance.native,
                root.vector,
                compiled,
                seed=seed,
                first=counts.descents,
                count=BATCH_DESCENTS,
            )
            counts.add(batch.counts)
        else:
            random_descent(instance, root, branches_of(rule), Stream(seed, counts.descents), counts)
    return counts, max(spent_s, 1e-9)

"""The fastest implementation below a node that a short look finds, beginning with what is like a known one.

In: a node, an implementation that is known to be fast and lies anywhere. Out: a time. First come programs
that differ from the known one no more than the node makes them, each choice being kept in another order; then
neighbours of the fastest of them, too. So a few dozen programs tell more than a search from nothing would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.programs import new_programs
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.engine.candidate import Candidate
from spacedsl.search.descent import Descent
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.partitions import partitions
from spacedsl.search.rollouts import Bounded, Cut
from spacedsl.search.tree import Step

_BATCH = 4
_DRAWS = 80
"""For a batch of new programs: of some nodes there are fewer."""
_SHARE_NEAR = 0.75
_HOPELESS = 4.0
"""What is bounded by so many times the cut is not worth a program."""


@dataclass(frozen=True, slots=True)
class Below:
    """Looks for fast implementations below nodes, beginning with what is like a known one."""

    descent: Descent
    evaluator: CpuEvaluator
    known: Candidate
    enough_ns: float
    tries: int
    random: np.random.Generator

    def fastest_ns(self, node: Candidate) -> float:
        """Of so many programs, or until one is fast enough; infinite where there is none."""
        near_it = Neighbourhood(self.descent, node, partitions(self.descent.instance))
        best_ns, steps = math.inf, tuple[Step, ...]()
        met: set[str] = set()
        while len(met) < self.tries and best_ns > self.enough_ns:
            draw = partial(self._draw, near_it, steps)
            batch = new_programs(self.evaluator, draw, met, _BATCH, _DRAWS)
            self.evaluator.build([program for _, program in batch])
            for candidate, program in batch:
                timing = self.evaluator.run(program, min(best_ns, self.enough_ns)).timing
                if timing is not None and timing.time_ns < best_ns:
                    best_ns, steps = timing.time_ns, self._steps(node, candidate)
            if not batch:
                break
        return best_ns

    def _draw(self, near_it: Neighbourhood, steps: Sequence[Step]) -> Candidate | None:
        """At first what is like the known one, then also neighbours of the fastest, which `steps` lead to."""
        # What is slower than this is not drawn; a node is left because its bound is below.
        cut = Cut(_HOPELESS * self.enough_ns, 1.0)
        if steps and self.random.random() < _SHARE_NEAR:
            return near_it.draw([steps], cut, self.random)
        return near_it.like(self.known, cut, self.random)

    def _steps(self, node: Candidate, implementation: Candidate) -> tuple[Step, ...]:
        expanded = self.descent.expand(Bounded(node, 0.0))
        found = self.descent.towards(expanded, implementation)
        return (*expanded.expansion.forced, *found.steps)

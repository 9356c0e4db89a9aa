"""Implementations of pipelines as a search begins: a plan, and steps downhill from it by the cost model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks import LIBRARY
from spacedsl.api.problem import pose
from spacedsl.api.targets import Cpu
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.backbones import MeasurableKernel, load_measurable
from spacedsl.kernels.device import CpuDevice
from spacedsl.search.costs.model import time_ns
from spacedsl.search.costs.pipeline import PipelineCosts
from spacedsl.search.descent import Descent
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.orderings import select_ordering
from spacedsl.search.rollouts import Cut
from spacedsl.search.walks import walked

_UNCUT = Cut(None, 1.0)


@dataclass(frozen=True, slots=True)
class Walks:
    """Of one application, on a CPU."""

    kernel: MeasurableKernel
    near: Neighbourhood
    costs: PipelineCosts

    def planned(self, rng: np.random.Generator) -> Candidate:
        found = None
        while found is None:
            found = self.near.planned(self.costs.plan(rng), _UNCUT, rng)
        return found

    def walked(self, start: Candidate, steps: int, rng: np.random.Generator) -> Candidate:
        """Where so many steps lead to."""
        return walked(self.near, start, partial(time_ns, self.costs), steps, _UNCUT, rng)


def walks(application: str, device: CpuDevice) -> Walks:
    kernel = load_measurable(LIBRARY / "pipelines" / f"{application}.yaml")
    problem = pose(kernel, kernel.space, device, lambda event: None)
    instance = problem.instance
    descent = Descent(instance, select_ordering(instance, problem.space), Cpu().bound(instance, device))
    return Walks(kernel, Neighbourhood(descent, problem.root), PipelineCosts(instance, device))

"""What draws implementations of a kernel for this CPU and measures them, without a search around it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from spacedsl.api.problem import Problem, pose
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.machine.characterize import local_device
from spacedsl.codegen.running.measurement import Options
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.evaluation import Lowered
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.costs.linalg import LinalgNeeds
from spacedsl.search.descent import Descent
from spacedsl.search.orderings import select_ordering, select_rollouts


@contextmanager
def posed(
    path: Path, sizes: Mapping[str, int], say: Callable[[str], None]
) -> Iterator[tuple[Problem, CpuEvaluator]]:
    """A kernel of linear algebra, and its evaluator, not yet open; the machine is this one's meanwhile."""
    kernel, device = load_kernel(path, sizes), local_device(progress=say)
    problem = pose(kernel, kernel.space, device, lambda event: None)
    with machine_lock(), tempfile.TemporaryDirectory() as folder:
        yield problem, CpuEvaluator(kernel, device, Options(lock=Path(folder, "lock")))


def descent_of(problem: Problem, device: CpuDevice) -> Descent:
    """As a search has it."""
    instance = problem.instance
    return Descent(
        instance,
        select_ordering(instance, problem.space),
        CpuBound(instance, device),
        rollouts=select_rollouts(instance, problem.space),
        needs=LinalgNeeds(instance, device),
    )


def new_programs(
    evaluator: CpuEvaluator, draw: Callable[[], Candidate | None], met: set[str], count: int, draws: int
) -> list[tuple[Candidate, Lowered]]:
    """So many with their implementations, or fewer where all draws are spent. `met`, the digests of programs,
    grows by theirs.
    """
    found: list[tuple[Candidate, Lowered]] = []
    for _ in range(draws):
        candidate = draw()
        program = None if candidate is None else evaluator.lower(candidate)
        if candidate is None or not isinstance(program, Lowered) or program.digest in met:
            continue
        met.add(program.digest)
        found.append((candidate, program))
        if len(found) == count:
            break
    return found

"""Solutions of a space on a kernel of any backbone, without code and without measuring.

In: the path of a kernel file. Out: an `Unmeasured` instance, and its solutions, each once. The device of a
kernel is a CPU that is shipped, unless another is named; a plain kernel has none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spacedsl.api.problem import EmptySpaceError, UnknownNameError, with_decisions
from spacedsl.api.targets import named_device
from spacedsl.codegen.pipeline.schedule import VOCABULARY, CandidateDecisions, schedule, text
from spacedsl.compiler import compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.backbones import AnyKernel, load_any
from spacedsl.kernels.device import DEVICES, Device, load_any_device
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import Kind
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.plain.kernel_file import PlainFile
from spacedsl.language.loader import load_space
from spacedsl.language.space import Counter, Space, Visibility
from spacedsl.search.orderings import Ordering, select_ordering
from spacedsl.search.run import ContradictionError
from spacedsl.search.solutions import all_solutions, random_solutions

DEVICE = DEVICES / "generic-x86-64.yaml"
"""What a kernel is instantiated for where nobody names a device."""


@dataclass(frozen=True, slots=True, eq=False)
class Unmeasured:
    """A space on a kernel, propagated; whether it has a solution is not known yet."""

    kernel: AnyKernel
    space: Space
    space_path: Path
    device: Device | None
    instance: Instance
    root: Candidate | None
    """With the decisions that the kernel file fixes; None where propagation finds a contradiction."""

    def empty(self) -> EmptySpaceError:
        """What is said once there turns out to be no solution."""
        return EmptySpaceError(
            f"{self.space_path}: the constraints leave no solution of `{self.kernel.name}`"
        )


@dataclass(frozen=True, slots=True)
class Solution:
    """The decisions of a complete candidate, and what follows from them: (choice, objects, value)."""

    decisions: tuple[tuple[str, tuple[str, ...], str | int], ...]
    counters: tuple[tuple[str, tuple[str, ...], int], ...]
    quantities: tuple[tuple[str, tuple[str, ...], str | int], ...]
    loops: str | None = None
    """Of a pipeline, what is computed inside of what."""


def pose_unmeasured(
    path: Path | str,
    *,
    sizes: Mapping[str, int] | None = None,
    space: Path | str | None = None,
    target: str | None = None,
    device: Path | str | None = None,
    engine: Engine = Engine.PYTHON,
) -> Unmeasured:
    """For the machine that is named, or that the kernel file names, or a CPU.

    Raises `DiagnosticError` for what is wrong in a file, `OSError`, `SizeOverrideError`, `UnknownNameError`.
    """
    kernel = load_any(Path(path), sizes or {})
    machine: Device | None = None
    usual = kernel.space
    if isinstance(kernel, PlainFile):
        if target is not None or device is not None:
            flag = "target" if target is not None else "device"
            raise UnknownNameError(f"{path}: a plain kernel is for no machine: leave out --{flag}")
    else:
        named = None if device is None else Path(device)
        machine = named_device(kernel, target, named) or load_any_device(DEVICE)
        kernel = kernel.made_for(machine.kind)
        usual = kernel.space_for(machine.kind)
    space_path = usual if space is None else Path(space)
    compiled = compile_space(load_space(space_path))
    instance = instantiate(compiled, kernel.backbone, machine, engine)
    root = instance.root()
    try:
        root = None if root is None else with_decisions(kernel, root)
    except ContradictionError:
        root = None
    # The space that was compiled, which may have been read before: propagators name its places.
    return Unmeasured(kernel, instance.space, space_path, machine, instance, root)


def solve(
    problem: Unmeasured,
    *,
    exhaustive: bool = False,
    seed: int = 0,
    ordering: str | None = None,
    time_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Solution]:
    """Different solutions until there are no more: every one in order, or at random.

    Raises `EmptySpaceError` where there is none, `TimeoutError` once `time_s` have passed.
    """
    rule = select_ordering(problem.instance, problem.space, ordering)
    deadline = None if time_s is None else clock() + time_s
    is_any = False
    for found in _candidates(problem, exhaustive, rule, seed):
        if found is not None:
            is_any = True
            yield _solution(problem, found)
        if deadline is not None and clock() > deadline:
            raise TimeoutError
    if not is_any:
        raise problem.empty()


def _candidates(
    problem: Unmeasured, exhaustive: bool, rule: Ordering, seed: int
) -> Iterator[Candidate | None]:
    if problem.root is None:
        return
    if exhaustive:
        yield from all_solutions(problem.root, rule)
    else:
        yield from random_solutions(problem.root, rule, np.random.default_rng(seed))


def _solution(problem: Unmeasured, candidate: Candidate) -> Solution:
    instance = problem.instance
    decisions = tuple((d.choice, d.objects, d.values[0]) for d in candidate.decisions())
    counters = tuple(
        (choice.name, tuple(instance.objects.names[k] for k in key), candidate.vector[cell])
        for choice in problem.space.choices.values()
        if isinstance(choice, Counter) and choice.visibility is Visibility.FULL
        for key, cell in instance.layout.cells[choice.name].items()
        if candidate.vector[cell] == candidate.vector[cell + 1]
    )
    quantities = tuple(
        (quantity.name, objects, low if quantity.values is None else quantity.values[low])
        for quantity, objects, (low, high) in instance.quantities(candidate.vector)
        if low == high
    )
    return Solution(decisions, counters, quantities, _loops(problem, candidate))


def _loops(problem: Unmeasured, candidate: Candidate) -> str | None:
    """None where a space of one's own decides other things."""
    if (
        not isinstance(problem.kernel, PipelineFile)
        or not {
            *problem.space.choices,
            *problem.space.quantities,
        }
        >= VOCABULARY
    ):
        return None
    kind: Kind = "gpu" if isinstance(problem.device, GpuDevice) else "cpu"
    return text(schedule(problem.kernel.backbone.steps, CandidateDecisions(candidate)), kind)

"""The evaluator for GPUs where there is none: code is compiled, checked on the CPU, and timed by a model.

In: a kernel file, the description of a GPU, then candidates. Out: CUDA C++ and `Outcome`s whose times are
predicted. Of what may be the best, the compiler of CUDA refuses what is none and says what registers a kernel
takes, and the twin runs in a worker process, on the test cases of a corner of the kernel.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.cuda.checking import Checker
from spacedsl.codegen.cuda.kernels_apart import KernelsApart
from spacedsl.codegen.cuda.nvrtc import Resources, is_target, load_nvrtc
from spacedsl.codegen.cuda.nvrtc import version as nvrtc_version
from spacedsl.codegen.cuda.prediction import predict, resident_blocks
from spacedsl.codegen.cuda.printer import print_cuda, shared_bytes
from spacedsl.codegen.generation import generation
from spacedsl.codegen.machine import processor
from spacedsl.codegen.running.measurement import Options
from spacedsl.codegen.scratch import sweep
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.program import Grid, Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome, Timing
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import KernelFile

KEPT_PROGRAMS = 1000
"""Of those that were lowered last."""

SPILLS = "registers in memory"
"""Remarked of what has more values in registers than there are."""

MOST_WATCHING_S = 20.0
"""Of contenders behind the first that is right: each may take seconds, and is checked as it is."""

PROMISING = 1.25
"""So much slower than the best, before the compiler has said what registers it takes, it is passed over."""


def _ignore(_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class _Lowered:
    program: Program
    candidate: Candidate


@dataclass(slots=True, eq=False)
class PredictingEvaluator:
    """Implements `spacedsl.kernels.evaluation.Evaluator`."""

    kernel: MeasurableKernel
    device: GpuDevice
    options: Options = field(default_factory=Options)
    warn: Callable[[str], None] = _ignore
    """Hears once where the compiler does not know the GPU, and where tensor cores do nothing."""
    waited_s: float = field(default=0.0, init=False)
    """Nothing here has to be alone on the machine."""
    _checker: Checker = field(init=False)
    _compiler: KernelsApart = field(init=False)
    _programs: dict[str, _Lowered] = field(default_factory=dict, init=False)
    """What has been lowered, by its digest."""
    _known: dict[str, Outcome] = field(default_factory=dict, init=False)
    """Of what has been compiled and checked, by its digest."""
    _watched: set[str] = field(default_factory=set, init=False)
    """Of these, what has been looked at for races."""

    def __post_init__(self) -> None:
        self._checker = Checker(self.kernel, self.options)
        self._compiler = KernelsApart(self.device.compute_capability)

    def open(self) -> None:
        """Raises `EnvironmentLack` without the compiler of CUDA, or of C++; else what `Checker.open` does."""
        sweep()
        load_nvrtc()
        if not is_target(self.device.compute_capability):
            self.warn(
                f"{nvrtc_version()} no longer knows the architecture of {self.device.name}: code for it is "
                "checked and not compiled, and its registers are estimated"
            )
        if isinstance(self.kernel, KernelFile):
            idle = _idle_tensor_cores(self.kernel, self.device)
            if idle is not None:
                self.warn(f"`precision: {self.kernel.precision}` changes nothing: {idle}")
        try:
            self._checker.open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._checker.close()

    def lower(self, candidate: Candidate) -> Lowered | Outcome:
        """The code of a complete candidate."""
        try:
            program = verify(generation(self.kernel).lower_grids(self.kernel, candidate))
        except (LoweringError, VerificationError) as error:
            return Outcome(None, Failure.LOWERING, str(error))
        lowered = Lowered.of(print_cuda(program), estimate_ns=predict(program, self.device).time_ns)
        self._programs.pop(lowered.digest, None)
        self._programs[lowered.digest] = _Lowered(program, candidate)
        if len(self._programs) > KEPT_PROGRAMS:
            del self._programs[next(iter(self._programs))]
        return lowered

    def estimate_ns(self, candidate: Candidate) -> float:
        """What the model says of a complete candidate without the compiler; infinite where it is no program.

        It is not verified: that is for what is lowered.
        """
        try:
            program = generation(self.kernel).lower_grids(self.kernel, candidate)
        except LoweringError:
            return math.inf
        return predict(program, self.device).time_ns

    def begin(self, program: Lowered) -> None:
        """Which programs are compiled at all is known once all are there."""

    def build(self, programs: Sequence[Lowered]) -> None:
        """Compiles and checks, as many at a time as there are CPUs, what `run` will probably ask for: beside
        what comes first, others may promise nothing.
        """
        waiting, at_once = list(programs), len(processor.usable_cpus())
        while waiting:
            times = (known.timing.time_ns for known in self._known.values() if known.timing is not None)
            best_ns = min(times, default=None)
            waiting = [program for program in waiting if _is_promising(program, best_ns)]
            self._examine(waiting[:at_once])
            waiting = waiting[at_once:]

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        """What the model predicts of a program that the compiler takes and whose twin is right.

        Of one that is clearly slower than the best, what it says without compiler and twin, whatever these
        have found out: that depends on how many are built at a time.
        """
        if not _is_promising(lowered, best_ns):
            return _predicted(lowered.estimate_ns)
        self._examine([lowered])
        return self._known[lowered.digest]

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float] | None:
        """Predictions do not change."""
        return None

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        """Predictions do not change; what an earlier part of the run has checked is checked again.

        Each access of what is handed out is watched: of the first contender that is right, and of as many
        others as there is time for.
        """
        self._examine(contenders)
        waiting = [c for c in contenders if c.digest not in self._watched and self._is_right(c)]
        began, at_once = time.monotonic(), len(processor.usable_cpus())
        with ThreadPoolExecutor(at_once) as threads:
            while waiting and (time.monotonic() - began < MOST_WATCHING_S or not self._is_found(contenders)):
                new, waiting = waiting[:at_once], waiting[at_once:]
                candidates = (self._programs[each.digest].candidate for each in new)
                found = threads.map(partial(self._checker.check, is_watched=True), candidates)
                for contender, wrong in zip(new, found, strict=True):
                    self._watched.add(contender.digest)
                    if wrong is not None:
                        self._known[contender.digest] = wrong
        return [self._known[contender.digest] for contender in contenders]

    def _is_found(self, contenders: Sequence[Lowered]) -> bool:
        """Whether one of them has been watched and is right."""
        return any(self._is_right(each) for each in contenders if each.digest in self._watched)

    def _is_right(self, lowered: Lowered) -> bool:
        return self._known[lowered.digest].failure is None

    def _examine(self, programs: Sequence[Lowered]) -> None:
        """Compiles and checks those that have not been."""
        new = [program for program in programs if program.digest not in self._known]
        with ThreadPoolExecutor(len(processor.usable_cpus())) as threads:
            for program, known in zip(new, threads.map(self._examined, new), strict=True):
                self._known[program.digest] = known

    def _examined(self, lowered: Lowered) -> Outcome:
        """How long a program takes by the model, with what its grids take; or what is wrong with it."""
        resources: Mapping[str, Resources] = {}
        made = self._programs[lowered.digest]
        if is_target(self.device.compute_capability):
            try:
                resources = self._compiler.resources(made.program, lowered.code)
            except BuildError as error:
                return Outcome(None, Failure.BUILD_ERROR, str(error))
        wrong = self._unfit(made.program, resources) or self._checker.check(made.candidate)
        if wrong is not None:
            return wrong
        spills = any(grid.spilled_bytes for grid in resources.values())
        return _predicted(predict(made.program, self.device, resources).time_ns, SPILLS if spills else "")

    def _unfit(self, program: Program, resources: Mapping[str, Resources]) -> Outcome | None:
        """Whether there is a grid of which not even one block has room on an SM."""
        for grid in (s for s in program.body if isinstance(s, Grid)):
            taken = resources.get(c_name(grid.name))
            if taken is not None and resident_blocks(grid, self.device, taken.registers) == 0:
                message = (
                    f"a block of {grid.name} has {grid.threads} threads of {taken.registers} registers and "
                    f"{shared_bytes(grid)} bytes that they share: no SM has room for one"
                )
                return Outcome(None, Failure.BUILD_ERROR, message)
        return None


def _is_promising(lowered: Lowered, best_ns: float | None) -> bool:
    return best_ns is None or lowered.estimate_ns <= PROMISING * best_ns


def _predicted(time_ns: float, remark: str = "") -> Outcome:
    return Outcome(Timing(time_ns, time_ns, time_ns, 0), message=remark)


def _idle_tensor_cores(kernel: KernelFile, device: GpuDevice) -> str | None:
    """Why they have nothing to do that a kernel file would let them do."""
    if kernel.precision == "full":
        return None
    if not device.has_tensor_cores:
        return f"{device.name} has no tensor cores that code is made for"
    if kernel.backbone.fragment_dims:
        return None
    factors = "bf16 or f16" if kernel.precision == "tensor" else "bf16, f16 or f32"
    return f"no sum in f32 is of products of two tensors of {factors}, over rows and columns of 8 or more"

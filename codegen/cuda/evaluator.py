"""The evaluator for GPUs where there is none: code is compiled, checked on the CPU, and timed by a model.

In: a kernel file, the description of a GPU, then candidates. Out: CUDA C++ and `Outcome`s whose times are
predicted. The compiler of CUDA refuses what is none, and says what registers a kernel takes; what would be
the best runs as its twin in a worker process, on the test cases of the kernel, before its time counts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from spacedsl.codegen import processor
from spacedsl.codegen.build import BuildError, find_compiler
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.nvrtc import Resources, compile_cubin, is_target, load_nvrtc
from spacedsl.codegen.cuda.nvrtc import version as nvrtc_version
from spacedsl.codegen.cuda.prediction import predict
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.cuda.twin import build_twin
from spacedsl.codegen.implementation import CandidateImplementation, LoweringError
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.measurement import Measurement, Options
from spacedsl.codegen.names import entry_name
from spacedsl.codegen.process import WorkerFailure
from spacedsl.codegen.program import Program
from spacedsl.codegen.scratch import scratch_folder, sweep
from spacedsl.codegen.verify import VerificationError, verify
from spacedsl.codegen.workers import Workers
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome, Timing
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import KernelFile

MOST_CHECKED = 2e10
"""Instances of instructions: of a larger kernel, a call takes the twin minutes."""

KEPT_PROGRAMS = 1000
"""Of those that were lowered last."""

SHUFFLED = 3
"""An order of threads that twins run in: none that a loop over threads would have."""


def check_size(kernel: KernelFile) -> None:
    """Raises `EnvironmentLack` for a kernel of which a CPU cannot check implementations."""
    instances = (math.prod(d.extent for d in i.logical_dims) for i in kernel.backbone.instructions)
    if sum(instances) > MOST_CHECKED:
        raise EnvironmentLack(
            f"{kernel.name}: a CPU cannot check in time what is made for a GPU: take smaller sizes, "
            "with --size"
        )


def _ignore(_: object) -> None:
    pass


@dataclass(slots=True, eq=False)
class PredictingEvaluator:
    """Implements `spacedsl.kernels.evaluation.Evaluator`."""

    kernel: KernelFile
    device: GpuDevice
    options: Options = field(default_factory=Options)
    warn: Callable[[str], None] = _ignore
    """Hears once where the compiler does not know the GPU."""
    waited_s: float = field(default=0.0, init=False)
    """Nothing here has to be alone on the machine."""
    workers: Workers = field(init=False)
    _programs: dict[str, Program] = field(default_factory=dict, init=False)
    """What has been lowered, by its digest."""
    _compiled: dict[str, Mapping[str, Resources] | BuildError] = field(default_factory=dict, init=False)
    _checked: set[str] = field(default_factory=set, init=False)
    """Digests of what is right."""

    def __post_init__(self) -> None:
        self.workers = Workers(self.kernel, 0, self.options)

    def open(self) -> None:
        """Makes the test cases, starts a worker.

        Raises `EnvironmentLack` without the compiler of CUDA, or of C++; else what `Workers.ready` does.
        """
        sweep()
        load_nvrtc()
        self._try_twin()
        if not is_target(self.device.compute_capability):
            self.warn(
                f"{nvrtc_version()} no longer knows the architecture of {self.device.name}: code for it is "
                "checked and not compiled, and its registers are estimated"
            )
        try:
            self.workers.ready()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.workers.close()

    def _try_twin(self) -> None:
        """Raises `EnvironmentLack` where the compiler has no C++, or none that twins can be made with."""
        find_compiler()
        with scratch_folder() as folder:
            try:
                build_twin("", folder / "empty.so")
            except BuildError as error:
                raise EnvironmentLack(
                    f"no C++ compiler for checking code for GPUs (g++, clang, or: pip install "
                    f"'spacedsl[zig]'): {error}"
                ) from None

    def lower(self, candidate: Candidate) -> Lowered | Outcome:
        """The code of a complete candidate of `linalg_cuda.space`."""
        try:
            program = verify(lower_grids(self.kernel.backbone, CandidateImplementation(candidate)))
        except (LoweringError, VerificationError) as error:
            return Outcome(None, Failure.LOWERING, str(error))
        code = print_cuda(program)
        digest = hashlib.sha256(code.encode()).hexdigest()
        self._programs[digest] = program
        if len(self._programs) > KEPT_PROGRAMS:
            del self._programs[next(iter(self._programs))]
        return Lowered(digest, code)

    def build(self, programs: Sequence[Lowered]) -> None:
        """Compiles programs for `run`, as many at a time as there are CPUs; forgets others."""
        with ThreadPoolExecutor(len(processor.usable_cpus())) as compilers:
            compiled = compilers.map(self._compile, programs)
            self._compiled = {p.digest: c for p, c in zip(programs, compiled, strict=True)}

    def run(self, lowered: Lowered, best_ns: float | None) -> Outcome:
        """What the model predicts; what would be the best is checked first."""
        compiled = self._compiled.get(lowered.digest)
        if compiled is None:
            compiled = self._compile(lowered)
        if isinstance(compiled, BuildError):
            return Outcome(None, Failure.BUILD_ERROR, str(compiled))
        time_ns = predict(self._programs[lowered.digest], self.device, compiled).time_ns
        if best_ns is None or time_ns < best_ns:
            failed = self._failed(lowered)
            if failed is not None:
                return failed
        return Outcome(Timing(time_ns, time_ns, time_ns, 0))

    def compare(self, contenders: Sequence[Lowered]) -> Sequence[Outcome]:
        """Those that have not been checked are, all of them; predictions do not change."""
        return [self.run(contender, None) for contender in contenders]

    def _compile(self, lowered: Lowered) -> Mapping[str, Resources] | BuildError:
        if not is_target(self.device.compute_capability):
            return {}
        try:
            return compile_cubin(lowered.code, self.device.compute_capability).resources
        except BuildError as error:
            return error

    def _failed(self, lowered: Lowered) -> Outcome | None:
        """What is wrong with a program; None where its twin does what NumPy does, on all test cases."""
        if lowered.digest in self._checked:
            return None
        server, worker = self.workers.ready()
        with scratch_folder() as folder:
            try:
                library = build_twin(lowered.code, folder / f"{lowered.digest[:16]}.so", order=SHUFFLED)
                symbol = entry_name(self.kernel.name)
                call = Measurement(worker, server.cases, library, symbol, self.options, None)
                call.begin()
                call.check_adversarial()
                call.end()
            except BuildError as error:
                failure = Failure.BUILD_TIMEOUT if error.timed_out else Failure.BUILD_ERROR
                return Outcome(None, failure, str(error))
            except WorkerFailure as error:
                self.workers.drop()
                return Outcome(None, error.failure, error.message)
            except KeyboardInterrupt:
                self.workers.drop()
                raise
        self._checked.add(lowered.digest)
        return None

"""The CPU's evaluator: complete candidates become C, are built, checked against NumPy, and timed.

In: a kernel file, a device, then candidates. Out: code and `Outcome`s. Code runs in a worker process,
which is replaced after every failure, since its memory may be corrupt. Building and measuring hold a
machine-wide lock, so that two runs do not disturb each other. Which candidates are worth a run is for
the search to say.
"""

from __future__ import annotations

import hashlib
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from spacedsl.codegen.build import BUILD_TIMEOUT_S, BuildError, EnvironmentLack, build_library, find_compiler
from spacedsl.codegen.c_printer import c_name, print_c
from spacedsl.codegen.cases import CASES, SharedCases, integer_case, random_case, share
from spacedsl.codegen.harness import harness_library
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.lower import lower
from spacedsl.codegen.nest import CandidateImplementation, LoweringError
from spacedsl.codegen.process import WorkerFailure, WorkerProcess
from spacedsl.codegen.timing import is_settled, summarise
from spacedsl.codegen.verify import VerificationError, verify
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome, Timing
from spacedsl.kernels.kernel_file import KernelFile


@dataclass(frozen=True, slots=True)
class Options:
    """How much time an evaluation may take, and how exact it shall be."""

    budget_s: float = 1.0
    """Timing one candidate."""
    relative_error: float = 0.01
    """Of the median, with 95 % confidence: enough."""
    build_timeout_s: float = BUILD_TIMEOUT_S
    run_timeout_s: float = 30.0
    """One call, while nothing better is known."""
    least_run_timeout_s: float = 2.0
    run_timeout_factor: float = 50.0
    """Of the best time so far; never under the least nor over `run_timeout_s`."""
    slow_factor: float = 3.0
    """Code that is slower than the best by this factor is not timed further."""
    memory_headroom_bytes: int = 4 << 30
    """Address space that an implementation may take beyond its arguments."""
    seed: int = 0
    """Of the values of the test cases."""


_CHECK_TIMEOUT_S = 120.0
_SAMPLE_NS = 10_000
"""Shorter calls are timed several at a time: reading the clock takes some 20 ns."""

_SURELY_LONG_NS = 1_000_000
_CALIBRATION_SAMPLES = 5

_ROUND_NS = 20_000_000
"""Samples are asked for in rounds of about this length."""

_LEAST_MEASURED_NS = 30_000_000
"""A disturbance that is shorter than this does not decide alone."""

_MOST_SAMPLES = 2000

_TIMED_CASE = CASES.index(random_case)


@dataclass(slots=True, eq=False)
class CpuEvaluator:
    """Implements `spacedsl.kernels.evaluation.Evaluator`. A context manager: `open` and `close` around it."""

    kernel: KernelFile
    device: CpuDevice
    options: Options = Options()
    _shared: SharedCases | None = field(default=None, init=False)
    _worker: WorkerProcess | None = field(default=None, init=False)

    def open(self) -> None:
        """Computes the test cases, starts a worker; raises `EnvironmentLack` without compiler or memory."""
        find_compiler()
        if self._shared is None:
            self._shared = share(self.kernel, np.random.default_rng(self.options.seed))
        self._ready_worker()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    def __enter__(self) -> CpuEvaluator:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def lower(self, candidate: Candidate) -> Lowered | Outcome:
        """The code of a complete candidate of `linalg.space`."""
        try:
            program = verify(lower(self.kernel.backbone, CandidateImplementation(candidate)))
        except (LoweringError, VerificationError) as error:
            return Outcome(None, Failure.LOWERING, str(error))
        code = print_c(program, self.device.threads)
        return Lowered(hashlib.sha256(code.encode()).hexdigest(), code)

    def run(self, lowered: Lowered, best_ns: float | None) -> Outcome:
        """Builds, checks on both test cases, times, checks again."""
        with machine_lock(), tempfile.TemporaryDirectory(prefix="spacedsl-") as folder:
            try:
                library = self._build(lowered, Path(folder))
                worker = self._ready_worker()
                measurement = _Measurement(worker, library, self._symbol, self.options, best_ns)
                return Outcome(measurement.timing())
            except BuildError as error:
                failure = Failure.BUILD_TIMEOUT if error.timed_out else Failure.BUILD_ERROR
                return Outcome(None, failure, str(error))
            except WorkerFailure as error:
                self._drop_worker()
                return Outcome(None, error.failure, error.message)

    def compare(self, contenders: Sequence[Lowered]) -> Sequence[Outcome]:
        """Times all contenders in turn, a round each, until all are settled or their time is spent."""
        outcomes: dict[int, Outcome] = {}
        with machine_lock(), tempfile.TemporaryDirectory(prefix="spacedsl-") as folder:
            libraries: dict[int, Path] = {}
            for number, contender in enumerate(contenders):
                try:
                    libraries[number] = self._build(contender, Path(folder))
                except BuildError as error:
                    failure = Failure.BUILD_TIMEOUT if error.timed_out else Failure.BUILD_ERROR
                    outcomes[number] = Outcome(None, failure, str(error))
            while libraries:
                culprit, result = self._interleave(libraries)
                if culprit is None:
                    outcomes.update({n: Outcome(timing) for n, timing in result.items()})
                    break
                # One contender fell: the others begin again in a new worker.
                outcomes[culprit[0]] = Outcome(None, culprit[1].failure, culprit[1].message)
                del libraries[culprit[0]]
        return [outcomes[number] for number in range(len(contenders))]

    def _interleave(
        self, libraries: dict[int, Path]
    ) -> tuple[tuple[int, WorkerFailure] | None, dict[int, Timing]]:
        """Timings of all contenders, or the one that failed and how."""
        worker = self._ready_worker()
        measurements: dict[int, _Measurement] = {}
        turn = -1
        try:
            for turn, library in libraries.items():
                measurements[turn] = _Measurement(worker, library, self._symbol, self.options, None)
                measurements[turn].begin()
            deadline = time.monotonic() + self.options.budget_s * len(libraries)
            while time.monotonic() < deadline and not all(m.is_settled for m in measurements.values()):
                for turn, measurement in measurements.items():  # noqa: B007 (names the culprit)
                    measurement.round()
            for turn, measurement in measurements.items():  # noqa: B007 (names the culprit)
                measurement.end()
        except WorkerFailure as failure:
            self._drop_worker()
            return (turn, failure), {}
        return None, {n: summarise(m.samples_ns) for n, m in measurements.items()}

    # ---- Workers ---------------------------------------------------------------------------------------

    @property
    def _symbol(self) -> str:
        return c_name(self.kernel.name)

    def _build(self, lowered: Lowered, folder: Path) -> Path:
        library = folder / f"{lowered.digest[:16]}-{time.monotonic_ns()}.so"
        return build_library(lowered.code, library, timeout_s=self.options.build_timeout_s)

    def _ready_worker(self) -> WorkerProcess:
        if self._worker is not None and not self._worker.is_alive:
            self._drop_worker()
        if self._worker is None:
            if self._shared is None:
                raise RuntimeError("the evaluator is not open")
            try:
                self._worker = WorkerProcess(self._setup(self._shared), self._shared.descriptor)
            except WorkerFailure as error:
                raise EnvironmentLack(f"a worker process cannot be started: {error.message}") from None
        return self._worker

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _setup(self, shared: SharedCases) -> dict[str, Any]:
        backbone = self.kernel.backbone
        tensors = [
            {
                "name": t.name,
                "dtype": t.dtype.label,
                "shape": t.shape,
                "strides": t.strides,
                "span": t.span,
                "is_output": t.is_output,
            }
            for t in backbone.tensors
        ]
        caches = sum(level.capacity_bytes or 0 for level in self.device.memory)
        return {
            "tensors": tensors,
            "parameters": [{"name": p.name, "dtype": p.dtype.label} for p in backbone.parameters],
            "cases": shared.layout,
            "harness": str(harness_library(backbone, find_compiler())),
            "flush_bytes": 2 * caches if self.kernel.cache == "cold" else 0,
            "memory_headroom_bytes": self.options.memory_headroom_bytes,
        }


@dataclass(slots=True, eq=False)
class _Measurement:
    """One library in a worker: checked, timed in rounds, checked again. Raises `WorkerFailure`."""

    worker: WorkerProcess
    library: Path
    symbol: str
    options: Options
    best_ns: float | None
    samples_ns: list[float] = field(default_factory=list)
    handle: int = 0
    batch: int = 0
    """Calls in one sample; 0 before that is known."""
    first_ns: list[float] = field(default_factory=list)
    """The checked calls, before anything was warm."""

    def timing(self) -> Timing:
        """Until the median is known, the budget is spent, or the code is clearly slower than the best."""
        self.begin()
        if self._is_hopeless():
            self.samples_ns = self.first_ns
        else:
            deadline = time.monotonic() + self.options.budget_s
            while True:
                self.round()
                if self.is_settled or self._is_clearly_slower() or time.monotonic() >= deadline:
                    break
        self.end()
        return summarise(self.samples_ns)

    def begin(self) -> None:
        """Loads the library and checks one call on each test case."""
        answer = self.worker.request("load", _CHECK_TIMEOUT_S, library=str(self.library), symbol=self.symbol)
        self.handle = answer["handle"]
        for case in (CASES.index(integer_case), _TIMED_CASE):
            self.first_ns.append(self._request("run", handle=self.handle, case=case)["ns"])
            self._check(case)

    def round(self) -> None:
        """A few more samples."""
        if not self.batch:
            self.batch = self._calibrate()
        answer = self._time(_MOST_SAMPLES, self.batch)
        self.samples_ns += answer["samples_ns"]

    def end(self) -> None:
        """Checks what the timed calls left behind, and unloads."""
        self._check(_TIMED_CASE)
        self.worker.request("unload", self._run_timeout_s, handle=self.handle)

    def _calibrate(self) -> int:
        """Calls in a sample. Checked calls were cold: of short ones, some samples are taken and dropped."""
        estimate_ns = min(self.first_ns)
        if estimate_ns > _SURELY_LONG_NS:
            return 1
        while True:
            batch = math.ceil(_SAMPLE_NS / max(estimate_ns, 1))
            estimate_ns = statistics.median(self._time(_CALIBRATION_SAMPLES, batch)["samples_ns"])
            if estimate_ns * batch >= _SAMPLE_NS / 2:
                return batch

    def _time(self, most: int, batch: int) -> dict[str, Any]:
        return self._request(
            "time",
            _ROUND_NS / 1e9,
            handle=self.handle,
            case=_TIMED_CASE,
            most=most,
            batch=batch,
            budget_ns=_ROUND_NS,
        )

    @property
    def is_settled(self) -> bool:
        if sum(self.samples_ns) < _LEAST_MEASURED_NS and len(self.samples_ns) < _MOST_SAMPLES:
            return False
        return is_settled(summarise(self.samples_ns), self.options.relative_error)

    def _is_hopeless(self) -> bool:
        """Judged by calls that pay for page faults and the start of a pool: only what takes long is."""
        if self.best_ns is None:
            return False
        return min(self.first_ns) > self.options.slow_factor * self.best_ns + _LEAST_MEASURED_NS

    def _is_clearly_slower(self) -> bool:
        if self.best_ns is None:
            return False
        return summarise(self.samples_ns).low_ns > self.options.slow_factor * self.best_ns

    @property
    def _run_timeout_s(self) -> float:
        options = self.options
        if self.best_ns is None:
            return options.run_timeout_s
        scaled_s = options.run_timeout_factor * self.best_ns / 1e9
        return min(max(options.least_run_timeout_s, scaled_s), options.run_timeout_s)

    def _request(self, op: str, extra_s: float = 0.0, **arguments: Any) -> dict[str, Any]:
        return self.worker.request(op, self._run_timeout_s + extra_s, **arguments)

    def _check(self, case: int) -> None:
        wrong = self.worker.request("check", _CHECK_TIMEOUT_S, case=case)["wrong"]
        if wrong:
            raise WorkerFailure(Failure.WRONG_RESULT, wrong)

"""How one implementation is checked and timed in a worker, and how much time it is worth.

In: a library, a worker, the best time so far. Out: samples of time, or a `WorkerFailure`. The worker runs
what it is asked to; all limits and all judgements lie here. No time counts before the results were right.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spacedsl.codegen.c.build import BUILD_TIMEOUT_S
from spacedsl.codegen.running.cases import ALWAYS_CHECKED, TIMED_CASE
from spacedsl.codegen.running.process import WorkerFailure, WorkerProcess
from spacedsl.codegen.running.timing import is_settled, summarise
from spacedsl.kernels.evaluation import Failure, Timing


@dataclass(frozen=True, slots=True)
class Options:
    """How much time an evaluation may take, and how exact it shall be."""

    budget_s: float = 0.5
    """Timing one candidate."""
    relative_error: float = 0.01
    """Of the median, with 95 % confidence: enough."""
    build_timeout_s: float = BUILD_TIMEOUT_S
    run_timeout_s: float = 30.0
    """One call, at most."""
    run_timeout_factor: float = 25.0
    """Of the best time so far; never under `least_run_timeout_s` nor over `run_timeout_s`."""
    least_run_timeout_s: float = 2.0
    """Code that is merely slow ends, is checked and counts; a shorter limit would verify less of it."""
    cold_call_s: float = 0.25
    """More for the first call, which maps code and starts threads."""
    hopeless_factor: float = 2.0
    """Code whose checked calls are slower than the best by this factor is not timed at all."""
    slower_factors: tuple[tuple[int, float], ...] = ((1, 2.0), (2, 1.5), (3, 1.3), (5, 1.15))
    """After so many samples, code is not timed further that is surely slower than the best by this factor."""
    settled_slower_s: float = 0.06
    settled_slower_factor: float = 1.02
    """The same after so many seconds of samples: how much slower it is no longer matters."""
    memory_headroom_bytes: int = 4 << 30
    """Address space that an implementation may take beyond its arguments."""
    seed: int = 0
    """Of the values of the test cases."""
    lock: Path | None = None
    """Held while building and measuring; None: the one that all runs on this machine share."""


_CHECK_TIMEOUT_S = 120.0
_UNLOAD_TIMEOUT_S = 1.0
"""Threads of a pool come to their ends."""

_SAMPLE_NS = 10_000
"""Shorter calls are timed several at a time: reading the clock takes some 20 ns."""

_SURELY_LONG_NS = 1_000_000
_CALIBRATION_SAMPLES = 5

_ROUND_NS = 20_000_000
"""Samples are asked for in rounds of about this length."""

_GLANCE_NS = 5_000_000
"""Of samples, to see how long what is known takes now."""

_LEAST_MEASURED_NS = 30_000_000
"""A disturbance that is shorter than this does not decide alone."""

_COLD_NS = 10_000_000
"""What the start of a pool and a few page faults may add to a checked call."""

_MOST_COLD = 5.0
"""How many times as long a first call may take, which finds none of the code's own memory: with 16 MiB of it,
some took 26 to 43 ms that then took 6 to 10. What takes longer is hopeless in any case.
"""

_MOST_SAMPLES = 2000

_DISTURBED_FOR_ONE = 4
"""Samples that tell that code is slow as one does that was not disturbed."""


@dataclass(slots=True, eq=False)
class Measurement:
    """One library in a worker: checked, timed in rounds, checked again. Raises `WorkerFailure`."""

    worker: WorkerProcess
    cases: int
    library: Path
    symbol: str
    options: Options
    best_ns: float | None
    loops: int = 0
    """Parallel loops whose ends the library notes."""
    limit_s: float | None = None
    """Of a call while no time is known, where that is less than what any may take."""
    samples_ns: list[float] = field(default_factory=list)
    disturbed_ns: list[float] = field(default_factory=list)
    """Those in which a thread had to leave its CPU to others: they count where there are none besides."""
    loops_ns: list[float] = field(default_factory=list)
    """How long each of them takes, with what comes before it: means of the rounds' medians."""
    handle: int = 0
    batch: int = 0
    """Calls in one sample; 0 before that is known."""
    first_ns: list[float] = field(default_factory=list)
    """The checked calls, before anything was warm."""
    spent_s: float = 0.0
    """By all rounds, with whatever makes caches cold before a sample."""

    def timing(self) -> Timing:
        """Of as many samples as it takes.

        What would be the best is checked on the adversarial cases too: rare enough that they cost little.
        """
        self.begin()
        if self._seems_hopeless:
            self.samples_ns = [min(self.first_ns)]
        else:
            while not self.is_decided(self.best_ns):
                self.round()
            self._check(TIMED_CASE)
        timing = summarise(self.counted_ns)
        if self.best_ns is None or timing.time_ns < self.best_ns:
            self.check_adversarial()
        self.end()
        return timing

    def begin(self) -> None:
        """Loads the library and checks a call on each of the usual test cases, the timed one last. What turns
        out to be hopeless has no further ones: it is handed out by nobody.
        """
        answer = self.worker.request("load", _CHECK_TIMEOUT_S, library=str(self.library), symbol=self.symbol)
        self.handle = answer["handle"]
        self.check_usual()

    def check_usual(self) -> None:
        self._checked_calls(reversed(range(min(ALWAYS_CHECKED, self.cases))))

    def check_adversarial(self) -> None:
        self._checked_calls(range(ALWAYS_CHECKED, self.cases))

    def _checked_calls(self, cases: Iterable[int]) -> None:
        for case in cases:
            is_first = not self.first_ns
            self._checked_call(case, self.options.cold_call_s if is_first else 0.0)
            if self._seems_hopeless and is_first and self._may_be_cold:
                self._checked_call(case)
            if self._seems_hopeless:
                return

    def _checked_call(self, case: int, extra_s: float = 0.0) -> None:
        self.first_ns.append(self._request("run", extra_s, handle=self.handle, case=case)["ns"])
        self._check(case)

    @property
    def _seems_hopeless(self) -> bool:
        return self.best_ns is not None and self.is_hopeless(self.best_ns)

    @property
    def _may_be_cold(self) -> bool:
        """Whether the first call may have been slow because it was the first."""
        assert self.best_ns is not None
        return self.first_ns[0] <= _MOST_COLD * self._hopeless_ns(self.best_ns)

    def round(self, *, is_resumed: bool = False) -> None:
        """A few more samples. `is_resumed`: others have had the caches meanwhile, so that a call before them
        does not count: what lies between stages is where the last call has left it.
        """
        began = time.monotonic()
        if not self.batch:
            self.batch = self._calibrate()
        elif is_resumed:
            self._time(1, 1)
        answer = self._time(_MOST_SAMPLES, self.batch)
        self.batch = answer["batch"]  # one, where each call finds cold caches
        self._add_loops(answer["loops_ns"], len(answer["samples_ns"]))
        self.samples_ns += answer["samples_ns"]
        self.disturbed_ns += answer["disturbed_ns"]
        self.spent_s += time.monotonic() - began

    def glance_ns(self) -> float:
        """The median of a few calls now, which count nowhere else. Others have had the caches meanwhile, so
        that a call before them does not count.
        """
        if not self.batch:
            self.batch = self._calibrate()
        self._time(1, 1)
        answer = self._time(_MOST_SAMPLES, self.batch, _GLANCE_NS)
        samples_ns: list[float] = answer["samples_ns"] or answer["disturbed_ns"]
        return statistics.median(samples_ns)

    @property
    def counted_ns(self) -> Sequence[float]:
        """The samples that all is judged by."""
        return self.samples_ns or self.disturbed_ns

    def _add_loops(self, medians_ns: Sequence[float], samples: int) -> None:
        """Of so many samples that were not disturbed; before the first one, any will do."""
        before = len(self.samples_ns)
        if not before:
            self.loops_ns = [*medians_ns]
            return
        self.loops_ns = [
            (mean_ns * before + median_ns * samples) / (before + samples)
            for mean_ns, median_ns in zip(self.loops_ns, medians_ns, strict=True)
        ]

    def finish(self) -> None:
        """Checks what timed calls leave behind and what was not yet checked, and unloads.

        Other implementations have written to the outputs since the last round, so there is one more.
        """
        self.round(is_resumed=True)
        self._check(TIMED_CASE)
        self.check_adversarial()
        self.end()

    def end(self) -> None:
        self.worker.request("unload", _UNLOAD_TIMEOUT_S, ", while it was unloaded", handle=self.handle)

    def _calibrate(self) -> int:
        """Calls in a sample. Checked calls were cold: of short ones, some samples are taken and dropped."""
        estimate_ns = min(self.first_ns)
        if estimate_ns > _SURELY_LONG_NS:
            return 1
        while True:
            batch = math.ceil(_SAMPLE_NS / max(estimate_ns, 1))
            answer = self._time(_CALIBRATION_SAMPLES, batch)
            estimate_ns = statistics.median(answer["samples_ns"] or answer["disturbed_ns"])
            if estimate_ns * batch >= _SAMPLE_NS / 2:
                return batch

    def _time(self, most: int, batch: int, budget_ns: int = _ROUND_NS) -> dict[str, Any]:
        return self._request(
            "time",
            budget_ns / 1e9,
            handle=self.handle,
            case=TIMED_CASE,
            most=most,
            batch=batch,
            budget_ns=budget_ns,
            loops=self.loops,
        )

    # ---- Judgements ------------------------------------------------------------------------------------

    def is_decided(self, best_ns: float | None) -> bool:
        """Whether the median is known, the budget is spent, or the code is clearly slower than the best."""
        if not self.counted_ns:
            return False
        is_slower = best_ns is not None and self._is_clearly_slower(best_ns)
        return self._is_settled or is_slower or self.spent_s >= self.options.budget_s

    @property
    def _is_settled(self) -> bool:
        counted_ns = self.counted_ns
        if sum(counted_ns) < _LEAST_MEASURED_NS and len(counted_ns) < _MOST_SAMPLES:
            return False
        return is_settled(summarise(counted_ns), self.options.relative_error)

    def is_hopeless(self, best_ns: float) -> bool:
        """Judged by calls that pay for page faults and the start of a pool: only what takes long is."""
        return min(self.first_ns) > self._hopeless_ns(best_ns)

    def _hopeless_ns(self, best_ns: float) -> float:
        return self.options.hopeless_factor * best_ns + _COLD_NS

    def _is_clearly_slower(self, best_ns: float) -> bool:
        """The fewer the samples, the slower it has to be: most losers are told by one.

        The lower end of the interval counts, of few samples the fastest: other work on the machine makes
        calls slower, never faster. Where all are disturbed, it takes more of them.
        """
        options = self.options
        many = 1 if self.samples_ns else _DISTURBED_FOR_ONE
        count = len(self.counted_ns) // many
        factors = [factor for least, factor in options.slower_factors if count >= least]
        if sum(self.counted_ns) * self.batch >= many * options.settled_slower_s * 1e9:
            factors.append(options.settled_slower_factor)
        return bool(factors) and summarise(self.counted_ns).low_ns > min(factors) * best_ns

    # ---- Requests --------------------------------------------------------------------------------------

    def _request(self, op: str, extra_s: float = 0.0, **arguments: Any) -> dict[str, Any]:
        limit_s, why = self._limit()
        return self.worker.request(op, limit_s + extra_s, why, **arguments)

    def _limit(self) -> tuple[float, str]:
        """Seconds of one call, and why so many."""
        options = self.options
        if self.best_ns is None:
            limit_s = min(options.run_timeout_s, self.limit_s or options.run_timeout_s)
            return limit_s, ", the limit of one call while no time is known"
        best_s = self.best_ns / 1e9
        limit_s = max(options.least_run_timeout_s, options.run_timeout_factor * best_s)
        limit_s = min(limit_s, options.run_timeout_s)
        return limit_s, f": slower than {limit_s / best_s:.3g} times the best ({self.best_ns / 1e6:.4g} ms)"

    def _check(self, case: int) -> None:
        wrong = self.worker.request("check", _CHECK_TIMEOUT_S, case=case)["wrong"]
        if wrong:
            raise WorkerFailure(Failure.WRONG_RESULT, wrong)

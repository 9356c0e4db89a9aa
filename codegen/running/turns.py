"""Libraries that are timed side by side, in turns, so that drift of the machine hits all alike.

In: libraries by number, and the workers to run them in. Out: an `Outcome` of each. A turn is a round of
samples; they go on until each is settled, clearly slower than the fastest, or has had its time, and then
again in the next process, in which memory lies elsewhere. Nothing is built here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spacedsl.codegen.running.measurement import Measurement, Options
from spacedsl.codegen.running.process import WorkerFailure
from spacedsl.codegen.running.timing import summarise
from spacedsl.codegen.running.workers import Workers
from spacedsl.kernels.evaluation import Failure, Outcome, Timing


@dataclass(frozen=True, slots=True)
class Turns:
    workers: Workers
    symbol: str
    options: Options
    processes: int

    def outcomes(self, libraries: Mapping[int, Path]) -> dict[int, Outcome]:
        """The middle one of the timings in each process counts."""
        if not libraries:
            return {}
        timings: list[dict[int, Timing]] = []
        for process in range(self.processes):
            if process:
                self.workers.drop()
            culprit, result = self._interleave(libraries)
            if culprit is not None:
                return self._without(*culprit, libraries)
            timings.append(result)
        return {number: Outcome(_middle([found[number] for found in timings])) for number in libraries}

    def _without(
        self, fallen: int, failure: WorkerFailure, libraries: Mapping[int, Path]
    ) -> dict[int, Outcome]:
        """Where one contender falls, the others begin again in a new worker; where all of them together need
        more memory than there is, in two groups.
        """
        if failure.failure is Failure.MEMORY and len(libraries) > 1:
            numbers, half = [*libraries], len(libraries) // 2
            groups = ({n: libraries[n] for n in part} for part in (numbers[:half], numbers[half:]))
            return {n: o for group in groups for n, o in self.outcomes(group).items()}
        others = {n: library for n, library in libraries.items() if n != fallen}
        return {fallen: Outcome(None, failure.failure, failure.message), **self.outcomes(others)}

    def _interleave(
        self, libraries: Mapping[int, Path]
    ) -> tuple[tuple[int, WorkerFailure] | None, dict[int, Timing]]:
        """Timings of all contenders, or the one that failed and how."""
        server, worker = self.workers.ready()
        measurements: dict[int, Measurement] = {}
        turn = -1
        try:
            for turn, library in libraries.items():
                measurements[turn] = Measurement(
                    worker, server.cases, library, self.symbol, self.options, None
                )
                measurements[turn].begin()
            best_ns = min(min(m.first_ns) for m in measurements.values())
            timed = {n: m for n, m in measurements.items() if not m.is_hopeless(best_ns)}
            for turn in measurements.keys() - timed.keys():
                measurements[turn].end()
            going = timed
            while going:
                for turn, measurement in going.items():  # noqa: B007 (names the culprit)
                    measurement.round(is_resumed=len(going) > 1)
                best_ns = min(summarise(m.counted_ns).time_ns for m in timed.values())
                going = {n: m for n, m in going.items() if not m.is_decided(best_ns)}
            for turn, measurement in timed.items():  # noqa: B007 (names the culprit)
                measurement.finish()
        except WorkerFailure as failure:
            self.workers.drop()
            return (turn, failure), {}
        except KeyboardInterrupt:
            self.workers.drop()
            raise
        return None, {n: summarise(m.counted_ns or m.first_ns) for n, m in measurements.items()}


def _middle(timings: Sequence[Timing]) -> Timing:
    """The one with the median time; of two, the slower."""
    return sorted(timings, key=lambda timing: timing.time_ns)[len(timings) // 2]

"""A search whose evaluations take a moment, for a process that is to be killed.

`python -m tests.search.long_run FOLDER PROCESSES` starts a run in the folder, or goes on with the one there,
and prints a line for every evaluation. With processes, it walks by estimates.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.evaluation import Lowered, Outcome
from spacedsl.search.events import Evaluated, Event
from spacedsl.search.policies import near
from spacedsl.search.results import Result
from spacedsl.search.run import Options, Search
from spacedsl.search.store import DATABASE, About, Store
from tests.search.toy import Constraint, ExactBound, InOrder, ToyEvaluator, ToyInstance, timing, values_of

ABOUT = About(
    kernel="toy",
    kernel_path="toy.yaml",
    kernel_text="kernel: toy\n",
    sizes={"n": 4},
    space_path="toy.space",
    space_digest="0" * 64,
    space_text="",
    target="cpu",
    device={"name": "none"},
    processor="none",
    processor_digest="2" * 64,
    cpus=(0, 3),
    compiler="none",
    generator_digest="1" * 64,
    flags=("-O2",),
    seed=3,
    ordering=None,
    policy="near",
    seconds=None,
    evaluations=60,
    version="0",
)


def rugged(values: tuple[int, ...]) -> float:
    """No order to it, so that the search has to look around; distinct for all values."""
    number = sum(v * [1, 5, 25, 125][i] for i, v in enumerate(values))
    return 1000.0 + (number * 7919) % 3571 + 1e-4 * number


def shared(values: tuple[int, ...]) -> str:
    """The program of several implementations."""
    return str((values[0], values[1] + values[2], values[3]))


def smooth_ns(candidate: Candidate) -> float:
    """As an estimate: it leads downhill, and not to what is the fastest."""
    return 1.0 + sum((value - 2) ** 2 for value in values_of(candidate))


class Slow(ToyEvaluator):
    pause_s: float = 0.0
    drift: float = 1.0
    """What times are multiplied by when they are measured side by side."""
    is_compared: bool = True

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        if not self.is_compared:
            raise KeyboardInterrupt
        timings = [o.timing for o in super().compare(contenders)]
        return [Outcome(timing(self.drift * t.time_ns)) for t in timings if t is not None]

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        time.sleep(self.pause_s)
        return super().run(lowered, best_ns)


def instance() -> ToyInstance:
    return ToyInstance([5] * 4, [Constraint((0, 1), lambda a, b: a != b)])


def bound(of: ToyInstance, slack: float) -> ExactBound:
    return ExactBound(of, rugged, slack)


def run(
    folder: Path,
    *,
    evaluations: int = 60,
    pause_s: float = 0.0,
    is_loud: bool = False,
    slack: float = 0.4,
    drift: float = 1.0,
    is_compared: bool = True,
    processes: int = 0,
) -> Result:
    def listen(event: Event) -> None:
        if is_loud and isinstance(event, Evaluated):
            print(event.iteration, flush=True)

    toy = instance()
    # Which of the implementations of one program is measured again is not said, and their times differ.
    evaluator = Slow(rugged) if processes else Slow(rugged, digest=shared)
    evaluator.pause_s, evaluator.drift, evaluator.is_compared = pause_s, drift, is_compared
    exists = (folder / DATABASE).exists()
    with Store.open(folder) if exists else Store.create(folder, ABOUT) as store:
        return Search(
            toy,
            bound=bound(toy, slack),
            evaluator=evaluator,
            ordering=InOrder(toy),
            policy=near(),
            options=Options(seed=3, evaluations=evaluations, processes=processes),
            estimate_ns=smooth_ns if processes else None,
            store=store,
            listener=listen,
        ).run()


if __name__ == "__main__":
    run(Path(sys.argv[1]), pause_s=0.03, is_loud=True, processes=int(sys.argv[2]))

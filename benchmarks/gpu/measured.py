"""What came back from a machine with a GPU, as reports read it: the best of ours, and the lines of peers.

In: results of a problem, the folder that they lie in. Out: a `Best`, lines of `peers.jsonl`. A time is the
median with a warm L2 cache, unless the kernel file asks for a cold one.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from spacedsl.codegen.cuda.batches.results import ProblemResults
from spacedsl.kernels.evaluation import Timing
from spacedsl.search.state import is_violation

PEERS = "peers.jsonl"

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest implementation that is right, and what became of all of them."""

    timing: Timing
    cold_ns: float
    """With a cold L2 cache."""
    predicted_ns: float
    measured: int
    failed: int
    violations: int
    """Times below their bounds."""


def best_of(problem: ProblemResults) -> Best | None:
    """None where nothing was right."""
    timed = [(m, t) for m in problem.measured if (t := problem.outcome(m).timing) is not None]
    if not timed:
        return None
    best, timing = min(timed, key=lambda pair: pair[1].time_ns)
    assert best.cold.timing is not None
    return Best(
        timing,
        best.cold.timing.time_ns,
        best.entry.predicted_ns,
        len(problem.measured),
        len(problem.measured) - len(timed),
        sum(is_violation(t, m.entry.bound_ns) for m, t in timed),
    )


def peer_lines(folder: Path, problem: str) -> Iterator[Line]:
    """In the order in which they were measured; a last one that was cut off is left out."""
    path = folder / PEERS
    if path.exists():
        text = path.read_text(encoding="utf-8")
        lines: Iterator[Line] = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
        yield from (line for line in lines if line["problem"] == problem)


def peer_ns(line: Line, cache: Literal["warm", "cold"]) -> float:
    """Of a peer that was timed."""
    return float(statistics.median(line[f"{cache}_ns"]))

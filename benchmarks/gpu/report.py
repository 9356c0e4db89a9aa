"""What a machine with a GPU measured: each case beside its peers, the limits of the device, and its aims.

In: the folder that came back. Out: a `CaseReport` for each case, a table, a document for programs.
Times are medians with a warm L2 cache, unless the kernel file asks for a cold one; all of one visit.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.gpu.cases import CASES, COPY, Aim, Case
from benchmarks.gpu.folder import kernel_of
from benchmarks.tables import headed
from spacedsl.codegen.cuda.batches.results import RESULTS, BatchResults, ProblemResults, read_results
from spacedsl.kernels.evaluation import Timing
from spacedsl.search.state import is_violation


@dataclass(frozen=True, slots=True)
class CaseReport:
    case: Case
    best: Timing
    cold_ns: float
    """Of the best, with a cold L2 cache."""
    predicted_ns: float
    measured: int
    failed: int
    violations: int
    """Times below their bounds."""
    peers: Mapping[str, float]
    """Nanoseconds by name."""
    absent: Mapping[str, str]
    """Why a peer has no time."""
    bandwidth_ns: float
    """Moving the bytes as fast as a copy does."""
    arithmetic_ns: float

    @property
    def limit_share(self) -> float:
        return max(self.bandwidth_ns, self.arithmetic_ns) / self.best.time_ns

    def achieved(self, aim: Aim) -> float | None:
        """None where the peer is not there."""
        time_ns = self.bandwidth_ns if aim.of == COPY else self.peers.get(aim.of)
        return None if time_ns is None else time_ns / self.best.time_ns

    def as_document(self) -> dict[str, object]:
        aims = [{"of": a.of, "ratio": a.ratio, "achieved": self.achieved(a)} for a in self.case.aims]
        return {
            "case": self.case.name,
            "kernel": self.case.kernel,
            "sizes": dict(self.case.sizes),
            "time_ns": self.best.time_ns,
            "time_ci_ns": [self.best.low_ns, self.best.high_ns],
            "cold_ns": self.cold_ns,
            "predicted_ns": self.predicted_ns,
            "measured": self.measured,
            "failed": self.failed,
            "violations": self.violations,
            "peers_ns": dict(self.peers),
            "absent": dict(self.absent),
            "bandwidth_ns": self.bandwidth_ns,
            "arithmetic_ns": self.arithmetic_ns,
            "limit_share": self.limit_share,
            "aims": aims,
        }


@dataclass(frozen=True, slots=True)
class Report:
    results: BatchResults
    cases: tuple[CaseReport, ...]
    skipped: Mapping[str, str]

    def as_document(self) -> dict[str, object]:
        return {
            "schema": 1,
            "device": self.results.device.model_dump(mode="json"),
            "limits": dict(self.results.limits),
            "cases": [case.as_document() for case in self.cases],
            "skipped": dict(self.skipped),
        }


def report(folder: Path, cases: Sequence[Case] = CASES) -> Report:
    """Raises `DiagnosticError` for results that are none, `OSError`."""
    results = read_results(folder / RESULTS)
    found: list[CaseReport] = []
    skipped: dict[str, str] = {}
    for case in cases:
        problem = next((p for p in results.problems if _is_of(p, case)), None)
        made = None if problem is None else _case(case, problem, results.limits, _peers(folder, problem.name))
        if made is None:
            skipped[case.name] = "not in this batch" if problem is None else "nothing was right"
        else:
            found.append(made)
    return Report(results, tuple(found), skipped)


def _is_of(problem: ProblemResults, case: Case) -> bool:
    kernel = kernel_of(case)
    return (problem.kernel, dict(problem.sizes)) == (kernel.name, dict(kernel.sizes))


def _peers(folder: Path, problem: str) -> Iterator[dict[str, Any]]:
    path = folder / "peers.jsonl"
    if path.exists():
        lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        yield from (line for line in lines if line["problem"] == problem)


def _case(
    case: Case, problem: ProblemResults, limits: Mapping[str, float], peers: Iterator[dict[str, Any]]
) -> CaseReport | None:
    """None where nothing was right."""
    timed = [(m, t) for m in problem.measured if (t := problem.outcome(m).timing) is not None]
    if not timed:
        return None
    best, timing = min(timed, key=lambda pair: pair[1].time_ns)
    assert best.cold.timing is not None
    lines = list(peers)
    return CaseReport(
        case,
        timing,
        best.cold.timing.time_ns,
        best.entry.predicted_ns,
        len(problem.measured),
        len(problem.measured) - len(timed),
        sum(is_violation(t, m.entry.bound_ns) for m, t in timed),
        {
            line["peer"]: statistics.median(line[f"{problem.cache}_ns"])
            for line in lines
            if "failure" not in line
        },
        {line["peer"]: line["message"] for line in lines if "failure" in line},
        case.nbytes / limits["copy_bytes_per_ns"],
        case.flops / limits[case.limit],
    )


# ---- For a person --------------------------------------------------------------------------------------


def show(made: Report, console: Console) -> None:
    device, limits = made.results.device, made.results.limits
    rates = ", ".join(f"{name} {value:.4g}" for name, value in limits.items())
    console.print(f"{device.name}, {device.sms} SMs, driver {device.driver}: {rates}", highlight=False)
    headings = (
        "case",
        "ours",
        "cold",
        "predicted",
        "of the limit",
        "aims",
        "peers over ours",
        "measured",
        "wrong",
    )
    table = headed("Peers' times over ours", headings, words=("case", "aims", "peers over ours"))
    for r in made.cases:
        peers = [f"{name} {time_ns / r.best.time_ns:.2f}" for name, time_ns in r.peers.items()]
        table.add_row(
            r.case.name,
            _time(r.best.time_ns),
            _time(r.cold_ns),
            _time(r.predicted_ns),
            f"{r.limit_share:.0%}",
            ", ".join(_verdict(r, aim) for aim in r.case.aims),
            ", ".join([*peers, *(f"no {name}" for name in r.absent)]),
            str(r.measured),
            str(r.failed),
        )
    console.print(table)
    violations = sum(r.violations for r in made.cases)
    console.print(f"{violations} measured times are below their bounds", highlight=False)
    for name, reason in made.skipped.items():
        console.print(f"{name} is skipped: {reason}", highlight=False)


def _verdict(of: CaseReport, aim: Aim) -> str:
    achieved = of.achieved(aim)
    if achieved is None:
        return f"{aim}: not there"
    return f"{aim}: [{'green' if achieved >= aim.ratio else 'red'}]{achieved:.2f}[/]"


def _time(ns: float) -> str:
    return f"{ns / 1e6:.4g} ms" if ns >= 1e6 else f"{ns / 1e3:.4g} us"

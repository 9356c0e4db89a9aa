"""What a machine with a GPU measured: each case beside its peers, the limits of the device, and its aims.

In: the folder that came back. Out: a `CaseReport` for each case, a table, a document for programs.
Times are medians with a warm L2 cache, unless the kernel file asks for a cold one; all of one visit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.gpu.cases import CASES, COPY, Aim, Case
from benchmarks.gpu.folder import kernel_of
from benchmarks.gpu.measured import Best, best_of, peer_lines, peer_ns
from benchmarks.ratios import duration
from benchmarks.tables import headed
from spacedsl.codegen.cuda.batches.folders import RESULTS
from spacedsl.codegen.cuda.batches.results import BatchResults, ProblemResults, read_results


@dataclass(frozen=True, slots=True)
class CaseReport:
    case: Case
    best: Best
    peers: Mapping[str, float]
    """Nanoseconds by name."""
    absent: Mapping[str, str]
    """Why a peer has no time."""
    bandwidth_ns: float
    """Moving the bytes as fast as a copy does."""
    arithmetic_ns: float

    @property
    def limit_share(self) -> float:
        return max(self.bandwidth_ns, self.arithmetic_ns) / self.best.timing.time_ns

    def achieved(self, aim: Aim) -> float | None:
        """None where the peer is not there."""
        time_ns = self.bandwidth_ns if aim.of == COPY else self.peers.get(aim.of)
        return None if time_ns is None else time_ns / self.best.timing.time_ns

    def as_document(self) -> dict[str, object]:
        aims = [{"of": a.of, "ratio": a.ratio, "achieved": self.achieved(a)} for a in self.case.aims]
        return {
            "case": self.case.name,
            "kernel": self.case.kernel,
            "sizes": dict(self.case.sizes),
            "time_ns": self.best.timing.time_ns,
            "time_ci_ns": [self.best.timing.low_ns, self.best.timing.high_ns],
            "cold_ns": self.best.cold_ns,
            "predicted_ns": self.best.predicted_ns,
            "measured": self.best.measured,
            "failed": self.best.failed,
            "violations": self.best.violations,
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
        made = None if problem is None else _case(case, problem, results.limits, folder)
        if made is None:
            skipped[case.name] = "not in this batch" if problem is None else "nothing was right"
        else:
            found.append(made)
    return Report(results, tuple(found), skipped)


def _is_of(problem: ProblemResults, case: Case) -> bool:
    kernel = kernel_of(case)
    return (problem.kernel, dict(problem.sizes)) == (kernel.name, dict(kernel.sizes))


def _case(
    case: Case, problem: ProblemResults, limits: Mapping[str, float], folder: Path
) -> CaseReport | None:
    """None where nothing was right."""
    best = best_of(problem)
    if best is None:
        return None
    lines = list(peer_lines(folder, problem.name))
    return CaseReport(
        case,
        best,
        {line["peer"]: peer_ns(line, problem.cache) for line in lines if "failure" not in line},
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
        peers = [f"{name} {time_ns / r.best.timing.time_ns:.2f}" for name, time_ns in r.peers.items()]
        table.add_row(
            r.case.name,
            duration(r.best.timing.time_ns),
            duration(r.best.cold_ns),
            duration(r.best.predicted_ns),
            f"{r.limit_share:.0%}",
            ", ".join(_verdict(r, aim) for aim in r.case.aims),
            ", ".join([*peers, *(f"no {name}" for name in r.absent)]),
            str(r.best.measured),
            str(r.best.failed),
        )
    console.print(table)
    violations = sum(r.best.violations for r in made.cases)
    console.print(f"{violations} measured times are below their bounds", highlight=False)
    for name, reason in made.skipped.items():
        console.print(f"{name} is skipped: {reason}", highlight=False)


def _verdict(of: CaseReport, aim: Aim) -> str:
    achieved = of.achieved(aim)
    if achieved is None:
        return f"{aim}: not there"
    return f"{aim}: [{'green' if achieved >= aim.ratio else 'red'}]{achieved:.2f}[/]"

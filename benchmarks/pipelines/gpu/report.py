"""What a machine with a GPU measured of pipelines: each application beside Halide's schedulers.

In: the folder, whether it came back or not. Out: an `ApplicationReport` for each application, tables, a
document for programs. Times are medians with a warm L2 cache, unless the kernel file asks for a cold one; all
of one visit. A ratio is the time of the best of Halide's schedulers over ours. What has no time says why.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from benchmarks.gpu.measured import Best, Line, best_of, peer_lines, peer_ns
from benchmarks.pipelines.gpu.folder import HALIDE
from benchmarks.ratios import duration
from benchmarks.tables import headed
from spacedsl.codegen.cuda.batches.folders import RESULTS
from spacedsl.codegen.cuda.batches.results import BatchResults, read_results

NOT_YET = "not measured yet"


@dataclass(frozen=True, slots=True)
class Peer:
    """One of Halide's schedulers."""

    name: str
    warm_ns: float | None
    cold_ns: float | None
    absent: str
    """Why it has no times."""
    schedule_s: float
    compile_s: float


@dataclass(frozen=True, slots=True)
class ApplicationReport:
    name: str
    sizes: Mapping[str, int]
    cache: Literal["warm", "cold"]
    asked: int
    """Implementations of ours in the folder."""
    predicted_ns: float
    """Of the best that was measured, else the least."""
    ours: Best | None
    absent: str
    """Why ours has no time."""
    peers: tuple[Peer, ...]

    def time_ns(self, peer: Peer) -> float | None:
        return peer.warm_ns if self.cache == "warm" else peer.cold_ns

    @property
    def best(self) -> tuple[str, float] | None:
        """The fastest of Halide's, and its time."""
        timed = [(peer.name, time_ns) for peer in self.peers if (time_ns := self.time_ns(peer)) is not None]
        return min(timed, key=lambda pair: pair[1], default=None)

    @property
    def ratio(self) -> float | None:
        if self.best is None or self.ours is None:
            return None
        return self.best[1] / self.ours.timing.time_ns

    def as_document(self) -> dict[str, object]:
        return {
            "application": self.name,
            "sizes": dict(self.sizes),
            "cache": self.cache,
            "asked": self.asked,
            "predicted_ns": self.predicted_ns,
            "ours": None if self.ours is None else asdict(self.ours),
            "absent": self.absent,
            "best": None if self.best is None else self.best[0],
            "ratio": self.ratio,
            "halide": [asdict(peer) for peer in self.peers],
        }


@dataclass(frozen=True, slots=True)
class Report:
    folder: Path
    wanted: str
    """The GPU that the folder is for."""
    device: str
    """The GPU that measured it; empty: none has yet."""
    results: BatchResults | None
    """What there is to know of that and of ours."""
    applications: tuple[ApplicationReport, ...]

    @property
    def mean(self) -> float | None:
        """Geometric, of the applications that have a ratio."""
        ratios = [a.ratio for a in self.applications if a.ratio is not None]
        return statistics.geometric_mean(ratios) if ratios else None

    def as_document(self) -> dict[str, object]:
        results = self.results
        return {
            "schema": 1,
            "wanted": self.wanted,
            "device": self.device or None,
            "about": None if results is None else results.device.model_dump(mode="json"),
            "limits": {} if results is None else dict(results.limits),
            "applications": [a.as_document() for a in self.applications],
            "geometric_mean": self.mean,
        }


def report(folder: Path) -> Report:
    """Raises `DiagnosticError` for results that are none, `OSError` where the folder is no such folder."""
    batch = _document(folder / "batch.json")
    path = folder / RESULTS
    results = read_results(path) if path.exists() and path.read_text(encoding="utf-8").strip() else None
    lines = {name: list(peer_lines(folder, name)) for name in batch["problems"]}
    device = "" if results is None else results.device.name
    device = device or next(
        (line["device"] for each in lines.values() for line in each if "device" in line), ""
    )
    found = [_application(folder, name, results, lines[name], device) for name in batch["problems"]]
    return Report(folder, batch["device"], device, results, tuple(found))


def _document(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _application(
    folder: Path, name: str, results: BatchResults | None, lines: list[Line], device: str
) -> ApplicationReport:
    problem, halide = (_document(folder / name / file) for file in ("problem.json", HALIDE))
    ours, absent = None, NOT_YET
    for measured in () if results is None else results.problems:
        if measured.name == name and measured.measured:
            ours = best_of(measured)
            absent = "" if ours is not None else f"none of {len(measured.measured)} was right"
    entries, known = problem["implementations"], {line["peer"]: line for line in lines}
    predicted_ns = min(entry["predicted_ns"] for entry in entries) if ours is None else ours.predicted_ns
    return ApplicationReport(
        name,
        problem["sizes"],
        problem["cache"],
        len(entries),
        predicted_ns,
        ours,
        absent,
        tuple(_peer(made, known.get(made["name"]), device) for made in halide["schedulers"]),
    )


def _peer(made: Mapping[str, Any], line: Line | None, device: str) -> Peer:
    times: tuple[float | None, float | None] = (None, None)
    absent = made["absent"]
    if not absent:
        if line is None:
            absent = NOT_YET
        elif "failure" in line:
            absent = line["message"]
        elif line["device"] != device:
            absent = f"measured on another GPU: {line['device']}"
        else:
            times = (peer_ns(line, "warm"), peer_ns(line, "cold"))
    return Peer(made["name"], *times, absent, made["schedule_s"], made["compile_s"])


# ---- For a person --------------------------------------------------------------------------------------


def show(made: Report, console: Console) -> None:
    for sentence in _about(made):
        console.print(sentence, highlight=False, markup=False)
    console.print(_verdicts(made))
    if made.mean is not None:
        console.print(f"geometric mean: {made.mean:.2f}", highlight=False)
    console.print(_contenders(made))
    violations = sum(a.ours.violations for a in made.applications if a.ours is not None)
    if violations:
        console.print(f"{violations} measured times are below their bounds", highlight=False)


def _about(made: Report) -> Iterator[str]:
    if not made.device:
        yield (
            f"nothing of {made.folder} has been measured yet: `python run_benchmark.py` in it does, "
            f"on a machine with an {made.wanted}"
        )
    elif made.results is None:
        yield f"{made.device}; nothing of ours has been measured yet: the same command goes on"
    else:
        device = made.results.device
        rates = ", ".join(f"{name} {value:.4g}" for name, value in made.results.limits.items())
        yield f"{device.name}, {device.sms} SMs, driver {device.driver}: {rates}"


def _verdicts(made: Report) -> Table:
    headings = (
        *("application", "ours", "cold", "predicted", "best of Halide", "its time", "ratio"),
        *("measured", "wrong"),
    )
    words = ("application", "best of Halide")
    table = headed("Time of the best of Halide over ours", headings, words=words)
    for a in made.applications:
        ours = (None, None) if a.ours is None else (a.ours.timing.time_ns, a.ours.cold_ns)
        best, time_ns = a.best or ("none", None)
        table.add_row(
            a.name,
            *(_time(ns) for ns in (*ours, a.predicted_ns)),
            best,
            _time(time_ns),
            "" if a.ratio is None else f"{a.ratio:.2f}",
            f"{0 if a.ours is None else a.ours.measured} of {a.asked}",
            "" if a.ours is None else str(a.ours.failed),
        )
    return table


def _contenders(made: Report) -> Table:
    headings = ("application", "contender", "warm", "cold", "over ours", "scheduled in", "compiled in")
    table = headed("All contenders", headings, words=("application", "contender"))
    for a in made.applications:
        table.add_section()
        if a.ours is None:
            table.add_row(a.name, f"ours: {a.absent}", *[""] * 5)
        for peer in a.peers:
            time_ns = a.time_ns(peer)
            over = "" if time_ns is None or a.ours is None else f"{time_ns / a.ours.timing.time_ns:.2f}"
            words = f"{peer.name}: {_short(peer.absent)}" if peer.absent else peer.name
            took = ("", "") if not peer.compile_s else (f"{peer.schedule_s:.2f} s", f"{peer.compile_s:.1f} s")
            table.add_row(a.name, words, _time(peer.warm_ns), _time(peer.cold_ns), over, *took)
    return table


def _time(ns: float | None) -> str:
    return "" if ns is None else duration(ns)


def _short(reason: str) -> str:
    """The document has all of it."""
    line = " ".join(reason.split())
    return line if len(line) <= 80 else f"{line[:77]}..."

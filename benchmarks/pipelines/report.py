"""What a comparison of pipelines came to: a table for a person, a document for a program.

In: an application, the rows of its contest, and what Halide's schedulers took. Out: a `Comparison`, and
tables of several. A ratio is the time of the best of Halide's schedulers over ours, so that 1 is a draw and
more is for us.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.contest import PRODUCT
from benchmarks.pipelines.applications import BY_NAME, LEAST_RATIO, MEAN_RATIO
from benchmarks.ratios import Ratio, Row, duration
from benchmarks.tables import headed
from spacedsl.kernels.evaluation import Timing


@dataclass(frozen=True, slots=True)
class Making:
    """What a schedule of Halide's took to make."""

    schedule_s: float
    compile_s: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of one application. Rows are the fastest first."""

    application: str
    ours: tuple[Row, ...]
    """One for each record."""
    halide: tuple[Row, ...]
    """One for each scheduler whose result is right."""
    makings: Mapping[str, Making]
    """By scheduler."""
    absent: Mapping[str, str]
    """By scheduler, or record, why it takes no part."""

    @property
    def aim(self) -> float:
        return BY_NAME[self.application].aim

    @property
    def best(self) -> Row | None:
        """Of Halide's."""
        return self.halide[0] if self.halide else None

    def as_document(self) -> dict[str, Any]:
        best = self.best
        return {
            "application": self.application,
            "best": None if best is None else best.name,
            "ratio": None if best is None else asdict(best.ratio),
            "aim": self.aim,
            "ours": [asdict(row) for row in self.ours],
            "halide": [asdict(row) for row in self.halide],
            "makings": {name: asdict(making) for name, making in self.makings.items()},
            "absent": dict(self.absent),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Comparison:
        """From JSON."""
        return cls(
            document["application"],
            tuple(map(_row, document["ours"])),
            tuple(map(_row, document["halide"])),
            {name: Making(**making) for name, making in document["makings"].items()},
            document["absent"],
        )


def _row(document: Mapping[str, Any]) -> Row:
    return Row(**{**document, "wall": Timing(**document["wall"]), "ratio": Ratio(**document["ratio"])})


def comparison(
    application: str, rows: Sequence[Row], makings: Mapping[str, Making], absent: Mapping[str, str]
) -> Comparison:
    ours = tuple(row for row in rows if row.name == PRODUCT)
    return Comparison(application, ours, tuple(row for row in rows if row.name != PRODUCT), makings, absent)


@dataclass(frozen=True, slots=True)
class Summary:
    """Of those applications that have a ratio."""

    mean: float | None
    """Geometric."""
    below: tuple[str, ...]
    """Applications whose ratio is below the least one that is aimed at."""
    missed: tuple[str, ...]
    """Applications that miss an aim of their own, which is higher."""

    @classmethod
    def of(cls, comparisons: Sequence[Comparison]) -> Summary:
        ratios = {c.application: c.best.ratio.median for c in comparisons if c.best is not None}
        mean = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios)) if ratios else None
        below = tuple(name for name, ratio in ratios.items() if ratio < LEAST_RATIO)
        higher = (name for name, ratio in ratios.items() if LEAST_RATIO <= ratio < BY_NAME[name].aim)
        return cls(mean, below, tuple(higher))


# ---- For a person --------------------------------------------------------------------------------------


def show(comparisons: Sequence[Comparison], skipped: Mapping[str, str], console: Console) -> None:
    if comparisons:
        console.print(_verdicts(comparisons))
        _say(Summary.of(comparisons), console)
        console.print(_contenders(comparisons))
    for name, reason in skipped.items():
        console.print(f"{name} is skipped: {reason}", highlight=False, markup=False)


def _say(summary: Summary, console: Console) -> None:
    if summary.mean is not None:
        mean = _coloured(f"{summary.mean:.2f}", summary.mean >= MEAN_RATIO)
        console.print(f"geometric mean: {mean} (aimed at: at least {MEAN_RATIO:g})", highlight=False)
    for names, what in (
        (summary.below, f"below {LEAST_RATIO:g}"),
        (summary.missed, "below an aim of their own"),
    ):
        console.print(f"{what}: {', '.join(names) or 'none'}", highlight=False)


def _verdicts(comparisons: Sequence[Comparison]) -> Table:
    headings = (
        *("application", "ours", "best of Halide", "its time", "ratio (95 %)", "of least", "of CPU time"),
        "aim",
    )
    table = headed("Time of the best of Halide over ours", headings, words=("application", "best of Halide"))
    for c in comparisons:
        best, ours = c.best, duration(c.ours[0].wall.time_ns)
        if best is None:
            table.add_row(c.application, ours, "none", "", "", "", "", f"{c.aim:g}")
            continue
        aim = _coloured(f"{c.aim:g}", best.ratio.median >= c.aim)
        others = (f"{best.least_ratio:.2f}", f"{best.cpu_ns / c.ours[0].cpu_ns:.2f}")
        table.add_row(
            c.application, ours, best.name, duration(best.wall.time_ns), str(best.ratio), *others, aim
        )
    return table


def _coloured(text: str, is_met: bool) -> str:
    return f"[{'green' if is_met else 'red'}]{text} {'met' if is_met else 'missed'}[/]"


def _contenders(comparisons: Sequence[Comparison]) -> Table:
    headings = (
        *("application", "contender", "wall", "CPU", "busy", "over ours (95 %)", "of least"),
        *("scheduled in", "compiled in"),
    )
    table = headed("All contenders", headings, words=("application", "contender"))
    for c in comparisons:
        table.add_section()
        for row in (*c.ours, *c.halide):
            making = c.makings.get(row.name)
            table.add_row(
                c.application,
                row.label,
                duration(row.wall.time_ns),
                duration(row.cpu_ns),
                f"{row.cpus_busy:.2f}",
                str(row.ratio),
                f"{row.least_ratio:.2f}",
                "" if making is None else f"{making.schedule_s:.2f} s",
                "" if making is None else f"{making.compile_s:.1f} s",
            )
        for name, reason in c.absent.items():
            table.add_row(c.application, name, _short(reason), *[""] * 6)
    return table


def _short(reason: str) -> str:
    """The document has all of it."""
    line = " ".join(reason.split())
    return line if len(line) <= 160 else f"{line[:157]}..."

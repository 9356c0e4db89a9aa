"""What a comparison came to: ratios with intervals, a table for a person, a document for a program.

In: a case and its contest. Out: a `CaseReport`. A ratio is a peer's time over ours: the median over rounds of
the ratio of medians, with its 95 % interval; beside it stands the ratio of the least times, which other work
on the machine disturbs least. Absolute times are there to be seen and not to be compared with those of
another run.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.cpu.cases import Aim, Case
from benchmarks.cpu.contest import Contender, Contest, Work
from benchmarks.cpu.peers import LIMITS, PRODUCT
from benchmarks.cpu.peers.limits import ARITHMETIC, MOVES
from benchmarks.tables import headed
from spacedsl.codegen.timing import summarise
from spacedsl.kernels.evaluation import Timing


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median over rounds, and its 95 % interval."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Ratio:
        found = summarise(ratios)
        return cls(found.time_ns, found.low_ns, found.high_ns)


@dataclass(frozen=True, slots=True)
class Row:
    """One contender."""

    name: str
    variant: str
    """Which of the contenders of this name: a way to call it, or where a record lies."""
    wall: Timing
    """Of one call, in ns."""
    cpu_ns: float
    """Processor time of all threads in one call."""
    cpus_busy: float
    """On average."""
    ratio: Ratio
    """Its time over that of our best."""
    least_ratio: float
    """Its least time over the least one of our best."""

    @property
    def label(self) -> str:
        return f"{self.name}, {self.variant}" if self.variant else self.name


@dataclass(frozen=True, slots=True)
class CaseReport:
    case: Case
    work: Work
    ours: tuple[Row, ...]
    """Fastest first; one for each record."""
    peers: tuple[Row, ...]
    """Fastest first."""
    limits: tuple[Row, ...]
    absent: dict[str, str]

    @property
    def limit_ns(self) -> float | None:
        """No code is faster: the operations, or moving the bytes in the faster way."""
        times = {row.variant: row.wall.time_ns for row in self.limits}
        moves = [times[move] for move in MOVES if move in times]
        return max(times[ARITHMETIC], min(moves)) if moves and ARITHMETIC in times else None

    @property
    def limit_share(self) -> float | None:
        return None if self.limit_ns is None else self.limit_ns / self.ours[0].wall.time_ns

    def achieved(self, aim: Aim) -> Row | None:
        """The fastest of the peers that an aim names; None where none of them is here."""
        return next((row for row in self.peers if not aim.peers or row.name in aim.peers), None)

    @property
    def spread(self) -> Ratio | None:
        """The slowest of our records over the fastest one."""
        return self.ours[-1].ratio if len(self.ours) > 1 else None

    def as_document(self) -> dict[str, object]:
        aims = [
            {
                "peers": aim.peers,
                "ratio": aim.ratio,
                "peer": None if row is None else row.label,
                "achieved": None if row is None else row.ratio.median,
            }
            for aim in self.case.aims
            for row in [self.achieved(aim)]
        ]
        return {
            "case": self.case.name,
            "kernel": self.case.kernel,
            "sizes": dict(self.case.sizes),
            **asdict(self.work),
            "best_peer": self.peers[0].label if self.peers else None,
            "ratio": asdict(self.peers[0].ratio) if self.peers else None,
            "aims": aims,
            "limit_ns": self.limit_ns,
            "limit_share": self.limit_share,
            "limit_share_aimed_at": self.case.limit_share or None,
            "spread": None if self.spread is None else asdict(self.spread),
            "ours": [asdict(row) for row in self.ours],
            "peers": [asdict(row) for row in self.peers],
            "limits": [asdict(row) for row in self.limits],
            "absent": self.absent,
        }


def report(case: Case, contest: Contest) -> CaseReport | None:
    """None where nothing of ours is right."""
    medians = {id(c): c.medians_ns for c in contest.contenders}
    ours = [c for c in contest.contenders if c.name == PRODUCT]
    if not ours or contest.work is None:
        return None
    best = min(ours, key=lambda c: statistics.median(medians[id(c)]))

    def row(contender: Contender) -> Row:
        ratios = [a / b for a, b in zip(medians[id(contender)], medians[id(best)], strict=True)]
        return Row(
            contender.name,
            contender.label,
            summarise([ns for turn in contender.rounds for ns in turn.wall_ns]),
            statistics.median(turn.cpu_ns for turn in contender.rounds),
            statistics.fmean(turn.cpus_busy for turn in contender.rounds),
            Ratio.of(ratios),
            contender.least_ns / best.least_ns,
        )

    rows = sorted(map(row, contest.contenders), key=lambda r: r.ratio.median)
    return CaseReport(
        case,
        contest.work,
        tuple(r for r in rows if r.name == PRODUCT),
        tuple(r for r in rows if r.name not in (PRODUCT, LIMITS)),
        tuple(r for r in rows if r.name == LIMITS),
        contest.absent,
    )


# ---- For a person --------------------------------------------------------------------------------------


def show(reports: Sequence[CaseReport], skipped: dict[str, str], console: Console) -> None:
    console.print(_verdicts(reports))
    console.print(_contenders(reports))
    for name, reason in skipped.items():
        console.print(f"{name} is skipped: {reason}", highlight=False)


def _verdicts(reports: Sequence[CaseReport]) -> Table:
    headings = ("case", "ours", "best peer", "ratio (95 %)", "of least", "aims", "of the limit", "spread")
    table = headed("Time of the best peer over ours", headings, words=("case", "best peer", "aims"))
    for r in reports:
        best = r.peers[0] if r.peers else None
        table.add_row(
            r.case.name,
            _time(r.ours[0].wall.time_ns),
            "" if best is None else best.label,
            "" if best is None else _interval(best.ratio),
            "" if best is None else f"{best.least_ratio:.2f}",
            ", ".join(_verdict(r, aim) for aim in r.case.aims),
            "" if r.limit_share is None else _share(r.limit_share, r.case.limit_share),
            "" if r.spread is None else f"{r.spread.median - 1:.1%}",
        )
    return table


def _verdict(of: CaseReport, aim: Aim) -> str:
    row = of.achieved(aim)
    if row is None:
        return f"{aim}: no peer"
    met = row.ratio.median >= aim.ratio
    return f"{aim}: [{'green' if met else 'red'}]{row.ratio.median:.2f}[/]"


def _contenders(reports: Sequence[CaseReport]) -> Table:
    headings = ("case", "contender", "wall", "rate", "CPU", "busy", "over ours (95 %)", "of least")
    table = headed("All contenders", headings, words=("case", "contender"))
    for r in reports:
        table.add_section()
        for row in (*r.ours, *r.peers, *r.limits):
            table.add_row(
                r.case.name,
                row.label,
                _time(row.wall.time_ns),
                _rate(r.work, row),
                _time(row.cpu_ns),
                f"{row.cpus_busy:.2f}",
                _interval(row.ratio),
                f"{row.least_ratio:.2f}",
            )
        for name, reason in r.absent.items():
            table.add_row(r.case.name, name, reason, "", "", "", "", "")
    return table


def _time(ns: float) -> str:
    return f"{ns / 1e6:.4g} ms" if ns >= 1e6 else f"{ns / 1e3:.4g} us"


def _rate(work: Work, row: Row) -> str:
    """Operations where a byte has many of them, else bytes; of a limit, what it is a limit of."""
    counts_flops = work.flops >= 4 * work.nbytes if row.name != LIMITS else row.variant == ARITHMETIC
    # A count per ns is one in units of 1e9 per second.
    if counts_flops:
        return f"{work.flops / row.wall.time_ns:.1f} GFLOP/s"
    return f"{work.nbytes / row.wall.time_ns:.1f} GB/s"


def _share(share: float, aim: float) -> str:
    colour = "green" if share >= aim else "red"
    return (
        f"{share:.0%}, {aim:.0%}: [{colour}]{'met' if share >= aim else 'missed'}[/]"
        if aim
        else f"{share:.0%}"
    )


def _interval(ratio: Ratio) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"

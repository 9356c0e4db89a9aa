"""What a comparison came to: ratios with intervals, a table for a person, a document for a program.

In: a case and its contest. Out: a `CaseReport`, whose rows are those of `benchmarks/ratios.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.contest import PRODUCT, Contest
from benchmarks.cpu.cases import Aim, Case
from benchmarks.cpu.peers import LIMITS
from benchmarks.cpu.peers.limits import ARITHMETIC, MOVES
from benchmarks.ratios import Ratio, Row, duration, rows
from benchmarks.tables import headed


@dataclass(frozen=True, slots=True)
class Work:
    """Of one call: floating-point operations, and distinct bytes read or written."""

    flops: int
    nbytes: int


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

    @property
    def least_spread(self) -> float | None:
        """The same of the least times."""
        least = [row.least_ratio for row in self.ours]
        return max(least) / min(least) if len(least) > 1 else None

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
            "least_spread": self.least_spread,
            "ours": [asdict(row) for row in self.ours],
            "peers": [asdict(row) for row in self.peers],
            "limits": [asdict(row) for row in self.limits],
            "absent": self.absent,
        }


def report(case: Case, contest: Contest) -> CaseReport | None:
    """None where nothing of ours is right."""
    found = rows(contest, PRODUCT)
    if not found:
        return None
    return CaseReport(
        case,
        Work(**next(iter(contest.told.values()))),
        tuple(r for r in found if r.name == PRODUCT),
        tuple(r for r in found if r.name not in (PRODUCT, LIMITS)),
        tuple(r for r in found if r.name == LIMITS),
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
            duration(r.ours[0].wall.time_ns),
            "" if best is None else best.label,
            "" if best is None else str(best.ratio),
            "" if best is None else f"{best.least_ratio:.2f}",
            ", ".join(_verdict(r, aim) for aim in r.case.aims),
            "" if r.limit_share is None else _share(r.limit_share, r.case.limit_share),
            _spread(r),
        )
    return table


def _spread(of: CaseReport) -> str:
    if of.spread is None or of.least_spread is None:
        return ""
    return f"{of.spread.median - 1:.1%}, of least {of.least_spread - 1:.1%}"


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
                duration(row.wall.time_ns),
                _rate(r.work, row),
                duration(row.cpu_ns),
                f"{row.cpus_busy:.2f}",
                str(row.ratio),
                f"{row.least_ratio:.2f}",
            )
        for name, reason in r.absent.items():
            table.add_row(r.case.name, name, reason, "", "", "", "", "")
    return table


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

"""The view of a search while it runs: a block that is redrawn on a terminal, plain lines elsewhere.

In: the events of `spacedsl.search.events` and `spacedsl.api.Preparing`. Out: text on stderr. Nothing here
touches the search; without events the clock goes on all the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from spacedsl.api import Activity, Defect, Planned, Preparing, Stopping, Waiting, Warned
from spacedsl.cli.console import Console, Verbosity
from spacedsl.cli.summary import duration, percent
from spacedsl.commands import command
from spacedsl.diagnostics import counted
from spacedsl.kernels.evaluation import Outcome
from spacedsl.search.events import (
    Comparing,
    Evaluated,
    Failed,
    Finished,
    NewBest,
    Progress,
    Started,
    Violation,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import rich.console

COLUMN_WIDTH = 26
"""Characters that a figure and its name take: nothing is cut off in a narrow window."""

LINE_EVERY_S = 10.0
"""Time between two plain lines where nothing else is to be said."""

_LOOK_EVERY_S = 1.0

SEARCHING = "searching"


@dataclass(slots=True)
class Board:
    """What is known of the search by now; knows how to draw itself."""

    time_s: float | None = None
    evaluations: int | None = None
    activity: str = "starting"
    prepared: str = ""
    """What was prepared last."""
    progress: Progress | None = None
    began: float | None = None
    """When the search would have begun, had it neither been interrupted nor waited for others."""
    waiting_since: float | None = None
    """When it began to wait for others that build and measure on this machine."""

    def take(self, event: Activity) -> None:
        match event:
            case Preparing(activity):
                self.activity = self.prepared = activity
            case Planned(time_s, evaluations):
                self.time_s, self.evaluations = time_s, evaluations
            case Started():
                self.began = time.monotonic()
                self.activity = SEARCHING
            case Waiting(is_over=False):
                self.waiting_since = time.monotonic()
            case Waiting():
                if self.began is not None and self.waiting_since is not None:
                    self.began += time.monotonic() - self.waiting_since
                self.waiting_since = None
            case Stopping():
                self.activity = "finishing this evaluation, then stopping (Ctrl-C again: at once)"
            case Progress():
                self.began = time.monotonic() - event.seconds
                self.progress = event
                if self.activity == self.prepared:
                    self.activity = SEARCHING
            case Comparing(contenders, is_timed=True):
                self.activity = f"measuring the last {contenders} contenders side by side"
            case Comparing(contenders):
                self.activity = f"checking the last {counted(contenders, 'contender')} once more"
            case Finished(progress=progress):
                self.progress = progress
                self.activity = "writing the results"
            case _:
                pass

    @property
    def doing(self) -> str:
        """In words."""
        waiting = "" if self.waiting_since is None else ", waiting for others that measure on this machine"
        return self.activity + waiting

    @property
    def elapsed_s(self) -> float:
        """Of the whole search: without set-up and waiting, with what was done before it was resumed."""
        if self.began is None:
            return 0.0
        return (self.waiting_since or time.monotonic()) - self.began

    @property
    def share_spent(self) -> float:
        """Of whichever budget is closer to its end."""
        done = self.progress.evaluations if self.progress is not None else 0
        shares = [self.elapsed_s / self.time_s] if self.time_s else []
        shares += [done / self.evaluations] if self.evaluations else []
        return min(max(shares, default=0.0), 1.0)

    def budget(self) -> str:
        """`1:23 of 3:00`, and the evaluations where they are limited."""
        parts = [clock(self.elapsed_s) + (f" of {clock(self.time_s)}" if self.time_s else "")]
        if self.evaluations:
            done = self.progress.evaluations if self.progress is not None else 0
            parts.append(f"{done} of {counted(self.evaluations, 'evaluation')}")
        return ", ".join(parts)

    def line(self) -> str:
        """The state in one line."""
        p = self.progress
        if p is None:
            return f"{clock(self.elapsed_s)}  {self.doing}"
        best = "none yet" if p.best_ns is None else duration(p.best_ns)
        gap = "" if p.gap is None else f", gap {percent(p.gap)}"
        failed = sum(f.count for f in p.failures.values())
        doing = "" if self.doing == SEARCHING else f"; {self.doing}"
        return (
            f"{clock(self.elapsed_s)}  {counted(p.evaluations, 'evaluation')} ({failed} failed), "
            f"best {best}, bound {bound(p)}{gap}, {percent(p.share_cut)} of the space cut{doing}"
        )

    def __rich__(self) -> RenderableType:
        bar = Table.grid(padding=(0, 2))
        bar.add_row(ProgressBar(total=1.0, completed=self.share_spent, width=28), self.budget())
        state = [] if self.progress is None else [Figures(self.progress)]
        return Group(bar, *state, Text.assemble(("      now ", "dim"), self.doing))


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of the search, in as many columns as there is room for, and a line for failures."""

    progress: Progress

    def __rich_console__(self, console: rich.console.Console, options: ConsoleOptions) -> RenderResult:
        p = self.progress
        best = Text("none yet") if p.best_ns is None else Text(duration(p.best_ns), style="bold green")
        cells: list[tuple[str, str | Text]] = [
            ("best", best),
            ("bound", bound(p)),
            ("gap", "-" if p.gap is None else percent(p.gap)),
            ("evaluated", str(p.evaluations)),
            ("valid", str(p.valid)),
            ("space cut", percent(p.share_cut)),
        ]
        columns = min(3, max(1, options.max_width // COLUMN_WIDTH))
        grid = Table.grid(padding=(0, 1))
        for _ in range(columns):
            grid.add_column(style="dim", justify="right")
            grid.add_column(min_width=14)
        for start in range(0, len(cells), columns):
            grid.add_row(*(part for cell in cells[start : start + columns] for part in cell))
        yield grid
        if p.failures:
            counts = ", ".join(f"{name} {entry.count}" for name, entry in p.failures.items())
            yield Text.assemble(("   failed ", "dim"), (counts, "yellow"))


def bound(p: Progress) -> str:
    """The least live bound; nothing is left to find where it is infinite."""
    return "all explored" if p.least_bound_ns == float("inf") else duration(p.least_bound_ns)


def clock(seconds: float) -> str:
    """`1:23` or `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def watch(console: Console) -> Iterator[Callable[[Activity], None]]:
    """Shows a search while the block runs; yields what is to be called with every event."""
    board = Board()
    lines = Lines(console, board)
    if console.verbosity is Verbosity.QUIET:
        yield lines.listen
        return
    if not console.is_interactive:
        with _reminded(lines):
            yield lines.listen
        return
    lines.is_periodic = False
    with Live(board, console=console.err, refresh_per_second=8, transient=True):
        yield lines.listen


@contextmanager
def _reminded(lines: Lines) -> Iterator[None]:
    """Has how far things are said every now and then: there may be no event for a minute."""
    is_over = threading.Event()

    def remind() -> None:
        while not is_over.wait(_LOOK_EVERY_S):
            try:
                lines.remind()
            except OSError:  # nobody listens any more, as who speaks next finds out as well
                return

    thread = threading.Thread(target=remind, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@dataclass(slots=True)
class Lines:
    """Says what deserves a line of its own; where there is no redrawn block, also how far things are."""

    console: Console
    board: Board
    is_periodic: bool = True
    last_line: float = 0.0

    def listen(self, event: Activity) -> None:
        self.board.take(event)
        at = clock(self.board.elapsed_s)
        match event:
            case NewBest(timing=timing, bound_ns=bound_ns, is_compared=is_compared):
                # A comparison can show that what seemed to be the best was lucky.
                what = "side by side, another is the best:" if is_compared else "new best"
                self.console.say(f"{at}  {what} {duration(timing.time_ns)}, bound {duration(bound_ns)}")
            case Defect():
                self._defect(event)
            case Failed(failure=failure, message=message):
                self.console.say(f"{at}  first {failure}: {first_line(message)}", style="yellow")
            case Violation(timing=timing, bound_ns=bound_ns):
                seen = f"{duration(timing.time_ns)} measured, {duration(bound_ns)} claimed"
                remedy = "bounds are lowered, what they had cut is open again"
                self.console.say(f"{at}  bound violated: {seen}; {remedy}", style="bold yellow")
            case Evaluated(bound_ns=bound_ns, outcome=outcome, is_duplicate=False):
                self.console.detail(f"{at}  {described(outcome)}, bound {duration(bound_ns)}")
            case Comparing() if self.is_periodic:
                self.console.say(f"{at}  {self.board.activity}")
            case Preparing(activity) if self.is_periodic:
                self.console.say(activity)
            case Warned(message):
                self.console.warn(message)
            case _:
                pass

    def remind(self) -> None:
        """How far the search is, unless that was said a moment ago."""
        if self.board.began is not None and time.monotonic() - self.last_line >= LINE_EVERY_S:
            self.last_line = time.monotonic()
            self.console.say(self.board.line())

    def _defect(self, event: Defect) -> None:
        """Said even under -q: it is a bug of the space or of the code generator."""
        kind = f"WRONG ({event.failed.failure}):"
        again = f"\n  reproduce: {command('replay', event.record)}"
        what = f" {first_line(event.failed.message)}{again}"
        self.console.err.print(Text.assemble((kind, "bold red"), what))


def described(outcome: Outcome) -> str:
    if outcome.timing is not None:
        return duration(outcome.timing.time_ns)
    return f"{outcome.failure}: {first_line(outcome.message)}"


def first_line(message: str) -> str:
    return message.strip().partition("\n")[0]

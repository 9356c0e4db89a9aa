"""What the help lists and what is shown of a search: complete, in whole words, at any width."""

from __future__ import annotations

import io
import re
import time

import pytest
import rich.console

from spacedsl import api
from spacedsl.cli import live
from spacedsl.cli.console import Console
from spacedsl.cli.live import Board, Figures, Lines
from spacedsl.diagnostics import counted
from spacedsl.kernels.evaluation import Failure, Timing
from spacedsl.search.events import Comparing, FailureCount, NewBest, Progress, Started
from spacedsl.search.policies import POLICIES
from tests.cli.running import run

PROGRESS = Progress(
    iterations=9,
    evaluations=12345,
    valid=12300,
    duplicates=3,
    dead_ends=1,
    failures={Failure.BUILD_TIMEOUT: FailureCount(45, "too slow")},
    best_ns=123_456_789.0,
    least_bound_ns=23_456_789.0,
    gap=0.81,
    share_cut=0.9999,
    bound_violations=0,
    seconds=100.0,
)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_every_figure_is_whole_at_any_width(width: int) -> None:
    console = rich.console.Console(file=io.StringIO(), width=width)
    console.print(Figures(PROGRESS))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    for name, value in (
        ("best", "123.5 ms"), ("bound", "23.46 ms"), ("gap", "81.0 %"), ("evaluated", "12345"),
        ("valid", "12300"), ("space cut", "99.99 %"), ("failed", "build_timeout 45"),
    ):  # fmt: skip
        assert re.search(rf"{name} +{value}", shown), shown


def test_the_help_names_every_policy() -> None:
    shown = " ".join(run("explore", "--help").out.split())
    assert {name for name in POLICIES if f"`{name}`" in shown} == set(POLICIES)


@pytest.mark.parametrize(("number", "words"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_one_is_not_a_plural(number: int, words: str) -> None:
    assert counted(number, "file") == words


def test_a_best_that_a_comparison_has_found_is_not_called_new(capsys: pytest.CaptureFixture[str]) -> None:
    """One that takes longer than the one before may be: the machine may be slower now."""
    lines = Lines(Console(), Board())
    for number, (time_ns, is_compared) in enumerate(((9e3, False), (9.1e3, False), (8.5e3, True))):
        lines.listen(NewBest(number, "", 7e3, Timing(time_ns, time_ns, time_ns, 9), (), is_compared))
    first, second, third = capsys.readouterr().err.splitlines()
    assert "new best 9.000 us" in first
    assert "new best 9.100 us" in second
    assert "side by side, another is the best: 8.500 us" in third


def test_without_a_terminal_it_is_said_how_far_things_are_although_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "LINE_EVERY_S", 0.05)
    monkeypatch.setattr(live, "_LOOK_EVERY_S", 0.01)
    expected = (
        "12,345 evaluations (45 failed), best 123.5 ms, bound 23.46 ms, gap 81.0 %, 99.99 % of the space cut"
    )
    said, until = "", time.monotonic() + 60
    with live.watch(Console()) as on_event:
        for event in (Started(1.0, seed=0, iterations=0), PROGRESS, Comparing(3, is_timed=False)):
            on_event(event)
        while said.count(expected) < 3 and time.monotonic() < until:
            time.sleep(0.05)
            said += capsys.readouterr().err
    assert "checking the last 3 contenders once more" in said
    assert said.count(f"{expected}; checking the last 3 contenders once more") >= 2


def test_what_is_prepared_in_a_search_is_shown_until_it_goes_on() -> None:
    board = Board(time_s=60.0)
    board.take(api.Preparing("building the space"))
    board.take(Started(1.0, seed=0, iterations=0))
    assert board.doing == "searching"
    board.take(api.Preparing("making the test cases"))
    assert board.doing == "making the test cases"
    board.take(PROGRESS)
    assert board.doing == "searching"
    board.take(api.Stopping())
    board.take(PROGRESS)
    assert "then stopping" in board.doing

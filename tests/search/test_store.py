"""Nothing that was committed is lost, and a resumed run is the run that was not interrupted."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from spacedsl.kernels.evaluation import Failure, Outcome, Timing
from spacedsl.search import climbs, state
from spacedsl.search.comparison import Comparison
from spacedsl.search.results import Result, Stop
from spacedsl.search.run import Options
from spacedsl.search.run_folders import check_parent, new_folder
from spacedsl.search.state import Drawn, Evaluation, Iteration
from spacedsl.search.store import DATABASE, DamagedError, Store, StoreError
from spacedsl.search.tree import Expansion, Step
from tests.search.long_run import ABOUT, run

ROOT = Path(__file__).parents[2]

ITERATION = Iteration(
    path=(0, 3, 1),
    expansion=Expansion((Step(4, 1 << 200),), 1.25, 7, (1, 6), (2.5, 0.1 + 0.2), 1),
    drawn=Drawn((Step(7, 1), Step(9, 1 << 255)), 0.1 + 0.2, "abc"),
    proven_ns=None,
    refused=2,
    seconds=1.5,
    evaluations=0,
    random_state='{"state": 340282366920938463463374607431768211455}',
)


EVALUATION = Evaluation("abc", Outcome(Timing(1e6 / 3, 1e6 / 7, 1e7 / 9, 11)), 1.75)


def recorded(folder: Path) -> list[Iteration | Evaluation]:
    """What happened, without what no two runs have in common: the clock; and without comparisons."""
    with Store.open(folder, read_only=True) as store:
        history = [happened for happened in store.history() if not isinstance(happened, Comparison)]
    return [replace(happened, seconds=0.0) for happened in history]


def found(result: Result) -> list[tuple[str, float]]:
    return [(finalist.digest, finalist.timing.time_ns) for finalist in result.finalists]


@pytest.mark.parametrize(
    "iteration",
    [
        ITERATION,
        replace(ITERATION, drawn=None, proven_ns=float("inf")),
        replace(ITERATION, path=(), drawn=Drawn((), 0.0, "")),
        replace(ITERATION, expansion=Expansion((), 0.0, None, (), (), 0), proven_ns=12.5),
    ],
)
def test_an_iteration_is_read_back_as_it_was(tmp_path: Path, iteration: Iteration) -> None:
    with Store.create(tmp_path, ABOUT) as store:
        store.append([iteration])
        assert list(store.iterations()) == [iteration]
    with Store.open(tmp_path) as store:
        assert list(store.iterations()) == [iteration]
        assert store.about() == ABOUT


@pytest.mark.parametrize(
    "evaluation",
    [
        EVALUATION,
        replace(EVALUATION, outcome=replace(EVALUATION.outcome, phases_ns=(("a", 0.1 + 0.2), ("b c", 1e9)))),
        Evaluation("", Outcome(None, Failure.CRASH, "signal 11\nat"), 0.0),
    ],
)
def test_an_evaluation_is_read_back_as_it_was(tmp_path: Path, evaluation: Evaluation) -> None:
    with Store.create(tmp_path, ABOUT) as store:
        store.append([ITERATION])
        store.append_evaluation(evaluation, "code")
        assert list(store.history()) == [ITERATION, evaluation]
        assert store.code(evaluation.digest) == "code"
        assert store.spent() == (max(evaluation.seconds, ITERATION.seconds), 1)


def test_the_code_of_contenders_is_kept(tmp_path: Path) -> None:
    result = run(tmp_path, evaluations=30)
    with Store.open(tmp_path) as store:
        assert len(result.finalists) == Options().contenders
        for finalist in result.finalists:
            assert store.code(finalist.digest) == finalist.code
        assert store.code("unknown") is None


def test_what_was_spent_is_what_the_run_counted(tmp_path: Path) -> None:
    result = run(tmp_path, evaluations=30)
    assert result.progress.duplicates > 0
    with Store.open(tmp_path, read_only=True) as store:
        seconds, evaluations = store.spent()
    assert evaluations == result.progress.evaluations == 30
    assert seconds == result.progress.seconds


WALKED, DRAWN = 20, 60
"""Evaluations of runs whose implementations are the ends of walks by estimates, which take longer, and of
others.
"""


@pytest.fixture(scope="module")
def in_one(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, bool], tuple[Result, Path]]:
    """By the evaluations that it has, and whether it walks: a run in one go, and its folder."""

    @cache
    def made(evaluations: int, is_walking: bool) -> tuple[Result, Path]:
        folder = tmp_path_factory.mktemp("runs") / "whole"
        return run(folder, evaluations=evaluations, processes=int(is_walking)), folder

    return made


@pytest.mark.parametrize("processes", [0, 1, 2])
@pytest.mark.parametrize("parts", [(1, 2), (17,), (-1,), (0,)])
def test_a_run_in_parts_is_the_run_in_one(
    in_one: Callable[[int, bool], tuple[Result, Path]],
    tmp_path: Path,
    parts: tuple[int, ...],
    processes: int,
) -> None:
    """Where there are processes, implementations are the ends of walks. Parts that are not positive count
    from the end.
    """
    most = WALKED if processes else DRAWN
    whole, folder = in_one(most, processes > 0)
    for evaluations in (*(part if part > 0 else most + part for part in parts), most):
        result = run(tmp_path / "parts", evaluations=evaluations, processes=processes)
        assert result.progress.evaluations == evaluations
    assert recorded(tmp_path / "parts") == recorded(folder)
    assert found(result) == found(whole)
    assert replace(result.progress, seconds=0) == replace(whole.progress, seconds=0)
    assert [t.digest for t in result.trials] == [t.digest for t in whole.trials]


def test_a_run_goes_on_from_what_was_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (climbs, state):
        monkeypatch.setattr(module, "DOUBT", 5)
    whole = run(tmp_path / "whole")
    with Store.open(tmp_path / "whole", read_only=True) as store:
        happened = list(store.history())
    assert sum(isinstance(each, Comparison) for each in happened[:-1]) > 2
    run(tmp_path / "parts", evaluations=31)
    assert found(run(tmp_path / "parts")) == found(whole)
    assert recorded(tmp_path / "parts") == recorded(tmp_path / "whole")


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("lines", [1, 23])
def test_a_run_killed_at_any_moment_goes_on_as_if_nothing_had_happened(
    in_one: Callable[[int, bool], tuple[Result, Path]], tmp_path: Path, lines: int, processes: int
) -> None:
    _, folder = in_one(DRAWN, processes > 0)
    killed = subprocess.Popen(
        [sys.executable, "-m", "tests.search.long_run", str(tmp_path / "killed"), str(processes)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert killed.stdout is not None
    seen = [int(line) for line in itertools.islice(killed.stdout, lines)]
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    survived = recorded(tmp_path / "killed")
    # Whatever was announced had been committed.
    assert seen[-1] <= len(survived) < len(recorded(folder))
    result = run(tmp_path / "killed", processes=processes)
    assert result.stop is Stop.BUDGET
    assert recorded(tmp_path / "killed") == recorded(folder)


def test_a_contender_that_failed_in_the_last_comparison_stays_failed_when_the_run_goes_on(
    tmp_path: Path,
) -> None:
    first = run(tmp_path, evaluations=30)
    best = first.finalists[0].digest
    with Store.open(tmp_path) as store:
        store.append_comparison(Comparison({best: Outcome(None, Failure.WRONG_RESULT, "C differs")}))
    again = run(tmp_path, evaluations=30)
    assert again.progress.evaluations == first.progress.evaluations
    assert again.progress.valid == first.progress.valid - 1
    assert again.progress.failures[Failure.WRONG_RESULT].first_message == "C differs"
    assert best not in [finalist.digest for finalist in again.finalists]
    assert again.finalists[0].digest == first.finalists[1].digest


def test_history_is_read_back_in_its_order(tmp_path: Path) -> None:
    """A batch of two, of which one is measured after a comparison; then another iteration."""
    early = Comparison(
        {"b": Outcome(Timing(3.0, 2.0, 4.0, 7)), "a": Outcome(None, Failure.CRASH, "signal 11")}
    )
    late = Comparison({"a": Outcome(Timing(0.1 + 0.2, 0.1, 1e9 / 3, 5))})
    with Store.create(tmp_path, ABOUT) as store:
        other, last = replace(EVALUATION, digest="other"), replace(ITERATION, evaluations=2)
        store.append([ITERATION, ITERATION])
        store.append_evaluation(EVALUATION)
        store.append_comparison(early)
        store.append_comparison(late)
        store.append_evaluation(other)
        store.append([last])
        store.append_comparison(late)
        store.append_comparison(Comparison({}))
        history = [ITERATION, ITERATION, EVALUATION, early, late, other, last, late, Comparison({})]
        assert list(store.history()) == history


def test_the_times_of_the_last_comparison_are_those_of_the_run_from_then_on(tmp_path: Path) -> None:
    run(tmp_path, evaluations=30, drift=1.5)
    with Store.open(tmp_path, read_only=True) as store:
        *_, compared = store.history()
    assert isinstance(compared, Comparison)
    again = run(tmp_path, evaluations=30, is_compared=False)
    times = {f.digest: f.timing for f in again.finalists}
    assert len(times) == Options().contenders
    assert {digest: outcome.timing for digest, outcome in compared.outcomes.items()} == times
    assert {t.digest: t.outcome.timing for t in again.trials if t.digest in times} == times


def test_a_budget_is_kept(tmp_path: Path) -> None:
    Store.create(tmp_path, ABOUT).close()
    with Store.open(tmp_path) as store:
        store.plan(7.5, None)
    with Store.open(tmp_path) as store:
        assert store.about() == replace(ABOUT, seconds=7.5, evaluations=None)


def test_two_processes_do_not_write_to_one_run(tmp_path: Path) -> None:
    with Store.create(tmp_path, ABOUT) as store:
        with pytest.raises(StoreError, match="another process"):
            Store.open(tmp_path)
        store.append([ITERATION])
        with Store.open(tmp_path, read_only=True) as reader:
            assert len(list(reader.iterations())) == 1
    Store.open(tmp_path).close()


def test_a_run_is_not_begun_twice(tmp_path: Path) -> None:
    Store.create(tmp_path, ABOUT).close()
    with pytest.raises(StoreError, match="already holds a run"):
        Store.create(tmp_path, ABOUT)
    Store.open(tmp_path).close()


def test_what_is_no_run_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no run"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="holds no run"):
        Store.open(tmp_path / "nowhere")
    (tmp_path / DATABASE).write_text("this is no database, however long the text may be " * 100)
    with pytest.raises(StoreError, match="not readable"):
        Store.open(tmp_path)
    (tmp_path / DATABASE).unlink()
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="format 99"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE about",
        "DROP TABLE iteration",
        "DELETE FROM about WHERE key = 'seed'",
        "UPDATE about SET value = '{' WHERE key = 'seed'",
        "INSERT INTO about VALUES ('more', '1')",
        "UPDATE iteration SET expansion = '[' WHERE number = 2",
        "UPDATE evaluation SET failure = 'tired' WHERE number = 2",
        "UPDATE evaluation SET digest = 'another' WHERE number = 2",
        "DELETE FROM evaluation WHERE number = 1",
        "DROP TABLE evaluation",
        "UPDATE iteration SET path = '[77]' WHERE number = 2",
        "DELETE FROM iteration WHERE number = 1",
        "DROP TABLE comparison",
        "UPDATE comparison SET failure = 'tired', time_ns = NULL",
        "UPDATE comparison SET iterations = 99",
    ],
)
def test_a_damaged_record_is_refused_wherever_the_damage_is(tmp_path: Path, damage: str) -> None:
    run(tmp_path, evaluations=5)
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute(damage)
    connection.close()

    def read() -> None:
        with Store.open(tmp_path) as store:
            assert store.about()
        run(tmp_path, evaluations=6)

    with pytest.raises(DamagedError, match=str(tmp_path)):
        read()


@pytest.mark.parametrize(
    ("table", "read"),
    [
        ("evaluation", lambda store: store.spent()),
        ("iteration", lambda store: store.spent()),
        ("code", lambda store: store.code("0")),
    ],
)
def test_what_is_read_by_itself_is_refused_as_well(
    tmp_path: Path, table: str, read: Callable[[Store], object]
) -> None:
    run(tmp_path, evaluations=5)
    with Store.open(tmp_path) as store:
        store._connection.execute(f"DROP TABLE {table}")
        with pytest.raises(DamagedError, match=str(tmp_path)):
            read(store)


def test_a_record_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    run(tmp_path, evaluations=30)
    with Store.open(tmp_path) as store:
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (tmp_path / DATABASE).open("r+b") as file:
        file.truncate(3 * 4096)
    with pytest.raises(DamagedError, match="not readable"):
        run(tmp_path, evaluations=31)


def test_runs_of_one_second_lie_in_folders_of_their_own(tmp_path: Path) -> None:
    now = datetime(2030, 1, 2, 3, 4, 5)
    names = [new_folder(tmp_path / "runs", "matmul", now).name for _ in range(3)]
    assert names == ["matmul-20300102-030405", "matmul-20300102-030405-2", "matmul-20300102-030405-3"]


def test_a_link_to_what_is_not_there_holds_no_runs(tmp_path: Path) -> None:
    link = tmp_path / "runs"
    link.symlink_to(tmp_path / "unmounted")
    with pytest.raises(StoreError, match=f"{link}: a link to {tmp_path}/unmounted, which is not there"):
        check_parent(link / "mine")
    with pytest.raises(FileExistsError):
        new_folder(link, "matmul", datetime(2030, 1, 2, 3, 4, 5))


def test_a_full_disk_is_said_with_the_name_of_the_file_and_what_was_committed_stays(tmp_path: Path) -> None:
    with Store.create(tmp_path, ABOUT) as store:
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        committed = 0
        with pytest.raises(OSError, match="No space left on device") as caught:
            for number in range(100):
                store.append_evaluation(replace(EVALUATION, digest=str(number)), "x" * 2000)
                committed += 1
        assert caught.value.filename == str(tmp_path / DATABASE)
        assert len(list(store.history())) == committed > 0
    assert len(recorded(tmp_path)) == committed


def test_a_record_with_a_header_of_noise_is_refused(tmp_path: Path) -> None:
    run(tmp_path, evaluations=2)
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with (tmp_path / DATABASE).open("r+b") as file:
        file.seek(100)
        file.write(bytes(range(256)) * 16)
    with pytest.raises(DamagedError, match=str(tmp_path)), Store.open(tmp_path) as store:
        store.about()


def test_who_reads_beside_a_writer_reads_what_was_there_at_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two of the tables that it reads, the writer goes on."""
    with Store.create(tmp_path, ABOUT) as writer:
        writer.append([ITERATION])
        writer.append_evaluation(EVALUATION)
        read = Store._comparisons

        def late(self: Store) -> dict[tuple[int, int], list[Comparison]]:
            other = replace(EVALUATION, digest="other")
            writer.append_evaluation(other)
            writer.append_comparison(Comparison({"other": other.outcome}))
            return read(self)

        monkeypatch.setattr(Store, "_comparisons", late)
        with Store.open(tmp_path, read_only=True) as reader:
            assert list(reader.history()) == [ITERATION, EVALUATION]
        monkeypatch.undo()
        with Store.open(tmp_path, read_only=True) as reader:
            assert len(list(reader.history())) == 4


_READING = """
import os, sys
from pathlib import Path
from spacedsl.search.store import Store
os.setuid(65534)
with Store.open(Path(sys.argv[1]), read_only=True) as store:
    print(len(list(store.history())))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can be somebody else")
def test_a_record_can_be_read_where_nothing_may_be_written() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        with Store.create(folder, ABOUT) as store:
            store.append([ITERATION])
        folder.chmod(0o555)
        found = subprocess.run(
            [sys.executable, "-c", _READING, folder], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (found.returncode, found.stdout) == (0, "1\n"), found.stderr

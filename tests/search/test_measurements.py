"""What another machine measured lies beside a run and changes nothing of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spacedsl.engine.decision import Decision
from spacedsl.kernels.evaluation import Failure, Outcome, Timing
from spacedsl.search.measurements import Measurement, fastest_first
from spacedsl.search.restoring import implementations
from spacedsl.search.store import Store
from tests.search.long_run import bound, instance, run

RIGHT = Measurement(
    "abc",
    "H200",
    Outcome(Timing(1e6 / 3, 1e6 / 7, 1e7 / 9, 11)),
    12.5,
    (Decision("size", ("mul.i0",), (4, 8)), Decision("kind", ("mul.i0", "mul.i1"), ("LOOP",))),
)
WRONG = replace(RIGHT, digest="abd", outcome=Outcome(None, Failure.CRASH, "gone"), decisions=())


def test_what_is_read_is_what_was_written_and_the_last_word_on_a_program_counts(tmp_path: Path) -> None:
    run(tmp_path, evaluations=5)
    with Store.open(tmp_path) as store:
        store.append_measurements([RIGHT, WRONG], {"abc": "code"})
        assert store.measurements() == [RIGHT, WRONG]
        assert store.code("abc") == "code"
        later = replace(WRONG, outcome=Outcome(Timing(9.0, 8.0, 10.0, 3)))
        store.append_measurements([later], {})
        assert sorted(store.measurements(), key=lambda m: m.digest) == [RIGHT, later]
        assert fastest_first(store.measurements()) == [later, RIGHT]


def test_a_run_goes_on_as_if_nothing_had_been_measured(tmp_path: Path) -> None:
    run(tmp_path / "plain", evaluations=20)
    run(tmp_path / "measured", evaluations=20)
    with Store.open(tmp_path / "measured") as store:
        slow = Timing(1e9, 1e9, 1e9, 5)
        store.append_measurements(
            [replace(RIGHT, digest=d, outcome=Outcome(slow)) for d in store.digests()], {}
        )
    plain, measured = (run(tmp_path / name, evaluations=40) for name in ("plain", "measured"))
    assert [(t.digest, t.outcome) for t in plain.trials] == [(t.digest, t.outcome) for t in measured.trials]


def test_the_implementations_of_a_record_are_those_of_the_search_fastest_first(tmp_path: Path) -> None:
    found = run(tmp_path, evaluations=40)
    toy = instance()
    root = toy.root()
    assert root is not None
    with Store.open(tmp_path, read_only=True) as store:
        listed = implementations(toy, root, bound(toy, 0.4), store)
        times = [contender.timing.time_ns for contender in listed]
        assert times == sorted(times)
        assert {c.digest for c in listed} == {t.digest for t in found.trials if t.outcome.is_valid}
        assert listed[0].timing.time_ns == found.finalists[0].timing.time_ns

"""The soak of implementations for GPUs goes on where it ended, and loses nothing on the way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.codegen.cuda.soak import COUNT, Record, Soak, ended, started
from tests.codegen.cuda.soak_batch import Batch, Failed, Found


def record_of(
    path: Path, passed: dict[tuple[str, int], int], failed: tuple[str, int] | None = None
) -> Record:
    """Read from a file that another one has written."""
    before = Record(path)
    for (kernel, seed), count in passed.items():
        wrong = [Failed(3, "race", "thread 1 writes", "__global__")] if failed == (kernel, seed) else []
        before.add(Batch(kernel, seed, COUNT), Found(Counter(passed=count, failed=len(wrong)), wrong))
    after = Record(path)
    after.load()
    assert after.found == before.found
    return after


def test_the_kernel_of_which_the_fewest_have_passed_is_next(tmp_path: Path) -> None:
    record = record_of(tmp_path / "r.jsonl", {("dot", 0): 20, ("dot", 1): 20, ("ger", 0): 7, ("ger", 2): 8})
    soak = Soak(record, ["dot", "ger"], 30)
    assert soak.next_batch() == Batch("ger", 1, COUNT)
    soak.record.add(Batch("ger", 1, COUNT), Found(Counter(passed=20)))
    assert soak.next_batch() is None


def test_what_failed_before_is_tried_first(tmp_path: Path) -> None:
    record = record_of(tmp_path / "r.jsonl", {("dot", 0): 20, ("dot", 1): 19}, failed=("dot", 1))
    assert Soak(record, ["dot"], 300).next_batch() == Batch("dot", 1, COUNT)
    assert "failed: race" in record.table(["dot"])
    record.add(Batch("dot", 1, COUNT), Found(Counter(passed=20)))
    assert Soak(record, ["dot"], 300).next_batch() == Batch("dot", 2, COUNT)
    assert record.total()["passed"] == 40


def test_a_batch_that_cannot_be_is_a_failure() -> None:
    running = started(Batch("no such kernel", 0, 1))
    while (found := ended(running)) is None:
        pass
    assert [failed.cause for failed in found.failed] == ["lost"]

"""Soaks go on where they ended, and lose nothing on the way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.codegen.soaks import Batch, Failed, Found, Record, Soak, ended, parser, soak, started

TOGETHER = 20


def examined(batch: Batch) -> Found:
    """All pass, but the second one of `ger`'s batch 1."""
    wrong = (
        [Failed(1, "wrong", "is 3\nwas 4", "int x;\n")] if (batch.kernel, batch.seed) == ("ger", 1) else []
    )
    return Found(Counter(drawn=batch.count, passed=batch.count - len(wrong), failed=len(wrong)), wrong)


def broken(batch: Batch) -> Found:
    raise ValueError(batch.kernel)


def soak_of(record: Record, kernels: list[str], wanted: int) -> Soak:
    return Soak(record, kernels, wanted, TOGETHER, examined)


def record_of(
    path: Path, passed: dict[tuple[str, int], int], failed: tuple[str, int] | None = None
) -> Record:
    """Read from a file that another one has written."""
    before = Record(path)
    for (kernel, seed), count in passed.items():
        wrong = [Failed(3, "race", "thread 1 writes", "__global__")] if failed == (kernel, seed) else []
        before.add(Batch(kernel, seed, TOGETHER), Found(Counter(passed=count, failed=len(wrong)), wrong))
    after = Record(path)
    after.load()
    assert after.found == before.found
    return after


def test_the_kernel_of_which_the_fewest_have_passed_is_next(tmp_path: Path) -> None:
    record = record_of(tmp_path / "r.jsonl", {("dot", 0): 20, ("dot", 1): 20, ("ger", 0): 7, ("ger", 2): 8})
    some = soak_of(record, ["dot", "ger"], 30)
    assert some.next_batch() == Batch("ger", 1, TOGETHER)
    some.record.add(Batch("ger", 1, TOGETHER), Found(Counter(passed=20)))
    assert some.next_batch() is None


def test_what_failed_before_is_tried_first(tmp_path: Path) -> None:
    record = record_of(tmp_path / "r.jsonl", {("dot", 0): 20, ("dot", 1): 19}, failed=("dot", 1))
    assert soak_of(record, ["dot"], 300).next_batch() == Batch("dot", 1, TOGETHER)
    assert "failed: race" in record.table(["dot"], ["passed"])
    record.add(Batch("dot", 1, TOGETHER), Found(Counter(passed=20)))
    assert soak_of(record, ["dot"], 300).next_batch() == Batch("dot", 2, TOGETHER)
    assert record.total()["passed"] == 40


def test_a_batch_that_cannot_be_is_a_failure() -> None:
    running = started(Batch("dot", 0, 1), broken)
    while (found := ended(running)) is None:
        pass
    ((cause, message),) = [(failed.cause, failed.message) for failed in found.failed]
    assert cause == "lost" and "ValueError: dot" in message


def test_a_soak_says_what_failed_and_keeps_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = str(tmp_path / "r.jsonl")

    def outcome(*arguments: str) -> int:
        asked = parser("make soak", "", ["dot", "ger"], wanted=40)
        options = asked.parse_args(["--seconds", "100", "--record", record, *arguments])
        return soak(options, examined, record="", columns=("drawn", "passed", "failed"), together=TOGETHER)

    assert outcome("--first", "1") == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.split() for line in said[-3:-1]] == [["ger", "60", "59", "1"], ["all", "100", "99", "1"]]
    kept = (tmp_path / "ger-1-1.c").read_text(encoding="utf-8")
    assert kept == "// --replay ger:1\n// number 1: wrong\n// is 3\n// was 4\nint x;\n"
    assert outcome("--kernels", "dot") == 0 and outcome("--replay", "dot:7") == 0
    assert outcome("--replay", "ger:1") == 1
    assert capsys.readouterr().out.endswith("number 1, wrong: is 3\nwas 4\n")

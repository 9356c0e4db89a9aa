"""A space that lacks a rule: what the check catches is said, kept, and reproduced by the printed command."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import spacedsl
from spacedsl import api
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.kernels.evaluation import Failure, Outcome
from spacedsl.search.state import KEPT_DEFECTS
from tests.cli.conftest import ROOT, Run
from tests.cli.running import run
from tests.rules import rules_of

MATMUL = ROOT / "kernels" / "library" / "matmul.yaml"
SOUND = ROOT / "kernels" / "spaces" / "linalg.space"
WEAKENED = {
    # An initialiser comes before the loops of its reduction, and is not repeated in them.
    "order($init, $dim) is BEFORE\n": "order($init, $dim) is not MERGED\n",
    'where "$dim.group not in $inst.added_levels":\n  order($inst, $dim) is not INNER\n': (
        'where "$dim.group not in $inst.added_levels":\n  order($inst, $dim) is not MERGED\n'
    ),
    'is_parted":\n        forall $dim in LevelDims($level):\n  order($inst, $dim) is not INNER\n': (
        'is_parted":\n        forall $dim in LevelDims($level):\n  order($inst, $dim) is not MERGED\n'
    ),
}


@pytest.fixture(scope="module")
def unsound(machine: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A sum of 16 products, which may be started from anywhere."""
    folder = tmp_path_factory.mktemp("unsound")
    rules = rules_of(SOUND)
    for rule, weaker in WEAKENED.items():
        assert rules.count(rule) == 1
        rules = rules.replace(rule, weaker)
    space = folder / "unsound.space"
    space.write_text(rules, "utf-8")
    flags = ("--size", "m=1,n=1,k=16", "--space", space, "--policy", "uniform", "--seed", 2, "-n", 40)
    ran = run("explore", MATMUL, *flags, "--runs", folder / "runs", "--json")
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    return Run(Path(document["run"]), document, ran.err)


def records(unsound: Run, kind: str) -> list[Path]:
    return [Path(d["record"]) for d in unsound.document["defects"] if d["class"] == kind]


def edited(record: Path, to: Path, **changes: Any) -> Path:
    to.write_text(json.dumps({**json.loads(record.read_text("utf-8")), **changes}), "utf-8")
    return to


def test_a_data_dependence_that_was_removed_gives_candidates_that_the_check_catches(unsound: Run) -> None:
    document = unsound.document
    assert {"wrong_result", "lowering"} <= document["failures"].keys()
    kept = Counter(defect["class"] for defect in document["defects"])
    assert kept == {name: min(count, KEPT_DEFECTS) for name, count in document["failures"].items()}
    assert document["best"]["verified"] is True
    for kind, said in (("wrong_result", "WRONG (wrong_result): "), ("lowering", "WRONG (lowering): ")):
        assert unsound.err.count(said) == kept[kind]
        for path in records(unsound, kind):
            assert f"reproduce: spacedsl replay {path}\n" in unsound.err
            record = json.loads(path.read_text("utf-8"))
            assert record["verified"] is False
            assert record["failure"] == kind
            assert record["message"]
            assert "time_ns" not in record
            assert (record["code"]["digest"] is None) == (kind == "lowering")
    assert sorted(unsound.folder.glob("wrong-*")) == sorted(Path(d["record"]) for d in document["defects"])


@pytest.mark.parametrize("kind", ["wrong_result", "lowering"])
def test_a_replay_reproduces_what_was_caught(unsound: Run, kind: str) -> None:
    ran = run("replay", records(unsound, kind)[0])
    assert ran.code == 4
    assert f"failed     {kind}: " in ran.out
    assert f"reproduced: {kind}; the space or the code generator is wrong" in ran.out
    document = json.loads(run("replay", records(unsound, kind)[-1], "--json").out)
    assert document["reproduced"] is True
    assert document["identical"] is True
    assert document["failure"]["class"] == document["recorded_failure"]["class"] == kind
    assert document["recorded_time_ns"] is None


@pytest.mark.parametrize("kind", ["wrong_result", "lowering"])
def test_once_the_space_is_mended_nothing_is_reproduced(unsound: Run, kind: str, tmp_path: Path) -> None:
    space = {"path": str(SOUND), "digest": "0" * 64}
    mended = edited(records(unsound, kind)[0], tmp_path / "wrong.json", space=space)
    ran = run("replay", mended)
    assert ran.code == 0, ran
    assert "refused    " in ran.out
    assert f"not possible in {SOUND} of today" in ran.out
    assert f"NOT reproduced: it was {kind}: " in ran.out


def test_an_implementation_that_is_right_after_all_is_not_reproduced(
    unsound: Run, explored: Run, tmp_path: Path
) -> None:
    right = {k: v for k, v in json.loads(explored.best.read_text("utf-8")).items() if "_ns" not in k}
    del right["samples"], right["measured_on"]
    failed = edited(
        records(unsound, "wrong_result")[0], tmp_path / "wrong.json", **{**right, "verified": False}
    )
    ran = run("replay", failed)
    assert ran.code == 0, ran
    assert "checked    equal to the reference" in ran.out
    assert "NOT reproduced: it was wrong_result" in ran.out


def test_what_fails_only_where_finalists_are_checked_is_reproduced(
    unsound: Run, explored: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As races of threads of a GPU do."""
    right = {k: v for k, v in json.loads(explored.best.read_text("utf-8")).items() if "_ns" not in k}
    del right["samples"], right["measured_on"]
    failed = edited(
        records(unsound, "wrong_result")[0], tmp_path / "wrong.json", **{**right, "verified": False}
    )
    wrong = Outcome(None, Failure.WRONG_RESULT, "C[0, 0] is wrong")
    monkeypatch.setattr(CpuEvaluator, "compare", lambda self, contenders: [wrong for _ in contenders])
    ran = run("replay", failed)
    assert ran.code == 4, ran
    assert "reproduced: wrong_result" in ran.out


def test_a_wrong_implementation_can_be_read_but_not_used(unsound: Run) -> None:
    wrong, no_code = records(unsound, "wrong_result")[0], records(unsound, "lowering")[0]
    with pytest.raises(api.UnverifiedError, match=r"wrong_result.*spacedsl replay"):
        spacedsl.load(wrong)
    assert "void matmul(" in run("emit", wrong).out
    ran = run("emit", no_code)
    assert ran.code == 1
    assert "no code can be made of its decisions" in ran.err


def test_the_summary_of_a_resumed_run_has_the_commands_of_all_its_parts(unsound: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unsound.folder, folder, ignore=shutil.ignore_patterns("wrong-*"))
    ran = run("resume", folder)
    assert ran.code == 0, ran.err
    assert "the space or the code generator is wrong" in ran.out
    names = {Path(d["record"]).name for d in unsound.document["defects"]}
    assert {path.name for path in folder.glob("wrong-*")} == names
    for name in names:
        assert f"reproduce  spacedsl replay {folder / name}" in ran.out
    more = sum(unsound.document["failures"].values()) - len(names)
    assert f"{more} more are counted only" in ran.out


@pytest.mark.parametrize("change", [{"time_ns": 1.0}, {"verified": True}, {"failure": "tired"}])
def test_a_record_is_of_a_failure_or_of_a_measurement_and_never_of_both(
    unsound: Run, tmp_path: Path, change: dict[str, object]
) -> None:
    both = edited(records(unsound, "wrong_result")[0], tmp_path / "both.json", **change)
    ran = run("replay", both)
    assert ran.code == 1
    assert "this record is damaged" in ran.err


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({}, "space, generator, compiler and flags are as they were, so the record itself has been changed"),
        ({"generator": "0" * 64}, "the code generator has changed since"),
        ({"generator": "0" * 64, "compiler": "cc 1.0"}, "the code generator and the compiler have changed"),
    ],
)
def test_a_replay_whose_code_is_another_says_why_and_does_not_pass(
    explored: Run, tmp_path: Path, change: dict[str, str], cause: str
) -> None:
    code = json.loads(explored.best.read_text("utf-8"))["code"]
    other = edited(explored.best, tmp_path / "other.json", code={**code, "digest": "1" * 64, **change})
    ran = run("replay", other)
    assert ran.code == 1
    assert "NOT the recorded code" in ran.out
    assert "checked    equal to the reference" in ran.out
    assert f"the code is not the recorded one: {cause}" in ran.err

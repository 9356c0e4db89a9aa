"""A run from its first evaluation to the call of its result, through the command line and through Python."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import spacedsl
from spacedsl import api
from spacedsl.api import problem
from spacedsl.api.problem import generator_digest, searched_by
from spacedsl.cli import live
from spacedsl.cli.live import Board
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.machine import processor
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome
from spacedsl.search.events import Evaluated, NewBest, Started
from tests.cli.conftest import ROOT, SMALL, Run
from tests.cli.running import run

MATMUL = ROOT / "kernels" / "library" / "matmul.yaml"
KEYS = {
    "schema", "kernel", "target", "device", "seed", "evaluations", "valid", "failures", "remarks", "best",
    "root_bound_ns", "defects", "bound_violations", "search_s", "run",
}  # fmt: skip


def spacedsl_process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from spacedsl.cli.app import main; main()", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_document_of_a_run_has_the_agreed_keys(explored: Run) -> None:
    document = explored.document
    assert set(document) == KEYS
    assert (document["schema"], document["kernel"], document["target"], document["seed"]) == (
        1,
        "matmul",
        "cpu",
        5,
    )
    assert document["evaluations"] == document["valid"] + sum(document["failures"].values()) == 3
    best = document["best"]
    assert set(best) == {
        "time_ns", "time_ci_ns", "is_predicted", "measured_on", "bound_ns", "code", "decisions", "verified"
    }  # fmt: skip
    assert best["is_predicted"] is False
    assert best["time_ci_ns"][0] <= best["time_ns"] <= best["time_ci_ns"][1]
    assert 0 < document["root_bound_ns"] <= best["bound_ns"]
    assert best["verified"] is True
    assert Path(best["code"]) == explored.folder / "best.c"
    assert Path(best["decisions"]) == explored.best


def test_progress_goes_to_stderr_as_plain_lines(explored: Run) -> None:
    assert "new best" in explored.err
    assert "\x1b" not in explored.err


def test_a_replay_rebuilds_the_same_code_and_measures_it_again(explored: Run) -> None:
    ran = run("replay", explored.best, "--json")
    document = json.loads(ran.out)
    assert ran.code == 0
    assert document["identical"] is True
    assert document["verified"] is True
    assert document["changes"] == []
    assert document["time_ns"] > 0
    assert document["code_sha256"] == hashlib.sha256((explored.folder / "best.c").read_bytes()).hexdigest()
    assert "identical to the recorded code" in run("replay", explored.best).out


def test_only_pipelines_have_schedules_for_halide(explored: Run) -> None:
    ran = run("emit", explored.best, "--target", "halide")
    assert (ran.code, "only pipelines have schedules for Halide" in ran.err) == (2, True)


def test_emit_prints_the_code_of_the_run(explored: Run, tmp_path: Path) -> None:
    code = (explored.folder / "best.c").read_text()
    assert run("emit", explored.best).out == code
    assert run("emit", explored.best, "-o", tmp_path / "again.c").code == 0
    assert (tmp_path / "again.c").read_text() == code


def test_the_result_is_a_function_on_arrays(explored: Run) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (8, 4)).astype(np.float32), rng.integers(-4, 5, (4, 16)).astype(np.float32)
    matmul = spacedsl.load(explored.best)
    np.testing.assert_array_equal(matmul(a, b), a @ b)
    c = np.full((8, 16), np.nan, np.float32)
    assert matmul(a, b, out=c) is c
    np.testing.assert_array_equal(c, a @ b)


def test_the_code_is_usable_from_c_with_its_header(explored: Run, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(
        '#include "best.h"\n'
        "int main(void) {\n"
        "  float a[32], b[64], c[128];\n"
        "  for (int i = 0; i < 32; ++i) a[i] = 1;\n"
        "  for (int i = 0; i < 64; ++i) b[i] = 2;\n"
        "  matmul(a, b, c);\n"
        "  for (int i = 0; i < 128; ++i) if (c[i] != 8) return 1;\n"
        "  return 0;\n"
        "}\n"
    )
    from spacedsl.codegen.c.build import find_compiler

    flags = ["-O2", "-march=native", "-std=c11", "-ffp-contract=fast", "-pthread", "-Wall", "-Werror"]
    sources = [str(tmp_path / "main.c"), str(explored.folder / "best.c"), f"-I{explored.folder}"]
    program = str(tmp_path / "program")
    subprocess.run([*find_compiler().command, *flags, *sources, "-o", program], check=True)
    assert subprocess.run([program], check=False).returncode == 0


def test_a_run_whose_space_has_changed_is_not_resumed(machine: Path, tmp_path: Path) -> None:
    space = tmp_path / "own.space"
    space.write_text(f'include "{ROOT / "kernels" / "spaces" / "linalg.space"}"\n')
    ran = run("explore", MATMUL, *SMALL, "--space", space, "-n", 1, "--runs", tmp_path / "runs", "--json")
    folder = json.loads(ran.out)["run"]
    space.write_text(space.read_text() + "// another text\n")
    ran = run("resume", folder)
    assert ran.code == 1
    assert "has changed since" in ran.err
    # A record is judged by its decisions, which are as possible as before.
    replayed = json.loads(run("replay", Path(folder) / "best.json", "--json").out)
    assert replayed["identical"] is True
    assert replayed["changes"] == [f"the space {space}"]


def test_whatever_c_is_printed_from_is_part_of_the_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("codegen", "kernels"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.setattr(problem, "_PACKAGE", tmp_path)
    files = [tmp_path / "codegen" / "c" / "printer.py", *(tmp_path / "codegen" / "c" / "runtime").iterdir()]
    digests = {generator_digest()}
    for file in files:
        file.write_bytes(file.read_bytes() + b"\n")
        digests.add(generator_digest())
    assert len(digests) == 1 + len(files)


def test_whatever_steps_depend_on_tells_searches_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = ROOT / "spacedsl"
    for folder in ("language", "compiler", "engine", "search"):
        shutil.copytree(package / folder, tmp_path / folder)
    monkeypatch.setattr(problem, "_PACKAGE", tmp_path)
    files = ("engine/layout.py", "compiler/c/propagation.h", "search/bounds/bound.c", "language/orderings.py")
    versions = {searched_by()}
    for name in files:
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b"\n")
        versions.add(searched_by())
    assert len(versions) == 1 + len(files)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("compiler", "cc 1.0", "was measured with cc 1.0"),
        ("version", "0.0.1+0123", "was searched by spacedsl 0.0.1+0123, and this is"),
    ],
)
def test_a_run_of_another_program_is_not_resumed(
    key: str, value: str, said: str, explored: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(explored.folder, folder)
    with sqlite3.connect(folder / "run.sqlite") as connection:
        connection.execute("UPDATE about SET value = ? WHERE key = ?", (json.dumps(value), key))
    connection.close()
    ran = run("resume", folder)
    assert ran.code == 1
    assert said in ran.err


def with_about(folder: Path, **changes: object) -> Path:
    with sqlite3.connect(folder / "run.sqlite") as connection:
        for key, value in changes.items():
            connection.execute("UPDATE about SET value = ? WHERE key = ?", (json.dumps(value), key))
    connection.close()
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"processor_digest": "0", "processor": "A 1000"}, "was measured on A 1000, and this is "),
        ({"processor_digest": "0"}, "with other features: explore anew"),
        ({"cpus": list(range(1000))}, "was measured on 1000 CPUs, and "),
    ],
)
def test_a_run_of_another_machine_is_not_resumed(
    explored: Run, tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    if changes == {"processor_digest": "0"}:
        changes["processor"] = processor.model_name()
    folder = with_about(shutil.copytree(explored.folder, tmp_path / "run"), **changes)
    ran = run("resume", folder)
    assert ran.code == 1
    assert said in ran.err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy": "luck"}, "went by a policy `luck`, which there is not"),
        ({"target": "abacus"}, "it is for a target `abacus`, which there is not"),
        ({"device": {}}, "its `device` is no description of a machine: "),
    ],
)
def test_a_run_of_what_there_is_not_is_not_resumed(
    explored: Run, tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    folder = with_about(shutil.copytree(explored.folder, tmp_path / "run"), **changes)
    ran = run("resume", folder)
    assert ran.code == 1
    assert said in ran.err


@pytest.mark.parametrize("state", ["{", "{}", "[1]"])
def test_a_random_state_that_is_none_is_damage(explored: Run, tmp_path: Path, state: str) -> None:
    folder = shutil.copytree(explored.folder, tmp_path / "run")
    with sqlite3.connect(folder / "run.sqlite") as connection:
        connection.execute("UPDATE iteration SET random_state = ?", (state,))
    connection.close()
    ran = run("resume", folder, "-n", 1)
    assert ran.code == 1
    assert "is damaged: a random state is none" in ran.err


def test_a_run_whose_budget_is_spent_and_one_of_other_cpus_of_this_processor_say_so(
    explored: Run, tmp_path: Path
) -> None:
    cpus = [cpu + 1000 for cpu in processor.usable_cpus()]
    folder = with_about(shutil.copytree(explored.folder, tmp_path / "run"), cpus=cpus)
    ran = run("resume", folder)
    assert ran.code == 0
    assert f"warning: run was measured on the CPUs {','.join(map(str, cpus))}, and goes on with " in ran.err
    assert "3 evaluations" in ran.out
    assert "--time or --evaluations give it more" in ran.err


def test_a_run_goes_on_where_it_stood_with_the_budget_that_was_added_before_an_interruption(
    explored: Run, tmp_path: Path
) -> None:
    folder = shutil.copytree(explored.folder, tmp_path / "run")

    def watch(event: api.Activity) -> None:
        if isinstance(event, Evaluated) and not event.is_duplicate:
            os.kill(os.getpid(), signal.SIGINT)

    assert api.resume(folder, evaluations=2, on_event=watch).stop is api.Stop.INTERRUPTED
    ran = run("resume", folder, "--json")
    document = json.loads(ran.out)
    assert ran.code == 0
    assert document["evaluations"] == explored.document["evaluations"] + 2 == 5
    assert document["seed"] == 5
    assert document["search_s"] > explored.document["search_s"]


def test_an_interrupted_run_is_saved_and_says_how_to_go_on(machine: Path, tmp_path: Path) -> None:
    with spacedsl_process("explore", MATMUL, *SMALL, "--runs", tmp_path, "--json") as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "new best" in line)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert f"spacedsl resume {document['run']}" in err
    assert json.loads(Path(document["best"]["decisions"]).read_text())["decisions"]
    ran = run("resume", document["run"], "--evaluations", 1, "--json")
    assert json.loads(ran.out)["evaluations"] == document["evaluations"] + 1


def test_an_interruption_is_shown_before_the_evaluation_in_progress_ends(
    machine: Path, tmp_path: Path
) -> None:
    board = Board()
    shown: list[tuple[type[object], str]] = []

    def watch(event: api.Activity) -> None:
        board.take(event)
        shown.append((type(event), board.activity))
        if isinstance(event, NewBest):
            os.kill(os.getpid(), signal.SIGINT)

    result = api.explore(MATMUL, sizes={"m": 8, "n": 16, "k": 4}, runs=tmp_path, on_event=watch)
    assert result.stop is api.Stop.INTERRUPTED
    stopping = [activity for kind, activity in shown if kind is api.Stopping]
    assert len(stopping) == 1
    assert "finishing this evaluation" in stopping[0]
    assert result.best is not None
    best = f"best {result.best.time_ns:.4g} ns in {result.progress.evaluations} evaluations"
    assert repr(result) == f"<Result of matmul: {best}, {result.run}>"


def test_the_clock_stands_still_while_others_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: now))
    board = Board(time_s=60.0)
    board.take(Started(1.0, seed=0, iterations=0))
    now = 110.0
    board.take(api.Waiting(is_over=False))
    now = 150.0
    assert board.budget() == "0:10 of 1:00"
    assert "waiting for others" in board.doing
    board.take(api.Waiting(is_over=True))
    now = 155.0
    assert board.budget() == "0:15 of 1:00"
    assert board.doing == "searching"


def test_a_reader_that_goes_away_is_no_error(explored: Run) -> None:
    with spacedsl_process("emit", explored.best) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_a_full_disk_is_a_lack_of_the_machine(explored: Run) -> None:
    ran = run("emit", explored.best, "-o", "/dev/full")
    assert ran.code == 5
    assert "no room is left on the disk" in ran.err


def test_a_space_without_implementations_is_said_to_be_empty(machine: Path, tmp_path: Path) -> None:
    space, kernel = tmp_path / "empty.space", ROOT / "kernels" / "library" / "pipelines" / "toy_add.yaml"
    rules = ROOT / "kernels" / "spaces" / "pipeline.space"
    space.write_text(f'include "{rules}"\nrequire forall $l in Loops: tile($l) > "$kernel.full"\n')
    sizes = ("--size", "width=64", "--size", "height=48")
    ran = run("explore", kernel, *sizes, "--space", space, "--runs", tmp_path / "runs")
    assert ran.code == 3
    assert "leave no implementation of `toy_add`" in ran.err
    assert f"`spacedsl explain {kernel} {' '.join(sizes)} --space {space}`" in ran.err
    assert not (tmp_path / "runs").exists()


def test_an_unknown_ordering_is_a_usage_error(machine: Path, tmp_path: Path) -> None:
    ran = run("explore", MATMUL, *SMALL, "--ordering", "nope", "--runs", tmp_path / "runs")
    assert ran.code == 2
    assert "orderings: default" in ran.err
    assert not (tmp_path / "runs").exists()


def test_a_space_that_is_explored_to_its_end_says_so(machine: Path, tmp_path: Path) -> None:
    sizes = ("--size", "m=1", "--size", "n=1", "--size", "k=1")
    ran = run("explore", MATMUL, *sizes, "--runs", tmp_path)
    assert ran.code == 0
    assert "nothing faster is left in the space" in ran.out
    assert "nothing is left to explore" in ran.out


def test_when_nothing_is_valid_the_failures_are_explained(machine: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "strict.yaml"
    # No sum of random numbers in 32 bits is exact.
    kernel.write_text(MATMUL.read_text() + "tolerance: 0\n")
    sizes = ("--size", "m=4", "--size", "n=8", "--size", "k=256")
    ran = run("explore", kernel, *sizes, "-n", 2, "--runs", tmp_path / "runs")
    assert ran.code == 4
    assert "no valid implementation in 2 evaluations" in ran.out
    assert "wrong_result 2: " in ran.out
    assert ran.err.count("WRONG (wrong_result)") == 2


def test_a_best_that_turns_out_wrong_in_the_end_is_not_left_behind(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_wrong(self: CpuEvaluator, contenders: Sequence[Lowered], processes: int) -> Sequence[Outcome]:
        assert len(contenders) > 1
        return [Outcome(None, Failure.WRONG_RESULT, "C differs") for _ in contenders]

    monkeypatch.setattr(CpuEvaluator, "compare", all_wrong)
    ran = run("explore", MATMUL, *SMALL, "-n", 3, "--runs", tmp_path, "--json")
    document = json.loads(ran.out)
    assert ran.code == 4
    assert document["best"] is None
    assert document["evaluations"] == 3
    assert document["valid"] == 0
    assert document["failures"] == {"wrong_result": 3}
    assert sorted(path.suffix for path in Path(document["run"]).glob("best.*")) == []


def test_python_takes_lengths_of_time_as_the_command_line_does(machine: Path, tmp_path: Path) -> None:
    sizes = {"m": 8, "n": 16, "k": 4}
    told: list[object] = []
    spacedsl.explore(MATMUL, sizes=sizes, time="1m", evaluations=1, runs=tmp_path, on_event=told.append)
    assert api.Planned(60.0, 1) in told
    (folder,) = tmp_path.iterdir()
    spacedsl.resume(folder, time=0.5, on_event=told.append)
    (planned,) = [event for event in told[1:] if isinstance(event, api.Planned) and event.evaluations is None]
    assert planned.time_s is not None and 0.5 < planned.time_s < 60
    for wrong in ("soon", 0, -1, float("nan")):
        with pytest.raises(ValueError, match="is not a length of time: '90s', '3m'"):
            spacedsl.explore(MATMUL, sizes=sizes, time=wrong, runs=tmp_path)
        with pytest.raises(ValueError, match="is not a length of time"):
            spacedsl.resume(folder, time=wrong)


def test_python_takes_paths_as_text_and_numbers_of_numpy(machine: Path, tmp_path: Path) -> None:
    eight, one, three = np.arange(8, 0, -1)[[0, 7, 5]]
    numbers: Any = {"sizes": {"m": eight, "n": 16, "k": 4}, "evaluations": one, "seed": three}
    space = str(MATMUL.parents[1] / "spaces" / "linalg.space")
    result = spacedsl.explore(str(MATMUL), space=space, runs=str(tmp_path), **numbers)
    assert (result.seed, result.progress.evaluations) == (3, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"evaluations": 1.5}, "`evaluations` is a whole number from 0 on, not 1.5"),
        ({"evaluations": -1}, "`evaluations` is a whole number from 0 on, not -1"),
        ({"seed": -1}, "`seed` is a whole number from 0 on, not -1"),
        ({"sizes": {"m": 8.0}}, "size `m` is a whole number, not 8.0"),
    ],
)
def test_python_refuses_other_numbers_before_there_is_a_run(
    given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        spacedsl.explore(MATMUL, runs=tmp_path, **given)
    assert not any(tmp_path.iterdir())


def test_sizes_do_not_replace_those_of_a_kernel_that_has_been_read(tmp_path: Path) -> None:
    kernel = spacedsl.load_kernel(MATMUL, {"m": 8})
    with pytest.raises(api.SizeOverrideError, match="`matmul` has been read already: give `load_kernel`"):
        spacedsl.explore(kernel, sizes={"m": 16}, evaluations=1, runs=tmp_path)


def test_python_gives_the_same_result(machine: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    sizes = {"m": 8, "n": 16, "k": 4}
    result = spacedsl.explore(MATMUL, sizes=sizes, evaluations=2, runs=tmp_path)
    assert result.best is not None
    assert result.flops == 2 * 8 * 16 * 4
    assert result.footprint_bytes == 4 * (8 * 4 + 4 * 16 + 8 * 16)
    table = result.to_pandas()
    assert len(table) == len(result.trials) >= 2
    assert (table["bound_ns"] <= table["time_ns"]).all()
    replayed = spacedsl.replay(result.best.decisions)
    assert replayed.is_identical
    assert replayed.is_valid

"""`batch` and `import`: to a machine with a GPU and back, as a user sees it. The GPU is a fake one."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from spacedsl.api import batching, measuring
from spacedsl.codegen.cuda.batches.driver import Gpu
from spacedsl.codegen.cuda.batches.writing import Written, write_batch
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.search.store import Store
from tests.cli.conftest import ROOT, Run
from tests.cli.running import run
from tests.codegen.cuda.fake_gpu import environment, substitute

AXPY = ROOT / "kernels" / "library" / "axpy.yaml"
BLUR = ROOT / "kernels" / "library" / "pipelines" / "blur.yaml"
ASKED = 4


@pytest.fixture(scope="module")
def measured(machine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and a batch of it that has been run; nothing has been imported."""
    folder = tmp_path_factory.mktemp("measured")
    flags = ("--size", "n=512", "--target", "cuda", "--device", "h100", "-n", 5, "--runs", folder / "runs")
    assert run("explore", AXPY, *flags).code == 0
    ran = run("batch", the_run(folder), "--top", ASKED, "-o", folder / "batch")
    assert ran.code == 0, ran.err
    assert f"{ASKED} implementations of 1 kernel" in ran.err
    substitute(folder / "batch")
    (folder / "driver").mkdir()
    environ = environment(folder / "driver")
    subprocess.run(
        [sys.executable, "run_batch.py"], cwd=folder / "batch", check=True, env=environ, capture_output=True
    )
    return folder


@pytest.fixture
def back(measured: Path, tmp_path: Path) -> Iterator[Path]:
    """What came back, ready to be imported into a run that nobody else changes."""
    folder = tmp_path / "back"
    shutil.copytree(measured, folder)
    problem = folder / "batch" / "axpy" / "problem.json"
    problem.write_text(problem.read_text().replace(f"{measured}/", f"{folder}/"))
    yield folder


def the_run(folder: Path) -> Path:
    (found,) = (folder / "runs").iterdir()
    return found


def results(folder: Path) -> list[dict[str, Any]]:
    """What is said of the device, and of each implementation, the one predicted to be fastest first."""
    return [json.loads(line) for line in (folder / "batch" / "results.jsonl").read_text().splitlines()]


def rewrite(folder: Path, lines: list[dict[str, Any]]) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "batch" / "results.jsonl").write_text(text)


def content(folder: Path, *tables: str) -> list[tuple[object, ...]]:
    """All that a run's store holds, or some tables of it."""
    with closing(sqlite3.connect(the_run(folder) / "run.sqlite")) as connection:
        kept = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        names = tables or tuple(sorted(name for (name,) in kept))
        return [(name, *row) for name in names for row in connection.execute(f"SELECT * FROM {name}")]


def test_the_fastest_that_was_measured_becomes_the_best_and_predictions_stay(back: Path) -> None:
    best_json = the_run(back) / "best.json"
    predictions = content(back, "iteration", "evaluation", "comparison")
    about, *lines = results(back)
    for place, line in enumerate(lines):
        line["warm_ns"] = [9000.0 - 10 * place] * 7
    rewrite(back, [about, *lines])
    ran = run("import", back / "batch", "--json")
    assert ran.code == 0, ran.err
    (imported,) = json.loads(ran.out)["runs"]
    best = imported["best"]
    assert (best["time_ns"], best["measured_on"]) == (9000.0 - 10 * (ASKED - 1), "A fake GPU")
    assert best["rank"] == imported["measured"] == imported["changed"] == ASKED
    record = json.loads(best_json.read_text())
    assert (record["time_ns"], record["samples"]) == (best["time_ns"], 7)
    assert record["code"]["digest"] == lines[-1]["digest"]
    replayed = run("replay", best_json, "--json")
    assert json.loads(replayed.out)["identical"] is True
    assert content(back, "iteration", "evaluation", "comparison") == predictions
    resumed = run("resume", the_run(back), "-n", 1)
    assert "measured on A fake GPU" in resumed.out
    assert json.loads(best_json.read_text()) == record


def test_importing_again_changes_nothing_and_another_batch_leaves_out_what_is_known(back: Path) -> None:
    assert run("import", back / "batch").code == 0
    best_json = the_run(back) / "best.json"
    before, record = content(back), best_json.read_bytes()
    again = run("import", back / "batch" / "results.jsonl")
    assert "all known before" in again.out
    assert (content(back), best_json.read_bytes()) == (before, record)
    ran = run("batch", the_run(back), "-o", back / "batch")
    assert ran.code == 2
    assert "holds results of an earlier batch" in ran.err
    assert run("batch", the_run(back), "--top", 9, "--no-cases", "-o", back / "next").code == 0
    assert not list((back / "next").glob("*/cases*"))
    (new,) = json.loads((back / "next" / "axpy" / "problem.json").read_text())["implementations"]
    assert new["digest"] not in {line.get("digest") for line in results(back)}


def test_another_batch_takes_the_place_of_one_that_has_not_been_run(back: Path) -> None:
    (back / "batch" / "results.jsonl").unlink()
    old = back / "batch" / "axpy"
    old.rename(back / "batch" / "earlier")
    about = json.loads((back / "batch" / "batch.json").read_text())
    (back / "batch" / "batch.json").write_text(json.dumps({**about, "problems": ["earlier"]}))
    assert run("batch", the_run(back), "--top", 2, "--no-cases", "-o", back / "batch").code == 0
    assert json.loads((back / "batch" / "batch.json").read_text())["problems"] == ["axpy"]
    assert len(list((old / "implementations").glob("*.cubin"))) == 2
    assert [path.name for path in (back / "batch" / "earlier").rglob("*.cubin")] == []


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ("out", "out: this is a file, not a folder"),
        ("out/thesis.tex", "out holds other things than a batch: take another folder"),
    ],
)
def test_nothing_is_compiled_for_a_folder_that_is_something_else(
    there: str, why: str, back: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (back / there).parent.mkdir(exist_ok=True)
    (back / there).write_text("mine")
    monkeypatch.setattr(batching, "write_batch", None)
    ran = run("batch", the_run(back), "-o", back / "out")
    assert ran.code == 2
    assert why in ran.err
    assert (back / there).read_text() == "mine"


def test_what_fails_there_is_counted_and_never_the_best(back: Path) -> None:
    about, *lines = results(back)
    failed = {"failure": "wrong_result", "message": "y[3] is 0.0, not 1.0 (inputs: random)"}
    kept = [{key: line[key] for key in ("problem", "digest")} for line in lines]
    rewrite(back, [about, *({**line, **failed} for line in kept)])
    ran = run("import", back / "batch")
    assert ran.code == 4
    assert f"failures   wrong_result {ASKED}" in ran.out
    assert "wrong_result: y[3] is 0.0, not 1.0" in ran.out
    assert not (the_run(back) / "best.json").exists()
    wrong = sorted(the_run(back).glob("wrong-*.json"))
    assert len(wrong) == 3
    assert "on A fake GPU: y[3]" in json.loads(wrong[0].read_text())["message"]
    assert run("resume", the_run(back), "-n", 1).code == 0
    best = json.loads((the_run(back) / "best.json").read_text())
    assert best["code"]["digest"] not in {line["digest"] for line in lines}
    assert best["measured_on"] is None


def test_what_was_measured_is_taken_back_where_the_rules_that_a_kernel_names_are_gone(back: Path) -> None:
    with closing(sqlite3.connect(the_run(back) / "run.sqlite")) as connection, connection:
        ((text,),) = connection.execute("SELECT value FROM about WHERE key = 'kernel_text'").fetchall()
        changed = json.dumps(json.loads(text) + "space: gone.space\n")
        connection.execute("UPDATE about SET value = ? WHERE key = 'kernel_text'", (changed,))
    assert run("import", back / "batch").code == 0


def test_a_time_below_the_bound_is_said(back: Path) -> None:
    about, *lines = results(back)
    rewrite(back, [about, *({**line, "warm_ns": [0.5] * 7} for line in lines)])
    ran = run("import", back / "batch")
    assert ran.code == 0
    assert f"violations {ASKED} times below the bound" in ran.out


def test_half_of_the_results_are_taken_without_the_line_that_was_cut_off(back: Path) -> None:
    path = back / "batch" / "results.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:3]) + '\n{"problem": "axp')
    assert f"2 of {ASKED} measured on A fake GPU" in run("import", back / "batch").out


def test_what_was_broken_off_before_the_first_result_says_nothing_of_any(back: Path) -> None:
    rewrite(back, results(back)[:1])
    best = (the_run(back) / "best.json").read_bytes()
    ran = run("import", back / "batch")
    assert ran.code == 0, ran.err
    assert f"0 of {ASKED} measured on A fake GPU (2 SMs, driver 13.0)\n" in ran.out
    assert "best       none: the batch was broken off before anything was measured" in ran.out
    assert (the_run(back) / "best.json").read_bytes() == best


_NOBODYS = '{"problem": "axpy", "digest": "00", "failure": "crash", "message": ""}'


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (2, "{", ":2:2: error RC002: this is not JSON"),
        (3, _NOBODYS, ":3:1: error RC002: `axpy` of this batch has no implementation 00"),
        (1, _NOBODYS, ":1:1: error RC002: a result before the line that says what the device is"),
        (2, _NOBODYS.replace("crash", "boredom"), "`failure`"),
        (2, f'{{"problem": {"1" * 5000}}}', ":2:1: error RC002: a number has too many digits"),
    ],
)
def test_what_is_no_result_is_shown_where_it_stands_and_nothing_is_taken_over(
    back: Path, line: int, text: str, said: str
) -> None:
    path, before = back / "batch" / "results.jsonl", content(back)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[: line - 1], text, *lines[line:]]) + "\n")
    ran = run("import", path)
    assert ran.code == 1
    assert said in ran.err
    assert content(back) == before


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda packed: packed[:-20], "this is not what `batch` writes"),
        (lambda packed: packed[:40] + b"what" + packed[44:], "this is not what `batch` writes"),
        (lambda packed: b"what", "this is not what `batch` writes"),
        (lambda packed: gzip.compress(b"[1]"), "this is not what `batch` writes"),
        (lambda packed: gzip.compress(b"{}"), "it does not say what "),
    ],
)
def test_decisions_that_were_damaged_stop_an_import_before_it_begins(
    back: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    path, before = back / "batch" / "axpy" / "decisions.json.gz", content(back)
    path.write_bytes(damage(path.read_bytes()))
    ran = run("import", back / "batch")
    assert ran.code == 1
    assert f"{path}:1:1: error RC002: {said}" in ran.err
    assert content(back) == before


def test_the_best_that_was_measured_is_batched_with_what_had_been_predicted(back: Path) -> None:
    about, *lines = results(back)
    rewrite(back, [about, *({**line, "warm_ns": [9e6] * 7} for line in lines)])
    assert run("import", back / "batch").code == 0
    best = the_run(back) / "best.json"
    assert json.loads(best.read_text())["time_ns"] == 9e6
    assert run("batch", best, "--no-cases", "-o", back / "again").code == 0
    entries = {
        each["digest"]: each["predicted_ns"]
        for name in ("batch", "again")
        for each in json.loads((back / name / "axpy" / "problem.json").read_text())["implementations"]
    }
    assert len(entries) == ASKED
    assert max(entries.values()) < 9e6
    alone = shutil.copy(best, back)
    ran = run("batch", alone, "--no-cases", "-o", back / "third")
    assert ran.code == 2
    assert f"{alone}: measured, and what was predicted only its run knows" in ran.err


def test_times_of_another_gpu_are_not_taken_into_the_same_run(back: Path) -> None:
    assert run("import", back / "batch").code == 0
    about, *lines = results(back)
    rewrite(back, [{**about, "device": {**about["device"], "name": "Another GPU"}}, *lines])
    ran = run("import", back / "batch")
    assert ran.code == 1
    assert "was measured on A fake GPU, and this is Another GPU" in ran.err


def test_what_is_not_for_a_gpu_makes_no_batch(explored: Run, tmp_path: Path) -> None:
    ran = run("batch", explored.folder, "-o", tmp_path / "batch")
    assert ran.code == 2
    assert "a run for a CPU" in ran.err
    assert run("import", tmp_path).code == 2


def test_slower_ones_come_along_where_they_are_asked_for(measured: Path, tmp_path: Path) -> None:
    def batched(name: str, *flags: object) -> list[str]:
        ran = run("batch", the_run(measured), *flags, "--no-cases", "-o", tmp_path / name)
        assert ran.code == 0, ran.err
        problem = json.loads((tmp_path / name / "axpy" / "problem.json").read_text())
        return [each["digest"] for each in problem["implementations"]]

    by_prediction = batched("all", "--top", 5)
    assert batched("some", "--top", 1, "--others", 2) == [by_prediction[n] for n in (0, 2, 4)]
    assert batched("more", "--top", 2, "--others", 9) == by_prediction


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has a fake one, and cubins become twins before it runs them."""
    (tmp_path / "driver").mkdir()
    path = environment(tmp_path / "driver")["LD_LIBRARY_PATH"]
    monkeypatch.setattr(measuring, "PYTHON", ("env", f"LD_LIBRARY_PATH={path}", sys.executable))
    library = str(tmp_path / "driver" / "libcuda.so.1")
    monkeypatch.setattr(measuring, "Gpu", lambda: Gpu(library))

    def written(folder: Path, *args: Any, **kwargs: Any) -> Written:
        found = write_batch(folder, *args, **kwargs)
        substitute(folder)
        return found

    monkeypatch.setattr(batching, "write_batch", written)


FOR_H100 = ("--size", "n=512", "--target", "cuda", "--device", "h100", "-n", 2)


@pytest.fixture(scope="module")
def predicted(machine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that no GPU has measured."""
    folder = tmp_path_factory.mktemp("predicted")
    ran = run("explore", AXPY, *FOR_H100, "--runs", folder / "runs", "--no-measure")
    assert ran.code == 0, ran.err
    assert "predicted: no GPU has run it" in ran.out
    return folder


@pytest.fixture
def apart(predicted: Path, gpu: None, tmp_path: Path) -> Path:
    """The same where this machine has a GPU, and nobody else changes it."""
    shutil.copytree(predicted / "runs", tmp_path / "runs")
    return tmp_path


def test_where_a_gpu_is_a_run_ends_with_what_it_measures(apart: Path) -> None:
    measured = run("measure", the_run(apart), "--top", 1, "--json")
    assert measured.code == 0, measured.err
    (found,) = json.loads(measured.out)["runs"]
    assert (found["measured"], found["best"]["measured_on"]) == (1, "A fake GPU")
    again = run("resume", the_run(apart), "-n", 1)
    assert again.code == 0, again.err
    assert "measuring on A fake GPU" in again.err
    assert "measured 2 of 2 implementations" in again.err
    assert "measured on A fake GPU" in again.out
    assert "2 of 2 measured on A fake GPU" in again.out
    assert json.loads((the_run(apart) / "best.json").read_text())["measured_on"] == "A fake GPU"
    nothing = run("measure", the_run(apart))
    assert nothing.code == 2
    assert "all have been measured" in nothing.err


def test_a_run_that_another_gpu_has_measured_is_not_measured(
    apart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("measure", the_run(apart), "--top", 1).code == 0
    with closing(sqlite3.connect(the_run(apart) / "run.sqlite")) as connection, connection:
        connection.execute("UPDATE measurement SET device = 'Another GPU'")
    monkeypatch.setattr(batching, "write_batch", None)
    for command in ("measure", "resume"):
        ran = run(command, the_run(apart), *(["-n", 1, "--measure"] if command == "resume" else []))
        assert ran.code == 1
        assert "was measured on Another GPU, and this is A fake GPU" in ran.err
    assert not (the_run(apart) / "batches" / "2").exists()
    unasked = run("resume", the_run(apart), "-n", 1)
    assert unasked.code == 0
    assert "nothing was measured: " in unasked.err and "this is A fake GPU" in unasked.err


@pytest.mark.parametrize("ends", ["the GPU is lost", "interrupted"])
def test_what_was_measured_before_it_broke_off_is_taken_back(
    ends: str, apart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search's result is said, and the next measuring goes on."""
    run_batch = measuring._run

    def broken(folder: Path, count: int, seconds: float | None, on_event: Any) -> None:
        run_batch(folder, count, seconds, on_event)
        results = folder / "results.jsonl"
        results.write_text("".join(results.read_text().splitlines(keepends=True)[:2]))
        if ends == "interrupted":
            raise KeyboardInterrupt
        raise EnvironmentLack("no GPU can be used here: it fell off the bus")

    monkeypatch.setattr(measuring, "_run", broken)
    ran = run("resume", the_run(apart), "-n", 1)
    assert "best " in ran.out
    assert len(content(apart, "measurement")) == 1
    if ends == "interrupted":
        assert ran.code == 130
        assert "what was measured is kept: 1 implementation" in ran.err
    else:
        assert ran.code == 0
        assert "not all was measured" in ran.err and "it fell off the bus" in ran.err
        assert "1 of 3 measured on A fake GPU" in ran.out
    monkeypatch.setattr(measuring, "_run", run_batch)
    again = run("measure", the_run(apart))
    assert again.code == 0, again.err
    assert len(content(apart, "measurement")) == 3


def test_a_gpu_that_is_lost_at_once_leaves_the_result_of_the_search(
    apart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise EnvironmentLack("no GPU can be used here: it fell off the bus")

    monkeypatch.setattr(measuring, "_run", lost)
    ran = run("resume", the_run(apart), "-n", 1, "--measure")
    assert ran.code == 5
    assert "predicted: no GPU has run it" in ran.out
    assert "all else is done and saved; later: spacedsl measure" in ran.err


@pytest.mark.parametrize("breaks_off", [True, False])
def test_where_all_that_was_measured_fails_the_best_of_the_others_takes_its_place(
    breaks_off: bool, apart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_batch, failed = measuring._run, set[str]()

    def failing(folder: Path, count: int, seconds: float | None, on_event: Any) -> None:
        run_batch(folder, count, seconds, on_event)
        about, *lines = map(json.loads, (folder / "results.jsonl").read_text().splitlines())
        kept = [{key: line[key] for key in ("problem", "digest")} for line in lines[:-1]]
        failed.update(line["digest"] for line in kept)
        told = [about, *({**line, "failure": "crash", "message": "gone"} for line in kept)]
        (folder / "results.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in told))
        if breaks_off:
            raise EnvironmentLack("no GPU can be used here: it fell off the bus")

    monkeypatch.setattr(measuring, "_run", failing)
    ran = run("resume", the_run(apart), "-n", 1)
    assert ran.code == 0, ran.err
    assert "nothing that was measured is right" in ran.err
    assert "predicted: no GPU has run it" in ran.out
    assert "failures   crash 2" in ran.out
    best = json.loads((the_run(apart) / "best.json").read_text())
    assert len(failed) == 2
    assert best["code"]["digest"] not in failed
    with closing(sqlite3.connect(the_run(apart) / "run.sqlite")) as connection, connection:
        connection.execute(
            "INSERT INTO measurement SELECT ?, device, time_ns, low_ns, high_ns, samples, failure, message, "
            "bound_ns, decisions FROM measurement LIMIT 1",
            (best["code"]["digest"],),
        )
    nothing = run("resume", the_run(apart), "--no-measure")
    assert nothing.code == 4
    assert "3 implementations valid in 3 evaluations" in nothing.out
    assert "all of them failed on a GPU" in nothing.out


def test_a_run_that_another_process_writes_to_is_not_measured_in_vain(
    apart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_batch = measuring._run
    monkeypatch.setattr(measuring, "_run", None)
    with Store.open(the_run(apart)):
        ran = run("measure", the_run(apart))
    assert ran.code == 2
    assert "another process is writing" in ran.err
    assert not (the_run(apart) / "batches").exists()
    with ExitStack() as locked:

        def locking(folder: Path, count: int, seconds: float | None, on_event: Any) -> None:
            run_batch(folder, count, seconds, on_event)
            locked.enter_context(Store.open(the_run(apart)))

        monkeypatch.setattr(measuring, "_run", locking)
        late = run("measure", the_run(apart))
    assert late.code == 2
    taken = the_run(apart) / "batches" / "1"
    assert f"what was measured is taken back by: spacedsl import {taken}" in late.err
    assert run("import", taken).code == 0


def test_a_time_in_which_nothing_can_begin_is_said(apart: Path) -> None:
    ran = run("measure", the_run(apart), "--time", "0.000001")
    assert ran.code == 2
    assert "nothing was begun in 1e-06 s" in ran.err


def test_pipelines_are_measured_too(machine: Path, gpu: None, tmp_path: Path) -> None:
    flags = ("--size", "width=40", "--size", "height=30", "--target", "cuda", "--device", "h100", "-n", 1)
    ran = run("explore", BLUR, *flags, "--runs", tmp_path / "runs")
    assert ran.code == 0, ran.err
    assert "measured on A fake GPU" in ran.out
    assert json.loads((the_run(tmp_path) / "best.json").read_text())["measured_on"] == "A fake GPU"


def test_without_a_gpu_of_that_kind_it_is_said_why_where_one_is_wanted(
    machine: Path, gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--size", "n=512", "--target", "cuda", "--device", "a100", "-n", 1, "--runs", tmp_path / "runs")
    ran = run("explore", AXPY, *flags)
    assert ran.code == 0, ran.err
    assert "predicted: no GPU has run it" in ran.out
    at_once = run("explore", AXPY, *flags, "--measure")
    assert at_once.code == 5
    assert "A fake GPU is of compute capability" in at_once.err
    assert len(list((tmp_path / "runs").iterdir())) == 1
    before = content(tmp_path)
    wanted = run("resume", the_run(tmp_path), "-n", 1, "--measure")
    assert wanted.code == 5
    assert "A fake GPU is of compute capability" in wanted.err
    assert content(tmp_path) == before
    monkeypatch.setattr(measuring, "Gpu", lambda: Gpu("libnone.so"))
    alone = run("measure", the_run(tmp_path))
    assert alone.code == 5
    assert "there is no GPU to measure here" in alone.err


def test_measuring_at_the_end_is_for_gpus(tmp_path: Path) -> None:
    ran = run("explore", AXPY, "--measure", "--runs", tmp_path / "runs")
    assert ran.code == 2
    assert "--measure: times on a CPU are measured anyway" in ran.err
    assert not (tmp_path / "runs").exists()

"""Offline batches: what they hold, and what their runner does with it on a driver whose kernels are twins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.cuda.batches import arena, cases, writing
from spacedsl.codegen.cuda.batches.folders import code_path, occupied
from spacedsl.codegen.cuda.batches.measuring import KINDS
from spacedsl.codegen.cuda.batches.writing import (
    RUNNER,
    Batched,
    BatchedProblem,
    Written,
    write_batch,
)
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.nvrtc import Cubin
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.verify import verify
from spacedsl.diagnostics import DiagnosticError, Source
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.kernel_file import KernelFile, check_kernel
from tests.codegen.cuda.fake_gpu import environment, substitute
from tests.codegen.cuda.grids import device, random_candidates, space_of
from tests.codegen.kernels import axpy

COUNT = 7
LIMIT_S = 5


def problem(kernel: KernelFile, count: int) -> BatchedProblem:
    candidates = random_candidates(space_of(kernel), count, seed=1)
    programs = [(c, verify(lower_grids(kernel.backbone, CandidateImplementation(c)))) for c in candidates]
    entries = [Batched(program, 1000.0 + n, 10.0, c.decisions()) for n, (c, program) in enumerate(programs)]
    return BatchedProblem(kernel, tuple(entries), ())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A batch of two problems, as it goes to another machine."""
    folder = tmp_path_factory.mktemp("batch")
    problems = [problem(axpy(256, "{i: [[4, 8], [2, 4]]}"), COUNT), problem(axpy(64, "{i: [[4], [2]]}"), 1)]
    assert write_batch(folder, device(), problems, seed=3) == Written(COUNT + 1, 0, 0)
    return folder


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that have a GPU."""
    return environment(tmp_path_factory.mktemp("driver"))


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def run_batch(folder: Path, machine: dict[str, str], *flags: str) -> Ran:
    command = [sys.executable, "run_batch.py", *flags]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=machine)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def spoil(folder: Path, number: int, old: str, new: str) -> str:
    """Changes the code of an implementation; its digest."""
    (entry,) = json.loads((folder / "axpy" / "problem.json").read_text())["implementations"][
        number : number + 1
    ]
    path = folder / "axpy" / code_path(entry["digest"])
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    return str(entry["digest"])


@pytest.mark.parametrize("free_bytes", [0, 1 << 34])
def test_what_is_right_is_timed_and_what_is_wrong_costs_a_worker_at_most(
    written: Path, machine: dict[str, str], tmp_path: Path, free_bytes: int
) -> None:
    """Also where the device has no room for test cases, so that the host compares."""
    folder = tmp_path / "batch"
    shutil.copytree(written, folder)
    runner = folder / "run_batch.py"
    runner.write_text(runner.read_text().replace("LIMIT_S = 60.0", f"LIMIT_S = {LIMIT_S}.0"))
    begin = ") {\n"
    faults = {
        "wrong": spoil(folder, 0, "alpha * ", "2.0f * alpha * "),
        "hangs": spoil(folder, 1, begin, begin + "for (;;) asm volatile(\"\");\n"),
        "breaks": spoil(folder, 2, 'extern "C"', 'extern "C" { int breaks = 1; }\nextern "C"'),
        "beyond": spoil(folder, 3, begin, begin + "((float *)y)[256] = 0.0f;\n"),
        "crashes": spoil(folder, 4, begin, begin + "*(volatile int *)8 = 0;\n"),
        "prints": spoil(folder, 5, begin, begin + 'puts("no answer");\n'),
    }  # fmt: skip
    substitute(folder)
    ran = run_batch(folder, {**machine, "FAKE_GPU_FREE": str(free_bytes)})
    assert ran.code == 0, ran.err
    about, *lines = results(folder)
    assert (about["device"]["name"], about["device"]["sms"], about["device"]["driver"]) == (
        "A fake GPU",
        2,
        "13.0",
    )
    assert about["limits"].keys() == {
        "launch_warm_ns", "launch_cold_ns", "copy_bytes_per_ns", "fma_f32_flops_per_ns",
        "fma_f64_flops_per_ns", "mma_bf16_flops_per_ns",
    }  # fmt: skip
    assert len(lines) == COUNT + 1
    found = {line["digest"]: line for line in lines}
    said = {name: found[digest].get("failure") for name, digest in faults.items()}
    assert said == {
        "wrong": "wrong_result", "hangs": "run_timeout", "breaks": "crash", "beyond": "wrong_result",
        "crashes": "crash", "prints": None,
    }  # fmt: skip
    assert found[faults["hangs"]]["message"] == f"no answer in {LIMIT_S} s"
    assert "an illegal memory access was encountered (700)" in found[faults["breaks"]]["message"]
    assert found[faults["crashes"]]["message"] == "the worker ended with status -11"
    assert found[faults["beyond"]]["message"] == "something was written behind y"
    right = [line for line in lines if "failure" not in line]
    assert [line["problem"] for line in right] == ["axpy", "axpy", "axpy-2"]
    for line in right:
        assert line["sm_mhz"] == 1755
        assert all(time_ns > 0 for time_ns in (*line["warm_ns"], *line["cold_ns"]))


@pytest.mark.parametrize("at", [2, COUNT - 1])
def test_a_crash_with_which_the_device_is_lost_says_nothing_about_an_implementation(
    written: Path, at: int, tmp_path: Path
) -> None:
    folder, driver = tmp_path / "batch", tmp_path / "driver"
    shutil.copytree(written, folder)
    shutil.rmtree(folder / "axpy-2")
    (folder / "batch.json").write_text('{"schema": 2, "compute_capability": "9.0", "problems": ["axpy"]}')
    driver.mkdir()
    machine = environment(driver)
    begin = ") {\n"
    spoil(folder, at, begin, f'{begin}remove("{driver}/libcuda.so.1");\n*(volatile int *)8 = 0;\n')
    substitute(folder)
    ran = run_batch(folder, machine)
    assert ran.code == 5, ran.err
    assert "no GPU can be used here" in ran.err
    lines = results(folder)
    assert len(lines) == 1 + at
    assert not any("failure" in line for line in lines)


def test_what_was_interrupted_goes_on_where_it_stood(
    written: Path, machine: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "batch"
    shutil.copytree(written, folder)
    substitute(folder)
    ran = run_batch(folder, machine, "--seconds", "0")
    assert "axpy: no time is left after 0 of 7" in ran.err
    assert results(folder) == []
    assert run_batch(folder, machine).code == 0
    lines = (folder / "results.jsonl").read_text().splitlines()
    cut_off = "\n".join(lines[:4]) + "\n" + lines[4][:20]
    (folder / "results.jsonl").write_text(cut_off)
    assert run_batch(folder, machine).code == 0
    again = results(folder)
    assert [line for line in again if "device" in line] == [again[0], again[4]]
    digests = [line["digest"] for line in again if "digest" in line]
    assert len(digests) == len(set(digests)) == COUNT + 1
    assert (folder / "results.jsonl").read_text().startswith("\n".join(lines[:4]))


def test_a_problem_without_room_costs_no_other(
    written: Path, machine: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "batch"
    shutil.copytree(written, folder)
    substitute(folder)
    first, *others = json.loads((folder / "batch.json").read_text())["problems"]
    about = json.loads((folder / first / "problem.json").read_text())
    about["tensors"][0]["nbytes"] = 1 << 62
    (folder / first / "problem.json").write_text(json.dumps(about))
    for _ in range(2):
        ran = run_batch(folder, machine)
        assert ran.code == 1
        assert f"{first} cannot be run here: " in ran.err
        assert {line["problem"] for line in results(folder) if "problem" in line} == {*others}


def test_parameters_of_16_bits_are_handed_over_as_their_bits() -> None:
    assert KINDS["f16"](0.5).tobytes() == np.float16(0.5).tobytes()
    assert KINDS["bf16"](-2.5) == np.uint16(0xC020)
    assert {*KINDS} == {dtype.label for dtype in DType}


@pytest.mark.parametrize("has_driver", [True, False])
def test_without_the_right_gpu_it_is_said_so(
    written: Path, machine: dict[str, str], tmp_path: Path, has_driver: bool
) -> None:
    folder = tmp_path / "batch"
    shutil.copytree(written, folder)
    if has_driver:
        batch = json.loads((folder / "batch.json").read_text())
        (folder / "batch.json").write_text(json.dumps({**batch, "compute_capability": "8.0"}))
    ran = run_batch(folder, machine if has_driver else {**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert ran.code == 5
    assert "no GPU can be used here" in ran.err
    assert ("is of compute capability 9.0" in ran.err) == has_driver
    assert "Traceback" not in ran.err


def test_what_the_compiler_refuses_or_takes_too_long_for_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def compile_cubin(code: str, compute_capability: str) -> Cubin:
        compiled.append(code)
        if len(compiled) <= 2:
            raise BuildError("no code for this GPU", timed_out=len(compiled) == 2)
        return Cubin(b"", {})

    monkeypatch.setattr(writing, "compile_cubin", compile_cubin)
    problems = [problem(axpy(64, "{i: [[4], [2]]}"), 4)]
    assert write_batch(tmp_path, device(), problems, seed=3, has_cases=False) == Written(2, 1, 1)
    left = json.loads((tmp_path / "axpy" / "problem.json").read_text())["implementations"]
    assert len(left) == 2


def test_the_other_machine_makes_the_same_test_cases(written: Path, tmp_path: Path) -> None:
    shutil.copy(written / "axpy" / "problem.json", tmp_path)
    cases.main(tmp_path)
    assert (tmp_path / "cases.json").read_text() == (written / "axpy" / "cases.json").read_text()
    with np.load(tmp_path / "cases.npz") as made, np.load(written / "axpy" / "cases.npz") as kept:
        assert sorted(made) == sorted(kept)
        assert all((made[name] == kept[name]).all() for name in kept)


def with_text(written: Path, folder: Path, more: str) -> Path:
    """The folder of a problem without test cases, whose kernel file goes on."""
    shutil.copytree(written / "axpy", folder / "axpy", ignore=shutil.ignore_patterns("cases.*"))
    path = folder / "axpy" / "problem.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "kernel_text": about["kernel_text"] + more}))
    return folder / "axpy"


def test_the_rules_that_a_kernel_names_are_not_needed_for_its_test_cases(
    written: Path, tmp_path: Path
) -> None:
    problem = with_text(written, tmp_path, "space: only/there.space\n")
    cases.main(problem)
    assert (problem / "cases.json").exists()


def test_why_there_are_no_test_cases_is_said_in_a_line(written: Path, tmp_path: Path) -> None:
    with pytest.raises(arena.CasesError, match=r"came without test cases.*: error KF\d+: [^\n]*$"):
        arena.make_cases(with_text(written, tmp_path, "tolerance: much\n"))


@pytest.mark.parametrize(("tolerance", "at"), [(0.0, (2,)), (8.0, None)])
def test_integers_of_64_bits_are_not_rounded_where_they_have_to_be_equal(
    tolerance: float, at: tuple[int, ...] | None
) -> None:
    wanted = np.full(4, 2**60, np.int64)
    found = wanted + np.array([0, 0, 1, 0])
    said = arena._difference(found, wanted, np.asarray(tolerance), {"dtype": "i64"})
    assert said == at


def test_a_batch_brings_all_that_its_runner_imports(written: Path) -> None:
    for name in RUNNER:
        assert "import spacedsl" not in (written / name).read_text()
        assert "from spacedsl" not in (written / name).read_text()


# ---- Its folder -------------------------------------------------------------------------------------------


def small(name: str) -> BatchedProblem:
    made = problem(axpy(64, "{i: [[4], [2]]}"), 2)
    return replace(made, kernel=replace(made.kernel, name=name))


def content(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_batch_takes_the_place_of_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of that one nothing is left; what somebody else has put there stays."""
    monkeypatch.setattr(writing, "compile_cubin", lambda code, compute_capability: Cubin(b"", {}))
    write_batch(tmp_path / "new", device(), [small("b")], seed=3)
    folder = tmp_path / "folder"
    write_batch(folder, device(), [small("a"), small("b")], seed=3)
    others = {"a/notes.txt", "b/implementations/mine.cu", "mine/problem.json"}
    for name in others:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    assert occupied(folder, ("b", "c")) is None
    write_batch(folder, device(), [small("b")], seed=3)
    assert content(folder) == content(tmp_path / "new") | others


def test_a_kernel_without_test_cases_is_shown_before_an_earlier_batch_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "compile_cubin", lambda code, compute_capability: Cubin(b"", {}))
    write_batch(tmp_path / "batch", device(), [small("a")], seed=3)
    before = content(tmp_path)
    text = """
kernel: overflow
backbone: linalg
sizes: {m: 4, k: 1024}
tensors:
  A: {dtype: f32, shape: [m, k]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - y[i] = prod[p](abs(A[i, p]) + 2)
"""
    overflowing = check_kernel(Source("overflow.yaml", text), Path("overflow.yaml"), {}, "gpu")
    for folder in (tmp_path / "batch", tmp_path / "new" / "folder"):
        with pytest.raises(DiagnosticError, match=r"overflow.yaml:9:5: error KF047: `y` is not finite"):
            write_batch(folder, device(), [replace(small("a"), kernel=overflowing)], seed=3)
    assert content(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["batch"]


def test_the_folder_of_what_was_interrupted_is_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(code: str, compute_capability: str) -> Cubin:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "compile_cubin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_batch(tmp_path / "folder", device(), [small("a")], seed=3)
    assert occupied(tmp_path / "folder", ("a",)) is None


@pytest.mark.parametrize(
    ("there", "written", "names", "why"),
    [
        ("", "somewhere", ("a",), None),
        ("folder/", "folder", ("a",), None),
        ("folder", "folder", (), "this is a file, not a folder"),
        ("folder", "folder/inside/of", (), "this is a file, not a folder"),
        ("folder/thesis.tex", "folder", (), "holds other things than a batch"),
        ("folder/batch.json", "folder", (), "holds other things than a batch"),
    ],
)
def test_nothing_else_has_to_lie_where_a_batch_is_written(
    there: str, written: str, names: tuple[str, ...], why: str | None, tmp_path: Path
) -> None:
    if there.endswith("/"):
        (tmp_path / there).mkdir()
    elif there:
        (tmp_path / there).parent.mkdir(exist_ok=True)
        (tmp_path / there).write_text("{}")
    said = occupied(tmp_path / written, names)
    assert (said is None) if why is None else (said is not None and why in said)


@pytest.mark.parametrize("names", [["../other"], ["/etc"], [3], 3, "..", [".."]])
def test_what_leads_out_of_its_folder_is_no_batch(names: object, tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_text(json.dumps({"problems": names}))
    assert "other things than a batch" in (occupied(tmp_path) or "")


def test_a_file_in_the_place_of_a_problem_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_text(json.dumps({"problems": ["a"]}))
    (tmp_path / "b").write_text("")
    assert occupied(tmp_path, ("a",)) is None
    assert f"{tmp_path / 'b'} is no part of a batch" in (occupied(tmp_path, ("a", "b")) or "")

"""Pipelines beside Halide on a GPU: the folder, what measures it, the report. Neither need be there.

A library in C stands for what Halide compiles, with as much of its runtime as is called, on a driver whose
memory is that of the host.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import arguments
from benchmarks.installed import PEERS_PYTHON, peers_python
from benchmarks.pipelines import halide
from benchmarks.pipelines.gpu import __main__ as program
from benchmarks.pipelines.gpu.folder import add_halide, keep, write_benchmark
from benchmarks.pipelines.gpu.report import NOT_YET, report, show
from benchmarks.pipelines.gpu.schedulers import NAMES, schedulers_for, target_of
from benchmarks.pipelines.halide import Prepared, Workplace
from benchmarks.tables import console
from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.cuda.batches.writing import BatchedProblem, write_batch
from spacedsl.kernels.backbones import load_measurable
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from tests.benchmarks.test_pipelines import KERNEL
from tests.codegen.cuda.fake_gpu import environment, substitute_own
from tests.codegen.cuda.grids import device

# As Halide's own headers, HalideRuntime.h and HalideRuntimeCuda.h, have these records and functions.
LIKE_HALIDE = """
#include <stdint.h>
#include <string.h>
#include <unistd.h>
struct dimension { int32_t min, extent, stride; uint32_t flags; };
struct buffer {
  uint64_t device; const void *interface; uint8_t *host; uint64_t flags;
  struct { uint8_t code, bits; uint16_t lanes; } type;
  int32_t dimensions; struct dimension *dim; void *padding;
};
enum fault { NONE, HOST, WRONG, LATE, CRASH, REFUSE, HANG };
static void (*handler)(void *, const char *);
static void *context = &context;
static int calls;
void *halide_set_error_handler(void (*given)(void *, const char *)) { handler = given; return 0; }
void use_context(void *given) { context = given; } /* which is null, of this driver */
int halide_cuda_wrap_device_ptr(void *user, struct buffer *b, uint64_t address) {
  b->device = address;
  return 0;
}
int halide_copy_to_device(void *user, struct buffer *b, const void *interface) {
  memcpy((void *)b->device, b->host, 4 * b->dim[0].extent * b->dim[1].extent);
  b->flags = 0;
  return 0;
}
static float *at(struct buffer *b, int x, int y) {
  float *array = (float *)(FAULT == HOST ? (uint64_t)b->host : b->device);
  return array + (x - b->dim[0].min) * b->dim[0].stride + (y - b->dim[1].min) * b->dim[1].stride;
}
static int refuses(const char *words) { handler(0, words); return -1; }
int halide_pipeline(struct buffer *image, float scale, struct buffer *slope) {
  if (context) return refuses("another context");
  if (!image->device || !slope->device || image->flags || slope->flags) return refuses("not on the device");
  if (FAULT == REFUSE) return refuses("cuLaunchKernel failed");
  if (FAULT == CRASH) *(volatile int *)8 = 0;
  if (FAULT == HANG) for (;;) pause();
  for (int y = slope->dim[1].min; y < slope->dim[1].min + slope->dim[1].extent; y++)
    for (int x = slope->dim[0].min; x < slope->dim[0].min + slope->dim[0].extent; x++)
      *at(slope, x, y) = (*at(image, x + 1, y) / 2 + *at(image, x, y - 1) / 2) * scale;
  if (FAULT == WRONG || (FAULT == LATE && ++calls > 20)) *at(slope, 9, 5) *= 1.01f;
  slope->flags = FAULT == HOST ? 1 : 2;
  return 0;
}
"""
FAULTS = ("NONE", "HOST", "WRONG", "LATE", "CRASH", "REFUSE", "HANG")


@pytest.fixture
def kernel(tmp_path: Path) -> PipelineFile:
    path = tmp_path / "slope.yaml"
    path.write_text(KERNEL)
    kernel = load_measurable(path, kind="gpu")
    assert isinstance(kernel, PipelineFile)
    return kernel


@pytest.fixture
def folder(kernel: PipelineFile, tmp_path: Path) -> Path:
    """As it goes to the other machine, with libraries of these faults, and nothing of ours."""
    folder = tmp_path / "there"
    write_batch(folder, device(), [BatchedProblem(kernel, (), ())], 5)
    place = folder / "slope" / "halide"
    place.mkdir()
    for fault in FAULTS:
        build_library(LIKE_HALIDE.replace("FAULT", fault), place / f"{fault}.so")
    made = [Prepared(fault, "", schedule_s=0.5, compile_s=1.5) for fault in FAULTS]
    larger = Prepared("NONE", "", rooms={"image": ((-3, 28), (0, 42))})
    keep(
        folder / "slope", [*made[1:], larger, Prepared("none", "", absent="no schedule in 1 s")], kernel, at()
    )
    write_benchmark(folder)
    substitute_own(folder)
    return folder


def at(**changes: object) -> Workplace:
    facts = {
        "python": Path(sys.executable), "version": "21", "processor": "p", "threads": 1, "limit_s": 60.0,
        "memory_bytes": 1 << 36, "target": target_of(device()),
    }  # fmt: skip
    return Workplace(**{**facts, **changes})  # type: ignore[arg-type]


def run(folder: Path, machine: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "run_benchmark.py"]
    return subprocess.run(command, cwd=folder, env=machine, text=True, capture_output=True, check=False)


def test_a_library_that_is_wrong_or_breaks_costs_its_own_line(folder: Path, tmp_path: Path) -> None:
    script = folder / "run_benchmark.py"
    script.write_text(script.read_text().replace("LIMIT_S = 300.0", "LIMIT_S = 2.0"))
    (tmp_path / "driver").mkdir()
    machine = environment(tmp_path / "driver")
    ran = run(folder, machine)
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    lines = [json.loads(line) for line in (folder / "peers.jsonl").read_text().splitlines()]
    found = {line["peer"]: line for line in lines}
    assert len(lines) == len(found) == len(FAULTS)
    assert {name: line.get("failure", "") for name, line in found.items()} == {
        "NONE": "", "HOST": "", "WRONG": "wrong_result", "LATE": "wrong_result", "CRASH": "crash",
        "REFUSE": "refused", "HANG": "run_timeout",
    }  # fmt: skip
    assert found["WRONG"]["message"].startswith("slope[4, 7] is ")
    assert found["LATE"]["message"].startswith("after it was timed: slope[4, 7] is ")
    assert found["CRASH"]["message"] == "its process ended with status -11"
    assert found["REFUSE"]["message"] == "Halide's code refuses: cuLaunchKernel failed"
    for name in ("NONE", "HOST"):
        assert found[name]["device"] == "A fake GPU"
        assert all(time_ns > 0 for time_ns in (*found[name]["warm_ns"], *found[name]["cold_ns"]))
    # What has a line is not measured again; one that was cut off counts for nothing.
    kept = [json.dumps(line) + "\n" for line in lines if line["peer"] != "NONE"]
    (folder / "peers.jsonl").write_text("".join(kept) + '{"problem": "slope", "pe')
    assert run(folder, machine).stdout == "slope: NONE\n"
    again = (folder / "peers.jsonl").read_text().splitlines(keepends=True)
    assert again[:-1] == kept and json.loads(again[-1])["peer"] == "NONE"


def test_ratios_are_those_of_the_fastest_scheduler_and_what_is_missing_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = json.loads((folder / "slope" / "problem.json").read_text())
    entries = [
        {"digest": str(n), "predicted_ns": 1000.0 - n, "bound_ns": 10.0, "launches": []} for n in range(3)
    ]
    (folder / "slope" / "problem.json").write_text(json.dumps({**problem, "implementations": entries}))
    empty = report(folder)
    assert (empty.device, empty.mean) == ("", None)
    (application,) = empty.applications
    assert (application.absent, application.ratio, application.predicted_ns) == (NOT_YET, None, 998.0)
    assert [p.absent for p in application.peers] == [*[NOT_YET] * len(FAULTS), "no schedule in 1 s"]
    show(empty, console())
    assert "has been measured yet: `python run_benchmark.py` in it does" in capsys.readouterr().out
    assert empty.as_document()["device"] is None

    about = {"problem": "slope", "device": "H100"}
    peers = [
        {**about, "peer": "NONE", "warm_ns": [900.0, 1200.0, 9999.0], "cold_ns": [2000.0]},
        {**about, "peer": "HOST", "warm_ns": [1500.0], "cold_ns": [1900.0]},
        {**about, "peer": "LATE", "warm_ns": [1.0], "cold_ns": [1.0], "device": "V100"},
        {"problem": "slope", "peer": "CRASH", "failure": "crash", "message": "it ended"},
    ]
    write_lines(folder / "peers.jsonl", *peers)
    early = report(folder)
    assert (early.device, early.results, early.applications[0].best) == ("H100", None, ("NONE", 1200.0))
    device_line = {
        "device": {"name": "H100", "compute_capability": "9.0", "driver": "13.0", "sms": 132},
        "limits": {"copy_bytes_per_ns": 2.0},
    }
    timed = [
        {"problem": "slope", "digest": str(n), "warm_ns": [warm] * 9, "cold_ns": [700.0], "sm_mhz": None}
        for n, warm in enumerate((800.0, 600.0))
    ]
    failed = {"problem": "slope", "digest": "2", "failure": "crash", "message": ""}
    write_lines(folder / "results.jsonl", device_line, *timed, failed)
    made = report(folder)
    (application,) = made.applications
    ours = application.ours
    assert ours is not None
    assert (ours.timing.time_ns, ours.cold_ns, ours.predicted_ns) == (600.0, 700.0, 999.0)
    assert (ours.measured, ours.failed, application.asked) == (3, 1, 3)
    assert (application.best, application.ratio, made.mean) == (("NONE", 1200.0), 2.0, 2.0)
    said = {peer.name: peer.absent for peer in application.peers if peer.absent}
    assert said == {
        "WRONG": NOT_YET, "REFUSE": NOT_YET, "HANG": NOT_YET, "CRASH": "it ended",
        "LATE": "measured on another GPU: V100", "none": "no schedule in 1 s",
    }  # fmt: skip
    show(made, console())
    out = capsys.readouterr().out
    assert "H100, 132 SMs" in out and "geometric mean: 2.00" in out
    assert json.loads(json.dumps(made.as_document()))["applications"][0]["ratio"] == 2.0


def test_a_folder_is_written_and_without_a_gpu_and_results_it_is_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "there"
    flags = ["--time", "1s", "--top", "2", "--schedulers"]
    assert program.main(["write", "toy_add", "-o", str(folder), *flags]) == 0
    assert "of 1 pipeline; there, `python run_benchmark.py` measures them" in capsys.readouterr().err
    ran = run(folder)
    assert (ran.returncode, ran.stderr.count("no GPU can be used here")) == (5, 1)
    for name in ("run_benchmark.py", "runner.py", "buffers.py", "signature.py"):
        assert not any(
            f"from {package}" in (folder / name).read_text() for package in ("spacedsl", "benchmarks")
        )
    document = tmp_path / "found.json"
    assert program.main(["report", str(folder), "--json", str(document)]) == 0
    assert "has been measured yet" in capsys.readouterr().out
    found = json.loads(document.read_text())
    assert found["device"] is None and found["applications"][0]["application"] == "toy_add"


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["write", "nothing", "-o", "new"], 2, "no application is called nothing; known: toy_add"),
        (["write", "blur", "-o", "new", "--schedulers", "Adams2019"], 2, "invalid choice: 'Adams2019'"),
        (["write", "blur", "-o", "new", "--device", "h1"], 2, "h1"),
        (["write", "blur", "-o", "measured"], 2, "measured holds what was measured with an earlier batch"),
        (["write", "blur", "-o", "other"], 2, "other holds other things: take another folder"),
        (["write", "blur", "-o", "file"], 2, "file: a file"),
        (["write", "blur", "-o", "new"], 5, "halide is not installed for"),
        (
            ["write", "blur", "-o", "new", "--runs", "other", "--schedulers"],
            2,
            "there is no run of it for a GPU",
        ),
        (["report", "nowhere"], 2, "nowhere: there is no such folder"),
        (["report", "other"], 2, "other/batch.json: there is no such file"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_explored(
    flags: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("measured", "other"):
        (tmp_path / name).mkdir()
    for name in ("measured/peers.jsonl", "other/notes", "file"):
        (tmp_path / name).touch()
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '{}'\n")
    python.chmod(0o755)
    without = ["--peers-python", str(python)] if flags[0] == "write" else []
    with pytest.raises(SystemExit) as ended:
        arguments.run(lambda: program.main([*flags, *without]))
    assert ended.value.code == code
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_target_is_one_that_halide_knows_and_the_gpu_runs() -> None:
    targets = {
        path.stem: target_of(load_gpu(DEVICES / path.name)) for path in map(Path, ("a100.yaml", "h100.yaml"))
    }
    assert {name: target.rpartition("_")[2] for name, target in targets.items()} == {
        "a100": "80",
        "h100": "86",
    }
    assert schedulers_for(device()).keys() == set(NAMES)


@pytest.mark.parametrize("name", ["Anderson2021", "Li2018"])
def test_halide_compiles_for_a_gpu_that_is_not_there(name: str, kernel: PipelineFile, tmp_path: Path) -> None:
    workplace = halide.workplace(peers_python(PEERS_PYTHON), 60.0, target_of(device()))
    if not workplace.version:
        pytest.skip("halide is not installed")
    write_batch(tmp_path / "there", device(), [BatchedProblem(kernel, (), ())], 5, has_cases=False)
    folder = tmp_path / "there" / "slope"
    (made,) = add_halide(folder, [schedulers_for(device())[name]], workplace, lambda words: None)
    assert made.absent == ""
    library = (folder / "halide" / f"{name}.so").read_bytes()
    assert b".target sm_86" in library and b".visible .entry" in library and b"use_context" in library
    assert ".gpu" in (folder / "halide" / f"{name}.schedule").read_text()
    assert sorted(path.suffix for path in (folder / "halide").glob(f"{name}.*")) == [
        ".json",
        ".schedule",
        ".so",
    ]


def write_lines(path: Path, *lines: object) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

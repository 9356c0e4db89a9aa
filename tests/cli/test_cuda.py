"""`explore --target cuda` on a machine without a GPU: what a user sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacedsl import api
from spacedsl.api.characterizing import GpuCharacterization
from spacedsl.codegen.cuda import characterize
from spacedsl.codegen.cuda.batches.driver import Device
from spacedsl.kernels.device import gpus, load_gpu
from tests.cli.conftest import ROOT
from tests.cli.running import run

MATMUL = ROOT / "kernels" / "library" / "matmul.yaml"
SMALL = ("--size", "m=8,n=16,k=4", "--target", "cuda")


def test_what_is_found_is_predicted_checked_and_kept(tmp_path: Path, machine: Path) -> None:
    ran = run("explore", MATMUL, *SMALL, "--device", "h100", "-n", 3, "--runs", tmp_path)
    assert ran.code == 0, ran.err
    assert "NVIDIA H100 SXM5 80 GB, 132 SMs" in ran.out
    assert "(predicted: no GPU has run it)" in ran.out
    assert "spacedsl.load" not in ran.out
    (measure,) = (line for line in ran.out.splitlines() if line.startswith("measure "))
    assert measure.endswith(f"batch {next(tmp_path.iterdir())} -o batch, for a machine with a GPU")
    (best,) = tmp_path.glob("*/best.cu")
    assert "__global__ void" in best.read_text()
    replayed = run("replay", best.with_name("best.json"), "--json")
    assert replayed.code == 0, replayed.err
    document = json.loads(replayed.out)
    assert (document["identical"], document["verified"]) == (True, True)
    emitted = run("emit", best.with_name("best.json"))
    assert emitted.out.rstrip() == best.read_text().rstrip()
    launcher = run("emit", best.with_name("best.json"), "--host", "python").out
    assert "def matmul(A, B):" in launcher
    assert best.read_text() in launcher
    written = run("batch", best.with_name("best.json"), "-o", tmp_path / "batch")
    assert written.code == 0, written.err
    assert "1 implementation of 1 kernel;" in written.err
    (entry,) = json.loads((tmp_path / "batch" / "matmul" / "problem.json").read_text())["implementations"]
    assert entry["launches"]
    resumed = run("resume", best.parent, "-n", 2, "--json")
    assert json.loads(resumed.out)["evaluations"] == 5


def test_a_gpu_has_to_be_named_and_to_be_known(machine: Path) -> None:
    ran = run("explore", MATMUL, *SMALL)
    assert ran.code == 2
    assert "for which GPU? name one with --device: a100, h100, h200" in ran.err
    ran = run("explore", MATMUL, *SMALL, "--device", "h10")
    assert ran.code == 2
    assert "no GPU is called `h10`; did you mean `h100`?" in ran.err
    ran = run("explore", MATMUL, "--device", "h100")
    assert ran.code == 2
    assert "no device can be named, unless the target is a GPU (--target cuda)" in ran.err


def test_the_size_of_a_kernel_does_not_matter_to_its_check(tmp_path: Path, machine: Path) -> None:
    large = ("--size", "m=65536,n=65536,k=65536", "--target", "cuda", "--device", "h100")
    briefly = ("-n", 2, "--policy", "uniform")
    ran = run("explore", MATMUL, *large, *briefly, "--runs", tmp_path / "runs", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["valid"] > 0


def test_what_a_gpu_is_like_is_shown() -> None:
    ran = run("device", "show", "k4000")
    assert ran.code == 0
    assert "NVIDIA Quadro K4000: 4 SMs of compute capability 3.0 at 0.81 GHz, 1.2 TFLOP/s of f32" in ran.out
    assert "NVIDIA H200 SXM 141 GB  (gpu, 132 SMs)" in run("device", "list").out


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_figures_of_a_gpu_are_shown_where_its_description_cannot_be_written(
    flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    h100 = load_gpu(gpus()["h100"])
    found = GpuCharacterization("A GPU", h100, (characterize.Figure("clock_ghz", 1.0, 2.0, True),), h100)
    monkeypatch.setattr(api, "characterize_gpu", lambda *_: found)
    measure = ("device", "characterize", "--target", "cuda", *flags)
    ran = run(*measure, "-o", tmp_path)
    assert ran.code == 2
    assert "clock_ghz" in ran.out
    assert f"{tmp_path}: this is a folder, not a file" in ran.err
    file = tmp_path / "own.yaml"
    assert run(*measure, "-o", file).code == 0
    (tmp_path / "other").touch()
    assert file.stat().st_mode == (tmp_path / "other").stat().st_mode
    assert load_gpu(file) == h100


def test_a_gpu_is_measured_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(characterize, "Device", lambda: Device("libcuda-that-is-not-there.so"))
    ran = run("device", "characterize", "--target", "cuda")
    assert ran.code == 5
    assert "there is no GPU to measure here" in ran.err
    assert run("device", "characterize", "--device", "h100").code == 2
    assert run("device", "characterize", "--target", "gpu").code == 2


def test_the_bound_of_a_gpu_is_explained() -> None:
    ran = run("explain", MATMUL, "--bound", "--device", "h100")
    assert ran.code == 0, ran.err
    assert "33.10 us  f32 units: 32,096 ns for fma" in ran.out

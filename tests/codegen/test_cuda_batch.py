"""Offline batches: what they hold, and what their runner does with it on a device that is a twin."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from spacedsl.codegen.cuda.batch import Batched, write_batch
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.twin import build_twin
from spacedsl.codegen.implementation import CandidateImplementation
from spacedsl.codegen.names import entry_name
from spacedsl.codegen.verify import verify
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.grids import device, random_candidates, space_of
from tests.codegen.kernels import axpy

COUNT = 2


@pytest.fixture(scope="module")
def kernel() -> KernelFile:
    return axpy(256, "{i: [[4, 8], [2, 4]]}")


@pytest.fixture(scope="module")
def batch(kernel: KernelFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch")
    candidates = random_candidates(space_of(kernel), COUNT, seed=1)
    programs = [verify(lower_grids(kernel.backbone, CandidateImplementation(c))) for c in candidates]
    entries = [Batched(program, 1000.0 + n, 10.0) for n, program in enumerate(programs)]
    assert write_batch(folder, kernel, device(), entries, seed=3) == COUNT
    return folder


class TwinDevice:
    """Memory of the host in place of a device's; the first kernel of an implementation runs all of it."""

    name, title, driver, compute_capability = "a twin", "this CPU", "none", "9.0"

    def __init__(self, kernel: KernelFile, folder: Path) -> None:
        self.kernel, self.folder, self.kept = kernel, folder, list[np.ndarray[Any, Any]]()
        self.loaded = 0

    def allocate(self, nbytes: int) -> int:
        self.kept.append(np.zeros(nbytes, np.uint8))
        return int(self.kept[-1].ctypes.data)

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        ctypes.memmove(address, np.ascontiguousarray(array).ctypes.data, array.nbytes)

    def download(self, array: np.ndarray[Any, Any], address: int) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        ctypes.memset(address, byte, nbytes)

    def load(self, cubin: bytes) -> Path:
        (path,) = (p for p in self.folder.glob("implementations/*.cubin") if p.read_bytes() == cubin)
        return path

    def function(self, module: Path, name: str, shared: int) -> tuple[ctypes.CDLL, str]:
        # What has been loaded from a path is not loaded from it again.
        self.loaded += 1
        path = module.with_suffix(f".{id(self)}-{self.loaded}.so")
        library = build_twin(module.with_suffix(".cu").read_text(), path)
        return ctypes.CDLL(str(library)), name

    def launch(
        self, function: tuple[ctypes.CDLL, str], blocks: int, threads: int, shared: int, arguments: list[Any]
    ) -> None:
        library, name = function
        pointers = [ctypes.c_void_p(int(a)) for a in arguments if isinstance(a, np.uint64)]
        scalars = [ctypes.c_float(float(a)) for a in arguments if isinstance(a, np.float32)]
        assert len(pointers) + len(scalars) == len(arguments)
        assert name.endswith("_0") and len(pointers) == len(self.kernel.backbone.tensors)
        getattr(library, entry_name(self.kernel.name))(*pointers, *scalars)

    def event(self) -> list[float]:
        return [0.0]

    def record(self, event: list[float]) -> None:
        event[0] += 1.0

    def elapsed_ns(self, start: list[float], end: list[float]) -> float:
        return 1e6

    def synchronize(self) -> None:
        pass


@pytest.fixture
def runner(batch: Path) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("run_batch", batch / "run_batch.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module


def test_what_is_right_is_timed_and_what_is_wrong_is_said_to_be(
    batch: Path, runner: ModuleType, kernel: KernelFile
) -> None:
    document = json.loads((batch / "batch.json").read_text())
    arena = runner.Arena(TwinDevice(kernel, batch), document)
    for entry in document["implementations"]:
        found = runner.measure(arena, entry)
        assert set(found) == {"warm_ns", "cold_ns"}
        assert all(sample == 1e6 for sample in found["cold_ns"])
    first = document["implementations"][0]
    code = (batch / first["cubin"]).with_suffix(".cu")
    sound = code.read_text()
    code.write_text(sound.replace("alpha * ", "2.0f * alpha * "))
    assert code.read_text() != sound
    arena = runner.Arena(TwinDevice(kernel, batch), document)
    try:
        assert runner.measure(arena, first)["failure"] == "wrong_result"
    finally:
        code.write_text(sound)


def test_without_a_gpu_it_is_said_so(batch: Path) -> None:
    command, hidden = [sys.executable, "run_batch.py"], {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(command, cwd=batch, capture_output=True, text=True, check=False, env=hidden)
    assert ran.returncode == 5
    assert "no GPU can be used here" in ran.stderr
    assert "Traceback" not in ran.stderr

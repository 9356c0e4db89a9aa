"""Launchers in Python: what they print runs, on a PyCUDA whose kernels are twins, and is right."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacedsl.codegen.cuda.launcher import print_launcher
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from tests.codegen.cuda.fake_pycuda import modules
from tests.codegen.cuda.grids import random_candidates, space_of

LIBRARY = Path("kernels/library")


def launcher(
    kernel: KernelFile, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int = 2
) -> dict[str, Any]:
    (candidate,) = random_candidates(space_of(kernel), 1, seed=2)
    program = verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))
    for name, module in modules(folder).items():
        monkeypatch.setitem(sys.modules, name, module)
    names: dict[str, Any] = {}
    exec(compile(print_launcher(program, "9.0"), "launcher.py", "exec"), names)
    return names


def test_it_takes_arrays_and_parameters_and_gives_an_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = load_kernel(LIBRARY / "gesummv.yaml", {"m": 24, "n": 16}).made_for("gpu")
    call = launcher(kernel, tmp_path, monkeypatch)["gesummv"]
    random = np.random.default_rng(1)
    a, b, x = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((24, 16), (24, 16), (16,)))
    assert (call(a, b, x, 2.0, 3.0) == 2 * (a @ x) + 3 * (b @ x)).all()
    with pytest.raises(ValueError, match=r"A has the shape \(24, 16\), not \(16, 24\)"):
        call(a.T, b, x, 2.0, 3.0)


def test_strides_are_the_launchers_own_business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load_kernel(LIBRARY / "matmul_strided.yaml", {"m": 8, "n": 12, "k": 4}).made_for("gpu")
    call = launcher(kernel, tmp_path, monkeypatch)["matmul_strided"]
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((8, 4), (4, 12)))
    assert (call(a, b) == a @ b).all()


def test_what_lies_between_kernels_is_the_launchers_own_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = load_kernel(LIBRARY / "softmax.yaml", {"m": 8, "n": 16}).made_for("gpu")
    call = launcher(kernel, tmp_path, monkeypatch)["softmax"]
    x = np.random.default_rng(1).normal(size=(8, 16))
    expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    assert np.allclose(call(x), expected, rtol=1e-4)

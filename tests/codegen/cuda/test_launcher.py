"""Launchers in Python: what they print runs, on a PyCUDA whose kernels are twins, and is right."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from spacedsl.codegen.cuda.launcher import print_launcher
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import elements
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from tests.codegen.cuda.fake_pycuda import modules
from tests.codegen.cuda.grids import random_candidates, space_of
from tests.codegen.kernels import parse
from tests.codegen.pipeline import on_gpus
from tests.kernels.pipeline.files import pipeline

LIBRARY = Path("kernels/library")


def launcher(kernel: KernelFile, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (candidate,) = random_candidates(space_of(kernel), 1, seed=2)
    program = lower_grids(kernel.backbone, CandidateImplementation(candidate))
    return loaded(verify(program), folder, monkeypatch)


def loaded(program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
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


TWICE = """
kernel: twice
backbone: linalg
tensors:
  x: {{dtype: {dtype}, shape: [4]}}
  y: {{dtype: {dtype}, shape: [4], output: true}}
params: {{factor: {factor}}}
compute: ['y[i] = x[i] * factor']
"""


def test_floats_become_bf16_and_bits_stay_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = launcher(parse(TWICE.format(dtype="bf16", factor="f32")).made_for("gpu"), tmp_path, monkeypatch)[
        "twice"
    ]
    values = np.array([0.5, 1.5, -2.501, np.inf], np.float32)
    expected = (2 * values.astype(ml_dtypes.bfloat16)).astype(ml_dtypes.bfloat16)
    bits = elements(DType.BF16, values)
    for given in (values, values.astype(np.float64), values.astype(ml_dtypes.bfloat16), bits):
        assert (call(given, 2.0).view(ml_dtypes.bfloat16) == expected).all()
    assert np.isnan(call(np.full(4, np.nan, np.float32), 2.0).view(ml_dtypes.bfloat16)).all()
    with pytest.raises(TypeError, match="x is bf16: bits are uint16, numbers floating-point, not int64"):
        call([1, 2, 3, 4], 2.0)


def test_numbers_of_another_kind_and_what_does_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = launcher(parse(TWICE.format(dtype="i32", factor="i32")).made_for("gpu"), tmp_path, monkeypatch)[
        "twice"
    ]
    assert call([1, 2, 3, -4], 3).tolist() == [3, 6, 9, -12]
    with pytest.raises(TypeError, match="x is of the dtype int32, to which float64 is not converted"):
        call([0.9, 1.9, 2.9, 3], 3)
    with pytest.raises(TypeError, match="factor is of the dtype int32"):
        call([1, 2, 3, 4], 1.5)
    with pytest.raises(ValueError, match="x is of the dtype int32, which does not hold 8589934592"):
        call([1, 2, 3, 1 << 33], 3)


def test_names_of_the_module_and_of_python_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TWICE.format(dtype="f32", factor="f32").replace(
        "x[i] * factor", "np[i] * np_[i] * lambda_ * factor"
    )
    text = text.replace("  x: {", "  np_: {dtype: f32, shape: [4]}\n  np: {").replace(
        "{factor", "{lambda_: f32, factor"
    )
    call = launcher(parse(text).made_for("gpu"), tmp_path, monkeypatch)["twice"]
    assert call([1, 2, 3, 4], [5, 6, 7, 8], 2.0, 0.5).tolist() == [5, 12, 21, 32]


def test_parameters_of_every_type_are_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyCUDA has no word for truth values, nor for floats of 16 bits."""
    types = ("bool", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64")
    params = ", ".join(f"p_{t}: {{dtype: {t}, value: {1 if t == 'bool' else 3}}}" for t in types)
    stages = "\n".join(f"{t}_(x) = select(b(x), p_{t}, p_{t})" for t in types)
    outputs = ", ".join(f"{t}_: {{x: 4}}" for t in types)
    text = f"params: {{{params}}}\n"
    file = pipeline(stages, f"{{{outputs}}}", "{b: {dtype: bool, rank: 1}}", text)
    program = on_gpus.grids_of(file, next(iter(on_gpus.drawn(file, 1, 1))))
    call = loaded(program, tmp_path, monkeypatch)[file.algorithm.name]
    given = {f"p_{t}": 1 if t == "bool" else 3.0 if "f" in t else 3 for t in types}
    given["p_bool"] = True
    found = call(np.ones(4, bool), **given)
    for dtype, values in zip(types, found, strict=True):
        held = values.view(ml_dtypes.bfloat16) if dtype == "bf16" else values
        assert held.tolist() == [True if dtype == "bool" else 3] * 4, dtype

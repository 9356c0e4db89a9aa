"""What is given to users compiles as it stands with `nvcc`, host function and launches included."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from tests.codegen.cuda.grids import random_candidates, space_of
from tests.codegen.cuda.test_golden import LISTS, program
from tests.codegen.kernels import parse
from tests.codegen.pipeline.on_gpus import drawn, grids_of
from tests.codegen.pipeline.test_cases import cases_of

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="the toolkit of CUDA is not here")


def compile_file(made: Program, folder: Path) -> None:
    (folder / "best.cu").write_text(print_cuda(made), encoding="utf-8")
    command = ["nvcc", "-arch=sm_90", "-c", "best.cu"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", ["dot-blocks", "matmul-pipeline", "matmul-tensor", "softmax-registers"])
def test_kernels_of_linear_algebra_compile(name: str, tmp_path: Path) -> None:
    golden = LISTS[name]
    compile_file(program(golden, golden.kernel_file(golden.test_sizes).made_for("gpu")), tmp_path)


@pytest.mark.parametrize("name", ["blur", "hist_eq"])
def test_pipelines_compile(name: str, tmp_path: Path) -> None:
    file, _ = cases_of(name)
    compile_file(grids_of(file, next(drawn(file, 5, 2))), tmp_path)


def test_names_of_what_cuda_declares_are_given_to_nothing(tmp_path: Path) -> None:
    """To a kernel, its tensors and parameters; operations have such names by themselves."""
    kernel = parse("""
kernel: norm
backbone: linalg
sizes: {n: 64}
tensors:
  float4: {dtype: f32, shape: [n]}
  stream: {dtype: f32, shape: [n]}
  error: {dtype: f32, shape: [n], output: true}
params: {rsqrt: f32}
compute:
  - error[i] = sqrt(exp(float4[i] * stream[i])) / rsqrt
""").made_for("gpu")
    (candidate,) = random_candidates(space_of(kernel), 1, seed=2)
    made = verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))
    compile_file(made, tmp_path)
    assert "cudaError_t k_norm(" in (tmp_path / "best.cu").read_text()

"""Twins under sanitizers: random implementations give them nothing to say, planted faults do.

An overflow is seen where it is computed, and GCC simplifies before it instruments, also where it does not
optimise: of `i * 1000000000 & 1` and `a + i * c - i * c` nothing is left that overflows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.cuda.checking import executed
from spacedsl.codegen.cuda.corners import PARTS_OF_TILES, on_corner
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.twin import build_twin
from spacedsl.codegen.pipeline.cases import make_cases as make_pipeline_cases
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import load_kernel
from tests.codegen.cuda.grids import random_candidates, space_of, twins
from tests.codegen.cuda.sanitized import FLAGS, Call, complaints, preloaded
from tests.codegen.kernels import parse
from tests.codegen.pipeline.on_gpus import grids_of, moderate
from tests.codegen.runs import brief_case
from tests.kernels.pipeline.cases import named
from tests.kernels.samples import LIBRARY

pytestmark = pytest.mark.skipif(preloaded() is None, reason="the compiler has no sanitizers to load before")

SAMPLE = {"matmul": {"m": 64, "n": 72, "k": 48}, "softmax": {"m": 12, "n": 40}}
COUNT = 3


@pytest.mark.parametrize("name", SAMPLE)
def test_sanitizers_have_nothing_to_say_of_random_implementations(name: str, tmp_path: Path) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", SAMPLE[name], "gpu")
    programs: list[Program] = []
    calls = []
    for candidate in random_candidates(space_of(kernel), 10 * COUNT, seed=8):
        smaller, made = on_corner(kernel, candidate, PARTS_OF_TILES)
        program = verify(lower_grids(smaller.backbone, made))
        if executed(program.body) < 1 << 20:
            calls.append(Call.of(f"program_{len(programs)}", smaller, brief_case(smaller)))
            programs.append(program)
        if len(programs) == COUNT:
            break
    assert len(programs) == COUNT
    assert complaints(twins(programs, tmp_path, *FLAGS), calls, (0, 1, 3)) == ""


PIPELINES = ("a product", "a scan over two ranges", "a histogram of each column", "upsampling")
"""With what threads share, sums that they exchange or add up in memory, and edges of tiles."""


def test_sanitizers_have_nothing_to_say_of_random_schedules(tmp_path: Path) -> None:
    programs: list[Program] = []
    calls = []
    for name in PIPELINES:
        file = named(name)
        (case, *_) = make_pipeline_cases(file, np.random.default_rng(3))
        for candidate in moderate(file, 2, 6, 1e5):
            calls.append(Call.of_pipeline(f"program_{len(programs)}", file, case))
            programs.append(grids_of(file, candidate))
    assert len(programs) == 2 * len(PIPELINES)
    assert complaints(twins(programs, tmp_path, *FLAGS), calls, (0, 1, 3)) == ""


COPY = """
kernel: copied
backbone: linalg
sizes: {n: 128}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n], output: true}
compute:
  - y[i] = 2 * x[i]
"""

SOUND = """
extern "C" __global__ void copied_0(const float *x, float *y) {
  extern __shared__ float4 shared_memory[];
  float *const tile = (float *)shared_memory;
  const int i0 = blockIdx.x;
  const int i1 = threadIdx.x;
  float4 kept[2];
  *(float4 *)&tile[i1 * 4] = *(const float4 *)&x[i0 * 64 + i1 * 4];
  __syncthreads();
  kept[i1 % 2] = *(const float4 *)&tile[60 - i1 * 4];
  const float4 v = kept[i1 % 2];
  y[i0 * 64 + 60 - i1 * 4] = 2 * v.x;
  y[i0 * 64 + 61 - i1 * 4] = 2 * v.y;
  y[i0 * 64 + 62 - i1 * 4] = 2 * v.z;
  y[i0 * 64 + 63 - i1 * 4] = 2 * v.w;
}

extern "C" void copied(const float *x, float *y) {
  LAUNCH(copied_0, 2, 16, 256, 0, x, y);
}
"""

FAULTS = {
    "beyond an array": ("&x[i0 * 64 + i1 * 4]", "&x[i0 * 64 + i1 * 4 + 4]", "heap-buffer-overflow"),
    "before an array": ("y[i0 * 64 + 60", "y[i0 * 64 + 56", "heap-buffer-overflow"),
    "beyond what a block shares": ("&tile[i1 * 4]", "&tile[i1 * 4 + 4]", "use-after-poison"),
    "beyond what a thread has": ("kept[i1 % 2] = ", "kept[i1 % 2 + i1 / 15] = ", "insufficient space"),
    "an index that comes back to its element": (
        "&x[i0 * 64 + i1 * 4]", "&x[i0 * 64 + i1 * 1073741825 * 4]", "signed integer overflow"
    ),
    "a number that nobody uses": (
        "i1 = threadIdx.x;", "i1 = threadIdx.x, far = i1 * 1000000000;", "signed integer overflow"
    ),
    "a vector that begins anywhere": ("&x[i0 * 64 + i1 * 4]", "&x[i0 * 63 + i1 * 4]", "misaligned address"),
}  # fmt: skip


def said_of(code: str, folder: Path) -> str:
    kernel = parse(COPY)
    library = build_twin(code, folder / "copied.so", extra_flags=FLAGS)
    return complaints(library, [Call.of(entry_name(kernel.name), kernel, brief_case(kernel))], (0, 1))


def test_sanitizers_have_nothing_to_say_of_a_sound_kernel(tmp_path: Path) -> None:
    assert said_of(SOUND, tmp_path) == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_sanitizers_see_a_fault(fault: str, tmp_path: Path) -> None:
    old, new, wanted = FAULTS[fault]
    assert old in SOUND
    assert wanted in said_of(SOUND.replace(old, new), tmp_path)

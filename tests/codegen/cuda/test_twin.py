"""The twin of CUDA code on a CPU sees what is wrong with it: faults are planted in a sound kernel."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.cuda.twin import build_twin

N = 16

SOUND = """
extern "C" __global__ void __launch_bounds__(96) product_0(const float *A, const float *B, float *C) {
  extern __shared__ float4 shared_memory[];
  float *const a = (float *)shared_memory;
  float *const b = (float *)(shared_memory + 16);
  const int i0 = blockIdx.x / 2;
  const int j0 = blockIdx.x % 2;
  const int i1 = threadIdx.x / 8;
  const int j1 = threadIdx.x % 8;
  float sum = 0.0f;
  for (int p0 = 0; p0 < 2; ++p0) {
    __syncthreads();
    if (threadIdx.x < 64) {
      a[i1 * 8 + j1] = A[i0 * 128 + i1 * 16 + p0 * 8 + j1];
      b[i1 * 8 + j1] = B[p0 * 128 + i1 * 16 + j0 * 8 + j1];
    }
    __syncthreads();
    for (int p1 = 0; p1 < 8; ++p1) {
      sum = a[i1 * 8 + p1] * b[p1 * 8 + j1] + sum;
    }
  }
  if (threadIdx.x < 64) {
    C[i0 * 128 + i1 * 16 + j0 * 8 + j1] = sum;
  }
}

extern "C" void product(const float *A, const float *B, float *C) {
  LAUNCH(product_0, 4, 96, 512, 0, A, B, C);
}
"""
"""Of 96 threads, 64 have an element each."""


def difference(code: str, folder: Path, order: int) -> float | int:
    """The largest one from NumPy; the signal that ended the process, where one did, below zero."""
    library = build_twin(code, folder / f"twin-{order}.so", order=order)
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 5, (N, N)).astype(np.float32) for _ in range(2))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(2)
        c = np.full((N + 4, N), np.nan, np.float32)
        function = ctypes.CDLL(str(library)).product
        function(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)))
        worst = np.nan_to_num(np.abs(c[:N] - a @ b), nan=np.inf).max()
        os.write(write, repr(float(worst)).encode())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as answer:
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else float(answer.read())


ORDERS = range(4)


@pytest.mark.parametrize("order", ORDERS)
def test_a_sound_kernel_is_right_in_every_order_of_its_threads(order: int, tmp_path: Path) -> None:
    assert difference(SOUND, tmp_path, order) == 0


FAULTS = {
    "no barrier before what is read": ("    __syncthreads();\n    for", "    for"),
    "no barrier before what is written again": ("++p0) {\n    __syncthreads();", "++p0) {"),
    "an index that is off by one": ("b[p1 * 8 + j1]", "b[p1 * 8 + j1 + 1]"),
    "no predicate": ("if (threadIdx.x < 64) {\n    C[", "{\n    C["),
    "memory that is never filled": ("      a[i1 * 8 + j1] = ", "      if (j1 < 7) a[i1 * 8 + j1] = "),
    "a shared array that is too small": ("shared_memory + 16", "shared_memory + 12"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen_in_some_order(fault: str, tmp_path: Path) -> None:
    old, new = FAULTS[fault]
    assert SOUND.count(old) == 1
    found = [difference(SOUND.replace(old, new), tmp_path, order) for order in ORDERS]
    assert any(each != 0 for each in found)


def test_a_barrier_that_some_threads_do_not_come_to_ends_the_process(tmp_path: Path) -> None:
    code = SOUND.replace(
        "++p0) {\n    __syncthreads();", "++p0) {\n    if (threadIdx.x < 32) __syncthreads();"
    )
    assert code != SOUND
    assert difference(code, tmp_path, 0) == -signal.SIGABRT


def test_a_block_that_wants_more_memory_than_there_is_ends_the_process(tmp_path: Path) -> None:
    code = SOUND.replace("4, 96, 512", f"4, 96, {1 << 20}")
    assert difference(code, tmp_path, 0) == -signal.SIGABRT


# ---- Exchanges --------------------------------------------------------------------------------------------

EXCHANGED = """
extern "C" __global__ void __launch_bounds__(64) product_0(const float *A, const float *B, float *C) {
  const int element = blockIdx.x * 16 + threadIdx.x / 4;
  const int i = element / 16;
  const int j = element % 16;
  const int part = threadIdx.x % 4;
  float sum = 0.0f;
  for (int p = part; p < 16; p += 4) sum = A[i * 16 + p] * B[p * 16 + j] + sum;
  if (part < 2) sum = sum + __shfl_xor_sync(0x3u << (threadIdx.x & 30), sum, 1);
  if (part == 1) sum = 0.0f;
  sum = sum + __shfl_xor_sync(0xfu << (threadIdx.x & 28), sum, 1);
  sum = sum + __shfl_xor_sync(0xfu << (threadIdx.x & 28), sum, 2);
  if (part == 0) C[element] = sum;
}

extern "C" void product(const float *A, const float *B, float *C) {
  LAUNCH(product_0, 16, 64, 0, 0, A, B, C);
}
"""
"""Four threads add up an element; two of them begin, and have exchanged more than the others in the end."""

LAST = "sum = sum + __shfl_xor_sync(0xfu << (threadIdx.x & 28), sum, 2);"


@pytest.mark.parametrize("order", ORDERS)
def test_some_threads_of_a_warp_exchange_before_they_meet_the_others(order: int, tmp_path: Path) -> None:
    assert difference(EXCHANGED, tmp_path, order) == 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "fault",
    [
        f"if (part < 3) {LAST}",
        f"if (threadIdx.x < 62) {LAST} else __syncthreads();",
        LAST.replace("0xfu << (threadIdx.x & 28)", "0xfu << (threadIdx.x & 28) + part"),
        LAST.replace("0xfu << (threadIdx.x & 28)", "0x1u << threadIdx.x"),
    ],
    ids=["one is missing", "two wait for a barrier", "other masks", "not in its mask"],
)
def test_an_exchange_that_some_threads_do_not_come_to_ends_the_process(
    fault: str, order: int, tmp_path: Path
) -> None:
    assert EXCHANGED.count(LAST) == 1
    assert difference(EXCHANGED.replace(LAST, fault), tmp_path, order) == -signal.SIGABRT

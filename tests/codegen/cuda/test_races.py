"""A twin that is watched sees races, in every order of its threads and where all values are right."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.cuda.twin import build_twin
from tests.codegen.apart import ENDED, said_apart
from tests.codegen.cuda.sanitized import watched

pytestmark = pytest.mark.skipif(
    find_compiler().is_clang, reason="only GCC leaves out the library of a sanitizer"
)

ADDED = """
TWIN_UNSEEN static void added(float *place, float value) {
  twin_see(place, sizeof *place, TWIN_ADDS);
  *place += value;
}
"""

FRAME = """
namespace {name} {{
extern "C" __global__ void {name}_0(const float *in, float *out) {{
  extern __shared__ float4 shared_memory[];
  float *const s = (float *)shared_memory;
  const int t = threadIdx.x, b = blockIdx.x, own = b * 32 + t, other = b * 32 + 31 - t;
  {body}
}}
extern "C" void {name}(const float *in, float *out) {{ LAUNCH({name}_0, 2, 32, 256, 0, in, out); }}
}}
"""
"""Each of two blocks of 32 threads turns around its part of an array."""

SOUND = {
    "a_barrier_in_between": "s[t] = in[own]; __syncthreads(); out[own] = s[31 - t];",
    "its_own_elements": "s[t] = in[other]; s[t] += 0; out[own] = s[t];",
    "16_bits_beside_each_other": """
      uint16_t *const h = (uint16_t *)s;
      h[t] = (uint16_t)t; __syncthreads(); out[own] = in[b * 32 + h[31 - t]];""",
    "all_read_the_same": """
      s[t] = in[own]; __syncthreads(); out[own] = s[31 - t] + 0 * s[0]; __syncthreads(); if (!t) s[0] = 1;""",
    "a_copy_that_is_waited_for": """
      copy_ahead<4>(&s[t], &in[own]); commit_copies();
      wait_for_copies<0>(); __syncthreads(); out[own] = s[31 - t];""",
    "atomic_additions": "out[own] = in[other]; added(&out[64], 1);",
    "additions_and_barriers": """
      if (!t) s[0] = 0;
      __syncthreads(); added(&s[0], in[other]); __syncthreads(); out[own] = in[other] + 0 * s[0];""",
    "values_of_other_threads": "float x = in[own]; out[own] = in[other] + 0 * __shfl_xor_sync(~0u, x, 1);",
}

RACES = {
    "no_barrier": "s[t] = in[own]; out[own] = s[31 - t];",
    "written_again": "s[t] = in[own]; __syncthreads(); out[own] = s[31 - t]; s[t] = 0;",
}

RACES_THAT_CHANGE_NOTHING = {
    "threads_with_the_same_value": """
      s[t % 16] = in[b * 32 + t % 16]; s[t % 16 + 16] = in[b * 32 + t % 16 + 16];
      __syncthreads(); out[own] = s[31 - t];""",
    "a_vector_over_an_element": """
      s[t] = in[own]; __syncthreads(); out[own] = s[31 - t]; __syncthreads();
      if (t == 0) *(float4 *)s = *(const float4 *)in;
      if (t == 1) s[2] = in[2];""",
    "threads_with_the_same_vector": """
      s[t] = in[own]; __syncthreads(); out[own] = s[31 - t]; __syncthreads();
      *(float2 *)&out[own & ~1] = make_float2(s[31 - (t & ~1)], s[30 - (t & ~1)]);""",
    "blocks_with_the_same_value": "out[own] = in[other]; if (!t) out[64] = 1;",
    "what_another_block_has_written": "out[own] = in[other]; float x = b ? out[31 - t] : 0; s[t] = x;",
    "what_another_thread_has_written": "out[own] = in[other]; float x = out[own ^ 1]; s[t] = x;",
    "a_sum_that_others_add_to": "out[own] = in[other]; added(&out[64], 1); s[t] = out[64];",
    "an_addition_to_what_is_read": "out[own] = in[other]; s[t] = out[64]; added(&out[64], t == 31);",
    "an_addition_to_what_is_written": "out[own] = in[other]; if (!t) out[64] = 0; added(&out[64], 1);",
    "a_shuffle_in_between": """
      s[t] = in[own]; float x = __shfl_xor_sync(~0u, 0.0f, 1); out[own] = s[31 - t] + x;""",
    "a_copy_under_way": """
      copy_ahead<4>(&s[t], &in[own]); commit_copies(); __syncthreads();
      float x = s[31 - t]; wait_for_copies<0>(); __syncthreads(); out[own] = s[31 - t]; s[t + 32] = x;""",
}  # fmt: skip

ORDERS = range(4)


@pytest.fixture(scope="module", params=["watched", "plain"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    bodies = SOUND | RACES | RACES_THAT_CHANGE_NOTHING
    code = ADDED + "".join(FRAME.format(name=f"k_{name}", body=body) for name, body in bodies.items())
    flags = watched() if request.param == "watched" else ("-O0",)
    return build_twin(code, tmp_path_factory.mktemp(request.param) / "kernels.so", extra_flags=flags)


def said_of(library: Path, name: str, order: int) -> str:
    def run() -> Iterator[str]:
        loaded = ctypes.CDLL(str(library))
        ctypes.c_uint.in_dll(loaded, "twin_order").value = order
        given, out = np.arange(1, 65, dtype=np.float32), np.zeros(65, np.float32)
        loaded[f"k_{name}"](ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(out.ctypes.data))
        right = given.reshape(2, 32)[:, ::-1].ravel()
        yield "right" if np.array_equal(out[:64], right) else "wrong"

    return said_apart(run)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SOUND)
def test_what_barriers_keep_apart_is_no_race(library: Path, name: str, order: int) -> None:
    assert said_of(library, name, order) == f"right{ENDED}"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RACES | RACES_THAT_CHANGE_NOTHING)
def test_a_race_is_seen_in_every_order(library: Path, name: str, order: int) -> None:
    said = said_of(library, name, order)
    if "plain" not in str(library):
        assert said.startswith("race: thread ")
        assert said.endswith("signal 6")
    elif name in RACES_THAT_CHANGE_NOTHING:
        assert said == f"right{ENDED}"

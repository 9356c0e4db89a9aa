"""Halide's autoschedulers for a GPU, and the target that their code is compiled for.

In: the description of a GPU. Out: schedulers by name, a target in Halide's words. Both need no GPU here.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.pipelines.halide import Scheduler
from spacedsl.kernels.gpu_device import GpuDevice

NAMES = ("Anderson2021", "Li2018", "Mullapudi2016")

_HOST = "x86-64-linux-sse41-avx-avx2-f16c-fma"
"""What the machine with the GPU certainly has, whichever CPU that is."""

_CAPABILITIES = (30, 32, 35, 50, 61, 70, 75, 80, 86)
"""Those that Halide has names for. Its code is PTX, which the driver compiles for newer ones."""

_SHARED_BYTES, _THREADS = "25000", "128"
"""What Halide's own tests give Mullapudi2016 for the cache and the parallelism of a GPU."""


def target_of(device: GpuDevice) -> str:
    wanted = int(device.compute_capability.replace(".", ""))
    capability = max(known for known in _CAPABILITIES if known <= wanted)
    return f"{_HOST}-cuda-cuda_capability_{capability}"


def schedulers_for(device: GpuDevice) -> Mapping[str, Scheduler]:
    sms = str(device.sms)
    anderson = {
        "parallelism": sms,
        "shared_memory_sm_limit_kb": str(device.shared_bytes_per_sm >> 10),
        "active_block_limit": str(device.blocks_per_sm),
        "active_warp_limit": str(device.threads_per_sm // device.warp),
    }
    mullapudi = {
        "experimental_gpu_schedule": "1",
        "last_level_cache_size": _SHARED_BYTES,
        "parallelism": _THREADS,
    }
    parameters = {"Anderson2021": anderson, "Li2018": {"parallelism": sms}, "Mullapudi2016": mullapudi}
    return {name: Scheduler(name, name, parameters[name]) for name in NAMES}

"""Device descriptions for tests; code generation reads their threads, vectors and caches alone."""

from __future__ import annotations

import os

from spacedsl.kernels.device import ArithmeticRate, CpuDevice, MemoryLevel

DEVICE = CpuDevice(
    name="test",
    threads=len(os.sched_getaffinity(0)),
    vector_bytes=64,
    vector_registers=32,
    arithmetic=(ArithmeticRate(dtype="f32", lanes=16, instructions_per_ns=8),),
    memory=(MemoryLevel(name="L2", capacity_bytes=1 << 20, bytes_per_ns=100, bytes_per_ns_all=200),),
)

AVX2 = DEVICE.model_copy(update={"name": "test with AVX2", "vector_bytes": 32, "vector_registers": 16})

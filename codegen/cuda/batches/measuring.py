"""What a batch measures on a device: the limits of it, and implementations, which are checked first.

In: a device, the folder of a problem, its implementations. Out: what `run_batch.py` writes as lines: times in
nanoseconds, or why there are none. It is copied beside `run_batch.py` and needs NumPy and a driver.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spacedsl.codegen.cuda.batches.arena import Arena
from spacedsl.codegen.cuda.batches.driver import Device, DeviceError, Launch, Stopwatch

SLOW = 2.0
"""Of what takes so many times as long as the best, few samples are enough."""
COPIED_BYTES = 256 << 20
KINDS: dict[str, Any] = {
    "f16": np.float16, "bf16": lambda value: np.uint16(np.float32(value).view(np.uint32) >> 16),
    "f32": np.float32, "f64": np.float64, "bool": np.uint8,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
"""Of parameters, by the names of their types."""


def device_of(folder: Path) -> Device:
    """The GPU of this machine; raises `DeviceError` where there is none that the batch in `folder` is for."""
    batch, device = json.loads((folder / "batch.json").read_text()), Device()
    if device.compute_capability != batch["compute_capability"]:
        is_of = f"{device.name} is of compute capability {device.compute_capability}"
        wanted = f"the batch is for {batch['device']}, {batch['compute_capability']}"
        raise DeviceError(f"{is_of}, and {wanted}")
    return device


def limits(device: Device, stopwatch: Stopwatch, cubin: bytes) -> dict[str, float]:
    """What a launch costs, and the most that memory and arithmetic give: bytes, operations per nanosecond."""
    probes = device.load(cubin)
    kernel = {
        name: device.function(probes, name) for name in ("empty", "copy", "fma_f32", "fma_f64", "mma_bf16")
    }
    empty = device.prepare(kernel["empty"], 1, 32, 0, [])
    found = {
        f"launch_{cache}_ns": _median_ns(stopwatch, empty, is_cold=cache == "cold")
        for cache in ("warm", "cold")
    }
    to, source = (device.allocate(COPIED_BYTES) for _ in range(2))
    device.fill(source, 0, COPIED_BYTES)
    copies = [
        device.prepare(
            kernel["copy"], per_sm * device.sms, threads, 0,
            [np.uint64(to), np.uint64(source), np.int64(COPIED_BYTES // 16)],
        )
        for per_sm in (2, 4, 8, 16)
        for threads in (256, 512, 1024)
    ]  # fmt: skip
    found["copy_bytes_per_ns"] = 2 * COPIED_BYTES / min(_median_ns(stopwatch, each) for each in copies)
    rounds = 16
    probed: list[tuple[str, list[np.generic], int]] = [
        ("fma_f32", [np.float32(0.5)], 1024 * 256),
        ("fma_f64", [np.float64(0.5)], 1024 * 256),
    ]
    if float(device.compute_capability) >= 8:
        probed.append(("mma_bf16", [], 64 * 4096 * 256 // 32))
    for name, argument, operations in probed:
        launches = [
            device.prepare(
                kernel[name], per_sm * device.sms, 256, 0, [np.uint64(to), *argument, np.int32(rounds)]
            )
            for per_sm in (4, 8)
        ]
        times_ns = [_median_ns(stopwatch, each) for each in launches]
        found[f"{name}_flops_per_ns"] = max(
            operations * rounds * per_sm * device.sms / time_ns
            for per_sm, time_ns in zip((4, 8), times_ns, strict=True)
        )
    device.synchronize()
    for address in (to, source):
        device.free(address)
    device.unload(probes)
    return found


def _median_ns(stopwatch: Stopwatch, launch: Launch, *, is_cold: bool = False) -> float:
    return float(np.median(stopwatch.samples_ns(partial(stopwatch.device.launch, launch), is_cold=is_cold)))


# ---- Implementations ------------------------------------------------------------------------------------


class Implementation:
    """One, loaded."""

    def __init__(self, arena: Arena, entry: dict[str, Any]) -> None:
        self.arena, self.entry = arena, entry
        self.module = arena.device.load((arena.folder / entry["cubin"]).read_bytes())
        self.kernels = [
            arena.device.function(self.module, launch["name"], launch["shared"])
            for launch in entry["launches"]
        ]
        self.addresses = dict(arena.addresses)
        for scratch in entry["scratch"]:
            address = arena.room(scratch["name"], scratch["nbytes"])
            arena.device.fill(address, 0 if scratch["is_zeroed"] else 0xFF, scratch["nbytes"])
            self.addresses[scratch["name"]] = address

    def prepared(self, parameters: dict[str, float]) -> list[Launch]:
        """Its launches with their arguments, in order."""
        return [
            self.arena.device.prepare(
                kernel, launch["blocks"], launch["threads"], launch["shared"],
                [self._argument(name, parameters) for name in launch["arguments"]],
            )
            for kernel, launch in zip(self.kernels, self.entry["launches"], strict=True)
        ]  # fmt: skip

    def _argument(self, name: str, parameters: dict[str, float]) -> np.generic:
        if name in self.addresses:
            return np.uint64(self.addresses[name])
        value: np.generic = KINDS[self.arena.problem["parameters"][name]](parameters[name])
        return value

    def close(self) -> None:
        self.arena.device.unload(self.module)


def measure(arena: Arena, entry: dict[str, Any]) -> dict[str, Any]:
    """Checked on all test cases, then timed on the first one, warm and cold, and checked once more."""
    implementation = Implementation(arena, entry)
    cases = arena.cases
    for case in reversed(range(len(cases))):
        arena.enter(case)
        for launch in implementation.prepared(cases[case]["parameters"]):
            arena.device.launch(launch)
        arena.device.synchronize()
        wrong = arena.wrong(case)
        if wrong:
            implementation.close()
            return {"failure": "wrong_result", "message": wrong}
    launches = implementation.prepared(cases[0]["parameters"])
    found = timed(arena, partial(arena.device.launch_all, launches))
    implementation.close()
    return found


def timed(arena: Arena, call: Callable[[], object]) -> dict[str, Any]:
    """Of what queues its work and has been right on the first case: warm, cold, and checked once more."""
    times = {}
    for cache in ("warm", "cold"):
        name = f"{cache}_ns"
        best_ns = arena.best_ns.get(name, math.inf)
        times[name] = arena.stopwatch.samples_ns(call, is_cold=cache == "cold", enough_ns=SLOW * best_ns)
        arena.best_ns[name] = min(best_ns, float(np.median(times[name])))
    clock = arena.clock.sm_mhz()
    wrong = arena.wrong(0)
    if wrong:
        return {"failure": "wrong_result", "message": f"after it was timed: {wrong}"}
    return {**times, "sm_mhz": clock}

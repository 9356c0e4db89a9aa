"""What a batch measures on a device: the limits of it, and implementations, which are checked first.

In: a device, the folder of a problem, its implementations. Out: what `run_batch.py` writes as lines: times in
nanoseconds, or why there are none. It is copied beside `run_batch.py` and needs NumPy and a driver.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spacedsl.codegen.cuda.batches.driver import Array, Clock, Device, DeviceError, Launch, Stopwatch

SLOW = 2.0
"""Of what takes so many times as long as the best, few samples are enough."""
GUARD_BYTES = 4096
"""In front of each array and behind it."""
GUARD = 0xA5
COPIED_BYTES = 256 << 20
CHUNK = 1 << 22
"""Elements that are compared at a time."""


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
    for name, argument, operations in (
        ("fma_f32", [np.float32(0.5)], 1024 * 256),
        ("fma_f64", [np.float64(0.5)], 1024 * 256),
        ("mma_bf16", [], 64 * 4096 * 256 // 32),
    ):
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


# ---- One problem ---------------------------------------------------------------------------------------


def make_cases(folder: Path) -> None:
    """The test cases of a problem that came without them; raises `CasesError`."""
    command = [sys.executable, "-m", "spacedsl.codegen.cuda.batches.cases", str(folder)]
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        last = ran.stderr.strip().rpartition("\n")[2]
        raise CasesError(f"{folder.name} came without test cases, which need spacedsl here: {last}")


class CasesError(Exception):
    """There is nothing to check with."""


class Arena:
    """The arrays of a problem on the device, with guards around them that nothing may write to."""

    def __init__(self, device: Device, folder: Path) -> None:
        self.device, self.folder = device, folder
        self.problem: dict[str, Any] = json.loads((folder / "problem.json").read_text())
        if not (folder / "cases.json").exists():
            make_cases(folder)
        self.cases: list[dict[str, Any]] = json.loads((folder / "cases.json").read_text())
        with np.load(folder / "cases.npz") as arrays:
            self.arrays: dict[str, Array] = dict(arrays)
        self.sizes = {t["name"]: int(t["nbytes"]) for t in self.problem["tensors"]}
        self.addresses = {name: self._guarded(nbytes) for name, nbytes in self.sizes.items()}
        self.scratch: dict[str, tuple[int, int]] = {}
        self.stopwatch = Stopwatch(device)
        self.clock = Clock(device)
        self.best_ns: dict[str, float] = {}
        """Of the implementations that this process has timed: `warm_ns`, `cold_ns`."""

    def _guarded(self, nbytes: int) -> int:
        return self.device.allocate(nbytes + 2 * GUARD_BYTES) + GUARD_BYTES

    def room(self, name: str, nbytes: int) -> int:
        """The address of an array that an implementation has for itself."""
        address, size = self.scratch.get(name, (0, -1))
        if size < nbytes:
            if address:
                self.device.free(address - GUARD_BYTES)
            address, size = self._guarded(nbytes), nbytes
            self.scratch[name] = (address, size)
        return address

    def enter(self, case: int) -> None:
        """Inputs as they are in a case, outputs that are no numbers."""
        for name, address, nbytes in self._arrays():
            for end in (address - GUARD_BYTES, address + nbytes):
                self.device.fill(end, GUARD, GUARD_BYTES)
            if name in self.sizes and (array := self.arrays.get(f"{case}/in/{name}")) is not None:
                self.device.upload(address, array)
            elif name in self.sizes:
                self.device.fill(address, 0xFF, nbytes)

    def _arrays(self) -> Iterator[tuple[str, int, int]]:
        for name, nbytes in self.sizes.items():
            yield name, self.addresses[name], nbytes
        for name, (address, nbytes) in self.scratch.items():
            yield name, address, nbytes

    def wrong(self, case: int) -> str:
        """What is wrong with the outputs, or with what lies around an array; empty where nothing is."""
        about = self.cases[case]
        for tensor in self.problem["tensors"]:
            expected = self.arrays.get(f"{case}/out/{tensor['name']}")
            if expected is None:
                continue
            found = np.empty_like(expected)
            self.device.download(found, self.addresses[tensor["name"]])
            name = tensor["name"]
            own = self.arrays.get(f"{case}/tolerance/{name}")
            tolerance = np.asarray(about["tolerances"][name]) if own is None else own
            at = _difference(_elements(found, tensor), _elements(expected, tensor), tolerance, tensor)
            if at is not None:
                values = (_elements(flat, tensor)[at] for flat in (found, expected))
                got, wanted = (_numbers(value, tensor) for value in values)
                return f"{tensor['name']}{list(at)} is {got}, not {wanted} (inputs: {about['name']})"
        guard = np.empty(GUARD_BYTES, np.uint8)
        for name, address, nbytes in self._arrays():
            for end, where in ((address - GUARD_BYTES, "before"), (address + nbytes, "behind")):
                self.device.download(guard, end)
                if not (guard == GUARD).all():
                    return f"something was written {where} {name}"
        return ""


def _elements(flat: Array, tensor: dict[str, Any]) -> Array:
    """The elements of a tensor among all that lies between its first and its last one, as they are kept."""
    strides = [s * flat.itemsize for s in tensor["strides"]]
    return np.lib.stride_tricks.as_strided(flat, tensor["shape"], strides)


def _numbers(kept: Array, tensor: dict[str, Any]) -> Array:
    """What `bf16` and `f16` are kept as bits of; others as they are."""
    if tensor["dtype"] == "bf16":
        return (kept.astype(np.uint32) << 16).view(np.float32)
    if tensor["dtype"] == "f16":
        return kept.view(np.float16).astype(np.float32)
    return kept


def _difference(
    found: Array, expected: Array, tolerance: Array, tensor: dict[str, Any]
) -> tuple[int, ...] | None:
    """The index of the first element that is off by more than the tolerance; None where there is none.

    The tolerance is a number, or one for each element.
    """
    allowed = np.broadcast_to(tolerance, expected.shape)
    rows = max(1, CHUNK * len(expected) // max(expected.size, 1)) if expected.ndim else 1
    for first in range(0, len(expected) if expected.ndim else 1, rows):
        part = np.s_[first : first + rows] if expected.ndim else ()
        got, wanted = (_numbers(np.ascontiguousarray(a[part]), tensor) for a in (found, expected))
        if got.dtype.kind in "iu":
            # Integers of 64 bits are equal or not, and rounded where they are not.
            apart = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
            is_near = (got == wanted) | ((allowed[part] > 0) & (apart <= allowed[part]))
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                is_near = np.abs(got - wanted) <= allowed[part]
        if is_near.all():
            continue
        is_near |= (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        if not is_near.all():
            at = [int(n) for n in np.argwhere(~is_near.reshape(got.shape))[0]]
            return (first + at[0], *at[1:]) if expected.ndim else ()
    return None


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
        kinds: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
        value: np.generic = kinds[self.arena.problem["parameters"][name]](parameters[name])
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

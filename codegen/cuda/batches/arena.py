"""The arrays of a problem on a device, in which implementations run, and what judges their results.

In: a device, the folder of a problem. Out: an `Arena`: arrays with guards around them, inputs as they are in
a test case, what is wrong with the outputs. Test cases are kept on the device where it has the room, and
results compared there, so that gigabytes need not travel for each implementation; what is found to be wrong
is looked at on the host, which says where. It is copied beside `run_batch.py` and needs NumPy and a driver.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spacedsl.codegen.cuda.batches.driver import Array, Clock, Device, Stopwatch

GUARD_BYTES = 4096
"""In front of each array and behind it."""
GUARD = 0xA5
CHUNK = 1 << 22
"""Elements that the host compares at a time."""
KEPT_SHARE = 0.5
"""Of the memory that is free, what test cases may have."""
COMPARING_BLOCKS, COMPARING_THREADS = 1024, 256


def make_cases(folder: Path) -> None:
    """The test cases of a problem that came without them; raises `CasesError`."""
    command = [sys.executable, "-m", "spacedsl.codegen.cuda.batches.cases", str(folder)]
    environment = os.environ | {"PYTHONSAFEPATH": "1"}  # modules are not looked for in the working folder
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=environment)
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
        """Of an array that an implementation has for itself: its address, and how many bytes it has."""
        self._rooms: dict[str, int] = {}
        """The bytes that there are for it."""
        self.stopwatch = Stopwatch(device)
        self.clock = Clock(device)
        self.best_ns: dict[str, float] = {}
        """Of the implementations that this process has timed: `warm_ns`, `cold_ns`."""
        self._comparing = device.load((folder.parent / "comparing.cubin").read_bytes())
        self._flag = device.allocate(4)
        self._kept: dict[str, int] = {}
        self._sees: dict[str, bool] = {}
        """By the name of an expected result: whether the device has seen that bytes of 0xFF are not it."""
        self._room = KEPT_SHARE * device.free_bytes()

    def _guarded(self, nbytes: int) -> int:
        return self.device.allocate(nbytes + 2 * GUARD_BYTES) + GUARD_BYTES

    def room(self, name: str, nbytes: int) -> int:
        """The address of an array that an implementation has for itself."""
        address, _ = self.scratch.get(name, (0, 0))
        if self._rooms.get(name, -1) < nbytes:
            if address:
                self.device.free(address - GUARD_BYTES)
            address = self._guarded(nbytes)
            self._rooms[name] = nbytes
        self.scratch[name] = (address, nbytes)
        return address

    def enter(self, case: int) -> None:
        """Inputs as they are in a case, outputs that are no numbers."""
        for name, address, nbytes in self._arrays():
            for end in (address - GUARD_BYTES, address + nbytes):
                self.device.fill(end, GUARD, GUARD_BYTES)
            if name not in self.sizes:
                continue
            array = self.arrays.get(f"{case}/in/{name}")
            if array is None:
                self.device.fill(address, 0xFF, nbytes)
            elif (kept := self._on_device(f"{case}/in/{name}", array)) is not None:
                self.device.copy(address, kept, array.nbytes)
            else:
                self.device.upload(address, array)
        for tensor in self.problem["tensors"]:
            key = f"{case}/out/{tensor['name']}"
            if key in self.arrays and key not in self._sees:
                self._sees[key] = self._is_off(case, tensor)

    def _on_device(self, name: str, array: Array) -> int | None:
        """Where an array of a test case is kept; None where there is no room for it."""
        if name not in self._kept:
            if array.nbytes > self._room:
                return None
            self._room -= array.nbytes
            self._kept[name] = self.device.allocate(array.nbytes)
            self.device.upload(self._kept[name], array)
        return self._kept[name]

    def _arrays(self) -> Iterator[tuple[str, int, int]]:
        for name, nbytes in self.sizes.items():
            yield name, self.addresses[name], nbytes
        for name, (address, nbytes) in self.scratch.items():
            yield name, address, nbytes

    def wrong(self, case: int) -> str:
        """What is wrong with the outputs, or with what lies around an array; empty where nothing is."""
        for tensor in self.problem["tensors"]:
            key = f"{case}/out/{tensor['name']}"
            if key not in self.arrays or (self._sees[key] and not self._is_off(case, tensor)):
                continue
            wrong = self._off_here(case, tensor)
            if wrong:
                return wrong
        guard = np.empty(GUARD_BYTES, np.uint8)
        for name, address, nbytes in self._arrays():
            for end, where in ((address - GUARD_BYTES, "before"), (address + nbytes, "behind")):
                self.device.download(guard, end)
                if not (guard == GUARD).all():
                    return f"something was written {where} {name}"
        return ""

    def _tolerance(self, case: int, name: str) -> Array:
        """A number, or one for each element."""
        own = self.arrays.get(f"{case}/tolerance/{name}")
        return np.asarray(self.cases[case]["tolerances"][name]) if own is None else own

    def _is_off(self, case: int, tensor: dict[str, Any]) -> bool:
        """Whether an element of an output is off, as the device sees it; where it cannot be told, True."""
        name, key = tensor["name"], f"{case}/out/{tensor['name']}"
        expected, tolerance = self.arrays[key], self._tolerance(case, name)
        is_dense = expected.size == math.prod(tensor["shape"])
        wanted = self._on_device(key, expected) if is_dense else None
        allowed: int | None = 0
        if tolerance.ndim:
            own = f"{case}/tolerance/{name}"
            allowed = self._kept.get(own) or self._on_device(own, tolerance.astype(np.float64).reshape(-1))
        if wanted is None or allowed is None:
            return True
        compare = self.device.prepare(
            self.device.function(self._comparing, f"compare_{tensor['dtype']}"),
            COMPARING_BLOCKS, COMPARING_THREADS, 0,
            [np.uint64(self.addresses[name]), np.uint64(wanted), np.uint64(allowed),
             np.float64(0 if tolerance.ndim else tolerance), np.int64(expected.size), np.uint64(self._flag)],
        )  # fmt: skip
        self.device.fill(self._flag, 0, 4)
        self.device.launch(compare)
        is_off = np.zeros(1, np.int32)
        self.device.download(is_off, self._flag)
        return bool(is_off[0])

    def _off_here(self, case: int, tensor: dict[str, Any]) -> str:
        """Which element of an output is off, as the host sees it; empty where none is."""
        name, expected = tensor["name"], self.arrays[f"{case}/out/{tensor['name']}"]
        found = np.empty_like(expected)
        self.device.download(found, self.addresses[name])
        tolerance = self._tolerance(case, name)
        at = _difference(_elements(found, tensor), _elements(expected, tensor), tolerance, tensor)
        if at is None:
            return ""
        values = (_elements(flat, tensor)[at] for flat in (found, expected))
        got, wanted = (_numbers(value, tensor) for value in values)
        return f"{name}{list(at)} is {got}, not {wanted} (inputs: {self.cases[case]['name']})"


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

    The tolerance is a number, or one for each element; an infinite one lets anything pass.
    """
    allowed = np.broadcast_to(tolerance, expected.shape)
    rows = max(1, CHUNK * len(expected) // max(expected.size, 1)) if expected.ndim else 1
    for first in range(0, len(expected) if expected.ndim else 1, rows):
        part = np.s_[first : first + rows] if expected.ndim else ()
        got, wanted = (_numbers(np.ascontiguousarray(a[part]), tensor) for a in (found, expected))
        if got.dtype.kind in "biu":
            # Integers of 64 bits are equal or not, and rounded where they are not.
            apart = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
            is_near = (got == wanted) | ((allowed[part] > 0) & (apart <= allowed[part]))
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                is_near = np.abs(got - wanted) <= allowed[part]
        if is_near.all():
            continue
        is_near |= (got == wanted) | (np.isnan(got) & np.isnan(wanted)) | np.isinf(allowed[part])
        if not is_near.all():
            at = [int(n) for n in np.argwhere(~is_near.reshape(got.shape))[0]]
            return (first + at[0], *at[1:]) if expected.ndim else ()
    return None

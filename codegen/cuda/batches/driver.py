"""An NVIDIA GPU through its driver: memory, code, launches, times. Needs NumPy and the driver, nothing else.

In: cubins, and what is to be launched of them. Out: results, and nanoseconds between events. What is wrong
with a device is a `DeviceError`. The module is copied beside `run_batch.py`, to a machine that has nothing of
this project: it imports nothing of it.

Names and numbers of the driver's interface are those of `cuda.h` (CUDA 13) and `nvml.h`.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

NOT_READY, OUT_OF_MEMORY = 600, 2
MAJOR, MINOR, SMS, L2_BYTES, CLOCK_KHZ = 75, 76, 16, 38, 13
"""Attributes of a device."""
MOST_DYNAMIC_SHARED = 8
"""An attribute of a function."""
USUAL_SHARED_BYTES = 48 << 10
"""More than this a function has to be allowed to have."""

DELAY_BYTES = 1 << 30
"""Filling them takes a device longer than a host takes to launch a sample."""
MOST_DELAYS = 16
CALLS = 10
"""Of a sample with warm caches, at most."""
SAMPLE_NS = 2e6
"""A call that takes longer is a sample by itself."""
SAMPLES = 40
LEAST_SAMPLES = 5
BUDGET_S = 0.5
"""After this, `LEAST_SAMPLES` are enough."""

Array = np.ndarray[Any, Any]


class DeviceError(Exception):
    """What the driver refused, or that there is none. `status` is the driver's number; 0: there is none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its grid and its arguments, packed once, as `cuLaunchKernel` takes them."""

    packed: tuple[Any, ...]
    kept: tuple[Array, ...]
    """The values that are pointed to."""


class Gpu:
    """The first GPU that the driver shows to this process; `CUDA_VISIBLE_DEVICES` says which that is.

    Nothing can run on it yet. Raises `DeviceError` where there is none.
    """

    def __init__(self, library: str = "libcuda.so.1") -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise DeviceError(f"there is no driver: {error}") from None
        self._call("cuInit", 0)
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        name, version = ctypes.create_string_buffer(128), ctypes.c_int()
        self._call("cuDeviceGetName", name, 128, self._device)
        self._call("cuDriverGetVersion", ctypes.byref(version))
        self.name = name.value.decode()
        self.driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
        """The newest CUDA that the driver knows."""
        self.compute_capability = f"{self._attribute(MAJOR)}.{self._attribute(MINOR)}"
        self.sms = self._attribute(SMS)
        self.l2_bytes = self._attribute(L2_BYTES)
        self.clock_mhz = self._attribute(CLOCK_KHZ) / 1e3

    def _call(self, function: str, *arguments: Any) -> None:
        self._check(function, getattr(self._library, function)(*arguments))

    def _check(self, function: str, status: int) -> None:
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            raise DeviceError(f"{function}: {(text.value or b'unknown error').decode()} ({status})", status)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value


class Device(Gpu):
    """The same with memory, and code that runs on it. Addresses are plain integers."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        super().__init__(library)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)
        self.context = context
        """For code that brings calls of the driver of its own."""

    def bus(self) -> bytes:
        """Where the device is plugged in, as NVML knows it."""
        text = ctypes.create_string_buffer(32)
        self._call("cuDeviceGetPCIBusId", text, 32, self._device)
        return text.value

    # ---- Memory ----

    def allocate(self, nbytes: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(nbytes, 1)))
        return address.value

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def upload(self, address: int, array: Array) -> None:
        kept = np.ascontiguousarray(array)
        data = ctypes.c_void_p(kept.ctypes.data)
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(kept.nbytes))

    def download(self, array: Array, address: int) -> None:
        """Fills a contiguous array."""
        data = ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes))

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Within the device."""
        self._call("cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(nbytes))

    def free_bytes(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Queued: the host does not wait for it."""
        self._call("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(nbytes))

    # ---- Code ----

    def load(self, cubin: bytes) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), cubin)
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        self._call("cuModuleUnload", module)

    def function(self, module: ctypes.c_void_p, name: str, shared: int = 0) -> ctypes.c_void_p:
        """A kernel that is going to have so many bytes of dynamic shared memory."""
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        if shared > USUAL_SHARED_BYTES:
            self._call("cuFuncSetAttribute", function, MOST_DYNAMIC_SHARED, shared)
        return function

    def prepare(
        self,
        function: ctypes.c_void_p,
        blocks: int,
        threads: int,
        shared: int,
        arguments: Iterable[np.generic],
    ) -> Launch:
        """`arguments`: scalars of the types that the kernel declares; addresses are `np.uint64`."""
        values = tuple(np.array(argument) for argument in arguments)
        pointers = (ctypes.c_void_p * max(len(values), 1))(*(v.ctypes.data for v in values))
        sizes = (ctypes.c_uint(n) for n in (blocks, 1, 1, threads, 1, 1, shared))
        return Launch((function, *sizes, None, pointers, None), values)

    def launch(self, launch: Launch) -> None:
        """Queued: what goes wrong in the kernel is said by whatever waits for it."""
        self._check("cuLaunchKernel", self._library.cuLaunchKernel(*launch.packed))

    def launch_all(self, launches: Iterable[Launch]) -> None:
        for launch in launches:
            self.launch(launch)

    def synchronize(self) -> None:
        self._call("cuCtxSynchronize")

    # ---- Events ----

    def event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def record(self, event: ctypes.c_void_p) -> None:
        self._call("cuEventRecord", event, None)

    def has_passed(self, event: ctypes.c_void_p) -> bool:
        status = self._library.cuEventQuery(event)
        if status not in (0, NOT_READY):
            self._check("cuEventQuery", status)
        return bool(status == 0)

    def elapsed_ns(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """Waits for the end."""
        milliseconds = ctypes.c_float()
        self._call("cuEventSynchronize", end)
        self._call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return float(milliseconds.value) * 1e6


class Stopwatch:
    """Times calls with a warm and with a cold L2 cache, by events, so that no time of the host counts.

    Before each sample the device is given memory to fill for long enough that all launches wait in its queue
    before the first of them begins; where a start was nevertheless passed while the host still launched, the
    sample is thrown away and the device filled more.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.flush_bytes = 2 * device.l2_bytes
        self.flush = device.allocate(self.flush_bytes)
        self.delay = device.allocate(DELAY_BYTES)
        self.delays = 1
        self.start, self.end = device.event(), device.event()

    def samples_ns(
        self, call: Callable[[], object], *, is_cold: bool, enough_ns: float = math.inf
    ) -> list[float]:
        """Of one call, which queues work: after the cache was displaced, or of some calls after one more.

        Where even the least of the first samples is above `enough_ns`, they are all.
        """
        began = time.monotonic()
        samples: list[float] = []
        calls = 1
        if not is_cold:
            once_ns, _ = self._sample(call, 1, is_cold)
            calls = min(CALLS, max(1, int(SAMPLE_NS / once_ns)))
        while len(samples) < LEAST_SAMPLES or (
            len(samples) < SAMPLES and min(samples) < enough_ns and time.monotonic() - began < BUDGET_S
        ):
            time_ns, is_late = self._sample(call, calls, is_cold)
            if is_late and self.delays < MOST_DELAYS:
                self.delays *= 2
            elif is_late and calls > 1:
                calls //= 2
            else:
                samples.append(time_ns / calls)
        return samples

    def _sample(self, call: Callable[[], object], calls: int, is_cold: bool) -> tuple[float, bool]:
        """Nanoseconds of all calls, and whether the device began before all of them were launched."""
        device = self.device
        for number in range(self.delays):
            device.fill(self.delay, number, DELAY_BYTES)
        if is_cold:
            device.fill(self.flush, 0, self.flush_bytes)
        else:
            call()
        device.record(self.start)
        for _ in range(calls):
            call()
        device.record(self.end)
        is_late = device.has_passed(self.start)
        return device.elapsed_ns(self.start, self.end), is_late


class Clock:
    """What NVML says of a device's clock; where there is no NVML, that is nothing."""

    def __init__(self, device: Device) -> None:
        self._handle = ctypes.c_void_p()
        self._library: ctypes.CDLL | None = None
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        found = library.nvmlDeviceGetHandleByPciBusId_v2
        if library.nvmlInit_v2() == 0 and found(device.bus(), ctypes.byref(self._handle)) == 0:
            self._library = library

    def sm_mhz(self) -> int | None:
        """Of the SMs, at the moment."""
        clock = ctypes.c_uint()
        if self._library is None or self._library.nvmlDeviceGetClockInfo(
            self._handle, 1, ctypes.byref(clock)
        ):
            return None
        return clock.value

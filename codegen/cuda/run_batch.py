"""Checks and times the implementations of this folder on the GPU of this machine: `python run_batch.py`.

In: `batch.json`, which says what is here, `cases.npz` with inputs and expected results, a cubin for each
implementation. Out: `results.jsonl`, a line for each: times in nanoseconds, or why there are none. Needs
NumPy, a driver, and PyCUDA where it is installed; without it, the driver is called directly.

A worker process runs the implementations, one after the other. Where one hangs or breaks the device's
context, the worker is replaced, and the next one follows. What has a line already is not run again.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
SAMPLES = 40
BUDGET_S = 0.5
DELAY_BYTES = 1 << 30
"""Filling them takes the device longer than launching a sample takes the host: all launches wait for it."""

CALLS = 10
"""Of a sample with warm caches."""

LIMIT_S = 60.0
"""Of one implementation, in a worker that has its arrays."""


# ---- The device ----------------------------------------------------------------------------------------


class DeviceError(Exception):
    """What the driver refused."""


class PyCudaDevice:
    """Through PyCUDA."""

    name = "PyCUDA"

    def __init__(self) -> None:
        import pycuda.driver as cuda

        cuda.init()
        self.cuda: Any = cuda
        self.memory: list[Any] = []
        self.context = cuda.Device(0).make_context()
        self.title = cuda.Device(0).name()
        self.compute_capability = "{}.{}".format(*cuda.Device(0).compute_capability())
        self.driver = ".".join(map(str, divmod(cuda.get_driver_version() // 10, 100)))

    def allocate(self, nbytes: int) -> int:
        memory = self.cuda.mem_alloc(max(nbytes, 1))
        self.memory.append(memory)  # it is freed with the object
        return int(memory)

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        self.cuda.memcpy_htod(address, np.ascontiguousarray(array))

    def download(self, array: np.ndarray[Any, Any], address: int) -> None:
        self.cuda.memcpy_dtoh(array, address)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self.cuda.memset_d8(address, byte, nbytes)

    def load(self, cubin: bytes) -> Any:
        return self.cuda.module_from_buffer(cubin)

    def function(self, module: Any, name: str, shared: int) -> Any:
        function = module.get_function(name)
        if shared > 48 << 10:
            function.set_attribute(self.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        return function

    def launch(self, function: Any, blocks: int, threads: int, shared: int, arguments: list[Any]) -> None:
        function(*arguments, grid=(blocks, 1), block=(threads, 1, 1), shared=shared)

    def event(self) -> Any:
        return self.cuda.Event()

    def record(self, event: Any) -> None:
        event.record()

    def elapsed_ns(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.time_till(end)) * 1e6

    def synchronize(self) -> None:
        self.context.synchronize()


class DriverDevice:
    """Through the driver's own interface."""

    name = "the driver"

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        title, version = ctypes.create_string_buffer(128), ctypes.c_int()
        self.call("cuDeviceGetName", title, 128, device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        numbers = [ctypes.c_int(), ctypes.c_int()]
        for attribute, number in zip((75, 76), numbers, strict=True):  # major and minor
            self.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, device)
        self.compute_capability = f"{numbers[0].value}.{numbers[1].value}"
        self.title = title.value.decode()
        self.driver = f"{version.value // 1000}.{version.value % 1000 // 10}"

    def call(self, function: str, *arguments: Any) -> None:
        status = getattr(self.library, function)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(text))
            raise DeviceError(f"{function}: {(text.value or str(status).encode()).decode()}")

    def allocate(self, nbytes: int) -> int:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(nbytes, 1)))
        return address.value

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        kept = np.ascontiguousarray(array)
        data = ctypes.c_void_p(kept.ctypes.data)
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(kept.nbytes))

    def download(self, array: np.ndarray[Any, Any], address: int) -> None:
        data = ctypes.c_void_p(array.ctypes.data)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes))

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self.call("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(nbytes))

    def load(self, cubin: bytes) -> Any:
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        return module

    def function(self, module: Any, name: str, shared: int) -> Any:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        if shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, 8, shared)  # the most dynamic shared memory
        return function

    def launch(self, function: Any, blocks: int, threads: int, shared: int, arguments: list[Any]) -> None:
        values = [np.array(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
        sizes = (ctypes.c_uint(n) for n in (blocks, 1, 1, threads, 1, 1, shared))
        self.call("cuLaunchKernel", function, *sizes, None, pointers, None)

    def event(self) -> Any:
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def record(self, event: Any) -> None:
        self.call("cuEventRecord", event, None)

    def elapsed_ns(self, start: Any, end: Any) -> float:
        milliseconds = ctypes.c_float()
        self.call("cuEventSynchronize", end)
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return float(milliseconds.value) * 1e6

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")


def open_device() -> PyCudaDevice | DriverDevice:
    try:
        return PyCudaDevice()
    except ImportError:
        return DriverDevice()


# ---- One implementation --------------------------------------------------------------------------------


class Arena:
    """The arrays of all test cases, on the device."""

    def __init__(self, device: PyCudaDevice | DriverDevice, batch: dict[str, Any]) -> None:
        self.device, self.batch = device, batch
        with np.load(HERE / "cases.npz") as cases:
            self.cases = dict(cases)
        self.addresses = {t["name"]: device.allocate(t["nbytes"]) for t in batch["tensors"]}
        self.flush_bytes = 2 * batch["l2_bytes"]
        self.flush = device.allocate(self.flush_bytes)
        self.delay = device.allocate(DELAY_BYTES)
        self.scratch: dict[str, tuple[int, int]] = {}

    def enter(self, case: int) -> None:
        """Inputs as they are in a case, outputs that are no numbers."""
        for tensor in self.batch["tensors"]:
            address = self.addresses[tensor["name"]]
            if tensor["is_output"]:
                self.device.fill(address, 0xFF, tensor["nbytes"])
            else:
                self.device.upload(address, self.cases[f"{case}/in/{tensor['name']}"])

    def wrong(self, case: int) -> str:
        """What is wrong with the outputs; empty where nothing is."""
        for tensor in self.batch["tensors"]:
            if not tensor["is_output"]:
                continue
            expected = self.cases[f"{case}/out/{tensor['name']}"]
            found = np.empty_like(expected)
            self.device.download(found, self.addresses[tensor["name"]])
            found, expected = (_elements(flat, tensor) for flat in (found, expected))
            tolerance = self.batch["cases"][case]["tolerances"][tensor["name"]]
            is_near = np.abs(found - expected) <= tolerance
            is_near |= (found == expected) | (np.isnan(found) & np.isnan(expected))
            if not is_near.all():
                at = tuple(int(n) for n in np.argwhere(~is_near)[0])
                name, inputs = tensor["name"], self.batch["cases"][case]["name"]
                return f"{name}{list(at)} is {found[at]}, not {expected[at]} (inputs: {inputs})"
        return ""


def _elements(flat: np.ndarray[Any, Any], tensor: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The elements of a tensor among all that lies between its first and its last one, as numbers."""
    strides = [s * flat.itemsize for s in tensor["strides"]]
    view = np.lib.stride_tricks.as_strided(flat, tensor["shape"], strides)
    if tensor["dtype"] == "bf16":
        return (view.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return view.view(np.float16).astype(np.float64) if tensor["dtype"] == "f16" else view.astype(np.float64)


class Implementation:
    """One, loaded."""

    def __init__(self, arena: Arena, entry: dict[str, Any]) -> None:
        self.arena, self.device = arena, arena.device
        module = self.device.load((HERE / entry["cubin"]).read_bytes())
        self.launches = []
        for launch in entry["launches"]:
            function = self.device.function(module, launch["name"], launch["shared"])
            self.launches.append((function, launch))
        for scratch in entry["scratch"]:
            held = arena.scratch.get(scratch["name"], (0, 0))
            if held[1] < scratch["nbytes"]:
                arena.scratch[scratch["name"]] = (self.device.allocate(scratch["nbytes"]), scratch["nbytes"])
            self.device.fill(
                arena.scratch[scratch["name"]][0], 0 if scratch["is_zeroed"] else 0xFF, scratch["nbytes"]
            )

    def prepared(self, parameters: dict[str, float]) -> list[tuple[Any, ...]]:
        """The arguments of each launch."""
        return [
            (function, launch["blocks"], launch["threads"], launch["shared"],
             [self.argument(name, parameters) for name in launch["arguments"]])
            for function, launch in self.launches
        ]  # fmt: skip

    def call(self, launches: list[tuple[Any, ...]]) -> None:
        for launch in launches:
            self.device.launch(*launch)

    def argument(self, name: str, parameters: dict[str, float]) -> Any:
        if name in self.arena.addresses:
            return np.uint64(self.arena.addresses[name])
        if name in self.arena.scratch:
            return np.uint64(self.arena.scratch[name][0])
        kinds: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
        return kinds[self.arena.batch["parameters"][name]](parameters[name])

    def times_ns(self, parameters: dict[str, float], *, is_cold: bool) -> list[float]:
        """Of one call: alone, with a cold L2 cache, or of several in a row, with a warm one.

        The device is kept busy while the host launches them, so that no time of the host counts.
        """
        device, began, launches = self.device, time.monotonic(), self.prepared(parameters)
        samples: list[float] = []
        start, end = device.event(), device.event()
        calls = 1 if is_cold else CALLS
        while len(samples) < SAMPLES and (len(samples) < 5 or time.monotonic() - began < BUDGET_S):
            device.fill(self.arena.delay, len(samples) % 7, DELAY_BYTES)
            if is_cold:
                device.fill(self.arena.flush, len(samples) % 7, self.arena.flush_bytes)
            else:
                self.call(launches)
            device.record(start)
            for _ in range(calls):
                self.call(launches)
            device.record(end)
            samples.append(device.elapsed_ns(start, end) / calls)
        return samples


def measure(arena: Arena, entry: dict[str, Any]) -> dict[str, Any]:
    """Checked on all test cases, then timed on the first one, warm and cold."""
    implementation = Implementation(arena, entry)
    for case in reversed(range(len(arena.batch["cases"]))):
        arena.enter(case)
        implementation.call(implementation.prepared(arena.batch["cases"][case]["parameters"]))
        arena.device.synchronize()
        wrong = arena.wrong(case)
        if wrong:
            return {"failure": "wrong_result", "message": wrong}
    parameters = arena.batch["cases"][0]["parameters"]
    warm = implementation.times_ns(parameters, is_cold=False)
    cold = implementation.times_ns(parameters, is_cold=True)
    wrong = arena.wrong(0)
    if wrong:
        return {"failure": "wrong_result", "message": f"after it was timed: {wrong}"}
    return {"warm_ns": warm, "cold_ns": cold}


# ---- Processes -----------------------------------------------------------------------------------------


def work() -> None:
    """A worker: reads the numbers of implementations, writes a line for each result."""
    batch = json.loads((HERE / "batch.json").read_text())
    try:
        device = open_device()
    except Exception as error:
        _say({"message": f"{type(error).__name__}: {error}"})
        return
    if device.compute_capability != batch["compute_capability"]:
        is_of = f"{device.title} is of compute capability {device.compute_capability}"
        _say({"message": f"{is_of}, and the batch is for {batch['device']}, {batch['compute_capability']}"})
        return
    arena = Arena(device, batch)
    _say({"ready": True, "device": device.title, "driver": device.driver, "through": device.name})
    for line in sys.stdin:
        entry = batch["implementations"][int(line)]
        try:
            result = measure(arena, entry)
        except Exception as error:
            # Whatever it was, the context may be gone: the next one gets a new worker.
            _say({"failure": "crash", "message": f"{type(error).__name__}: {error}", "is_over": True})
            return
        _say(result)


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


class Worker:
    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "run_batch.py"), "--worker"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.answer(LIMIT_S * 5)

    def ask(self, number: int) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            message = f"the worker ended with status {self.close()}"
            return {"failure": "crash", "message": message, "is_over": True}
        return self.answer(LIMIT_S)

    def answer(self, limit_s: float) -> dict[str, Any]:
        """The next line; where none comes in time, the worker is ended."""
        import selectors

        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if selector.select(limit_s) else None
        if line:
            found: dict[str, Any] = json.loads(line)
            return found
        status = self.close()
        if line is None:
            return {"failure": "run_timeout", "message": f"no answer in {limit_s:g} s", "is_over": True}
        return {"failure": "crash", "message": f"the worker ended with status {status}", "is_over": True}

    def close(self) -> int:
        self.process.kill()
        return self.process.wait()


def clocks() -> str:
    """What `nvidia-smi` says of clocks at the moment; empty where there is none."""
    query = "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu"
    try:
        answer = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


def _done() -> set[str]:
    """What has been run before. A line that was cut off is removed."""
    if not RESULTS.exists():
        return set()
    text = RESULTS.read_text()
    lines = text.splitlines()[: text.count("\n")]
    RESULTS.write_text("".join(f"{line}\n" for line in lines))
    return {found["digest"] for line in lines if "digest" in (found := json.loads(line))}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=None, help="begin nothing new after this long")
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    batch = json.loads((HERE / "batch.json").read_text())
    done = _done()
    began = time.monotonic()
    worker: Worker | None = None
    with RESULTS.open("a") as results:
        for number, entry in enumerate(batch["implementations"]):
            if entry["digest"] in done:
                continue
            if options.seconds is not None and time.monotonic() - began > options.seconds:
                print(f"{number} of {len(batch['implementations'])}: no time is left", file=sys.stderr)
                break
            if worker is None:
                worker = Worker()
                if "ready" not in worker.about:
                    print(f"no GPU can be used here: {worker.about['message']}", file=sys.stderr)
                    return 5
                about = {
                    "about": worker.about,
                    "clocks": clocks(),
                    "host": platform.node(),
                    "pid": os.getpid(),
                }
                results.write(json.dumps(about) + "\n")
            result = worker.ask(number)
            if result.pop("is_over", False):
                worker.close()
                worker = None
            results.write(json.dumps({"digest": entry["digest"], **result}) + "\n")
            results.flush()
            said = result.get("message") or f"{min(result['warm_ns']) / 1e3:.2f} us"
            print(f"{number + 1}/{len(batch['implementations'])} {entry['digest'][:12]} {said}", flush=True)
    if worker is not None:
        worker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

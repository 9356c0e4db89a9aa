"""The worker process: loads libraries, runs them on guarded buffers, checks their results, takes samples of
time.

In: messages on one pipe, test cases in a shared file. Out: an answer to each message on another pipe.
Whatever the code that it runs does to it, the process that started it (`evaluator.py`) survives and
starts the next one. It decides nothing: which library, which case, how long is said in the messages.

    load(library, symbol) -> handle          run(handle, case) -> ns          check(case) -> wrong
    time(handle, case, most, batch, budget_ns) -> samples_ns        unload(handle)
"""

from __future__ import annotations

import _ctypes
import ctypes
import json
import mmap
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from spacedsl.codegen.buffers import GuardedBuffer, guarded_buffer

Array = NDArray[Any]
Message = dict[str, Any]

_LENGTH = struct.Struct("<I")
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_POISON = {4: np.uint32(0x7FC0DEAD), 8: np.uint64(0x7FF8DEADDEADDEAD)}
"""NaN with a payload of its own; a conspicuous integer."""
_BLOCK_ELEMENTS = 1 << 20
_FLOAT_TYPES: dict[str, type[ctypes.c_float] | type[ctypes.c_double]] = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}
NUMPY_NAMES = {"f32": "float32", "f64": "float64", "i32": "int32"}


def write_message(descriptor: int, message: Message) -> None:
    """One message, its length in front."""
    data = json.dumps(message).encode()
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(descriptor, data) :]


def read_message(read: Callable[[int], bytes]) -> Message | None:
    """The next message; None at the end of the pipe. `read(n)` gives n bytes, or fewer at the end."""
    head = read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = read(length)
    if len(body) < length:
        return None
    message: Message = json.loads(body)
    return message


@dataclass(frozen=True, slots=True)
class _TensorBuffer:
    """A tensor's elements in a guarded buffer."""

    name: str
    buffer: GuardedBuffer
    flat: Array
    elements: Array

    @classmethod
    def of(cls, tensor: Message) -> _TensorBuffer:
        dtype = np.dtype(NUMPY_NAMES[tensor["dtype"]])
        buffer = guarded_buffer(tensor["span"] * dtype.itemsize)
        flat = buffer.bytes.view(dtype)
        strides = [s * dtype.itemsize for s in tensor["strides"]]
        return cls(tensor["name"], buffer, flat, as_strided(flat, tensor["shape"], strides))

    def poison(self) -> None:
        self._bits()[:] = _POISON[self.flat.itemsize]

    def gaps_are_intact(self) -> bool:
        """Whether what lies between the elements still holds the poison."""
        gaps = self.flat.size - self.elements.size
        return gaps == 0 or int(np.count_nonzero(self._bits() == _POISON[self.flat.itemsize])) >= gaps

    def _bits(self) -> Array:
        return self.flat.view(f"uint{8 * self.flat.itemsize}")


@dataclass(frozen=True, slots=True)
class _Case:
    inputs: tuple[_TensorBuffer, ...]
    arguments: Any
    """The array of pointers that the harness spreads over the entry point."""
    kept: tuple[Any, ...]
    """What `arguments` points to."""
    expected: dict[str, Array]
    tolerances: dict[str, float]


class Worker:
    """Buffers, harness and loaded libraries of one worker process."""

    def __init__(self, setup: Message, cases: mmap.mmap) -> None:
        self.outputs = {t["name"]: _TensorBuffer.of(t) for t in setup["tensors"] if t["is_output"]}
        self.cases = [self._case(setup, layout, cases) for layout in setup["cases"]]
        self.flush = guarded_buffer(setup["flush_bytes"]) if setup["flush_bytes"] else None
        if self.flush is not None:
            self.flush.bytes[:] = 0
        self.harness = ctypes.CDLL(setup["harness"])
        self.harness.harness_time.restype = ctypes.c_int64
        self.libraries: dict[int, tuple[ctypes.CDLL, ctypes.c_void_p]] = {}
        self.loaded = 0

    def _case(self, setup: Message, layout: Message, cases: mmap.mmap) -> _Case:
        def shared(tensor: Message, offset: int, count: int) -> Array:
            return np.frombuffer(cases, NUMPY_NAMES[tensor["dtype"]], count, offset)

        inputs: list[_TensorBuffer] = []
        expected: dict[str, Array] = {}
        addresses: list[int] = []
        for tensor in setup["tensors"]:
            name = tensor["name"]
            if tensor["is_output"]:
                shape = tensor["shape"]
                expected[name] = shared(tensor, layout["expected"][name], self.outputs[name].elements.size)
                expected[name] = expected[name].reshape(shape)
                addresses.append(self.outputs[name].buffer.address)
                continue
            made = _TensorBuffer.of(tensor)
            made.flat[:] = shared(tensor, layout["inputs"][name], made.flat.size)
            made.buffer.protect()
            inputs.append(made)
            addresses.append(made.buffer.address)
        parameters = [_scalar(p["dtype"], layout["parameters"][p["name"]]) for p in setup["parameters"]]
        addresses += [ctypes.addressof(p) for p in parameters]
        arguments = (ctypes.c_void_p * len(addresses))(*addresses)
        return _Case(tuple(inputs), arguments, tuple(parameters), expected, layout["tolerances"])

    # ---- Messages --------------------------------------------------------------------------------------

    def answer(self, message: Message) -> Message:
        arguments = {k: v for k, v in message.items() if k != "op"}
        answered: Message = getattr(self, f"op_{message['op']}")(**arguments)
        return answered

    def op_load(self, library: str, symbol: str) -> Message:
        try:
            loaded = ctypes.CDLL(library)
        except OSError as error:
            # The loader tells of memory in words alone.
            is_memory = any(words in str(error) for words in ("allocate", "failed to map"))
            return {
                "failure": "memory" if is_memory else "crash",
                "message": f"the library cannot be loaded: {error}",
            }
        try:
            function = ctypes.cast(getattr(loaded, symbol), ctypes.c_void_p)
        except AttributeError:
            return {"failure": "crash", "message": f"the library has no function {symbol}"}
        self.loaded += 1
        self.libraries[self.loaded] = loaded, function
        return {"handle": self.loaded}

    def op_unload(self, handle: int) -> Message:
        library, _ = self.libraries.pop(handle)
        _ctypes.dlclose(library._handle)
        return {}

    def op_run(self, handle: int, case: int) -> Message:
        """One call on poisoned outputs, with all CPUs allowed: a pool looks at them at its first call."""
        for output in self.outputs.values():
            output.poison()
        _, function = self.libraries[handle]
        start = time.perf_counter_ns()
        self.harness.harness_call(function, self.cases[case].arguments)
        return {"ns": time.perf_counter_ns() - start}

    def op_time(self, handle: int, case: int, most: int, batch: int, budget_ns: int) -> Message:
        """Samples, the calling thread pinned to the first CPU, which a pool leaves to it."""
        _, function = self.libraries[handle]
        samples = (ctypes.c_int64 * most)()
        flush = ctypes.c_void_p(self.flush.address if self.flush else None)
        flush_bytes = ctypes.c_int64(self.flush.nbytes if self.flush else 0)
        limits = ctypes.c_int64(batch), ctypes.c_int64(most), ctypes.c_int64(budget_ns)
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        count = self.harness.harness_time(
            function, self.cases[case].arguments, *limits, flush, flush_bytes, samples
        )
        os.sched_setaffinity(0, allowed)
        return {"samples_ns": [s / batch for s in samples[:count]]}

    def op_check(self, case: int) -> Message:
        """What is wrong with the outputs and around them; empty where nothing is."""
        checked = self.cases[case]
        wrong: list[str] = []
        for output in self.outputs.values():
            found = output.elements
            difference = first_difference(
                found, checked.expected[output.name], checked.tolerances[output.name]
            )
            if difference:
                wrong.append(f"{output.name}{difference}")
            if not output.gaps_are_intact():
                wrong.append(f"{output.name} was written between its elements")
        tensors = (*self.outputs.values(), *checked.inputs)
        wrong += [f"memory next to {t.name} was written" for t in tensors if not t.buffer.is_intact()]
        return {"wrong": "; ".join(wrong)}


def _scalar(dtype: str, value: float) -> ctypes.c_float | ctypes.c_double | ctypes.c_int32:
    return ctypes.c_int32(int(value)) if dtype == "i32" else _FLOAT_TYPES[dtype](value)


def first_difference(found: Array, expected: Array, tolerance: float) -> str:
    """The first element that is off by more than `tolerance` (or NaN), and how many are; empty for none."""
    first, differing = "", 0
    rows = max(1, _BLOCK_ELEMENTS // max(1, found[0].size)) if found.ndim else 1
    starts: Sequence[int] = range(0, found.shape[0], rows) if found.ndim else [0]
    for start in starts:
        part = (slice(start, start + rows),) if found.ndim else ()
        a, b = found[part], expected[part]
        if tolerance == 0:
            good = a == b
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                good = np.abs(a - b) <= tolerance
        if bool(np.all(good)):
            continue
        differing += int(np.size(good) - np.count_nonzero(good))
        if not first:
            where = np.unravel_index(int(np.argmin(good)), np.shape(good))
            place = [int(i) + (start if axis == 0 else 0) for axis, i in enumerate(where)]
            first = f"{place} is {a[where]!s}, expected {b[where]!s}"
    return f"{first}; {differing} of {found.size} elements differ" if first else ""


def main() -> None:
    """Arguments: descriptors of the pipe to read, the pipe to write and the shared file."""
    source, sink, shared = (int(argument) for argument in sys.argv[1:4])
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        return
    with os.fdopen(source, "rb") as stream:
        setup = read_message(stream.read)
        if setup is None:
            return
        cases = mmap.mmap(shared, 0, access=mmap.ACCESS_READ)
        try:
            worker = Worker(setup, cases)
        except MemoryError as error:
            write_message(sink, {"failure": "memory", "message": str(error)})
            return
        limit = _address_space_bytes() + setup["memory_headroom_bytes"]
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        worker.harness.harness_watch(setup["report_descriptor"])
        write_message(sink, {"memory_limit_bytes": limit})
        while (message := read_message(stream.read)) is not None:
            write_message(sink, worker.answer(message))


def _address_space_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123 (a path object would gain nothing here)
        return int(file.read().split()[0]) * mmap.PAGESIZE


if __name__ == "__main__":
    main()

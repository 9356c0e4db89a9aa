"""Measures this folder on the GPU of this machine: `python run_benchmark.py [--seconds N]`.

In: the batch that lies here, and for each of its problems libraries that Halide has compiled. Out:
`peers.jsonl`, a line for each of them, and what `run_batch.py` writes, which has the seconds. Needs what that
needs, and no Halide. Libraries are called in the context of the device, on the arrays that implementations
have, checked as these are, and timed as these are: between events of the device, its queue filled before, so
that what the host takes to launch counts where a pipeline waits for it alone. Each has a process of its own.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.gpu.runner import HERE, Line, Visit, main
from benchmarks.pipelines.buffers import (
    FLUSHED,
    HOST_DIRTY,
    Array,
    Buffer,
    Function,
    RefusedError,
    buffer,
    values,
)
from benchmarks.pipelines.signature import Argument, Box, Signature, box_of, inside
from spacedsl.codegen.cuda.batches.arena import Arena
from spacedsl.codegen.cuda.batches.measuring import timed

LIMIT_S = 300.0
"""Of a library, its arrays included."""


class Pipeline:
    """A function that Halide compiled, on the arrays of an arena; a call queues its work.

    Only what the random case has is looked at, as on CPUs. Arrays lie on the device; the host has room for
    them, and the inputs, since some schedules leave stages to it: that is part of the call, then, with what
    has to be copied for it.
    """

    def __init__(self, arena: Arena, called: Signature, library: str, rooms: Mapping[str, Box]) -> None:
        self.arena = arena
        # Halide looks for the driver among what is loaded already, and else by a name that few machines have.
        ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
        self._function = Function(library)
        self._runtime = self._function.library
        self._runtime["use_context"](arena.device.context)
        self._kept: list[Array] = []
        inputs = [self._input(given, rooms.get(given.name, given.box)) for given in called.inputs]
        self._outputs = [
            self._wrapped(wanted, np.empty(_shape(wanted.box), wanted.dtype), arena.addresses[wanted.name])
            for wanted in called.outputs
        ]
        self._arguments = values(inputs, called.scalars, self._outputs)

    def _input(self, given: Argument, room: Box) -> Buffer:
        """Where code may read beyond an input, it lies in a larger array, which means nothing there."""
        own = self.arena.arrays[f"0/in/{given.name}"].reshape(_shape(given.box))
        if room == given.box:
            return self._wrapped(given, own, self.arena.addresses[given.name])
        array = np.empty(_shape(room), given.dtype)
        array.reshape(-1).view(np.uint8).fill(0xFF)
        array[inside(given.box, room)] = own
        address = self.arena.device.allocate(array.nbytes)
        self.arena.device.upload(address, array)
        return self._wrapped(Argument(given.name, given.dtype, room), array, address)

    def _wrapped(self, argument: Argument, array: Array, address: int) -> Buffer:
        self._kept.append(array)
        made = buffer(argument, array)
        wrap = self._runtime["halide_cuda_wrap_device_ptr"]
        self._function.check(wrap(None, ctypes.byref(made), ctypes.c_uint64(address)))
        return made

    def __call__(self) -> None:
        """Raises `RefusedError`."""
        for output in self._outputs:
            output.flags = 0
        self._function(*self._arguments)
        for output in self._outputs:
            if output.flags & HOST_DIRTY:
                copy = self._runtime["halide_copy_to_device"]
                self._function.check(copy(None, ctypes.byref(output), None))


def _shape(box: Box) -> list[int]:
    return [extent for _, extent in box]


def checked(arena: Arena, pipeline: Pipeline) -> Line:
    """On the random case, and then timed."""
    arena.enter(0)
    pipeline()
    arena.device.synchronize()
    wrong = arena.wrong(0)
    return {"failure": "wrong_result", "message": wrong} if wrong else timed(arena, pipeline)


def measured(arena: Arena, peers: tuple[str, ...]) -> Iterator[Line]:
    about = _halide(arena.folder.name)
    _allow_flushed(arena)
    for made in about["schedulers"]:
        if made["name"] not in peers:
            continue
        rooms = {name: box_of(box) for name, box in made["rooms"].items()}
        library = str(arena.folder / made["library"])
        try:
            pipeline = Pipeline(arena, Signature.of(about["signature"]), library, rooms)
            found = checked(arena, pipeline)
        except RefusedError as error:
            found = {"failure": "refused", "message": str(error)}
        except OSError as error:
            found = {"failure": "absent", "message": f"the library cannot be loaded: {error}"}
        yield {"peer": made["name"], **found}


def _allow_flushed(arena: Arena) -> None:
    """Of the random case, what is nearer to zero than normal floats are may be zero."""
    numbers = arena.cases[0]["tolerances"]
    for name in (t["name"] for t in arena.problem["tensors"] if t["dtype"].startswith("f")):
        if f"0/tolerance/{name}" in arena.arrays:
            arena.arrays[f"0/tolerance/{name}"] += FLUSHED
        elif name in numbers:
            numbers[name] += FLUSHED


def _halide(problem: str) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((HERE / problem / "halide.json").read_text())
    return about


def visits(problem: str) -> list[Visit]:
    """To each library alone: what it breaks is its own."""
    made = _halide(problem)["schedulers"]
    return [Visit(problem, (each["name"],), LIMIT_S) for each in made if not each["absent"]]


if __name__ == "__main__":
    sys.exit(main(__file__, (__doc__ or "").partition("\n")[0], visits, measured))

"""The worker: loads libraries, runs them on guarded buffers, checks their results, takes samples of time.

In: the arrays of all test cases; messages on one pipe. Out: an answer to
each message on another pipe. It runs in a process of its own (`fork_server.py`), for generated code may do
anything to it. It decides nothing: which library, which case, how long is said in the messages.

    load(library, symbol) -> handle          run(handle, case) -> ns          check(case) -> wrong
    put(handle, variable, number)
    time(handle, case, most, batch, budget_ns, loops) -> batch, samples_ns, disturbed_ns, loops_ns
    unload(handle)
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spacedsl.codegen.running.buffers import GuardedBuffer, TensorBuffer
from spacedsl.codegen.running.cases import Tolerance
from spacedsl.codegen.running.differences import first_difference
from spacedsl.codegen.running.loaded_cases import LoadedCase
from spacedsl.codegen.running.messages import Message
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import elements

_LOST = 0.01
"""Of a sample, by threads that wait for a CPU: that tells. The system itself takes 0.05 ms now and then."""


def are_disturbed(samples_ns: npt.NDArray[np.int64], lost_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which samples other programs have made longer. How much they lost is negative where nobody knows."""
    return (lost_ns < 0) | (lost_ns > _LOST * samples_ns)


class Worker:
    """The state of a worker process: outputs, harness and loaded libraries."""

    def __init__(
        self,
        kernel: MeasurableKernel,
        cases: Sequence[LoadedCase],
        outputs: Mapping[str, TensorBuffer],
        flush: GuardedBuffer | None,
        harness: ctypes.CDLL,
    ) -> None:
        self.tensors = kernel.tensors
        self.cases = cases
        self.outputs = outputs
        self.flush = flush
        self.harness = harness
        self.harness.harness_time.restype = ctypes.c_int64
        self.libraries: dict[int, tuple[ctypes.CDLL, ctypes.c_void_p]] = {}
        self.loaded = 0
        self.parameters = [
            [elements(p.dtype, case.parameters[p.name]) for p in kernel.parameters] for case in cases
        ]
        self.arguments = [self._arguments(number) for number in range(len(cases))]

    def _arguments(self, number: int) -> Any:
        """The array of pointers that the harness spreads over the entry point."""
        buffers = {**self.cases[number].inputs, **self.outputs}
        addresses = [buffers[t.name].buffer.address for t in self.tensors]
        addresses += [p.ctypes.data for p in self.parameters[number]]
        return (ctypes.c_void_p * len(addresses))(*addresses)

    def _counting(self, dtype: DType, what: str) -> Any:
        function = getattr(self.harness, f"harness_{what}_{dtype.label}")
        function.restype = ctypes.c_int64
        return function

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

    def op_put(self, handle: int, variable: str, number: int) -> Message:
        """Gives another number to what a library counts with."""
        library, _ = self.libraries[handle]
        ctypes.c_uint.in_dll(library, variable).value = number
        return {}

    def op_run(self, handle: int, case: int) -> Message:
        """One call on poisoned outputs, with all CPUs allowed: a pool looks at them at its first call."""
        for output in self.outputs.values():
            output.poison()
        _, function = self.libraries[handle]
        start = time.perf_counter_ns()
        self.harness.harness_call(function, self.arguments[case])
        return {"ns": time.perf_counter_ns() - start}

    def op_time(self, handle: int, case: int, most: int, batch: int, budget_ns: int, loops: int) -> Message:
        """Samples, the calling thread pinned to the first CPU, which a pool leaves to it, and apart from them
        those that other programs have disturbed; of a library that notes when its parallel loops have ended,
        also how long so many of them take: medians.
        """
        library, function = self.libraries[handle]
        if self.flush:
            # The caches are displaced before each sample: only its first call finds nothing in them.
            batch = 1
        samples, lost = np.zeros(most, np.int64), np.zeros(most, np.int64)
        lasted = np.zeros((most, loops), np.int64)
        ends = ctypes.byref(ctypes.c_char.in_dll(library, "pool_ends")) if loops else None
        flush = ctypes.c_void_p(self.flush.address if self.flush else None)
        flush_bytes = ctypes.c_int64(self.flush.nbytes if self.flush else 0)
        limits = ctypes.c_int64(batch), ctypes.c_int64(most), ctypes.c_int64(budget_ns)
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        found = (ctypes.c_void_p(each.ctypes.data) for each in (samples, lost))
        looking = ends, ctypes.c_int64(loops), ctypes.c_void_p(lasted.ctypes.data)
        count = self.harness.harness_time(
            function, self.arguments[case], *limits, flush, flush_bytes, *found, *looking
        )
        os.sched_setaffinity(0, allowed)
        calls_ns, disturbed = samples[:count] / batch, are_disturbed(samples[:count], lost[:count])
        counted = lasted[:count] if disturbed.all() else lasted[:count][~disturbed]
        return {
            "batch": batch,
            "samples_ns": calls_ns[~disturbed].tolist(),
            "disturbed_ns": calls_ns[disturbed].tolist(),
            "loops_ns": (np.median(counted, axis=0) / batch).tolist(),
        }

    def op_check(self, case: int) -> Message:
        """What is wrong with the outputs and around them; empty where nothing is."""
        checked = self.cases[case]
        wrong: list[str] = []
        for name, output in self.outputs.items():
            difference = self._difference(output, checked.expected[name], checked.tolerances[name])
            if difference:
                wrong.append(f"{name}{difference}")
            if not output.gaps_are_intact():
                wrong.append(f"{name} was written between its elements")
        tensors = (*self.outputs.values(), *checked.inputs.values())
        wrong += [f"memory next to {t.tensor.name} was written" for t in tensors if not t.buffer.is_intact()]
        return {"wrong": "; ".join(wrong) + f" (inputs: {checked.name})" if wrong else ""}

    def _difference(self, found: TensorBuffer, expected: TensorBuffer, tolerance: Tolerance) -> str:
        """One fast pass over what should be right; what is not, or has gaps, is looked at closely."""
        if not found.gaps:
            dtype, count = found.tensor.dtype, ctypes.c_int64(found.tensor.elements)
            addresses = [ctypes.c_void_p(b.buffer.address) for b in (found, expected)]
            if isinstance(tolerance, np.ndarray):
                own = ctypes.c_void_p(tolerance.ctypes.data)
                differing = self._counting(dtype, "apart")(*addresses, count, own)
            else:
                differing = self._counting(dtype, "differing")(*addresses, count, ctypes.c_double(tolerance))
            if differing == 0:
                return ""
        return first_difference(found.numbers, expected.numbers, tolerance)

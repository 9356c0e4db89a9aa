"""Twins under the sanitizers of addresses and of undefined behaviour, in a process of their own.

In: programs, and a test case for each. Out: what a sanitizer says of them, or how their results differ; empty
where all is well. The process loads the sanitizer's library before anything else, so that the arrays of NumPy
have forbidden memory around them, too.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.cuda.checking import watching
from spacedsl.codegen.cuda.twin import unoptimised
from spacedsl.codegen.running.cases import Case
from spacedsl.codegen.running.differences import first_difference
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import elements, numbers
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.reference import view
from spacedsl.kernels.tensors import Tensor
from tests.codegen.runs import scalar

FLAGS = (
    *unoptimised(""), "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)  # fmt: skip
"""Beside those of a twin."""

TIMEOUT_S = 300.0


def watched() -> tuple[str, ...]:
    """Flags of a twin that sees races, built in little time."""
    return (*unoptimised(""), *watching())


def preloaded() -> str | None:
    """The sanitizer's library; None where the compiler is not GCC, or has none."""
    compiler = find_compiler()
    if compiler.is_clang:
        return None
    command = [*compiler.command, "-print-file-name=libasan.so"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return found if Path(found).is_absolute() else None


@dataclass(frozen=True, slots=True)
class Call:
    """Of a function of a library, with what it takes: tensors, then parameters and their values."""

    function: str
    tensors: Sequence[Tensor]
    parameters: Sequence[tuple[DType, float]]
    case: Case

    @classmethod
    def of(cls, function: str, kernel: KernelFile, case: Case) -> Call:
        parameters = [(p.dtype, case.parameters[p.name]) for p in kernel.backbone.parameters]
        return cls(function, kernel.backbone.tensors, parameters, case)

    @classmethod
    def of_pipeline(cls, function: str, file: PipelineFile, case: Case) -> Call:
        return cls(function, file.tensors, [(p.dtype, p.value) for p in file.algorithm.parameters], case)


def complaints(library: Path, calls: Sequence[Call], orders: Sequence[int]) -> str:
    """Of functions of a library that was built with `FLAGS`, in these orders."""
    said = library.with_suffix(".json")
    arrays: dict[str, np.ndarray] = {}
    asked = []
    for number, call in enumerate(calls):
        case = call.case
        for tensor in call.tensors:
            place = f"{number}/{tensor.name}"
            if tensor.is_output:
                arrays[place] = elements(tensor.dtype, np.full(tensor.span, 77))
                arrays[f"{place}/expected"] = case.expected[tensor.name]
                arrays[f"{place}/tolerance"] = np.asarray(case.tolerances[tensor.name])
            else:
                arrays[place] = case.inputs[tensor.name]
        asked.append({
            "function": call.function,
            "tensors": [(t.name, t.dtype.label, t.is_output, t.shape, t.strides) for t in call.tensors],
            "parameters": [(dtype.label, value) for dtype, value in call.parameters],
        })  # fmt: skip
    np.savez(library.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
    said.write_text(json.dumps({"calls": asked, "orders": list(orders)}))
    environment = {
        **os.environ,
        "LD_PRELOAD": preloaded() or "",
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "print_stacktrace=0",
    }
    command = [sys.executable, "-m", "tests.codegen.cuda.sanitized", str(library)]
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if ran.returncode == 0:
        return ran.stdout.strip()
    return f"status {ran.returncode}: {ran.stdout[-500:]}{ran.stderr[-4000:]}"


def main() -> None:
    """In the process of its own."""
    library = Path(sys.argv[1])
    asked = json.loads(library.with_suffix(".json").read_text())
    arrays = np.load(library.with_suffix(".npz"))
    loaded = ctypes.CDLL(str(library))
    order = ctypes.c_uint.in_dll(loaded, "twin_order")
    for order.value in asked["orders"]:
        loaded.twin_forget()
        for number, call in enumerate(asked["calls"]):
            # Copies, so that each array ends where its memory does.
            buffers = {name: arrays[f"{number}/{name}"].copy() for name, *_ in call["tensors"]}
            pointers = [ctypes.c_void_p(buffers[name].ctypes.data) for name, *_ in call["tensors"]]
            values = [scalar(DType.of(dtype), value) for dtype, value in call["parameters"]]
            print(f"{call['function']} in order {order.value}", file=sys.stderr, flush=True)
            getattr(loaded, call["function"])(*pointers, *values)
            for name, dtype, is_output, shape, strides in call["tensors"]:
                if is_output:
                    tensor = Tensor(name, DType.of(dtype), tuple(shape), tuple(strides), is_output=True)
                    wrong = first_difference(
                        numbers(tensor.dtype, view(tensor, buffers[name])),
                        numbers(tensor.dtype, view(tensor, arrays[f"{number}/{name}/expected"])),
                        arrays[f"{number}/{name}/tolerance"][()],
                    )
                    if wrong:
                        print(f"{call['function']} in order {order.value}: {name}{wrong}")


if __name__ == "__main__":
    main()

"""C written by hand for processors with AVX-512: what generated code is measured by."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

from benchmarks.cpu.peers import Variant
from benchmarks.cpu.peers.gcc import library
from benchmarks.cpu.problems import Problem
from benchmarks.turns import AbsentError

SOURCE = Path(__file__).with_suffix(".c")


def variants(name: str, sizes: Mapping[str, int], problem: Problem, threads: int) -> dict[str, Variant]:
    if "avx512f" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        raise AbsentError("the processor has no AVX-512")
    macros = [f"-D{name.upper()}", *(f"-D{size.upper()}={value}" for size, value in sizes.items())]
    built = library(SOURCE, ("-ffp-contract=fast", *macros))
    if not hasattr(built, "peer"):
        return {}
    function, out = built.peer, problem.output()
    function.restype = None
    arguments = [ctypes.c_void_p(array.ctypes.data) for array in (*problem.inputs, out)]
    scalars = [ctypes.c_float(value) for value in problem.scalars]
    return {"": Variant(lambda: function(*arguments, *scalars), out)}

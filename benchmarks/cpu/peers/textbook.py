"""gcc -O3 with OpenMP on plain loops."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

from benchmarks.cpu.peers import Variant
from benchmarks.cpu.peers.gcc import library
from benchmarks.cpu.problems import Problem

SOURCE = Path(__file__).with_suffix(".c")
FAST_MATH = ("-ffast-math",)
"""Sums in any order, which libraries and the product take for granted."""


def variants(name: str, sizes: Mapping[str, int], problem: Problem, threads: int) -> dict[str, Variant]:
    macros = [f"-D{name.upper()}", *(f"-D{size.upper()}={value}" for size, value in sizes.items())]
    function = library(SOURCE, (*FAST_MATH, *macros)).peer
    function.restype = None
    out = problem.output()
    arguments = [ctypes.c_void_p(array.ctypes.data) for array in (*problem.inputs, out)]
    scalars = [ctypes.c_float(value) for value in problem.scalars]
    return {"": Variant(lambda: function(*arguments, *scalars), out)}

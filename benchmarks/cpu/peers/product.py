"""The code that the product found: a library with the kernel's entry point.

In: a `Product`, that the parent made of a record. The kernel file may lay its operands out as it likes, and
name them so; their order and shapes are those of the problem.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.cpu.peers import Variant
from benchmarks.cpu.problems import Problem
from benchmarks.turns import AbsentError


@dataclass(frozen=True, slots=True)
class Product:
    library: str
    symbol: str
    inputs: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    """Names, shapes, and strides in elements, in the order of the kernel file."""
    output: tuple[str, tuple[int, ...], tuple[int, ...]]
    is_output_at: int
    """Position of the output among all tensors."""
    scalars: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Product:
        """From JSON."""

        def tensor(value: Any) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
            name, shape, strides = value
            return name, tuple(shape), tuple(strides)

        return cls(
            **{
                **document,
                "inputs": tuple(map(tensor, document["inputs"])),
                "output": tensor(document["output"]),
            }
        )


def variant(product: Product, problem: Problem) -> Variant:
    """Raises `AbsentError` where the kernel file means something else by its operands."""
    out = problem.output()
    arrays = [*problem.inputs, out]
    tensors = [*product.inputs, product.output]
    if len(arrays) != len(tensors) or len(problem.scalars) != product.scalars:
        raise AbsentError(f"the kernel file has other operands than {problem.signature}")
    for array, (name, shape, strides) in zip(arrays, tensors, strict=True):
        if (array.shape, array.strides) != (shape, tuple(4 * stride for stride in strides)):
            raise AbsentError(f"the kernel file's `{name}` is not laid out as in {problem.signature}")
    arguments = [ctypes.c_void_p(array.ctypes.data) for array in problem.inputs]
    arguments.insert(product.is_output_at, ctypes.c_void_p(out.ctypes.data))
    scalars = [ctypes.c_float(value) for value in problem.scalars]
    function = ctypes.CDLL(product.library)[product.symbol]
    function.restype = None
    return Variant(lambda: function(*arguments, *scalars), out)

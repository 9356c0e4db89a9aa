"""Generated code as a function on NumPy arrays.

In: a kernel's arguments and its C code. Out: a callable that takes arrays and numbers in the order of the
kernel's inputs and parameters and returns its outputs. The code runs in this process: what it does wrong,
this process suffers, so it should have been checked before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike, NDArray

from spacedsl.codegen.build import build_library
from spacedsl.codegen.c_printer import prototype
from spacedsl.codegen.names import entry_name
from spacedsl.codegen.scratch import scratch_folder
from spacedsl.kernels.linalg.backbone import DType, Kernel, Tensor

Array = NDArray[Any]

_NUMPY = {DType.F32: np.float32, DType.F64: np.float64, DType.I32: np.int32}
_C = {DType.F32: ctypes.c_float, DType.F64: ctypes.c_double, DType.I32: ctypes.c_int32}


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A kernel's implementation: `function(A, B)` gives C, or a tuple where the kernel has several outputs.

    Inputs are tensors and then parameters, by position or by name. An array of another dtype of the same kind
    is converted (float64 to float32, too); one with other strides is copied.
    """

    kernel: Kernel
    code: str
    library: ctypes.CDLL

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.kernel.tensors if not t.is_output)

    def __call__(self, *arguments: ArrayLike, **named: ArrayLike) -> Array | tuple[Array, ...]:
        given = self._bound(arguments, named)
        buffers: dict[str, Array] = {}
        outputs: list[Array] = []
        for tensor in self.kernel.tensors:
            buffer, elements = _room(tensor)
            if tensor.is_output:
                outputs.append(elements)
            else:
                array = np.asarray(given[tensor.name])
                if array.shape != tensor.shape:
                    raise ValueError(f"`{tensor.name}` must have the shape {tensor.shape}, not {array.shape}")
                if not _lies_as(array, tensor):
                    np.copyto(elements, array, casting="same_kind")
                else:
                    buffer = array
            buffers[tensor.name] = buffer
        pointers = [ctypes.c_void_p(buffers[t.name].ctypes.data) for t in self.kernel.tensors]
        scalars = [_C[p.dtype](_number(given[p.name], p.dtype)) for p in self.kernel.parameters]
        entry = self.library[entry_name(self.kernel.name)]
        entry.restype = None
        entry(*pointers, *scalars)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def __repr__(self) -> str:
        return f"<{prototype(self.kernel.name, self.kernel.tensors, self.kernel.parameters)}>"

    def _bound(self, arguments: Sequence[ArrayLike], named: Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
        """The arguments by name."""
        names = [t.name for t in self.inputs] + [p.name for p in self.kernel.parameters]
        given = {**dict(zip(names, arguments, strict=False)), **named}
        if (
            len(arguments) > len(names)
            or len(given) < len(arguments) + len(named)
            or set(given) != set(names)
        ):
            raise TypeError(f"{self.kernel.name} takes ({', '.join(names)})")
        return given


def build_function(kernel: Kernel, code: str) -> Function:
    """Compiles and loads; raises `BuildError` or `EnvironmentLack`."""
    with scratch_folder() as folder:
        # Once loaded, the library needs its file no more.
        return Function(kernel, code, ctypes.CDLL(str(build_library(code, folder / "kernel.so"))))


def _room(tensor: Tensor) -> tuple[Array, Array]:
    """A flat buffer for a tensor, and its elements in it."""
    buffer = np.zeros(tensor.span, _NUMPY[tensor.dtype])
    strides = [s * buffer.itemsize for s in tensor.strides]
    return buffer, as_strided(buffer, tensor.shape, strides)


def _lies_as(array: Array, tensor: Tensor) -> bool:
    """Whether the code can read the array where it is."""
    if array.dtype != _NUMPY[tensor.dtype] or not array.flags.aligned:
        return False
    strides = zip(array.shape, array.strides, tensor.strides, strict=True)
    return all(n == 1 or given == wanted * array.itemsize for n, given, wanted in strides)


def _number(value: ArrayLike, dtype: DType) -> Any:
    number = np.asarray(value)
    if number.shape != ():
        raise ValueError(f"a parameter is a number, not an array of the shape {number.shape}")
    if not np.can_cast(number.dtype, _NUMPY[dtype], casting="same_kind"):
        raise TypeError(f"a parameter of type {dtype.label} cannot be {value!r}")
    return number.astype(_NUMPY[dtype]).item()

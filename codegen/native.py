"""Generated code as a function on NumPy arrays.

In: a kernel's arguments and its C code. Out: a callable that takes arrays and numbers in the order of the
kernel's inputs and parameters and returns its outputs. The code runs in this process: what it does wrong,
this process suffers, so it should have been checked before.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike, NDArray

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.c.interface import Interface, prototype
from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.scratch import scratch_folder
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE, NUMPY_TYPE, elements
from spacedsl.kernels.tensors import Parameter, Tensor

Array = NDArray[Any]

_C: Mapping[DType, Any] = {
    DType.F32: ctypes.c_float, DType.F64: ctypes.c_double,
    DType.F16: ctypes.c_uint16, DType.BF16: ctypes.c_uint16,
    DType.BOOL: ctypes.c_uint8, DType.I8: ctypes.c_int8, DType.I16: ctypes.c_int16,
    DType.I32: ctypes.c_int32, DType.I64: ctypes.c_int64, DType.U8: ctypes.c_uint8,
    DType.U16: ctypes.c_uint16, DType.U32: ctypes.c_uint32, DType.U64: ctypes.c_uint64,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A kernel's implementation: `function(A, B)` gives C, or a tuple where the kernel has several outputs.

    Inputs are tensors and then parameters, by position or by name. An array of another dtype of the same kind
    is converted (float64 to float32, too, which rounds; integers have to fit), and so are integers to floats;
    anything else is a `TypeError`. One with other strides is copied. NumPy has no bf16: an array of uint16
    holds the bits, and any array of floating-point numbers is rounded to them.

    `out=` takes arrays to write to, one or a tuple of as many as there are outputs, and returns them. They
    have exactly the dtype, shape and strides of the outputs, are writable, and lie apart from each other and
    from all inputs, since the code assumes so; whatever else is given is a `ValueError`.

    A process that is forked has to load it anew: a call in it is a `RuntimeError`.
    """

    kernel: Interface
    code: str
    library: ctypes.CDLL
    process: int = field(default_factory=os.getpid)
    """That has loaded it: a child has none of the threads that the code may have started there."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.kernel.tensors if not t.is_output)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.kernel.tensors if t.is_output)

    def __call__(
        self, /, *arguments: ArrayLike, out: Array | tuple[Array, ...] | None = None, **named: ArrayLike
    ) -> Array | tuple[Array, ...]:
        if self.process != os.getpid():
            raise RuntimeError(f"{self.kernel.name} was loaded before this process was forked: load it here")
        given = self._bound(arguments, named)
        arrays = {t.name: _readable(given[t.name], t) for t in self.inputs}
        outputs = self._written(out, arrays)
        arrays |= {t.name: array for t, array in zip(self.outputs, outputs, strict=True)}
        pointers = [ctypes.c_void_p(arrays[t.name].ctypes.data) for t in self.kernel.tensors]
        scalars = [_C[p.dtype](_number(given[p.name], p)) for p in self.kernel.parameters]
        entry = self.library[entry_name(self.kernel.name)]
        entry.restype = None
        entry(*pointers, *scalars)
        return outputs[0] if len(outputs) == 1 else outputs

    def __repr__(self) -> str:
        return f"<{prototype(self.kernel.name, self.kernel.tensors, self.kernel.parameters)}>"

    def _written(
        self, out: Array | tuple[Array, ...] | None, inputs: Mapping[str, Array]
    ) -> tuple[Array, ...]:
        """The arrays that the code writes to: those given, checked, or new ones."""
        if out is None:
            return tuple(_room(tensor) for tensor in self.outputs)
        given = out if isinstance(out, tuple) else (out,)
        if len(given) != len(self.outputs):
            names = ", ".join(t.name for t in self.outputs)
            held = f"a tuple of {len(given)}" if isinstance(out, tuple) else f"one {type(out).__name__}"
            raise ValueError(
                f"`out` must be a tuple of as many arrays as there are outputs ({names}), not {held}"
            )
        others = dict(inputs)
        for tensor, array in zip(self.outputs, given, strict=True):
            _check_written(array, tensor)
            for name, other in others.items():
                # The code takes it that pointers do not alias.
                if np.may_share_memory(array, other):
                    raise ValueError(f"`out` for `{tensor.name}` overlaps with `{name}`")
            others[tensor.name] = array
        return given

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


def build_function(kernel: Interface, code: str) -> Function:
    """Compiles and loads; raises `BuildError` or `EnvironmentLack`."""
    with scratch_folder() as folder:
        # Once loaded, the library needs its file no more.
        return Function(kernel, code, ctypes.CDLL(str(build_library(code, folder / "kernel.so"))))


def _room(tensor: Tensor) -> Array:
    """New elements of a tensor, laid out as it says."""
    buffer = np.zeros(tensor.span, NUMPY_TYPE[tensor.dtype])
    return as_strided(buffer, tensor.shape, _strides_bytes(tensor))


def _readable(value: ArrayLike, tensor: Tensor) -> Array:
    """The values where and how the code reads them: in place if they lie so, else in a copy."""
    array = _as_bits(np.asarray(value), tensor)
    if array.shape != tensor.shape:
        raise ValueError(f"`{tensor.name}` must have the shape {tensor.shape}, not {array.shape}")
    if _lies_as(array, tensor):
        return array
    copied = _room(tensor)
    if tensor.dtype is DType.BF16 and array.dtype != np.uint16:
        if not np.issubdtype(array.dtype, np.floating):
            raise TypeError(
                f"`{tensor.name}` is bf16: bits are uint16, numbers floating-point, not {array.dtype}"
            )
        array = elements(DType.BF16, array)
    _check_converts(array, copied.dtype, tensor.name)
    np.copyto(copied, array, casting="unsafe")
    return copied


def _check_converts(array: Array, wanted: np.dtype[Any], name: str) -> None:
    """Raises `TypeError` for another kind of numbers, `ValueError` for integers that do not fit."""
    # Those of Python that no integer of NumPy holds are objects.
    are_integers = array.dtype.kind in "iu" or (
        array.dtype == object and all(isinstance(value, int) for value in array.flat)
    )
    if are_integers and wanted.kind in "iu":
        least, greatest = np.iinfo(wanted).min, np.iinfo(wanted).max
        for value in (array.min(), array.max()) if array.size else ():
            if not least <= value <= greatest:
                raise ValueError(f"`{name}` is of the dtype {wanted}, which does not hold {value}")
    elif not (are_integers and wanted.kind == "f") and not np.can_cast(array.dtype, wanted, "same_kind"):
        raise TypeError(f"`{name}` is of the dtype {wanted}, to which {array.dtype} is not converted")


def _as_bits(array: Array, tensor: Tensor) -> Array:
    """Of `ml_dtypes.bfloat16`, the same memory as code takes it."""
    is_bf16 = tensor.dtype is DType.BF16 and array.dtype == NUMBER_TYPE[DType.BF16]
    return array.view(NUMPY_TYPE[DType.BF16]) if is_bf16 else array


def _check_written(array: object, tensor: Tensor) -> None:
    """Raises `ValueError` unless the code can write its output there."""
    wanted = f"an array, not {type(array).__name__}"
    if isinstance(array, np.ndarray):
        wanted = _lacking(_as_bits(array, tensor), tensor)
    if wanted:
        raise ValueError(f"`out` for `{tensor.name}` must be {wanted}")


def _lacking(array: Array, tensor: Tensor) -> str:
    """What an array must be, and is not; empty where the code can write there."""
    if array.dtype != NUMPY_TYPE[tensor.dtype]:
        return f"of the dtype {np.dtype(NUMPY_TYPE[tensor.dtype])}, not {array.dtype}"
    if array.shape != tensor.shape:
        return f"of the shape {tensor.shape}, not {array.shape}"
    if not _lies_as(array, tensor):
        return f"aligned, with the strides {_strides_bytes(tensor)} in bytes, not {array.strides}"
    return "" if array.flags.writeable else "writable"


def _strides_bytes(tensor: Tensor) -> tuple[int, ...]:
    return tuple(stride * tensor.dtype.nbytes for stride in tensor.strides)


def _lies_as(array: Array, tensor: Tensor) -> bool:
    """Whether the code can use the array where it is."""
    if array.dtype != NUMPY_TYPE[tensor.dtype] or not array.flags.aligned:
        return False
    strides = zip(array.shape, array.strides, _strides_bytes(tensor), strict=True)
    return all(n == 1 or given == wanted for n, given, wanted in strides)


def _number(value: ArrayLike, parameter: Parameter) -> Any:
    number, dtype = np.asarray(value), parameter.dtype
    if number.shape != ():
        raise ValueError(f"`{parameter.name}` is a number, not an array of the shape {number.shape}")
    arithmetic = dtype if dtype.has_arithmetic else DType.F32
    _check_converts(number, np.dtype(NUMPY_TYPE[arithmetic]), parameter.name)
    try:
        with np.errstate(over="ignore"):
            held = number.astype(NUMBER_TYPE[dtype])
        is_held = bool(np.isfinite(held.astype(np.float64)) or not np.isfinite(number.astype(np.float64)))
    except OverflowError:
        is_held = False
    if not is_held:
        raise ValueError(f"`{parameter.name}` is of the type {dtype.label}, which does not hold {number}")
    return (held if dtype.has_arithmetic else held.view(np.uint16)).item()

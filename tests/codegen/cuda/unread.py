"""What an implementation has to read, and whether its twin did.

In: a kernel whose twin has run, watched. Out: the first element of an input that no thread has read, though
the computation needs it. A maximum tells of few of its terms whether they were there.
"""

from __future__ import annotations

import ctypes
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from spacedsl.codegen.running.cases import Case
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.tensors import Tensor


def needed(kernel: KernelFile, tensor: Tensor) -> NDArray[np.bool_]:
    """Of each element of an input's memory, whether a load of the kernel is for it in some iteration."""
    mask = np.zeros(tensor.span, bool)
    for instruction in kernel.backbone.instructions:
        access = instruction.access
        if instruction.op is Op.LOAD and access is not None and access.tensor == tensor:
            steps = (stride * np.arange(dim.extent) for dim, stride in access.strides)
            offsets = reduce(np.add.outer, steps, np.array(access.offset))
            mask[offsets.ravel()] = True
    return mask


def first_unread(kernel: KernelFile, library: ctypes.CDLL, case: Case) -> str:
    """Since the library has forgotten; empty where there is none, and where nobody has watched."""
    if not hasattr(library, "twin_unread"):
        return ""
    library.twin_unread.restype = ctypes.c_size_t
    for tensor in kernel.backbone.tensors:
        if tensor.is_output:
            continue
        mask, array = needed(kernel, tensor), case.inputs[tensor.name]
        addresses = (ctypes.c_void_p(each.ctypes.data) for each in (array, mask))
        sizes = (ctypes.c_size_t(n) for n in (tensor.span, array.itemsize))
        if (first := library.twin_unread(*addresses, *sizes)) < tensor.span:
            return f"nobody reads element {first} of {tensor.name}"
    return ""

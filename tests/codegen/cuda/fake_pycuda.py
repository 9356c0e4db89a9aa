"""As much of PyCUDA as launchers use, without a GPU: memory of the host, and kernels that are twins."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.codegen.cuda.fake_gpu import build_image


class Memory(int):
    """An address, with what lies there."""

    array: np.ndarray[Any, Any]


def mem_alloc(nbytes: int) -> Memory:
    array = np.full(nbytes, 0xFF, np.uint8)
    memory = Memory(array.ctypes.data)
    memory.array = array
    return memory


def to_device(array: np.ndarray[Any, Any]) -> Memory:
    memory = mem_alloc(array.nbytes)
    memory.array[:] = array.view(np.uint8)
    return memory


def memcpy_dtoh(array: np.ndarray[Any, Any], memory: Memory) -> None:
    array.view(np.uint8)[:] = memory.array


def memset_d8(memory: Memory, byte: int, nbytes: int) -> None:
    memory.array[:nbytes] = byte


class Function:
    def __init__(self, run: Any) -> None:
        self.run, self.shared = run, 48 << 10

    def set_attribute(self, attribute: str, value: int) -> None:
        assert attribute == "most dynamic shared memory"
        self.shared = value

    def __call__(
        self, *arguments: Any, grid: tuple[int, int], block: tuple[int, int, int], shared: int
    ) -> None:
        assert grid[1:] == (1,) and block[1:] == (1, 1) and shared <= self.shared
        for each in arguments:
            # As `_build_arg_buf` and its format strings do.
            is_known = isinstance(each, np.number) and each.dtype != np.float16
            if not (is_known or isinstance(each, Memory)):
                raise TypeError(f"invalid type on parameter: {type(each)}")
        values = [np.array(np.uint64(a) if isinstance(a, Memory) else a) for a in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        self.run(grid[0], block[0], ctypes.c_size_t(shared), pointers)


def modules(folder: Path) -> dict[str, ModuleType]:
    """What `import pycuda...` finds; twins are built in a folder."""

    class SourceModule:
        def __init__(self, code: str, *, arch: str, options: list[str], no_extern_c: bool) -> None:
            assert arch == "sm_90" and no_extern_c
            path = folder / f"{len(list(folder.iterdir()))}.so"
            build_image(code, path)
            self.library = ctypes.CDLL(str(path))

        def get_function(self, name: str) -> Function:
            return Function(getattr(self.library, f"run_{name}"))

    pycuda, driver, compiler = (ModuleType(f"pycuda{name}") for name in ("", ".driver", ".compiler"))
    driver.__dict__.update(
        mem_alloc=mem_alloc, to_device=to_device, memcpy_dtoh=memcpy_dtoh, memset_d8=memset_d8,
        function_attribute=SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="most dynamic shared memory"),
    )  # fmt: skip
    compiler.__dict__.update(SourceModule=SourceModule)
    pycuda.__dict__.update(driver=driver, compiler=compiler)
    return {
        "pycuda": pycuda, "pycuda.driver": driver, "pycuda.compiler": compiler,
        "pycuda.autoinit": ModuleType("pycuda.autoinit"),
    }  # fmt: skip

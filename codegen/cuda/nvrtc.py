"""NVRTC: CUDA C++ becomes a cubin, and what it says of registers and memory, without a driver or a GPU.

In: text and a compute capability. Out: a `Cubin`, or a `BuildError` with the compiler's messages. The library
is that of the `nvidia-cuda-nvrtc` package, or one that the system finds. Nothing is run here.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.cuda.compilers import compiled_apart
from spacedsl.codegen.lack import EnvironmentLack


@dataclass(frozen=True, slots=True)
class Resources:
    """What a thread, and what a block of a kernel takes; as far as it is known before a launch."""

    registers: int
    """Of a thread."""
    spilled_bytes: int
    """Of registers that there was no room for: stored and loaded again, of a thread."""
    stack_bytes: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """Code for one architecture, and what its kernels take, by their names."""

    code: bytes
    resources: Mapping[str, Resources]


OPTIONS = ("--std=c++17", "-default-device", "--ptxas-options=-v")

QUICKLY = "--Ofast-compile=max"
"""For code that nobody will time: a third to a tenth of the time, and other registers."""


def compile_cubin(code: str, compute_capability: str, *options: str) -> Cubin:
    """In a process of its own, since there is code that the compiler breaks at. `options`: beside `OPTIONS`.

    Raises `BuildError` for what it refuses or breaks at, `EnvironmentLack` where there is none.
    """
    found = compiled_apart(code, compute_capability, options)
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, Cubin)
    return found


def compile_here(code: str, compute_capability: str, options: Sequence[str] = ()) -> Cubin:
    """The same in this process."""
    library = load_nvrtc()
    program = ctypes.c_void_p()
    _check(
        library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None, None),
        "create",
    )
    try:
        architecture = f"--gpu-architecture=sm_{compute_capability.replace('.', '')}"
        told = [option.encode() for option in (*OPTIONS, *options, architecture)]
        result = library.nvrtcCompileProgram(program, len(told), (ctypes.c_char_p * len(told))(*told))
        log = _text(library, "ProgramLog", program).decode(errors="replace")
        if result:
            raise BuildError(log.strip() or f"NVRTC refused it ({result})")
        return Cubin(_text(library, "CUBIN", program), dict(_resources(log)))
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def version() -> str:
    """The compiler's name for itself."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(load_nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "version")
    return f"NVRTC {major.value}.{minor.value}"


@functools.cache
def is_target(compute_capability: str) -> bool:
    """Whether the compiler knows the architecture: it forgets the oldest ones."""
    library, count = load_nvrtc(), ctypes.c_int()
    _check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "architectures")
    known = (ctypes.c_int * count.value)()
    _check(library.nvrtcGetSupportedArchs(known), "architectures")
    return int(compute_capability.replace(".", "")) in known


@functools.cache
def load_nvrtc() -> ctypes.CDLL:
    """Raises `EnvironmentLack` where there is no library."""
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise EnvironmentLack(
        "no compiler for CUDA: `pip install 'spacedsl[cuda]'` brings NVRTC, which needs no GPU and no driver"
    )


def _candidates() -> Iterator[str]:
    found = importlib.util.find_spec("nvidia")
    for folder in found.submodule_search_locations or () if found else ():
        # What it loads by its bare name has to be there before it.
        for builtins in sorted(Path(folder).glob("*/lib/libnvrtc-builtins.so*")):
            with suppress(OSError):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        yield from sorted(str(path) for path in Path(folder).glob("*/lib/libnvrtc.so*"))
    yield from ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")


def _text(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, buffer), what)
    return buffer.raw if what == "CUBIN" else buffer.value


def _check(result: int, what: str) -> None:
    if result:
        raise BuildError(f"NVRTC cannot give its {what} ({result})")


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


def _resources(log: str) -> Iterator[tuple[str, Resources]]:
    name, stack, spilled = "", 0, 0
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            name = entry[1]
        elif spills := _SPILLS.search(line):
            stack, spilled = int(spills[1]), int(spills[2]) + int(spills[3])
        elif registers := _REGISTERS.search(line):
            yield name, Resources(int(registers[1]), spilled, stack)

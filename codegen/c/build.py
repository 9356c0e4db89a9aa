"""Building: C text becomes a shared library, through whatever C compiler this machine has.

In: C text and a place for the result. Out: the path of the library, or a `BuildError` with the
compiler's messages. The flags restrain the compiler to what a program tree says: no loop is vectorised
behind its back, and products and sums are contracted. A compiler that hangs is killed with all its
children.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from spacedsl import c_compilers
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.scratch import no_room, scratch_folder, writing_to

BUILD_TIMEOUT_S = 30.0
_MESSAGE_CHARACTERS = 4000

FLAGS = (
    "-O2", "-march=native", "-std=c11", "-ffp-contract=fast", "-fno-tree-vectorize",
    "-fno-tree-slp-vectorize", "-fno-sanitize=all", "-w", "-shared", "-fPIC", "-pthread",
)  # fmt: skip
LIBRARIES = ("-lm",)
"""Behind the code, which calls functions of them."""

_CLANG_NAMES = {"-fno-tree-vectorize": "-fno-vectorize", "-fno-tree-slp-vectorize": "-fno-slp-vectorize"}


_PROBE = "#include <pthread.h>\n#include <stdint.h>\nint64_t probe(void) { return 0; }\n"
"""What every compiler must make a library of, before it counts as one."""

_NO_ROOM = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS))
"""Words of a compiler for what is no fault of the code."""


class BuildError(Exception):
    """The compiler refused the code (or was killed for its time): its messages."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that answers, with the flags in its own words."""

    command: tuple[str, ...]
    version: str
    """Its first line about itself."""
    is_clang: bool

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(_CLANG_NAMES.get(f, f) for f in FLAGS) if self.is_clang else FLAGS

    @property
    def digest(self) -> str:
        """Equal for equal compilers and flags."""
        return hashlib.sha256("\0".join([*self.command, self.version, *self.flags]).encode()).hexdigest()


@functools.cache
def find_compiler() -> Compiler:
    """The first compiler that does; raises `EnvironmentLack`.

    Whatever is found has built a library that this process can load.
    """
    chosen = c_compilers.chosen()
    if chosen is not None:
        try:
            return _tried(*c_compilers.commands())
        except (BuildError, ValueError) as error:
            raise EnvironmentLack(f"the C compiler that CC names, `{chosen}`, {error}") from None
    faults = []
    for command in c_compilers.commands():
        try:
            return _tried(command)
        except BuildError as error:
            faults.append(f"; `{' '.join(command)}` {error}")
    remedy = "install gcc or clang, or `pip install ziglang`, or set CC"
    raise EnvironmentLack(f"no C compiler: {remedy}{''.join(faults)}")


def _tried(command: tuple[str, ...]) -> Compiler:
    """The compiler, once it has proved itself; raises `BuildError` with what it fails to do."""
    compiler = _ask(command)
    if compiler is None:
        raise BuildError("does not run")
    with scratch_folder() as folder:
        try:
            ctypes.CDLL(str(build_library(_PROBE, folder / "probe.so", compiler)))
        except BuildError as error:
            raise BuildError(f"builds no library: {_first_error(str(error))}") from None
        except OSError as error:
            raise BuildError(f"builds libraries that cannot be loaded: {error}") from None
    return compiler


def _first_error(messages: str) -> str:
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0])


def _ask(command: tuple[str, ...]) -> Compiler | None:
    answer = c_compilers.version(command)
    return None if answer is None else Compiler(command, answer.splitlines()[0], "clang" in answer)


def build_library(
    code: str,
    library: Path,
    compiler: Compiler | None = None,
    *,
    timeout_s: float = BUILD_TIMEOUT_S,
    flags: tuple[str, ...] | None = None,
    extra_flags: tuple[str, ...] = (),
) -> Path:
    """Compiles `code` to the shared library `library`, and leaves nothing half-made.

    `flags`: in place of `FLAGS`. Raises `BuildError`, and `EnvironmentLack` where there is no room for it.
    """
    compiler = compiler or find_compiler()
    with scratch_folder(library.parent) as folder:
        source, result = folder / "code.c", folder / "code.so"
        with writing_to(library.parent):
            source.write_text(code, encoding="utf-8")
        said = compiler.flags if flags is None else flags
        command = [*compiler.command, *said, *extra_flags, "-o", str(result), str(source), *LIBRARIES]
        status, messages = _run_group(command, folder, timeout_s)
        if status is None:
            raise BuildError(f"the compiler was killed after {timeout_s:g} s", timed_out=True)
        if status != 0 or not result.exists():
            for reason in _NO_ROOM:
                if reason in messages:
                    raise no_room(library.parent, reason)
            silence = f"the compiler ended with status {status} and without a library"
            raise BuildError(messages.strip()[:_MESSAGE_CHARACTERS] or silence)
        result.replace(library)
    return library


def build_object(code: str, target: Path, *, timeout_s: float = BUILD_TIMEOUT_S) -> Path:
    """The same of a part of a library, which `build_library` then takes among its `extra_flags`."""
    return build_library(code, target, timeout_s=timeout_s, extra_flags=("-c",))


def _run_group(command: list[str], folder: Path, timeout_s: float) -> tuple[int | None, str]:
    """Status (None: timed out) and messages of a command whose whole process group ends with it.

    Its messages are in English, and its temporary files end with the folder.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)},
    )
    try:
        messages, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return None, ""
    else:
        return process.returncode, messages.replace(str(folder) + "/", "")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

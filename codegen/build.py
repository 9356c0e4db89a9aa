"""Building: C text becomes a shared library, through whatever C compiler this machine has.

In: C text and a place for the result. Out: the path of the library, or a `BuildError` with the
compiler's messages. The flags restrain the compiler to what a program tree says: no loop is vectorised
behind its back, and products and sums are contracted. A compiler that hangs is killed with all its
children.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

BUILD_TIMEOUT_S = 30.0
_MESSAGE_CHARACTERS = 4000

FLAGS = (
    "-O2", "-march=native", "-std=c11", "-ffp-contract=fast", "-fno-tree-vectorize",
    "-fno-tree-slp-vectorize", "-fno-sanitize=all", "-w", "-shared", "-fPIC", "-pthread",
)  # fmt: skip
_CLANG_NAMES = {"-fno-tree-vectorize": "-fno-vectorize", "-fno-tree-slp-vectorize": "-fno-slp-vectorize"}


class EnvironmentLack(Exception):  # noqa: N818 (a lack is no error of the program)
    """This machine lacks something that the work needs; the message says what, and what to do about it."""


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
    """`$CC`, else cc, gcc or clang, else the compiler of the ziglang package; raises `EnvironmentLack`."""
    chosen = os.environ.get("CC")
    if chosen:
        compiler = _ask(tuple(shlex.split(chosen)))
        if compiler is None:
            raise EnvironmentLack(f"the C compiler that CC names, `{chosen}`, does not run")
        return compiler
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name) and (compiler := _ask((name,))) is not None:
            return compiler
    if importlib.util.find_spec("ziglang") and (compiler := _ask((sys.executable, "-m", "ziglang", "cc"))):
        return compiler
    raise EnvironmentLack("no C compiler: install gcc or clang, or `pip install ziglang`, or set CC")


def _ask(command: tuple[str, ...]) -> Compiler | None:
    try:
        answer = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0 or not answer.stdout.strip():
        return None
    return Compiler(command, answer.stdout.splitlines()[0], "clang" in answer.stdout)


def build_library(
    code: str,
    library: Path,
    compiler: Compiler | None = None,
    *,
    timeout_s: float = BUILD_TIMEOUT_S,
    extra_flags: tuple[str, ...] = (),
) -> Path:
    """Compiles `code` to the shared library `library`; raises `BuildError`, and leaves nothing half-made."""
    compiler = compiler or find_compiler()
    with tempfile.TemporaryDirectory(prefix="spacedsl-", dir=library.parent) as folder:
        source, result = Path(folder, "code.c"), Path(folder, "code.so")
        source.write_text(code, encoding="utf-8")
        command = [*compiler.command, *compiler.flags, *extra_flags, "-o", str(result), str(source)]
        status, messages = _run_group(command, Path(folder), timeout_s)
        if status is None:
            raise BuildError(f"the compiler was killed after {timeout_s:g} s", timed_out=True)
        if status != 0 or not result.exists():
            raise BuildError(messages[:_MESSAGE_CHARACTERS] or f"the compiler ended with status {status}")
        result.replace(library)
    return library


def _run_group(command: list[str], folder: Path, timeout_s: float) -> tuple[int | None, str]:
    """Status (None: timed out) and messages of a command whose whole process group ends with it."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
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

"""Micro-benchmarks: what this machine can do at most, in programs that measure it.

In: a compiler, a C program of this package. Out: the lines that it prints, from a process of its own. A rate
is the best of many samples and raised by a margin: a bound must hold for runs at moments that nobody
measured. What the lines mean is for `core_peaks.py`, `memory_peaks.py` and `start_peaks.py`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from spacedsl.codegen.c.build import BuildError, Compiler, build_library
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.machine.processor import Vectors

CORE_MARGIN = 1.1
"""Of all that belongs to one core: the clock may rise above what was seen."""

SHARED_MARGIN = 1.3
"""Of caches and memory that other cores, of other processes or other tenants, take part of."""

_TIMEOUT_S = 60.0

_RUN = """
import ctypes, sys
arguments = [text.encode() for text in sys.argv[1:]]
sys.exit(ctypes.CDLL(sys.argv[1]).main(len(arguments), (ctypes.c_char_p * (len(arguments) + 1))(*arguments)))
"""


def output(
    source: Path,
    compiler: Compiler,
    vectors: Vectors,
    folder: Path,
    arguments: Sequence[str],
    head: str = "",
) -> list[str]:
    """The lines that a program prints, built in `folder` with the flags of candidates.

    `head`: what stands before its text. Raises `EnvironmentLack` where it cannot be built or run.
    """
    library = folder / f"{source.stem}.so"
    try:
        if not library.exists():
            flags = (f"-DVECTOR_BYTES={vectors.nbytes}",)
            build_library(head + source.read_text(encoding="utf-8"), library, compiler, extra_flags=flags)
        answer = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _RUN, str(library), *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except BuildError as error:
        raise EnvironmentLack(f"the C compiler cannot build {source.name}: {error}") from None
    except (subprocess.SubprocessError, OSError) as error:
        raise EnvironmentLack(f"{source.name} does not run here: {error}") from None
    return answer.stdout.splitlines()


def raised(rate: float, margin: float) -> float:
    """A measured rate with its margin, as a description of the machine holds it."""
    return round(rate * margin, 3)

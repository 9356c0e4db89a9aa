"""Small C files as libraries, built by gcc as a user would call it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.turns import AbsentError

FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


def library(source: Path, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Raises `AbsentError` where there is no gcc."""
    gcc = shutil.which("gcc")
    if gcc is None:
        raise AbsentError("gcc is not installed")
    with tempfile.TemporaryDirectory(prefix="spacedsl-") as folder:
        built = Path(folder, "peer.so")
        subprocess.run([gcc, *FLAGS, *flags, str(source), "-o", str(built), "-lm"], check=True)
        return ctypes.CDLL(str(built))

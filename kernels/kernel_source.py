"""The text of a kernel: what stands in its file, or what a function of a Python file writes.

In: a path, or `FILE.py:FUNCTION` as one, and sizes from the command line. Out: the text, and those of the
sizes that are not in it yet. What it says is for the loaders of the backbones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spacedsl.diagnostics import Source
from spacedsl.kernels.pipeline.python.loading import PythonFunction, kernel_text


def is_kernel(path: Path) -> bool:
    """Whether it is named as kernels are."""
    return path.suffix in {".yaml", ".yml"} or PythonFunction.named_by(path) is not None


def kernel_source(path: Path, sizes: Mapping[str, int]) -> tuple[Source, Mapping[str, int]]:
    """Raises `OSError` where the file cannot be read, `DiagnosticError` and `SizeOverrideError` for what is
    wrong in Python."""
    named = PythonFunction.named_by(path)
    if named is None:
        return Source.read(path), sizes
    return Source(str(path), kernel_text(named, sizes)), {}

"""The text of a kernel: what stands in its file, or what a function of a Python file writes.

In: a path, or `FILE.py:FUNCTION` as one, and sizes from the command line. Out: the text, and those of the
sizes that are not in it yet. What it says is for the loaders of the backbones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spacedsl.diagnostics import Source

_FORM = re.compile(r"(?P<file>.+\.py)(?::(?P<function>\w*))?")


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """What `FILE.py:FUNCTION` names."""

    file: Path
    name: str

    @classmethod
    def named_by(cls, path: Path) -> PythonFunction | None:
        """None for a path of another form; without a function, its name is empty."""
        match = _FORM.fullmatch(str(path))
        return None if match is None else cls(Path(match["file"]), match["function"] or "")


def is_kernel(path: Path) -> bool:
    """Whether it is named as kernels are."""
    return path.suffix in {".yaml", ".yml"} or PythonFunction.named_by(path) is not None


def kernel_source(path: Path, sizes: Mapping[str, int]) -> tuple[Source, Mapping[str, int]]:
    """Raises `OSError` where the file cannot be read, `DiagnosticError` and `SizeOverrideError` for what is
    wrong in Python."""
    function = PythonFunction.named_by(path)
    if function is None:
        return Source.read(path), sizes
    from spacedsl.kernels.pipeline.python.loading import kernel_text

    return Source(str(path), kernel_text(function, sizes)), {}

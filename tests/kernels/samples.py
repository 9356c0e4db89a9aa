"""Kernel files for the tests of this folder, as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spacedsl.diagnostics import Source
from spacedsl.kernels.kernel_file import KernelFile, check_kernel
from tests.products import product

LIBRARY = Path(__file__).resolve().parents[2] / "kernels" / "library"

MATMUL = product(64, 48, 32)


def check(text: str, sizes: Mapping[str, int] | None = None) -> KernelFile:
    return check_kernel(Source("test.yaml", text), Path("test.yaml"), sizes or {})


def changed(*edits: tuple[str, str], text: str = MATMUL) -> str:
    """The text after replacements, each of which must apply."""
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text

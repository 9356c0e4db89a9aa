"""Kernel files of every backbone, for what works on any of them: checking, solving, explaining.

In: the path of a kernel file, and sizes from the command line. Out: what the loader of its backbone makes of
it. Whoever generates code asks for the one backbone that it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from spacedsl.diagnostics import Source
from spacedsl.kernels.kernel_file import KernelFile, check_kernel
from spacedsl.kernels.located_yaml import parse_document
from spacedsl.kernels.plain.kernel_file import PlainFile, check_plain

AnyKernel = KernelFile | PlainFile


def load_any(path: Path, sizes: Mapping[str, int] = MappingProxyType({})) -> AnyKernel:
    """Reads and checks a kernel file of any backbone; `sizes` replace sizes or integer parameters.

    Raises `OSError` where the file cannot be read, `SizeOverrideError` for a wrong entry of `sizes`,
    `DiagnosticError` with all that is wrong in the file.
    """
    source = Source.read(path)
    document = parse_document(source, "KF")
    if isinstance(document.data, dict) and document.data.get("backbone") == "plain":
        return check_plain(document, path, sizes)
    return check_kernel(source, path, sizes)

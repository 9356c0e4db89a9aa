"""The backbones, for what works on any of them: checking, solving, explaining, and an editor's proposals.

In: the path of a kernel file, and sizes from the command line. Out: what the loader of its backbone makes of
it. What code is generated for has a common part, which `MeasurableKernel` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from spacedsl.diagnostics import Source
from spacedsl.kernels.kernel_file import KernelFile, Kind, check_kernel, no_code_for_plain
from spacedsl.kernels.kernel_source import kernel_source
from spacedsl.kernels.linalg import backbone as linalg
from spacedsl.kernels.located_yaml import Document, parse_document
from spacedsl.kernels.pipeline import backbone as pipeline
from spacedsl.kernels.pipeline.kernel_file import PipelineFile, check_pipeline
from spacedsl.kernels.plain import backbone as plain
from spacedsl.kernels.plain.kernel_file import PlainFile, check_plain

MeasurableKernel = KernelFile | PipelineFile
"""Those that there is code for."""

AnyKernel = MeasurableKernel | PlainFile


@dataclass(frozen=True, slots=True)
class Backbone:
    """A kind of kernels."""

    check: Callable[[Document, Path, Mapping[str, int], bool], AnyKernel]
    """A kernel file that has been parsed, its path, sizes, and whether its space is needed; raises as
    `load_any`.
    """
    classes: tuple[type, ...]
    """Of the kernel, first, and of its objects, as far as they are the same for all kernel files."""


BACKBONES: Mapping[str, Backbone] = MappingProxyType(
    {
        "linalg": Backbone(
            lambda document, path, sizes, needs_space: check_kernel(
                document.source, path, sizes, needs_space=needs_space
            ),
            (
                linalg.Kernel,
                *(c for c in vars(linalg).values() if isinstance(c, type) and c is not linalg.Kernel),
            ),
        ),
        "pipeline": Backbone(
            lambda document, path, sizes, needs_space: check_pipeline(
                document, path, sizes, needs_space=needs_space
            ),
            (pipeline.Kernel, pipeline.Step, pipeline.Box, pipeline.Slot, pipeline.Read, pipeline.Term),
        ),
        "plain": Backbone(
            lambda document, path, sizes, _: check_plain(document, path, sizes),
            (plain.PlainKernel, plain.PlainObject),
        ),
    }
)
"""By the name that `backbone:` gives."""


def load_any(path: Path, sizes: Mapping[str, int] = MappingProxyType({})) -> AnyKernel:
    """Reads and checks a kernel file of any backbone, or `FILE.py:FUNCTION`; `sizes` replace sizes or integer
    parameters.

    Raises `OSError` where the file cannot be read, `SizeOverrideError` for a wrong entry of `sizes`,
    `DiagnosticError` with all that is wrong in the file.
    """
    source, others = kernel_source(path, sizes)
    return check_file(source, path, others)


def check_file(source: Source, path: Path, sizes: Mapping[str, int] = MappingProxyType({})) -> AnyKernel:
    """The same for a text that has been read; `path` is where `space:` starts from."""
    return _checked(parse_document(source, "KF"), path, sizes)


def load_measurable(
    path: Path | str, sizes: Mapping[str, int] = MappingProxyType({}), kind: Kind = "cpu"
) -> MeasurableKernel:
    """The same of a kernel that there is code for, made for a kind of machine; KF045 where there is none."""
    path = Path(path)
    source, others = kernel_source(path, sizes)
    return _measurable(source, path, others, kind)


def check_recorded(path: str, text: str, sizes: Mapping[str, int], kind: Kind) -> MeasurableKernel:
    """The same for a text that was written down, and the path that it had. Which rules it is for is known
    without it: those that it names need not be there.
    """
    return _measurable(Source(path, text), Path(path), sizes, kind, needs_space=False)


def _measurable(
    source: Source, path: Path, sizes: Mapping[str, int], kind: Kind, *, needs_space: bool = True
) -> MeasurableKernel:
    document = parse_document(source, "KF")
    if _backbone(document) == "plain":
        raise no_code_for_plain(document)
    kernel = _checked(document, path, sizes, needs_space=needs_space)
    assert not isinstance(kernel, PlainFile)
    return kernel.made_for(kind)


def _checked(
    document: Document, path: Path, sizes: Mapping[str, int], *, needs_space: bool = True
) -> AnyKernel:
    # Of a file that names no backbone, the first one says what is wrong.
    backbone = BACKBONES.get(_backbone(document) or "linalg", BACKBONES["linalg"])
    return backbone.check(document, path, sizes, needs_space)


def _backbone(document: Document) -> str | None:
    name = document.data.get("backbone") if isinstance(document.data, dict) else None
    return name if isinstance(name, str) else None

"""Pipelines from text, for tests: a kernel file around some stages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source
from spacedsl.kernels.located_yaml import parse_document
from spacedsl.kernels.pipeline.kernel_file import PipelineFile, check_pipeline


def text_of(stages: str, outputs: str, inputs: str = "{}", more: str = "") -> str:
    lines = "\n".join(f"  {line}" for line in stages.strip().splitlines())
    return f"kernel: k\nbackbone: pipeline\n{more}inputs: {inputs}\noutputs: {outputs}\nstages: |\n{lines}\n"


def read(text: str, sizes: Mapping[str, int] = MappingProxyType({})) -> PipelineFile:
    return check_pipeline(parse_document(Source("k.yaml", text), "KF"), Path("k.yaml"), sizes)


def pipeline(stages: str, outputs: str, inputs: str = "{}", more: str = "") -> PipelineFile:
    return read(text_of(stages, outputs, inputs, more))


def mistakes(text: str) -> list[Diagnostic]:
    """What is wrong with a file; nothing where it is right."""
    try:
        read(text)
    except DiagnosticError as error:
        return list(error.diagnostics)
    return []


def boxes(file: PipelineFile) -> dict[str, list[tuple[int, int]]]:
    """The least and the greatest point that is needed along each dimension."""
    return {name: [(e.low, e.high) for e in box] for name, box in file.boxes.items()}

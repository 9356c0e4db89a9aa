"""What editors know of kernel and device files: JSON Schemas, made from the models that read them.

In: the models of `schema.py`, `device.py` and `gpu_device.py`. Out: schemas as text. The copies that are
stored beside this module are written by `python -m spacedsl.kernels.json_schema`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter

from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.schema import KernelEntry, PipelineEntry, PlainEntry

FileKind = Literal["kernel", "device"]

STORED: Mapping[FileKind, Path] = MappingProxyType(
    {kind: Path(__file__).resolve().parent / f"{kind}-file.schema.json" for kind in get_args(FileKind)}
)

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: FileKind) -> str:
    """The JSON Schema of a kind of file."""
    models: Mapping[FileKind, TypeAdapter[Any]] = {
        "kernel": TypeAdapter(
            Annotated[KernelEntry | PipelineEntry | PlainEntry, Field(discriminator="backbone")]
        ),
        "device": TypeAdapter(Annotated[CpuDevice | GpuDevice, Field(discriminator="kind")]),
    }
    return json.dumps({"$schema": _DRAFT, **models[kind].json_schema()}, indent=2) + "\n"


if __name__ == "__main__":
    for kind, path in STORED.items():
        path.write_text(json_schema(kind), encoding="utf-8")

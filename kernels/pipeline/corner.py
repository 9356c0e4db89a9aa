"""A pipeline of which less is wanted: parts of its outputs, and of everything else what these need.

In: a kernel file, and for each output the part that is wanted. Out: the file of that, as no text could say
it: ranges, clamps and parameters keep their values. Schedules of it are for code generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from spacedsl.kernels.pipeline.algorithm import Box
from spacedsl.kernels.pipeline.bounds import infer
from spacedsl.kernels.pipeline.build import build
from spacedsl.kernels.pipeline.kernel_file import PipelineFile


def corner(file: PipelineFile, outputs: Mapping[str, Box]) -> PipelineFile:
    """`outputs`: parts of those of the file, none empty."""
    whole, boxes = file.algorithm, needed(file, outputs)
    stages = tuple(stage for stage in whole.stages if stage.name in boxes)
    algorithm = replace(whole, stages=stages, outputs=MappingProxyType(dict(outputs)))
    return replace(
        file, algorithm=algorithm, boxes=MappingProxyType(dict(boxes)), backbone=build(algorithm, boxes)
    )


def needed(file: PipelineFile, outputs: Mapping[str, Box]) -> Mapping[str, Box]:
    """What these parts need of all stages and inputs that they read."""
    boxes, problems = infer(file.algorithm.stages, file.algorithm.inputs, outputs)
    assert not problems, "what all of an output needs holds what a part of it does"
    return boxes

"""Kernel files of pipelines: from YAML text to an algorithm, and what is needed of each stage.

In: the path of a kernel file, and sizes from the command line. Out: a frozen `PipelineFile`, or a
`DiagnosticError` with every mistake that was found, each at its place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from spacedsl.diagnostics import Diagnostic, DiagnosticError, counted, in_order
from spacedsl.engine.decision import Decision
from spacedsl.kernels.decided import SPACES, decisions_of, space_of
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.kernel_file import Kind
from spacedsl.kernels.line_parser import parse_size
from spacedsl.kernels.located_yaml import Document, PlacedText
from spacedsl.kernels.pipeline.algorithm import Algorithm, Box, Extent, Input, Parameter, Stage
from spacedsl.kernels.pipeline.arguments import ambiguous, arguments, parameters
from spacedsl.kernels.pipeline.backbone import Kernel
from spacedsl.kernels.pipeline.bounds import Problem, infer
from spacedsl.kernels.pipeline.build import build
from spacedsl.kernels.pipeline.definitions import (
    called_twice,
    out_of_bounds,
    parameter,
    points,
    range_of,
    values_of,
)
from spacedsl.kernels.pipeline.functions import RESERVED
from spacedsl.kernels.pipeline.parser import parse_stages
from spacedsl.kernels.pipeline.resolution import Declared, Places, resolve
from spacedsl.kernels.pipeline.typing import DefinitionError
from spacedsl.kernels.pipeline.work import flops
from spacedsl.kernels.schema import DecisionEntry, InputEntry, PipelineEntry, ScalarEntry
from spacedsl.kernels.search_options import SearchOptions, search_options
from spacedsl.kernels.sizes import SizeOverrideError, SizeReader, overridden
from spacedsl.kernels.tensors import Parameter as ScalarArgument
from spacedsl.kernels.tensors import Tensor
from spacedsl.kernels.validation import closest, read_model

PIPELINE_SPACE = SPACES / "pipeline.space"
PIPELINE_CUDA_SPACE = SPACES / "pipeline_cuda.space"
"""The rules of pipelines, on CPUs and on GPUs."""


@dataclass(frozen=True, slots=True, eq=False)
class PipelineFile:
    """A checked kernel file with its sizes."""

    path: Path
    text: str
    name: str
    sizes: Mapping[str, int]
    """Of the file, with those given from outside in their place."""
    algorithm: Algorithm
    boxes: Mapping[str, Box]
    """What is needed of each stage and input; those that nobody needs have none."""
    backbone: Kernel
    tolerance: float | None
    """Relative to the largest element of an output; None: what rounding may do to each."""
    cache: Literal["warm", "cold"]
    space: Path
    decisions: tuple[Decision, ...]
    """Fixed by the file, to be applied to the root."""
    search: SearchOptions
    kind: Kind = "cpu"
    """Of machines that it is made for: nothing but the usual rules differs."""

    @property
    def remarks(self) -> tuple[Diagnostic, ...]:
        """What is odd in the file, and no mistake: nothing is."""
        return ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What a program is called with, before the parameters."""
        return arguments(self.algorithm, self.boxes)

    @property
    def parameters(self) -> tuple[ScalarArgument, ...]:
        return parameters(self.algorithm)

    @property
    def flops(self) -> int:
        """Floating-point operations of one call that computes each point once."""
        return flops(self.algorithm, self.boxes)

    def made_for(self, kind: Kind) -> PipelineFile:
        return replace(self, kind=kind)

    def space_for(self, kind: Kind) -> Path:
        """The rules for a kind of machine: those that the file names, or the usual ones."""
        return PIPELINE_CUDA_SPACE if kind == "gpu" and self.space == PIPELINE_SPACE else self.space


def check_pipeline(
    document: Document,
    path: Path,
    sizes: Mapping[str, int] = MappingProxyType({}),
    *,
    needs_space: bool = True,
) -> PipelineFile:
    """`path` is where `space:` starts from, and what it names need not be there without `needs_space`.

    Raises `SizeOverrideError` for a wrong entry of `sizes`, `DiagnosticError` with all that is wrong.
    """
    entry, report = read_model(PipelineEntry, document, "KF")
    if entry is None:
        raise DiagnosticError(in_order(report))
    known = overridden(entry.kernel, entry.sizes, sizes)
    for name, size in sizes.items():
        if size != entry.sizes[name] and not _stands_in(entry, name):
            raise SizeOverrideError(f"nothing in `{entry.kernel}` depends on the size `{name}`")
    return _Loader(document, entry, known, report).load(path, needs_space=needs_space)


class _Loader(SizeReader):
    """The stages of one load and their common list of diagnostics."""

    def __init__(
        self,
        document: Document,
        entry: PipelineEntry,
        sizes: Mapping[str, int],
        shape: tuple[Diagnostic, ...],
    ) -> None:
        super().__init__(document, sizes, RESERVED)
        self.entry = entry
        self.report.problems += shape

    def load(self, path: Path, *, needs_space: bool) -> PipelineFile:
        entry = self.entry
        self.names(entry.kernel, {"sizes": entry.sizes, "params": entry.params, "inputs": entry.inputs})
        self.sizes(entry.sizes)
        inputs = {name: self.input(name, given) for name, given in entry.inputs.items()}
        parameters = {name: self.parameter(name, given) for name, given in entry.params.items()}
        try:
            definitions = parse_stages(self.document.text("stages"))
        except DiagnosticError as error:
            self.report.problems += error.diagnostics
            self.stop()
        stages, places, mistakes = resolve(definitions, Declared(self.known_sizes, inputs, parameters))
        self.report.problems += mistakes
        self.stop()
        by_name = {stage.name: stage for stage in stages}
        defined = dict.fromkeys(definition.target.name.name for definition in definitions)
        boxes = {name: self.output(name, by_name.get(name), defined) for name in entry.outputs}
        self.stop()
        outputs = {name: box for name, box in boxes.items() if box is not None}
        needed, problems = infer(stages, tuple(inputs.values()), outputs)
        for problem in problems:
            self.unbounded(problem, places, inputs)
        self.stop()
        algorithm = Algorithm(
            entry.kernel,
            tuple(inputs.values()),
            tuple(parameters.values()),
            tuple(stage for stage in stages if stage.name in needed),
            MappingProxyType(outputs),
        )
        for output, array in ambiguous(algorithm):
            found = called_twice(output, array)
            self.report.error(found.code, str(found), self.document.key("outputs", output), found.hint)
        self.stop()
        backbone = build(algorithm, needed, _tiles(entry.decisions))
        search = search_options(self.document, entry.search, self.report.problems)
        report = self.report.problems if needs_space else []
        space = space_of(self.document, entry.space, PIPELINE_SPACE, path, report)
        self.stop()
        return PipelineFile(
            path,
            self.document.source.text,
            entry.kernel,
            MappingProxyType(dict(self.known_sizes)),
            algorithm,
            MappingProxyType(dict(needed)),
            backbone,
            None if entry.tolerance is None else float(entry.tolerance),
            entry.cache,
            space,
            decisions_of(entry.decisions),
            search,
        )

    def stop(self) -> None:
        if self.report.has_errors:
            raise DiagnosticError(in_order(self.report.problems))

    def input(self, name: str, given: InputEntry) -> Input:
        place = ("inputs", name)
        found = [self.points(e, *place, "extents", at) for at, e in enumerate(given.extents or ())]
        extents = tuple(e or 1 for e in found)
        if given.rank is None and given.extents is None:
            message = f"neither `rank` nor `extents` say how many dimensions `{name}` has"
            self.report.error("KF006", message, self.document.key(*place))
        elif given.rank is not None and given.extents is not None and given.rank != len(extents):
            message = f"`{name}` has {counted(len(extents), 'extent')}, and {given.rank} as its rank"
            self.report.error("KF016", message, self.document.value(*place, "rank"))
        dtype, values = DType.of(given.dtype), None
        if given.values is not None:
            try:
                values = values_of(dtype, given.values[0], given.values[1])
            except DefinitionError as error:
                self.report.error(error.code, str(error), self.document.value(*place, "values"))
        rank = len(extents) if given.rank is None else given.rank
        return Input(name, dtype, rank, extents, values)

    def parameter(self, name: str, given: ScalarEntry) -> Parameter:
        dtype = DType.of(given.dtype)
        try:
            return parameter(name, dtype, given.value)
        except DefinitionError as error:
            self.report.error(error.code, str(error), self.document.value("params", name, "value"))
            return Parameter(name, dtype, 0)

    def output(self, name: str, stage: Stage | None, defined: Collection[str]) -> Box | None:
        """None with an error reported; `defined`: the stages that have lines of their own."""
        given = self.entry.outputs[name]
        span = self.document.key("outputs", name)
        if stage is None:
            self.report.error("KF021", f"no stage is called `{name}`", span, closest(name, defined))
            return None
        if set(given) != set(stage.variables):
            message = (
                f"the variables of `{name}` are {', '.join(f'`{v}`' for v in stage.variables) or 'none'}"
            )
            self.report.error("KF066", message, span, "give the extent of each: `{x: 640, y: 480}`")
            return None
        extents = [self.part(name, variable) for variable in stage.variables]
        return None if None in extents else tuple(e for e in extents if e is not None)

    def part(self, name: str, variable: str) -> Extent | None:
        """The points of one variable: `n`, or `low:high`."""
        place, given = ("outputs", name, variable), self.entry.outputs[name][variable]
        if not isinstance(given, str) or ":" not in given:
            size = self.points(given, *place)
            return None if size is None else Extent(0, size)
        text = self.document.text(*place)
        at = text.text.index(":")
        ends = (_part(text, 0, at), _part(text, at + 1, len(text.text)))
        try:
            low, high = (self.evaluate(parse_size(end)) for end in ends)
        except DiagnosticError as error:
            self.report.problems += error.diagnostics
            return None
        if low is None or high is None:
            return None
        try:
            found = range_of(variable, low, high)
        except DefinitionError as error:
            self.report.error(error.code, str(error), self.document.value(*place))
            return None
        return Extent(found.low, found.high - found.low)

    def points(self, given: int | str, *place: str | int) -> int | None:
        """How many there are along a dimension, numbered by 32 bits; None with an error reported."""
        count = self.positive(given, *place)
        if count is None or count < 1:
            return count
        try:
            return points(count)
        except DefinitionError as error:
            self.report.error(error.code, str(error), self.document.value(*place))
            return None

    def unbounded(self, problem: Problem, places: Places, inputs: Mapping[str, Input]) -> None:
        read = problem.read
        span = places.read((problem.stage, problem.update), read)
        error = out_of_bounds(problem, tuple(inputs.values()))
        self.report.error(error.code, str(error), span, error.hint)


def _tiles(decisions: Sequence[DecisionEntry]) -> Mapping[str, Collection[int]]:
    """Sizes that a file decides, by the boxes that it decides them for."""
    found: dict[str, list[int]] = {}
    for entry in decisions:
        if entry.choice == "tile":
            for name in entry.objects:
                found.setdefault(name, []).extend(v for v in entry.values if isinstance(v, int))
    return found


def _stands_in(entry: PipelineEntry, name: str) -> bool:
    """Whether a kernel file names a size. One that Python has written does not: its sizes are numbers."""
    extents = (
        *(extent for given in entry.inputs.values() for extent in given.extents or ()),
        *(extent for box in entry.outputs.values() for extent in box.values()),
    )
    return any(re.search(rf"\b{re.escape(name)}\b", str(text)) for text in (entry.stages, *extents))


def _part(text: PlacedText, start: int, end: int) -> PlacedText:
    return PlacedText(text.source, text.text[start:end], text.offsets[start : end + 1])

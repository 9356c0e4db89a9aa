"""Kernel files of dense linear algebra: from YAML text to the backbone.

In: the path of a kernel file, and sizes from the command line. Out: a frozen `KernelFile`, or a
`DiagnosticError` with every mistake that was found, each at its place in the file. Nothing is computed or
measured here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span, counted, in_order
from spacedsl.engine.decision import Decision
from spacedsl.kernels.computation import Computation, Declarations
from spacedsl.kernels.decided import SPACES, decisions_of, space_of
from spacedsl.kernels.declarations import declarations
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import Assignment
from spacedsl.kernels.kernel_source import kernel_source
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.kernels.linalg.build import build
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.linalg.tiling import (
    Tiling,
    alone,
    grid_tiling,
    in_panels,
    inferred_factors,
    long_products,
    of_problems,
    of_rows,
    tiling,
)
from spacedsl.kernels.line_parser import parse_assignment
from spacedsl.kernels.located_yaml import Document, parse_document
from spacedsl.kernels.own_lines import own_lines
from spacedsl.kernels.resolution import resolve
from spacedsl.kernels.schema import KernelEntry, Precision
from spacedsl.kernels.search_options import SearchOptions, search_options
from spacedsl.kernels.sizes import MOST_ELEMENTS, overridden
from spacedsl.kernels.tensors import Parameter, Tensor
from spacedsl.kernels.validation import closest, read_model

LINALG_SPACE = SPACES / "linalg.space"
"""The rules of dense linear algebra on CPUs, and on GPUs those of the next one."""

CUDA_SPACE = SPACES / "linalg_cuda.space"

MOST_LEVELS = 6
"""Of a tiling, inside the outermost."""

MOST_SIZES = 256
"""Of one level: what an integer choice can hold."""


Kind = Literal["cpu", "gpu"]
"""Of machines: an index has other levels on a GPU, where the file does not name any."""


MULTIPLIED: Mapping[Precision, frozenset[DType]] = {
    "full": frozenset(),
    "tensor": frozenset({DType.BF16, DType.F16}),
    "tf32": frozenset({DType.BF16, DType.F16, DType.F32}),
}
"""The types of operands that tensor cores may multiply."""


_FLOPS = {Op.ADD: 1, Op.SUB: 1, Op.MUL: 1, Op.DIV: 1, Op.NEG: 1, Op.FMA: 2}


@dataclass(frozen=True, slots=True, eq=False)
class KernelFile:
    """A checked kernel file with its sizes."""

    path: Path
    text: str
    name: str
    sizes: Mapping[str, int]
    """Of the file, with those given from outside in their place."""
    backbone: Kernel
    computation: Computation
    """The lines of the file."""
    built: Computation
    """Those that the backbone is of: for a GPU, some reductions have lines of their own."""
    tolerance: float | None
    cache: Literal["warm", "cold"]
    precision: Precision
    space: Path
    decisions: tuple[Decision, ...]
    """Fixed by the file, to be applied to the root."""
    search: SearchOptions
    kind: Kind = "cpu"
    """Of machines, that levels are for."""
    remarks: tuple[Diagnostic, ...] = ()
    """What is odd in the file, and no mistake."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What a program is called with, before the parameters."""
        return self.backbone.tensors

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.backbone.parameters

    @property
    def flops(self) -> int:
        """Floating-point operations of one call, a fused multiply-add counted as two."""
        return sum(_FLOPS.get(i.op, 0) * i.instances for i in self.backbone.instructions)

    def made_for(self, kind: Kind) -> KernelFile:
        """The same file, with the levels of its indices as they are on a kind of machine."""
        if kind == self.kind:
            return self
        source = Source(str(self.path), self.text)
        return check_kernel(source, self.path, self.sizes, kind, needs_space=False)

    def space_for(self, kind: Kind) -> Path:
        """The rules for a kind of machine: those that the file names, or the usual ones."""
        return CUDA_SPACE if kind == "gpu" and self.space == LINALG_SPACE else self.space


def load_kernel(
    path: Path, sizes: Mapping[str, int] = MappingProxyType({}), kind: Kind = "cpu"
) -> KernelFile:
    """Reads and checks a kernel file; `sizes` replace those of the same name in the file.

    Raises `OSError` where the file cannot be read, `SizeOverrideError` for a wrong entry of `sizes`,
    `DiagnosticError` with all that is wrong in the file.
    """
    source, others = kernel_source(path, sizes)
    return check_kernel(source, path, others, kind)


def check_kernel(
    source: Source,
    path: Path,
    sizes: Mapping[str, int] = MappingProxyType({}),
    kind: Kind = "cpu",
    *,
    needs_space: bool = True,
) -> KernelFile:
    """The same for a text that has been read; `path` is where `space:` starts from, and what it names need
    not be there without `needs_space`.
    """
    document = parse_document(source, "KF")
    _check_backbone(document)
    entry, shape_report = read_model(KernelEntry, document, "KF")
    if entry is None:
        raise DiagnosticError(in_order(shape_report))
    return _Loader(document, entry, list(shape_report), kind).load(
        path, overridden(entry.kernel, entry.sizes, sizes), needs_space=needs_space
    )


class Written(Protocol):
    """A kernel file of any backbone, as far as its text goes."""

    @property
    def path(self) -> Path: ...

    @property
    def text(self) -> str: ...


def locate(kernel: Written, *place: str | int) -> Span:
    """Where an entry stands in the file, for what only its space or a search can find wrong with it."""
    return parse_document(Source(str(kernel.path), kernel.text), "KF").value(*place)


def no_code_for_plain(document: Document) -> DiagnosticError:
    """What is said where code is wanted of a kernel that is nothing but objects."""
    message = "there is no code to generate for the backbone `plain`, and nothing to measure"
    commands = "`spacedsl solve` finds solutions, `spacedsl explain` says why there are none"
    return DiagnosticError([Diagnostic("KF045", message, document.value("backbone"), commands)])


def _check_backbone(document: Document) -> None:
    """A file of another backbone has other keys: only that is reported."""
    name = document.data.get("backbone") if isinstance(document.data, dict) else None
    if name == "plain":
        raise no_code_for_plain(document)
    if isinstance(name, str) and name != "linalg":
        span = document.value("backbone")
        if name == "pipeline":
            raise DiagnosticError([Diagnostic("KF007", "this is a pipeline, and not linear algebra", span)])
        hint = closest(name, ["linalg", "pipeline", "plain"])
        raise DiagnosticError([Diagnostic("KF007", f"unknown backbone `{name}`", span, hint)])


class _Loader:
    """The stages of one load and their common list of diagnostics."""

    def __init__(self, document: Document, entry: KernelEntry, report: list[Diagnostic], kind: Kind) -> None:
        self.kind = kind
        self.document = document
        self.entry = entry
        self.report = report
        self.remarks: list[Diagnostic] = []

    def error(self, code: str, message: str, *place: str | int, hint: str | None = None) -> None:
        self.report.append(Diagnostic(code, message, self.document.value(*place), hint))

    def load(self, path: Path, sizes: Mapping[str, int], *, needs_space: bool) -> KernelFile:
        declared, declaration_report = declarations(self.document, self.entry, sizes)
        self.report += declaration_report
        assignments = self.assignments()
        search = search_options(self.document, self.entry.search, self.report)
        report = self.report if needs_space else []
        space = space_of(self.document, self.entry.space, LINALG_SPACE, path, report)
        if declared is None or assignments is None:
            raise DiagnosticError(in_order(self.report))
        computation, computation_report = resolve(assignments, declared)
        self.report += computation_report
        self.accumulate(declared)
        # With mistakes in the computation, an index may only seem to be unknown.
        tilings = self.tilings(computation, declared) if not computation_report else {}
        if self.report:
            raise DiagnosticError(in_order(self.report))
        tensors, parameters = tuple(declared.tensors.values()), tuple(declared.parameters.values())
        is_gpu = self.kind == "gpu"
        multiplied = MULTIPLIED[self.entry.precision] if is_gpu else frozenset[DType]()
        names = {*declared.tensors, *declared.parameters}
        built = own_lines(computation, names, are_shared_out=is_gpu)
        backbone = build(self.entry.kernel, built, tensors, parameters, tilings, multiplied)
        return KernelFile(
            path=path,
            text=self.document.source.text,
            name=self.entry.kernel,
            sizes=MappingProxyType(dict(sizes)),
            backbone=backbone,
            computation=computation,
            built=built,
            tolerance=None if self.entry.tolerance is None else float(self.entry.tolerance),
            cache=self.entry.cache,
            precision=self.entry.precision,
            space=space,
            decisions=decisions_of(self.entry.decisions),
            search=search,
            kind=self.kind,
            remarks=in_order(self.remarks),
        )

    def assignments(self) -> tuple[Assignment, ...] | None:
        """The parsed lines; None where one does not parse."""
        lines: list[Assignment] = []
        for position in range(len(self.entry.compute)):
            try:
                lines.append(parse_assignment(self.document.text("compute", position)))
            except DiagnosticError as error:
                self.report += error.diagnostics
        return tuple(lines) if len(lines) == len(self.entry.compute) else None

    def accumulate(self, declared: Declarations) -> None:
        """Whether all that is summed up can be held by what it is summed up in."""
        wanted, tensors = declared.accumulate, list(declared.tensors.values())
        if wanted is None:
            return
        integers = [t for t in tensors if t.dtype is DType.I32]
        wider = [t for t in tensors if t not in integers and t.dtype.nbytes > wanted.nbytes]
        wrong = [t for t in tensors if t not in integers] if wanted is DType.I32 else wider
        if len(integers) == len(tensors) and wanted is not DType.I32:
            wrong = integers
        if wrong:
            message = f"`{wrong[0].name}` is {wrong[0].dtype.label}, which {wanted.label} cannot accumulate"
            hint = "floating-point numbers are summed up in f32 or f64, not narrower than they are"
            self.error("KF018", message, "accumulate", hint=hint)

    def tilings(self, computation: Computation, declared: Declarations) -> dict[str, Tiling]:
        """What is on offer for every index; those of extent 1 have no levels."""
        for index in self.entry.tiling:
            if index not in computation.extents:
                span = self.document.key("tiling", index)
                hint = closest(index, computation.extents)
                self.report.append(Diagnostic("KF030", f"no index is called `{index}`", span, hint))
        free = computation.free_indices
        tensors = {**declared.tensors, **{t.name: t for t in computation.intermediates}}
        panels, rows = in_panels(computation, tensors), of_rows(computation, tensors)
        problems, long = of_problems(computation, tensors), long_products(computation)
        single = alone(computation)
        found: dict[str, Tiling] = {}
        for index, extent in computation.extents.items():
            if extent < 1:  # reported where the size is given
                continue
            factors = self.entry.tiling.get(index)
            offered: Tiling | None
            if factors is not None:
                offered = self.given_tiling(index, extent, factors)
            elif self.kind == "gpu":
                offered = grid_tiling(
                    extent,
                    index not in free,
                    has_fragments=self.entry.precision != "full",
                    is_of_problems=index in problems,
                )
            else:
                inferred = inferred_factors(
                    extent,
                    index not in free,
                    is_in_panels=index in panels,
                    is_of_rows=index in rows,
                    is_in_blocks=index in long,
                    is_alone=index in single,
                )
                offered = tiling(extent, inferred)
            if offered is not None and extent != 1:
                found[index] = offered
        return found

    def given_tiling(self, index: str, extent: int, factors: list[list[int]]) -> Tiling | None:
        """The file's tiling; None with an error reported."""
        before = len(self.report)
        if len(factors) > MOST_LEVELS:
            self.error("KF032", f"at most {MOST_LEVELS} levels can be given", "tiling", index)
        for position, level in enumerate(factors):
            place = ("tiling", index, position)
            if not level:
                self.error("KF031", f"no factor is given for a level of `{index}`", *place)
            for at, factor in enumerate(level):
                if factor < 1:
                    self.error("KF032", f"a factor must be at least 1, not {factor}", *place, at)
                elif factor > MOST_ELEMENTS:
                    self.error("KF032", "a factor must be at most 2**40", *place, at)
                elif factor > extent:
                    self.never_full(index, extent, factor, *place, at)
        if len(self.report) > before:
            return None
        offered = tiling(extent, factors)
        if max(map(len, offered.levels)) > MOST_SIZES:
            self.error("KF032", f"more than {MOST_SIZES} sizes of one level", "tiling", index)
            return None
        return offered

    def never_full(self, index: str, extent: int, factor: int, *place: str | int) -> None:
        """No mistake: the file may be for other sizes, too."""
        message = f"a tile of {factor} is never full: `{index}` has {counted(extent, 'value')}"
        span = self.document.value(*place)
        self.remarks.append(Diagnostic("KF037", message, span, severity=Severity.WARNING))

"""What a kernel file declares: sizes, tensors with their strides, scalar parameters.

In: the checked shape of a file and its sizes. Out: `Declarations`, or diagnostics: names that cannot be used,
sizes that are not positive or not known, tensors that are too large, strides that let elements overlap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span, counted
from spacedsl.kernels.computation import Declarations
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import REDUCERS, Binary, Constant, Expression, Name, Negation
from spacedsl.kernels.linalg.tensors import Parameter, Tensor, dense_strides
from spacedsl.kernels.line_parser import parse_size
from spacedsl.kernels.located_yaml import Document
from spacedsl.kernels.schema import KernelEntry, TensorEntry
from spacedsl.kernels.validation import closest
from spacedsl.language.report import Report

MOST_ELEMENTS = 2**40
"""Of a tensor, the gaps of strides included; and of a size."""

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

RESERVED = REDUCERS
"""Names that mean something else in the language of `compute:`."""


def declarations(
    document: Document, entry: KernelEntry, sizes: Mapping[str, int]
) -> tuple[Declarations | None, tuple[Diagnostic, ...]]:
    """The declarations; None where a tensor's shape could not be found out."""
    reader = _Reader(document, sizes)
    reader.names(entry)
    reader.sizes(entry)
    tensors = {name: reader.tensor(name, tensor) for name, tensor in entry.tensors.items()}
    parameters = {name: Parameter(name, DType.of(dtype)) for name, dtype in entry.params.items()}
    spans = {name: document.key("tensors", name) for name in tensors}
    spans |= {name: document.key("params", name) for name in parameters}
    known = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if len(known) < len(tensors):
        return None, tuple(reader.report.problems)
    extents = {name: reader.index_extent(name, given) for name, given in entry.extents.items()}
    spans |= {name: document.key("extents", name) for name in extents if name not in spans}
    accumulate = None if entry.accumulate is None else DType.of(entry.accumulate)
    others = {*entry.sizes, *entry.tensors, *entry.params}
    stated = {name: n for name, n in extents.items() if n is not None and name not in others}
    return Declarations(sizes, known, parameters, spans, stated, accumulate), tuple(reader.report.problems)


class _Reader:
    def __init__(self, document: Document, sizes: Mapping[str, int]) -> None:
        self.document = document
        self.known_sizes = sizes
        self.report = Report()

    def names(self, entry: KernelEntry) -> None:
        """Every name is an identifier, and means one thing."""
        self.identifier(entry.kernel, self.document.value("kernel"))
        seen: dict[str, Span] = {}
        for key, names in (
            ("sizes", entry.sizes),
            ("tensors", entry.tensors),
            ("params", entry.params),
            ("extents", entry.extents),
        ):
            for name in names:
                span = self.document.key(key, name)
                self.identifier(name, span)
                if name in seen:
                    related = (seen[name], "declared here first")
                    self.report.error("KF011", f"`{name}` is declared twice", span, None, related)
                seen.setdefault(name, span)

    def identifier(self, name: str, span: Span) -> None:
        if not _IDENTIFIER.fullmatch(name):
            hint = "letters, digits and `_`, beginning with a letter"
            self.report.error("KF010", f"{name!r} cannot be a name", span, hint)
        elif name in RESERVED:
            self.report.error("KF010", f"`{name}` is a reserved word", span, "choose another name")

    def sizes(self, entry: KernelEntry) -> None:
        for name, size in entry.sizes.items():
            if self.known_sizes[name] != size:
                continue
            span = self.document.value("sizes", name)
            if size < 1:
                self.report.error("KF012", f"size `{name}` must be at least 1, not {size}", span)
            elif size > MOST_ELEMENTS:
                self.report.error("KF013", f"size `{name}` is larger than 2**40", span)

    def tensor(self, name: str, entry: TensorEntry) -> Tensor | None:
        """The tensor, with sizes below 1, which have been reported, as they are: the rest is checked too."""
        shape: list[int] = []
        for position, given in enumerate(entry.shape):
            extent = self.positive(given, "tensors", name, "shape", position)
            if extent is None:
                return None
            shape.append(extent)
        strides = self.strides(name, entry, tuple(shape))
        if strides is None:
            return None
        pad = self.pad(name, entry, len(shape))
        if pad is None:
            return None
        tensor = Tensor(name, DType.of(entry.dtype), tuple(shape), strides, entry.output, pad)
        if max(tensor.span, tensor.elements) > MOST_ELEMENTS:
            span = self.document.key("tensors", name)
            self.report.error("KF013", f"`{name}` has more than 2**40 elements", span)
        return tensor

    def index_extent(self, name: str, given: int | str) -> int | None:
        """What the file says of an index; None with an error reported."""
        extent = self.positive(given, "extents", name)
        if extent is not None and extent > MOST_ELEMENTS:
            span = self.document.value("extents", name)
            self.report.error("KF013", f"the extent of `{name}` is larger than 2**40", span)
            return None
        return extent

    def positive(self, given: int | str, *place: str | int) -> int | None:
        """An extent; None with an error reported. A size below 1, which has been reported, is as it is."""
        extent = self.extent(given, *place)
        if extent is not None and extent < 1 and given not in self.known_sizes:
            message = f"an extent must be at least 1, not {extent}"
            self.report.error("KF012", message, self.document.value(*place))
            return None
        return extent

    def strides(self, name: str, entry: TensorEntry, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        if entry.strides is None:
            return dense_strides(shape)
        if len(entry.strides) != len(shape):
            span = self.document.value("tensors", name, "strides")
            message = (
                f"`{name}` has {counted(len(shape), 'dimension')} but {counted(len(entry.strides), 'stride')}"
            )
            self.report.error("KF016", message, span)
            return None
        found = [self.extent(e, "tensors", name, "strides", n) for n, e in enumerate(entry.strides)]
        if None in found:
            return None
        strides = tuple(s for s in found if s is not None)
        # Elements stay apart when each stride steps over all that the smaller strides reach.
        reach = 1
        for stride, extent, n in sorted(
            (s, e, n) for n, (s, e) in enumerate(zip(strides, shape, strict=True))
        ):
            span = self.document.value("tensors", name, "strides", n)
            if stride < 1:
                self.report.error("KF016", f"a stride must be at least 1, not {stride}", span)
                continue
            if stride < reach and extent > 1:
                message = f"the stride {stride} is too short: elements of `{name}` overlap"
                self.report.error("KF016", message, span, f"at least {reach}")
            reach += max(0, extent - 1) * stride
        return strides

    def pad(self, name: str, entry: TensorEntry, rank: int) -> tuple[int, ...] | None:
        """The zeros around each dimension; empty for none."""
        if entry.pad is None:
            return ()
        span = self.document.value("tensors", name, "pad")
        if entry.output:
            self.report.error("KF017", f"`{name}` is an output: only inputs are padded", span)
            return None
        if len(entry.pad) != rank:
            self.report.error(
                "KF017",
                f"`{name}` has {counted(rank, 'dimension')} but {counted(len(entry.pad), 'padding')}",
                span,
            )
            return None
        found: list[int] = []
        for position, given in enumerate(entry.pad):
            place = ("tensors", name, "pad", position)
            zeros = self.extent(given, *place)
            if zeros is None:
                return None
            if zeros < 0:
                message = f"a padding must be at least 0, not {zeros}"
                self.report.error("KF017", message, self.document.value(*place))
                return None
            found.append(zeros)
        return tuple(found) if any(found) else ()

    def extent(self, entry: int | str, *place: str | int) -> int | None:
        """A number, a size, or arithmetic with them; None with an error reported."""
        if isinstance(entry, int):
            return entry
        try:
            node = parse_size(self.document.text(*place))
        except DiagnosticError as error:
            self.report.problems += error.diagnostics
            return None
        return self.evaluate(node)

    def evaluate(self, node: Expression) -> int | None:
        match node:
            case Constant(value=int(value)):
                return value
            case Name(name=name, span=span):
                if name not in self.known_sizes:
                    hint = closest(name, self.known_sizes) or "sizes are declared under `sizes:`"
                    self.report.error("KF014", f"unknown size `{name}`", span, hint)
                return self.known_sizes.get(name)
            case Negation(operand=operand):
                negated = self.evaluate(operand)
                return None if negated is None else -negated
            case Binary(operator="+" | "-" | "*" as operator, left=left, right=right):
                a, b = self.evaluate(left), self.evaluate(right)
                if a is None or b is None:
                    return None
                return a + b if operator == "+" else a - b if operator == "-" else a * b
            case _:
                self.report.error(
                    "KF015", "a size is made of whole numbers, size names, `+`, `-` and `*`", node.span
                )
                return None

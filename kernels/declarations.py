"""What a kernel file declares: sizes, tensors with their strides, scalar parameters.

In: the checked shape of a file and its sizes. Out: `Declarations`, or diagnostics: names that cannot be used,
sizes that are not positive or not known, tensors that are too large, strides that let elements overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spacedsl.diagnostics import Diagnostic, counted
from spacedsl.kernels.computation import Declarations
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import REDUCERS
from spacedsl.kernels.located_yaml import Document
from spacedsl.kernels.schema import KernelEntry, TensorEntry
from spacedsl.kernels.sizes import MOST_ELEMENTS, SizeReader
from spacedsl.kernels.tensors import Parameter, Tensor, dense_strides

RESERVED = REDUCERS
"""Names that mean something else in the language of `compute:`."""


def declarations(
    document: Document, entry: KernelEntry, sizes: Mapping[str, int]
) -> tuple[Declarations | None, tuple[Diagnostic, ...]]:
    """The declarations; None where a tensor's shape could not be found out."""
    reader = _Reader(document, sizes, RESERVED)
    groups: Mapping[str, Iterable[str]] = {
        "sizes": entry.sizes,
        "tensors": entry.tensors,
        "params": entry.params,
        "extents": entry.extents,
    }
    reader.names(entry.kernel, groups)
    reader.sizes(entry.sizes)
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


class _Reader(SizeReader):
    """Of tensors."""

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

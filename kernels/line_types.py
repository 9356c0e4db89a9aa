"""What a line of a computation computes in, and what in it does not go with that.

In: the value of a line, its target, and the element types of all names. Out: an element type; mistakes, each
with its code and place. Names that are not known are none of its business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spacedsl.diagnostics import Span
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import (
    FUNCTIONS,
    INTEGER_FUNCTIONS,
    Binary,
    Call,
    Constant,
    Expression,
    Name,
    Read,
    walk,
)
from spacedsl.kernels.formats import is_held
from spacedsl.kernels.tensors import Parameter, Tensor

Mistake = tuple[str, str, Span]
"""Code, message, place."""


@dataclass(frozen=True, slots=True)
class Known:
    """What lines are made of; `accumulate`, where the file says it: what floating-point lines compute in."""

    tensors: Mapping[str, Tensor]
    parameters: Mapping[str, Parameter]
    accumulate: DType | None

    def computed_in(self, value: Expression, target: Tensor | None) -> DType:
        """The widest type of the tensors in a line, or what the file says; a line that only copies: its own.

        A line without tensors takes the type of its first parameter, or else of the first output.
        """
        nodes = list(walk(value))
        found = [
            self.tensors[n.tensor].dtype for n in nodes if isinstance(n, Read) and n.tensor in self.tensors
        ]
        if isinstance(value, Read) and found and (target is None or target.dtype is found[0]):
            return found[0]
        if target is not None:
            found.append(target.dtype)
        elif not found:
            names = (n.name for n in nodes if isinstance(n, Name))
            named = [self.parameters[name].dtype for name in names if name in self.parameters]
            outputs = [t.dtype for t in self.tensors.values() if t.is_output]
            found = [*named, *outputs, DType.F32][:1]
        if DType.I32 in found:
            return DType.I32
        if self.accumulate is not None and self.accumulate is not DType.I32:
            return self.accumulate
        return DType.F64 if DType.F64 in found else DType.F32

    def mistakes(self, value: Expression, target: Tensor, dtype: DType) -> Iterator[Mistake]:
        """Integers among other numbers; constants, functions and quotients that the line's type has not."""
        for node in walk(value):
            match node:
                case Read(tensor=name) if name in self.tensors:
                    yield from _mixed(node.span, name, self.tensors[name].dtype, target)
                case Name(name=name) if name in self.parameters:
                    yield from _mixed(node.span, name, self.parameters[name].dtype, target)
                case Constant(value=number) if not is_held(dtype, number):
                    yield "KF007", f"{number} is no {dtype.label}", node.span
                case Binary(operator="/") if dtype is DType.I32:
                    yield "KF008", f"not supported yet: division of {dtype.label}", node.span
                case Binary(operator="/", right=Constant(value=0, span=span)):
                    yield "KF007", "division by zero", span
                case Call(function=Name(name=name, span=span)) if (
                    dtype is DType.I32 and name in FUNCTIONS and name not in INTEGER_FUNCTIONS
                ):
                    message = f"`{name}` is a function of floating-point numbers, not of {dtype.label}"
                    yield "KF007", message, span


def _mixed(span: Span, name: str, dtype: DType, target: Tensor) -> Iterator[Mistake]:
    if (dtype is DType.I32) is not (target.dtype is DType.I32):
        message = (
            f"not supported yet: `{name}` is {dtype.label} and `{target.name}`, which depends on it, "
            f"is {target.dtype.label}"
        )
        yield "KF008", message, span

"""What the `compute:` lines mean: names resolved, extents of indices inferred, scopes checked.

In: parsed assignments and what the file declares. Out: a `Computation`, in which every name alone is a
scalar parameter, every subscript is a bare index and every index has one extent, or diagnostics. It does not
know how a computation is implemented.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spacedsl.diagnostics import Diagnostic, Span
from spacedsl.kernels.expression import (
    FUNCTIONS,
    INTEGER_FUNCTIONS,
    REDUCERS,
    Assignment,
    Binary,
    Call,
    Constant,
    Expression,
    Name,
    Negation,
    Read,
    Reduction,
    walk,
)
from spacedsl.kernels.linalg.backbone import DType, Parameter, Tensor
from spacedsl.kernels.validation import closest
from spacedsl.language.report import Report


@dataclass(frozen=True, slots=True)
class Declarations:
    """The names that a kernel file declares: sizes, tensors (in order) and scalar parameters."""

    sizes: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    parameters: Mapping[str, Parameter]
    spans: Mapping[str, Span]
    """Where each tensor and parameter is declared."""


@dataclass(frozen=True, slots=True)
class Computation:
    """Checked assignments, in order, and the extent of each index in order of first appearance."""

    assignments: tuple[Assignment, ...]
    extents: Mapping[str, int]

    @property
    def free_indices(self) -> frozenset[str]:
        """The indices that stand on the left of some assignment."""
        return frozenset(i for a in self.assignments for i in a.target.indices)


def resolve(
    assignments: Sequence[Assignment], declared: Declarations
) -> tuple[Computation, tuple[Diagnostic, ...]]:
    """Checks the assignments; the computation means something only where there is no diagnostic."""
    checker = _Checker(declared)
    resolved = tuple(checker.assignment(a) for a in assignments)
    checker.unused()
    return Computation(resolved, checker.extents), tuple(checker.report.problems)


class _Checker:
    """Walks the lines in order; knows what has been written and read so far."""

    def __init__(self, declared: Declarations) -> None:
        self.declared = declared
        self.report = Report()
        self.extents: dict[str, int] = {}
        self.inferred_at: dict[str, Span] = {}
        self.written: dict[str, Span] = {}
        self.used: set[str] = set()

    def assignment(self, line: Assignment) -> Assignment:
        target = self._target(line.target)
        scope = {s.name: s.span for s in target.subscripts if isinstance(s, Name)}
        value = self._expression(line.value, scope)
        tensor = self.declared.tensors.get(target.tensor)
        if tensor is not None:
            self._dtypes(tensor, value)
            self.written.setdefault(tensor.name, target.name_span)
        return Assignment(target, value, line.span)

    def _target(self, target: Read) -> Read:
        tensor = self.declared.tensors.get(target.tensor)
        if tensor is None:
            self._unknown_tensor(target)
        elif not tensor.is_output:
            message = f"`{tensor.name}` is assigned to but is no output"
            declared = (self.declared.spans[tensor.name], "declared here")
            self.report.error(
                "KF026", message, target.name_span, "add `output: true` to its declaration", declared
            )
        elif tensor.name in self.written:
            first = (self.written[tensor.name], "assigned to here first")
            message = f"not supported yet: `{tensor.name}` is assigned to twice"
            self.report.error("KF008", message, target.name_span, None, first)
        seen: dict[str, Span] = {}
        for subscript in target.subscripts:
            if isinstance(subscript, Name):
                if subscript.name in seen:
                    message = f"not supported yet: `{subscript.name}` twice on the left writes a diagonal"
                    self.report.error("KF008", message, subscript.span)
                seen[subscript.name] = subscript.span
        self._subscripts(target, tensor)
        return target

    def _subscripts(self, read: Read, tensor: Tensor | None) -> None:
        """Checks the form, number and extents of subscripts; infers the extents of new indices."""
        if tensor is not None and len(read.subscripts) != len(tensor.shape):
            message = (
                f"`{tensor.name}` has {_count(len(tensor.shape), 'dimension')}, not {len(read.subscripts)}"
            )
            declared = (self.declared.spans[tensor.name], "declared here")
            hint = None if read.subscripts else f"elements are written `{tensor.name}[..]`"
            self.report.error("KF022", message, read.span, hint, declared)
            tensor = None
        for position, subscript in enumerate(read.subscripts):
            if not isinstance(subscript, Name):
                message = "not supported yet: a subscript that is not an index alone"
                self.report.error("KF008", message, subscript.span)
                continue
            if self._is_declared_as_other(subscript):
                continue
            if tensor is None:
                continue
            extent = tensor.shape[position]
            known = self.extents.setdefault(subscript.name, extent)
            first = self.inferred_at.setdefault(subscript.name, subscript.span)
            if known != extent:
                message = (
                    f"index `{subscript.name}` runs to {known} elsewhere, but dimension {position + 1} of "
                    f"`{tensor.name}` has {extent}"
                )
                self.report.error("KF023", message, subscript.span, None, (first, f"{known} here"))

    def _is_declared_as_other(self, index: Name) -> bool:
        for kind, names in (
            ("a size", self.declared.sizes),
            ("a tensor", self.declared.tensors),
            ("a parameter", self.declared.parameters),
        ):
            if index.name in names:
                message = f"`{index.name}` is {kind} and cannot be an index as well"
                self.report.error("KF011", message, index.span, "give the index a name of its own")
                return True
        return False

    def _expression(self, node: Expression, scope: Mapping[str, Span]) -> Expression:
        match node:
            case Constant():
                return node
            case Name():
                return self._name(node, scope)
            case Read():
                return self._read(node, scope)
            case Negation(operand, span):
                return Negation(self._expression(operand, scope), span)
            case Binary(operator, left, right, span):
                return Binary(operator, self._expression(left, scope), self._expression(right, scope), span)
            case Reduction():
                return self._reduction(node, scope)
            case Call():
                return self._call(node, scope)

    def _call(self, node: Call, scope: Mapping[str, Span]) -> Expression:
        name, span, given = node.function.name, node.function.span, len(node.arguments)
        known = FUNCTIONS.get(name)
        if name in REDUCERS and given != known:
            hint = f"`{name}` names its indices: `{name}[p](..)`"
            if known is not None:
                hint += f", or takes {_count(known, 'argument')}: `{name}(a, b)`"
            self.report.error("KF020", f"`{name}` without indices", span, hint)
            return node
        if name in self.declared.tensors:
            hint = f"elements stand in brackets: `{name}[..]`"
            self.report.error("KF020", f"`{name}` is a tensor", span, hint)
            return node
        if known is None:
            self.report.error("KF021", f"unknown function `{name}`", span, closest(name, FUNCTIONS))
        elif given != known:
            message = f"`{name}` takes {_count(known, 'argument')}, not {given}"
            self.report.error("KF022", message, node.span)
        return Call(node.function, tuple(self._expression(a, scope) for a in node.arguments), node.span)

    def _name(self, node: Name, scope: Mapping[str, Span]) -> Expression:
        if node.name in self.declared.parameters:
            self.used.add(node.name)
            return node
        if node.name in self.declared.sizes:
            return Constant(self.declared.sizes[node.name], node.span)
        if node.name in self.declared.tensors:
            return self._read(Read(node.name, (), node.span, node.span), scope)
        if node.name in scope:
            self.report.error("KF008", f"not supported yet: the index `{node.name}` as a value", node.span)
        else:
            known = [*self.declared.parameters, *self.declared.sizes]
            hint = closest(node.name, known) or "scalars are declared under `params:`"
            self.report.error("KF021", f"unknown scalar `{node.name}`", node.span, hint)
        return node

    def _read(self, read: Read, scope: Mapping[str, Span]) -> Read:
        tensor = self.declared.tensors.get(read.tensor)
        if tensor is None:
            self._unknown_tensor(read)
        else:
            self.used.add(tensor.name)
            if tensor.is_output and tensor.name not in self.written:
                message = f"`{tensor.name}` is read before it is written"
                hint = "an output has no value before the kernel runs"
                self.report.error("KF027", message, read.name_span, hint)
        self._subscripts(read, tensor)
        for subscript in read.subscripts:
            if isinstance(subscript, Name) and subscript.name not in scope:
                message = f"index `{subscript.name}` is neither on the left nor summed over here"
                self.report.error(
                    "KF024", message, subscript.span, f"for example `sum[{subscript.name}](..)`"
                )
        return read

    def _reduction(self, node: Reduction, scope: Mapping[str, Span]) -> Reduction:
        inner = dict(scope)
        own: dict[str, Span] = {}
        for bound in node.bound:
            if bound.name in inner:
                related = (inner[bound.name], "bound here")
                message = f"index `{bound.name}` already has a meaning here"
                self.report.error(
                    "KF025", message, bound.span, "reduce over an index of another name", related
                )
            else:
                own[bound.name] = bound.span
            inner[bound.name] = bound.span
        body = self._expression(node.body, inner)
        read = {
            s.name for n in walk(body) if isinstance(n, Read) for s in n.subscripts if isinstance(s, Name)
        }
        for name, span in own.items():
            if name not in read:
                self.report.error(
                    "KF029", f"nothing in the `{node.operator}` depends on index `{name}`", span
                )
        return Reduction(node.operator, node.bound, body, node.span)

    def _unknown_tensor(self, read: Read) -> None:
        hint = closest(read.tensor, self.declared.tensors)
        self.report.error("KF021", f"unknown tensor `{read.tensor}`", read.name_span, hint)

    def _dtypes(self, target: Tensor, value: Expression) -> None:
        """One element type for each line; constants and divisions that it can hold."""
        dtype = target.dtype
        for node in walk(value):
            match node:
                case Read(tensor=name) if name in self.declared.tensors:
                    other = self.declared.tensors[name].dtype
                    self._same_dtype(node.span, name, other, target)
                case Name(name=name) if name in self.declared.parameters:
                    self._same_dtype(node.span, name, self.declared.parameters[name].dtype, target)
                case Constant(value=number) if not _fits(number, dtype):
                    self.report.error("KF007", f"{number} is no {dtype.label}", node.span)
                case Binary(operator="/") if dtype is DType.I32:
                    self.report.error("KF008", f"not supported yet: division of {dtype.label}", node.span)
                case Binary(operator="/", right=Constant(value=0, span=span)):
                    self.report.error("KF007", "division by zero", span)
                case Call(function=Name(name=name, span=span)) if (
                    dtype is DType.I32 and name in FUNCTIONS and name not in INTEGER_FUNCTIONS
                ):
                    message = f"`{name}` is a function of floating-point numbers, not of {dtype.label}"
                    self.report.error("KF007", message, span)

    def _same_dtype(self, span: Span, name: str, dtype: DType, target: Tensor) -> None:
        if dtype is not target.dtype:
            message = (
                f"not supported yet: `{name}` is {dtype.label} and `{target.name}`, which depends on it, "
                f"is {target.dtype.label}"
            )
            self.report.error("KF008", message, span)

    def unused(self) -> None:
        """What is declared and plays no part; after other mistakes, an input may only seem to play none."""
        is_sound = not self.report.problems
        for tensor in self.declared.tensors.values():
            span = self.declared.spans[tensor.name]
            if tensor.is_output and tensor.name not in self.written:
                self.report.error("KF027", f"output `{tensor.name}` is never written", span)
            elif is_sound and not tensor.is_output and tensor.name not in self.used:
                self.report.error("KF028", f"tensor `{tensor.name}` is never read", span)
        for name in self.declared.parameters:
            if is_sound and name not in self.used:
                self.report.error("KF028", f"parameter `{name}` is never used", self.declared.spans[name])


def _fits(number: float, dtype: DType) -> bool:
    if dtype is DType.I32:
        return math.isfinite(number) and number == int(number) and abs(number) < 2**31
    return abs(number) <= float(np.finfo(np.float32 if dtype is DType.F32 else np.float64).max)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

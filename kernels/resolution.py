"""Checks the `compute:` lines: names resolved, extents of indices inferred, scopes checked.

In: parsed assignments and what the file declares. Out: a `Computation`, or diagnostics. It does not know how
a computation is implemented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from spacedsl.diagnostics import Diagnostic, Span, counted
from spacedsl.kernels.computation import Computation, Declarations, Padding
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import (
    FUNCTIONS,
    REDUCERS,
    Affine,
    Assignment,
    Binary,
    Call,
    Constant,
    Expression,
    Name,
    Negation,
    Read,
    Reduction,
    affine,
    walk,
)
from spacedsl.kernels.line_errors import TRIANGULAR_CALLS, triangular
from spacedsl.kernels.line_types import Known
from spacedsl.kernels.tensors import Tensor, dense_strides
from spacedsl.kernels.validation import closest
from spacedsl.language.report import Report


def resolve(
    assignments: Sequence[Assignment], declared: Declarations
) -> tuple[Computation, tuple[Diagnostic, ...]]:
    """Checks the assignments; the computation means something only where there is no diagnostic."""
    checker = _Checker(declared, {a.target.tensor for a in assignments})
    resolved = tuple(checker.assignment(a) for a in assignments)
    checker.bounds()
    checker.unused()
    paddings = checker.paddings(resolved)
    intermediates = tuple(checker.intermediates.values())
    computation = Computation(resolved, checker.extents, checker.computed_in, intermediates, paddings)
    return computation, tuple(checker.report.problems)


class _Checker:
    """Walks the lines in order; knows what has been written and read so far."""

    def __init__(self, declared: Declarations, assigned: Set[str]) -> None:
        self.declared = declared
        self.assigned = assigned
        self.tensors = dict(declared.tensors)
        self.known = Known(self.tensors, declared.parameters, declared.accumulate)
        self.spans = dict(declared.spans)
        self.intermediates: dict[str, Tensor] = {}
        self.affine: list[tuple[Tensor, int, Affine, Span]] = []
        """Subscripts that are no index alone: tensor, dimension, meaning, place."""
        self.report = Report()
        self.extents: dict[str, int] = {}
        self.computed_in: dict[str, DType] = {}
        self.inferred_at: dict[str, Span] = {}
        self.written: dict[str, Span] = {}
        self.used: set[str] = set()
        self.unmade: set[str] = set()
        """Names that lines assign to, and whose tensors could not be made: that has been said."""

    def assignment(self, line: Assignment) -> Assignment:
        target = self._target(line.target)
        scope = {s.name: s.span for s in target.subscripts if isinstance(s, Name)}
        value = self._expression(line.value, scope)
        tensor = self.tensors.get(target.tensor) or self._intermediate(target, value)
        if tensor is not None:
            dtype = self.computed_in[tensor.name] = self.known.computed_in(value, tensor)
            for code, message, span in self.known.mistakes(value, tensor, dtype):
                self.report.error(code, message, span)
            self.written.setdefault(tensor.name, target.name_span)
        else:
            self.unmade.add(target.tensor)
        return Assignment(target, value, line.span)

    def _target(self, target: Read) -> Read:
        tensor = self.tensors.get(target.tensor)
        if tensor is None:
            self._is_declared_as_other(Name(target.tensor, target.name_span), "assigned to")
        elif tensor.name in self.written:
            first = (self.written[tensor.name], "assigned to here first")
            message = f"not supported yet: `{tensor.name}` is assigned to twice"
            self.report.error("KF008", message, target.name_span, None, first)
        elif not tensor.is_output:
            message = f"`{tensor.name}` is assigned to but is no output"
            declared = (self.spans[tensor.name], "declared here")
            self.report.error(
                "KF026", message, target.name_span, "add `output: true` to its declaration", declared
            )
        seen: dict[str, Span] = {}
        for subscript in target.subscripts:
            if isinstance(subscript, Name):
                if subscript.name in seen:
                    message = f"not supported yet: `{subscript.name}` twice on the left writes a diagonal"
                    self.report.error("KF008", message, subscript.span)
                seen[subscript.name] = subscript.span
            else:
                message = "not supported yet: on the left, a subscript that is not an index alone"
                self.report.error("KF008", message, subscript.span)
        return self._subscripts(target, tensor)

    def _intermediate(self, target: Read, value: Expression) -> Tensor | None:
        """A tensor that is not declared: the extents of its indices, and what its line computes in."""
        names = [s for s in target.subscripts if isinstance(s, Name)]
        for index in names:
            if index.name not in self.extents:
                message = f"the extent of index `{index.name}` of `{target.tensor}` cannot be inferred"
                hint = (
                    "the index stands alone in no subscript of this line or of those before it: give its "
                    f"extent, as `extents: {{{index.name}: 3}}`"
                )
                self.report.error("KF034", message, index.span, hint)
                return None
        if len(names) < len(target.subscripts) or target.tensor in (
            *self.declared.sizes,
            *self.declared.parameters,
        ):
            return None
        shape = tuple(self.extents[i.name] for i in names)
        dtype = self.known.computed_in(value, None)
        tensor = Tensor(target.tensor, dtype, shape, dense_strides(shape), is_output=True)
        self.tensors[tensor.name] = self.intermediates[tensor.name] = tensor
        self.spans[tensor.name] = target.name_span
        return tensor

    def _subscripts(self, read: Read, tensor: Tensor | None) -> Read:
        """Checks the form, number and extents of subscripts; infers the extents of new indices.

        In the result, sizes are numbers.
        """
        resolved: list[Expression] = []
        if tensor is not None and len(read.subscripts) != len(tensor.shape):
            message = (
                f"`{tensor.name}` has {counted(len(tensor.shape), 'dimension')}, not {len(read.subscripts)}"
            )
            declared = (self.spans[tensor.name], "declared here")
            hint = None if read.subscripts else f"elements are written `{tensor.name}[..]`"
            self.report.error("KF022", message, read.span, hint, declared)
            tensor = None
        for position, subscript in enumerate(read.subscripts):
            resolved.append(subscript)
            if not isinstance(subscript, Name):
                resolved[-1] = self._affine(subscript, tensor, position)
                continue
            if self._is_declared_as_other(subscript):
                continue
            self._give_extent(subscript)
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
        return Read(read.tensor, tuple(resolved), read.span, read.name_span)

    def _give_extent(self, index: Name) -> None:
        """That of the declaration, if it has one."""
        extent = self.declared.extents.get(index.name)
        if extent is not None:
            self.extents.setdefault(index.name, extent)
            self.inferred_at.setdefault(index.name, self.spans[index.name])

    def _affine(self, subscript: Expression, tensor: Tensor | None, position: int) -> Expression:
        """A subscript with numbers for sizes; whether it stays inside of the tensor is checked in the end."""
        resolved = self._with_sizes(subscript)
        form = affine(resolved)
        if form is None:
            message = "a subscript is a sum of indices, each times a whole number, and of whole numbers"
            self.report.error("KF033", message, subscript.span, "sizes count as numbers")
            return Constant(0, subscript.span)
        for node in walk(resolved):
            if isinstance(node, Name) and not self._is_declared_as_other(node):
                self._give_extent(node)
        if tensor is not None:
            self.affine.append((tensor, position, form, subscript.span))
        return resolved

    def _with_sizes(self, node: Expression) -> Expression:
        match node:
            case Name(name=name, span=span) if name in self.declared.sizes:
                return Constant(self.declared.sizes[name], span)
            case Negation(operand=operand, span=span):
                return Negation(self._with_sizes(operand), span)
            case Binary(operator=operator, left=left, right=right, span=span):
                return Binary(operator, self._with_sizes(left), self._with_sizes(right), span)
            case _:
                return node

    def bounds(self) -> None:
        """No subscript leaves its tensor, with the zeros around it."""
        for tensor, position, form, span in self.affine:
            unknown = [index for index, _ in form.terms if index not in self.extents]
            if unknown:
                message = f"the extent of index `{unknown[0]}` cannot be inferred"
                hint = f"it stands alone in no subscript: give its extent, as `extents: {{{unknown[0]}: 3}}`"
                self.report.error("KF034", message, span, hint)
                continue
            steps = [number * (self.extents[index] - 1) for index, number in form.terms]
            low = form.constant + sum(min(s, 0) for s in steps)
            high = form.constant + sum(max(s, 0) for s in steps)
            pad = tensor.pad[position] if tensor.pad else 0
            last = tensor.shape[position] - 1
            if low < -pad or high > last + pad:
                message = (
                    f"dimension {position + 1} of `{tensor.name}` is read from {low} to {high}, "
                    f"and goes from {-pad} to {last + pad}"
                )
                padded = "zeros around a tensor are asked for by `pad:` in its declaration"
                self.report.error("KF035", message, span, None if tensor.is_output else padded)

    def paddings(self, assignments: Sequence[Assignment]) -> tuple[Padding, ...]:
        """The inputs that are read as padded; gives extents to the indices of their copies."""
        found: dict[str, Padding] = {}
        names = {*self.tensors, *self.declared.sizes, *self.declared.parameters, *self.extents}
        for read in (n for a in assignments for n in walk(a.value) if isinstance(n, Read)):
            tensor = self.tensors.get(read.tensor)
            if tensor is None or not tensor.pad or read.is_bare or tensor.name in found:
                continue
            shape = tuple(n + 2 * p for n, p in zip(tensor.shape, tensor.pad, strict=True))
            name = _fresh(f"{tensor.name}_padded", names)
            padded = Tensor(name, tensor.dtype, shape, dense_strides(shape), is_output=True)
            indices = tuple(_fresh(f"{tensor.name}_{n}", names) for n in range(len(shape)))
            self.extents.update(zip(indices, tensor.shape, strict=True))
            found[tensor.name] = Padding(tensor, padded, indices)
        return tuple(found.values())

    def _is_declared_as_other(self, index: Name, role: str = "an index") -> bool:
        for kind, names in (
            ("a size", self.declared.sizes),
            ("a tensor", self.tensors),
            ("a parameter", self.declared.parameters),
        ):
            if index.name in names:
                message = f"`{index.name}` is {kind} and cannot be {role} as well"
                hint = "give the index a name of its own" if role == "an index" else None
                self.report.error("KF011", message, index.span, hint)
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
                hint += f", or takes {counted(known, 'argument')}: `{name}(a, b)`"
            self.report.error("KF020", f"`{name}` without indices", span, hint)
            return node
        if name in self.tensors:
            hint = f"elements stand in brackets: `{name}[..]`"
            self.report.error("KF020", f"`{name}` is a tensor", span, hint)
            return node
        if known is None and name in TRIANGULAR_CALLS:
            self.report.problems.append(triangular(span))
            return node
        if known is None:
            others = ", ".join(f"`{function}`" for function in FUNCTIONS)
            self.report.error("KF021", f"unknown function `{name}`", span, f"functions here are {others}")
        elif given != known:
            message = f"`{name}` takes {counted(known, 'argument')}, not {given}"
            self.report.error("KF022", message, node.span)
        return Call(node.function, tuple(self._expression(a, scope) for a in node.arguments), node.span)

    def _name(self, node: Name, scope: Mapping[str, Span]) -> Expression:
        if node.name in self.declared.parameters:
            self.used.add(node.name)
            return node
        if node.name in self.declared.sizes:
            return Constant(self.declared.sizes[node.name], node.span)
        if node.name in self.tensors:
            return self._read(Read(node.name, (), node.span, node.span), scope)
        if node.name in scope:
            self.report.error("KF008", f"not supported yet: the index `{node.name}` as a value", node.span)
        else:
            known = [*self.declared.parameters, *self.declared.sizes]
            hint = closest(node.name, known) or "scalars are declared under `params:`"
            self.report.error("KF021", f"unknown scalar `{node.name}`", node.span, hint)
        return node

    def _read(self, read: Read, scope: Mapping[str, Span]) -> Read:
        tensor = self.tensors.get(read.tensor)
        if tensor is None and read.tensor in self.assigned:
            if read.tensor not in self.unmade:
                message = f"`{read.tensor}` is read before it is written"
                self.report.error("KF027", message, read.name_span, "lines run in order")
        elif tensor is None:
            self._unknown_tensor(read)
        else:
            self.used.add(tensor.name)
            if tensor.is_output and tensor.name not in self.written:
                message = f"`{tensor.name}` is read before it is written"
                hint = "an output has no value before the kernel runs"
                self.report.error("KF027", message, read.name_span, hint)
        read = self._subscripts(read, tensor)
        for index in (n for s in read.subscripts for n in walk(s)):
            if isinstance(index, Name) and index.name not in scope:
                message = f"index `{index.name}` is neither on the left nor summed over here"
                self.report.error("KF024", message, index.span, f"for example `sum[{index.name}](..)`")
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
        reads = (n for n in walk(body) if isinstance(n, Read))
        read = {name for r in reads for s in r.subscripts for name in _moves_with(s)}
        for name, span in own.items():
            if name not in read:
                self.report.error(
                    "KF029", f"nothing in the `{node.operator}` depends on index `{name}`", span
                )
        return Reduction(node.operator, node.bound, body, node.span)

    def _unknown_tensor(self, read: Read) -> None:
        hint = closest(read.tensor, self.tensors)
        self.report.error("KF021", f"unknown tensor `{read.tensor}`", read.name_span, hint)

    def unused(self) -> None:
        """What is declared and plays no part; after other mistakes, an input may only seem to play none."""
        is_sound = not self.report.problems
        for tensor in self.intermediates.values():
            if is_sound and tensor.name not in self.used:
                outputs = [t.name for t in self.declared.tensors.values() if t.is_output]
                hint = closest(tensor.name, outputs) or "results are declared, with `output: true`"
                message = f"intermediate `{tensor.name}` is never read"
                self.report.error("KF028", message, self.spans[tensor.name], hint)
        for tensor in self.declared.tensors.values():
            span = self.spans[tensor.name]
            if tensor.is_output and tensor.name not in self.written:
                self.report.error("KF027", f"output `{tensor.name}` is never written", span)
            elif is_sound and not tensor.is_output and tensor.name not in self.used:
                self.report.error("KF028", f"tensor `{tensor.name}` is never read", span)
        for name in self.declared.extents:
            if is_sound and name not in self.extents:
                self.report.error("KF028", f"no index is called `{name}`", self.spans[name])
        for name in self.declared.parameters:
            if is_sound and name not in self.used:
                self.report.error("KF028", f"parameter `{name}` is never used", self.spans[name])


def _moves_with(subscript: Expression) -> tuple[str, ...]:
    """The indices that it depends on: those of `p - p` are none."""
    form = affine(subscript)
    return () if form is None else tuple(index for index, _ in form.terms)


def _fresh(wanted: str, names: set[str]) -> str:
    """A name that is not taken, and now is."""
    while wanted in names:
        wanted += "_"
    names.add(wanted)
    return wanted

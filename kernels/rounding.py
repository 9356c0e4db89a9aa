"""How far rounding may take the results of a correct program from those of the reference.

In: a kernel file, and the spread of every value in one evaluation by the
reference. Out: an absolute error for each tensor that is written. The errors of operands travel through
every operation by its steepest slope within their spread; every operation adds an error of its own. A sum of
n random terms adds what n values of random sign give, which grows like sqrt(n); of very long sums, some terms
are lost beside what has been summed up. Where terms are of a pattern, all of them may be rounded the same
way, one after the other. It is an estimate and no proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.expression import (
    Binary,
    Call,
    Constant,
    Expression,
    Name,
    Negation,
    Read,
    Reduction,
)
from spacedsl.kernels.formats import PRECISION
from spacedsl.kernels.kernel_file import KernelFile

Array = NDArray[Any]

_OWN = 4
"""Units of precision that one operation may be off by: functions are, operations may be grouped otherwise."""


_LEAST_STEP = 4
"""Terms that an instruction of tensor cores sums up, at least."""

_TF32_PRECISION = 2.0**-10
"""What is cut off of a factor, beside it, at most."""


@dataclass(slots=True)
class Spread:
    """The range of the values that an expression takes: of its magnitude, and the least one."""

    most: float = 0.0
    nearest: float = math.inf
    """The least magnitude."""
    least: float = math.inf


class Spreads:
    """Watches an evaluation by the reference."""

    def __init__(self) -> None:
        self._spreads: dict[int, Spread] = {}

    def __call__(self, node: Expression, values: Array) -> None:
        if values.size:
            spread = self._spreads.setdefault(id(node), Spread())
            low, high = float(values.min()), float(values.max())
            spread.least = min(spread.least, low)
            spread.most = max(spread.most, abs(low), abs(high))
            nearest = float(np.abs(values).min()) if low < 0 < high else min(abs(low), abs(high))
            spread.nearest = min(spread.nearest, nearest)

    def of(self, node: Expression) -> Spread:
        """Of products inside of sums, which the reference does not evaluate, what their factors say."""
        known = self._spreads.get(id(node))
        if known is not None:
            return known
        match node:
            case Binary(operator="*", left=left, right=right):
                a, b = self.of(left), self.of(right)
                return Spread(a.most * b.most, a.nearest * b.nearest, -a.most * b.most)
            case _:
                return Spread()


def rounding_errors(kernel: KernelFile, spreads: Spreads, *, is_random: bool) -> dict[str, float]:
    """The absolute error of every tensor that is written. `is_random`: of random inputs, and of no pattern.

    The operations of a line have the precision of what it computes in, its result that of its elements.
    """
    computation = kernel.computation
    dtypes = {t.name: t.dtype for t in (*kernel.backbone.tensors, *computation.intermediates)}
    errors: dict[str, float] = {}
    for line in computation.assignments:
        name = line.target.tensor
        inner, own = PRECISION[computation.computed_in[name]], PRECISION[dtypes[name]]
        found = _Errors(kernel, spreads, inner, errors, is_random).of(line.value)
        errors[name] = found + max(inner, own) * spreads.of(line.target).most if own else 0.0
    return errors


@dataclass(frozen=True, slots=True)
class _Errors:
    kernel: KernelFile
    spreads: Spreads
    precision: float
    stored: Mapping[str, float]
    """Of tensors that earlier lines have written."""
    is_random: bool

    def of(self, node: Expression) -> float:
        match node:
            case Constant() | Name():
                return self.precision * self.most(node)
            case Read(tensor=tensor):
                return self.stored.get(tensor, 0.0)
            case Negation(operand=operand):
                return self.of(operand)
            case Binary():
                return self.binary(node) + self.own(node)
            case Call(function=function, arguments=arguments):
                return self.call(function.name, node, arguments) + self.own(node)
            case Reduction():
                return self.reduction(node)

    def most(self, node: Expression) -> float:
        return self.spreads.of(node).most

    def own(self, node: Expression) -> float:
        return _OWN * self.precision * self.most(node)

    def binary(self, node: Binary) -> float:
        left, right = self.of(node.left), self.of(node.right)
        if node.operator in ("+", "-"):
            return left + right
        if node.operator == "*":
            return _product(self.most(node.left), right) + _product(self.most(node.right) + right, left)
        distance = self.spreads.of(node.right).nearest - right
        return (left + _product(self.most(node), right)) / distance if distance > 0 else math.inf

    def call(self, function: str, node: Call, arguments: tuple[Expression, ...]) -> float:
        error = max(self.of(a) for a in arguments)
        at = self.spreads.of(arguments[0])
        match function:
            case "exp":
                return self.most(node) * math.expm1(min(error, 700.0))
            case "sqrt":
                return error / math.sqrt(at.least) if at.least > error else math.sqrt(error)
            case "log":
                return error / (at.least - error) if at.least > error else math.inf
            case "gelu":
                # Its slope is below 1.13, and its sigmoid is off by what the argument's cube is.
                return 2 * error + self.precision * at.most
            case "sigmoid":
                return error / 4 + self.precision
            case _:
                return error

    def reduction(self, node: Reduction) -> float:
        terms = math.prod(self.kernel.computation.extents[i] for i in node.indices)
        body = node.body
        if node.operator in ("max", "min"):
            return self.of(body)
        if node.operator == "prod":
            # Relative errors add up.
            least = self.spreads.of(body).nearest
            relative = _OWN * self.precision + (self.of(body) / least if least else math.inf)
            return self.most(node) * math.expm1(min(terms * relative, 700.0))
        # The product of two factors is no operation of its own: it is fused with the addition.
        error = self.binary(body) if isinstance(body, Binary) and body.operator == "*" else self.of(body)
        if self.is_random:
            root, most = math.sqrt(terms), self.most(body)
            lost = terms / 4 * float(share_one_way(self.most(node), most, self.precision))
            reached, steps = max(self.most(node), root * most), max(2 * root, lost)
        else:
            # Half a unit each of what has been summed up so far: of positive terms, half of it on average.
            is_positive = self.spreads.of(body).least >= 0
            reached, steps = self.most(node) if is_positive else terms * self.most(body), terms / 4
        own = self.precision * (8 + steps) * reached
        if self.kernel.kind == "gpu" and self.kernel.precision != "full":
            own += self.on_tensor_cores(terms, reached)
        return own + terms * error

    def on_tensor_cores(self, terms: int, reached: float) -> float:
        """Sums are cut off, not rounded, at each step of some terms; so are factors of tf32."""
        cut_off = self.precision * -(-terms // _LEAST_STEP)
        if self.kernel.precision == "tf32":
            cut_off += 2 * _TF32_PRECISION
        return cut_off * reached


def share_one_way(reached: Any, term: float, precision: float) -> Any:
    """The share of random terms that are rounded the same way, one after the other: those that are smaller
    than a step of the sum `reached` are lost.

    Of squares, these are as many as the root of such a step beside the largest term says; of other functions
    that have been tried, this covers what is lost as well.
    """
    return np.sqrt(np.minimum(1, precision * reached / term)) if term else 0.0


def _product(value: float, error: float) -> float:
    """An error grown by a factor, where 0 stays 0 even beside what is infinite."""
    return value * error if value and error else 0.0

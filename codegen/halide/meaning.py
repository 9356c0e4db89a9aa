"""Expressions that mean to Halide what they mean here.

In: an expression of an algorithm, and the values that its parts can have. Out: an equal one, in which Halide
leaves nothing open. Integers of 32 bits and more that may overflow are computed without a sign, since Halide
takes for granted that signed ones do not. Its `/` and `%` leave a remainder that is never negative; here they
round down, which differs for negative divisors. A shift by more bits than there are, and a float that an
integer does not hold, are the machine's there. What is the same on both sides stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Binary,
    Cast,
    Compare,
    Constant,
    Expression,
    Select,
    Unary,
    Undefined,
    operands,
    with_operands,
)
from spacedsl.kernels.pipeline.intervals import Interval, Known, interval

UNSIGNED: Mapping[DType, DType] = {DType.I32: DType.U32, DType.I64: DType.U64}
"""Those that Halide takes not to overflow, and what is computed with in their place."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """Of a definition: the values that its variables, and what it reads, can have."""

    variables: Mapping[str, Interval]
    known: Known

    def of(self, node: Expression) -> Expression:
        """An undefined value alone stays; as a part of another one, it is some number."""
        return node if isinstance(node, Undefined) else self._of(node)[0]

    def values(self, node: Expression) -> Interval:
        return interval(node, self.variables, self.known)

    def _of(self, node: Expression) -> tuple[Expression, Expression]:
        """What it is to Halide; and itself, to tell its values by: nothing is known of what may overflow."""
        inner = [self._of(operand) for operand in operands(node)]
        made = with_operands(node, tuple(made for made, _ in inner))
        plain = with_operands(node, tuple(plain for _, plain in inner))
        dtype = node.dtype
        match made, plain:
            case Undefined(), _:
                return zero(dtype), plain
            case ((Binary("+" | "-" | "*") | Unary("-")), _) if dtype in UNSIGNED and not self._is_held(
                plain
            ):
                return unsigned(made), Undefined(dtype)
            case Binary("/" | "%" as operator, left, right), Binary(right=divisor) if not dtype.is_float:
                values = self.values(divisor)
                return made if values.low >= 0 else divided(operator, left, right, values), plain
            case Binary("<<" | ">>" as operator, left, right), Binary(right=amount):
                values = self.values(amount)
                if operator == "<<" and dtype in UNSIGNED and not self._is_held(plain):
                    return shifted(operator, left, right), Undefined(dtype)
                is_within = values.low >= 0 and values.high < 8 * dtype.nbytes
                return made if is_within else shifted(operator, left, right), plain
            case Cast(DType.BOOL, operand), _:
                return Compare("!=", operand, zero(operand.dtype)), plain
            case Cast(_, operand), Cast(_, given) if operand.dtype.is_float and dtype.is_integer:
                values, way = self.values(given), dtype.by_way_of
                is_within = dtype.least <= values.low and values.high <= dtype.greatest
                return made if is_within or way is dtype else narrowed(dtype, Cast(way, operand)), plain
            case Cast(_, Cast(_, value) as operand), _ if dtype.is_integer and value.dtype.is_float:
                is_narrower = operand.dtype.is_integer and dtype.nbytes < operand.dtype.nbytes
                return narrowed(dtype, operand) if is_narrower else made, plain
        return made, plain

    def _is_held(self, plain: Expression) -> bool:
        """Whether an operation cannot overflow."""
        found = self.values(plain)
        return plain.dtype.least <= found.low and found.high <= plain.dtype.greatest


def zero(dtype: DType) -> Constant:
    if dtype is DType.BOOL:
        return Constant(False, dtype)
    return Constant(0.0 if dtype.is_float else 0, dtype)


def narrowed(dtype: DType, whole: Expression) -> Expression:
    """The last bits of an integer that a float was cut to: vectors of these would hold the nearest number of
    the narrow type instead, where Halide does not see which bits are left.
    """
    mask = Constant((1 << 8 * dtype.nbytes) - 1, whole.dtype)
    return Cast(dtype, Binary("&", whole, mask))


def unsigned(node: Expression) -> Expression:
    """An operation of signed integers, computed without a sign."""
    kind = UNSIGNED[node.dtype]

    def plain(operand: Expression) -> Expression:
        match operand:
            case Constant(value):
                return Constant(kind.wrapped(int(value)), kind)
            case Cast(_, inner) if inner.dtype is kind:
                return inner
        return Cast(kind, operand)

    return Cast(node.dtype, with_operands(node, tuple(plain(operand) for operand in operands(node))))


def divided(operator: Literal["/", "%"], left: Expression, right: Expression, values: Interval) -> Expression:
    """Rounded down, by what may be negative: `values` are those of the divisor."""
    dtype = left.dtype
    none, one, minus_one = (Constant(number, dtype) for number in (0, 1, -1))
    is_minus_one = Compare("==", right, minus_one)
    # The least integer divided by -1 is itself; Halide is not asked.
    is_least_possible = dtype in UNSIGNED and values.high >= -1
    divisor = Select(is_minus_one, one, right) if is_least_possible else right
    rest = Binary("%", left, divisor)
    is_off = Binary("&&", Compare("<", right, none), Compare("!=", rest, none))
    if operator == "%":
        return Binary("+", rest, Select(is_off, right, none))
    quotient = Binary("-", Binary("/", left, divisor), Select(is_off, one, none))
    return Select(is_minus_one, unsigned(Unary("-", left)), quotient) if is_least_possible else quotient


def shifted(operator: Literal["<<", ">>"], value: Expression, amount: Expression) -> Expression:
    """By any number of bits: beyond those that there are, only the sign is left."""
    dtype = value.dtype
    last = Constant(8 * dtype.nbytes - 1, dtype)
    within: Expression = Compare("<=", amount, last)
    if isinstance(amount, Constant):
        within = Constant(0 <= amount.value <= last.value, DType.BOOL)
    elif dtype.is_signed:
        within = Binary("&&", Compare(">=", amount, zero(dtype)), within)
    if operator == ">>" and dtype.is_signed:
        return Binary(">>", value, _chosen(within, amount, last))
    moved: Expression = Binary(operator, value, amount)
    if operator == "<<" and dtype in UNSIGNED:
        moved = unsigned(moved)
    return _chosen(within, moved, zero(dtype))


def _chosen(condition: Expression, yes: Expression, no: Expression) -> Expression:
    if isinstance(condition, Constant):
        return yes if condition.value else no
    return Select(condition, yes, no)

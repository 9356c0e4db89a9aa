"""Which units of a processor every implementation must occupy, whatever is decided, and how often.

In: a backbone. Out: for each unit, the instructions that occupy it and how many of their iterations no
compiler can save. Only what is certain counts: a compiler merges equal operations, hoists what does not
vary, fuses products with sums, and folds neutral constants. Nothing here depends on a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, get_args

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.backbone import (
    Accumulator,
    Instruction,
    Kernel,
    Number,
    Operand,
    ParameterValue,
    Value,
)
from spacedsl.kernels.linalg.operations import Op
from spacedsl.search.bounds.certain import Alternatives, Operation, extent_of, varying_indices

Unit = Literal["multiply", "add", "any", "divide", "root", "extreme"]
UNITS: tuple[Unit, ...] = get_args(Unit)

_COMMUTATIVE = frozenset({Op.ADD, Op.MUL})

_PRODUCTS = frozenset({Op.MUL, Op.EXP, Op.GELU})
"""Whose last instruction may be a product."""

_LONG = frozenset({Op.EXP, Op.TANH, Op.SIGMOID, Op.GELU})
"""Functions that are printed as a polynomial and what leads to it. A logarithm counts nothing: of an operand
that is negative, a compiler may leave all of it out."""

_POLYNOMIAL = {DType.F32: 6, DType.F64: 11}
"""The degree of the polynomial of e^x, one step of which is one fused multiply-add."""

Key = tuple[object, ...]
Occupied = Mapping[Unit, int]
"""Instructions of each unit, for one iteration."""


def operations(kernel: Kernel, *, has_starts: bool = False) -> dict[Unit, tuple[Alternatives, ...]]:
    """For each unit, what must be executed there. `has_starts`: sums begin with numbers, and not with their
    first terms.
    """
    found: dict[Unit, dict[Key, list[Operation]]] = {unit: {} for unit in UNITS}
    has_exp = any(instruction.op is Op.EXP for instruction in kernel.instructions)
    for instruction in kernel.instructions:
        for unit, count in occupied(instruction, may_divide=not has_exp).items():
            key = _product_key(instruction) if unit == "multiply" else _key(instruction)
            if instruction.op in _LONG:
                key = _function_key(instruction)
            each = _iterations(instruction, has_starts=has_starts)
            if unit == "multiply" and instruction.op is Op.FMA:
                each = min(each, _products(instruction))
            iterations = count * each
            sums = _sums(instruction) if unit in ("add", "any") else 0
            spared = sums if _starts_from_a_term(instruction, has_starts=has_starts) else 0
            operation = Operation(instruction, iterations, instruction, instruction.dims, sums, spared)
            found[unit].setdefault(key, []).append(operation)
    return {unit: tuple(map(tuple, classes.values())) for unit, classes in found.items()}


def occupied(instruction: Instruction, *, may_divide: bool = True) -> Occupied:
    """How often one iteration occupies each unit, however the compiler fuses and splits.

    A product that is only added somewhere can become part of a fused multiply-add there, which then is
    no addition; a fused multiply-add can be split in two. `may_divide`: divisions inside of functions are
    no divisions that the kernel has written as well.
    """
    if _may_be_narrower(instruction):
        return {}
    numbers = {abs(o.value) for o in instruction.operands if isinstance(o, Number)}
    if instruction.op in (Op.MAX, Op.MIN):
        return {"extreme": 1} if _is_extreme(instruction) else {}
    if instruction.dtype is DType.I32:
        # Integers can be regrouped: only that something is accumulated is certain.
        accumulates = instruction.op in (Op.ADD, Op.SUB, Op.MUL, Op.FMA) and instruction.reduced_dims
        return {"any": 1} if accumulates and 0.0 not in numbers else {}
    factors = {abs(o.value) for o in instruction.operands[:2] if isinstance(o, Number)}
    match instruction.op:
        case Op.FMA:
            return {"any": 1} if factors & {0.0, 1.0, 2.0} else {"multiply": 1, "any": 1}
        case Op.MUL if not numbers & {0.0, 1.0}:
            multiplies: Occupied = {} if 2.0 in numbers else {"multiply": 1}
            return multiplies if _is_only_added(instruction) else {**multiplies, "any": 1}
        case Op.ADD | Op.SUB if 0.0 not in numbers:
            return {"any": 1} if _adds_product(instruction) else {"add": 1, "any": 1}
        case Op.DIV if not isinstance(instruction.operands[1], Number):
            return {"divide": 1}
        case Op.SQRT:
            return {"root": 1}
        case op if op in _LONG:
            return _function(op, _POLYNOMIAL[instruction.dtype], may_divide=may_divide)
    return {}


def _function(op: Op, degree: int, *, may_divide: bool) -> Occupied:
    """Of the instructions that a function is printed as, those that each of its values needs.

    The first three of e^x, and the same of tanh, take the multiple of log(2) off, which is rounded by
    a sum and a difference. Of GELU, which is x times a sigmoid of a polynomial of x, the sigmoid counts:
    powers of x may be in the kernel as well, and the last product may be part of a sum.
    """
    match op:
        case Op.TANH:
            multiplies, adds, divisions = degree + 4, 3, 1
        case Op.EXP:
            multiplies, adds, divisions = degree + 3, 1, 0
        case _:
            multiplies, adds, divisions = degree + 3, 2, 1
    if not may_divide:
        adds, divisions = 1, 0
    found: Occupied = {"multiply": multiplies, "any": multiplies + adds}
    return {**found, "divide": divisions} if divisions else found


def _is_extreme(instruction: Instruction) -> bool:
    """Whether the greater or smaller is found out; of a single pair of integers, there are other ways."""
    if instruction.dtype is DType.I32 and not instruction.reduced_dims:
        return False
    first, second, *_ = map(_operand_key, instruction.operands)
    is_bounded = any(isinstance(o, Number) and math.isinf(o.value) for o in instruction.operands)
    return first != second and not is_bounded


def _may_be_narrower(instruction: Instruction) -> bool:
    """Whether a compiler may compute in f32 what is said to be f64.

    One operation between f32 operands and an f32 result, which is rounded to the same number either way.
    """
    if instruction.dtype is not DType.F64 or instruction.op is Op.FMA or instruction.reduced_dims:
        return False
    makers = [o.instruction for o in instruction.operands if isinstance(o, Value)]
    return all(
        other.access is not None and other.access_dtype.nbytes < instruction.dtype.nbytes
        for other in (*makers, *instruction.consumers)
    )


def _is_only_added(product: Instruction) -> bool:
    return all(
        user.op in (Op.ADD, Op.SUB) or (user.op is Op.NEG and _is_only_added(user))
        for user in product.consumers
    )


def _adds_product(instruction: Instruction) -> bool:
    def is_product(operand: Operand) -> bool:
        if not isinstance(operand, Value):
            return False
        made = operand.instruction
        return made.op in _PRODUCTS or (made.op is Op.NEG and is_product(made.operands[0]))

    return any(is_product(o) for o in instruction.operands)


def _iterations(instruction: Instruction, *, has_starts: bool) -> int:
    """Iterations that differ in what they read, or that accumulate.

    An index along which all operands stay the same does not count: the operation can be hoisted out of
    its loop. A sum of floating-point numbers, though, takes all its terms, equal or not, but for the first:
    that may be what it starts from. Of a sum of products it is a product then.
    """
    reduced = {d.index for d in instruction.reduced_dims}
    varying = varying_indices(instruction)
    if instruction.dtype is DType.I32 or instruction.op in (Op.MAX, Op.MIN):
        # The first term is no addition; equal terms are a product, and no greater than each other.
        terms = extent_of(instruction, varying & reduced)
        return extent_of(instruction, varying - reduced) * max(terms - bool(reduced), 0)
    if _starts_from_a_term(instruction, has_starts=has_starts):
        # Two lanes that are added up in the end count as a sum of their own.
        terms = extent_of(instruction, reduced)
        return extent_of(instruction, varying - reduced) * max(terms - 2, 0)
    return extent_of(instruction, varying | reduced)


def _products(instruction: Instruction) -> int:
    """Iterations of a multiply-add that differ in their factors: a product can be hoisted out of the loops in
    which it stays the same, and what is left is an addition.
    """
    return extent_of(instruction, varying_indices(instruction, instruction.operands[:2]))


def _starts_from_a_term(instruction: Instruction, *, has_starts: bool) -> bool:
    """Whether the first term of a sum is neither an addition nor a product."""
    factors = instruction.operands[:2]
    is_of_products = instruction.op is Op.FMA and not any(isinstance(o, Number) for o in factors)
    return bool(instruction.reduced_dims) and not (is_of_products or has_starts)


def _function_key(instruction: Instruction) -> Key:
    """Equal for functions that may share their exponential: a sigmoid is one of the negative operand."""
    operand = instruction.operands[0]
    while isinstance(operand, Value) and operand.instruction.op is Op.NEG:
        operand = operand.instruction.operands[0]
    kind = Op.EXP if instruction.op is Op.SIGMOID else instruction.op
    return (kind, instruction.dtype, _operand_key(operand))


def _key(instruction: Instruction) -> Key:
    """Equal for instructions that may compute the same."""
    operands = [_operand_key(o) for o in instruction.operands]
    if instruction.op in _COMMUTATIVE:
        operands.sort(key=repr)
    elif instruction.op is Op.FMA:
        operands = [*sorted(operands[:2], key=repr), *operands[2:]]
    access = instruction.access
    place = () if access is None else (access.tensor.name, *((d.index, s) for d, s in access.strides))
    own = tuple((logical.index, logical.extent) for logical in instruction.logical_dims)
    return (instruction.op, instruction.dtype, own, place, *operands)


def _sums(instruction: Instruction) -> int:
    """How many sums of several terms each it makes; integers may be added up in any way."""
    reduced = {d.index for d in instruction.reduced_dims}
    is_sum = instruction.op in (Op.ADD, Op.FMA) and bool(reduced) and instruction.dtype is not DType.I32
    return extent_of(instruction, varying_indices(instruction) - reduced) if is_sum else 0


def _product_key(instruction: Instruction) -> Key:
    """Equal for instructions with the same product: it may be computed once for all of them."""
    factors = sorted((_operand_key(o) for o in instruction.operands[:2]), key=repr)
    return (instruction.dtype, *factors)


def _operand_key(operand: Operand) -> Key:
    match operand:
        case Number(value):
            return ("number", value)
        case ParameterValue(parameter):
            return ("parameter", parameter.name)
        case Value(instruction, _):
            return ("value", *_key(instruction))
        case Accumulator(initialiser, _, reduced):
            return ("accumulator", *(d.index for d in reduced), *_key(initialiser))

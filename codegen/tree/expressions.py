"""What a program computes with: expressions, and where in an array something lies.

In: lowering, which makes them; nodes of `program.py` hold them. Out: taken apart by `parts.py`, checked by
`verify.py`, printed by `c/expressions.py` and `cuda/expressions.py`. Nothing is simplified here.

    Expression = Register | Load(tensor, index, type, is_streamed) | PartialLoad(tensor, index, type, count)
               | Number | ParameterValue | Convert(value, dtype)
               | Broadcast | FirstLane | LaneReduction | Blend(value, other, count)
               | Lane(value, number) | Pack(values) | Interleave(even, odd) | EveryOther(first, second)
               | Gather(tensor, extent, index, taken, type)
               | Shuffle(value, distance, threads)
               | Bits(value) | LoadMatrix(tensor, index, dtype, is_transposed)
               | Fma | Add | Sub | Mul | Div | Max | Min | Neg | Apply(function, operand)
               | FloorDiv | FloorMod | Bitwise(operator, left, right) | Not(operand)
               | Compare(comparator, left, right) | Select(condition, yes, no) | Call(function, operands)
               | Counted(position, type)
    Index      = constant + sum(variable * stride) + sum(Share) + sum(atom * stride), in elements
    Share      = (of a loop variable + ahead) % modulus / divisor * stride, in elements
    Position   = constant + sum(atom * number), where an atom is a variable, or a quotient, a remainder or an
                 extreme of positions
    Type       = dtype, lanes

A register is a named scalar or vector. Vectors are `lanes` neighbours in memory, of which partial accesses
touch the first `count` and no other. Positions are whole numbers that never overflow; variables stand for
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine, Op
from spacedsl.kernels.pipeline.affine import Atom, Linear
from spacedsl.kernels.pipeline.algorithm import Comparator, Function, Variable


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar where `lanes` is 1, otherwise a vector."""

    dtype: DType
    lanes: int = 1

    def __str__(self) -> str:
        return self.dtype.label if self.lanes == 1 else f"{self.dtype.label}x{self.lanes}"

    @property
    def words(self) -> int:
        """Registers of 32 bits that it takes, at most: as many lanes share one as the compiler likes."""
        return self.lanes * max(1, self.dtype.nbytes // 4)


Position = Linear
"""Of variables of a program, whose atoms are never opaque."""


@dataclass(frozen=True, slots=True)
class Share:
    """How a loop's variable leads to other elements: (.. + `ahead`) % `modulus` / `divisor`, times `stride`.

    The quotient is rounded down.
    """

    modulus: int
    divisor: int
    stride: int
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Index:
    """`constant` + the sum of each variable times its stride + what `shares` and `atoms` add, in elements."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()
    shares: tuple[tuple[str, Share], ...] = ()
    atoms: tuple[tuple[Atom, int], ...] = ()
    """Parts of a position that are no variables, each with its stride."""

    @property
    def position(self) -> Position:
        """Of an index without shares."""
        terms = tuple((Variable(name), stride) for name, stride in self.terms)
        return Position(self.constant, (*terms, *self.atoms))


class _Operation:
    """What has parts, whose types say what its own is.

    It keeps its type once somebody has asked for it (`type_of`): that is no part of what it is.
    """

    __slots__ = ("known_type",)


@dataclass(frozen=True, slots=True)
class Register:
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Load:
    tensor: str
    index: Index
    type: Type
    is_streamed: bool = False
    """Whether it need not stay in caches."""


@dataclass(frozen=True, slots=True)
class PartialLoad:
    """The first `count` lanes of a vector; the others are 0, and what lies there is not read."""

    tensor: str
    index: Index
    type: Type
    count: int


@dataclass(frozen=True, slots=True)
class Number:
    value: float
    type: Type


@dataclass(frozen=True, slots=True)
class ParameterValue:
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Broadcast(_Operation):
    """The scalar `value` in each of `lanes` lanes."""

    value: Expression
    lanes: int


@dataclass(frozen=True, slots=True)
class FirstLane(_Operation):
    """The scalar `value` in the first of `lanes` lanes; in the others what is neutral to `combine`."""

    value: Expression
    lanes: int
    combine: Combine


@dataclass(frozen=True, slots=True)
class LaneReduction(_Operation):
    """The lanes of a vector combined into a scalar, in an order of its own."""

    value: Expression
    combine: Combine


@dataclass(frozen=True, slots=True)
class Convert(_Operation):
    """The numbers of `value` in another type, each the nearest one, to even where there are two.

    Floats of 16 bits come from f32 alone, and become f32 alone. As an integer, a float loses what is behind
    its point; what is too narrow keeps the last bits. A float becomes an i32 first, for u32 and i64 an i64,
    for u64 itself: what that integer does not hold is not specified. What is 0 is false.
    """

    value: Expression
    dtype: DType


def is_conversion(given: DType, dtype: DType) -> bool:
    """Whether there is one from a type to another."""
    without = [other for one, other in ((given, dtype), (dtype, given)) if not one.has_arithmetic]
    return given is not dtype and all(other is DType.F32 for other in without)


@dataclass(frozen=True, slots=True)
class Blend(_Operation):
    """The first `count` lanes of `value`, the others of `other`."""

    value: Expression
    other: Expression
    count: int


@dataclass(frozen=True, slots=True)
class Lane(_Operation):
    """One lane of a vector."""

    value: Expression
    number: int


@dataclass(frozen=True, slots=True)
class Pack(_Operation):
    """A vector of these scalars."""

    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Interleave(_Operation):
    """The lanes of two vectors of one type in turns, beginning with the first one of `even`."""

    even: Expression
    odd: Expression


@dataclass(frozen=True, slots=True)
class EveryOther(_Operation):
    """Of what two vectors of one type hold together, every other lane, beginning with the first one.

    The second one begins with the last lane of the first.
    """

    first: Expression
    second: Expression


@dataclass(frozen=True, slots=True)
class Taken:
    """How far each lane of a vector leads: what it holds, kept between two ends, times a stride."""

    value: Expression
    """Integers of 32 bits."""
    low: int
    high: int
    stride: int


@dataclass(frozen=True, slots=True)
class Gather:
    """For each lane the element at an index and all that is taken of the lane further, in an array."""

    tensor: str
    extent: int
    """Elements of the array."""
    index: Index
    taken: tuple[Taken, ...]
    type: Type

    @property
    def places(self) -> Expression:
        """From the first element of the array, as integers of 32 bits."""
        kind = Type(DType.I32, self.type.lanes)
        found: Expression = Broadcast(Counted(self.index.position, Type(DType.I32)), kind.lanes)
        for part in self.taken:
            leads = held(part.value, part.low, part.high, kind)
            if part.stride != 1:
                leads = Mul(leads, Broadcast(Number(part.stride, Type(DType.I32)), kind.lanes))
            found = Add(found, leads)
        return found


@dataclass(frozen=True, slots=True)
class Fma(_Operation):
    """a * b + c, rounded once where the machine can."""

    a: Expression
    b: Expression
    c: Expression


@dataclass(frozen=True, slots=True)
class Add(_Operation):
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Sub(_Operation):
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Mul(_Operation):
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Div(_Operation):
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Max(_Operation):
    """`left` where it is the greater, else `right`: also where one of them is NaN."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Min(_Operation):
    """`left` where it is the smaller, else `right`: also where one of them is NaN."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Neg(_Operation):
    operand: Expression


@dataclass(frozen=True, slots=True)
class Apply(_Operation):
    """One of `operations.FUNCTIONS`; of integers, only the absolute value is known."""

    function: Op
    operand: Expression


@dataclass(frozen=True, slots=True)
class FloorDiv(_Operation):
    """The quotient of integers, rounded to minus infinity; 0 where the divisor is 0."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class FloorMod(_Operation):
    """What is left of `left` then, with the sign of `right`; 0 where that is 0."""

    left: Expression
    right: Expression


BitOperator = Literal["&", "|", "^", "<<", ">>"]


@dataclass(frozen=True, slots=True)
class Bitwise(_Operation):
    """Of the bits of integers, or of truth values, which are not shifted.

    A shift by fewer than 0 bits, or by as many as there are, leaves 0; to the right, -1 of what is negative.
    """

    operator: BitOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Not(_Operation):
    """All bits of an integer turned over; of a truth value, the other one."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Compare(_Operation):
    """A truth value. Those of truth values themselves are `==` and `!=`."""

    comparator: Comparator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Select(_Operation):
    """`yes` in the lanes in which the condition holds, `no` in the others; all three are evaluated."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Call(_Operation):
    """A function of one or two floats, as the C library has it."""

    function: Function
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """A position as an integer, of which the last bits are kept; each lane of a vector has one more."""

    position: Position
    type: Type


WARP = 32
"""Threads of a block that see each other's registers, those with neighbouring numbers."""


@dataclass(frozen=True, slots=True)
class Shuffle(_Operation):
    """What `value` is in the thread of the warp whose number differs in one bit, that of `distance`."""

    value: Expression
    distance: int
    threads: int
    """Neighbours in the warp, all of which take part: from a multiple of that on."""


@dataclass(frozen=True, slots=True)
class Bits:
    """The four bytes of `value`, as an integer: a number of 32 bits, or two of 16."""

    value: Expression


@dataclass(frozen=True, slots=True)
class LoadMatrix:
    """Four bytes of a matrix with rows of 16 bytes, in memory that a block shares, as an integer.

    `index` is where a row begins: row n where it is thread n of a warp that says so. A thread gets bytes
    4 * (lane % 4) and on of row lane / 4; transposed, elements 2 * (lane % 4) and the next one of column
    lane / 4.
    """

    tensor: str
    index: Index
    dtype: DType
    is_transposed: bool


Binary = Add | Sub | Mul | Div | Max | Min
Expression = (
    Register | Load | PartialLoad | Number | ParameterValue | Broadcast | FirstLane | LaneReduction | Blend
    | Lane | Pack | Interleave | EveryOther | Gather | Shuffle | Bits | LoadMatrix | Convert | Fma | Binary
    | Neg | Apply | FloorDiv | FloorMod | Bitwise | Not | Compare | Select | Call | Counted
)  # fmt: skip


COMBINED: Mapping[Combine, type[Add | Mul | Max | Min]] = {
    Combine.SUM: Add, Combine.PROD: Mul, Combine.MAX: Max, Combine.MIN: Min
}  # fmt: skip
"""What combines two values."""


def held(value: Expression, low: int, high: int, kind: Type) -> Expression:
    """The lanes of a vector, between two ends."""
    least, most = (Broadcast(Number(end, Type(kind.dtype)), kind.lanes) for end in (low, high))
    return Max(Min(value, most), least)


def converted(value: Expression, dtype: DType) -> Expression:
    """In another type; what is between others and 16 bits goes through f32."""
    found = type_of(value).dtype
    if found is dtype:
        return value
    if not is_conversion(found, dtype):
        value = Convert(value, DType.F32)
    return Convert(value, dtype)


_SAME: Mapping[type, Callable[[Any], Expression]] = {
    **dict.fromkeys((Add, Sub, Mul, Div, Max, Min, FloorDiv, FloorMod, Bitwise), attrgetter("left")),
    **dict.fromkeys((Neg, Apply, Not), attrgetter("operand")),
    **dict.fromkeys((Blend, Shuffle), attrgetter("value")),
    EveryOther: attrgetter("first"),
    Fma: attrgetter("a"),
    Select: attrgetter("yes"),
    Call: lambda call: call.operands[0],
}
"""Of expressions that have the type of one of their parts, that part."""


def type_of(expression: Expression) -> Type:
    """The type of an expression whose operands agree, which `verify.py` makes sure of."""
    path: list[Expression] = []
    while (known := getattr(expression, "known_type", None)) is None and (
        part := _SAME.get(type(expression))
    ) is not None:
        path.append(expression)
        expression = part(expression)
    if known is None:
        known = type_by(expression, type_of)
        if isinstance(expression, _Operation):
            path.append(expression)
    for each in path:
        object.__setattr__(each, "known_type", known)
    return known


def type_by(expression: Expression, of: Callable[[Expression], Type]) -> Type:
    """The same, where the types of its parts are known."""
    if (part := _SAME.get(type(expression))) is not None:
        return of(part(expression))
    match expression:
        case Register() | Load() | PartialLoad() | Number() | ParameterValue() | Counted() | Gather():
            return expression.type
        case Broadcast(value, lanes) | FirstLane(value, lanes):
            return Type(of(value).dtype, lanes)
        case LaneReduction(value) | Lane(value):
            return Type(of(value).dtype)
        case Pack(values):
            return Type(of(values[0]).dtype, len(values))
        case Interleave(value):
            return Type(of(value).dtype, 2 * of(value).lanes)
        case Bits() | LoadMatrix():
            return Type(DType.I32)
        case Convert(value, dtype):
            return Type(dtype, of(value).lanes)
        case Compare(_, value):
            return Type(DType.BOOL, of(value).lanes)
        case _:
            raise AssertionError(f"{type(expression).__name__} has the type of a part")

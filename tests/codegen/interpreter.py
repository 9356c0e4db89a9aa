"""An interpreter of program trees, written from their meaning: the oracle of lowering and of the printer.

Values are Python numbers and lists of them, so that small integers stay exact.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from operator import and_, eq, ge, gt, le, lt, ne, or_, xor
from typing import Any

from spacedsl.codegen.tree.expressions import (
    Add,
    Apply,
    Bits,
    Bitwise,
    Blend,
    Broadcast,
    Call,
    Compare,
    Convert,
    Counted,
    Div,
    EveryOther,
    Expression,
    FirstLane,
    FloorDiv,
    FloorMod,
    Fma,
    Gather,
    Index,
    Interleave,
    Lane,
    LaneReduction,
    Load,
    LoadMatrix,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Number,
    Pack,
    ParameterValue,
    PartialLoad,
    Position,
    Register,
    Select,
    Shuffle,
    Sub,
    Taken,
    type_of,
)
from spacedsl.codegen.tree.program import (
    Ahead,
    Assign,
    Branch,
    Let,
    Loop,
    ParallelLoop,
    PartialStore,
    Prefetch,
    Program,
    Statement,
    Store,
    Sweep,
    Take,
    TakeEach,
    When,
)
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine, Op
from spacedsl.kernels.pipeline.affine import Atom, Extreme, Opaque, Quotient, Remainder
from spacedsl.kernels.pipeline.algorithm import Variable

_NEUTRAL = {Combine.SUM: 0, Combine.PROD: 1, Combine.MAX: -(2**31), Combine.MIN: 2**31 - 1}
"""Of integers; no test has smaller or larger values."""

_COMBINE: Mapping[Combine, Callable[[list[Any]], Any]] = {
    Combine.SUM: sum, Combine.PROD: math.prod, Combine.MAX: max, Combine.MIN: min
}  # fmt: skip


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


_FUNCTIONS: Mapping[Op, Callable[[Any], Any]] = {
    Op.ABS: abs,
    Op.SQRT: math.sqrt,
    Op.EXP: _exp,
    Op.LOG: math.log,
    Op.TANH: math.tanh,
    Op.SIGMOID: lambda x: 1 / (1 + _exp(-x)),
    Op.GELU: lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}

Value = list[Any]
"""The lanes; one for a scalar."""


def interpret(program: Program, memory: dict[str, list[Any]], parameters: Mapping[str, float]) -> None:
    """Runs the program on flat buffers, which it changes."""
    Interpreter(memory, parameters).block(program.body, {}, {})


def element(index: Index, loops: Mapping[str, int]) -> int:
    """Which one of a flat buffer it is where loops stand so; a line that is asked for may lie outside."""
    terms = sum(loops[v] * stride for v, stride in index.terms)
    shares = sum((loops[v] + s.ahead) % s.modulus // s.divisor * s.stride for v, s in index.shares)
    return index.constant + terms + shares + position(Position(0, index.atoms), loops)


def position(node: Position, variables: Mapping[str, int]) -> int:
    return node.constant + sum(_atom(atom, variables) * number for atom, number in node.terms)


def _atom(atom: Atom, variables: Mapping[str, int]) -> int:
    match atom:
        case Variable(name):
            return variables[name]
        case Quotient(dividend, divisor):
            return position(dividend, variables) // divisor
        case Remainder(dividend, divisor):
            return position(dividend, variables) % divisor
        case Extreme(operator, left, right):
            ends = position(left, variables), position(right, variables)
            return min(ends) if operator == "min" else max(ends)
        case Opaque():
            raise AssertionError("no part of a program")


def _accessed(index: Index, loops: Mapping[str, int]) -> int:
    at = element(index, loops)
    assert at >= 0
    return at


def _rounded(number: Any, dtype: DType) -> Any:
    """The nearest number of a type of floats, to even: it has so many digits behind its first one."""
    digits, least_exponent, greatest = _FORMATS[dtype]
    if number == 0 or not math.isfinite(number):
        return number
    unit = Fraction(2) ** (max(math.frexp(number)[1] - 1, least_exponent) - digits)
    nearest = round(Fraction(number) / unit) * unit
    return math.copysign(float(nearest) if abs(nearest) < Fraction(2) ** greatest else math.inf, number)


_FORMATS = {
    DType.BF16: (7, -126, 128),
    DType.F16: (10, -14, 16),
    DType.F32: (23, -126, 128),
    DType.F64: (52, -1022, 1024),
}


def _led(lanes: Value, part: Taken) -> list[int]:
    """How far each lane leads."""
    return [max(part.low, min(part.high, int(given))) * part.stride for given in lanes]


def _held(number: Any, dtype: DType) -> Any:
    """What a type holds of what was computed: integers keep their last bits."""
    if dtype is DType.F32:
        return ctypes.c_float(number).value
    if dtype is DType.BOOL:
        return bool(number)
    if dtype.is_float or (isinstance(number, float) and math.isnan(number)):
        return number
    return (int(number) - dtype.least) % (1 << 8 * dtype.nbytes) + dtype.least


def _converted(number: Any, dtype: DType) -> Any:
    return _rounded(number, dtype) if dtype.is_float else _held(number, dtype)


def _quotient(x: float, y: float) -> float:
    if y != 0:
        return x / y
    return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)


def _shifted(operator: str, x: int, by: int, dtype: DType) -> int:
    if not 0 <= by < 8 * dtype.nbytes:
        return -1 if operator == ">>" and x < 0 else 0
    return x << by if operator == "<<" else x >> by


_BITS: Mapping[str, Callable[[Any, Any], Any]] = {"&": and_, "|": or_, "^": xor}
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge
}  # fmt: skip


def _joined(operator: str, x: Any, y: Any) -> Any:
    """Bits of both; what is no number, since nobody has stored it, stays that."""
    is_stored = not isinstance(x, float) and not isinstance(y, float)
    return _BITS[operator](x, y) if is_stored else math.nan


def _whole(function: str, x: float) -> float:
    """A float without what is behind its point, with the sign that it had."""
    if not math.isfinite(x):
        return x
    by_name: dict[str, Callable[[float], int]] = {
        "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round
    }  # fmt: skip
    return math.copysign(by_name[function](x), x)


def _called(function: str, values: Sequence[float]) -> float:
    if function in ("floor", "ceil", "trunc", "round"):
        return _whole(function, values[0])
    if function == "abs":
        return abs(values[0])
    made: float = getattr(math, function)(*values)
    return made


def _chunks(extent: int, threads: int) -> list[range]:
    """The iterations of each thread that has some."""
    ends = [extent * thread // threads for thread in range(threads + 1)]
    return [range(*pair) for pair in itertools.pairwise(ends) if pair[0] < pair[1]]


class Interpreter:
    def __init__(self, memory: dict[str, list[Any]], parameters: Mapping[str, float]) -> None:
        self.memory = memory
        self.parameters = parameters
        self.ends: dict[str, int] = {}
        """Of loops that are under way: where the iterations of the thread end."""

    def block(
        self, body: tuple[Statement, ...], loops: Mapping[str, int], registers: dict[str, Value]
    ) -> None:
        for statement in body:
            match statement:
                case Assign(register, value):
                    registers[register.name] = self.value(value, loops, registers)
                case Store(tensor, index, value, _):
                    at = _accessed(index, loops)
                    for lane, number in enumerate(self.value(value, loops, registers)):
                        self.memory[tensor][at + lane] = number
                case PartialStore(tensor, index, value, count):
                    at = _accessed(index, loops)
                    for lane, number in enumerate(self.value(value, loops, registers)[:count]):
                        self.memory[tensor][at + lane] = number
                case Prefetch():
                    pass
                case Branch(variable, limit, inner, otherwise):
                    self.block(inner if loops[variable] < limit else otherwise, loops, registers)
                case Ahead(variable, limit, inner):
                    if loops[variable] + 1 < min(limit, self.ends[variable]):
                        self.block(inner, loops, registers)
                case Loop(variable, extent, inner, first):
                    self.ends[variable] = extent
                    for i in range(first, extent):
                        self.block(inner, {**loops, variable: i}, registers)
                case Sweep(variable, low, high, step, inner):
                    for i in range(position(low, loops), position(high, loops) + 1, step):
                        self.block(inner, {**loops, variable: i}, registers)
                case Let(variable, where):
                    loops = {**loops, variable: position(where, loops)}
                case Take(variable, value, least, greatest):
                    (given,) = self.value(value, loops, registers)
                    loops = {**loops, variable: max(least, min(greatest, int(given)))}
                case TakeEach(variables, value, least, greatest):
                    each = self.value(value, loops, registers)
                    held = [max(least, min(greatest, int(given))) for given in each]
                    loops = {**loops, **dict(zip(variables, held, strict=True))}
                case When(positions, inner, otherwise):
                    holds = all(position(p, loops) >= 0 for p in positions)
                    self.block(inner if holds else otherwise, loops, registers)
                case ParallelLoop(variable, extent, inner, combined, private, first, summed):
                    self.memory |= {each.tensor: [0] * each.part.span for each in summed}
                    # Any order will do: the last iteration first shows a dependence between iterations.
                    for chunk in reversed(_chunks(extent, 2 if first else extent)):
                        self.memory |= {t.name: [math.nan] * t.span for t in private}
                        self.memory |= {each.part.name: [0] * each.part.span for each in summed}
                        own = {
                            p.register.name: [_NEUTRAL[p.combine]] * p.register.type.lanes for p in combined
                        }
                        self.ends[variable] = chunk.stop
                        self.block(first, {**loops, variable: chunk.start}, own)
                        for i in chunk:
                            self.block(inner, {**loops, variable: i}, own)
                        for partial in combined:
                            name = partial.register.name
                            pairs = zip(registers[name], own[name], strict=True)
                            registers[name] = [_COMBINE[partial.combine](list(pair)) for pair in pairs]
                        for part in summed:
                            pairs = zip(self.memory[part.tensor], self.memory[part.part.name], strict=True)
                            self.memory[part.tensor] = [x + y for x, y in pairs]

    def loaded(self, tensor: str, at: int, count: int) -> Value:
        lanes = self.memory[tensor][at : at + count]
        assert len(lanes) == count
        return lanes

    def value(self, node: Expression, loops: Mapping[str, int], registers: dict[str, Value]) -> Value:
        def value(part: Expression) -> Value:
            return self.value(part, loops, registers)

        def held(*numbers: Any) -> Value:
            dtype = type_of(node).dtype
            return [_held(number, dtype) for number in numbers]

        match node:
            case Register(name):
                return registers[name]
            case Load(tensor, index, kind):
                return self.loaded(tensor, _accessed(index, loops), kind.lanes)
            case PartialLoad(tensor, index, kind, count):
                lanes = self.loaded(tensor, _accessed(index, loops), count)
                return lanes + [0] * (kind.lanes - count)
            case Blend(part, other, count):
                return value(part)[:count] + value(other)[count:]
            case Number(number):
                return [number]
            case ParameterValue(name):
                return [self.parameters[name]]
            case Broadcast(part, lanes):
                return value(part) * lanes
            case FirstLane(part, lanes, combine):
                return value(part) + [_NEUTRAL[combine]] * (lanes - 1)
            case Lane(part, number):
                return [value(part)[number]]
            case Pack(parts):
                return [value(part)[0] for part in parts]
            case Interleave(even, odd):
                return [x for pair in zip(value(even), value(odd), strict=True) for x in pair]
            case Gather(tensor, _, index, taken):
                ways = zip(*(_led(value(part.value), part) for part in taken), strict=True)
                first = _accessed(index, loops)
                return [self.loaded(tensor, first + sum(way), 1)[0] for way in ways]
            case EveryOther(part, other):
                return [*value(part), *value(other)[1:]][::2]
            case Convert(part, dtype):
                return [_converted(x, dtype) for x in value(part)]
            case LaneReduction(part, combine):
                return held(_COMBINE[combine](value(part)))
            case Max(a, b):
                return [x if x > y else y for x, y in zip(value(a), value(b), strict=True)]
            case Min(a, b):
                return [x if x < y else y for x, y in zip(value(a), value(b), strict=True)]
            case Apply(function, a):
                return held(*(_FUNCTIONS[function](x) for x in value(a)))
            case Fma(a, b, c):
                return held(*(x * y + z for x, y, z in zip(value(a), value(b), value(c), strict=True)))
            case Add(a, b):
                return held(*(x + y for x, y in zip(value(a), value(b), strict=True)))
            case Sub(a, b):
                return held(*(x - y for x, y in zip(value(a), value(b), strict=True)))
            case Mul(a, b):
                return held(*(x * y for x, y in zip(value(a), value(b), strict=True)))
            case Div(a, b):
                return held(*(_quotient(x, y) for x, y in zip(value(a), value(b), strict=True)))
            case Neg(a):
                return held(*(-x for x in value(a)))
            case Counted(where, kind):
                return held(*(position(where, loops) + lane for lane in range(kind.lanes)))
            case FloorDiv(a, b):
                return held(*(x // y if y else 0 for x, y in zip(value(a), value(b), strict=True)))
            case FloorMod(a, b):
                return held(*(x % y if y else 0 for x, y in zip(value(a), value(b), strict=True)))
            case Bitwise(">>" | "<<" as operator, a, b):
                dtype = type_of(a).dtype
                pairs = zip(value(a), value(b), strict=True)
                return held(*(_shifted(operator, x, y, dtype) for x, y in pairs))
            case Bitwise(operator, a, b):
                return held(*(_joined(operator, x, y) for x, y in zip(value(a), value(b), strict=True)))
            case Not(a):
                is_truth = type_of(a).dtype is DType.BOOL
                return held(*(not x if is_truth else ~x for x in value(a)))
            case Compare(comparator, a, b):
                return [_COMPARISONS[comparator](x, y) for x, y in zip(value(a), value(b), strict=True)]
            case Select(condition, a, b):
                chosen = zip(value(condition), value(a), value(b), strict=True)
                return [yes if holds else no for holds, yes, no in chosen]
            case Call(name, parts):
                return held(*(_called(name, xs) for xs in zip(*map(value, parts), strict=True)))
            case Shuffle() | Bits() | LoadMatrix():
                raise AssertionError("the twin runs what threads do together")

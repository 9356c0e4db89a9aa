"""Values of a pipeline's expressions at points, in program trees: loads, arithmetic, and what is inlined.

In: an expression of an algorithm, a point as positions of a program, the arrays in which stages and inputs
lie. Out: an expression of a program, and statements for what is used more than once. Where there are lanes, a
point is that of lane 0, and each further lane is one position on along a variable. What is stored where, and
which loops there are, is not decided here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from spacedsl.codegen import program
from spacedsl.codegen.implementation import LoweringError
from spacedsl.codegen.program import (
    Assign,
    BitOperator,
    Bitwise,
    Broadcast,
    Call,
    Convert,
    Counted,
    FloorDiv,
    FloorMod,
    Gather,
    Index,
    Lane,
    Load,
    Neg,
    Not,
    Number,
    Pack,
    ParameterValue,
    Register,
    Statement,
    Store,
    Take,
    TakeEach,
    Taken,
    Type,
    is_conversion,
    type_of,
)
from spacedsl.codegen.ranges import Ranges, simplified
from spacedsl.codegen.rules import is_gathered
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.pipeline.affine import (
    Atom,
    Extreme,
    Linear,
    Opaque,
    Quotient,
    Remainder,
    atoms,
    linear,
    names_of,
    replaced,
    substituted,
    variable,
)
from spacedsl.kernels.pipeline.algorithm import (
    Apply,
    Binary,
    Cast,
    Compare,
    Constant,
    Expression,
    Read,
    Scalar,
    Select,
    Stage,
    Unary,
    Undefined,
    Update,
    Variable,
)
from spacedsl.kernels.pipeline.lanes import pace
from spacedsl.kernels.pipeline.reductions import is_associative, unrolled

Point = Mapping[str, Linear]
"""By variable of a definition."""

Value = program.Expression


@dataclass(frozen=True, slots=True)
class Array:
    """Where the values of a stage, or of an input, lie."""

    tensors: tuple[str, ...]
    """One for each value."""
    origin: tuple[Linear, ...]
    """The point of the first element, the innermost dimension first."""
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    def index(self, positions: Sequence[Linear]) -> Linear:
        """Of the element at a point. Along a dimension with one point there is no other."""
        total = Linear(0)
        for position, first, extent, stride in zip(
            positions, self.origin, self.extents, self.strides, strict=True
        ):
            if extent > 1:
                total += (position + first * -1) * stride
        return total


@dataclass(frozen=True, slots=True)
class Lanes:
    variable: str
    """Along which each lane is one position further."""
    count: int


@dataclass(slots=True)
class Block:
    """Statements that are being made, and what they have found out already."""

    ranges: Ranges
    statements: list[Statement] = field(default_factory=list)
    found: dict[object, Value] = field(default_factory=dict)
    """Registers, by what they hold."""
    taken: dict[tuple[Value, int, int], tuple[Linear, ...]] = field(default_factory=dict)
    """Positions that integers are, held between two ends: one for each lane."""
    forms: dict[Linear, Linear] = field(default_factory=dict)
    """Positions, as simple as they can be said."""
    _in_lanes: dict[int, Ranges] = field(default_factory=dict)

    def in_lanes(self, lanes: Lanes) -> Ranges:
        """With the number of a lane as a variable."""
        if lanes.count not in self._in_lanes:
            self._in_lanes[lanes.count] = self.ranges.with_loop(_LANE, Linear(0), Linear(lanes.count - 1))
        return self._in_lanes[lanes.count]

    def inner(self, ranges: Ranges) -> Block:
        """For statements inside of these."""
        return Block(ranges, [], dict(self.found), dict(self.taken))


_ARITHMETIC: Mapping[str, type[program.Binary]] = {
    "+": program.Add, "-": program.Sub, "*": program.Mul, "min": program.Min, "max": program.Max
}  # fmt: skip
_FUNCTIONS = {op.value: op for op in (Op.EXP, Op.LOG, Op.SQRT, Op.TANH, Op.ABS)}
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(slots=True)
class Values:
    arrays: Mapping[str, Array]
    inlined: Mapping[str, Stage]
    fresh: Callable[[str], str]
    lanes: Lanes | None
    written: frozenset[str]
    """Stages that statements around write to, so that what is read of them may change."""
    own: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """The values of a stage at the point that is computed, where they are in registers."""
    numbers: dict[str, Value] = field(default_factory=dict)
    """Variables of positions that stand for integers that are computed: they may differ between lanes."""

    # ---- Expressions -------------------------------------------------------------------------------------

    def value(self, node: Expression, point: Point, block: Block) -> Value:
        def of(part: Expression) -> Value:
            return self.value(part, point, block)

        match node:
            case Constant(number, dtype):
                return _number(number, dtype)
            case Undefined(dtype):
                return _number(0, dtype)
            case Variable(name):
                return self.integer(point[name], block)
            case Scalar(name, dtype):
                return ParameterValue(name, Type(dtype))
            case Read():
                return self.read(node, point, block)
            case Unary("-", operand):
                return self.computed(node.dtype, Neg, of(operand))
            case Unary(_, operand):
                return Not(of(operand))
            case Binary():
                return self.binary(node, of(node.left), of(node.right))
            case Compare(comparator, left, right):
                if (known := self.decided(node, point, block)) is not None:
                    return _number(known, DType.BOOL)
                return program.Compare(comparator, *self.alike(_single(of(left)), _single(of(right))))
            case Select(condition, yes, no):
                chosen = of(condition)
                if isinstance(chosen, Number):
                    return of(yes if chosen.value else no)
                return program.Select(*self.alike(chosen, of(yes), of(no)))
            case Cast(dtype, operand):
                return _converted(of(operand), dtype)
            case Apply(function, arguments, dtype):
                given = [_single(of(argument)) for argument in arguments]
                if function in _FUNCTIONS:
                    return _converted(program.Apply(_FUNCTIONS[function], given[0]), dtype)
                return _converted(Call(function, self.alike(*given)), dtype)

    def binary(self, node: Binary, left: Value, right: Value) -> Value:
        operator, dtype = node.operator, node.dtype
        if operator in ("&&", "||"):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Number):
                    return other if bool(one.value) is (operator == "&&") else one
            return Bitwise("&" if operator == "&&" else "|", *self.alike(left, right))
        if operator in get_args(BitOperator):
            return Bitwise(operator, *self.alike(left, right))  # type: ignore[arg-type]
        if operator in _ARITHMETIC:
            return self.computed(dtype, _ARITHMETIC[operator], left, right)
        if dtype.is_float and operator == "/":
            return self.computed(dtype, program.Div, left, right)
        if dtype.is_float:
            raise LoweringError(f"there is no code for `%` of {dtype.label}")
        return self.computed(dtype, FloorDiv if operator == "/" else FloorMod, left, right)

    def computed(self, dtype: DType, operation: Callable[..., Value], *operands: Value) -> Value:
        """Of floats of 16 bits, by way of f32: both roundings together are one to the nearest."""
        return _converted(operation(*self.alike(*(_single(o) for o in operands))), dtype)

    def alike(self, *values: Value) -> tuple[Value, ...]:
        """All with as many lanes as one of them has."""
        lanes = max(type_of(v).lanes for v in values)
        return tuple(Broadcast(v, lanes) if type_of(v).lanes < lanes else v for v in values)

    def decided(self, node: Compare, point: Point, block: Block) -> bool | None:
        """Whether it is known to hold at all lanes, or at none."""
        if node.left.dtype is not DType.I32:
            return None
        forms = [linear(side) for side in (node.left, node.right)]
        if any(isinstance(atom, Opaque) for form in forms for atom in atoms(form)):
            return None
        left, right = (substituted(form, point) for form in forms)
        if any(name in self.numbers for form in (left, right) for name in form.names):
            return None
        if node.operator in ("==", "!="):
            is_equal = self.is_equal(left, right, block)
            return None if is_equal is None else is_equal is (node.operator == "==")
        for comparator, holds in ((node.operator, True), (_OPPOSITE[node.operator], False)):
            if self.is_natural(condition(comparator, left, right), block):
                return holds
        return None

    def is_equal(self, left: Linear, right: Linear, block: Block) -> bool | None:
        """Whether two positions are known to be the same, or never to be."""
        below, above = (condition("<=", *pair) for pair in ((left, right), (right, left)))
        if self.is_natural(below, block) and self.is_natural(above, block):
            return True
        are_apart = any(self.is_natural(end + Linear(-1), block) for end in (below, above))
        return False if are_apart else None

    # ---- Positions ---------------------------------------------------------------------------------------

    def position(self, node: Expression, point: Point, block: Block) -> Linear:
        """Where an expression of i32 leads; what has to be computed for it is a number of its own."""
        form = linear(node)
        computed: dict[Atom, Linear] = {}
        for atom in atoms(form):
            if isinstance(atom, Opaque):
                computed[atom] = self.numbered(self.value(atom.expression, point, block), block)
        if computed:
            form = replaced(form, computed)
        return self.simple(substituted(form, point), block)

    def numbered(self, value: Value, block: Block) -> Linear:
        name = self.fresh("position")
        self.numbers[name] = self.kept(value, block)
        return variable(name)

    def kept(self, value: Value, block: Block) -> Value:
        """In a register."""
        if isinstance(value, Register | Number | ParameterValue):
            return value
        return self.copied(value, block)

    def copied(self, value: Value, block: Block) -> Value:
        """In a register of its own, which keeps it whatever becomes of others."""
        register = Register(self.fresh("v"), type_of(value))
        block.statements.append(Assign(register, value))
        return register

    def simple(self, form: Linear, block: Block) -> Linear:
        if form not in block.forms:
            block.forms[form] = simplified(form, lambda position: self.is_natural(position, block))
        return block.forms[form]

    def is_natural(self, position: Linear, block: Block) -> bool:
        """Whether it is known never to be negative, in no lane."""
        if self.lanes is None:
            return block.ranges.is_natural(position)
        further = variable(self.lanes.variable) + variable(_LANE)
        return block.in_lanes(self.lanes).is_natural(substituted(position, {self.lanes.variable: further}))

    def integer(self, form: Linear, block: Block) -> Value:
        """A position as an i32."""
        form = self.simple(form, block)
        if not any(self.varies(atom) for atom, _ in form.terms):
            return Counted(form, Type(DType.I32))
        lanes = self.lanes
        moving = [(atom, number) for atom, number in form.terms if self.varies(atom)]
        if lanes is not None and moving == [(Variable(lanes.variable), 1)]:
            return Counted(form, Type(DType.I32, lanes.count))
        rest = tuple((atom, number) for atom, number in form.terms if not self.varies(atom))
        total: Value = Counted(Linear(form.constant, rest), Type(DType.I32))
        for atom, number in moving:
            part = self.computed(DType.I32, program.Mul, self.part(atom, block), _number(number, DType.I32))
            total = self.computed(DType.I32, program.Add, total, part)
        return total

    def part(self, atom: Atom, block: Block) -> Value:
        match atom:
            case Variable(name) if name in self.numbers:
                return self.numbers[name]
            case Variable(name):
                assert self.lanes is not None
                return Counted(variable(name), Type(DType.I32, self.lanes.count))
            case Quotient(dividend, divisor) | Remainder(dividend, divisor):
                operation = FloorDiv if isinstance(atom, Quotient) else FloorMod
                inner = self.integer(dividend, block)
                return self.computed(DType.I32, operation, inner, _number(divisor, DType.I32))
            case Extreme(operator, left, right):
                ends = self.integer(left, block), self.integer(right, block)
                return self.computed(DType.I32, _ARITHMETIC[operator], *ends)
            case Opaque():
                raise AssertionError("has become a number")

    def varies(self, atom: Atom) -> bool:
        """Whether it is no position of the program: it is computed, or not the same for all lanes."""
        return any(name in self.numbers or self.is_lane(name) for name in names_of(atom))

    def is_lane(self, name: str) -> bool:
        return self.lanes is not None and name == self.lanes.variable

    # ---- Memory ------------------------------------------------------------------------------------------

    def read(self, node: Read, point: Point, block: Block) -> Value:
        if node.source in self.own:
            return self.own[node.source][node.element]
        positions = tuple(self.position(at, point, block) for at in node.point)
        key = (node.source, node.element, positions)
        if key in block.found:
            return block.found[key]
        stage = self.inlined.get(node.source)
        if stage is None:
            found = self.load(node, positions, block)
        else:
            there = dict(zip(stage.variables, positions, strict=True))
            if stage.updates:
                for element, value in enumerate(self.accumulated(stage, there, block)):
                    block.found[node.source, element, positions] = self.kept(value, block)
                return block.found[key]
            found = self.value(stage.values[node.element], there, block)
        found = self.kept(found, block)
        if node.source not in self.written:
            block.found[key] = found
        return found

    def accumulated(self, stage: Stage, there: Point, block: Block) -> Sequence[Value]:
        """All values of a stage at a point, with all turns of its updates."""
        around = self.own
        made: list[Value] = []
        for definition, turn in unrolled(stage):
            at = {**there, **{name: Linear(number) for name, number in turn.items()}}
            before, made = made, [self.value(v, at, block) for v in definition.values]
            if isinstance(definition, Update):
                if definition.condition is not None:
                    holds = self.value(definition.condition, at, block)
                    made = [
                        program.Select(*self.alike(holds, *pair)) for pair in zip(made, before, strict=True)
                    ]
                if not is_associative(stage, definition):
                    # What is used twice is computed once.
                    made = [self.kept(m, block) for m in made]
            self.own = {**around, stage.name: tuple(made)}
        self.own = around
        return made

    def load(self, node: Read, positions: Sequence[Linear], block: Block) -> Value:
        array = self.arrays[node.source]
        tensor, scalar = array.tensors[node.element], Type(node.dtype)
        leads = self.leads(array, positions, block)
        together = self.together(array, leads, block)
        if together is not None:
            lanes = self.lanes if self.moves(array, positions) else None
            return Load(tensor, together, Type(node.dtype, 1 if lanes is None else lanes.count))
        found = self.shuffled(node, array, positions, block) or self.gathered(node, array, leads, block)
        if found is not None:
            return found
        return Pack(tuple(Load(tensor, place, scalar) for place in self.places(array, leads, block)))

    def store(self, array: Array, positions: Sequence[Linear], values: Sequence[Value], block: Block) -> None:
        leads = self.leads(array, positions, block)
        together = self.together(array, leads, block)
        places = () if together is not None else self.places(array, leads, block)
        for tensor, value in zip(array.tensors, values, strict=True):
            if together is not None:
                is_spread = self.moves(array, positions) and type_of(value).lanes == 1 and self.lanes
                stored = Broadcast(value, self.lanes.count) if is_spread and self.lanes else value
                block.statements.append(Store(tensor, together, stored))
            for number, place in enumerate(places):
                lane = value if type_of(value).lanes == 1 else Lane(self.kept(value, block), number)
                block.statements.append(Store(tensor, place, lane))

    def moves(self, array: Array, positions: Sequence[Linear]) -> bool:
        """Whether lanes lead to different elements."""
        return any(self.is_lane(name) for name in array.index(positions).names)

    def shuffled(self, node: Read, array: Array, positions: Sequence[Linear], block: Block) -> Value | None:
        """Vectors of neighbours whose lanes make up what is read; None where they do not.

        They do where each lane leads to the second, fourth, .. element behind that of the one before, or two,
        four, .. lanes lead to each element, along the innermost dimension, and all of them are inside of it.
        """
        lanes = self.lanes
        is_computed = any(name in self.numbers for at in positions for name in at.names)
        if lanes is None or is_computed or not positions or array.extents[0] == 1:
            return None
        inner = self.simple(positions[0] + array.origin[0] * -1, block)
        rest = array.index(positions) + inner * -1
        tensor, step = array.tensors[node.element], pace(inner, lanes.variable)
        if any(self.varies(atom) for atom, _ in self.simple(rest, block).terms):
            return None
        are_inside = True

        def load(first: Linear, count: int) -> Value:
            nonlocal are_inside
            first = self.simple(first, block)
            ends = (first, first * -1 + Linear(array.extents[0] - count))
            are_inside = are_inside and all(block.ranges.is_natural(end) for end in ends)
            return Load(tensor, index(self.simple(first + rest, block)), Type(node.dtype, count))

        def every(first: Linear, step: int) -> Value:
            if step == 1:
                return load(first, lanes.count)
            half = step // 2
            return program.EveryOther(
                every(first, half), every(first + Linear(half * (lanes.count - 1)), half)
            )

        def in_turns(lane: int, step: int, divisor: int) -> Value:
            """Each of these lanes leads one element further."""
            if step == divisor:
                there = substituted(inner, {lanes.variable: variable(lanes.variable) + Linear(lane)})
                return load(there, lanes.count // divisor)
            halves = (in_turns(lane + more, 2 * step, divisor) for more in (0, step))
            return program.Interleave(*halves)

        found: Value | None = None
        if step is not None and step > 1:
            found = every(inner, step.numerator)
        elif step is not None and 1 < 2 * step.denominator <= lanes.count:
            found = in_turns(0, 1, step.denominator)
        return found if are_inside else None

    def gathered(
        self, node: Read, array: Array, leads: Sequence[Linear | Value], block: Block
    ) -> Value | None:
        """Elements that lie anywhere; None where they cannot be read together."""
        assert self.lanes is not None
        kind, extent = Type(node.dtype, self.lanes.count), math.prod(array.extents)
        if not is_gathered(kind, extent):
            return None
        base, taken = Linear(0), list[Taken]()
        for dimension, (lead, stride) in enumerate(zip(leads, array.strides, strict=True)):
            first, last = array.origin[dimension], array.extents[dimension] - 1
            if last == 0:
                continue
            if not isinstance(lead, Linear):
                begin = _fixed(first)
                taken.append(Taken(lead, begin, begin + last, stride))
                base += Linear(-begin * stride)
                continue
            moving = [(atom, number) for atom, number in lead.terms if self.varies(atom)]
            match moving:
                case []:
                    pass
                case [(Variable(), number)]:
                    lanes = Counted(Linear(0), Type(DType.I32, kind.lanes))
                    taken.append(Taken(lanes, 0, kind.lanes - 1, number * stride))
                case _ if node.source in self.written:
                    # What may be anywhere in an array may be what others write.
                    return None
                case _:
                    each = self.kept(self.integer(lead + first * -1, block), block)
                    taken.append(Taken(each, 0, last, stride))
                    continue
            base += (lead + first * -1) * stride
        return Gather(
            array.tensors[node.element], extent, index(self.simple(base, block)), tuple(taken), kind
        )

    def leads(self, array: Array, positions: Sequence[Linear], block: Block) -> list[Linear | Value]:
        """Where each dimension leads: to a position, or each lane to that of its integer."""
        found: list[Linear | Value] = []
        for dimension, at in enumerate(positions):
            if not any(name in self.numbers for name in at.names):
                found.append(at)
                continue
            number = self.kept(self.integer(at, block), block)
            is_wide = type_of(number).lanes > 1
            found.append(number if is_wide else self.taken(number, array, dimension, block))
        return found

    def together(self, array: Array, leads: Sequence[Linear | Value], block: Block) -> Index | None:
        """Where all lanes lead to the same element, or to neighbours: where the first one does."""
        fixed = [lead for lead in leads if isinstance(lead, Linear)]
        if len(fixed) < len(leads):
            return None
        form = array.index(fixed)
        moving = [(atom, number) for atom, number in form.terms if self.varies(atom)]
        are_neighbours = self.lanes is not None and moving == [(Variable(self.lanes.variable), 1)]
        return index(self.simple(form, block)) if are_neighbours or not moving else None

    def places(self, array: Array, leads: Sequence[Linear | Value], block: Block) -> tuple[Index, ...]:
        """One for each lane."""
        assert self.lanes is not None
        known = [
            lead if isinstance(lead, Linear) else self.taken_each(lead, array, dimension, block)
            for dimension, lead in enumerate(leads)
        ]
        return tuple(
            index(array.index([self.of_lane(at, lane) for at in known])) for lane in range(self.lanes.count)
        )

    def of_lane(self, at: Linear | tuple[Linear, ...], lane: int) -> Linear:
        """The position of one lane."""
        assert self.lanes is not None
        if isinstance(at, Linear):
            return substituted(at, {self.lanes.variable: variable(self.lanes.variable) + Linear(lane)})
        return at[lane]

    def taken(self, number: Value, array: Array, dimension: int, block: Block) -> Linear:
        """An integer as a position, held within the array."""
        (position,) = self.taken_each(number, array, dimension, block)
        return position

    def taken_each(self, number: Value, array: Array, dimension: int, block: Block) -> tuple[Linear, ...]:
        """The same for each lane of a vector."""
        first = _fixed(array.origin[dimension])
        last = first + array.extents[dimension] - 1
        key = (number, first, last)
        if key not in block.taken:
            names = tuple(self.fresh("at") for _ in range(type_of(number).lanes))
            block.statements.append(
                Take(names[0], number, first, last)
                if len(names) == 1
                else TakeEach(names, number, first, last)
            )
            block.taken[key] = tuple(variable(name) for name in names)
        return block.taken[key]


_LANE = "number of a lane"
"""No name of a program."""


def condition(comparator: str, left: Linear, right: Linear) -> Linear:
    """What is not negative where a comparison holds."""
    match comparator:
        case "<":
            return right + left * -1 + Linear(-1)
        case "<=":
            return right + left * -1
        case ">":
            return left + right * -1 + Linear(-1)
        case _:
            return left + right * -1


def _fixed(origin: Linear) -> int:
    """Where a box begins of which values say what is read."""
    if origin.terms:
        raise LoweringError("a box that moves is read where a value says")
    return origin.constant


def index(form: Linear) -> Index:
    variables = tuple((atom.name, number) for atom, number in form.terms if isinstance(atom, Variable))
    others = tuple((atom, number) for atom, number in form.terms if not isinstance(atom, Variable))
    return Index(form.constant, variables, atoms=others)


def _number(value: float, dtype: DType) -> Value:
    if dtype is DType.F16:
        return Convert(Number(value, Type(DType.F32)), dtype)
    return Number(value, Type(dtype))


def _single(value: Value) -> Value:
    """In a type with arithmetic."""
    return value if type_of(value).dtype.has_arithmetic else Convert(value, DType.F32)


def _converted(value: Value, dtype: DType) -> Value:
    """In another type; what is between others and 16 bits goes through f32."""
    found = type_of(value).dtype
    if found is dtype:
        return value
    if not is_conversion(found, dtype):
        value = Convert(value, DType.F32)
    return Convert(value, dtype)

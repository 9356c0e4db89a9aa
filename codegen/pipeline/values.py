"""Values of a pipeline's expressions at points, in program trees: loads, arithmetic, and what is inlined.

In: an expression of an algorithm, a point as positions of a program, the arrays in which stages and inputs
lie. Out: an expression of a program, and statements for what is used more than once. Where there are lanes, a
point is that of lane 0, and each further lane is one position on along a variable. What is stored where, and
which loops there are, is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from spacedsl.codegen.pipeline.accesses import Accesses
from spacedsl.codegen.pipeline.arithmetic import ARITHMETIC, Value, alike, cast, computed, constant, single
from spacedsl.codegen.pipeline.blocks import Block, Point
from spacedsl.codegen.pipeline.positions import condition
from spacedsl.codegen.tree import expressions
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import (
    BitOperator,
    Bitwise,
    Call,
    FloorDiv,
    FloorMod,
    Neg,
    Not,
    Number,
    ParameterValue,
    Type,
    converted,
)
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.pipeline.affine import (
    Atom,
    Linear,
    Opaque,
    atoms,
    fixed,
    has_values,
    linear,
    replaced,
    substituted,
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
    walk,
)
from spacedsl.kernels.pipeline.reductions import is_associative, unrolled

_FUNCTIONS = {op.value: op for op in (Op.EXP, Op.LOG, Op.SQRT, Op.TANH, Op.ABS)}
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(slots=True, kw_only=True)
class Values(Accesses):
    inlined: Mapping[str, Stage]
    own: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """The values of a stage at the point that is computed, where they are in registers."""

    def value(self, node: Expression, point: Point, block: Block) -> Value:
        def of(part: Expression) -> Value:
            return self.value(part, point, block)

        match node:
            case Constant(number, dtype):
                return constant(number, dtype)
            case Undefined(dtype):
                return constant(0, dtype)
            case Variable(name):
                return self.integer(point[name], block)
            case Scalar(name, dtype):
                return ParameterValue(name, Type(dtype))
            case Read():
                return self.read(node, point, block)
            case Unary("-", operand):
                return computed(node.dtype, Neg, of(operand))
            case Unary(_, operand):
                return Not(of(operand))
            case Binary():
                return self.binary(node, of(node.left), of(node.right))
            case Compare(comparator, left, right):
                if (known := self.decided(node, point, block)) is not None:
                    return constant(known, DType.BOOL)
                return expressions.Compare(comparator, *alike(single(of(left)), single(of(right))))
            case Select(condition, yes, no):
                chosen = of(condition)
                if isinstance(chosen, Number):
                    return of(yes if chosen.value else no)
                return expressions.Select(*alike(chosen, of(yes), of(no)))
            case Cast(dtype, operand):
                return cast(of(operand), dtype)
            case Apply(function, arguments, dtype):
                given = [single(of(argument)) for argument in arguments]
                if function in _FUNCTIONS:
                    return converted(expressions.Apply(_FUNCTIONS[function], given[0]), dtype)
                return converted(Call(function, alike(*given)), dtype)

    def binary(self, node: Binary, left: Value, right: Value) -> Value:
        operator, dtype = node.operator, node.dtype
        if operator in ("&&", "||"):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Number):
                    return other if bool(one.value) is (operator == "&&") else one
            return Bitwise("&" if operator == "&&" else "|", *alike(left, right))
        if operator in get_args(BitOperator):
            return Bitwise(operator, *alike(left, right))  # type: ignore[arg-type]
        if operator in ARITHMETIC:
            return computed(dtype, ARITHMETIC[operator], left, right)
        if dtype.is_float and operator == "/":
            return computed(dtype, expressions.Div, left, right)
        if dtype.is_float:
            raise LoweringError(f"there is no code for `%` of {dtype.label}")
        return computed(dtype, FloorDiv if operator == "/" else FloorMod, left, right)

    def decided(self, node: Compare, point: Point, block: Block) -> bool | None:
        """Whether it is known to hold at all lanes, or at none."""
        if node.left.dtype is not DType.I32:
            return None
        forms = [linear(side) for side in (node.left, node.right)]
        if any(map(has_values, forms)):
            return None
        left, right = (substituted(form, point) for form in forms)
        if any(name in self.numbers for form in (left, right) for name in form.names):
            return None
        known = self.compared(node.operator, left, right, block)
        if known is None or not all(self.is_whole(side, point, block) for side in (node.left, node.right)):
            return None
        return known

    def compared(self, comparator: str, left: Linear, right: Linear, block: Block) -> bool | None:
        """The same of whole numbers."""
        if comparator in ("==", "!="):
            is_equal = self.is_equal(left, right, block)
            return None if is_equal is None else is_equal is (comparator == "==")
        for asked, holds in ((comparator, True), (_OPPOSITE[comparator], False)):
            if self.is_natural(condition(asked, left, right), block):
                return holds
        return None

    def is_whole(self, node: Expression, point: Point, block: Block) -> bool:
        """Whether nothing in an expression of variables wraps around."""
        forms = (
            substituted(linear(part), point)
            for part in walk(node)
            if isinstance(part, Binary | Unary) and part.dtype is DType.I32
        )
        return all(self.is_held(form, block) for form in dict.fromkeys(forms))

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

    # ---- Reads -------------------------------------------------------------------------------------------

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
            at = {**there, **fixed(turn)}
            before, made = made, [self.value(v, at, block) for v in definition.values]
            if isinstance(definition, Update):
                if definition.condition is not None:
                    holds = self.value(definition.condition, at, block)
                    made = [
                        expressions.Select(*alike(holds, *pair)) for pair in zip(made, before, strict=True)
                    ]
                if definition.condition is not None or not is_associative(stage, definition):
                    # What is used twice is computed once.
                    made = [self.kept(m, block) for m in made]
            self.own = {**around, stage.name: tuple(made)}
        self.own = around
        return made

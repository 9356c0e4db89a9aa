"""Positions of a pipeline in a program: as simple as they can be said, and integers where lanes differ.

In: positions of an algorithm at a point. Out: positions of a program; or, where lanes or values decide them,
expressions. Where elements lie is for `accesses.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spacedsl.codegen.pipeline.arithmetic import ARITHMETIC, Value, computed, constant
from spacedsl.codegen.pipeline.blocks import LANE, Block, Lanes
from spacedsl.codegen.tree import expressions
from spacedsl.codegen.tree.expressions import (
    Counted,
    FloorDiv,
    FloorMod,
    Number,
    ParameterValue,
    Register,
    Type,
    type_of,
)
from spacedsl.codegen.tree.program import Assign
from spacedsl.codegen.tree.ranges import simplified
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import (
    Atom,
    Extreme,
    Linear,
    Opaque,
    Quotient,
    Remainder,
    substituted,
    variable,
)
from spacedsl.kernels.pipeline.algorithm import Variable


@dataclass(slots=True, kw_only=True)
class Positions:
    fresh: Callable[[str], str]
    lanes: Lanes | None
    numbers: dict[str, Value] = field(default_factory=dict)
    """Variables of positions that stand for integers that are computed: they may differ between lanes."""

    # ---- What is known -----------------------------------------------------------------------------------

    def simple(self, form: Linear, block: Block) -> Linear:
        if form not in block.forms:
            block.forms[form] = simplified(form, lambda position: self.is_natural(position, block))
        return block.forms[form]

    def is_natural(self, position: Linear, block: Block) -> bool:
        """Whether it is known never to be negative, in no lane."""
        if self.lanes is None:
            return block.ranges.is_natural(position)
        further = variable(self.lanes.variable) + variable(LANE)
        return block.in_lanes(self.lanes).is_natural(substituted(position, {self.lanes.variable: further}))

    def is_equal(self, left: Linear, right: Linear, block: Block) -> bool | None:
        """Whether two positions are known to be the same, or never to be."""
        below, above = (condition("<=", *pair) for pair in ((left, right), (right, left)))
        if self.is_natural(below, block) and self.is_natural(above, block):
            return True
        are_apart = any(self.is_natural(end + Linear(-1), block) for end in (below, above))
        return False if are_apart else None

    def is_held(self, position: Linear, block: Block) -> bool:
        """Whether it is known that 32 bits hold it."""
        ends = position + Linear(-DType.I32.least), position * -1 + Linear(DType.I32.greatest)
        return all(self.is_natural(end, block) for end in ends)

    def varies(self, atom: Atom) -> bool:
        """Whether it is no position of the program: it is computed, or not the same for all lanes."""
        return any(name in self.numbers or self.is_lane(name) for name in atom.names)

    def is_lane(self, name: str) -> bool:
        return self.lanes is not None and name == self.lanes.variable

    # ---- Integers ----------------------------------------------------------------------------------------

    def integer(self, form: Linear, block: Block) -> Value:
        """A position as an i32."""
        form = self.simple(form, block)
        if not form.terms:
            return constant(DType.I32.wrapped(form.constant), DType.I32)
        if not any(self.varies(atom) for atom, _ in form.terms):
            return Counted(form, Type(DType.I32))
        lanes = self.lanes
        moving = [(atom, number) for atom, number in form.terms if self.varies(atom)]
        if lanes is not None and moving == [(Variable(lanes.variable), 1)]:
            return Counted(form, Type(DType.I32, lanes.count))
        rest = tuple((atom, number) for atom, number in form.terms if not self.varies(atom))
        total = self.integer(Linear(form.constant, rest), block)
        for atom, number in moving:
            factor = constant(DType.I32.wrapped(number), DType.I32)
            part = computed(DType.I32, expressions.Mul, self.part(atom, block), factor)
            total = computed(DType.I32, expressions.Add, total, part)
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
                return computed(DType.I32, operation, inner, constant(divisor, DType.I32))
            case Extreme(operator, left, right):
                ends = self.integer(left, block), self.integer(right, block)
                return computed(DType.I32, ARITHMETIC[operator], *ends)
            case Opaque():
                raise AssertionError("has become a number")

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

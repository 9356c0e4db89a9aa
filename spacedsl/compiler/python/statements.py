"""Printing of the statements of a body.

In: statements of the IR. Out: lines of Python, the cells that several of them read being looked up once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spacedsl.compiler.ir import (
    Assign,
    AtMost,
    Check,
    EnumEquality,
    EnumOrder,
    Fail,
    Fire,
    For,
    If,
    InMask,
    IntegerEquality,
    Limit,
    Linear,
    Literal,
    Local,
    Make,
    Named,
    Project,
    RestrictHigh,
    RestrictLow,
    Satisfies,
    Settle,
    Statement,
    Test,
)
from spacedsl.compiler.python.bindings import print_loops
from spacedsl.compiler.python.expressions import Expressions
from spacedsl.compiler.python.names import RUNTIME, bracketed, cell_of, indent, indexed, variable_name
from spacedsl.compiler.uses import hoisted
from spacedsl.language.applications import identifier
from spacedsl.language.space import Use


@dataclass(slots=True)
class Body(Expressions):
    """Prints statements where the variables of `bound` are known."""

    bound: set[str]

    def inner(self, bound: Iterable[str] = ()) -> Body:
        """For statements inside these, which may name further cells."""
        return Body(self.space, self.tables, dict(self.cells), {*self.bound, *bound})

    def block(self, statements: Iterable[Statement]) -> list[str]:
        """The statements, after the cells that they need at this level or in more than one part."""
        inner = self.inner()
        statements = tuple(statements)
        lines = [
            inner.name_cell(use) for use in hoisted(statements) if use not in inner.cells and inner.knows(use)
        ]
        for statement in statements:
            lines += inner.statement(statement)
        return lines or ["pass"]

    def knows(self, use: Use) -> bool:
        return set(use.args) <= self.bound

    def name_cell(self, use: Use) -> str:
        name = variable_name("_".join((use.choice, *map(identifier, use.args))))
        taken = {variable_name(b) for b in self.bound} | set(self.cells.values()) | RUNTIME
        while name in taken:
            name += "_"
        self.cells[use] = name
        return f"{name} = {cell_of(use)}"

    def statement(self, statement: Statement) -> list[str]:
        match statement:
            case If(test, then, otherwise):
                return self._if(test, then, otherwise)
            case Make(literal):
                return self._make(literal)
            case Project(target, table, inputs):
                return self._project(target, table, inputs)
            case Assign(Local(name), value):
                return [f"{name} = {self.integer(value)}"]
            case RestrictLow(use, bound):
                name = "raise_low" if self.is_counter(use) else "drop_below"
                return [f"{name}({self.cell(use)}, {self.integer(bound)})"]
            case RestrictHigh(use, bound):
                name = "lower_high" if self.is_counter(use) else "drop_above"
                return [f"{name}({self.cell(use)}, {self.integer(bound)})"]
            case Settle(use, low, high):
                return [f"settle({self.cell(use)}, {self.integer(low)}, {self.integer(high)})"]
            case Fire(trigger, args, certain):
                cell, mask = f"fired_{trigger}{indexed(args)}", 2 if certain else 1
                return [f"if v[{cell}] != {mask}:", f"    narrow({cell}, v[{cell}] & {mask})"]
            case Fail():
                return ["raise Contradiction"]
            case Check(value, least, _):
                text = self.integer(value)
                return [f"if {text} < {least}:", f"    too_small({self.tables.check(statement)}, {text})"]
            case For(loops, body):
                inner = self.inner(x.variable for x in loops)
                return print_loops(loops, inner.block(body), self.tables)

    def _if(self, test: Test, then: tuple[Statement, ...], otherwise: tuple[Statement, ...]) -> list[str]:
        if not then and not otherwise:
            return []
        if not then:
            return [f"if {self.test(test, negated=True)}:", *indent(self.block(otherwise))]
        lines = [f"if {self.test(test)}:", *indent(self.block(then))]
        if otherwise:
            rest = self.block(otherwise)
            if isinstance(otherwise[0], If) and rest[0].startswith("if ") and len(otherwise) == 1:
                lines += [f"el{rest[0]}", *rest[1:]]
            else:
                lines += ["else:", *indent(rest)]
        return lines

    def _project(self, target: Use, table: int, inputs: tuple[Use, ...]) -> list[str]:
        first, *rest = inputs
        index = f"v[{self.cell(first)}]"
        for use in rest:
            index = f"{bracketed(index)} << {len(self.space.enum(use).values)} | v[{self.cell(use)}]"
        cell = self.cell(target)
        return [
            f"mask = v[{cell}] & table_{table}[{index}]",
            f"if mask != v[{cell}]:",
            f"    narrow({cell}, mask)",
        ]

    def _make(self, literal: Literal) -> list[str]:
        match literal:
            case InMask() | Satisfies() | Named():
                use = literal.value.use if isinstance(literal, Satisfies) else literal.use
                assert use is not None
                cell = self.cell(use)
                return [f"mask = {self.may(literal)}", f"if mask != v[{cell}]:", f"    narrow({cell}, mask)"]
            case EnumEquality(left, right, equal, translate):
                name = "make_same" if equal else "make_other"
                identity = translate == tuple(range(len(translate)))
                return [f"{name}({self.cell(left)}, {self.cell(right)}, {None if identity else translate!r})"]
            case Limit():
                return [f"require({self.tables.limit(literal)})"]
            case EnumOrder(left, right, strict):
                return [f"make_ordered({self.cell(left)}, {self.cell(right)}, {strict})"]
            case IntegerEquality(left, right, equal):
                return [
                    f"{'make_equal' if equal else 'make_different'}({self.side(left)}, {self.side(right)})"
                ]
            case AtMost(left, right):
                follows = left.use is not None and right.use is not None
                least, greatest = self.end(left, greatest=False), self.end(right, greatest=True)
                return [
                    *([f"if {least} > {greatest}:", "    raise Contradiction"] if follows else []),
                    *self._cap(left, greatest, 1, follows),
                    *self._cap(right, least, -1, follows),
                ]

    def _cap(self, linear: Linear, bound: str, sign: int, follows: bool) -> list[str]:
        """linear <= bound, or for sign -1 linear >= bound; whether the bound follows from other domains."""
        if linear.use is None:
            return []
        name = "cap_integer" if not self.is_counter(linear.use) else "follow" if follows else "cap_counter"
        offset = self.offset(linear)
        factor, room = self.integer(linear.factor), bound
        if sign == -1:
            factor, room = f"-{factor}", f"{bracketed(offset)} - {bracketed(bound)}"
        elif offset != "0":
            room = f"{bound} - {bracketed(offset)}"
        return [f"{name}({self.cell(linear.use)}, {factor}, {room})"]

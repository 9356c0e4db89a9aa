"""Printing of a propagator's body in C.

In: statements of the IR. Out: lines of C, in which whatever finds a contradiction returns false. Which
bindings a body runs on is for `bindings.py` and `filtered.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spacedsl.compiler.c.bindings import print_loops
from spacedsl.compiler.c.expressions import Expressions, UnprintableError
from spacedsl.compiler.c.names import indent, integer_literal, word_literal
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
)
from spacedsl.compiler.uses import hoisted
from spacedsl.language.space import EnumChoice, Symmetry, Use


@dataclass(slots=True)
class Body(Expressions):
    """Prints statements where the variables of `bound` are known."""

    bound: set[str]

    def inner(self, bound: Iterable[str] = ()) -> Body:
        """For statements inside these, which may name further cells."""
        return Body(self.space, self.tables, self.translations, dict(self.cells), {*self.bound, *bound})

    def block(self, statements: Iterable[Statement]) -> list[str]:
        """The statements, after the cells that they need at this level or in more than one part."""
        statements = tuple(statements)
        inner, lines = self.named(statements)
        for statement in statements:
            lines += inner.statement(statement)
        return lines

    def named(self, statements: tuple[Statement, ...]) -> tuple[Body, list[str]]:
        """What prints each of these statements, and the lines before that name their cells."""
        inner = self.inner()
        lines = [
            inner.name_cell(use)
            for use in hoisted(statements)
            if use not in inner.cells and set(use.args) <= inner.bound
        ]
        return inner, lines

    def name_cell(self, use: Use) -> str:
        cell = self.tables.cell(use.choice, use.args)
        name = self.cells[use] = f"c{len(self.cells)}"
        return f"const int32_t {name} = {cell};"

    def statement(self, statement: Statement) -> list[str]:
        match statement:
            case If(test, then, otherwise):
                return self._if(self.test(test), then, otherwise)
            case Make(literal):
                return self._make(literal)
            case Project(target, table, inputs):
                return self._keep(target, f"{self.word(target)} & table_{table}[{self._index(inputs)}]")
            case Assign(Local(name), value):
                return [f"local_{name} = {self.integer(value)};"]
            case RestrictLow(use, bound):
                name = "raise_low" if self.is_counter(use) else "drop_below"
                return _unless(f"{name}(s, {self.cell(use)}, {self.integer(bound)})")
            case RestrictHigh(use, bound):
                name = "lower_high" if self.is_counter(use) else "drop_above"
                return _unless(f"{name}(s, {self.cell(use)}, {self.integer(bound)})")
            case Settle(use, low, high):
                return _unless(f"settle(s, {self.cell(use)}, {self.integer(low)}, {self.integer(high)})")
            case Fire(trigger, args, certain):
                mask = "PRESENT" if certain else "ABSENT"
                return [
                    "{",
                    f"    const int32_t cell = {self.tables.firing(trigger, args)};",
                    f"    if (s->v[cell] != {mask} && !narrow(s, cell, s->v[cell] & {mask}))",
                    "        return false;",
                    "}",
                ]
            case Fail():
                return ["return false;"]
            case Check(value, least, _):
                number = self.tables.check(statement)
                return _unless(f"check(s, {number}, {self.integer(value)}, {integer_literal(least)})")
            case For(loops, body):
                inner = self.inner(x.variable for x in loops)
                return print_loops(loops, inner.block(body), self.tables)
        raise UnprintableError(f"the statement {type(statement).__name__}")

    def _if(self, test: str, then: tuple[Statement, ...], otherwise: tuple[Statement, ...]) -> list[str]:
        if not then and not otherwise:
            return []
        if not then:
            return [f"if (!({test})) {{", *indent(self.block(otherwise)), "}"]
        lines = [f"if ({test}) {{", *indent(self.block(then))]
        if otherwise:
            lines += ["} else {", *indent(self.block(otherwise))]
        return [*lines, "}"]

    # ---- Literals ----------------------------------------------------------------------------------------

    def _make(self, literal: Literal) -> list[str]:
        match literal:
            case InMask(use, mask):
                return self._keep(use, f"{self.word(use)} & {word_literal(mask)}")
            case Satisfies(value):
                assert value.use is not None
                return _unless(f"keep(s, {self.cell(value.use)}, {self.tables.mask(literal)})")
            case Limit():
                return _unless(f"require(s, {self.tables.limit(literal)})")
            case Named(use):
                return self._keep(use, f"{self.word(use)} & *{self.tables.mask(literal)}")
            case EnumOrder(left, right, strict):
                before = f"{self.word(left)} & up_to_last({self.word(right)}, {int(strict)})"
                after = f"{self.word(right)} & from_first({self.word(left)}, {int(strict)})"
                return [*self._keep(left, before), *self._keep(right, after)]
            case EnumEquality(left, right, True, numbers):
                return self._make_same(left, right, numbers)
            case EnumEquality(left, right, False, numbers):
                return [
                    *self._make_other(left, right, numbers),
                    *self._make_other(right, left, _inverse(numbers)),
                ]
            case IntegerEquality(left, right, equal):
                name = "make_equal" if equal else "make_different"
                return _unless(f"{name}(s, {self.side(left)}, {self.side(right)})")
            case AtMost(left, right):
                follows = left.use is not None and right.use is not None
                least, greatest = self.end(left, greatest=False), self.end(right, greatest=True)
                return [
                    *([f"if ({least} > {greatest})", "    return false;"] if follows else []),
                    *self._cap(left, greatest, 1, follows),
                    *self._cap(right, least, -1, follows),
                ]
        raise UnprintableError(f"the literal {type(literal).__name__}")

    def _make_same(self, left: Use, right: Use, numbers: tuple[int, ...]) -> list[str]:
        there = self.translations.translated(self.word(left), numbers)
        back = self.translations.translated(self.word(right), _inverse(numbers))
        return [
            *self._keep(right, f"{self.word(right)} & {there}"),
            *self._keep(left, f"{self.word(left)} & {back}"),
        ]

    def _make_other(self, decided: Use, other: Use, numbers: tuple[int, ...]) -> list[str]:
        """Where the first is decided, its value goes from the other."""
        value = self.translations.translated(self.word(decided), numbers)
        lines = self._keep(other, f"{self.word(other)} & ~{value}")
        return [f"if (!is_several({self.word(decided)})) {{", *indent(lines), "}"]

    def _keep(self, use: Use, mask: str) -> list[str]:
        """Narrows an enum domain where that changes it, and the other orientation of a pair with it."""
        cell, choice = self.cell(use), self.space.choices[use.choice]
        assert isinstance(choice, EnumChoice)
        call = f"narrow(s, {cell}, mask)"
        if choice.symmetry is not Symmetry.NONE:
            call = f"narrow_pair(s, {cell}, mask, inverse_{use.choice}(mask))"
        return [
            "{",
            f"    const Word mask = {mask};",
            f"    if (mask != {self.word(use)} && !{call})",
            "        return false;",
            "}",
        ]

    def _cap(self, linear: Linear, bound: str, sign: int, follows: bool) -> list[str]:
        """linear <= bound, or for sign -1 linear >= bound; whether the bound follows from other domains."""
        if linear.use is None:
            return []
        name = "cap_integer" if not self.is_counter(linear.use) else "follow" if follows else "cap_counter"
        offset, factor = self.offset(linear), self.integer(linear.factor)
        if sign == -1:
            factor, room = f"-({factor})", f"subtract({offset}, {bound})"
        else:
            room = bound if offset == "0" else f"subtract({bound}, {offset})"
        return _unless(f"{name}(s, {self.cell(linear.use)}, {factor}, {room})")

    def _index(self, inputs: tuple[Use, ...]) -> str:
        index = self.word(inputs[0])
        for use in inputs[1:]:
            index = f"({index}) << {len(self.space.enum(use).values)} | {self.word(use)}"
        return index


def _unless(call: str) -> list[str]:
    return [f"if (!{call})", "    return false;"]


def _inverse(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(numbers.index(value) for value in range(len(numbers)))

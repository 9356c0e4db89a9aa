"""Printing of literals, tests and integers as C expressions: what a body reads and does not change.

In: nodes of the IR. Out: text without side effects, but for the tables that it asks for; `UnprintableError`
for what only Python has. What changes domains is for `statements.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.compiler.c.bindings import print_static_test
from spacedsl.compiler.c.names import integer_literal, word_literal
from spacedsl.compiler.c.tables import StaticTables
from spacedsl.compiler.formulas import complement
from spacedsl.compiler.ir import (
    AllOf,
    AnyOf,
    Arithmetic,
    AtMost,
    End,
    EnumEquality,
    EnumOrder,
    HostCall,
    HostTest,
    InMask,
    Integer,
    IntegerEquality,
    Less,
    Limit,
    Linear,
    Literal,
    Local,
    MayHold,
    MustHold,
    Named,
    Present,
    Satisfies,
    StaticCompare,
    Test,
)
from spacedsl.language.space import Counter, Space, Use

OPERATIONS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "//": "divide",
    "ceil": "divide_up",
    "min": "least_of",
    "max": "greatest_of",
    "without": "without",
}


class UnprintableError(Exception):
    """A node that this printer does not know: the space runs on the Python engine."""


@dataclass(slots=True)
class Translations:
    """The renumberings of enums that code asks for, each an array of that number."""

    arrays: dict[tuple[int, ...], int]

    def translated(self, mask: str, numbers: tuple[int, ...]) -> str:
        if numbers == tuple(range(len(numbers))):
            return mask
        return f"translated({mask}, translation_{self.arrays.setdefault(numbers, len(self.arrays))})"


@dataclass(slots=True)
class Expressions:
    """`cells` names the local variables that hold the cells of uses."""

    space: Space
    tables: StaticTables
    translations: Translations
    cells: dict[Use, str]

    def may(self, literal: Literal) -> str:
        match literal:
            case InMask(use, mask):
                return f"{self.word(use)} & {word_literal(mask)}"
            case Satisfies(value):
                assert value.use is not None
                return f"meets(s, {self.cell(value.use)}, {self.tables.mask(literal)})"
            case Named(use):
                return f"{self.word(use)} & *{self.tables.mask(literal)}"
            case Limit():
                return f"possible(s, {self.tables.limit(literal)})"
            case EnumOrder(left, right, strict):
                return f"{self.word(left)} & up_to_last({self.word(right)}, {int(strict)})"
            case EnumEquality(left, right, equal, numbers):
                a, b = self.translations.translated(self.word(left), numbers), self.word(right)
                return f"{a} & {b}" if equal else f"{a} != {b} || is_several({b})"
            case IntegerEquality(left, right, equal):
                name = "may_be_equal" if equal else "may_differ"
                return f"{name}(s, {self.side(left)}, {self.side(right)})"
            case AtMost(left, right):
                return f"{self.end(left, greatest=False)} <= {self.end(right, greatest=True)}"
        raise UnprintableError(f"the literal {type(literal).__name__}")

    def side(self, linear: Linear) -> str:
        """A linear expression as a `Side`."""
        if linear.use is None:
            return f"(Side){{CONSTANT, 0, 0, {self.offset(linear)}}}"
        kind = "COUNTER" if self.is_counter(linear.use) else "INTEGER"
        factor = self.integer(linear.factor)
        return f"(Side){{{kind}, {self.cell(linear.use)}, {factor}, {self.offset(linear)}}}"

    def end(self, linear: Linear, greatest: bool) -> str:
        offset = self.offset(linear)
        if linear.use is None:
            return offset
        if isinstance(linear.factor, int):
            text = self.integer(End(linear.use, greatest is (linear.factor >= 0)))
            text = text if linear.factor == 1 else f"multiply({self.integer(linear.factor)}, {text})"
        else:
            factor = self.integer(linear.factor)
            ends = (f"multiply({factor}, {self.integer(End(linear.use, g))})" for g in (False, True))
            text = f"{'greatest_of' if greatest else 'least_of'}({', '.join(ends)})"
        return text if offset == "0" else f"add({text}, {offset})"

    def offset(self, linear: Linear) -> str:
        fixed = sum(sign * value for sign, value in linear.offsets if isinstance(value, int))
        terms = [(sign, self.integer(value)) for sign, value in linear.offsets if not isinstance(value, int)]
        text = integer_literal(fixed)
        for sign, term in terms:
            text = f"{'add' if sign > 0 else 'subtract'}({text}, {term})"
        return text

    def test(self, test: Test) -> str:
        match test:
            case MayHold(literal):
                return self.may(literal)
            case MustHold(literal):
                opposite = complement(self.space, literal)
                assert not isinstance(opposite, HostTest | StaticCompare)
                return f"!({self.may(opposite)})"
            case Less(left, right):
                return f"{self.integer(left)} < {self.integer(right)}"
            case AllOf(tests):
                return self._joined(tests, " && ") or "true"
            case AnyOf(tests):
                return self._joined(tests, " || ") or "false"
            case Present(variable, ref, certain):
                word = f"s->v[{self.tables.presence(ref, variable)}]"
                return f"{word} == PRESENT" if certain else f"{word} & PRESENT"
            case HostTest() | StaticCompare():
                return print_static_test(test, self.tables)
        raise UnprintableError(f"the test {type(test).__name__}")

    def _joined(self, tests: tuple[Test, ...], operator: str) -> str:
        parts = [self.test(t) for t in tests]
        return parts[0] if len(parts) == 1 else operator.join(f"({part})" for part in parts)

    def integer(self, value: Integer) -> str:
        match value:
            case int():
                return integer_literal(value)
            case HostCall():
                return f"(Wide){self.tables.host(value, is_integer=True)}"
            case Local(name):
                return f"local_{name}"
            case End(use, greatest):
                cell = self.cell(use)
                if self.is_counter(use):
                    return f"(Wide)s->v[{cell}{' + 1' if greatest else ''}]"
                return f"{'greatest' if greatest else 'least'}(s, {cell})"
            case Arithmetic(op, left, right) if op in OPERATIONS:
                return f"{OPERATIONS[op]}({self.integer(left)}, {self.integer(right)})"
        raise UnprintableError(f"the integer {type(value).__name__}")

    def word(self, use: Use) -> str:
        return f"s->v[{self.cell(use)}]"

    def cell(self, use: Use) -> str:
        return self.cells.get(use) or self.tables.cell(use.choice, use.args)

    def is_counter(self, use: Use) -> bool:
        return isinstance(self.space.choices[use.choice], Counter)

"""Printing of literals, tests and integers as Python expressions.

In: nodes of the IR. Out: text without side effects, but for the tables that it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.compiler.formulas import complement
from spacedsl.compiler.ir import (
    SATURATED,
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
from spacedsl.compiler.python.bindings import print_static_test
from spacedsl.compiler.python.names import cell_of, indexed, is_atom
from spacedsl.compiler.python.tables import Tables
from spacedsl.language.space import Counter, Space, Use

_FUNCTIONS = ("min", "max", "without")
"""Operations of integers that are printed as calls."""


@dataclass(slots=True)
class Expressions:
    """Prints literals, tests and integers; `cells` names the local variables that hold the cells of uses."""

    space: Space
    tables: Tables
    cells: dict[Use, str]

    def may(self, literal: Literal) -> str:
        match literal:
            case InMask(use, mask):
                return f"v[{self.cell(use)}] & {mask:#b}"
            case Satisfies(value):
                assert value.use is not None
                return f"v[{self.cell(value.use)}] & {self.tables.static(literal)}"
            case Named(use):
                return f"v[{self.cell(use)}] & {self.tables.static(literal)}"
            case Limit():
                return f"possible({self.tables.limit(literal)})"
            case EnumOrder(left, right, strict):
                least = f"(v[{self.cell(left)}] & -v[{self.cell(left)}])"
                return f"{least}{' << 1' if strict else ''} <= v[{self.cell(right)}]"
            case EnumEquality(left, right, equal, translate):
                a, b = f"v[{self.cell(left)}]", f"v[{self.cell(right)}]"
                if translate != tuple(range(len(translate))):
                    a = f"translate({a}, {translate!r})"
                return f"{a} & {b}" if equal else f"({a} != {b} or {b} & ({b} - 1))"
            case IntegerEquality(left, right, equal):
                return f"{'may_be_equal' if equal else 'may_differ'}({self.side(left)}, {self.side(right)})"
            case AtMost(left, right):
                return f"{self.end(left, greatest=False)} <= {self.end(right, greatest=True)}"

    def side(self, linear: Linear) -> str:
        """A linear expression as the argument of a run-time function: (kind, cell, factor, offset)."""
        self.tables.has_sides = True
        if linear.use is None:
            return f"(None, 0, 0, {self.offset(linear)})"
        kind = "counter" if self.is_counter(linear.use) else "integer"
        return f"({kind!r}, {self.cell(linear.use)}, {self.integer(linear.factor)}, {self.offset(linear)})"

    def end(self, linear: Linear, greatest: bool) -> str:
        offset = self.offset(linear)
        if linear.use is None:
            return offset
        if isinstance(linear.factor, int):
            of_use = self.integer(End(linear.use, greatest is (linear.factor >= 0)))
            text = of_use if linear.factor == 1 else f"{linear.factor} * {of_use}"
        else:
            factor = self.integer(linear.factor)
            ends = (f"{factor} * {self.integer(End(linear.use, g))}" for g in (False, True))
            text = f"{'max' if greatest else 'min'}({', '.join(ends)})"
        return text if offset == "0" else f"{text} + {offset}"

    def offset(self, linear: Linear) -> str:
        fixed = sum(sign * value for sign, value in linear.offsets if isinstance(value, int))
        terms = [(sign, self.integer(value)) for sign, value in linear.offsets if not isinstance(value, int)]
        text = str(fixed) if fixed or not terms else ""
        for sign, term in terms:
            text = f"{text} {'+' if sign > 0 else '-'} {term}" if text else (term if sign > 0 else f"-{term}")
        return text

    def test(self, test: Test, negated: bool = False) -> str:
        match test:
            case MayHold(literal):
                text = self.may(literal)
            case MustHold(literal):
                opposite = complement(self.space, literal)
                assert not isinstance(opposite, HostTest | StaticCompare)
                return self.test(MayHold(opposite), not negated)
            case Less(left, right):
                op = ">=" if negated else "<"
                return f"{self.integer(left)} {op} {self.integer(right)}"
            case AllOf(tests) | AnyOf(tests):
                conjunction = isinstance(test, AllOf)
                if len(tests) == 1:
                    return self.test(tests[0], negated)
                if not tests:
                    return str(conjunction is not negated)
                word = "and" if conjunction is not negated else "or"
                parts = (self.test(t, negated) for t in tests)
                return f" {word} ".join(p if is_atom(p) else f"({p})" for p in parts)
            case Present(variable, ref, certain):
                cell = f"v[present_{ref.name}{indexed((*ref.args, variable))}]"
                text = f"{cell} == 2" if certain else f"{cell} & 2"
            case HostTest() | StaticCompare():
                text = print_static_test(test, self.tables)
        return f"not ({text})" if negated and " " in text else f"not {text}" if negated else text

    def integer(self, value: Integer) -> str:
        match value:
            case int():
                return "SATURATED" if value == SATURATED else str(value)
            case HostCall():
                return self.tables.host(value, is_integer=True)
            case Local(name):
                return name
            case End(use, greatest):
                cell = self.cell(use)
                if self.is_counter(use):
                    return f"v[{cell} + 1]" if greatest else f"v[{cell}]"
                return f"greatest({cell})" if greatest else f"least({cell})"
            case Arithmetic(op, left, right) if op in _FUNCTIONS:
                return f"{op}({self.integer(left)}, {self.integer(right)})"
            case Arithmetic("ceil", left, right):
                return f"-(-{self._factor(left)} // {self._factor(right)})"
            case Arithmetic(op, left, right):
                return f"{self._factor(left)} {op} {self._factor(right)}"

    def _factor(self, value: Integer) -> str:
        text = self.integer(value)
        return f"({text})" if isinstance(value, Arithmetic) and value.op not in _FUNCTIONS else text

    def cell(self, use: Use) -> str:
        return self.cells.get(use) or cell_of(use)

    def is_counter(self, use: Use) -> bool:
        return isinstance(self.space.choices[use.choice], Counter)

"""Printing of propagators of the IR as C.

In: a propagator whose body reads and narrows enum domains only (relations, and clauses over enums). Out: a C
translation unit with one function for one binding, `int NAME(State *s, int32_t object, ...)`, which returns 0
for a contradiction. Integers, counters, presence and wakes are not printed yet: `is_printable` says for what
this printer will do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spacedsl.compiler.formulas import complement
from spacedsl.compiler.ir import (
    AllOf,
    AnyOf,
    EnumEquality,
    Fail,
    If,
    InMask,
    Literal,
    Make,
    MayHold,
    Module,
    MustHold,
    Project,
    Propagator,
    Statement,
    Table,
    Test,
)
from spacedsl.compiler.uses import statement_uses
from spacedsl.language.space import EnumChoice, Space, Symmetry, Use

STATE = """\
typedef struct {{
    uint64_t *v;            /* the vector: one word for each domain */
    int32_t objects;        /* their number */
    int32_t *queue;         /* cells that have been narrowed, in order */
    int32_t queued;
{fields}
}} State;"""

NARROW = """\
static int narrow(State *s, int32_t cell, uint64_t mask)
{
    s->v[cell] = mask;
    s->queue[s->queued++] = cell;
    return mask != 0;
}"""


@dataclass(frozen=True, slots=True)
class CModule:
    """The text; `choices` are those whose cells the state holds, as `at_CHOICE`, in this order."""

    source: str
    choices: tuple[str, ...]


def is_printable(propagator: Propagator) -> bool:
    """Whether the body is of a kind that this printer knows."""
    return not propagator.deferred and all(_is_known(s) for s in propagator.body)


def print_c(propagator: Propagator, module: Module, space: Space) -> CModule:
    """The C text of one propagator; raises `ValueError` for a kind that is not printable."""
    if not is_printable(propagator):
        raise ValueError(f"{propagator.name} is of no kind that can be printed as C")
    uses = tuple(dict.fromkeys(u for s in propagator.body for u in statement_uses(s)))
    choices = tuple(dict.fromkeys(use.choice for use in uses))
    tables = sorted({n for s in propagator.body for n in _tables(s)})
    printer = _Printer(space, uses)
    parameters = ", ".join(f"int32_t {_variable(a)}" for a in propagator.arguments)
    parts = [
        "#include <stdint.h>",
        STATE.format(fields="\n".join(f"    const int32_t *at_{name};" for name in choices)),
        *(_table(number, module.tables[number]) for number in tables),
        *(
            _inverse(choice)
            for choice in map(printer.choice, choices)
            if choice.symmetry is not Symmetry.NONE
        ),
        NARROW,
        "\n".join(
            [
                f"int {propagator.name}(State *s, {parameters})",
                "{",
                "    uint64_t *const v = s->v;",
                *(f"    const int32_t {printer.cell(use)} = {_cell(use)};" for use in uses),
                *_indent(line for s in propagator.body for line in printer.statement(s)),
                "    return 1;",
                "}",
            ]
        ),
    ]
    return CModule("\n\n".join(parts) + "\n", choices)


@dataclass(frozen=True, slots=True)
class _Printer:
    space: Space
    uses: tuple[Use, ...]

    def choice(self, name: str) -> EnumChoice:
        choice = self.space.choices[name]
        assert isinstance(choice, EnumChoice)
        return choice

    def cell(self, use: Use) -> str:
        return f"c{self.uses.index(use)}"

    def word(self, use: Use) -> str:
        return f"v[{self.cell(use)}]"

    def statement(self, statement: Statement) -> list[str]:
        match statement:
            case If(test, then, otherwise):
                lines = [f"if ({self.test(test)}) {{", *self._block(then)]
                if otherwise:
                    lines += ["} else {", *self._block(otherwise)]
                return [*lines, "}"]
            case Project(target, table, inputs):
                return self._keep(target, f"{self.word(target)} & table_{table}[{self._index(inputs)}]")
            case Make(InMask(use, mask)):
                return self._keep(use, f"{self.word(use)} & {mask:#x}u")
            case Make(EnumEquality(left, right, True)):
                shared = f"{self.word(left)} & {self.word(right)}"
                return [*self._keep(left, shared), *self._keep(right, shared)]
            case Make(EnumEquality(left, right, False)):
                return [*self._make_other(left, right), *self._make_other(right, left)]
            case Fail():
                return ["return 0;"]
        raise ValueError(f"not printable as C: {statement!r}")

    def test(self, test: Test) -> str:
        match test:
            case MayHold(literal):
                return self._may(literal)
            case MustHold(literal):
                opposite = complement(self.space, literal)
                assert isinstance(opposite, InMask | EnumEquality)
                return f"!({self._may(opposite)})"
            case AllOf(tests):
                return " && ".join(f"({self.test(t)})" for t in tests) or "1"
            case AnyOf(tests):
                return " || ".join(f"({self.test(t)})" for t in tests) or "0"
        raise ValueError(f"not printable as C: {test!r}")

    def _may(self, literal: Literal) -> str:
        match literal:
            case InMask(use, mask):
                return f"({self.word(use)} & {mask:#x}u) != 0"
            case EnumEquality(left, right, True):
                return f"({self.word(left)} & {self.word(right)}) != 0"
            case EnumEquality(left, right, False):
                a, b = self.word(left), self.word(right)
                return f"{a} != {b} || ({b} & ({b} - 1)) != 0"
        raise ValueError(f"not printable as C: {literal!r}")

    def _make_other(self, fixed: Use, other: Use) -> list[str]:
        a, b = self.word(fixed), self.word(other)
        return [f"if (({a} & ({a} - 1)) == 0) {{", *_indent(self._keep(other, f"{b} & ~{a}")), "}"]

    def _keep(self, use: Use, mask: str) -> list[str]:
        """Narrows a domain where that changes it, and the other orientation of a pair with it."""
        cell, choice = self.cell(use), self.choice(use.choice)
        lines = [f"if (!narrow(s, {cell}, mask))", "    return 0;"]
        if choice.symmetry is not Symmetry.NONE:
            other = _cell(Use(use.choice, (use.args[1], use.args[0])))
            lines.append(f"v[{other}] = inverse_{use.choice}[mask];")
        return [
            "{",
            f"    const uint64_t mask = {mask};",
            f"    if (mask != {self.word(use)}) {{",
            *_indent(lines, 2),
            "    }",
            "}",
        ]

    def _index(self, inputs: tuple[Use, ...]) -> str:
        index = self.word(inputs[0])
        for use in inputs[1:]:
            index = f"(({index}) << {len(self.choice(use.choice).values)} | {self.word(use)})"
        return index

    def _block(self, statements: tuple[Statement, ...]) -> list[str]:
        return _indent(line for s in statements for line in self.statement(s))


def _is_known(statement: Statement) -> bool:
    match statement:
        case If(test, then, otherwise):
            return _is_known_test(test) and all(map(_is_known, (*then, *otherwise)))
        case Make(literal):
            return _is_known_literal(literal)
        case Project() | Fail():
            return True
        case _:
            return False


def _is_known_test(test: Test) -> bool:
    match test:
        case MayHold(literal) | MustHold(literal):
            return _is_known_literal(literal)
        case AllOf(tests) | AnyOf(tests):
            return all(map(_is_known_test, tests))
        case _:
            return False


def _is_known_literal(literal: Literal) -> bool:
    match literal:
        case InMask(use):
            return len(use.args) <= 2
        case EnumEquality(left, right, _, translate):
            return translate == tuple(range(len(translate))) and max(len(left.args), len(right.args)) <= 2
        case _:
            return False


def _tables(statement: Statement) -> list[int]:
    match statement:
        case Project(_, table):
            return [table]
        case If(_, then, otherwise):
            return [n for s in (*then, *otherwise) for n in _tables(s)]
        case _:
            return []


def _table(number: int, table: Table) -> str:
    return _array(f"table_{number}", table.entries)


def _inverse(choice: EnumChoice) -> str:
    return _array(f"inverse_{choice.name}", [choice.invert(mask) for mask in range(choice.full + 1)])


def _array(name: str, entries: Iterable[int]) -> str:
    words = [f"{entry:#x}" for entry in entries]
    rows = [", ".join(words[start : start + 16]) for start in range(0, len(words), 16)]
    body = ",\n    ".join(rows)
    return f"static const uint64_t {name}[{len(words)}] = {{\n    {body}\n}};"


def _cell(use: Use) -> str:
    match [_variable(a) for a in use.args]:
        case []:
            return f"s->at_{use.choice}[0]"
        case [only]:
            return f"s->at_{use.choice}[{only}]"
        case [left, right]:
            return f"s->at_{use.choice}[{left} * s->objects + {right}]"
    raise ValueError(f"{use.choice} has more than two parameters")


def _variable(name: str) -> str:
    # No C keyword and no name of this module begins with x_.
    return f"x_{name}"


def _indent(lines: Iterable[str], levels: int = 1) -> list[str]:
    return [f"{'    ' * levels}{line}" for line in lines]

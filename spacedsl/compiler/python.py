"""Printing of the propagator IR as a Python module: the reference engine.

In: a `Module`. Out: `PythonModule`, its text and the static tables that the text asks for. One function for
each propagator's body, one that runs it on every binding (`.._everywhere`), one for each wake that loops.
An instance executes the module in a namespace that holds its tables:

    v                 the vector: a domain is the word at its cell; a counter is two words, low and high
    at_CHOICE         cells by object ids
    set_, in_, rank_SET   members, the same as a set, their positions; in_union_, union_SET: of all instances
    owners_SET        by member: the arguments of the instances that hold it
    present_SET       what says whether a member is one, by ids of arguments and member
    fired_N           what says whether trigger N fires, by object ids
    host_N, mask_N    values of host expressions, and masks of integers, by object ids
    later             counters to be computed once no other change is waiting
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spacedsl.compiler.clauses import complement, rename
from spacedsl.compiler.ir import (
    SATURATED,
    AllOf,
    AnyOf,
    Arithmetic,
    Ascending,
    Assign,
    AtMost,
    Check,
    Distinct,
    End,
    Fail,
    Fire,
    For,
    HostCall,
    HostTest,
    If,
    InMask,
    Integer,
    Less,
    Linear,
    Literal,
    Local,
    Loop,
    Lower,
    Make,
    MayHold,
    Member,
    Module,
    MustHold,
    Present,
    Project,
    Propagator,
    RestrictHigh,
    RestrictLow,
    SameEnum,
    SameInteger,
    Satisfies,
    Settle,
    Statement,
    StaticCompare,
    StaticTest,
    Test,
)
from spacedsl.compiler.loops import linear_variables
from spacedsl.compiler.uses import statement_uses, test_uses
from spacedsl.diagnostics import Span
from spacedsl.language.space import Counter, SetRef, Space, Use

RUNTIME = frozenset(
    {
        *(
            "v",
            "later",
            "lo",
            "hi",
            "mask",
            "min",
            "max",
            "translate",
            "too_small",
            "Contradiction",
            "SATURATED",
        ),
        *("narrow", "settle", "raise_low", "lower_high", "make_same", "make_other"),
        *("least", "greatest", "keep_from", "keep_to", "cap_integer", "cap_counter"),
        *("may_be_equal", "may_differ", "make_equal", "make_different"),
    }
)
"""Names that generated code gives a meaning: no variable is printed as one of them."""
TABLES = re.compile(r"(of_)*(at|set|in|union|owners|rank|present|host|mask|table|keep|count|fired|trigger)_")
"""Beginnings of the names of tables and functions; what else begins so is printed with `of_` before it."""


@dataclass(frozen=True, slots=True)
class StaticTable:
    """Masks of integers that satisfy a literal, or truths of a static comparison, by objects."""

    test: Satisfies | StaticCompare
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostTable:
    """Values of a host expression, by objects; where `is_integer`, any other value is a located error."""

    call: HostCall
    is_integer: bool


@dataclass(frozen=True, slots=True)
class PythonModule:
    """The text, and what `host_N`, `mask_N` and check number N in it stand for."""

    source: str
    hosts: tuple[HostTable, ...]
    masks: tuple[StaticTable, ...]
    checks: tuple[Check, ...]
    mask_numbers: Mapping[StaticTable, int]


def print_python(module: Module, space: Space) -> PythonModule:
    """The module's text; the space is the one that `lower` returned with it."""
    tables = _Tables(space)
    lines = [
        f'"""Propagators of the space {space.name}; spacedsl.compiler.python says how to read them."""',
        "",
        f"SATURATED = {SATURATED}",
        *(f"table_{number} = {table.entries!r}" for number, table in enumerate(module.tables)),
    ]
    for propagator in module.propagators:
        lines += ["", "", *_propagator(propagator, space, tables)]
    return PythonModule(
        "\n".join(lines) + "\n",
        tuple(tables.hosts),
        tuple(tables.masks.values()),
        tuple(tables.checks),
        {table: number for number, table in enumerate(tables.masks)},
    )


@dataclass(slots=True)
class _Tables:
    """The static tables that have been asked for, numbered in order."""

    space: Space
    hosts: dict[HostTable, None] = field(default_factory=dict)
    masks: dict[StaticTable, StaticTable] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    def host(self, call: HostCall, is_integer: bool) -> str:
        template = host_table(call, is_integer)
        self.hosts.setdefault(template)
        return f"host_{list(self.hosts).index(template)}{_index(call.args)}"

    def static(self, test: Satisfies | StaticCompare) -> str:
        template, variables = static_table(test)
        self.masks.setdefault(template, template)
        return f"mask_{list(self.masks).index(template)}{_index(variables)}"

    def check(self, check: Check) -> int:
        self.checks.append(check)
        return len(self.checks) - 1


def host_table(call: HostCall, is_integer: bool) -> HostTable:
    """The table for an expression up to the names of its arguments."""
    free = tuple(v for v in call.expression.variables if v not in ("kernel", "device"))
    return HostTable(HostCall(call.text, free, call.expression), is_integer)


def static_table(test: Satisfies | StaticCompare) -> tuple[StaticTable, tuple[str, ...]]:
    """The table for a test up to the names of its variables, and the variables that index it here."""
    left, right = (test.value, test.limit) if isinstance(test, Satisfies) else (test.left, test.right)
    variables = tuple(sorted(linear_variables(left) | linear_variables(right)))
    template = rename(test, {v: f"x{i}" for i, v in enumerate(variables)})
    assert isinstance(template, Satisfies | StaticCompare)
    return StaticTable(template, tuple(f"x{i}" for i in range(len(variables)))), variables


# ---- Functions -------------------------------------------------------------------------------------------


def _propagator(propagator: Propagator, space: Space, tables: _Tables) -> list[str]:
    arguments = ", ".join(_variable(a) for a in propagator.arguments)
    body = _Body(space, tables, set(propagator.arguments))
    lines = [
        f"def {propagator.name}({arguments}):",
        *_docstring(propagator),
        *_indent(body.block(propagator.body)),
    ]
    if propagator.deferred:
        call = f"later[{propagator.name}, {arguments}] = None"
    else:
        call = f"{propagator.name}({arguments})"
    lines += [
        "",
        "",
        f"def {propagator.name}_everywhere():",
        *_indent(_loops(propagator.loops, [call], tables)),
    ]
    for wake in propagator.wakes:
        if wake.loops:
            bound = ", ".join(_variable(a) for a in wake.use.args)
            lines += ["", "", f"def {wake.name}({bound}):", *_indent(_loops(wake.loops, [call], tables))]
    for entry in propagator.entries:
        if entry.loops:
            bound = _variable(entry.variable)
            lines += ["", "", f"def {entry.name}({bound}):", *_indent(_loops(entry.loops, [call], tables))]
    return lines


def _docstring(propagator: Propagator) -> list[str]:
    text: list[str] = []
    for span in propagator.spans:
        text += [
            f"{Path(span.source.name).name}:{span.line}",
            *(f"    {line.strip()}" for line in _source(span)),
        ]
    text += ["", *textwrap.wrap(propagator.doc, 100)]
    escaped = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in text]
    return ["    " + line if line else "" for line in (f'"""{escaped[0]}', *escaped[1:], '"""')]


def _source(span: Span) -> list[str]:
    """The lines that the span touches."""
    last = span.source.location(max(span.start, span.end - 1))[0]
    lines = (span.source.line(number) for number in range(span.line, last + 1))
    return [line for line in lines if line.strip()]


def _loops(loops: Iterable[Loop], innermost: list[str], tables: _Tables) -> list[str]:
    lines: list[str] = []
    depth = 0
    for loop in loops:
        source = (
            _set(loop.source, tables)
            if loop.member is None
            else f"owners_{loop.source.name}[{_variable(loop.member)}]"
        )
        lines.append(f"{'    ' * depth}for {_variable(loop.variable)} in {source}:")
        depth += 1
        if loop.tests:
            lines.append(f"{'    ' * depth}if {' and '.join(_static(t, tables) for t in loop.tests)}:")
            depth += 1
    return [*lines, *_indent(innermost, depth)]


def _static(test: StaticTest, tables: _Tables) -> str:
    match test:
        case HostTest(call, negated):
            text = tables.host(call, is_integer=False)
            return f"not {text}" if negated else text
        case StaticCompare():
            return tables.static(test)
        case Member(variable, ref):
            return f"{_variable(variable)} in {_set(ref, tables, 'in')}"
        case Distinct(left, right):
            return f"{_variable(left)} != {_variable(right)}"
        case Ascending(left, right):
            return f"{_variable(left)} < {_variable(right)}"
        case Lower(left, right, ref):
            rank = _set(ref, tables, "rank")
            return f"{rank}[{_variable(left)}] < {rank}[{_variable(right)}]"


def _set(ref: SetRef, tables: _Tables, prefix: str = "") -> str:
    """The members; prefix `in_` asks for them as a set. A parametric set without arguments is a union."""
    is_union = not ref.args and bool(tables.space.sets[ref.name].params)
    kind = "union" if is_union else "" if prefix else "set"
    return "_".join(part for part in (prefix, kind, ref.name) if part) + _index(ref.args)


# ---- Bodies ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Body:
    """Prints statements; `cells` names the local variables that hold the cells of uses."""

    space: Space
    tables: _Tables
    bound: set[str]
    cells: dict[Use, str] = field(default_factory=dict)

    def block(self, statements: Iterable[Statement]) -> list[str]:
        """The statements, after the cells that they need at this level or in more than one part."""
        inner = _Body(self.space, self.tables, set(self.bound), dict(self.cells))
        statements = tuple(statements)
        lines = [
            inner.name_cell(use)
            for use in _hoisted(statements)
            if use not in inner.cells and inner.knows(use)
        ]
        for statement in statements:
            lines += inner.statement(statement)
        return lines or ["pass"]

    def knows(self, use: Use) -> bool:
        return set(use.args) <= self.bound

    def name_cell(self, use: Use) -> str:
        name = _variable("_".join((use.choice, *use.args)))
        taken = {_variable(b) for b in self.bound} | set(self.cells.values()) | RUNTIME
        while name in taken:
            name += "_"
        self.cells[use] = name
        return f"{name} = {_cell(use)}"

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
                name = "raise_low" if self.is_counter(use) else "keep_from"
                return [f"{name}({self.cell(use)}, {self.integer(bound)})"]
            case RestrictHigh(use, bound):
                name = "lower_high" if self.is_counter(use) else "keep_to"
                return [f"{name}({self.cell(use)}, {self.integer(bound)})"]
            case Settle(use, low, high):
                return [f"settle({self.cell(use)}, {self.integer(low)}, {self.integer(high)})"]
            case Fire(trigger, args, certain):
                cell, mask = f"fired_{trigger}{_index(args)}", 2 if certain else 1
                return [f"if v[{cell}] != {mask}:", f"    narrow({cell}, v[{cell}] & {mask})"]
            case Fail():
                return ["raise Contradiction"]
            case Check(value, least, _):
                text = self.integer(value)
                return [f"if {text} < {least}:", f"    too_small({self.tables.check(statement)}, {text})"]
            case For(loops, body):
                inner = _Body(
                    self.space, self.tables, self.bound | {x.variable for x in loops}, dict(self.cells)
                )
                return _loops(loops, inner.block(body), self.tables)

    def _if(self, test: Test, then: tuple[Statement, ...], otherwise: tuple[Statement, ...]) -> list[str]:
        if not then and not otherwise:
            return []
        if not then:
            return [f"if {self.test(test, negated=True)}:", *_indent(self.block(otherwise))]
        lines = [f"if {self.test(test)}:", *_indent(self.block(then))]
        if otherwise:
            rest = self.block(otherwise)
            if rest[0].startswith("if ") and len(otherwise) == 1:
                lines += [f"el{rest[0]}", *rest[1:]]
            else:
                lines += ["else:", *_indent(rest)]
        return lines

    def _project(self, target: Use, table: int, inputs: tuple[Use, ...]) -> list[str]:
        index = ""
        for use in inputs:
            width = len(self.space.enum(use).values)
            index = (
                f"({index}) << {width} | v[{self.cell(use)}]"
                if " " in index
                else (f"{index} << {width} | v[{self.cell(use)}]" if index else f"v[{self.cell(use)}]")
            )
        cell = self.cell(target)
        return [
            f"mask = v[{cell}] & table_{table}[{index}]",
            f"if mask != v[{cell}]:",
            f"    narrow({cell}, mask)",
        ]

    # ---- Literals ----------------------------------------------------------------------------------------

    def may(self, literal: Literal) -> str:
        match literal:
            case InMask(use, mask):
                return f"v[{self.cell(use)}] & {mask:#b}"
            case Satisfies(value):
                assert value.use is not None
                return f"v[{self.cell(value.use)}] & {self.tables.static(literal)}"
            case SameEnum(left, right, equal, translate):
                a, b = f"v[{self.cell(left)}]", f"v[{self.cell(right)}]"
                if translate != tuple(range(len(translate))):
                    a = f"translate({a}, {translate!r})"
                return f"{a} & {b}" if equal else f"({a} != {b} or {b} & ({b} - 1))"
            case SameInteger(left, right, equal):
                return f"{'may_be_equal' if equal else 'may_differ'}({self.side(left)}, {self.side(right)})"
            case AtMost(left, right):
                return f"{self.end(left, greatest=False)} <= {self.end(right, greatest=True)}"

    def _make(self, literal: Literal) -> list[str]:
        match literal:
            case InMask() | Satisfies():
                use = literal.use if isinstance(literal, InMask) else literal.value.use
                assert use is not None
                cell = self.cell(use)
                return [f"mask = {self.may(literal)}", f"if mask != v[{cell}]:", f"    narrow({cell}, mask)"]
            case SameEnum(left, right, equal, translate):
                name = "make_same" if equal else "make_other"
                identity = translate == tuple(range(len(translate)))
                return [f"{name}({self.cell(left)}, {self.cell(right)}, {None if identity else translate!r})"]
            case SameInteger(left, right, equal):
                return [
                    f"{'make_equal' if equal else 'make_different'}({self.side(left)}, {self.side(right)})"
                ]
            case AtMost(left, right):
                return [
                    *self._cap(left, f"{self.end(right, greatest=True)}", sign=1),
                    *self._cap(right, f"{self.end(left, greatest=False)}", sign=-1),
                ]

    def _cap(self, linear: Linear, bound: str, sign: int) -> list[str]:
        """linear <= bound, or for sign -1 linear >= bound."""
        if linear.use is None:
            return []
        kind = "counter" if self.is_counter(linear.use) else "integer"
        offset = self.offset(linear)
        factor, room = self.integer(linear.factor), bound
        if sign == -1:
            factor, room = f"-{factor}", f"{_bracketed(offset)} - {_bracketed(bound)}"
        elif offset != "0":
            room = f"{bound} - {_bracketed(offset)}"
        return [f"cap_{kind}({self.cell(linear.use)}, {factor}, {room})"]

    def side(self, linear: Linear) -> str:
        """A linear expression as the argument of a run-time function: (kind, cell, factor, offset)."""
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

    # ---- Tests and integers ------------------------------------------------------------------------------

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
                return f" {word} ".join(p if _is_atom(p) else f"({p})" for p in parts)
            case Present(variable, ref, certain):
                cell = f"v[present_{ref.name}{_index((*ref.args, variable))}]"
                text = f"{cell} == 2" if certain else f"{cell} & 2"
            case HostTest() | StaticCompare():
                text = _static(test, self.tables)
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
            case Arithmetic("min" | "max" as op, left, right):
                return f"{op}({self.integer(left)}, {self.integer(right)})"
            case Arithmetic("ceil", left, right):
                return f"-(-{self._factor(left)} // {self._factor(right)})"
            case Arithmetic(op, left, right):
                return f"{self._factor(left)} {op} {self._factor(right)}"

    def _factor(self, value: Integer) -> str:
        text = self.integer(value)
        return f"({text})" if isinstance(value, Arithmetic) and value.op not in ("min", "max") else text

    def cell(self, use: Use) -> str:
        return self.cells.get(use) or _cell(use)

    def is_counter(self, use: Use) -> bool:
        return isinstance(self.space.choices[use.choice], Counter)


def _hoisted(statements: tuple[Statement, ...]) -> list[Use]:
    """The uses that these statements read at their own level, or in more than one of their parts."""
    here: dict[Use, None] = {}
    parts: dict[Use, int] = {}
    for statement in statements:
        if isinstance(statement, If):
            here.update(dict.fromkeys(test_uses(statement.test)))
            blocks: tuple[tuple[Statement, ...], ...] = (statement.then, statement.otherwise)
        elif isinstance(statement, For):
            # Of a loop, what does not change in it is read before it.
            blocks = (statement.body, statement.body)
        else:
            here.update(dict.fromkeys(statement_uses(statement)))
            continue
        for block in blocks:
            for use in dict.fromkeys(u for s in block for u in statement_uses(s)):
                parts[use] = parts.get(use, 0) + 1
    return [*here, *(use for use, count in parts.items() if count > 1 and use not in here)]


def _cell(use: Use) -> str:
    name = f"at_{use.choice}"
    if len(use.args) > 2:
        return f"{name}{_index(use.args)}"
    return name + "".join(f"[{_variable(a)}]" for a in use.args)


def _index(variables: Iterable[str]) -> str:
    names = [_variable(v) for v in variables]
    return f"[{', '.join(names)}]" if names else ""


def _variable(name: str) -> str:
    """The name, changed where it means something else in generated code; different ones stay different."""
    if TABLES.match(name):
        return f"of_{name}"
    plain = name.rstrip("_")
    return f"{name}_" if keyword.iskeyword(plain) or plain in RUNTIME else name


def _is_atom(text: str) -> bool:
    return " " not in text or (text.count("(") == 1 and text.startswith("(") and text.endswith(")"))


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text or text.startswith("-") else text


def _indent(lines: Iterable[str], levels: int = 1) -> list[str]:
    return [f"{'    ' * levels}{line}" if line else "" for line in lines]

"""Which static values generated C may ask for, and for which bindings.

In: the propagators. Out: for each host expression and each static test where it stands, the loops that bind
its variables, so that an instance computes all values before C runs. Tests that stand before a value, on no
other variables than those that lead to it, guard it here as they do in C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from spacedsl.compiler.c.tables import TableKind
from spacedsl.compiler.formulas import complement
from spacedsl.compiler.ir import (
    AllOf,
    AnyOf,
    Arithmetic,
    Assign,
    AtMost,
    Check,
    For,
    HostCall,
    HostTest,
    If,
    Integer,
    IntegerEquality,
    Less,
    Linear,
    Literal,
    Loop,
    Make,
    MayHold,
    Module,
    MustHold,
    Named,
    RestrictHigh,
    RestrictLow,
    Satisfies,
    Settle,
    Statement,
    StaticCompare,
    StaticTest,
    Test,
)
from spacedsl.compiler.loops import variables_of
from spacedsl.compiler.python import HostTable, StaticTable, host_table, static_table
from spacedsl.language.space import Space

Loops = tuple[Loop, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """The loops that lead to the variables `args`, which index the table here."""

    kind: TableKind
    subject: HostTable | StaticTable
    loops: Loops
    args: tuple[str, ...]


def questions(module: Module, space: Space) -> tuple[Question, ...]:
    """In order of their first use, each once."""
    found = (q for p in module.propagators for q in _of_propagator(space, p.loops, p.body))
    return tuple(dict.fromkeys(found))


def _of_propagator(space: Space, loops: Loops, body: Iterable[Statement]) -> Iterator[Question]:
    yield from _of_loops((), loops)
    yield from _of_block(space, loops, body)


def _of_loops(outer: Loops, loops: Loops) -> Iterator[Question]:
    for place, loop in enumerate(loops):
        for number, test in enumerate(loop.tests):
            before = replace(loop, tests=loop.tests[:number])
            yield from _of_static((*outer, *loops[:place], before), test)


def _of_block(space: Space, loops: Loops, statements: Iterable[Statement]) -> Iterator[Question]:
    for statement in statements:
        match statement:
            case If(test, then, otherwise):
                yield from _of_test(space, loops, test)
                yield from _of_block(space, loops, (*then, *otherwise))
            case For(inner, body):
                yield from _of_loops(loops, inner)
                yield from _of_block(space, (*loops, *inner), body)
            case Make(literal):
                yield from _of_literal(loops, literal)
            case Assign(_, value) | Check(value) | RestrictLow(_, value) | RestrictHigh(_, value):
                yield from _of_integer(loops, value)
            case Settle(_, low, high):
                yield from _of_integer(loops, low)
                yield from _of_integer(loops, high)


def _of_test(space: Space, loops: Loops, test: Test) -> Iterator[Question]:
    match test:
        case MayHold(literal):
            yield from _of_literal(loops, literal)
        case MustHold(literal):
            opposite = complement(space, literal)
            assert isinstance(opposite, Literal)
            yield from _of_literal(loops, opposite)
        case Less(left, right):
            yield from _of_integer(loops, left)
            yield from _of_integer(loops, right)
        case AllOf(tests) | AnyOf(tests):
            for part in tests:
                yield from _of_test(space, loops, part)
        case HostTest() | StaticCompare():
            yield from _of_static(loops, test)


def _of_static(loops: Loops, test: StaticTest) -> Iterator[Question]:
    match test:
        case HostTest(call, _):
            yield _question(loops, TableKind.TRUTH, host_table(call, False), call.args)
        case StaticCompare():
            template, variables = static_table(test)
            yield _question(loops, TableKind.COMPARISON, template, variables)


def _of_literal(loops: Loops, literal: Literal) -> Iterator[Question]:
    match literal:
        case Satisfies() | Named():
            template, variables = static_table(literal)
            yield _question(loops, TableKind.MASK, template, variables)
        case IntegerEquality(left, right) | AtMost(left, right):
            for term in (*_terms(left), *_terms(right)):
                yield from _of_integer(loops, term)


def _of_integer(loops: Loops, value: Integer) -> Iterator[Question]:
    match value:
        case HostCall(_, args):
            yield _question(loops, TableKind.INTEGER, host_table(value, True), args)
        case Arithmetic(_, left, right):
            yield from _of_integer(loops, left)
            yield from _of_integer(loops, right)


def _question(
    loops: Loops, kind: TableKind, subject: HostTable | StaticTable, args: tuple[str, ...]
) -> Question:
    """With the loops that lead to these variables, and the tests that concern no others."""
    needed = set(args)
    kept: list[Loop] = []
    for loop in reversed(loops):
        if loop.variable in needed:
            needed.update(loop.source.args if loop.member is None else (loop.member,))
            kept.insert(0, loop)
    tests = (tuple(t for t in loop.tests if variables_of(t) <= needed) for loop in kept)
    own = tuple(replace(loop, tests=few) for loop, few in zip(kept, tests, strict=True))
    return Question(kind, subject, own, args)


def _terms(linear: Linear) -> Iterator[Integer]:
    yield linear.factor
    for _, value in linear.offsets:
        yield value

"""For which objects generated C may ask for a static value.

In: the propagators. Out: the keys of each host expression and each static test, from the sets that its
variables range over, so that all values are computed before C runs. Tests that stand before a value, on no
other variables than those that lead to it, guard it here as they do in C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from spacedsl.compiler.c import TableKind
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
    MustHold,
    Named,
    Propagator,
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
from spacedsl.engine.native.bindings import Relations, unique
from spacedsl.language.space import Space

Asked = tuple[TableKind, HostTable | StaticTable]
Key = tuple[int, ...]


@dataclass(slots=True)
class Keys:
    """The keys of all tables of values, in order of their first use."""

    relations: Relations
    space: Space
    found: dict[Asked, dict[Key, None]] = field(default_factory=dict)
    _enumerated: dict[tuple[tuple[Loop, ...], tuple[str, ...]], list[Key]] = field(default_factory=dict)

    def add(self, propagators: Iterable[Propagator]) -> None:
        for propagator in propagators:
            self._loops((), propagator.loops)
            self._block(propagator.loops, propagator.body)

    def _loops(self, outer: tuple[Loop, ...], loops: tuple[Loop, ...]) -> None:
        for place, loop in enumerate(loops):
            for number, test in enumerate(loop.tests):
                before = replace(loop, tests=loop.tests[:number])
                self._static((*outer, *loops[:place], before), test)

    def _block(self, loops: tuple[Loop, ...], statements: Iterable[Statement]) -> None:
        for statement in statements:
            match statement:
                case If(test, then, otherwise):
                    self._test(loops, test)
                    self._block(loops, (*then, *otherwise))
                case For(inner, body):
                    self._loops(loops, inner)
                    self._block((*loops, *inner), body)
                case Make(literal):
                    self._literal(loops, literal)
                case Assign(_, value) | Check(value) | RestrictLow(_, value) | RestrictHigh(_, value):
                    self._integer(loops, value)
                case Settle(_, low, high):
                    self._integer(loops, low)
                    self._integer(loops, high)

    def _test(self, loops: tuple[Loop, ...], test: Test) -> None:
        match test:
            case MayHold(literal):
                self._literal(loops, literal)
            case MustHold(literal):
                opposite = complement(self.space, literal)
                assert isinstance(opposite, Literal)
                self._literal(loops, opposite)
            case Less(left, right):
                self._integer(loops, left)
                self._integer(loops, right)
            case AllOf(tests) | AnyOf(tests):
                for part in tests:
                    self._test(loops, part)
            case HostTest() | StaticCompare():
                self._static(loops, test)

    def _static(self, loops: tuple[Loop, ...], test: StaticTest) -> None:
        match test:
            case HostTest(call, _):
                self._ask(loops, TableKind.TRUTH, host_table(call, False), call.args)
            case StaticCompare():
                template, variables = static_table(test)
                self._ask(loops, TableKind.COMPARISON, template, variables)

    def _literal(self, loops: tuple[Loop, ...], literal: Literal) -> None:
        match literal:
            case Satisfies() | Named():
                template, variables = static_table(literal)
                self._ask(loops, TableKind.MASK, template, variables)
            case IntegerEquality(left, right) | AtMost(left, right):
                for term in (*_terms(left), *_terms(right)):
                    self._integer(loops, term)

    def _integer(self, loops: tuple[Loop, ...], value: Integer) -> None:
        match value:
            case HostCall(_, args):
                self._ask(loops, TableKind.INTEGER, host_table(value, True), args)
            case Arithmetic(_, left, right):
                self._integer(loops, left)
                self._integer(loops, right)

    def _ask(
        self,
        loops: tuple[Loop, ...],
        kind: TableKind,
        subject: HostTable | StaticTable,
        args: tuple[str, ...],
    ) -> None:
        asked = (_reduced(loops, args), args)
        if asked not in self._enumerated:
            bindings = self.relations.enumerate(asked[0], {})
            self._enumerated[asked] = unique([bindings[a] for a in args], 1)[0]
        self.found.setdefault((kind, subject), {}).update(dict.fromkeys(self._enumerated[asked]))


def _reduced(loops: tuple[Loop, ...], args: tuple[str, ...]) -> tuple[Loop, ...]:
    """The loops that lead to these variables, with the tests that concern no others."""
    needed = set(args)
    kept: list[Loop] = []
    for loop in reversed(loops):
        if loop.variable in needed:
            needed.update(loop.source.args if loop.member is None else (loop.member,))
            kept.insert(0, loop)
    tests = (tuple(t for t in loop.tests if variables_of(t) <= needed) for loop in kept)
    return tuple(replace(loop, tests=own) for loop, own in zip(kept, tests, strict=True))


def _terms(linear: Linear) -> Iterator[Integer]:
    yield linear.factor
    for _, value in linear.offsets:
        yield value

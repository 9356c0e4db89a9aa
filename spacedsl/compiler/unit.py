"""Statements that propagate one clause, or one conjunction of clauses, at one binding.

In: disjunctions of literals. Out: tests of what may and what must hold, and statements that make the last
literal which may still hold true.
"""

from __future__ import annotations

from collections.abc import Sequence

from spacedsl.compiler.clauses import Variable
from spacedsl.compiler.formulas import complement
from spacedsl.compiler.ir import (
    AllOf,
    AnyOf,
    Disjunct,
    Fail,
    HostTest,
    If,
    Make,
    MayHold,
    MustHold,
    Present,
    Statement,
    StaticCompare,
    StaticTest,
    Test,
)
from spacedsl.language.space import Space


def unit_propagation(disjuncts: Sequence[Disjunct]) -> tuple[Statement, ...]:
    """Straight-line unit propagation: nested tests of what may still hold."""
    if not disjuncts:
        return (Fail(),)
    first, *rest = disjuncts
    if not rest:
        return () if isinstance(first, HostTest | StaticCompare) else (Make(first),)
    made: tuple[Statement, ...] = () if isinstance(first, HostTest | StaticCompare) else (Make(first),)
    others = AnyOf(tuple(may_hold(d) for d in rest))
    then: tuple[Statement, ...] = (If(others, (), made),) if made else ()
    otherwise = unit_propagation(rest)
    return (If(may_hold(first), then, otherwise),) if then or otherwise else ()


def may_hold(disjunct: Disjunct) -> Test:
    return disjunct if isinstance(disjunct, HostTest | StaticCompare) else MayHold(disjunct)


def must_hold(disjunct: Disjunct) -> Test:
    return disjunct if isinstance(disjunct, HostTest | StaticCompare) else MustHold(disjunct)


def possible_and_certain(
    variables: tuple[Variable, ...], condition: tuple[tuple[Disjunct, ...], ...]
) -> tuple[Test, Test]:
    """That the objects may be present and the condition may hold, and that both must."""
    may = (Present(v.name, v.home, False) for v in variables)
    must = (Present(v.name, v.home, True) for v in variables)
    return (
        AllOf((*may, *(AnyOf(tuple(may_hold(d) for d in clause)) for clause in condition))),
        AllOf((*must, *(AnyOf(tuple(must_hold(d) for d in clause)) for clause in condition))),
    )


def where(tests: Sequence[StaticTest], statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements under those tests that the binding of a propagator's arguments does not imply."""
    asked = tuple(test for test in tests if isinstance(test, HostTest | StaticCompare))
    return (If(AllOf(asked), statements),) if asked else statements


def falsify(space: Space, condition: tuple[tuple[Disjunct, ...], ...]) -> tuple[Statement, ...]:
    """Unit propagation of the negation: where all clauses but one must hold, that one is made false."""
    if not condition:
        return (Fail(),)
    statements: list[Statement] = []
    for place, clause in enumerate(condition):
        others = tuple(AnyOf(tuple(must_hold(d) for d in c)) for i, c in enumerate(condition) if i != place)
        opposites = (complement(space, d) for d in clause)
        made = tuple(Make(x) for x in opposites if not isinstance(x, HostTest | StaticCompare))
        if not others:
            statements += made
        elif made:
            statements.append(If(AllOf(others), made))
    return tuple(statements)

"""Renaming of the variables of IR nodes.

In: a node and new names for some of its variables. Out: the same node about those.
"""

from __future__ import annotations

from collections.abc import Mapping

from spacedsl.compiler.ir import (
    Ascending,
    AtMost,
    Disjunct,
    Distinct,
    EnumEquality,
    EnumOrder,
    HostCall,
    HostTest,
    InMask,
    IntegerEquality,
    Limit,
    Linear,
    Lower,
    Member,
    Named,
    Satisfies,
    StaticCompare,
    StaticTest,
    Term,
)
from spacedsl.language.space import SetRef, Use

Renaming = Mapping[str, str]


def rename_use(use: Use, renaming: Renaming) -> Use:
    return Use(use.choice, tuple(renaming.get(a, a) for a in use.args))


def rename_set(ref: SetRef, renaming: Renaming) -> SetRef:
    return SetRef(ref.name, tuple(renaming.get(a, a) for a in ref.args))


def rename_call(call: HostCall, renaming: Renaming) -> HostCall:
    return HostCall(call.text, tuple(renaming.get(a, a) for a in call.args), call.expression)


def rename_linear(linear: Linear, renaming: Renaming) -> Linear:
    def term(value: Term) -> Term:
        return rename_call(value, renaming) if isinstance(value, HostCall) else value

    use = None if linear.use is None else rename_use(linear.use, renaming)
    return Linear(use, term(linear.factor), tuple((sign, term(value)) for sign, value in linear.offsets))


def rename(disjunct: Disjunct, renaming: Renaming) -> Disjunct:
    match disjunct:
        case InMask(use, mask):
            return InMask(rename_use(use, renaming), mask)
        case Satisfies(value, op, limit):
            return Satisfies(rename_linear(value, renaming), op, rename_linear(limit, renaming))
        case EnumEquality(left, right, equal, translate):
            return EnumEquality(rename_use(left, renaming), rename_use(right, renaming), equal, translate)
        case EnumOrder(left, right, strict):
            return EnumOrder(rename_use(left, renaming), rename_use(right, renaming), strict)
        case Named(use, op, value, values):
            return Named(rename_use(use, renaming), op, rename_call(value, renaming), values)
        case Limit(formula, names, args):
            return Limit(formula, names, tuple(renaming.get(a, a) for a in args))
        case IntegerEquality(left, right, equal):
            return IntegerEquality(rename_linear(left, renaming), rename_linear(right, renaming), equal)
        case AtMost(left, right):
            return AtMost(rename_linear(left, renaming), rename_linear(right, renaming))
        case HostTest(call, negated):
            return HostTest(rename_call(call, renaming), negated)
        case StaticCompare(left, op, right):
            return StaticCompare(rename_linear(left, renaming), op, rename_linear(right, renaming))


def rename_test(test: StaticTest, renaming: Renaming) -> StaticTest:
    def name(variable: str) -> str:
        return renaming.get(variable, variable)

    match test:
        case HostTest() | StaticCompare():
            renamed = rename(test, renaming)
            assert isinstance(renamed, HostTest | StaticCompare)
            return renamed
        case Member(variable, ref):
            return Member(name(variable), rename_set(ref, renaming))
        case Distinct(left, right) | Ascending(left, right):
            return type(test)(name(left), name(right))
        case Lower(left, right, ref):
            return Lower(name(left), name(right), rename_set(ref, renaming))

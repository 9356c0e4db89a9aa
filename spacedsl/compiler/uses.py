"""Which uses of choices the nodes of the IR read, and where generated code looks their cells up.

In: literals, tests, statements. Out: uses, each at its first place; those that a block reads before anything
else. How a cell is looked up is for the printers.
"""

from __future__ import annotations

from spacedsl.compiler.formulas import negate
from spacedsl.compiler.ir import (
    AllOf,
    AnyOf,
    Arithmetic,
    Assign,
    AtMost,
    Check,
    End,
    EnumEquality,
    EnumOrder,
    For,
    If,
    InMask,
    Integer,
    IntegerEquality,
    Less,
    Limit,
    Linear,
    Literal,
    Make,
    MayHold,
    MustHold,
    Named,
    Project,
    RestrictHigh,
    RestrictLow,
    Satisfies,
    Settle,
    Statement,
    Test,
)
from spacedsl.language.reading import formula_uses
from spacedsl.language.space import Use


def literal_uses(literal: Literal) -> tuple[Use, ...]:
    """Each use once."""
    match literal:
        case InMask(use, _):
            return (use,)
        case Satisfies(value, _, _):
            return _linear_uses(value)
        case Named(use):
            return (use,)
        case Limit():
            return ()
        case EnumEquality(left, right) | EnumOrder(left, right):
            return tuple(dict.fromkeys((left, right)))
        case IntegerEquality(left, right) | AtMost(left, right):
            return tuple(dict.fromkeys((*_linear_uses(left), *_linear_uses(right))))


def test_uses(test: Test) -> tuple[Use, ...]:
    match test:
        case MayHold(literal) | MustHold(literal):
            return literal_uses(literal)
        case Less(left, right):
            return (*integer_uses(left), *integer_uses(right))
        case AllOf(tests) | AnyOf(tests):
            return tuple(u for t in tests for u in test_uses(t))
        case _:
            return ()


def integer_uses(value: Integer) -> tuple[Use, ...]:
    match value:
        case End(use, _):
            return (use,)
        case Arithmetic(_, left, right):
            return (*integer_uses(left), *integer_uses(right))
        case _:
            return ()


def statement_uses(statement: Statement) -> tuple[Use, ...]:
    """With those of the statements inside it."""
    match statement:
        case If(test, then, otherwise):
            return (*test_uses(test), *(u for s in (*then, *otherwise) for u in statement_uses(s)))
        case Make(literal):
            return literal_uses(literal)
        case Project(target, _, inputs):
            return (target, *inputs)
        case Assign(_, value) | Check(value, _, _):
            return integer_uses(value)
        case RestrictLow(use, bound) | RestrictHigh(use, bound):
            return (use, *integer_uses(bound))
        case Settle(use, low, high):
            return (use, *integer_uses(low), *integer_uses(high))
        case For(_, body):
            return tuple(u for s in body for u in statement_uses(s))
        case _:
            return ()


def literal_names(literal: Literal) -> tuple[str, ...]:
    """The choices, counters and quantities that a literal reads."""
    uses = formula_uses(literal.formula) if isinstance(literal, Limit) else literal_uses(literal)
    return tuple(use.choice for use in uses)


def statement_limits(statement: Statement) -> tuple[Limit, ...]:
    """What a statement, and those inside it, ask about quantities; of what must hold, the complement."""
    match statement:
        case If(test, then, otherwise):
            return (*_test_limits(test), *(x for s in (*then, *otherwise) for x in statement_limits(s)))
        case Make(Limit() as limit):
            return (limit,)
        case For(_, body):
            return tuple(x for s in body for x in statement_limits(s))
        case _:
            return ()


def _test_limits(test: Test) -> tuple[Limit, ...]:
    match test:
        case MayHold(Limit() as limit):
            return (limit,)
        case MustHold(Limit() as limit):
            opposite = negate(limit)
            assert isinstance(opposite, Limit)
            return (opposite,)
        case AllOf(tests) | AnyOf(tests):
            return tuple(x for t in tests for x in _test_limits(t))
        case _:
            return ()


def _linear_uses(linear: Linear) -> tuple[Use, ...]:
    return () if linear.use is None else (linear.use,)


def hoisted(statements: tuple[Statement, ...]) -> list[Use]:
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

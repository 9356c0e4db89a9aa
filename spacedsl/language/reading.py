"""What a condition or a term reads: the uses of choices, counters and quantities in it, and its variables.

In: a formula or a term of the typed space. Out: what stands in it, in order, as often as it stands there.
"""

from __future__ import annotations

from collections.abc import Iterator

from spacedsl.language.host import HostExpression
from spacedsl.language.space import (
    Aggregate,
    And,
    Case,
    Compare,
    ComparePositions,
    Conditional,
    Division,
    Extremum,
    Formula,
    Host,
    Is,
    Not,
    Or,
    Product,
    Reading,
    SameEnum,
    Sum,
    Term,
    Use,
)


def formula_uses(formula: Formula) -> Iterator[Use]:
    match formula:
        case Not(operand):
            yield from formula_uses(operand)
        case And(operands) | Or(operands):
            for each in operands:
                yield from formula_uses(each)
        case Is(use):
            yield use
        case SameEnum(left, right):
            yield from (left, right)
        case Compare(left, _, right):
            yield from (side.use for side in (left, right) if side.use is not None)
        case ComparePositions(left, _, right):
            yield from (side for side in (left, right) if isinstance(side, Use))


def term_parts(term: Term) -> tuple[Term, ...]:
    """The terms that it is computed from, those of all branches."""
    match term:
        case Sum(terms):
            return tuple(part for _, part in terms)
        case Product(parts) | Extremum(_, parts):
            return parts
        case Division(_, dividend, divisor):
            return dividend, divisor
        case Aggregate(_, _, _, body):
            return (body,)
        case Conditional(_, then, otherwise):
            return then, otherwise
        case Case(_, branches):
            return tuple(body for _, body in branches)
        case _:
            return ()


def term_uses(term: Term) -> Iterator[Use]:
    match term:
        case Reading(use) | Case(use):
            yield use
        case Conditional(condition):
            yield from formula_uses(condition)
    for part in term_parts(term):
        yield from term_uses(part)


def formula_variables(formula: Formula) -> Iterator[str]:
    """The variables of uses and of host expressions, those that stand for map applications among them."""
    match formula:
        case Not(operand):
            yield from formula_variables(operand)
        case And(operands) | Or(operands):
            for each in operands:
                yield from formula_variables(each)
        case Host(expression):
            yield from expression.free_variables
        case Is() | SameEnum() | Compare() | ComparePositions():
            for use in formula_uses(formula):
                yield from use.args
            for expression in _expressions(formula):
                yield from expression.free_variables


def _expressions(comparison: Formula) -> Iterator[HostExpression]:
    match comparison:
        case Compare(left, _, right):
            for side in (left, right):
                for value in (side.factor, *(term for _, term in side.offsets)):
                    if isinstance(value, HostExpression):
                        yield value
        case ComparePositions(left, _, right):
            yield from (place for place in (left, right) if isinstance(place, HostExpression))

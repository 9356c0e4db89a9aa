"""Terms that have the same value on every kernel.

In: a term of a quantity of integers. Out: its value, where numbers, and host expressions without variables,
settle it. What decisions or objects have a part in counts as open, but for a product with 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from spacedsl.diagnostics import DiagnosticError
from spacedsl.language.host import HostExpression
from spacedsl.language.space import Conditional, Division, Extremum, HostTerm, Literal, Product, Sum, Term


def constant(term: Term) -> int | None:
    """The one value of a term; None where it depends on a kernel or on decisions, or there is none."""
    match term:
        case Literal(value):
            return value
        case HostTerm(expression):
            return _evaluated(expression)
        case Sum(terms):
            values = _all(part for _, part in terms)
            return None if values is None else sum(s * v for (s, _), v in zip(terms, values, strict=True))
        case Product(factors):
            known = [constant(factor) for factor in factors]
            if 0 in known:
                return 0
            found = [value for value in known if value is not None]
            return math.prod(found) if len(found) == len(known) else None
        case Extremum(greatest, operands):
            values = _all(operands)
            return None if values is None else max(values) if greatest else min(values)
        case Division(up, dividend, divisor):
            values = _all((dividend, divisor))
            if values is None or values[1] < 1:
                return None
            return -(-values[0] // values[1]) if up else values[0] // values[1]
        case Conditional(_, then, otherwise):
            values = _all((then, otherwise))
            return values[0] if values is not None and values[0] == values[1] else None
        case _:
            return None


def _all(terms: Iterable[Term]) -> list[int] | None:
    values = [constant(term) for term in terms]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _evaluated(expression: HostExpression) -> int | None:
    if expression.variables:
        return None
    try:
        value = expression.evaluate({})
    except DiagnosticError:
        return None  # said with the objects, on a kernel
    return value if isinstance(value, int) else None

"""The body of a counter's propagator: forward from its contributions, and backward from its limits.

In: a `Count`. Out: statements that add up (or multiply) what is certain and what is possible, settle the
counter's interval, and, where something else has limited it, limit the contributions; and the part of them
that concerns one contribution.
"""

from __future__ import annotations

from spacedsl.compiler.clauses import Count
from spacedsl.compiler.ir import (
    SATURATED,
    AllOf,
    AnyOf,
    Arithmetic,
    Assign,
    Check,
    Contribution,
    End,
    For,
    If,
    Integer,
    Less,
    Local,
    Present,
    RestrictHigh,
    RestrictLow,
    Settle,
    Statement,
    Test,
)
from spacedsl.compiler.loops import plan
from spacedsl.compiler.unit import falsify, possible_and_certain, unit_propagation, where
from spacedsl.compiler.uses import statement_limits
from spacedsl.language.space import Space, Use

LO, HI = Local("lo"), Local("hi")


def count_body(space: Space, count: Count) -> tuple[Statement, ...]:
    """For one binding of the counter's parameters; loops over its quantified variables."""
    on_params, loops = plan(
        space, (*count.params, *count.foralls), count.tests, tuple(v.name for v in count.params)
    )
    neutral = _neutral(count)
    may, must = _conditions(space, count)
    limit = AnyOf((Less(LO, End(count.use, False)), Less(End(count.use, True), HI)))
    backward = _backward(space, count, must)
    return (
        Assign(LO, count.base),
        Assign(HI, count.base),
        *((Check(count.base, neutral, count.span),) if not isinstance(count.base, int) else ()),
        *where(on_params, (For(loops, _forward(count, may, must)),)),
        Settle(count.use, _saturated(LO), _saturated(HI)),
        *(where(on_params, (If(limit, (For(loops, backward),)),)) if backward else ()),
    )


def contribution(space: Space, count: Count) -> Contribution | None:
    """One of them; None: it does not follow from domains, or what the space says exceeds a word."""
    written = [value for value in (count.base, count.value) if isinstance(value, int)]
    if any(not _neutral(count) <= value <= SATURATED for value in written):
        return None
    arguments = tuple(v.name for v in (*count.params, *count.foralls))
    on_params, loops = plan(
        space, (*count.params, *count.foralls), count.tests, tuple(v.name for v in count.params)
    )
    body = _forward(count, *_conditions(space, count))
    if any(statement_limits(statement) for statement in body):
        return None
    return Contribution(arguments, on_params, loops, body, count.base, count.product)


def _neutral(count: Count) -> int:
    return 1 if count.product else 0


def _forward(count: Count, may: Test | None, must: Test | None) -> tuple[Statement, ...]:
    """A contribution into what is certain and what is possible."""
    low, high = _ends(count.value)
    op = "*" if count.product else "+"
    certain = Assign(LO, Arithmetic(op, LO, low))
    statements: tuple[Statement, ...] = (
        *(() if isinstance(count.value, int) else (Check(low, _neutral(count), count.span),)),
        Assign(HI, Arithmetic(op, HI, high)),
        certain if must is None else If(must, (certain,)),
    )
    return statements if may is None else (If(may, statements),)


def _backward(space: Space, count: Count, must: Test | None) -> tuple[Statement, ...]:
    """A contribution against the limits: its value where it counts, else whether its condition may or must
    hold. Whether its objects are present is not for a limit to say.
    """
    low, high = _ends(count.value)
    others_low, others_high = _without(count.product, LO, low), _without(count.product, HI, high)
    with_it = Arithmetic("*" if count.product else "+", LO, low)
    least, greatest = End(count.use, False), End(count.use, True)
    bound: list[Statement] = []
    if isinstance(count.value, Use):
        limit = Arithmetic("//" if count.product else "-", greatest, others_low)
        bound.append(If(Less(greatest, SATURATED), (RestrictHigh(count.value, limit),)))
        bound.append(
            RestrictLow(count.value, Arithmetic("ceil" if count.product else "-", least, others_high))
        )
    if must is None:
        return tuple(bound)
    excluded = falsify(space, count.condition) if count.condition else ()
    included = tuple(s for clause in count.condition for s in unit_propagation(clause))
    if not excluded and not included:
        return (If(must, tuple(bound)),) if bound else ()
    may, _ = possible_and_certain((), count.condition)
    present = tuple(Present(v.name, v.home, True) for v in count.foralls) if space.triggers else ()
    settle: Statement = If(
        Less(greatest, _saturated(with_it)), excluded, (If(Less(_saturated(others_high), least), included),)
    )
    return (If(must, tuple(bound), (If(AllOf((*present, may)), (settle,)),)),)


def _conditions(space: Space, count: Count) -> tuple[Test | None, Test | None]:
    """That a contribution may count, and that it must; None: always."""
    if not count.condition and not space.triggers:
        return None, None
    return possible_and_certain(count.foralls if space.triggers else (), count.condition)


def _ends(value: object) -> tuple[Integer, Integer]:
    if isinstance(value, Use):
        return End(value, False), End(value, True)
    return value, value  # type: ignore[return-value]


def _without(product: bool, total: Integer, part: Integer) -> Integer:
    """What the others make."""
    return Arithmetic("without" if product else "-", total, part)


def _saturated(value: Integer) -> Integer:
    return Arithmetic("min", value, SATURATED)

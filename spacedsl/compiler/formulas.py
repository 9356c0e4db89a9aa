"""Formulas as conjunctions of disjunctions of literals.

In: a formula of the typed space. Out: its conjunctive normal form, simplified, or a `DiagnosticError` where
that grows too large. Comparisons become literals of few kinds: `a < b` is `a + 1 <= b`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from spacedsl.compiler.ir import (
    AtMost,
    Disjunct,
    EnumEquality,
    EnumOrder,
    HostCall,
    HostTest,
    InMask,
    IntegerEquality,
    Limit,
    Linear,
    Named,
    Satisfies,
    StaticCompare,
    Term,
)
from spacedsl.compiler.renaming import Renaming
from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.language.formulas import MIRRORED
from spacedsl.language.host import HostExpression
from spacedsl.language.reading import formula_uses, formula_variables
from spacedsl.language.space import (
    Affine,
    And,
    Compare,
    ComparePositions,
    Comparison,
    Constant,
    EnumChoice,
    Formula,
    Host,
    IntegerChoice,
    Is,
    Not,
    Or,
    SameEnum,
    Space,
    Use,
)

MOST_CLAUSES = 32
MOST_PARTS = 64
"""Of a clause: code asks about one inside of the other, and Python takes 100 levels of that."""


def conjunction(space: Space, formula: Formula, span: Span) -> tuple[tuple[Disjunct, ...], ...]:
    """Conjunctive normal form; raises `DiagnosticError` (SP301) past `MOST_CLAUSES` or `MOST_PARTS`."""
    clauses = _normal_form(space, formula, positive=True)
    if clauses is None or len(clauses) > MOST_CLAUSES:
        message = f"this formula expands to more than {MOST_CLAUSES} clauses"
        hint = "split it into several requirements, or name a part of it as a choice"
        raise DiagnosticError([Diagnostic("SP301", message, span, hint)])
    if any(len(clause) > MOST_PARTS for clause in clauses):
        message = f"this formula has more than {MOST_PARTS} conditions of which one must hold"
        hint = "name some of them as a choice"
        raise DiagnosticError([Diagnostic("SP301", message, span, hint)])
    return clauses


COMPLEMENT = {
    Comparison.EQ: Comparison.NE,
    Comparison.NE: Comparison.EQ,
    Comparison.LT: Comparison.GE,
    Comparison.GE: Comparison.LT,
    Comparison.GT: Comparison.LE,
    Comparison.LE: Comparison.GT,
}


def negate(disjunct: Disjunct, full: int | None = None) -> Disjunct:
    """The complement; `full` is the mask of all values of an `InMask` literal's choice."""
    match disjunct:
        case InMask(use, mask):
            if full is None:
                raise ValueError("the complement of a mask needs the mask of all values")
            return InMask(use, full & ~mask)
        case Satisfies(value, op, limit):
            return Satisfies(value, COMPLEMENT[op], limit)
        case Named(use, op, value, values):
            return Named(use, COMPLEMENT[op], value, values)
        case EnumOrder(left, right, strict):
            return EnumOrder(right, left, not strict)
        case Limit(formula, names, args):
            return Limit(replace(formula, op=COMPLEMENT[formula.op]), names, args)
        case EnumEquality() | IntegerEquality():
            return replace(disjunct, equal=not disjunct.equal)
        case AtMost(left, right):
            return AtMost(shifted(right, 1), left)
        case HostTest(call, negated):
            return HostTest(call, not negated)
        case StaticCompare(left, op, right):
            return StaticCompare(left, COMPLEMENT[op], right)


def complement(space: Space, disjunct: Disjunct) -> Disjunct:
    """`negate`, with the mask of all values looked up."""
    if isinstance(disjunct, InMask):
        choice = space.choices[disjunct.use.choice]
        assert isinstance(choice, EnumChoice)
        return negate(disjunct, choice.full)
    return negate(disjunct)


def shifted(linear: Linear, by: int) -> Linear:
    """`linear + by`."""
    return replace(linear, offsets=(*linear.offsets, (1, by)))


def _normal_form(space: Space, formula: Formula, positive: bool) -> tuple[tuple[Disjunct, ...], ...] | None:
    """Clauses of the formula or of its negation; None once there are far too many."""
    match formula:
        case Constant(value):
            return () if value is positive else ((),)
        case Not(operand):
            return _normal_form(space, operand, not positive)
        case And(operands) | Or(operands):
            parts = [_normal_form(space, o, positive) for o in operands]
            known = [p for p in parts if p is not None]
            if len(known) != len(parts):
                return None
            if isinstance(formula, And) is positive:
                return tuple(c for part in known for c in part)
            return _distribute(space, known)
        case _:
            literal = _literal(space, formula)
            return ((literal if positive else complement(space, literal),),)


def _distribute(
    space: Space, parts: list[tuple[tuple[Disjunct, ...], ...]]
) -> tuple[tuple[Disjunct, ...], ...] | None:
    """The clauses of a disjunction of conjunctions."""
    clauses: tuple[tuple[Disjunct, ...], ...] = ((),)
    for part in parts:
        joined = (simplified(space, (*a, *b)) for a, b in product(clauses, part))
        clauses = tuple(dict.fromkeys(c for c in joined if c is not None))
        if len(clauses) > 8 * MOST_CLAUSES:
            return None
    return clauses


def simplified(space: Space, disjuncts: tuple[Disjunct, ...]) -> tuple[Disjunct, ...] | None:
    """Without repetition, one mask for each use; None where some values of one use always satisfy it."""
    masks: dict[Use, int] = {}
    kept: list[Disjunct | Use] = []
    for disjunct in disjuncts:
        if isinstance(disjunct, InMask):
            if disjunct.use not in masks:
                kept.append(disjunct.use)
            masks[disjunct.use] = masks.get(disjunct.use, 0) | disjunct.mask
        elif disjunct not in kept:
            kept.append(disjunct)
    for use, mask in masks.items():
        choice = space.choices[use.choice]
        assert isinstance(choice, EnumChoice)
        if mask == choice.full:
            return None
    result = (InMask(d, masks[d]) if isinstance(d, Use) else d for d in kept)
    return tuple(d for d in result if not (isinstance(d, InMask) and d.mask == 0))


def _literal(space: Space, formula: Formula) -> Disjunct:
    match formula:
        case Is(use, mask):
            return InMask(use, mask)
        case SameEnum(left, right, equal, translate):
            return EnumEquality(left, right, equal, translate)
        case Host(expression):
            return HostTest(host_call(expression, {}), False)
        case Compare() | ComparePositions() if any(
            use.choice in space.quantities for use in formula_uses(formula)
        ):
            names = tuple(sorted(set(formula_variables(formula))))
            return Limit(formula, names, names)
        case Compare(left, op, right):
            return _comparison(space, _linear(left), op, _linear(right))
        case ComparePositions():
            return _positions(formula)
    raise TypeError(f"not an atomic condition: {formula!r}")


def _positions(formula: ComparePositions) -> Disjunct:
    """A comparison of places in an order: of two choices, or of one with what a host expression names."""
    match formula:
        case ComparePositions(Use() as left, op, Use() as right, values):
            if op in (Comparison.EQ, Comparison.NE):
                return EnumEquality(left, right, op is Comparison.EQ, tuple(range(len(values))))
            if op in (Comparison.GT, Comparison.GE):
                left, right = right, left
            return EnumOrder(left, right, op in (Comparison.LT, Comparison.GT))
        case ComparePositions(Use() as use, op, HostExpression() as value, values):
            return Named(use, op, host_call(value, {}), values)
        case ComparePositions(HostExpression() as value, op, Use() as use, values):
            return Named(use, MIRRORED[op], host_call(value, {}), values)
    raise TypeError(f"not a comparison of choices: {formula!r}")


def _comparison(space: Space, left: Linear, op: Comparison, right: Linear) -> Disjunct:
    if left.use is None and right.use is None:
        return StaticCompare(left, op, right)
    if left.use == right.use and isinstance(left.factor, int) and isinstance(right.factor, int):
        # Two uses of one counter become one: else the ends of its interval would push each other on and on.
        return _comparison(space, *_collected(left, left.factor, op, right, right.factor))
    if left.use is None:
        left, op, right = right, MIRRORED[op], left
    if (
        right.use is None
        and left.use is not None
        and isinstance(space.choices[left.use.choice], IntegerChoice)
    ):
        return Satisfies(left, op, right)
    match op:
        case Comparison.EQ | Comparison.NE:
            return IntegerEquality(left, right, op is Comparison.EQ)
        case Comparison.LE:
            return AtMost(left, right)
        case Comparison.LT:
            return AtMost(shifted(left, 1), right)
        case Comparison.GE:
            return AtMost(right, left)
        case Comparison.GT:
            return AtMost(shifted(right, 1), left)


def _collected(
    left: Linear, left_factor: int, op: Comparison, right: Linear, right_factor: int
) -> tuple[Linear, Comparison, Linear]:
    """The comparison with what both sides use on the one where its factor stays positive, if on any."""
    more = left_factor - right_factor
    return (
        Linear(left.use if more > 0 else None, max(more, 1), left.offsets),
        op,
        Linear(left.use if more < 0 else None, max(-more, 1), right.offsets),
    )


def _linear(affine: Affine) -> Linear:
    offsets = tuple((sign, host_term(value, {})) for sign, value in affine.offsets)
    return Linear(affine.use, host_term(affine.factor, {}), offsets)


def host_term(value: int | HostExpression, renaming: Renaming) -> Term:
    return value if isinstance(value, int) else host_call(value, renaming)


def host_call(expression: HostExpression, renaming: Renaming) -> HostCall:
    """Its arguments are the objects that it speaks of: what is always in scope is none."""
    args = tuple(renaming.get(v, v) for v in expression.free_variables)
    return HostCall(expression.text, args, expression)

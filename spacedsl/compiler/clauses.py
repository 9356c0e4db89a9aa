"""The normal form: every requirement as universally quantified disjunctions of literals.

In: the typed space. Out: `Clause` values (for a requirement, and for what a quotient means), `Count` values
(for a counter, and for what decides a quotient's representative) and `Firing` values (for a trigger). A
member of a quotient set is one of the underlying set that the representative choice is TRUE for. Nothing is
merged or ordered here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from spacedsl.compiler.ir import (
    Ascending,
    AtMost,
    Distinct,
    HostCall,
    HostTest,
    InMask,
    Linear,
    Literal,
    Lower,
    Member,
    SameEnum,
    SameInteger,
    Satisfies,
    StaticCompare,
    StaticTest,
    Term,
)
from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.language.host import HostExpression
from spacedsl.language.space import (
    Affine,
    And,
    Binder,
    Compare,
    Comparison,
    Constant,
    Counter,
    EnumChoice,
    Formula,
    Host,
    IntegerChoice,
    Is,
    Not,
    Or,
    Quotient,
    Requirement,
    SetRef,
    Space,
    Trigger,
    Use,
    Visibility,
)
from spacedsl.language.space import SameEnum as SameEnumFormula

MOST_CLAUSES = 32
MOST_VARIABLES = 10
"""Of a declaration's parameters, and of its quantified objects: code loops over both, 20 deep at most."""
FALSE, TRUE = 1, 2
"""Masks of a representative's values."""

Disjunct = Literal | HostTest | StaticCompare
Renaming = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Variable:
    """A quantified variable; its set is never a quotient's."""

    name: str
    set: SetRef


@dataclass(frozen=True, slots=True)
class Clause:
    """For all distinct objects that pass the tests, one of the literals holds."""

    variables: tuple[Variable, ...]
    tests: tuple[StaticTest, ...]
    literals: tuple[Literal, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Count:
    """`counter` with its quantified variables: `condition` is a conjunction of disjunctions."""

    use: Use
    params: tuple[Variable, ...]
    foralls: tuple[Variable, ...]
    tests: tuple[StaticTest, ...]
    product: bool
    base: Term
    value: Term | Use
    condition: tuple[tuple[Disjunct, ...], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Firing:
    """A trigger's variables, and its condition as a conjunction of disjunctions."""

    variables: tuple[Variable, ...]
    tests: tuple[StaticTest, ...]
    condition: tuple[tuple[Disjunct, ...], ...]
    span: Span


def requirement_clauses(space: Space, requirement: Requirement) -> tuple[Clause, ...]:
    """The clauses of one requirement; raises `DiagnosticError` (SP301) past `MOST_CLAUSES`."""
    variables, tests, guards = _bind(space, requirement.foralls)
    clauses = []
    for disjuncts in conjunction(space, requirement.formula, requirement.span):
        clause = _clause(space, variables, tests, guards, disjuncts, requirement.span)
        if clause is not None:
            clauses.append(clause)
    return tuple(clauses)


def counter_count(space: Space, counter: Counter) -> Count:
    """The counter with quotients among its quantified sets resolved."""
    params, param_tests, param_guards = _bind(space, counter.params)
    foralls, forall_tests, forall_guards = _bind(space, counter.foralls)
    condition = conjunction(space, counter.condition, counter.span)
    members = tuple((InMask(use, TRUE),) for use in (*param_guards, *forall_guards))
    return Count(
        Use(counter.name, tuple(p.name for p in counter.params)),
        params,
        foralls,
        (*param_tests, *forall_tests),
        counter.product,
        _term(counter.base, {}),
        counter.value if isinstance(counter.value, Use) else _term(counter.value, {}),
        (*members, *condition),
        counter.span,
    )


def trigger_firing(space: Space, trigger: Trigger) -> Firing:
    variables, tests, guards = _bind(space, trigger.foralls)
    members = tuple((InMask(use, TRUE),) for use in guards)
    condition = conjunction(space, trigger.condition, trigger.span)
    return Firing(variables, tests, (*members, *condition), trigger.span)


def quotient_parts(space: Space, quotient: Quotient) -> tuple[Counter, Count, tuple[Requirement, ...]]:
    """The declaration and definition of the counter of lower blockers, and the requirements that it decides.

    An item is blocked by each lower member of its set that qualifies and is equivalent to it.
    """
    item = quotient.item
    names = tuple(p.name for p in quotient.params)
    variables, tests, guards = _bind(space, (*quotient.params, item))
    lower = _fresh("lower", {*names, item.name})
    # In capitals, it is the name of no choice.
    use = Use(f"{quotient.representative}_BLOCKERS", (*names, item.name))
    members = tuple(Is(guard, TRUE, quotient.span) for guard in guards)
    qualifies = And((*members, quotient.condition))
    blocking = (
        tuple(rename(d, {item.name: lower}) for d in clause)
        for clause in conjunction(space, qualifies, quotient.span)
    )
    equivalent = InMask(Use(quotient.equivalence, (lower, item.name)), quotient.equivalence_mask)
    base_set = variables[-1].set
    count = Count(
        use,
        variables,
        (Variable(lower, base_set),),
        (*tests, Lower(lower, item.name, base_set)),
        False,
        0,
        1,
        (*blocking, (equivalent,)),
        quotient.span,
    )
    binders = tuple(Binder(v.name, v.set, quotient.span) for v in variables)
    declaration = Counter(
        use.choice,
        binders,
        (),
        Visibility.INTERNAL,
        False,
        0,
        1,
        Constant(False),
        quotient.doc,
        quotient.span,
    )
    representative = Use(quotient.representative, (*names, item.name))
    not_it, it = Is(representative, FALSE, quotient.span), Is(representative, TRUE, quotient.span)
    blockers, zero = Affine(use, 1, ()), Affine(None, 1, ((1, 0),))
    rules: tuple[Formula, ...] = (
        Or((not_it, qualifies)),
        Or((not_it, Compare(blockers, Comparison.LE, zero, quotient.span))),
        Or((it, Not(qualifies), Compare(blockers, Comparison.GT, zero, quotient.span))),
    )
    return declaration, count, tuple(Requirement(binders, rule, quotient.span) for rule in rules)


def conjunction(space: Space, formula: Formula, span: Span) -> tuple[tuple[Disjunct, ...], ...]:
    """Conjunctive normal form; raises `DiagnosticError` (SP301) past `MOST_CLAUSES`."""
    clauses = _normal_form(space, formula, positive=True)
    if clauses is None or len(clauses) > MOST_CLAUSES:
        message = f"this formula expands to more than {MOST_CLAUSES} clauses"
        hint = "split it into several requirements, or name a part of it as a choice"
        raise DiagnosticError([Diagnostic("SP301", message, span, hint)])
    return clauses


def negate(disjunct: Disjunct, full: int | None = None) -> Disjunct:
    """The complement; `full` is the mask of all values of an `InMask` literal's choice."""
    match disjunct:
        case InMask(use, mask):
            if full is None:
                raise ValueError("the complement of a mask needs the mask of all values")
            return InMask(use, full & ~mask)
        case Satisfies(value, op, limit):
            return Satisfies(value, COMPLEMENT[op], limit)
        case SameEnum() | SameInteger():
            return replace(disjunct, equal=not disjunct.equal)
        case AtMost(left, right):
            return AtMost(shifted(right, 1), left)
        case HostTest(call, negated):
            return HostTest(call, not negated)
        case StaticCompare(left, op, right):
            return StaticCompare(left, COMPLEMENT[op], right)


COMPLEMENT = {
    Comparison.EQ: Comparison.NE,
    Comparison.NE: Comparison.EQ,
    Comparison.LT: Comparison.GE,
    Comparison.GE: Comparison.LT,
    Comparison.GT: Comparison.LE,
    Comparison.LE: Comparison.GT,
}
MIRROR = {
    Comparison.EQ: Comparison.EQ,
    Comparison.NE: Comparison.NE,
    Comparison.LT: Comparison.GT,
    Comparison.GE: Comparison.LE,
    Comparison.GT: Comparison.LT,
    Comparison.LE: Comparison.GE,
}


def shifted(linear: Linear, by: int) -> Linear:
    return replace(linear, offsets=(*linear.offsets, (1, by)))


def complement(space: Space, disjunct: Disjunct) -> Disjunct:
    """`negate`, with the mask of all values looked up."""
    if isinstance(disjunct, InMask):
        choice = space.choices[disjunct.use.choice]
        assert isinstance(choice, EnumChoice)
        return negate(disjunct, choice.full)
    return negate(disjunct)


# ---- Quantified variables --------------------------------------------------------------------------------


def _bind(
    space: Space, binders: Iterable[Binder]
) -> tuple[tuple[Variable, ...], tuple[StaticTest, ...], tuple[Use, ...]]:
    """Variables over plain sets, static filters, and the representatives that must be TRUE."""
    variables: list[Variable] = []
    tests: list[StaticTest] = []
    guards: list[Use] = []
    for binder in binders:
        ref = binder.set
        while ref.name in space.quotients:
            quotient = space.quotients[ref.name]
            if len(ref.args) != len(quotient.params):
                message = f"the members of {ref.name} are known only for given parameters"
                raise DiagnosticError([Diagnostic("SP302", message, binder.span, "write its arguments")])
            guards.append(Use(quotient.representative, (*ref.args, binder.name)))
            renaming = dict(zip((p.name for p in quotient.params), ref.args, strict=True))
            ref = rename_set(quotient.item.set, renaming)
            if quotient.item.where is not None:
                tests.append(
                    HostTest(_call(quotient.item.where, {**renaming, quotient.item.name: binder.name}), False)
                )
        variables.append(Variable(binder.name, ref))
        if binder.where is not None:
            tests.append(HostTest(_call(binder.where, {}), False))
    if len(variables) > MOST_VARIABLES:
        message = f"more than {MOST_VARIABLES} objects at once"
        hint = "name what concerns some of them as a choice"
        raise DiagnosticError([Diagnostic("SP303", message, binder.span, hint)])
    return tuple(variables), tuple(tests), tuple(guards)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


# ---- Formulas --------------------------------------------------------------------------------------------


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
        joined = (_simplified(space, (*a, *b)) for a, b in product(clauses, part))
        clauses = tuple(dict.fromkeys(c for c in joined if c is not None))
        if len(clauses) > 8 * MOST_CLAUSES:
            return None
    return clauses


def _simplified(space: Space, disjuncts: tuple[Disjunct, ...]) -> tuple[Disjunct, ...] | None:
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
        case SameEnumFormula(left, right, equal, translate):
            return SameEnum(left, right, equal, translate)
        case Host(expression):
            return HostTest(_call(expression, {}), False)
        case Compare(left, op, right):
            return _comparison(space, _linear(left), op, _linear(right))
    raise TypeError(f"not an atomic condition: {formula!r}")


def _comparison(space: Space, left: Linear, op: Comparison, right: Linear) -> Disjunct:
    if left.use is None and right.use is None:
        return StaticCompare(left, op, right)
    if left.use == right.use and isinstance(left.factor, int) and isinstance(right.factor, int):
        # Two uses of one counter become one: else the ends of its interval would push each other on and on.
        return _comparison(space, *_collected(left, left.factor, op, right, right.factor))
    if left.use is None:
        left, op, right = right, MIRROR[op], left
    if (
        right.use is None
        and left.use is not None
        and isinstance(space.choices[left.use.choice], IntegerChoice)
    ):
        return Satisfies(left, op, right)
    match op:
        case Comparison.EQ | Comparison.NE:
            return SameInteger(left, right, op is Comparison.EQ)
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
    offsets = tuple((sign, _term(value, {})) for sign, value in affine.offsets)
    return Linear(affine.use, _term(affine.factor, {}), offsets)


def _term(value: int | HostExpression, renaming: Renaming) -> Term:
    return value if isinstance(value, int) else _call(value, renaming)


def _call(expression: HostExpression, renaming: Renaming) -> HostCall:
    free = (v for v in expression.variables if v not in ("kernel", "device"))
    return HostCall(expression.text, tuple(renaming.get(v, v) for v in free), expression)


def _clause(
    space: Space,
    variables: tuple[Variable, ...],
    tests: tuple[StaticTest, ...],
    guards: tuple[Use, ...],
    disjuncts: tuple[Disjunct, ...],
    span: Span,
) -> Clause | None:
    """The static disjuncts become tests: the clause concerns only bindings for which they are all false."""
    not_members = tuple(InMask(use, FALSE) for use in guards)
    simplified = _simplified(space, (*not_members, *disjuncts))
    if simplified is None:
        return None
    literals: list[Literal] = []
    further: list[StaticTest] = []
    for disjunct in simplified:
        if isinstance(disjunct, HostTest | StaticCompare):
            opposite = negate(disjunct)
            assert isinstance(opposite, HostTest | StaticCompare)
            further.append(opposite)
        else:
            literals.append(disjunct)
    return Clause(variables, (*tests, *further), tuple(literals), span)


# ---- Renaming of variables -------------------------------------------------------------------------------


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
        case SameEnum(left, right, equal, translate):
            return SameEnum(rename_use(left, renaming), rename_use(right, renaming), equal, translate)
        case SameInteger(left, right, equal):
            return SameInteger(rename_linear(left, renaming), rename_linear(right, renaming), equal)
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

"""The normal form: every requirement as universally quantified disjunctions of literals.

In: the typed space. Out: `Clause` values (for a requirement, and for what a quotient means), `Count` values
(for a counter, and for what decides a quotient's representative) and `Firing` values (for a trigger). A
member of a quotient set is one of the underlying set that the representative choice is TRUE for. Nothing is
merged or ordered here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spacedsl.compiler.formulas import conjunction, host_call, host_term, negate, simplified
from spacedsl.compiler.ir import Disjunct, HostTest, InMask, Literal, Lower, StaticCompare, StaticTest, Term
from spacedsl.compiler.renaming import Renaming, rename, rename_set
from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.language.applications import renamed
from spacedsl.language.space import (
    Affine,
    And,
    Binder,
    Compare,
    Comparison,
    Constant,
    Counter,
    Formula,
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

MOST_VARIABLES = 10
"""Of a declaration's parameters, and of its quantified objects: code loops over both, 20 deep at most."""
FALSE, TRUE = 1, 2
"""Masks of a representative's values."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A quantified variable; its set is never a quotient's.

    One that is bound by a map ranges over the map's graph, and may be an object that another one is too.
    """

    name: str
    set: SetRef
    target: SetRef | None = None
    """Where the values of its map lie; None: not by a map."""

    @property
    def home(self) -> SetRef:
        """The set that says whether its object is present."""
        return self.target or self.set


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
    """The clauses of one requirement.

    Raises `DiagnosticError`: SP301 past `MOST_CLAUSES`, SP303 past `MOST_VARIABLES`.
    """
    variables, tests, guards = _bind(space, requirement.foralls)
    clauses = []
    for disjuncts in conjunction(space, requirement.formula, requirement.span):
        clause = _clause(space, variables, tests, guards, disjuncts, requirement.span)
        if clause is not None:
            clauses.append(clause)
    return tuple(clauses)


def counter_count(space: Space, counter: Counter) -> Count:
    """The counter with quotients among its quantified sets resolved; raises as `requirement_clauses` does."""
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
        host_term(counter.base, {}),
        counter.value if isinstance(counter.value, Use) else host_term(counter.value, {}),
        (*members, *condition),
        counter.span,
    )


def trigger_firing(space: Space, trigger: Trigger) -> Firing:
    """When a trigger fires; raises `DiagnosticError` as `requirement_clauses` does."""
    variables, tests, guards = _bind(space, trigger.foralls)
    members = tuple((InMask(use, TRUE),) for use in guards)
    condition = conjunction(space, trigger.condition, trigger.span)
    return Firing(variables, tests, (*members, *condition), trigger.span)


def quotient_parts(
    space: Space, quotient: Quotient
) -> tuple[tuple[tuple[Counter, Count], ...], tuple[Requirement, ...]]:
    """Hidden counters, declared and defined, and the requirements that decide who represents a class.

    An item is blocked by each lower member of its set that qualifies and is equivalent to it. Whether an item
    qualifies is counted where its condition applies maps: it does not where what they give is absent, and a
    requirement says nothing of absent objects.
    """
    item = quotient.item
    names = (*(p.name for p in quotient.params), item.name)
    variables, tests, guards = _bind(space, (*quotient.params, item))
    applied, _, _ = _bind(space, quotient.maps)
    lower = _fresh("lower", {*names})
    base_set = variables[-1].set
    members = tuple(Is(guard, TRUE, quotient.span) for guard in guards)
    qualifies = And((*members, quotient.condition))
    condition = conjunction(space, qualifies, quotient.span)
    renaming = {item.name: lower, **{v.name: renamed(v.name, {item.name: lower}) for v in applied}}
    equivalent = InMask(Use(quotient.equivalence, (lower, item.name)), quotient.equivalence_mask)
    blockers = _hidden(
        quotient,
        "BLOCKERS",
        variables,
        (Variable(lower, base_set), *(_renamed(v, renaming) for v in applied)),
        (*tests, Lower(lower, item.name, base_set)),
        (*(tuple(rename(d, renaming) for d in clause) for clause in condition), (equivalent,)),
    )
    hidden = [blockers]
    qualified: Formula = qualifies
    if applied:
        hidden.append(_hidden(quotient, "QUALIFIES", variables, applied, tests, condition))
        qualified = _compared(hidden[-1][1].use, Comparison.GE, 1, quotient.span)
    representative = Use(quotient.representative, names)
    not_it, it = Is(representative, FALSE, quotient.span), Is(representative, TRUE, quotient.span)
    rules: tuple[Formula, ...] = (
        Or((not_it, qualified)),
        Or((not_it, _compared(blockers[1].use, Comparison.LE, 0, quotient.span))),
        Or((it, Not(qualified), _compared(blockers[1].use, Comparison.GT, 0, quotient.span))),
    )
    binders = blockers[0].params
    return tuple(hidden), tuple(Requirement(binders, rule, quotient.span) for rule in rules)


def _hidden(
    quotient: Quotient,
    what: str,
    params: tuple[Variable, ...],
    foralls: tuple[Variable, ...],
    tests: tuple[StaticTest, ...],
    condition: tuple[tuple[Disjunct, ...], ...],
) -> tuple[Counter, Count]:
    """A counter that belongs to a quotient: its declaration without a definition, and its definition."""
    # In capitals, it is the name of no choice.
    use = Use(f"{quotient.representative}_{what}", tuple(v.name for v in params))
    count = Count(use, params, foralls, tests, False, 0, 1, condition, quotient.span)
    binders = tuple(Binder(v.name, v.set, quotient.span) for v in params)
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
        definition=quotient.span,
    )
    return declaration, count


def _compared(use: Use, op: Comparison, limit: int, span: Span) -> Compare:
    return Compare(Affine(use, 1, ()), op, Affine(None, 1, ((1, limit),)), span)


def _bind(
    space: Space, binders: Iterable[Binder]
) -> tuple[tuple[Variable, ...], tuple[StaticTest, ...], tuple[Use, ...]]:
    """Variables over plain sets, static filters, and the representatives that must be TRUE."""
    variables: list[Variable] = []
    tests: list[StaticTest] = []
    guards: list[Use] = []
    for binder in binders:
        ref = binder.set
        if binder.by_map:
            variables.append(Variable(binder.name, ref, _target(space, ref)))
            continue
        while ref.name in space.quotients:
            quotient = space.quotients[ref.name]
            guards.append(Use(quotient.representative, (*ref.args, binder.name)))
            renaming = dict(zip((p.name for p in quotient.params), ref.args, strict=True))
            ref = rename_set(quotient.item.set, renaming)
            if quotient.item.where is not None:
                tests.append(
                    HostTest(
                        host_call(quotient.item.where, {**renaming, quotient.item.name: binder.name}), False
                    )
                )
        variables.append(Variable(binder.name, ref))
        if binder.where is not None:
            tests.append(HostTest(host_call(binder.where, {}), False))
    if len(variables) > MOST_VARIABLES:
        message = f"more than {MOST_VARIABLES} objects at once"
        hint = "name what concerns some of them as a choice"
        raise DiagnosticError([Diagnostic("SP303", message, binder.span, hint)])
    return tuple(variables), tuple(tests), tuple(guards)


def _target(space: Space, ref: SetRef) -> SetRef:
    """The set that the values of a map application lie in."""
    definition = space.maps[ref.name]
    params = (p.name for p in definition.params)
    return rename_set(definition.target, dict(zip(params, ref.args, strict=True)))


def _renamed(variable: Variable, renaming: Renaming) -> Variable:
    target = None if variable.target is None else rename_set(variable.target, renaming)
    return Variable(renaming.get(variable.name, variable.name), rename_set(variable.set, renaming), target)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


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
    found = simplified(space, (*not_members, *disjuncts))
    if found is None:
        return None
    literals: list[Literal] = []
    further: list[StaticTest] = []
    for disjunct in found:
        if isinstance(disjunct, HostTest | StaticCompare):
            opposite = negate(disjunct)
            assert isinstance(opposite, HostTest | StaticCompare)
            further.append(opposite)
        else:
            literals.append(disjunct)
    return Clause(variables, (*tests, *further), tuple(literals), span)

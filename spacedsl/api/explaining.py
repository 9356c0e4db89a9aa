"""Why a value is gone, why a limit holds, why a space has no solution.

In: an instance that was posed without measuring, decisions, and maybe a question. Out: an `Answer`: the chain
of propagations that leads there and, where nothing is left at all, a minimal set of lines and decisions that
conflict, as CP-SAT has proved. Nothing here prints.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from spacedsl.api.problem import UnknownNameError
from spacedsl.api.solving import Unmeasured
from spacedsl.api.statements import Limit, Statement, parse_statement
from spacedsl.diagnostics import Span
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision, UnknownDecisionError
from spacedsl.engine.explanation import (
    Explanation,
    explain_contradiction,
    explain_limit,
    explain_loss,
)
from spacedsl.engine.instance import Instance
from spacedsl.language.reading import formula_uses
from spacedsl.language.space import Counter, IntegerChoice, Use
from spacedsl.search.orderings import select_ordering
from spacedsl.search.run import ContradictionError, decided
from spacedsl.search.solutions import random_solutions

if TYPE_CHECKING:
    from spacedsl.oracle.conflict import Applies, Conflict
    from spacedsl.oracle.cp_sat import Binding, Narrowed


@dataclass(frozen=True, slots=True)
class Given:
    """What a conflict takes for granted: the values of an integer choice, the definition of what follows."""

    what: str
    """`start(cut)`."""
    values: tuple[int, ...] | None
    """Of an integer choice."""
    span: Span


@dataclass(frozen=True, slots=True)
class Left:
    """What propagation leaves of that which a question is about."""

    what: str
    """`home(x)`."""
    values: tuple[str | int, ...]
    """Of a counter or quantity: the least and the greatest."""
    is_interval: bool
    is_present: bool | None = True
    """Of a choice: whether its objects are there, which None leaves to what triggers add."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """`claim` is what was asked about, in words, or that it cannot be; where neither holds, no chain."""

    claim: str
    holds: bool
    chain: Explanation | None = None
    """None where propagation does not see it."""
    conflict: Conflict | None = None
    """Where nothing is left; None where none was found (`why_no_conflict`), or where there are solutions."""
    why_no_conflict: str | None = None
    givens: tuple[Given, ...] = ()
    """Of the conflict."""
    left: Left | None = None
    """Where the claim is open."""


def explain(
    problem: Unmeasured, question: str | None, decisions: Sequence[Decision] = (), *, time_s: float = 60
) -> Answer:
    """Raises `UnknownNameError` for names that there are not, `TimeoutError` where CP-SAT takes longer."""
    taken = (*problem.kernel.decisions, *decisions)
    try:
        if question is None:
            return _emptiness(problem, taken, time_s)
        return _loss(problem, question, taken, time_s)
    except UnknownDecisionError as error:
        raise UnknownNameError(str(error)) from None


def _loss(problem: Unmeasured, question: str, decisions: Sequence[Decision], time_s: float) -> Answer:
    """Why the claim holds or, where propagation rules it out, why it cannot be; why nothing is left at all,
    of which anything could be said.
    """
    statement = parse_statement(problem.instance, question)
    candidate = _candidate(problem.instance, decisions)
    if candidate is None:
        return _contradiction(problem, "nothing is left", decisions, time_s)
    claim = " ".join(question.split())
    for said, asked in ((claim, statement), (f"it cannot be that {claim}", statement.opposite())):
        chain = _chain(problem.instance, decisions, asked)
        if chain is not None:
            return Answer(said, holds=True, chain=chain)
    return Answer(claim, holds=False, left=_left(problem, candidate, statement))


def _candidate(instance: Instance, decisions: Sequence[Decision]) -> Candidate | None:
    """What the decisions leave; None: nothing."""
    root = instance.root()
    try:
        return None if root is None else decided(instance, root, decisions)
    except ContradictionError:
        return None


def _chain(
    instance: Instance, decisions: Sequence[Decision], statement: Statement | Limit
) -> Explanation | None:
    match statement:
        case Limit(choice, objects, claim):
            return explain_limit(instance, decisions, (choice, objects), claim)
        case Statement(choice, objects, _, excluded):
            return explain_loss(instance, decisions, Decision(choice, objects, excluded))


def _left(problem: Unmeasured, candidate: Candidate, statement: Statement | Limit) -> Left:
    instance = problem.instance
    items = [instance.objects.objects[instance.objects.names.index(o)] for o in statement.objects]
    what = f"{statement.choice}({', '.join(statement.objects)})"
    if isinstance(statement, Statement):
        values: tuple[str | int, ...] = tuple(candidate.possible(statement.choice, *items))
        variable = instance.variable(statement.choice, *items)
        is_certain = candidate.is_present(variable) or candidate.is_absent(variable)
        is_present = candidate.is_present(variable) if is_certain else None
        return Left(what, values, is_interval=False, is_present=is_present)
    ends = candidate.interval(statement.choice, *items)
    quantity = problem.space.quantities.get(statement.choice)
    order = quantity.values if quantity is not None else None
    shown = ends if order is None else tuple(order[end] for end in ends)
    return Left(what, shown, is_interval=True)


def _emptiness(problem: Unmeasured, decisions: Sequence[Decision], time_s: float) -> Answer:
    claim = "there is no solution"
    candidate = _candidate(problem.instance, decisions)
    if candidate is None:
        return _contradiction(problem, claim, decisions, time_s)
    is_solvable = _search(problem, candidate, time_s)
    if is_solvable:
        return Answer(claim, holds=False)
    conflict = _conflict(problem, decisions, None, time_s)
    if isinstance(conflict, str):
        if is_solvable is None:
            raise TimeoutError
        return Answer(claim, holds=True, why_no_conflict=conflict)
    return Answer(claim, holds=conflict is not None, conflict=conflict, givens=_givens(problem, conflict))


def _search(problem: Unmeasured, candidate: Candidate, time_s: float) -> bool | None:
    """Whether there is a solution; None where random descents find none in a tenth of the time."""
    deadline = time.monotonic() + time_s / 10
    ordering = select_ordering(problem.instance, problem.space)
    for found in random_solutions(candidate, ordering, np.random.default_rng(0)):
        if found is not None:
            return True
        if time.monotonic() > deadline:
            return None
    return False


def _contradiction(problem: Unmeasured, claim: str, decisions: Sequence[Decision], time_s: float) -> Answer:
    """Why the decisions leave nothing. Only what the chain uses can be part of its conflict, which keeps the
    model small.
    """
    chain = explain_contradiction(problem.instance, decisions)
    assert chain is not None, "propagation has refused them"
    used: dict[Span, list[frozenset[str]]] = {}
    for step in chain.steps:
        for span in step.spans:
            used.setdefault(span, []).append(frozenset(name for _, name in step.binding))
    among: dict[int, Applies] = {
        number: partial(_is_within, used[requirement.span])
        for number, requirement in enumerate(problem.space.requirements)
        if requirement.span in used
    }
    taken = {step.decision for step in chain.steps}
    conflict = _conflict(problem, [d for d in decisions if d in taken], among, time_s)
    if isinstance(conflict, str):
        return Answer(claim, holds=True, chain=chain, why_no_conflict=conflict)
    return Answer(claim, holds=True, chain=chain, conflict=conflict, givens=_givens(problem, conflict))


def _is_within(parts: Sequence[frozenset[str]], binding: Binding) -> bool:
    """Whether the objects of a binding are among those of a step that used the line."""
    names = {str(getattr(item, "name", "")) for item in binding.values()}
    return any(names <= objects for objects in parts)


def _conflict(
    problem: Unmeasured,
    decisions: Sequence[Decision],
    among: Mapping[int, Applies] | None,
    time_s: float,
) -> Conflict | str | None:
    """Or why there is no telling."""
    # OR-tools is imported where it is used: it takes a while.
    from spacedsl.oracle.conflict import find_conflict
    from spacedsl.oracle.cp_sat import NotTranslatedError
    from spacedsl.oracle.readers import UnbuiltError

    objects = dict(zip(problem.instance.objects.names, problem.instance.objects.objects, strict=True))
    narrowed: list[Narrowed] = [(d.choice, tuple(objects[o] for o in d.objects), d.values) for d in decisions]
    space, kernel = problem.space, problem.kernel.backbone
    try:
        return find_conflict(space, kernel, problem.device, narrowed, among=among, timeout_s=time_s)
    except (NotTranslatedError, UnbuiltError) as error:
        return str(error)
    except RecursionError:
        return "its quantities need each other too deeply for the solver"


def _givens(problem: Unmeasured, conflict: Conflict | None) -> tuple[Given, ...]:
    """In order of the conflict, each once."""
    found: dict[Given, None] = {}
    for clash in conflict.clashes if conflict is not None else ():
        for binding in clash.bindings:
            for use in formula_uses(clash.requirement.formula):
                given = _given(problem, use, tuple(binding[a] for a in use.args))
                if given is not None:
                    found[given] = None
    return tuple(found)


def _given(problem: Unmeasured, use: Use, objects: tuple[object, ...]) -> Given | None:
    names = ", ".join(str(getattr(item, "name", item)) for item in objects)
    space = problem.space
    if use.choice in space.quantities:
        return Given(f"{use.choice}({names})", None, space.quantities[use.choice].span)
    match space.choices[use.choice]:
        case IntegerChoice() as choice:
            universe = problem.instance.universe(use.choice, *objects)
            values = tuple(value for value in universe if isinstance(value, int))
            return Given(f"{use.choice}({names})", values, choice.universe.span)
        case Counter() as choice:
            return Given(f"{use.choice}({names})", None, choice.definition)
    return None

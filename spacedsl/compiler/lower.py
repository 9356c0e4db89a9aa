"""Lowering: relations, clauses and counters become propagators.

In: a typed space. Out: its `Module` of propagators and the space with the counters that decide its quotients
added. Propagators are ordered as their requirements are. In spaces with triggers every body asks first
whether its objects are present, and wakes when one becomes so; in others nothing of this is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import TypeGuard, TypeVar

from spacedsl.compiler.clauses import (
    Clause,
    Count,
    Firing,
    Variable,
    counter_count,
    quotient_parts,
    requirement_clauses,
    trigger_firing,
)
from spacedsl.compiler.counting import contribution, count_body
from spacedsl.compiler.ir import (
    AllOf,
    Ascending,
    Disjunct,
    Entry,
    Fail,
    Fire,
    HostTest,
    If,
    InMask,
    Limit,
    Linear,
    Literal,
    Make,
    Module,
    Named,
    Present,
    Project,
    Propagator,
    Satisfies,
    Statement,
    StaticCompare,
    StaticTest,
    Table,
    Wake,
)
from spacedsl.compiler.loops import linear_variables, plan
from spacedsl.compiler.relations import Relation, canonical, merge, projections
from spacedsl.compiler.unit import possible_and_certain, unit_propagation, where
from spacedsl.compiler.uses import literal_names, literal_uses, statement_limits
from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.language.applications import application, identifier
from spacedsl.language.space import (
    Choice,
    Counter,
    EnumChoice,
    Map,
    Requirement,
    SetDef,
    Space,
    Symmetry,
    Use,
)

Part = TypeVar("Part")
Made = TypeVar("Made")


def lower(space: Space) -> tuple[Module, Space]:
    """The propagators of a space, and the space with its maps among its sets, with the counters that decide
    quotients among its choices.

    Raises `DiagnosticError` with all that has no normal form.
    """
    refused: list[Diagnostic] = []
    choices: dict[str, Choice] = dict(space.choices)
    requirements: list[Requirement] = list(space.requirements)
    hidden_counts: list[Count] = []
    for hidden, rules in _each(partial(quotient_parts, space), space.quotients.values(), refused):
        for declaration, count in hidden:
            choices[declaration.name] = declaration
            hidden_counts.append(count)
        requirements += rules
    graphs = {name: _graph(definition) for name, definition in space.maps.items()}
    complete = replace(space, choices=choices, sets={**space.sets, **graphs})
    clauses = tuple(chain(*_each(partial(requirement_clauses, complete), requirements, refused)))
    counters = [c for c in space.choices.values() if isinstance(c, Counter)]
    counts = _each(partial(counter_count, space), counters, refused)
    firings = _each(partial(trigger_firing, complete), space.triggers, refused)
    if refused:
        raise DiagnosticError(refused)
    relations, rest = merge(complete, clauses)
    lowering = _Lowering(complete)
    for count in (*counts, *hidden_counts):
        lowering.add_count(count)
    for relation in relations:
        lowering.add_relation(relation)
    for clause in rest:
        lowering.add_clause(clause)
    for number, firing in enumerate(firings):
        lowering.add_trigger(number, firing)
    return Module(tuple(lowering.propagators), tuple(lowering.tables)), complete


def _each(stage: Callable[[Part], Made], parts: Iterable[Part], refused: list[Diagnostic]) -> list[Made]:
    """What the stage makes of each part; what it refuses is noted."""
    made = []
    for part in parts:
        try:
            made.append(stage(part))
        except DiagnosticError as error:
            refused += error.diagnostics
    return made


def _graph(definition: Map) -> SetDef:
    """A map as a set with parameters: it holds the one value, or nothing where the map has none."""
    return SetDef(
        definition.name,
        definition.params,
        (definition.target,),
        (),
        definition.value,
        None,
        None,
        definition.doc,
        definition.span,
    )


@dataclass(slots=True)
class _Lowering:
    """The propagators and tables so far, and the names that are taken."""

    space: Space
    propagators: list[Propagator] = field(default_factory=list)
    tables: dict[Table, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def add_relation(self, relation: Relation) -> None:
        name = self._name(use.choice for use in relation.uses)
        full = [self.space.enum(use).full for use in relation.uses]
        body: list[Statement] = []
        if not relation.allowed:
            body.append(Fail())
        elif len(relation.uses) == 1:
            body.append(Make(InMask(relation.uses[0], sum(1 << row[0] for row in relation.allowed))))
        else:
            for mask, (target, inputs, widths, entries) in zip(
                full, projections(self.space, relation), strict=True
            ):
                if all(entry in (0, mask) for entry in entries):
                    continue
                table = self.tables.setdefault(Table(widths, entries), len(self.tables))
                body.append(Project(target, table, inputs))
        if not body:
            return
        symmetric = len(relation.exchanges) == _arrangements(relation.variables)
        order = _ascending(relation.variables) if symmetric else ()
        wakes = self._relation_wakes(relation, name) if len(relation.uses) > 1 and relation.allowed else ()
        doc = (
            f"Keeps the values of {_listing(relation.uses)} that occur together in an allowed combination: "
            "complete for one binding, not for several."
        )
        self._add(
            name,
            doc,
            relation.spans,
            relation.variables,
            relation.tests,
            order,
            body,
            wakes,
            relation.exchanges,
        )

    def add_clause(self, clause: Clause) -> None:
        name = self._name(n for x in clause.literals for n in literal_names(x))
        wakes = []
        for literal in clause.literals:
            gate = literal if _is_gate(literal) else None
            wakes += [
                self._wake(name, clause.variables, clause.tests, use, True, gate)
                for use in literal_uses(literal)
            ]
        doc = (
            "Unit propagation: once all conditions but one are impossible, the last one is made to hold. "
            "While two of them are open, nothing is inferred."
        )
        if any(isinstance(x, Limit) for x in clause.literals):
            doc += " A limit on a quantity removes each value of a choice with which it would be false."
        body = unit_propagation(clause.literals)
        self._add(name, doc, (clause.span,), clause.variables, clause.tests, (), body, tuple(wakes))

    def add_count(self, count: Count) -> None:
        name = self._unique(f"count_{count.use.choice}")
        variables = (*count.params, *count.foralls)
        inputs = [u for clause in count.condition for d in clause for u in disjunct_uses(d)]
        inputs += [count.value] if isinstance(count.value, Use) else []
        wakes = [self._wake(name, variables, count.tests, use, True, None) for use in dict.fromkeys(inputs)]
        wakes.append(self._wake(name, count.params, (), count.use, True, None))
        arguments = tuple(v.name for v in count.params)
        _, root_loops = plan(self.space, count.params, (), ())
        entries = self._entries(name, variables, count.tests, certain=False)
        doc = (
            f"{'Multiplies' if count.product else 'Adds up'} what is certain and what is possible. Where a "
            "limit on the result leaves no choice, turns contributions on or off, or bounds their values: "
            "one at a time, so that what several of them exclude together is not seen."
        )
        self._append(
            Propagator(
                name,
                doc,
                (count.span,),
                arguments,
                root_loops,
                count_body(self.space, count),
                tuple(wakes),
                entries,
                True,
                contribution=contribution(self.space, count),
            )
        )

    def add_trigger(self, number: int, firing: Firing) -> None:
        name = self._unique(f"trigger_{number}")
        arguments = tuple(v.name for v in firing.variables)
        may, must = possible_and_certain(firing.variables, firing.condition)
        body = If(must, (Fire(number, arguments, True),), (If(may, (), (Fire(number, arguments, False),)),))
        uses = dict.fromkeys(u for clause in firing.condition for d in clause for u in disjunct_uses(d))
        wakes = tuple(self._wake(name, firing.variables, firing.tests, use, True, None) for use in uses)
        entries = self._entries(name, firing.variables, firing.tests, certain=False)
        _, loops = plan(self.space, firing.variables, firing.tests, ())
        doc = (
            "Fires once its condition is certain on present objects, never once it is impossible. "
            "Removes no value."
        )
        self._append(Propagator(name, doc, (firing.span,), arguments, loops, (body,), wakes, entries))

    # ---- Names, loops ------------------------------------------------------------------------------------

    def _add(
        self,
        name: str,
        doc: str,
        spans: tuple[Span, ...],
        variables: tuple[Variable, ...],
        tests: tuple[StaticTest, ...],
        order: tuple[StaticTest, ...],
        body: Sequence[Statement],
        wakes: tuple[Wake, ...],
        exchanges: Sequence[Mapping[str, str]] = (),
    ) -> None:
        alone, loops = plan(self.space, variables, (*tests, *order), ())
        entries: tuple[Entry, ...] = ()
        statements = where(alone, tuple(body))
        if self.space.triggers:
            present = tuple(Present(v.name, v.home, True) for v in variables)
            statements = (If(AllOf(present), statements),) if present else statements
            entries = self._entries(name, variables, tests, certain=True, exchanges=exchanges)
        arguments = tuple(v.name for v in variables)
        self._append(Propagator(name, doc, spans, arguments, loops, statements, wakes, entries))

    def _append(self, propagator: Propagator) -> None:
        limits = dict.fromkeys(x for s in propagator.body for x in statement_limits(s))
        self.propagators.append(replace(propagator, limits=tuple(limits)))

    def _wake(
        self,
        name: str,
        variables: tuple[Variable, ...],
        tests: tuple[StaticTest, ...],
        use: Use,
        mirrored: bool,
        gate: InMask | Satisfies | Named | None,
    ) -> Wake:
        choice = self.space.choices[use.choice]
        mirrored = mirrored and isinstance(choice, EnumChoice) and choice.symmetry is not Symmetry.NONE
        first, loops = plan(self.space, variables, tests, use.args)
        wake_name = self._unique(f"{name}_on_{use.choice}") if loops else name
        return Wake(use, mirrored, gate, first, loops, wake_name)

    def _entries(
        self,
        name: str,
        variables: tuple[Variable, ...],
        tests: tuple[StaticTest, ...],
        certain: bool,
        exchanges: Sequence[Mapping[str, str]] = (),
    ) -> tuple[Entry, ...]:
        """One for each variable that no exchange turns into an earlier one."""
        if not self.space.triggers:
            return ()
        entries = []
        covered: set[str] = set()
        for variable in variables:
            if variable.name in covered:
                continue
            covered |= {exchange[variable.name] for exchange in exchanges}
            first, loops = plan(self.space, variables, tests, (variable.name,))
            entry_name = self._unique(f"{name}_with_{identifier(variable.name)}") if loops else name
            entries.append(Entry(variable.name, variable.home, certain, first, loops, entry_name))
        return tuple(entries)

    def _relation_wakes(self, relation: Relation, name: str) -> tuple[Wake, ...]:
        """One for each use that no exchange of variables turns into an earlier one."""
        wakes: list[Wake] = []
        covered: set[Use] = set()
        for use in relation.uses:
            here = canonical(self.space, use)[0]
            if here in covered:
                continue
            mirrored = True
            for exchange in relation.exchanges:
                moved = Use(use.choice, tuple(exchange[a] for a in use.args))
                covered.add(canonical(self.space, moved)[0])
                if len(use.args) == 2 and moved.args == (use.args[1], use.args[0]):
                    mirrored = False
            wakes.append(self._wake(name, relation.variables, relation.tests, use, mirrored, None))
        return tuple(wakes)

    def _name(self, choices: Iterable[str]) -> str:
        return self._unique("_".join(("keep", *dict.fromkeys(choices))))

    def _unique(self, name: str) -> str:
        number, candidate = 2, name
        while {candidate, f"{candidate}_everywhere"} & self.names:
            candidate, number = f"{name}_{number}", number + 1
        self.names |= {candidate, f"{candidate}_everywhere"}
        return candidate


def _is_gate(literal: Literal) -> TypeGuard[InMask | Satisfies | Named]:
    """Whether the literal is a mask of one domain, known for its arguments alone."""
    match literal:
        case InMask():
            return True
        case Named(Use(_, args), _, value):
            return set(value.args) <= set(args)
        case Satisfies(Linear(Use(_, args)) as value, _, limit):
            return linear_variables(value) | linear_variables(limit) <= set(args)
        case _:
            return False


def disjunct_uses(disjunct: Disjunct) -> tuple[Use, ...]:
    return () if isinstance(disjunct, HostTest | StaticCompare) else literal_uses(disjunct)


def _listing(uses: Sequence[Use]) -> str:
    return ", ".join(application(u.choice, u.args) for u in uses)


def _arrangements(variables: Sequence[Variable]) -> int:
    """The number of ways to exchange variables over the same set."""
    count = 1
    for _, group in groupby(sorted(str(v.set) for v in variables)):
        for number, _ in enumerate(group, 1):
            count *= number
    return count


def _ascending(variables: Sequence[Variable]) -> tuple[StaticTest, ...]:
    """One arrangement of each: variables over the same set in order of id."""
    latest: dict[object, str] = {}
    tests = []
    for variable in variables:
        if variable.set in latest:
            tests.append(Ascending(latest[variable.set], variable.name))
        latest[variable.set] = variable.name
    return tuple(tests)

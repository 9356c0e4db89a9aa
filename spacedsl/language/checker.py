"""Syntax to typed space: every name is resolved, every mistake is reported in one run.

In: the declarations of a file with all that it includes, in order. Out: a `space.Space`, or none where there
are errors. The work goes in steps, so that the order of declarations does not matter: the headers of all
sets, then of all choices, then everything that holds conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from spacedsl.diagnostics import Diagnostic, Span
from spacedsl.language import choices, quantities, quotients, sets, space, syntax
from spacedsl.language.conditions import Conditions, Purpose
from spacedsl.language.cycles import by_need
from spacedsl.language.dependencies import check_dependencies
from spacedsl.language.headers import CounterHeader, Declared, Misdeclared, QuantityHeader
from spacedsl.language.host import HostKind
from spacedsl.language.inclusion import as_written
from spacedsl.language.names import Names
from spacedsl.language.orderings import Listing
from spacedsl.language.report import Report

_SNAKE_CASE = re.compile(r"[a-z][a-z0-9_]*")

_ENUM = (syntax.EnumChoice, syntax.OrderedChoice, syntax.IntegerChoice, syntax.CounterChoice)


def check(
    name: str, declarations: Sequence[syntax.Declaration], digest: str, sources: tuple[str, ...]
) -> tuple[space.Space | None, tuple[Diagnostic, ...]]:
    """The space and all diagnostics in the order of their places; the space is None where one is an error."""
    checker = _Checker(Report(), declarations)
    checked = checker.run(name, digest, sources)
    order = {source: i for i, source in enumerate(sources)}
    problems = sorted(checker.report.problems, key=lambda p: (order.get(p.span.source.name, 0), p.span.start))
    return (None if checker.report.has_errors else checked), tuple(dict.fromkeys(problems))


class _Checker:
    """One run over one list of declarations."""

    def __init__(self, report: Report, declarations: Sequence[syntax.Declaration]) -> None:
        self.report = report
        self.declarations = declarations
        self.names = Names(report)
        self.sets: dict[str, space.SetDef] = {}
        self.choices: dict[str, space.Choice] = {}
        self.quotients: dict[str, space.Quotient] = {}
        self.requirements: list[space.Requirement] = []
        self.triggers: list[space.Trigger] = []
        self.orderings: dict[str, space.Ordering] = {}
        self.maps: dict[str, space.Map] = {}
        self.quantities: dict[str, space.Quantity] = {}
        self.views: dict[str, space.View] = {}

    def run(self, name: str, digest: str, sources: tuple[str, ...]) -> space.Space:
        self._declare_sets()
        self._declare_choices()
        for declaration in self.declarations:
            self._check(declaration)
        counters = (c for c in self.choices.values() if isinstance(c, space.Counter))
        check_dependencies(self.report, counters, self.quantities, self.quotients)
        self._note_unused()
        return space.Space(
            name=name,
            sets={**self.sets, **self.names.images},
            choices=self.choices,
            quotients=self.quotients,
            requirements=tuple(self.requirements),
            triggers=tuple(self.triggers),
            orderings=self.orderings,
            digest=digest,
            sources=sources,
            maps=self.maps,
            quantities=self.quantities,
            views=self.views,
        )

    # Headers

    def _declare_sets(self) -> None:
        declared = self._unique(d for d in self.declarations if isinstance(d, syntax.Set | syntax.Quotient))
        for declaration in declared:
            self.names.sets[declaration.name.text] = sets.header(declaration)
        self.names.quotients = frozenset(d.name.text for d in declared if isinstance(d, syntax.Quotient))
        sets.check_cycles(self.names, declared)

    def _unique(
        self, declarations: Iterable[syntax.Set | syntax.Quotient]
    ) -> list[syntax.Set | syntax.Quotient]:
        first: dict[str, syntax.Set | syntax.Quotient] = {}
        for declaration in declarations:
            name = declaration.name
            if name.text in first:
                self._twice("set", name, first[name.text].name.span)
            else:
                first[name.text] = declaration
        return list(first.values())

    def _twice(self, kind: str, name: syntax.Name, first: Span) -> None:
        message = f"{kind} `{name.text}` is declared twice"
        self.report.error(
            "SP010", message, name.span, "rename one of the two", (first, "it is declared here")
        )

    def _declare_choices(self) -> None:
        first: dict[str, syntax.Name] = {}
        declared: dict[str, tuple[syntax.Declaration, int]] = {}
        for position, declaration in enumerate(self.declarations):
            name = _choice_name(declaration)
            if name is None:
                continue
            if not _SNAKE_CASE.fullmatch(name.text):
                hint = "choices are written in snake_case"
                self.report.error("SP011", f"`{name.text}` is no name for a choice", name.span, hint)
            if name.text in first:
                self._twice(_kind(declaration), name, first[name.text].span)
                continue
            first[name.text] = name
            declared[name.text] = declaration, position
        headers: dict[str, Declared] = {}
        order, broken = self._by_need({name: d for name, (d, _) in declared.items()})
        for text in order:
            # What has a wrong header has been reported; its uses are not reported again.
            header = None if text in broken else self._header(*declared[text])
            headers[text] = self.names.choices[text] = header or Misdeclared(first[text].span)
        self.names.choices = {text: headers[text] for text in declared}
        self._type_quantities()

    def _by_need(self, declared: Mapping[str, syntax.Declaration]) -> tuple[tuple[str, ...], frozenset[str]]:
        """Each name after the maps that say what it is over, and the names that need themselves for that."""
        needs = {
            name: [n for use in _set_uses(declaration) for n in as_written(use).maps() if n in declared]
            for name, declaration in declared.items()
        }
        order, cycles = by_need(needs)
        for cycle in cycles:
            name = _choice_name(declared[cycle[0]])
            assert name is not None
            message = f"`{name.text}` is needed to say what it is over: {' -> '.join(cycle)}"
            hint = "give the set an `iterator` that says it"
            self.report.error("SP026", message, name.span, hint)
        return order, frozenset(name for cycle in cycles for name in cycle)

    def _type_quantities(self) -> None:
        """The types of quantities, once all that they can be made of is declared."""
        declared: dict[str, syntax.Quantity] = {}
        for declaration in self.declarations:
            if isinstance(declaration, syntax.Quantity) and self._is_declared_by(declaration.name):
                declared[declaration.name.text] = declaration
        types = {
            name: quantities.order_of_quantity(self.names, declared, declaration)
            for name, declaration in declared.items()
        }
        for name, values in types.items():
            header = self.names.choices[name]
            assert isinstance(header, QuantityHeader)
            if isinstance(values, Misdeclared):
                self.names.choices[name] = values
            else:
                self.names.choices[name] = replace(header, values=values)

    def _is_declared_by(self, name: syntax.Name) -> bool:
        """Whether this is the declaration of the name, and its header is right."""
        header = self.names.choices[name.text]
        return not isinstance(header, Misdeclared) and header.span == name.span

    def _header(self, declaration: syntax.Declaration, position: int) -> Declared | None:
        match declaration:
            case syntax.Quantity(name, params):
                scope = self.names.parameters(params)
                if scope is None:
                    return None
                return QuantityHeader(name.text, tuple(scope.values()), None, name.span)
            case syntax.Map():
                return self._map(declaration)
            case syntax.Quotient():
                return quotients.representative(self.names, declaration)
            case (
                syntax.EnumChoice() | syntax.OrderedChoice() | syntax.IntegerChoice() | syntax.CounterChoice()
            ):
                return choices.declare(self.names, declaration, position)
        return None

    def _map(self, declaration: syntax.Map) -> space.Map | None:
        scope = self.names.parameters(declaration.params)
        if scope is None:
            return None
        params = tuple(scope.values())
        target = self.names.set_ref(declaration.target, scope)
        value = self.names.host(declaration.host, scope)
        if target is not None:
            target = self.names.claimed(target, scope, declaration.target.span)
        if target is None or value is None:
            return None
        return space.Map(declaration.name.text, params, target, value, declaration.doc, declaration.name.span)

    # Bodies

    def _check(self, declaration: syntax.Declaration) -> None:
        match declaration:
            case syntax.Set():
                if self.names.sets[declaration.name.text].name is declaration.name:
                    checked = sets.check_set(self.names, declaration)
                    if checked is not None:
                        self.sets[checked.name] = checked
            case (
                syntax.EnumChoice() | syntax.OrderedChoice() | syntax.IntegerChoice() | syntax.CounterChoice()
            ):
                self._check_choice(declaration)
            case syntax.Quantity(name):
                header = self.names.choices[name.text]
                if self._is_declared_by(name) and isinstance(header, QuantityHeader):
                    quantity = quantities.check_quantity(self.names, declaration, header)
                    if quantity is not None:
                        self.quantities[name.text] = quantity
            case syntax.Map(name):
                declared = self.names.choices[name.text]
                if self._is_declared_by(name) and isinstance(declared, space.Map):
                    self.maps[name.text] = declared
            case syntax.Quotient():
                self._check_quotient(declaration)
            case syntax.Require(foralls, conditions):
                self._check_require(foralls, conditions)
            case syntax.Trigger():
                self._check_trigger(declaration)
            case syntax.Ordering():
                ordering = self._listing().ordering(declaration)
                if declaration.name.text in self.orderings:
                    self._twice("ordering", declaration.name, self.orderings[declaration.name.text].span)
                elif ordering is not None:
                    self.orderings[ordering.name] = ordering
            case syntax.View():
                view = self._listing().view(declaration)
                if declaration.name.text in self.views:
                    self._twice("view", declaration.name, self.views[declaration.name.text].span)
                elif view is not None:
                    self.views[view.name] = view
            case syntax.Include():
                pass  # spliced by the loader

    def _listing(self) -> Listing:
        quotients = (d for d in self.declarations if isinstance(d, syntax.Quotient))
        return Listing(self.names, frozenset(q.representative.text for q in quotients))

    def _check_choice(self, declaration: syntax.Choice) -> None:
        if not self._is_declared_by(declaration.name):
            return
        header = self.names.choices[declaration.name.text]
        if isinstance(header, CounterHeader):
            assert isinstance(declaration, syntax.CounterChoice)
            counter = choices.counter(self.names, declaration, header)
            if counter is not None:
                self.choices[counter.name] = counter
            return
        assert isinstance(header, space.EnumChoice | space.IntegerChoice)
        self.choices[header.name] = header
        if isinstance(declaration, choices.Enum) and isinstance(header, space.EnumChoice):
            self.requirements += choices.value_requirements(self.names, declaration, header)

    def _check_quotient(self, declaration: syntax.Quotient) -> None:
        representative = self.names.choices[declaration.representative.text]
        is_own = representative.span == declaration.representative.span
        own = representative if is_own and isinstance(representative, space.EnumChoice) else None
        quotient = quotients.check_quotient(self.names, declaration, own)
        if quotient is not None and own is not None:
            self.choices[own.name] = own
            self.quotients[quotient.set] = quotient

    def _check_require(
        self, foralls: tuple[syntax.Binding, ...], conditions: tuple[syntax.Expression, ...]
    ) -> None:
        scope = self.names.bind(foralls, {})
        if scope is None:
            return
        for condition in conditions:
            translator = Conditions(self.names, dict(scope))
            formula = translator.formula(condition)
            if formula is not None:
                holds = translator.truth(formula)
                if holds:
                    self.report.note("SP103", "this always holds", condition.span, "remove it")
                elif holds is False:
                    self.report.warning("SP104", "this never holds", condition.span)
                bound = tuple(translator.scope.values())
                self.requirements.append(space.Requirement(bound, formula, condition.span))

    def _check_trigger(self, declaration: syntax.Trigger) -> None:
        scope = self.names.bind(declaration.foralls, {})
        if scope is None:
            return
        callback = self.names.host(declaration.callback, scope, HostKind.CALLBACK)
        condition = Conditions(self.names, scope, Purpose.OBSERVED).formula(declaration.condition)
        if callback is not None and condition is not None:
            trigger = space.Trigger(tuple(scope.values()), callback, condition, declaration.span)
            self.triggers.append(trigger)

    # Remarks

    def _note_unused(self) -> None:
        for declaration in self.declarations:
            if isinstance(declaration, syntax.Set) and declaration.name.text not in self.names.used_sets:
                name = declaration.name
                self.report.note("SP101", f"set `{name.text}` is not used", name.span)
            choice = _choice_name(declaration)
            # A quantity that nothing limits may still be what generated code computes with.
            if isinstance(declaration, syntax.Quantity) or choice is None:
                continue
            if isinstance(declaration, syntax.Quotient) and declaration.name.text in self.names.used_sets:
                continue
            if choice.text not in self.names.used_choices:
                is_map = isinstance(declaration, syntax.Map)
                message = (
                    f"map `{choice.text}` is not used" if is_map else f"no constraint uses `{choice.text}`"
                )
                self.report.note("SP102", message, choice.span)


def _kind(declaration: syntax.Declaration) -> str:
    match declaration:
        case syntax.Quantity():
            return "quantity"
        case syntax.Map():
            return "map"
        case _:
            return "choice"


def _set_uses(declaration: syntax.Declaration) -> Iterator[syntax.SetUse]:
    """The sets that the header of what has a value, or of a map, names."""
    match declaration:
        case syntax.Map(_, params, target):
            yield target
        case syntax.Quotient(_, params, item):
            yield item.set
        case syntax.Quantity(_, params):
            pass
        case syntax.EnumChoice() | syntax.OrderedChoice() | syntax.IntegerChoice() | syntax.CounterChoice():
            params = declaration.params
        case _:
            params = ()
    yield from (param.set for param in params)


def _choice_name(declaration: syntax.Declaration) -> syntax.Name | None:
    """The name that a declaration adds to those of choices, counters, quantities and maps."""
    if isinstance(declaration, syntax.Quotient):
        return declaration.representative
    named = (*_ENUM, syntax.Quantity, syntax.Map)
    return declaration.name if isinstance(declaration, named) else None

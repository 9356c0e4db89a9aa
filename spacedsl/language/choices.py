"""Checks the declarations of choices: values, aliases, symmetry, universes, counters.

In: the choices of a file and the table of all names. Out: the choices of the typed space. It goes in two
steps: `declare` what other declarations can ask of a choice, then, with all choices known, `counter` and
`value_requirements`, which hold conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from spacedsl.diagnostics import Span
from spacedsl.language import space, syntax
from spacedsl.language.conditions import Conditions, Purpose
from spacedsl.language.cycles import by_need
from spacedsl.language.headers import CounterHeader, QuantityHeader, Valued
from spacedsl.language.host import HostExpression
from spacedsl.language.names import Names
from spacedsl.language.report import did_you_mean

Enum = syntax.EnumChoice | syntax.OrderedChoice

_COMMENTS = re.compile(r"(?:\s*//[^\r\n]*)*\s*")

MOST_VALUES = 64
"""The values of an enum are the bits of one word."""


def declare(names: Names, declaration: syntax.Choice, position: int) -> Valued | None:
    """What uses of the choice need to know; None where its header is wrong, which has been reported."""
    scope = names.parameters(declaration.params)
    params = None if scope is None else tuple(scope.values())
    match declaration:
        case syntax.OrderedChoice():
            return _ordered(names, declaration, params)
        case syntax.EnumChoice():
            return _enum(names, declaration, params)
        case syntax.IntegerChoice():
            universe = None if scope is None else names.host(declaration.universe, scope)
            if params is None or universe is None:
                return None
            return space.IntegerChoice(
                declaration.name.text, params, universe, declaration.doc, declaration.name.span
            )
        case syntax.CounterChoice():
            if params is None:
                return None
            return CounterHeader(
                name=declaration.name.text,
                params=params,
                visibility=space.Visibility(
                    declaration.visibility.text if declaration.visibility else "full"
                ),
                product=declaration.operation.text == "mul",
                position=position,
                span=declaration.name.span,
            )


def _enum(
    names: Names, declaration: syntax.EnumChoice, params: tuple[space.Binder, ...] | None
) -> space.EnumChoice | None:
    values = _values(names, declaration)
    aliases = _aliases(names, declaration, tuple(v.name.text for v in values))
    symmetry, inverse = _symmetry(names, declaration, tuple(v.name.text for v in values), params)
    if params is None or not values:
        return None
    return space.EnumChoice(
        name=declaration.name.text,
        params=params,
        values=tuple(v.name.text for v in values),
        value_docs=tuple(v.doc for v in values),
        aliases=aliases,
        symmetry=symmetry,
        inverse=inverse,
        doc=declaration.doc,
        span=declaration.name.span,
    )


def _ordered(
    names: Names, declaration: syntax.OrderedChoice, params: tuple[space.Binder, ...] | None
) -> space.EnumChoice | None:
    described = {i.name.text: i for i in declaration.items if isinstance(i, syntax.Value)}
    aliases = [i.name for i in declaration.items if isinstance(i, syntax.Alias)]
    _check_distinct(names, declaration, (*declaration.chain, *aliases))
    _check_distinct(names, declaration, (i.name for i in declaration.items if isinstance(i, syntax.Value)))
    values = tuple(dict.fromkeys(name.text for name in declaration.chain))
    _check_count(names, declaration, len(values))
    for item in described.values():
        if item.name.text not in values:
            hint = "give it a place in front: `LOW < HIGH`"
            message = f"`{item.name.text}` is not in the order of `{declaration.name.text}`"
            names.report.error("SP036", message, item.name.span, hint)
    for mark in declaration.items:
        if isinstance(mark, syntax.Symmetric | syntax.Antisymmetric):
            message = "an ordered enum has no symmetry"
            hint = "remove it, or declare `choice enum` with a `value` for each"
            names.report.error("SP035", message, mark.span, hint)
    masks = _aliases(names, declaration, values)
    if params is None:
        return None
    return space.EnumChoice(
        name=declaration.name.text,
        params=params,
        values=values,
        value_docs=tuple(described[v].doc if v in described else "" for v in values),
        aliases=masks,
        symmetry=space.Symmetry.NONE,
        inverse=tuple(range(len(values))),
        doc=declaration.doc,
        span=declaration.name.span,
        ordered=True,
    )


def _values(names: Names, declaration: syntax.EnumChoice) -> tuple[syntax.Value, ...]:
    items = [i for i in declaration.items if isinstance(i, syntax.Value | syntax.Alias)]
    _check_distinct(names, declaration, (item.name for item in items))
    values = {i.name.text: i for i in items if isinstance(i, syntax.Value)}
    if not values:
        hint = "add `value NAME:`"
        names.report.error("SP030", f"`{declaration.name.text}` has no values", declaration.name.span, hint)
    _check_count(names, declaration, len(values))
    return tuple(values.values())


def _check_distinct(names: Names, declaration: Enum, declared: Iterable[syntax.Name]) -> None:
    seen: dict[str, syntax.Name] = {}
    for name in declared:
        if name.text in seen:
            first = (seen[name.text].span, "it is declared here")
            message = f"`{name.text}` is declared twice in `{declaration.name.text}`"
            names.report.error("SP010", message, name.span, "rename one of the two", first)
        else:
            seen[name.text] = name


def _check_count(names: Names, declaration: Enum, count: int) -> None:
    if count > MOST_VALUES:
        message = f"`{declaration.name.text}` has {count} values; there may be {MOST_VALUES}"
        names.report.error("SP030", message, declaration.name.span, "split it into two choices")


def _aliases(names: Names, declaration: Enum, values: tuple[str, ...]) -> dict[str, int]:
    """Masks of the aliases in order of declaration; an alias may name aliases, before or after it."""
    written = {i.name.text: i for i in declaration.items if isinstance(i, syntax.Alias)}
    masks = {value: 1 << i for i, value in enumerate(values)}
    for alias in written.values():
        for name in alias.values:
            if name.text not in masks and name.text not in written:
                known = [*values, *written]
                hint = did_you_mean(name.text, known, f"it has {', '.join(known)}")
                message = f"`{declaration.name.text}` has no value `{name.text}`"
                names.report.error("SP014", message, name.span, hint)
    needs = {name: [v.text for v in alias.values if v.text in written] for name, alias in written.items()}
    order, cycles = by_need(needs)
    for cycle in cycles:
        span = written[cycle[0]].name.span
        names.report.error("SP034", f"alias `{cycle[0]}` stands for itself", span, " -> ".join(cycle))
    for alias_name in order:
        masks[alias_name] = 0
        for part in written[alias_name].values:
            masks[alias_name] |= masks.get(part.text, 0)
    return {name: masks[name] for name in written}


def _symmetry(
    names: Names,
    declaration: syntax.EnumChoice,
    values: tuple[str, ...],
    params: tuple[space.Binder, ...] | None,
) -> tuple[space.Symmetry, tuple[int, ...]]:
    identity = tuple(range(len(values)))
    marks = [i for i in declaration.items if isinstance(i, syntax.Symmetric | syntax.Antisymmetric)]
    if not marks:
        return space.Symmetry.NONE, identity
    if len(marks) > 1:
        message = "symmetry is declared twice"
        first = (marks[0].span, "it is declared here")
        names.report.error("SP032", message, marks[1].span, "keep one of the two", first)
    if params is not None and (len(params) != 2 or params[0].set != params[1].set):
        given = " and ".join(str(names.meant(p.set)) for p in params) or "none"
        message = f"a choice with symmetry has two parameters of one set, not {given}"
        names.report.error("SP031", message, declaration.name.span, "`($a in S, $b in S)`")
    mark = marks[0]
    if isinstance(mark, syntax.Symmetric):
        return space.Symmetry.SYMMETRIC, identity
    return space.Symmetry.ANTISYMMETRIC, _inverse(names, declaration, mark, values)


def _inverse(
    names: Names, declaration: syntax.EnumChoice, mark: syntax.Antisymmetric, values: tuple[str, ...]
) -> tuple[int, ...]:
    inverse = list(range(len(values)))
    paired: dict[str, syntax.Name] = {}
    for pair in mark.pairs:
        known = True
        for name in pair:
            if name.text not in values:
                hint = did_you_mean(name.text, values, f"it has {', '.join(values)}")
                message = f"`{declaration.name.text}` has no value `{name.text}`"
                names.report.error("SP014", message, name.span, hint)
                known = False
            elif name.text in paired:
                first = (paired[name.text].span, "it is paired here")
                hint = "a value has one inverse; values that are not listed are their own"
                names.report.error("SP033", f"`{name.text}` is in two pairs", name.span, hint, first)
                known = False
            else:
                paired[name.text] = name
        if known:
            left, right = (values.index(name.text) for name in pair)
            inverse[left], inverse[right] = right, left
    return tuple(inverse)


def value_requirements(names: Names, declaration: Enum, choice: space.EnumChoice) -> list[space.Requirement]:
    """`value V: requires F` as constraints: the choice is not V, or F holds."""
    requirements: list[space.Requirement] = []
    use = space.Use(choice.name, tuple(p.name for p in choice.params))
    params = {p.name: p for p in choice.params}
    for item in declaration.items:
        if not isinstance(item, syntax.Value | syntax.Alias):
            continue
        if item.name.text not in choice.values and item.name.text not in choice.aliases:
            continue  # reported with the header
        others = choice.full & ~choice.mask(item.name.text)
        for requires in item.requires:
            names.used_choices.add(choice.name)
            scope = names.bind(requires.foralls, params)
            if scope is None:
                continue
            for condition in requires.conditions:
                conditions = Conditions(names, dict(scope))
                formula = conditions.formula(condition)
                if formula is not None:
                    _remark(conditions, item, formula, condition.span)
                    either = space.Or((space.Is(use, others, item.name.span), formula))
                    foralls = tuple(conditions.scope.values())
                    requirements.append(space.Requirement(foralls, either, condition.span))
    return requirements


def _remark(
    conditions: Conditions, item: syntax.Value | syntax.Alias, formula: space.Formula, span: Span
) -> None:
    holds = conditions.truth(formula)
    if holds:
        conditions.report.note("SP103", "this always holds", span, "remove it")
    elif holds is False:
        message = f"`{item.name.text}` can never be taken: this never holds"
        conditions.report.warning("SP105", message, span)


def counter(names: Names, declaration: syntax.CounterChoice, header: CounterHeader) -> space.Counter | None:
    """The counter; None where something is wrong with it, which has been reported."""
    params = {p.name: p for p in header.params}
    scope = names.bind(declaration.foralls, params)
    base = _constant(names, declaration.base, params, 1 if header.product else 0)
    if scope is None:
        return None
    conditions = Conditions(names, scope, Purpose.OBSERVED, header.position)
    value = _amount(names, declaration.amount, header, conditions)
    parts = [conditions.formula(c) for c in declaration.conditions]
    if base is None or value is None or None in parts:
        return None
    formulas = tuple(p for p in parts if p is not None)
    return space.Counter(
        name=header.name,
        params=header.params,
        foralls=tuple(scope.values())[len(header.params) :],
        visibility=header.visibility,
        product=header.product,
        base=base,
        value=value,
        condition=formulas[0] if len(formulas) == 1 else space.And(formulas),
        doc=declaration.doc,
        span=declaration.name.span,
        definition=_definition(declaration),
    )


def _definition(declaration: syntax.CounterChoice) -> Span:
    """Without the comment above it."""
    whole = declaration.span
    comment = _COMMENTS.match(whole.source.text, whole.start)
    return Span(whole.source, comment.end() if comment else whole.start, whole.end)


def _constant(
    names: Names, written: syntax.Number | syntax.Host | None, scope: dict[str, space.Binder], neutral: int
) -> int | HostExpression | None:
    if written is None:
        return neutral
    if isinstance(written, syntax.Host):
        return names.host(written, scope)
    return _at_least(names, written, neutral)


def _at_least(names: Names, written: syntax.Number, neutral: int) -> int | None:
    if written.value < neutral:
        message = "a factor of 0: what is multiplied is at least 1"
        names.report.error("SP045", message, written.span, "to count, write `sum 1`")
        return None
    return written.value


def _amount(
    names: Names,
    written: syntax.Number | syntax.Host | syntax.Use,
    header: CounterHeader,
    conditions: Conditions,
) -> int | HostExpression | space.Use | None:
    """What is added or multiplied for each binding."""
    if isinstance(written, syntax.Number):
        return _at_least(names, written, 1 if header.product else 0)
    if isinstance(written, syntax.Host):
        return names.host(written, conditions.scope)
    found = names.use(written, conditions.scope)
    if found is None:
        return None
    use, choice = found
    if isinstance(choice, space.EnumChoice):
        message = f"`{use.choice}` is an enum: it has no number to count"
        names.report.error("SP041", message, written.span, "count a number `when:` it has a value")
        return None
    if isinstance(choice, QuantityHeader):
        message = f"`{use.choice}` is a quantity: a counter adds integer choices and counters"
        hint = "declare a quantity with `sum $x in SET: ..` instead of the counter"
        names.report.error("SP041", message, written.span, hint)
        return None
    if isinstance(choice, CounterHeader) and not _counts(names, written, header, choice, conditions):
        return None
    return use


def _counts(
    names: Names, written: syntax.Use, header: CounterHeader, inner: CounterHeader, conditions: Conditions
) -> bool:
    """Whether a counter may be made of another."""
    declared = (inner.span, "declared here")
    if not conditions.declared_before(inner):
        message = f"`{inner.name}` is declared after the counter that uses it"
        names.report.error("SP040", message, written.span, "move its declaration up", declared)
        return False
    if header.product and not inner.product:
        message = f"a product of `{inner.name}`, which is a sum"
        names.report.error("SP042", message, written.span, "multiply products, or add sums", declared)
        return False
    shown = (space.Visibility.HALF, space.Visibility.INTERNAL, space.Visibility.FULL)
    if shown.index(inner.visibility) < shown.index(header.visibility):
        message = f"`{inner.name}` shows less than the counter that uses it"
        hint = f"declare `{inner.name}` without `{inner.visibility.value}`"
        names.report.error("SP043", message, written.span, hint, declared)
        return False
    return True

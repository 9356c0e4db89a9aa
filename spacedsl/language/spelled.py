"""Orderings that are spelled out where there is no room for a file: `--ordering` and keys of kernel files.

In: a checked space and a text, items as in an `ordering` declaration with commas between them and `|` between
the groups of one. Out: a `space.Ordering`, by the same grammar and the same checks as those of files.
"""

from __future__ import annotations

import re
from dataclasses import replace

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from spacedsl.language import space, syntax
from spacedsl.language.headers import CounterHeader, Declared, QuantityHeader, SetHeader
from spacedsl.language.names import Names
from spacedsl.language.orderings import Listing
from spacedsl.language.parser import parse_spelled
from spacedsl.language.report import Report, did_you_mean


def spelled_ordering(of: space.Space, source: Source) -> space.Ordering:
    """The ordering that a text spells out; raises `DiagnosticError` with all that is wrong.

    What no file forbids but says nothing (a choice that is never decided) is an error here.
    """
    _check_single_name(of, source)
    declaration = parse_spelled(source)
    names = names_of(of)
    representatives = frozenset(q.representative for q in of.quotients.values())
    ordering = Listing(names, representatives).ordering(declaration)
    if ordering is None or names.report.problems:
        problems = sorted(names.report.problems, key=lambda p: p.span.start)
        raise DiagnosticError(replace(p, severity=Severity.ERROR) for p in problems)
    return ordering


def _check_single_name(of: space.Space, source: Source) -> None:
    """A name by itself may have been meant as that of an ordering."""
    name = source.text.strip()
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or name in of.choices:
        return
    decided = [choice for choice in of.choices if not of.is_derived(choice)]
    start = source.text.index(name)
    known = f"orderings: {', '.join(of.orderings) or 'none'}; choices: {', '.join(decided)}"
    raise DiagnosticError(
        [
            Diagnostic(
                "SP085",
                f"`{name}` is neither an ordering nor a choice of this space",
                Span(source, start, start + len(name)),
                did_you_mean(name, [*of.orderings, *decided], known),
            )
        ]
    )


def names_of(of: space.Space) -> Names:
    """The table of names with which a space was checked."""
    choices: dict[str, Declared] = {}
    for choice in of.choices.values():
        if isinstance(choice, space.Counter):
            choices[choice.name] = CounterHeader(
                choice.name, choice.params, choice.visibility, choice.product, 0, choice.span
            )
        else:
            choices[choice.name] = choice
    for quantity in of.quantities.values():
        choices[quantity.name] = QuantityHeader(
            quantity.name, quantity.params, quantity.values, quantity.span
        )
    choices |= of.maps
    names = Names(Report(), choices=choices)
    names.images = {s.name: s for s in of.sets.values() if isinstance(s.iterator, space.Image)}
    names.quotients = frozenset(of.quotients)
    for each in of.sets.values():
        if each.name not in names.images:
            names.sets[each.name] = _set_names(names, each.name, each.params, each.supersets, each.span)
    for quotient in of.quotients.values():
        above = (quotient.item.set,)
        names.sets[quotient.set] = _set_names(names, quotient.set, quotient.params, above, quotient.span)
    return names


def _set_names(
    names: Names,
    name: str,
    params: tuple[space.Binder, ...],
    supersets: tuple[space.SetRef, ...],
    span: Span,
) -> SetHeader:
    return SetHeader(
        syntax.Name(name, span),
        tuple(param.name for param in params),
        tuple(names.meant(param.set) for param in params),
        tuple(names.meant(superset) for superset in supersets),
    )

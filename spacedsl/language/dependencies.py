"""What follows from what: cycles among counters, quantities and representatives.

In: the counters, quantities and quotients of a space. Out: an error for each cycle that no kernel can make
good. Instances of quantities may refer to each other as long as their graph has no cycle, which only a
kernel shows; what is certain before is a quantity on the same objects again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from spacedsl.language import space
from spacedsl.language.cycles import by_need
from spacedsl.language.reading import formula_uses, term_parts
from spacedsl.language.report import Report


def check_dependencies(
    report: Report,
    counters: Iterable[space.Counter],
    quantities: Mapping[str, space.Quantity],
    quotients: Mapping[str, space.Quotient],
) -> None:
    """Reports each cycle at the quantity, counter or quotient on it that is declared first."""
    counters = tuple(counters)
    spans = {c.name: c.span for c in counters}
    spans |= {q.name: q.span for q in quantities.values()}
    spans |= {q.representative: q.span for q in quotients.values()}
    needs = {c.name: list(_of_counter(c, quotients)) for c in counters}
    needs |= {q.name: list(_of_term(q.body, quotients)) for q in quantities.values()}
    needs |= {q.representative: list(_of_quotient(q, quotients)) for q in quotients.values()}
    known = {name: [n for n in needed if n in needs] for name, needed in needs.items()}
    for cycle in by_need(known)[1]:
        if any(name not in quantities for name in cycle):
            names = sorted(set(cycle), key=lambda name: spans[name].start)
            message = f"`{names[0]}` depends on itself"
            hint = f"{' -> '.join(cycle)}: only quantities may, on other objects"
            report.error("SP049", message, spans[names[0]], hint)
    certain = {name: list(_certain(quantity, quantity.body)) for name, quantity in quantities.items()}
    for cycle in by_need(certain)[1]:
        message = f"`{cycle[0]}` is computed from itself on the same objects"
        report.error("SP049", message, spans[cycle[0]], " -> ".join(cycle))


def _certain(quantity: space.Quantity, term: space.Term) -> Iterator[str]:
    """The quantities that every instance needs on the very same objects."""
    match term:
        case space.Reading(use):
            if use.args == tuple(p.name for p in quantity.params):
                yield use.choice
        case space.Conditional(condition):
            yield from (
                use.choice
                for use in formula_uses(condition)
                if use.args == tuple(p.name for p in quantity.params)
            )
        case space.Case() | space.Aggregate():
            pass  # a branch may not exist, a set may be empty
        case _:
            for part in term_parts(term):
                yield from _certain(quantity, part)


def _of_term(term: space.Term, quotients: Mapping[str, space.Quotient]) -> Iterator[str]:
    match term:
        case space.Reading(use) | space.Case(use):
            yield use.choice
        case space.Conditional(condition):
            yield from (use.choice for use in formula_uses(condition))
        case space.Aggregate(_, binder):
            yield from _of_binders([binder], quotients)
    for part in term_parts(term):
        yield from _of_term(part, quotients)


def _of_counter(counter: space.Counter, quotients: Mapping[str, space.Quotient]) -> Iterator[str]:
    yield from _of_binders(counter.foralls, quotients)
    yield from (use.choice for use in formula_uses(counter.condition))
    if isinstance(counter.value, space.Use):
        yield counter.value.choice


def _of_quotient(quotient: space.Quotient, quotients: Mapping[str, space.Quotient]) -> Iterator[str]:
    yield from _of_binders((*quotient.params, quotient.item), quotients)
    yield from (use.choice for use in formula_uses(quotient.condition))
    yield quotient.equivalence


def _of_binders(binders: Iterable[space.Binder], quotients: Mapping[str, space.Quotient]) -> Iterator[str]:
    for binder in binders:
        if binder.set.name in quotients:
            yield quotients[binder.set.name].representative

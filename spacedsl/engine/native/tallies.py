"""Which counters follow their contributions one by one, and where the contributions lie.

In: the propagators, the sets of an instance. Out: `Tallies`, the arrays of `compiler/c/totals.h`. A counter
of few contributions has none: computing it from all of them takes no longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from spacedsl.compiler.c.counts import counter_of
from spacedsl.compiler.c.tables import PAIR
from spacedsl.compiler.ir import Propagator
from spacedsl.engine.native.bindings import Relations

Key = tuple[int, ...]
FEWEST = 16
"""Contributions of a counter that is worth a tally."""
MOST_PLACES = 1 << 22
"""Of the table in which the place of a contribution of three objects or more is looked up."""


@dataclass(slots=True)
class Tallies:
    places: dict[str, dict[Key, int]] = field(default_factory=dict)
    """By counter: of each contribution, by the objects of its parameters and of what is quantified."""
    cells: list[int] = field(default_factory=list)
    """By tally: its counter's."""
    rows: list[tuple[int, int, int]] = field(default_factory=list)
    """By tally: the first of its places, which is that of the base, how many, whether it is a product."""
    count: int = 1
    """Of all places; place 0 is that of no contribution."""


def tallied(propagators: Iterable[Propagator], relations: Relations) -> Tallies:
    """The counters of many contributions."""
    tallies = Tallies()
    for propagator in propagators:
        for cell, keys in _contributions(propagator, relations).items():
            if len(keys) >= FEWEST:
                _add(tallies, propagator, cell, keys)
    return tallies


def _add(tallies: Tallies, propagator: Propagator, cell: int, keys: list[Key]) -> None:
    assert propagator.contribution is not None
    places = tallies.places.setdefault(counter_of(propagator), {})
    first = tallies.count
    places.update((key, first + number) for number, key in enumerate(keys, 1))
    tallies.cells.append(cell)
    tallies.rows.append((first, 1 + len(keys), int(propagator.contribution.product)))
    tallies.count += 1 + len(keys)


def _contributions(propagator: Propagator, relations: Relations) -> dict[int, list[Key]]:
    """By cell of the counter: the objects of all its contributions."""
    found = propagator.contribution
    if found is None:
        return {}
    counters = relations.enumerate(propagator.loops, {})
    bindings = relations.enumerate(found.loops, relations.filtered(found.tests, counters))
    columns = [bindings[name].tolist() for name in found.arguments]
    if len(columns) > PAIR and prod(len(set(column)) for column in columns) > MOST_PLACES:
        return {}
    cells = relations.statics.layout.cells[counter_of(propagator)]
    arity = len(propagator.arguments)
    by_cell: dict[int, list[Key]] = {}
    for key in zip(*columns, strict=True):
        by_cell.setdefault(cells[key[:arity]], []).append(key)
    return by_cell

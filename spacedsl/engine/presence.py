"""Presence in spaces with triggers: what follows when a membership or a firing has been decided.

In: the reasons of memberships, and the propagators that ask for presence. Out: the wakes of the words that
hold them. A membership is certain once one of its reasons is, impossible once all are; a reason is certain
once all that it names is, impossible once one thing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from spacedsl.compiler.ir import Entry, Module
from spacedsl.engine.layout import ABSENT, CERTAIN, PRESENT, Layout
from spacedsl.engine.static import Statics
from spacedsl.engine.triggers import Expansion, Fact
from spacedsl.engine.wakes import Call, Wakes
from spacedsl.language.space import Space


class Certain(dict[Any, int]):
    """The words of memberships; what is not among them is there from the start."""

    def __missing__(self, key: object) -> int:
        return CERTAIN


def presence_tables(space: Space, layout: Layout) -> dict[str, object]:
    """`present_SET` and `fired_N` for a namespace: words by object ids, a set's arguments first."""
    sets: dict[str, Certain] = {name: Certain() for name in space.sets}
    for (name, key, member), cell in layout.presence.items():
        sets[name][(*key, member) if key else member] = cell
    found: dict[str, object] = {f"present_{name}": table for name, table in sets.items()}
    for number, trigger in enumerate(space.triggers):
        cells = {key: cell for (fired, key), cell in layout.firings.items() if fired == number}
        if not trigger.foralls:
            found[f"fired_{number}"] = cells.get((), CERTAIN)
        elif len(trigger.foralls) == 1:
            found[f"fired_{number}"] = {key[0]: cell for key, cell in cells.items()}
        else:
            found[f"fired_{number}"] = cells
    return found


def reason_cells(layout: Layout, expansion: Expansion) -> Iterator[tuple[int, tuple[tuple[int, ...], ...]]]:
    """The word of each membership that is not there from the start, and for each reason of it its words."""
    for fact, cell in layout.presence.items():
        reasons = []
        for reason in expansion.reasons[fact]:
            words = [layout.presence.get(needed, CERTAIN) for needed in reason.facts]
            if reason.firing is not None:
                words.append(layout.firings[reason.firing.trigger, reason.firing.key])
            reasons.append(tuple(dict.fromkeys(words)))
        yield cell, tuple(reasons)


@dataclass(slots=True, eq=False)
class PresenceWakes:
    module: Module
    layout: Layout
    statics: Statics
    expansion: Expansion
    namespace: dict[str, Any]
    _facts: dict[int, Fact] = field(default_factory=dict)
    _updates: dict[int, list[Call]] = field(default_factory=dict)
    """By word of a membership or a firing: what recomputes the memberships that it is a reason for."""

    def __post_init__(self) -> None:
        self._facts = {cell: fact for fact, cell in self.layout.presence.items()}
        update = self.namespace["update_presence"]
        for cell, reasons in reason_cells(self.layout, self.expansion):
            call: Call = (update, (cell, reasons))
            for reads in dict.fromkeys(c for reason in reasons for c in reason):
                self._updates.setdefault(reads, []).append(call)

    def woken_by(self, cell: int) -> Wakes:
        """The memberships that depend on it, and the propagators whose variables range over its set."""
        always = list(self._updates.get(cell, ()))
        once_present: list[Call] = []
        counters: list[tuple[Any, ...]] = []
        fact = self._facts.get(cell)
        if fact is not None:
            for propagator in self.module.propagators:
                for entry in propagator.entries:
                    if entry.set.name != fact[0] or not self._applies(entry, fact):
                        continue
                    function = self.namespace[entry.name]
                    if propagator.deferred and not entry.loops:
                        counters.append((function, *([fact[2]] if propagator.arguments else ())))
                    else:
                        (once_present if entry.certain else always).append((function, (fact[2],)))
        gated = ((ABSENT, tuple(once_present)),) if once_present else ()
        return Wakes(tuple(always), gated, tuple(counters), ())

    def _applies(self, entry: Entry, fact: Fact) -> bool:
        """A set named with its arguments concerns its instances, one named without them the union."""
        if (fact[1] is None) != (
            not entry.set.args and bool(self.statics.objects.space.sets[fact[0]].params)
        ):
            return False
        return all(self.statics.holds(test, {entry.variable: fact[2]}) for test in entry.tests)


def presence_update(namespace: Mapping[str, Any]) -> Callable[..., None]:
    """The function that recomputes a membership from its reasons, for a namespace of propagators."""
    v, narrow = namespace["v"], namespace["narrow"]

    def update(cell: int, reasons: tuple[tuple[int, ...], ...]) -> None:
        """What is known of a membership's reasons, as far as it is not known of the membership yet."""
        if any(all(v[c] == PRESENT for c in reason) for reason in reasons):
            mask = v[cell] & PRESENT
        elif all(any(v[c] == ABSENT for c in reason) for reason in reasons):
            mask = v[cell] & ABSENT
        else:
            return
        if mask != v[cell]:
            narrow(cell, mask)

    return update

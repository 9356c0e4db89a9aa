"""Printing of what a change runs: one function for each choice, and for the memberships of each set.

In: the propagators. Out: `Source` values, whose sites have a bit each, and their functions. A cell has the
bits of those sites whose static tests its objects pass, so a change runs `active & changed` of them, where
`changed` says which propagators can notice the change at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from spacedsl.compiler.c.counts import CountPrinter, counter_of
from spacedsl.compiler.c.names import function_name, indent, variable_name, word_literal
from spacedsl.compiler.c.sensitivity import signatures
from spacedsl.compiler.c.tables import StaticTables
from spacedsl.compiler.ir import Entry, InMask, Module, Propagator, Satisfies, Wake
from spacedsl.language.space import Choice, EnumChoice, IntegerChoice, Space

WORD_BITS = 64
MOST_NOTICED_VALUES = 6
"""Enums of more values have no table of what notices which change: they have gates."""


@dataclass(frozen=True, slots=True)
class Site:
    """A wake of a choice, in one of its orientations, or an entry of a set."""

    propagator: Propagator
    wake: Wake | Entry
    is_swapped: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """Bound, in order, to the objects of the cell."""
        if isinstance(self.wake, Entry):
            return (self.wake.variable,)
        return self.wake.use.args[::-1] if self.is_swapped else self.wake.use.args


@dataclass(frozen=True, slots=True)
class Source:
    """What changes: the domains of a choice, or memberships in a set (or in the union of its instances)."""

    number: int
    name: str
    is_set: bool
    is_union: bool
    sites: tuple[Site, ...] = field(repr=False)

    @property
    def words(self) -> int:
        """Of the bits of its sites."""
        return -(-len(self.sites) // WORD_BITS)


def sources(module: Module, space: Space) -> tuple[Source, ...]:
    """Numbered from 1; a cell of number 0 wakes nothing."""
    found: list[Source] = []
    for choice in space.choices.values():
        sites = [
            Site(propagator, wake, is_swapped)
            for propagator in module.propagators
            for wake in propagator.wakes
            if wake.use.choice == choice.name
            for is_swapped in ((False, True) if wake.mirrored else (False,))
        ]
        found.append(Source(len(found) + 1, choice.name, False, False, tuple(sites)))
    if space.triggers:
        for name, definition in space.sets.items():
            for is_union in (False, True) if definition.params else (False,):
                sites = [
                    Site(propagator, entry)
                    for propagator in module.propagators
                    for entry in propagator.entries
                    if entry.set.name == name and is_union is bool(definition.params and not entry.set.args)
                ]
                found.append(Source(len(found) + 1, name, True, is_union, tuple(sites)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class WakePrinter:
    module: Module
    space: Space
    tables: StaticTables

    def function(self, source: Source) -> list[str]:
        """`wake_N`: everything that a change of a cell of this source runs."""
        choice = None if source.is_set else self.space.choices[source.name]
        arity = max(len(site.variables) for site in source.sites)
        is_noticed = isinstance(choice, EnumChoice) and len(choice.values) <= MOST_NOTICED_VALUES
        lines = ["const int32_t *const key = key_of(s, cell);"] if arity else []
        lines += [f"const int32_t k{place} = key[{place}];" for place in range(arity)]
        lines += ["const Word *const active = s->of->active + s->of->cells[cell].active;"]
        if isinstance(choice, IntegerChoice):
            lines += ["Word before[MASK_WORDS];", "memcpy(before, s->before + cell, sizeof before);"]
        else:
            lines += ["const Word before = s->before[cell], now = s->v[cell];"]
        for word in range(source.words):
            noticed = f" & changed_{source.number}[before][now][{word}]" if is_noticed else ""
            lines.append(f"const Word on{word} = active[{word}]{noticed};")
        for bit, site in enumerate(source.sites):
            gate = "" if is_noticed else self._gate(site, choice)
            lines += [
                f"if (on{bit // WORD_BITS} >> {bit % WORD_BITS} & 1{gate}) {{",
                *indent(self._bound(site)),
                *indent(self._call(site)),
                "}",
            ]
        return [
            f"/* {source.name} */",
            f"static bool wake_{source.number}(State *s, int32_t cell)",
            "{",
            *indent([*lines, "return true;"]),
            "}",
        ]

    def changed(self, source: Source) -> list[str]:
        """`changed_N[before][now]`: the bits of the sites that notice the change of an enum domain."""
        choice = self.space.choices.get(source.name)
        if source.is_set or not isinstance(choice, EnumChoice) or len(choice.values) > MOST_NOTICED_VALUES:
            return []
        size = choice.full + 1
        notices = [[[0] * source.words for _ in range(size)] for _ in range(size)]
        for bit, site in enumerate(source.sites):
            assert isinstance(site.wake, Wake)
            found = signatures(site.propagator, site.wake.use, self.module.tables, self.space)
            masks = [choice.invert(mask) if site.is_swapped else mask for mask in range(size)]
            for before in range(size):
                for now in range(size):
                    if now & ~before == 0 and found[masks[before]] != found[masks[now]]:
                        notices[before][now][bit // WORD_BITS] |= 1 << bit % WORD_BITS
        rows = (
            "{" + ", ".join("{" + ", ".join(map(word_literal, bits)) + "}" for bits in row) + "}"
            for row in notices
        )
        declaration = f"static const Word changed_{source.number}[{size}][{size}][{source.words}] = {{"
        return [declaration, *indent(f"{row}," for row in rows), "};"]

    def _gate(self, site: Site, choice: Choice | None) -> str:
        """A further condition: what the site waits for has just become impossible."""
        wake = site.wake
        if isinstance(wake, Entry):
            return " && before & ABSENT && !(now & ABSENT)" if wake.certain else ""
        if isinstance(wake.gate, InMask):
            assert isinstance(choice, EnumChoice)
            mask = word_literal(choice.invert(wake.gate.mask) if site.is_swapped else wake.gate.mask)
            return f" && before & {mask} && !(now & {mask})"
        return ""

    def _call(self, site: Site) -> list[str]:
        propagator, wake = site.propagator, site.wake
        if isinstance(wake, Wake) and isinstance(wake.gate, Satisfies):
            lost = f"lost_all(s, cell, before, {self.tables.mask(wake.gate)})"
            return _unless_false(f"{lost} && ", self._function(site))
        if wake.loops or not propagator.deferred:
            return _unless_false("", self._function(site))
        counter = counter_of(propagator)
        if isinstance(wake, Wake) and wake.use.choice == counter:
            # Its own interval: computed again where anything but its contributions limited it.
            return ["if (before)", "    compute_later(s, cell);"]
        return CountPrinter(propagator, self.tables).changed()

    @staticmethod
    def _bound(site: Site) -> list[str]:
        names = (variable_name(variable) for variable in site.variables)
        return [f"const int32_t {name} = k{place};" for place, name in enumerate(names)]

    @staticmethod
    def _function(site: Site) -> str:
        wake = site.wake
        variables = site.propagator.arguments
        if wake.loops:
            variables = (wake.variable,) if isinstance(wake, Entry) else wake.use.args
        return call(wake.name, variables)


def call(name: str, variables: Iterable[str]) -> str:
    return f"{function_name(name)}(s{''.join(f', {variable_name(v)}' for v in variables)})"


def _unless_false(condition: str, function: str) -> list[str]:
    return [f"if ({condition}!{function})", "    return false;"]

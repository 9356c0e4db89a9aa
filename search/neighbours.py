"""Implementations near one that is known: large neighbourhood search, with propagation as the repair.

In: implementations that were measured, fastest first, the cut, a generator. Out: an implementation near one
of them, or none. One choice gets another value, or all between some groups of objects are drawn anew, or as
another implementation has them; all others stay as they were where the constraints allow it, and a rollout
decides the rest. So it is propagation that says what goes along (Perron, Shaw and Furnon, CP 2004). Nothing
is measured here, and the tree is not touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.domain_table import Numbers
from spacedsl.engine.domains import bits
from spacedsl.engine.instance import Variable
from spacedsl.search.costs.model import Decisions, Plan
from spacedsl.search.descent import Descent
from spacedsl.search.offers import Offers, Values
from spacedsl.search.partitions import Partition
from spacedsl.search.remembered import Remembered
from spacedsl.search.rollouts import Bounded, Cut, Implementation
from spacedsl.search.tree import Step, replay

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Of an implementation, and of the way to it from the root."""

    decided: Mapping[str, Sequence[Variable]]
    """By choice, on the way."""
    before: Mapping[int, Candidate]
    """Where each of these is decided first, by its number."""
    offers: dict[str, Offers] = field(default_factory=dict, init=False)
    """By choice, once they have been asked for."""


UNLIKE = 3
"""Decisions in which implementations differ that are each worth neighbours of their own."""

GROUPS = 2
"""Of objects: so many at most are relaxed, or taken over, at once."""

REDRAWN, REDRAWN_IN_WALKS = 24, 4
"""How often that is drawn until one needs no more than the known implementation does: before a measurement,
and before an estimate, which takes no longer than a few draws.
"""


def unlike(implementations: Iterable[Sequence[Step]]) -> Iterator[Sequence[Step]]:
    """Those that differ from each one before them: of implementations that are alike, the first.

    So niches are cleared in evolutionary search (Pétrowski, ICEC 1996): else, of a good implementation and
    what hardly differs from it, all are among the fastest, and little else is.
    """
    kept: list[frozenset[Step]] = []
    for steps in implementations:
        decided = frozenset(steps)
        if all(len(decided ^ other) >= 2 * UNLIKE for other in kept):
            kept.append(decided)
            yield steps


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """`root`: the candidate that all implementations of the search lie below."""

    descent: Descent
    root: Candidate
    partitions: Sequence[Partition] = ()
    """What can be relaxed; where there are none, one decision changes at a time."""
    share_relaxed: float = 0.5
    """Of the neighbours: for these, all choices between groups are drawn anew."""
    rank: float = 0.5
    """Each known implementation is passed over for the next slower one with probability 1 - `rank`."""
    open: Mapping[str, Sequence[Variable]] = field(init=False, repr=False)
    """What the root leaves open, by choice."""
    _values: Callable[[str], Values] = field(init=False, repr=False)
    _around: Remembered[Surroundings] = field(init=False, repr=False)
    """Walks ask for neighbours of the same implementation again and again; of two, where they are crossed."""

    def __post_init__(self) -> None:
        variables_of = self.descent.instance.variables_of
        object.__setattr__(self, "_values", cache(lambda choice: Values.of(variables_of(choice))))
        object.__setattr__(self, "_around", Remembered(self._surroundings, 2))
        is_open = _by_choice(v for v in self.descent.instance.variables if self.root.is_open(v))
        object.__setattr__(self, "open", is_open)

    def draw(self, known: Sequence[Sequence[Step]], cut: Cut, rng: np.random.Generator) -> Candidate | None:
        """A neighbour of one of the known implementations, each given by the steps that lead to it."""
        implementation = self.known(known, rng)
        if self.partitions and float(rng.random()) < self.share_relaxed:
            return self._relaxed(implementation, _drawn(self.partitions, rng), REDRAWN, cut, rng)
        start = self._changed(implementation, None, rng)
        return None if start is None else self._completed(start, cut, rng)

    def known(self, known: Sequence[Sequence[Step]], rng: np.random.Generator) -> Candidate:
        """One of the known implementations itself, as likely as `draw` takes a neighbour of it."""
        steps = known[min(int(rng.geometric(self.rank)), len(known)) - 1]
        return replay(self.descent.instance, self.root, steps)

    def like(self, known: Candidate, cut: Cut, rng: np.random.Generator) -> Candidate | None:
        """An implementation below the root, as like a known one, which need not lie there, as it can be."""
        instance = self.descent.instance
        start = instance.like(self.root, known, _in_turns(_by_choice(instance.variables), rng))
        return self._completed(start, cut, rng)

    def beside(
        self, known: Candidate, choice: str | None, cut: Cut, rng: np.random.Generator
    ) -> Candidate | None:
        """An implementation in which one decision, of a choice or of any, is another one, and little else of
        what the root leaves open. What triggers add to the root is drawn anew.
        """
        instance, by_choice = self.descent.instance, self.open
        if not by_choice:
            return None
        changed = _drawn(by_choice[choice or _drawn(list(by_choice), rng)], rng)
        values = list(bits(self.root.mask(changed) & ~known.mask(changed)))
        candidate = instance.restrict(self.root, changed, _drawn(values, rng)) if values else None
        if candidate is None:
            return None
        return self._completed(instance.like(candidate, known, _in_turns(by_choice, rng)), cut, rng)

    def changed(
        self, known: Candidate, choice: str | None, cut: Cut, rng: np.random.Generator
    ) -> Candidate | None:
        """The same, also of what triggers add, which stays as far as it can. Takes half as long again."""
        start = self._changed(known, choice, rng)
        return None if start is None else self._completed(start, cut, rng)

    def with_decisions(
        self, known: Candidate, decisions: Decisions, cut: Cut, rng: np.random.Generator
    ) -> Candidate | None:
        """An implementation with these decisions, as far as the constraints allow it, and otherwise as like a
        known one as it can be.
        """
        instance = self.descent.instance
        plan = [(instance.variables[variable], mask) for variable, mask in decisions]
        start = instance.restrict_allowed(self.root, plan)
        return self._completed(instance.like(start, known, _in_turns(self.open, rng)), cut, rng)

    def crossed(
        self, one: Candidate, other: Candidate, cut: Cut, rng: np.random.Generator
    ) -> Candidate | None:
        """An implementation with what the other one has of one or two groups of a partition, and otherwise as
        like the first as it can be.
        """
        instance = self.descent.instance
        freed = _drawn_groups(_drawn(self.partitions, rng), rng)
        taken = [v for v in _in_turns(self._around(other).decided, rng) if v.index in freed]
        kept = _in_turns(self._around(one).decided, rng)
        start = instance.like(self.root, other, taken)
        return self._completed(instance.like(start, one, kept), cut, rng)

    def planned(self, plan: Plan, cut: Cut, rng: np.random.Generator) -> Candidate | None:
        """An implementation that keeps to a plan as far as the constraints allow it."""
        return self._completed(self.descent.instance.restrict_allowed(self.root, plan), cut, rng)

    def _completed(self, start: Candidate, cut: Cut, rng: np.random.Generator) -> Candidate | None:
        bounded = Bounded(start, self.descent.bound(start))
        if cut.excludes(bounded.bound_ns):
            return None
        end = self.descent.completed(bounded, cut, rng)
        return end.end.candidate if isinstance(end, Implementation) else None

    def relaxed(
        self, known: Candidate, partition: Partition, cut: Cut, rng: np.random.Generator
    ) -> Candidate | None:
        """An implementation in which choices between groups of the partition are drawn anew."""
        return self._relaxed(known, partition, REDRAWN_IN_WALKS, cut, rng)

    def _relaxed(
        self, known: Candidate, partition: Partition, tries: int, cut: Cut, rng: np.random.Generator
    ) -> Candidate | None:
        """An implementation as much like the known one as it can be when all choices between one or two
        groups of objects and the others are drawn anew.

        The first whose resources together need no more than the known one's, or that which needs least: of
        what is drawn so freely, most is slower, and needs say so.
        """
        instance = self.descent.instance
        most_ns, least_ns = self.descent.needed_ns(known), math.inf
        least: Candidate | None = None
        variables = self._around(known).decided
        for _ in range(tries):
            freed = _drawn_groups(partition, rng)
            kept = [variable for variable in _in_turns(variables, rng) if variable.index not in freed]
            found = self._completed(instance.like(self.root, known, kept), cut, rng)
            if found is None or found.vector == known.vector:
                continue
            needed_ns = self.descent.needed_ns(found)
            if needed_ns <= most_ns:
                return found
            if needed_ns < least_ns:
                least, least_ns = found, needed_ns
        return least

    def _changed(self, known: Candidate, choice: str | None, rng: np.random.Generator) -> Candidate | None:
        """A candidate without an implementation, and as much like it as the constraints then allow.

        One decision of a choice is another, or of any choice: each is as likely, and so is every value that
        it offers to be the new one. Some have many more instances than others, and of all pairs of statements
        few are loops that can become one. What changes may have been implied as well as decided. What has the
        new value already keeps it before anything else does: loops that are one join others as a whole.
        """
        instance, around = self.descent.instance, self._around(known)
        choices = list(dict.fromkeys((*self.open, *around.decided)))
        if not choices:
            return None
        offers = self._offers(known, around, choice or _drawn(choices, rng))
        values = offers.values.tolist()
        if not values:
            return None
        value = _drawn(values, rng)
        numbers, bits_of = offers.to_have(value)
        place = int(rng.integers(len(numbers)))
        changed, mask = instance.variables[numbers[place]], 1 << int(bits_of[place])
        candidate = instance.restrict(self._where_present(changed, around), changed, mask)
        if candidate is None:
            return None
        equal = [instance.variables[number] for number in offers.having(value)]
        return instance.like(candidate, known, [*_shuffled(equal, rng), *_in_turns(around.decided, rng)])

    def _surroundings(self, known: Candidate) -> Surroundings:
        instance, way = self.descent.instance, [*self.descent.way(self.root, known)]
        before: dict[int, Candidate] = {}
        here = self.root
        for step, after in way:
            before.setdefault(step.variable, here)
            here = after
        return Surroundings(_by_choice(instance.variables[number] for number in before), before)

    def _offers(self, known: Candidate, around: Surroundings, choice: str) -> Offers:
        """Of a choice: what the root leaves open, or is decided on the way, and is present."""
        if choice not in around.offers:
            table = self.descent.instance.domain_table
            there = _numbers(self.open.get(choice, ()))
            there = there[table.present(known.vector, there)]
            added = _numbers(v for v in around.decided.get(choice, ()) if not self.root.is_open(v))
            allowed = [table.masks(self.root.vector, there)]
            allowed += [table.masks(around.before[n].vector, added[i : i + 1]) for i, n in enumerate(added)]
            numbers = np.append(there, added)
            had = table.masks(known.vector, numbers)
            around.offers[choice] = self._values(choice).offers(numbers, had, np.concatenate(allowed))
        return around.offers[choice]

    def _where_present(self, variable: Variable, around: Surroundings) -> Candidate:
        """The root, or the candidate on the way to an implementation that decides the variable next."""
        return self.root if self.root.is_open(variable) else around.before[variable.index]


def _numbers(variables: Iterable[Variable]) -> Numbers:
    return np.fromiter((variable.index for variable in variables), np.intp)


def _by_choice(variables: Iterable[Variable]) -> dict[str, list[Variable]]:
    found: dict[str, list[Variable]] = {}
    for variable in variables:
        found.setdefault(variable.choice, []).append(variable)
    return found


def _in_turns(by_choice: Mapping[str, Sequence[Variable]], rng: np.random.Generator) -> list[Variable]:
    """Choice by choice in random order: what is kept first decides what gives way."""
    return [
        variable
        for choice in _shuffled(list(by_choice), rng)
        for variable in _shuffled(by_choice[choice], rng)
    ]


def _drawn_groups(partition: Partition, rng: np.random.Generator) -> frozenset[int]:
    """The variables of one or two groups."""
    picked = rng.permutation(len(partition.freed))[: 1 + int(rng.integers(GROUPS))]
    return frozenset[int]().union(*(partition.freed[group] for group in picked))


def _drawn(items: Sequence[T], rng: np.random.Generator) -> T:
    return items[int(rng.integers(len(items)))]


def _shuffled(items: Sequence[T], rng: np.random.Generator) -> list[T]:
    return [items[place] for place in rng.permutation(len(items))]

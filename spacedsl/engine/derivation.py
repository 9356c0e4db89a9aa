"""Derivations: which calls of propagators, from which decisions, lead to something that propagation found.

In: an instance, decisions, and a goal that holds of the working vector once enough values are gone. Out: a
`Derivation`: decisions and calls in order, each of which is needed, with the domains that each has narrowed
and the earlier ones that it needed. The propagation that is listened to is one of its own.

Propagators are monotone: fewer calls remove fewer values. So any part of a recorded sequence of calls is a
derivation of something, and the smallest part from which the goal still follows is found by halving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from spacedsl.compiler.ir import Propagator
from spacedsl.engine.domains import Contradiction
from spacedsl.engine.instance import Instance
from spacedsl.engine.propagation import Around, Propagation
from spacedsl.language.space import Counter, EnumChoice

P = TypeVar("P")

Goal = Callable[[Sequence[int]], bool]
"""Whether the working vector says it; a contradiction says everything."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """A decision: the domain at this cell keeps the values of the mask."""

    cell: int
    mask: int


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """A propagator run on objects; None: what recomputes the presence of an object."""

    propagator: Propagator | None
    arguments: tuple[Any, ...]
    run: Callable[..., None]


Part = Restriction | Application


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A word of the vector before and after."""

    cell: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Inference:
    """A part of a derivation; `reasons` are the positions of those before it that it follows from."""

    part: Part
    narrowings: tuple[Narrowing, ...]
    reasons: tuple[int, ...]
    before: tuple[int, ...]
    """The working vector before it."""


@dataclass(frozen=True, slots=True)
class Derivation:
    inferences: tuple[Inference, ...]
    is_contradiction: bool
    """Whether the last one leaves a domain empty."""
    after: tuple[int, ...]
    """The working vector after them, without the narrowings that are not needed."""


class Widening:
    """Gives back what a call has taken from a domain, whatever others have taken since."""

    def __init__(self, instance: Instance) -> None:
        self._layout = instance.layout
        self._choices = instance.compiled.complete.choices
        counters = [c for c in self._choices.values() if isinstance(c, Counter)]
        cells = [cell for counter in counters for cell in self._layout.cells[counter.name].values()]
        self.ends = frozenset(end for cell in cells for end in (cell, cell + 1))
        """The words that are ends of counters, not masks."""

    def widen(self, v: list[int], narrowing: Narrowing) -> None:
        cell = narrowing.cell
        if cell in self.ends:
            if v[cell] == narrowing.after:
                v[cell] = narrowing.before
            return
        v[cell] |= narrowing.before & ~narrowing.after
        twin = self._layout.twins.get(cell)
        if twin is not None:
            choice = self._choices[self._layout.owners[cell][0]]
            assert isinstance(choice, EnumChoice)
            v[twin] = choice.invert(v[cell])


class _ReachedError(Contradiction):
    """The goal holds: nothing more has to be recorded."""


def derive(instance: Instance, decisions: Sequence[Restriction], goal: Goal) -> Derivation | None:
    """Why the goal holds after the decisions; None where it does not, or not by calls of propagators."""
    needed = _needed_decisions(instance, decisions, goal)
    if needed is None:
        return None
    recorder = _Recorder(instance, goal)
    recorded = recorder.record(needed)
    if not recorder.holds(recorded):
        return None
    return recorder.derivation(_smallest(recorded, recorder.holds))


def _needed_decisions(
    instance: Instance, decisions: Sequence[Restriction], goal: Goal
) -> tuple[Restriction, ...] | None:
    """Without any one of them the goal would not follow."""
    propagation = _propagation(instance)
    root = propagation.root()

    def holds(taken: Sequence[Restriction]) -> bool:
        vector = root
        for decision in taken:
            if vector is not None:
                vector = propagation.restrict(vector, decision.cell, decision.mask)
        return vector is None or goal(propagation.unpacked(vector))

    return tuple(_smallest(decisions, holds)) if holds(decisions) else None


@dataclass(slots=True, eq=False)
class _Recorder:
    """A propagation whose calls are recorded where they narrow something."""

    instance: Instance
    goal: Goal
    propagation: Propagation = field(init=False)
    parts: list[Part] = field(default_factory=list)
    is_recording: bool = False
    _widening: Widening = field(init=False)

    def __post_init__(self) -> None:
        self.propagation = _propagation(self.instance, self._around)
        self._widening = Widening(self.instance)

    def _around(self, propagator: Propagator | None, run: Callable[..., None]) -> Callable[..., None]:
        def recorded(*arguments: Any) -> None:
            if not self.is_recording:
                run(*arguments)
                return
            v = self.propagation.working
            before = v[:]
            part = Application(propagator, arguments, run)
            try:
                run(*arguments)
            except Contradiction:
                self.parts.append(part)
                raise
            if v != before:
                self.parts.append(part)
                if self.goal(v):
                    raise _ReachedError

        return recorded

    def record(self, decisions: Sequence[Restriction]) -> list[Part]:
        """All that narrows something, up to the goal."""
        self.is_recording = True
        vector = self.propagation.root_by_propagators()
        for decision in decisions:
            if vector is not None:
                self.parts.append(decision)
                vector = self.propagation.restrict(vector, decision.cell, decision.mask)
        self.is_recording = False
        return self.parts

    # ---- Replays ----

    def _call(self, part: Part) -> Callable[[], None]:
        match part:
            case Restriction(cell, mask):
                return partial(self.propagation.keep, cell, mask)
            case Application(_, arguments, run):
                return partial(run, *arguments)

    def holds(self, parts: Sequence[Part]) -> bool:
        """Whether these alone lead to the goal."""
        return not self.propagation.replay(map(self._call, parts)) or self.goal(self.propagation.working)

    def derivation(self, parts: Sequence[Part]) -> Derivation:
        vectors, narrowings, is_contradiction = self._narrowings(parts)
        undone: list[list[Narrowing]] = [[] for _ in parts]
        for at, made in enumerate(narrowings):
            for narrowing in made:
                undone[at].append(narrowing)
                ends = not self.propagation.replay(self._calls(parts, undone))
                if not (ends if is_contradiction else self.goal(self.propagation.working)):
                    undone[at].pop()
        needed = [
            tuple(n for n in made if n not in gone) for made, gone in zip(narrowings, undone, strict=True)
        ]
        inferences = tuple(
            Inference(part, needed[at], self._reasons(parts, at, needed, undone), vectors[at])
            for at, part in enumerate(parts)
        )
        self.propagation.replay(self._calls(parts, undone))
        return Derivation(inferences, is_contradiction, tuple(self.propagation.working))

    def _calls(
        self, parts: Sequence[Part], undone: Sequence[Sequence[Narrowing]]
    ) -> list[Callable[[], None]]:
        """The parts, and after each one what takes some of its narrowings back."""
        return [
            call
            for part, gone in zip(parts, undone, strict=True)
            for call in (self._call(part), *map(self._undo, gone))
        ]

    def _narrowings(
        self, parts: Sequence[Part]
    ) -> tuple[list[tuple[int, ...]], list[tuple[Narrowing, ...]], bool]:
        """The vectors before the parts, what each narrows, and whether the last one ends in a contradiction.

        Of a pair that is stored both ways round, only the first is told.
        """
        v, twins = self.propagation.working, self.instance.layout.twins
        vectors: list[tuple[int, ...]] = []
        calls = [call for part in parts for call in (lambda: vectors.append(tuple(v)), self._call(part))]
        is_contradiction = not self.propagation.replay(calls)
        after = vectors[1:] if is_contradiction else [*vectors[1:], tuple(v)]
        found = [
            tuple(
                Narrowing(cell, old, new)
                for cell, (old, new) in enumerate(zip(before, behind, strict=True))
                if old != new and twins.get(cell, cell) >= cell
            )
            for before, behind in zip(vectors, after, strict=False)
        ]
        return vectors, [*found, ()] if is_contradiction else found, is_contradiction

    def _undo(self, narrowing: Narrowing) -> Callable[[], None]:
        return partial(self._widening.widen, self.propagation.working, narrowing)

    def _reasons(
        self,
        parts: Sequence[Part],
        at: int,
        needed: Sequence[tuple[Narrowing, ...]],
        undone: Sequence[Sequence[Narrowing]],
    ) -> tuple[int, ...]:
        """Earlier parts from whose narrowings this one makes its own, none of them in vain."""
        calls = self._calls(parts[:at], undone[:at])
        missing: list[int] = []

        def makes() -> bool:
            gone = [self._undo(n) for before in missing for n in needed[before]]
            ends = not self.propagation.replay([*calls, *gone, self._call(parts[at])])
            return ends or (bool(needed[at]) and all(self._has(n) for n in needed[at]))

        if isinstance(parts[at], Restriction):
            return ()
        for before in range(at):
            missing.append(before)
            if not makes():
                missing.pop()
        return tuple(before for before in range(at) if before not in missing)

    def _has(self, narrowing: Narrowing) -> bool:
        """Whether the domain is as small as the narrowing made it."""
        now = self.propagation.working[narrowing.cell]
        if narrowing.cell not in self._widening.ends:
            return not now & ~narrowing.after
        return now >= narrowing.after if narrowing.after > narrowing.before else now <= narrowing.after


def _propagation(instance: Instance, around: Around | None = None) -> Propagation:
    """Another one for the same instance."""
    layout = instance.layout
    return Propagation(instance.compiled, instance.objects, instance.expansion, layout, around=around)


def _smallest(parts: Sequence[P], holds: Callable[[Sequence[P]], bool]) -> list[P]:
    """A part of the sequence, in order, that holds and would not without any one of its members.

    QuickXplain (Junker 2004): halves are dropped whole where they can be.
    """

    def holds_at(positions: Sequence[int]) -> bool:
        return holds([parts[p] for p in sorted(positions)])

    def needed(base: list[int], has_grown: bool, among: list[int]) -> list[int]:
        if has_grown and holds_at(base):
            return []
        if len(among) == 1:
            return among
        middle = len(among) // 2
        early, late = among[:middle], among[middle:]
        of_late = needed([*base, *early], bool(early), late)
        of_early = needed([*base, *of_late], bool(of_late), early)
        return [*of_early, *of_late]

    if not parts or holds_at([]):
        return []
    return [parts[p] for p in sorted(needed([], False, list(range(len(parts)))))]

"""Rollouts in compiled code: each ends where the reference does, with the same seed."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from spacedsl.compiler import compile_space
from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.orderings import Branching, Ordering, SmallestDomain, select_ordering, select_rollouts
from spacedsl.search.rollouts import Bounded, Cut, Exhausted, GivenUp, Implementation, Rollouts
from tests.engine.examples import load_text
from tests.engine.generated_objects import Machine
from tests.engine.generated_spaces import generate_space
from tests.engine.native import needs_compiler
from tests.engine.small import world
from tests.search import linalg
from tests.search.toy import NoBound

End = Implementation | Exhausted | GivenUp

pytestmark = needs_compiler


class Constant(NoBound):
    """All candidates have the bound of the first one."""

    compiled = CompiledBound()

    def __call__(self, candidate: Candidate) -> float:
        return 7.0


def said(end: End) -> tuple[object, ...]:
    """All that there is to a rollout."""
    if isinstance(end, Implementation):
        return end.end.candidate.vector, end.end.bound_ns, end.steps, end.refused
    return (end,)


class Pair:
    """Rollouts in compiled code, and those of the reference."""

    def __init__(
        self, instance: Instance, ordering: Ordering, bound: Bound, repairs: int = 64, every: int = 1
    ) -> None:
        self.instance, self.ordering, self.bound = instance, ordering, bound
        self.both = [
            Rollouts(instance, ordering, bound, repairs, every, is_compiled=is_compiled)
            for is_compiled in (True, False)
        ]
        assert self.both[0]._compiled is not None
        assert self.both[1]._compiled is None

    def draw(self, start: Bounded, first: Branching, known: dict[int, Bounded], cut: Cut, seed: int) -> End:
        found, wanted = (rollouts.draw(start, first, known, cut, seed) for rollouts in self.both)
        assert said(found) == said(wanted)
        return found

    def bounded(self, candidate: Candidate) -> Bounded:
        return Bounded(candidate, self.bound(candidate))

    def from_anywhere(self, cut: Cut, rng: random.Random) -> End | None:
        """Of a candidate some decisions below the root, of which some children may be known."""
        start = self.bounded(linalg.root(self.instance))
        for _ in range(rng.choice((0, 0, 1, 5, 20))):
            branching = self.ordering.next(start.candidate)
            if branching is None:
                return None
            child = self.instance.restrict(start.candidate, branching.variable, rng.choice(branching.masks))
            if child is not None and not math.isinf(self.bound(child)):
                start = self.bounded(child)
        branching = self.ordering.next(start.candidate)
        if branching is None:
            return None
        children = (
            (mask, self.instance.restrict(start.candidate, branching.variable, mask))
            for mask in branching.masks
        )
        valid = {mask: self.bounded(child) for mask, child in children if child is not None}
        known = {mask: child for mask, child in valid.items() if not math.isinf(child.bound_ns)}
        if rng.random() < 0.5:
            return self.draw(start, branching, {}, cut, rng.getrandbits(63))
        if len(known) < 2:
            return None
        first = Branching(branching.variable, tuple(known))
        return self.draw(start, first, known, cut, rng.getrandbits(63))


@pytest.mark.parametrize("text", [linalg.AXPY, linalg.MATMUL, linalg.ODD, linalg.SCALED])
def test_with_the_bound_of_a_processor(text: str) -> None:
    """Without a cut, and with cuts that exclude some of what is drawn or nearly all of it."""
    instance = linalg.instance_of(text)
    bound = CpuBound(instance, linalg.DEVICE)
    rng, ends = random.Random(3), Counter[type]()
    own = select_ordering(instance, instance.space)
    orderings = [own, select_rollouts(instance, instance.space) or own, SmallestDomain(instance)]
    for ordering in orderings:
        for every, repairs in ((1, 64), (3, 64), (1, 0)):
            pair = Pair(instance, ordering, bound, repairs, every)
            times = [None, 1.05 * bound(linalg.root(instance))]
            for _ in range(6):
                for time_ns in times:
                    end = pair.from_anywhere(Cut(time_ns, rng.choice((1.0, 0.93))), rng)
                    ends[type(end)] += 1
                    if isinstance(end, Implementation) and len(times) < 6:
                        times.append(end.end.bound_ns * rng.choice((1.0, 1.2)))
    assert ends[Implementation] > 50
    assert ends[Exhausted] > 5


@pytest.mark.usefixtures("quickly_compiled")
def test_where_propagation_does_not_see_everything() -> None:
    """Of generated spaces, in which values are refused."""
    rng, ends, refused = random.Random(11), Counter[type](), 0
    for seed in range(3, 15):
        generated = generate_space(random.Random(seed))
        compiled = compile_space(replace(load_text(generated.text), digest=""))
        try:
            instance = instantiate(compiled, generated.backbone.build(), Machine(), Engine.NATIVE)
        except DiagnosticError:
            continue
        if instance.root() is None:
            continue
        for repairs in (0, 2, 64):
            pair = Pair(instance, select_ordering(instance, instance.space), Constant(), repairs)
            for _ in range(8):
                end = pair.from_anywhere(Cut(rng.choice((None, 9.0, 7.0)), 1.0), rng)
                ends[type(end)] += 1
                refused += 0 if end is None else getattr(end, "refused", 0)
    assert ends[Implementation] > 60
    assert refused > 20


@pytest.mark.usefixtures("quickly_compiled")
def test_decisions_whose_values_all_fail_are_taken_back() -> None:
    """Five things that have to differ in four ways, wherever that is asked for: it is seen late."""
    text = """
choice enum colour($x in Things):
  value A:
  value B:
  value C:
  value D:
end
choice enum kind($x in Things):
  value PLAIN:
  value PROPER:
end
require forall $x in Things: forall $y in Things:
  colour($x) != colour($y) || kind($x) is PLAIN || kind($y) is PLAIN
"""
    instance = world(text, 5, Engine.NATIVE).instance
    rng, ends = random.Random(2), Counter[type]()
    ordering = select_ordering(instance, instance.space, "kind, colour")
    for repairs in (0, 1, 5, 64, 1000):
        pair = Pair(instance, ordering, Constant(), repairs)
        for _ in range(60):
            ends[type(pair.from_anywhere(Cut(None, 1.0), rng))] += 1
    assert ends[Implementation] > 100
    assert ends[GivenUp] > 3
    assert ends[Exhausted] > 0


def test_the_search_takes_them_where_it_can() -> None:
    """The reference takes an ordering that only Python knows, or a bound."""
    instance = linalg.instance_of(linalg.AXPY)
    own = select_ordering(instance, instance.space)

    class OfPython:
        def next(self, candidate: Candidate) -> Branching | None:
            return own.next(candidate)

    for ordering, bound in ((OfPython(), CpuBound(instance, linalg.DEVICE)), (own, NoBound())):
        rollouts = Rollouts(instance, ordering, bound, 64, 1)
        assert rollouts._compiled is None
        first = own.next(linalg.root(instance))
        assert first is not None
        end = rollouts.draw(Bounded(linalg.root(instance), 0.0), first, {}, Cut(None, 1.0), 5)
        assert isinstance(end, Implementation)

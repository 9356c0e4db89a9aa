"""What has to be true of the engine on an instance whose solutions are all known.

In: an instance of the engine, the enumerator's solutions of it, a source of random choices. Each function
raises `AssertionError` with the decisions that led there; nothing here knows how the engine works.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.enumerate import Key, Solution
from spacedsl.engine.instance import Instance, Variable
from spacedsl.language.space import Counter, Space, Visibility

Step = tuple[Variable, int]
"""A decision: the variable keeps only the values of the mask."""

Some = int
"""Solutions: a bit each, in their order."""

Having = Mapping[str | int | None, Some]
"""By value, the solutions that have it; None: those that have none."""


@dataclass(slots=True)
class Tally:
    """What has been tried, so that a test can show that it tried something."""

    decisions: int = 0
    leaves: int = 0
    contradictions: int = 0
    vectors: int = 0
    counts: int = 0
    """Of solutions, compared with CP-SAT's."""
    uncounted: list[str] = field(default_factory=list)
    """Why CP-SAT's translation refuses spaces."""
    natives: int = 0
    """Instances that the native engine has run."""
    questions: int = 0
    """To CP-SAT, whether there is a solution with certain values."""


@dataclass(slots=True)
class Agreement:
    """Compares candidates of `instance` with `solutions`, which are all that the space has."""

    space: Space
    instance: Instance
    solutions: Sequence[Solution]
    objects: Mapping[str, object]
    """By name."""
    tally: Tally = field(default_factory=Tally)
    _decided: Mapping[Key, Having] = field(init=False)
    _derived: Mapping[Key, Having] = field(init=False)
    """What any solution has a counter, a representative or a quantity of."""
    _is_root_right: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._decided = _having([s.decisions for s in self.solutions])
        self._derived = _having([s.derived for s in self.solutions])

    # ---- Walks ----

    def check_root(self) -> Candidate | None:
        """No value of a solution is missing from the root, and it exists if there is a solution."""
        root = self.instance.root()
        if not self._is_root_right:
            self._check(root, self._all(), [])
            self._is_root_right = True
        return root

    def check_descent(self, rng: random.Random) -> None:
        """Decide open variables in random order until none is left, looking at each candidate."""
        candidate = self.check_root()
        alive, path = self._all(), list[Step]()
        while candidate is not None and not candidate.is_complete:
            variable, mask = random_step(candidate, rng)
            path.append((variable, mask))
            alive &= self._allowed(variable, mask)
            self.tally.decisions += 1
            child = self.instance.restrict(candidate, variable, mask)
            self._check(child, alive, path)
            if child is None:
                self.tally.contradictions += 1
                # Refuted: go on with the other values, as a search does.
                path.pop()
                rest = candidate.mask(variable) & ~mask
                alive = self._all()
                for each in [*path, (variable, rest)]:
                    alive &= self._allowed(*each)
                child = self.instance.restrict(candidate, variable, rest)
                path.append((variable, rest))
                self._check(child, alive, path)
            if child is not None:
                assert _is_within(child, candidate), f"a domain has grown: {_show(path)}"
            candidate = child
        if candidate is not None:
            self._check_leaf(candidate, alive, path)

    def check_exhaustively(self) -> None:
        """A search that decides one value after the other finds every solution once and nothing else."""
        root = self.instance.root()
        leaves = list(self._leaves(root)) if root is not None else []
        found = [_by_name(leaf) for leaf in leaves]
        assert len(found) == len(self.solutions), f"{len(found)} leaves, {len(self.solutions)} solutions"
        expected = {frozenset(s.decisions.items()) for s in self.solutions}
        assert {frozenset(leaf.items()) for leaf in found} == expected

    def check_order(self, rng: random.Random) -> None:
        """The same decisions lead to the same vector, in whatever order they are taken."""
        root = self.instance.root()
        if root is None or root.is_complete:
            return
        open_variables = [v for v in self.instance.variables if root.is_open(v)]
        steps: list[Step] = []
        for _ in range(5):
            # Often one that is narrowed already: what wakes when values go one by one may differ.
            variable = rng.choice(steps)[0] if steps and rng.random() < 0.5 else rng.choice(open_variables)
            kept = [b for b in range(len(variable.universe)) if rng.random() < 0.7]
            mask = sum(1 << b for b in kept) & root.mask(variable)
            steps.append((variable, mask or root.mask(variable)))
        rng.shuffle(steps)
        forwards, backwards = self._follow(root, steps), self._follow(root, steps[::-1])
        self.tally.vectors += 1
        assert (forwards is None) == (backwards is None), f"a contradiction in one order only: {_show(steps)}"
        if forwards is not None and backwards is not None:
            assert forwards.vector == backwards.vector, f"the order of decisions matters: {_show(steps)}"

    def check_monotone(self, rng: random.Random) -> None:
        """Whatever a decision removes at the root, it removes further down too."""
        root = self.instance.root()
        if root is None or root.is_complete:
            return
        first = [random_step(root, rng) for _ in range(rng.randint(1, 3))]
        second = random_step(root, rng)
        high = self._follow(root, [second])
        low = self._follow(root, [*first, second])
        self.tally.vectors += 1
        if low is not None:
            assert high is not None, f"less was possible, and is no contradiction: {_show([*first, second])}"
            assert _is_within(low, high), f"deciding more has left more: {_show([*first, second])}"

    def check_queue(self, rng: random.Random) -> None:
        """The same vector, whichever of the changed domains is propagated first."""
        propagation = self.instance.propagation
        candidate = self.instance.root()
        try:
            propagation.pick = rng.randrange
            shuffled_root = propagation.root()
            assert shuffled_root == (None if candidate is None else candidate.vector), "at the root"
            while candidate is not None and not candidate.is_complete:
                variable, mask = random_step(candidate, rng)
                propagation.pick = None
                plain = self.instance.restrict(candidate, variable, mask)
                propagation.pick = rng.randrange
                shuffled = self.instance.restrict(candidate, variable, mask)
                self.tally.vectors += 1
                assert (plain is None) == (shuffled is None), _show([(variable, mask)])
                if plain is not None and shuffled is not None:
                    assert plain.vector == shuffled.vector, _show([(variable, mask)])
                candidate = plain
        finally:
            propagation.pick = None

    def _follow(self, candidate: Candidate, steps: Sequence[Step]) -> Candidate | None:
        current: Candidate | None = candidate
        for variable, mask in steps:
            if current is not None:
                current = self.instance.restrict(current, variable, mask)
        return current

    def _leaves(self, candidate: Candidate) -> Iterator[Candidate]:
        if candidate.is_complete:
            yield candidate
            return
        variable = next(v for v in self.instance.variables if candidate.is_open(v))
        for bit in _bits(candidate.mask(variable)):
            child = self.instance.restrict(candidate, variable, 1 << bit)
            if child is not None:
                yield from self._leaves(child)

    # ---- Looks at one candidate ----

    def _all(self) -> Some:
        return (1 << len(self.solutions)) - 1

    def _allowed(self, variable: Variable, mask: int) -> Some:
        having = self._decided.get((variable.choice, variable.names), {})
        return reduce(or_, (having.get(value, 0) for value in variable.values(mask)), 0)

    def _check(self, candidate: Candidate | None, alive: Some, path: Sequence[Step]) -> None:
        if candidate is None:
            assert not alive, f"a contradiction, but {self._first(alive)} remains: {_show(path)}"
            return
        for variable in self.instance.variables:
            key = (variable.choice, variable.names)
            left = variable.values(candidate.mask(variable))
            having = self._decided.get(key, {None: self._all()})
            found = {value for value, some in having.items() if some & alive}
            for value in found - {None}:
                assert value in left, f"{key} has lost {value}, which has a solution: {_show(path)}"
            if candidate.is_open(variable):
                assert None not in found, f"{key} is open, but may be absent: {_show(path)}"
        for key, having in self._derived.items():
            for number, some in having.items():
                if number is not None and some & alive:
                    self._check_derived(candidate, key, number, path)

    def _check_derived(self, candidate: Candidate, key: Key, value: str | int, path: Sequence[Step]) -> None:
        objects = [self.objects[name] for name in key[1]]
        choice = self.space.choices.get(key[0])
        if choice is None:
            low, high = candidate.interval(key[0], *objects)
            assert low <= self._number(key, value) <= high, (
                f"{key} is {value}, not in {low}..{high}: {_show(path)}"
            )
        elif isinstance(choice, Counter):
            low, high = candidate.interval(key[0], *objects)
            assert low <= int(value), f"{key} is {value}, its least value {low}: {_show(path)}"
            if choice.visibility is not Visibility.HALF:
                assert int(value) <= high, f"{key} is {value}, its greatest value {high}: {_show(path)}"
        else:
            possible = candidate.possible(key[0], *objects)
            assert value in possible, f"{key} is {value}, but only {possible} is left: {_show(path)}"

    def _number(self, key: Key, value: str | int) -> int:
        """A value of a quantity: of an ordered enum's type, its position."""
        order = self.space.quantities[key[0]].values
        return int(value) if order is None else order.index(str(value))

    def _first(self, some: Some) -> Solution:
        return self.solutions[(some & -some).bit_length() - 1]

    def _check_leaf(self, leaf: Candidate, alive: Some, path: Sequence[Step]) -> None:
        self.tally.leaves += 1
        decided = _by_name(leaf)
        for key, value in decided.items():
            alive &= self._decided.get(key, {}).get(value, 0)
        assert alive, f"a leaf is no solution: {decided} after {_show(path)}"
        assert self._first(alive).decisions == decided
        for key, value in self._first(alive).derived.items():
            objects = [self.objects[name] for name in key[1]]
            choice = self.space.choices.get(key[0])
            if choice is None:
                number = self._number(key, value)
                assert leaf.interval(key[0], *objects) == (number, number), (
                    f"{key} is not {value} at the leaf"
                )
            elif isinstance(choice, Counter):
                low, high = leaf.interval(key[0], *objects)
                assert low == value, f"{key} is {value}, the leaf says {low}"
                assert high == value or choice.visibility is Visibility.HALF, f"{key}: {high} is not {value}"
            else:
                assert leaf.possible(key[0], *objects) == (value,), f"{key} is not {value} at the leaf"


def random_step(candidate: Candidate, rng: random.Random) -> Step:
    """A decision on an open variable: one value, all but one, or any number."""
    open_variables = [v for v in candidate.instance.variables if candidate.is_open(v)]
    variable = open_variables[rng.randrange(len(open_variables))]
    bits = _bits(candidate.mask(variable))
    count = rng.choice((1, len(bits) - 1, rng.randint(1, len(bits) - 1)))
    return variable, sum(1 << b for b in rng.sample(bits, count))


def _bits(mask: int) -> list[int]:
    return [b for b in range(mask.bit_length()) if mask >> b & 1]


def _having(found: Sequence[Mapping[Key, str | int]]) -> dict[Key, Having]:
    """Of everything that any of them decides or derives, which solutions have which value of it."""
    keys = dict.fromkeys(key for values in found for key in values)
    return {key: _places([values.get(key) for values in found]) for key in keys}


def _places(values: Sequence[str | int | None]) -> Having:
    flags: dict[str | int | None, bytearray] = {}
    for place, value in enumerate(values):
        if value not in flags:
            flags[value] = bytearray(len(values) // 8 + 1)
        flags[value][place >> 3] |= 1 << (place & 7)
    return {value: int.from_bytes(each, "little") for value, each in flags.items()}


def _by_name(leaf: Candidate) -> dict[Key, str | int]:
    """The decisions of a complete candidate."""
    decided: dict[Key, str | int] = {}
    for decision in leaf.decisions():
        (value,) = decision.values
        decided[decision.choice, decision.objects] = value
    return decided


def _is_within(lower: Candidate, upper: Candidate) -> bool:
    return all(lower.mask(v) & ~upper.mask(v) == 0 for v in lower.instance.variables)


def _show(path: Sequence[Step]) -> str:
    return ", ".join(f"{v.choice}({', '.join(v.names)}) := {list(v.values(mask))}" for v, mask in path)

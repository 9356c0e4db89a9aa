"""A small constraint problem with the interface of an instance, evaluators of a cost, and the search.

Propagation is generalised arc consistency by enumeration: slow, short, and nothing of the engine's.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.domain_table import DomainTable
from spacedsl.engine.instance import Instance, Variable
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome, Timing
from spacedsl.language.space import Space
from spacedsl.search.bounds.protocol import Bound, BoundTerm
from spacedsl.search.costs.model import Decisions, Form, Phase, Plan
from spacedsl.search.orderings import Branching
from spacedsl.search.policies import POLICIES
from spacedsl.search.results import Result
from spacedsl.search.run import Options, Search

Cost = Callable[[tuple[int, ...]], float]


class ToyCandidate(Candidate):
    """Domains as plain masks, one word each."""

    masks: tuple[int, ...]

    def __init__(self, instance: Instance, vector: Iterable[int]) -> None:
        self.masks = tuple(vector)
        super().__init__(instance, array("Q", self.masks))

    def mask(self, variable: Variable) -> int:
        return self.masks[variable.index]

    def is_open(self, variable: Variable) -> bool:
        return self.masks[variable.index].bit_count() > 1

    def decisions(self) -> tuple[Decision, ...]:
        return tuple(
            Decision(v.choice, v.names, tuple(v.universe[b] for b in bits(self.mask(v))))
            for v in self.instance.variables
        )


@dataclass(frozen=True)
class Constraint:
    scope: tuple[int, ...]
    holds: Callable[..., bool]


@dataclass(frozen=True)
class ToyObject:
    name: str


class ToyInstance(Instance):
    """Variable i is the choice `x` on object `oi`, with values 0 .. sizes[i] - 1."""

    def __init__(self, sizes: Sequence[int], constraints: Sequence[Constraint] = ()) -> None:
        self.variables = tuple(
            Variable(i, "x", (ToyObject(f"o{i}"),), i, tuple(range(n))) for i, n in enumerate(sizes)
        )
        self.presence = {}
        domains = ((variable.offset, len(variable.universe)) for variable in self.variables)
        self.domain_table = DomainTable.of(domains, {}, len(sizes))
        self.space = Space("toy", {}, {}, {}, (), (), {}, "")
        self.constraints = tuple(constraints)
        self.restrictions = 0

    def root(self) -> ToyCandidate | None:
        return self._propagated(tuple((1 << len(v.universe)) - 1 for v in self.variables))

    def variables_of(self, choice: str) -> tuple[Variable, ...]:
        return tuple(v for v in self.variables if v.choice == choice)

    def restrict(self, candidate: Candidate, variable: Variable, mask: int) -> ToyCandidate | None:
        assert isinstance(candidate, ToyCandidate)
        self.restrictions += 1
        masks = list(candidate.masks)
        masks[variable.index] &= mask
        return self._propagated(tuple(masks))

    def decide(self, candidate: Candidate, decision: Decision) -> ToyCandidate | None:
        names = {v.names: v for v in self.variables}
        variable = names[decision.objects]
        return self.restrict(candidate, variable, sum(1 << int(value) for value in decision.values))

    def _propagated(self, masks: tuple[int, ...]) -> ToyCandidate | None:
        if not all(masks):
            return None
        if not self.constraints:
            return ToyCandidate(self, masks)
        domains = [set(bits(mask)) for mask in masks]
        while True:
            before = [len(domain) for domain in domains]
            for constraint in self.constraints:
                scopes = [sorted(domains[i]) for i in constraint.scope]
                rows = [row for row in itertools.product(*scopes) if constraint.holds(*row)]
                for position, i in enumerate(constraint.scope):
                    domains[i] = {row[position] for row in rows}
            if any(not domain for domain in domains):
                return None
            if before == [len(domain) for domain in domains]:
                return ToyCandidate(self, tuple(sum(1 << v for v in domain) for domain in domains))

    def solutions(self) -> Iterator[tuple[int, ...]]:
        """All assignments that satisfy the constraints, by enumeration."""
        for values in itertools.product(*(range(len(v.universe)) for v in self.variables)):
            if all(c.holds(*(values[i] for i in c.scope)) for c in self.constraints):
                yield values


class InOrder:
    """Every variable in turn, a child for each value."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def next(self, candidate: Candidate) -> Branching | None:
        for variable in self._instance.variables:
            if candidate.is_open(variable):
                return Branching(variable, tuple(1 << b for b in bits(candidate.mask(variable))))
        return None


@dataclass
class ExactBound:
    """The least cost of all completions, times `slack` (above 1: not admissible), by enumeration."""

    instance: ToyInstance
    cost: Cost
    slack: float = 1.0
    compiled: CompiledBound | None = None

    def __post_init__(self) -> None:
        """Of each value of a variable, the solutions that have it: a bit each, that of the cheapest first."""
        found = sorted((self.cost(values), values) for values in self.instance.solutions())
        self._costs = [cost for cost, _ in found]
        self._having = [[0] * len(v.universe) for v in self.instance.variables]
        for place, (_, values) in enumerate(found):
            for having, value in zip(self._having, values, strict=True):
                having[value] |= 1 << place

    def __call__(self, candidate: Candidate) -> float:
        assert isinstance(candidate, ToyCandidate)
        left = (1 << len(self._costs)) - 1
        for having, mask in zip(self._having, candidate.masks, strict=True):
            left &= functools.reduce(operator.or_, (having[value] for value in bits(mask)), 0)
        cheapest = (left & -left).bit_length() - 1
        return self.slack * self._costs[cheapest] if left else math.inf

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self(candidate) for candidate in candidates]

    def terms_ns(self, candidate: Candidate) -> list[float]:
        return [self(candidate)]

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        return (BoundTerm("cost", self(candidate)),)


class NoBound:
    compiled: CompiledBound | None = None

    def __call__(self, candidate: Candidate) -> float:
        return 0.0

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self(candidate) for candidate in candidates]

    def terms_ns(self, candidate: Candidate) -> list[float]:
        return []

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        return ()


def values_of(candidate: Candidate) -> tuple[int, ...]:
    assert isinstance(candidate, ToyCandidate)
    assert all(mask.bit_count() == 1 for mask in candidate.masks)
    return tuple(mask.bit_length() - 1 for mask in candidate.masks)


def timing(time_ns: float) -> Timing:
    return Timing(time_ns, 0.999 * time_ns, 1.001 * time_ns, 9)


@dataclass
class ToyEvaluator:
    """Code is the values; time is their cost. `failing` says for which values there is a failure instead."""

    cost: Cost
    digest: Callable[[tuple[int, ...]], str] = str
    failing: Callable[[tuple[int, ...]], Failure | None] = lambda values: None
    runs: list[tuple[int, ...]] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    """Digests."""
    built: list[tuple[int, ...]] = field(default_factory=list)
    compared: list[tuple[str, ...]] = field(default_factory=list)
    is_open: bool = False

    def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def lower(self, candidate: Candidate) -> Lowered | Outcome:
        values = values_of(candidate)
        if self.failing(values) is Failure.LOWERING:
            return Outcome(None, Failure.LOWERING, f"cannot lower {values}")
        return Lowered(self.digest(values), " ".join(map(str, values)))

    def begin(self, program: Lowered) -> None:
        assert self.is_open
        self.begun.append(program.digest)

    def build(self, programs: Sequence[Lowered]) -> None:
        assert self.is_open
        self.built += [tuple(int(word) for word in program.code.split()) for program in programs]

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        assert self.is_open
        values = tuple(int(word) for word in lowered.code.split())
        self.runs.append(values)
        failure = self.failing(values)
        if failure is not None:
            return Outcome(None, failure, f"{failure} of {values}")
        return Outcome(timing(self.cost(values)))

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float] | None:
        assert self.is_open
        return ()

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        assert self.is_open
        self.compared.append(tuple(lowered.digest for lowered in contenders))
        return [Outcome(timing(self.cost(tuple(map(int, c.code.split()))))) for c in contenders]


def cost(values: tuple[int, ...]) -> float:
    """Distinct for all values below 10, least where each is 2."""
    return 1000 + sum((v - 2) ** 2 * 10.0**i + v * 0.001 * 7.0**i for i, v in enumerate(values))


def search(
    instance: ToyInstance,
    evaluator: ToyEvaluator,
    bound: Bound | None = None,
    policy: str = "tag",
    options: Options | None = None,
    **more: Any,
) -> Result:
    return Search(
        instance,
        bound=bound or NoBound(),
        evaluator=evaluator,
        ordering=InOrder(instance),
        policy=POLICIES[policy](),
        options=options or Options(),
        **more,
    ).run()


def bits(mask: int) -> list[int]:
    return [b for b in range(mask.bit_length()) if mask >> b & 1]


class ToyCosts:
    """Of a model whose phases are unlike each other."""

    def plan(self, rng: np.random.Generator) -> Plan:
        return ()

    def alike(self, name: str) -> Sequence[str]:
        return [name]

    def translated(self, decisions: Decisions, name: str, other: str) -> Decisions | None:
        return decisions


def toy_phase(name: str, decisions: Decisions, time_ns: float) -> Phase:
    variables, masks = (hash(each) for each in zip(*decisions, strict=True))
    return Phase(name, decisions, time_ns, Form(hash(name), variables, masks))

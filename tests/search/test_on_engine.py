"""The search on the real engine: it meets what an enumeration from the meaning finds, and nothing else."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from spacedsl.compiler import compile_space
from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.enumerate import EnumerationLimitError, Solution, enumerate_solutions
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.kernels.evaluation import Lowered, Outcome
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.language.host import exposed
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import select_ordering
from spacedsl.search.policies import POLICIES
from spacedsl.search.results import Stop
from spacedsl.search.run import Options, Search
from tests.engine.examples import example_of, load_text
from tests.engine.generated_spaces import generate_space
from tests.search.toy import NoBound, timing

SCALE = """
kernel: scale
backbone: linalg
sizes: {n: 8}
tensors:
  x: {dtype: f32, shape: [n]}
  z: {dtype: f32, shape: [n], output: true}
params: {alpha: f32}
compute:
  - z[i] = alpha * x[i]
tiling: {i: [[2, 4]]}
"""

Named = tuple[tuple[tuple[str, tuple[str, ...]], str | int], ...]


@exposed("vector_bytes", "vector_registers", "threads")
@dataclass(frozen=True, slots=True)
class SmallCpu:
    vector_bytes: int = 16
    vector_registers: int = 8
    threads: int = 2


def named(candidate: Candidate) -> Named:
    """The decisions of an implementation by names; each has one value."""
    decided = {}
    for decision in candidate.decisions():
        (decided[decision.choice, decision.objects],) = decision.values
    return tuple(sorted(decided.items()))


def expected(solutions: Sequence[Solution]) -> set[Named]:
    return {tuple(sorted(solution.decisions.items())) for solution in solutions}


@dataclass
class Recorder:
    """Code is the decisions; time is drawn from their hash."""

    met: set[Named] = field(default_factory=set)

    def open(self) -> None: ...

    def close(self) -> None: ...

    def lower(self, candidate: Candidate) -> Lowered:
        decisions = named(candidate)
        self.met.add(decisions)
        return Lowered(hashlib.sha256(repr(decisions).encode()).hexdigest(), repr(decisions))

    def begin(self, program: Lowered) -> None: ...

    def build(self, programs: Sequence[Lowered]) -> None: ...

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        return Outcome(timing(1000.0 + int(lowered.digest[:6], 16)))

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float]:
        return ()

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        return [self.run(contender, None) for contender in contenders]


class Flat(NoBound):
    """Which compiled code knows."""

    compiled = CompiledBound()


def explore(instance: Instance, ordering: str | None, policy: str) -> set[Named]:
    """What an exhaustive search meets; that it evaluates each once is checked on the way."""
    recorder = Recorder()
    result = Search(
        instance,
        bound=Flat(),
        evaluator=recorder,
        ordering=select_ordering(instance, instance.space, ordering),
        policy=POLICIES[policy](),
        options=Options(seed=1),
    ).run()
    assert result.stop in (Stop.EXHAUSTED, Stop.EMPTY)
    assert result.progress.evaluations == len(recorder.met)
    return recorder.met


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> tuple[Instance, set[Named]]:
    """A small kernel under the rules of linear algebra, and all of its implementations."""
    path: Path = tmp_path_factory.mktemp("kernel") / "scale.yaml"
    path.write_text(SCALE)
    kernel = load_kernel(path, {})
    space = load_space(kernel.space)
    solutions = tuple(enumerate_solutions(space, kernel.backbone, SmallCpu(), limit=500_000))
    assert len(solutions) > 20
    instance = instantiate(compile_space(space), kernel.backbone, SmallCpu(), Engine.NATIVE)
    return instance, expected(solutions)


@pytest.mark.parametrize(
    ("ordering", "policy"),
    [
        (None, "near"),
        (None, "tag"),
        (None, "bound"),
        (None, "uniform"),
        ("declaration", "tag"),
        ("order by SEQUENTIAL, dim_kind", "tag"),
    ],
)
def test_every_implementation_of_a_small_kernel_is_met(
    scale: tuple[Instance, set[Named]], ordering: str | None, policy: str
) -> None:
    instance, implementations = scale
    assert explore(instance, ordering, policy) == implementations


@given(st.randoms(use_true_random=False), st.sampled_from(sorted(POLICIES)))
@settings(derandomize=True, deadline=None, database=None, max_examples=20)
def test_every_solution_of_a_random_space_is_met(rng: random.Random, policy: str) -> None:
    generated = generate_space(rng, most_assignments=200)
    note(str(generated))
    try:
        example = example_of(generated, most_values_tried=5_000)
        instance = example.agreement().instance
    except (DiagnosticError, EnumerationLimitError):
        assume(False)
        raise
    assume(len(example.solutions) <= 60)
    assert explore(instance, None, policy) == expected(example.solutions)


@exposed("name", "is_odd")
@dataclass(frozen=True, eq=False)
class Item:
    name: str
    is_odd: bool


@exposed("items", "odd")
@dataclass(frozen=True, eq=False)
class Items:
    items: tuple[Item, ...]

    @property
    def odd(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.is_odd)


@pytest.mark.parametrize(
    ("item", "first"),
    [
        ("size($i) for $i in Odd", ["size(b)", "size(d)", "size(a)", "size(c)"]),
        ("size($i) for $i in Items", ["size(a)", "size(b)", "size(c)", "size(d)"]),
    ],
)
def test_an_item_may_be_limited_to_the_members_of_a_set(item: str, first: list[str]) -> None:
    space = load_text(
        f"""
        set Items: iterator = "$kernel.items" end
        set Odd subsetof Items: iterator = "$kernel.odd" end
        choice integer size($i in Items): "range(3)" end
        choice counter total(): forall $i in Items: sum size($i) when: end
        require total() <= 100
        ordering default:
          {item}
          size
        end
        """
    )
    kernel = Items(tuple(Item(name, name in "bd") for name in "abcd"))
    instance = instantiate(compile_space(space), kernel, SmallCpu())
    ordering = select_ordering(instance, space)
    candidate = instance.root()
    met = []
    while candidate is not None and (branching := ordering.next(candidate)) is not None:
        met.append(f"{branching.variable.choice}({', '.join(branching.variable.names)})")
        candidate = instance.restrict(candidate, branching.variable, branching.masks[0])
    assert met == first

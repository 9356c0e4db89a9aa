"""The spaces that people write, on kernels so small that oracles can judge what the engine does with them.

In: names of kernels, a source of random choices. Out: walks that are compared: with all solutions where they
can be listed, else with CP-SAT where it can be asked, and at leaves with the meaning of every requirement
where there are not too many. Where CP-SAT can count the solutions, an exhaustive search has as many leaves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.denotation import Denotations
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.engine.instance import Engine, Instance, Variable, instantiate
from spacedsl.engine.meaning import Meaning
from spacedsl.engine.native.propagation import native_or_reason
from spacedsl.kernels.backbones import load_any
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.kernel_file import Kind
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.language.loader import load_space
from spacedsl.language.space import Space
from spacedsl.oracle.cp_sat import CpSatModel, Narrowed, NotTranslatedError
from tests.engine import original, pipelines
from tests.engine.agreement import Agreement, Tally, random_step
from tests.engine.native import Both
from tests.engine.test_linalg_against_oracles import MATMUL, OUTER, SmallCpu

LINALG = Path("kernels/spaces/linalg.space")
ORIGINAL = Path("tests/language/corpus/original.space")
LISTED = ("shop", "registers", "colouring", "tours", "three stages")
"""By brute force."""
COUNTED = (*LISTED, "outer", "axpy", "dot", "filed", "a stencil", "a sum", "a sum on a GPU")
"""By CP-SAT."""
ONLY_JUDGED = ("matmul of two", "matmul", "two deeper nests")
"""With hundreds of thousands of requirements, which CP-SAT reads faster."""
MOST_QUESTIONS = 3
"""Of each walk, to CP-SAT, about values that are gone."""


@dataclass(frozen=True, slots=True)
class Posed:
    """A space, and what it is about."""

    space: Space
    kernel: object
    device: object


@cache
def compiled(path: Path) -> CompiledSpace:
    return compile_space(load_space(path))


def filed(path: str, **sizes: int) -> Posed:
    """A kernel file under the space that it names, with other sizes."""
    kernel = load_any(Path(path), sizes)
    return Posed(compiled(kernel.space).space, kernel.backbone, SmallCpu())


def linalg(text: str, folder: Path) -> Posed:
    """A kernel under the rules of linear algebra."""
    path = folder / "kernel.yaml"
    path.write_text(text)
    return Posed(compiled(LINALG).space, load_any(path).backbone, SmallCpu())


def piped(graph: pipelines.Graph, extent: int, tiles: Sequence[int]) -> Posed:
    kernel = pipelines.pipeline(graph, extent, tiles)
    return Posed(compiled(pipelines.SPACE).space, kernel, pipelines.Gpu(shared_bytes=400))


def staged(text: str, folder: Path, kind: Kind = "cpu") -> Posed:
    """A pipeline under its rules, of which none asks a CPU."""
    path = folder / "kernel.yaml"
    path.write_text(text)
    kernel = load_any(path)
    assert isinstance(kernel, PipelineFile)
    device = SmallCpu() if kind == "cpu" else load_gpu(DEVICES / "h100.yaml")
    return Posed(compiled(kernel.space_for(kind)).space, kernel.backbone, device)


def first(depth: int) -> Posed:
    """The space of the first implementation, on two nests of so many dimensions."""
    return Posed(compiled(ORIGINAL).space, original.two_nests(depth), original.Gpu())


AXPY = """
kernel: axpy
backbone: linalg
sizes: {n: 8}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n]}
  z: {dtype: f32, shape: [n], output: true}
compute:
  - z[i] = x[i] + y[i]
tiling: {i: [[2, 4]]}
"""
DOT = """
kernel: dot
backbone: linalg
sizes: {n: 8}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n]}
  z: {dtype: f32, shape: [], output: true}
compute:
  - z[] = sum[p](x[p] * y[p])
tiling: {p: [[2, 4]]}
"""
DENSE = {
    "outer": OUTER,
    "axpy": AXPY,
    "dot": DOT,
    "matmul of two": MATMUL.replace("16", "2").replace("[[2, 4]]", "[]"),
    "matmul": MATMUL,
}
STENCIL = """
kernel: stencil
backbone: pipeline
inputs: {image: {dtype: i32, rank: 1}}
outputs: {b: {x: 3}}
stages: |
  a(x) = image(x) + image(x + 1)
  b(x) = a(x) + a(x + 1)
"""
SUM = """
kernel: total
backbone: pipeline
inputs: {image: {dtype: i32, rank: 1}}
outputs: {b: {x: 2}}
stages: |
  a(x) = 0
  a(x) += image(x + r) for r in 0:2
  b(x) = a(x)
"""
THREE = {"a": {}, "b": {"a": pipelines.POINT}, "c": {"b": pipelines.POINT}}
POSED: dict[str, Callable[[Path], Posed]] = {
    **{name: partial(linalg, text) for name, text in DENSE.items()},
    "shop": lambda _: filed("docs/tutorial/shop.yaml"),
    "filed": lambda _: filed("docs/tutorial/filed.yaml"),
    "registers": lambda _: filed("kernels/library/plain/registers.yaml"),
    "colouring": lambda _: filed("kernels/library/plain/colouring.yaml"),
    "tours": lambda _: filed("tests/cli/quantities/tours.yaml"),
    "three stages": lambda _: piped(THREE, 8, ()),
    "blur": lambda _: piped(pipelines.BLUR, 64, (4, 16)),
    "a stencil": partial(staged, STENCIL),
    "a sum": partial(staged, SUM),
    "a sum on a GPU": partial(staged, SUM, kind="gpu"),
    "two nests": lambda _: first(1),
    "two deeper nests": lambda _: first(2),
}


@dataclass(slots=True, eq=False)
class RealSpace:
    """One of them, with whatever can judge it. Making one may take a minute."""

    name: str
    posed: Posed
    instance: Instance
    compared: Agreement
    """With all solutions, or for what needs none of them."""
    judge: CpSatModel | None
    """Of those whose solutions are too many."""
    both: Both | None
    meaning: Denotations
    requirements: Sequence[Meaning[bool]]
    solutions: int | None
    """As CP-SAT counts them, where that is feasible."""
    is_listed: bool
    tally: Tally = field(init=False)

    def walk(self, rng: random.Random, tally: Tally) -> None:
        """Raises `AssertionError` where an oracle disagrees."""
        self.tally = self.compared.tally = tally
        self.compared.check_order(rng)
        self.compared.check_monotone(rng)
        self.compared.check_queue(rng)
        if self.both is not None:
            self.both.descend(rng)
            self.tally.natives += 1
        if self.is_listed:
            self.compared.check_descent(rng)
        else:
            self._descend(rng)

    def _descend(self, rng: random.Random) -> None:
        """What CP-SAT says of dead ends, of the leaf, and of some values that are gone on the way."""
        candidate = self.instance.root()
        taken: list[Narrowed] = []
        questions = 0
        while candidate is not None and not candidate.is_complete:
            variable, mask = random_step(candidate, rng)
            child = self.instance.restrict(candidate, variable, mask)
            self.tally.decisions += 1
            if child is None:
                self.tally.contradictions += 1
                dead = (variable.choice, variable.objects, variable.values(mask))
                assert not self._may_be([*taken, dead]), f"a dead end has a solution: {taken}, {dead}"
                mask = candidate.mask(variable) & ~mask
                child = self.instance.restrict(candidate, variable, mask)
            taken.append((variable.choice, variable.objects, variable.values(mask)))
            if child is not None and questions < MOST_QUESTIONS and rng.random() < 0.2:
                questions += 1
                gone = self._gone(child, rng)
                assert gone is None or not self._may_be([*taken, gone]), f"{gone} is possible after {taken}"
            candidate = child
        if candidate is None:
            assert not self._may_be(taken), f"a dead end has a solution: {taken}"
        else:
            self._check_leaf(candidate)

    def _may_be(self, narrowed: Sequence[Narrowed]) -> bool:
        """Whether there is a solution; False where nobody can be asked."""
        if self.judge is None:
            return False
        self.tally.questions += 1
        return self.judge.is_satisfiable(narrowed)

    def _gone(self, candidate: Candidate, rng: random.Random) -> Narrowed | None:
        """A value that the candidate no longer has, of something that is there."""
        gone: list[Narrowed] = [
            (v.choice, v.objects, v.values(1 << bit))
            for v in self.instance.variables
            if candidate.is_present(v)
            for bit in range(len(v.universe))
            if not candidate.mask(v) >> bit & 1
        ]
        return rng.choice(gone) if gone else None

    def _check_leaf(self, leaf: Candidate) -> None:
        self._check_meaning(leaf)
        if self.judge is not None:
            assert self._may_be([(v.choice, v.objects, v.values(leaf.mask(v))) for v in self._decided(leaf)])

    def _check_meaning(self, leaf: Candidate) -> None:
        self.tally.leaves += 1
        assignment = assigned(self.meaning, leaf)
        assert all(r.of(assignment) for r in self.requirements), f"a leaf is no solution: {leaf.decisions()}"

    def _decided(self, leaf: Candidate) -> list[Variable]:
        return [v for v in self.instance.variables if leaf.is_present(v)]

    def count(self, tally: Tally) -> None:
        """All leaves: each a solution, none twice, and as many as CP-SAT counts, where it has."""
        self.tally = self.compared.tally = tally
        if self.is_listed:
            self.compared.check_exhaustively()
            assert self.solutions in (None, len(self.compared.solutions)), f"CP-SAT counts {self.solutions}"
        if self.solutions is None:
            return
        tally.counts += 1
        native = instantiate(self.instance.compiled, self.posed.kernel, self.posed.device, Engine.NATIVE)
        root = native.root()
        found = 0
        pending = [] if root is None else [root]
        while pending:
            candidate = pending.pop()
            variable = next((v for v in native.variables if candidate.is_open(v)), None)
            if variable is None:
                found += 1
                self._check_meaning(candidate)
                continue
            mask = candidate.mask(variable)
            values = (1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1)
            children = (native.restrict(candidate, variable, value) for value in values)
            pending += [child for child in children if child is not None]
        assert found == self.solutions, f"{self.name}: {found} leaves, CP-SAT counts {self.solutions}"


def assigned(meaning: Denotations, leaf: Candidate) -> list[int | None]:
    """A complete candidate's decisions as the meaning of its space numbers them."""
    decided = {(d.choice, d.objects): d.values[0] for d in leaf.decisions()}
    return [
        None
        if d.key not in decided
        else d.values[-len(d.names) :][d.names.index(str(decided[d.key]))]
        if d.names is not None
        else int(decided[d.key])
        for d in meaning.decisions
    ]


def real_space(name: str, folder: Path) -> RealSpace:
    """With its solutions listed and counted where there are few."""
    posed = POSED[name](folder)
    instance = instantiate(compile_space(posed.space), posed.kernel, posed.device)
    objects = dict(zip(instance.objects.names, instance.objects.objects, strict=True))
    is_listed = name in LISTED
    solutions = tuple(enumerate_solutions(posed.space, posed.kernel, posed.device)) if is_listed else ()
    try:
        judge = CpSatModel(posed.space, posed.kernel, posed.device)
    except NotTranslatedError:
        judge = None
    meaning = Denotations(posed.space, posed.kernel, posed.device)
    native, _ = native_or_reason(instance.compiled, instance.objects, instance.expansion, instance.layout)
    return RealSpace(
        name=name,
        posed=posed,
        instance=instance,
        compared=Agreement(posed.space, instance, solutions, objects),
        judge=judge,
        both=None if native is None else Both(instance, native),
        meaning=meaning,
        requirements=[] if name in ONLY_JUDGED else list(meaning.requirements()),
        solutions=judge.count() if judge is not None and name in COUNTED else None,
        is_listed=is_listed,
    )

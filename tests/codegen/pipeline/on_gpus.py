"""Random schedules of pipelines for a GPU, and their twins beside the reference."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from spacedsl.codegen.cuda.twin import BYTEWISE
from spacedsl.codegen.pipeline.grids import lower_grids
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.running.cases import Case
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.pipeline.kernel_file import PIPELINE_CUDA_SPACE, PipelineFile
from spacedsl.language.loader import load_space
from spacedsl.search.costs.gpu_pipeline import GpuPipelineCosts
from spacedsl.search.orderings import branches_of, select_ordering
from tests.codegen.apart import ENDED, said_apart
from tests.codegen.cuda.grids import ORDERS, device, orders, twins
from tests.codegen.cuda.sanitized import watched
from tests.codegen.pipeline.running import called_difference
from tests.kernels.pipeline import cases
from tests.kernels.pipeline.cases import points, put_apart, scheduled


@cache
def rules() -> CompiledSpace:
    return compile_space(load_space(PIPELINE_CUDA_SPACE))


@lru_cache(maxsize=4)
def instance(file: PipelineFile) -> Instance:
    return instantiate(rules(), file.backbone, device(), Engine.NATIVE)


def drawn(file: PipelineFile, count: int, seed: int, apart: float = 0.0) -> Iterator[Candidate]:
    """Random complete candidates, without those of descents that end before; a share of steps is `apart`."""
    here = instance(file)
    root = here.root()
    assert root is not None
    branches = branches_of(select_ordering(here, rules().space, None))
    generator, counts = np.random.default_rng(seed), DescentCounts()
    for _ in range(count):
        start = put_apart(root, apart, generator)
        candidate = random_descent(here, start, branches, generator, counts)
        if candidate is not None:
            yield candidate


def schedule(
    file: PipelineFile,
    sites: Mapping[str, str],
    tiles: Mapping[str, int],
    innermost: Mapping[str, int] | None = None,
    reduce: str = "ATOMIC",
    sliding: Collection[str] = (),
) -> Candidate:
    return scheduled(instance(file), sites, tiles, sliding, innermost, reduce)


def grids_of(file: PipelineFile, candidate: Candidate) -> Program:
    return verify(lower_grids(file.backbone, CandidateDecisions(candidate)))


# ---- Twins ------------------------------------------------------------------------------------------------

MOST_COMPUTED = 300_000_000
"""Points of all steps: the twin of what computes more takes minutes, and is not run."""

MOST_WATCHED = 20_000_000
"""Of what a twin is watched in; others take threads in one order, unwatched."""


def moderate(file: PipelineFile, count: int, seed: int, most: float) -> Iterator[Candidate]:
    """At most so many random candidates that compute no more points."""
    return cases.moderate(lambda some, apart: drawn(file, some, seed, apart), computed, count, most)


def computed(candidate: Candidate) -> float:
    """Points of all steps that are not inlined, with those that are computed again."""
    return points(_costs(candidate.instance).estimate(candidate))


@lru_cache(maxsize=4)
def _costs(here: Instance) -> GpuPipelineCosts:
    return GpuPipelineCosts(here, device())


def built(programs: Sequence[Program], folder: Path) -> Path:
    """Twins that are watched for races, in one library: the n-th is called `program_n`."""
    return twins(programs, folder, *watched(), BYTEWISE)


def unwatched(programs: Sequence[Program], folder: Path) -> Path:
    """The same, soon built."""
    return twins(programs, folder, "-O0")


def twin_differences(
    file: PipelineFile,
    case: Case,
    programs: Sequence[tuple[Candidate, Program]],
    folder: Path,
    most_watched: float = MOST_WATCHED,
) -> Iterator[tuple[Candidate, str]]:
    """What is wrong with the twin of each; empty for nothing."""
    are_watched = [computed(candidate) <= most_watched for candidate, _ in programs]
    for build, chosen in ((built, ORDERS), (unwatched, ORDERS[:1])):
        alike = [each for each, is_so in zip(programs, are_watched, strict=True) if is_so is (build is built)]
        if not alike:
            continue
        place = folder / build.__name__
        place.mkdir()
        library = build([program for _, program in alike], place)
        for number, (candidate, _) in enumerate(alike):
            yield candidate, twin_difference(file, library, f"program_{number}", case, chosen)


def twin_difference(
    file: PipelineFile, library: Path, name: str, case: Case, chosen: Sequence[int] = ORDERS
) -> str:
    """What is wrong with a twin, in some order of threads; empty for nothing."""

    def differences() -> Iterator[str]:
        loaded = ctypes.CDLL(str(library))
        for _ in orders(loaded, chosen):
            yield called_difference(file, loaded, name, case)

    said = said_apart(differences)
    return said.removesuffix(ENDED) if said.endswith(ENDED) else said

"""Random schedules of pipelines for a GPU, and their twins beside the reference."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from spacedsl.codegen.cases import Case
from spacedsl.codegen.pipeline.grids import lower_grids
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.program import Program
from spacedsl.codegen.verify import verify
from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.pipeline.kernel_file import PIPELINE_CUDA_SPACE, PipelineFile
from spacedsl.language import load_space
from spacedsl.search.orderings import branches_of, select_ordering
from tests.codegen.apart import ENDED, said_apart
from tests.codegen.grids import device, orders, twins
from tests.codegen.pipeline.running import called_difference
from tests.codegen.sanitized import watched
from tests.kernels.pipeline.cases import scheduled


@cache
def rules() -> CompiledSpace:
    return compile_space(load_space(PIPELINE_CUDA_SPACE))


def instance(file: PipelineFile) -> Instance:
    return instantiate(rules(), file.backbone, device(), Engine.NATIVE)


def drawn(file: PipelineFile, count: int, seed: int) -> Iterator[Candidate]:
    """Random complete candidates, without those of descents that end before."""
    here = instance(file)
    root = here.root()
    assert root is not None
    branches = branches_of(select_ordering(here, rules().space, None))
    generator, counts = np.random.default_rng(seed), DescentCounts()
    for _ in range(count):
        candidate = random_descent(here, root, branches, generator, counts)
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


BYTEWISE = "-DTWIN_CELL_BYTES=1"
"""Neighbours of one byte are no race."""


def built(programs: Sequence[Program], folder: Path) -> Path:
    """Twins that are watched for races, in one library: the n-th is called `program_n`."""
    return twins(programs, folder, *watched(), BYTEWISE)


def twin_difference(file: PipelineFile, library: Path, name: str, case: Case) -> str:
    """What is wrong with a twin, in some order of threads; empty for nothing."""

    def differences() -> Iterator[str]:
        loaded = ctypes.CDLL(str(library))
        for _ in orders(loaded):
            yield called_difference(file, loaded, name, case)

    said = said_apart(differences)
    return said.removesuffix(ENDED) if said.endswith(ENDED) else said

"""Where the decisions of a phase are the same, so is what runs in it: one measurement holds for all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from spacedsl.codegen.c.printer import print_c, print_units
from spacedsl.codegen.generation import generation
from spacedsl.codegen.pipeline.lower import Made, lower
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.program import ParallelLoop, Phase, Program, Statement
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.search.costs.pipeline import PipelineCosts
from spacedsl.search.descent import Descent
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.orderings import select_ordering
from spacedsl.search.rollouts import Cut
from tests.codegen.devices import DEVICE
from tests.kernels.pipeline.cases import IMAGE, instance, scheduled
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, load
from tests.search.toy import NoBound

NAME = re.compile(r"'(\w+)'")


def text(statements: Sequence[Statement]) -> str:
    """With names by the order in which they come."""
    names: dict[str, str] = {}
    written = " ".join(map(repr, statements))
    return NAME.sub(lambda found: names.setdefault(found[1], f"'{len(names)}'"), written)


def texts(program: Program) -> Iterator[tuple[str, tuple[str, ...]]]:
    """By phase: what runs, and the files that are built of it."""
    files = iter(print_units(program, 2)[1:])
    for phase in program.phases:
        units = [next(files) for statement in phase.statements if isinstance(statement, ParallelLoop)]
        yield phase.name, (text(phase.statements), *units)


def related(
    near: Neighbourhood, costs: PipelineCosts, count: int, rng: np.random.Generator
) -> Iterator[Candidate]:
    """From one to the next, some decisions change."""
    found = near.planned(costs.plan(rng), Cut(None, 1.0), rng)
    for number in range(count):
        if found is not None:
            yield found
            found = near.beside(found, None, Cut(None, 1.0), rng) or found
        if number % 8 == 7:
            found = near.planned(costs.plan(rng), Cut(None, 1.0), rng)


COUNTS = {"harris": 10, "camera_pipe": 5, "interpolate": 3, "unsharp": 16, "iir_blur": 16}
"""Of candidates; fewer where there are many phases."""


@pytest.mark.parametrize("name", COUNTS)
def test_decisions_of_a_phase_say_what_runs(name: str) -> None:
    file = load(name, CASES[name].sizes)
    here, rng = instance(file.backbone), np.random.default_rng(5)
    root = here.root()
    assert root is not None
    near = Neighbourhood(Descent(here, select_ordering(here, here.space, None), NoBound()), root)
    costs = PipelineCosts(here, DEVICE)
    made: Made = {}
    known: dict[object, tuple[object, float]] = {}
    met = 0
    for candidate in related(near, costs, COUNTS[name], rng):
        program = generation(file).lower(file, DEVICE, candidate, {})
        assert print_c(generation(file).lower(file, DEVICE, candidate, made), 2) == print_c(program, 2)
        written = dict(texts(program))
        phases = PipelineCosts(here, DEVICE).phases(candidate)
        assert {phase.name for phase in phases} == written.keys()
        for phase in phases:
            found = written[phase.name], phase.time_ns
            met += phase.decisions in known
            assert known.setdefault(phase.decisions, found) == found
    assert met > 20
    assert len(known) > 10


# ---- Phases that are known ---------------------------------------------------------------------------------

STAGES = "a(x, y) = image(x, y) * 2\nb(x, y) = a(x, y) + a(x + 1, y)\nc(x, y) = b(x, y) - b(x, y + 1)"


def of_three_phases() -> Program:
    file = pipeline(STAGES, "{c: {x: 40, y: 12}}", IMAGE)
    tiles = {f"{name}.y.TASK": 2 for name in "abc"}
    program = lower(file.backbone, CandidateDecisions(scheduled(instance(file.backbone), {}, tiles)), 32)
    assert [phase.name for phase in program.phases] == ["a", "b", "c"]
    return program


def of(program: Program, *phases: Phase) -> Program:
    body = tuple(statement for phase in phases for statement in phase.statements)
    return replace(program, body=body, phases=phases)


def test_what_has_been_verified_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = of_three_phases()
    verify(program)
    monkeypatch.setattr("spacedsl.codegen.tree.verify_expressions.is_inside", lambda *_: False)
    verify(of(program, *program.phases))
    with pytest.raises(VerificationError, match="nobody knows where"):
        verify(of_three_phases())


def test_a_phase_that_is_known_is_judged_by_the_program_that_it_is_in() -> None:
    program = of_three_phases()
    verify(program)
    a, b, c = program.phases
    with pytest.raises(VerificationError, match="output b is read before it is written"):
        verify(of(program, a, c))
    with pytest.raises(VerificationError, match="output a is read before it is written"):
        verify(of(program, b, a, c))
    (scratch,) = (s for s in program.scratch if s.tensor.name == "a")
    tensor = scratch.tensor
    shorter = replace(tensor, shape=(tensor.shape[0] - 1, *tensor.shape[1:]))
    others = tuple(s for s in program.scratch if s is not scratch)
    with pytest.raises(VerificationError, match="accessed nobody knows where"):
        verify(replace(program, scratch=(*others, replace(scratch, tensor=shorter))))
    with pytest.raises(VerificationError, match="there is no tensor a"):
        verify(replace(program, scratch=others))


def test_phases_that_the_body_does_not_have_say_nothing() -> None:
    program = of_three_phases()
    verify(program)
    a, b, _ = program.phases
    body = (*a.statements, *b.statements)
    with pytest.raises(VerificationError, match="only 0 are written"):
        verify(replace(program, body=body))

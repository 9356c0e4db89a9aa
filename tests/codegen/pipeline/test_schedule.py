"""Loop nests of candidates: what stands inside of what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from spacedsl.codegen.pipeline.schedule import CandidateDecisions, Nest, schedule, text
from spacedsl.engine.candidate import Decision
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.pipeline.backbone import FULL
from tests.kernels.pipeline.cases import PIPELINES, drawn, inputs_of, instance, named
from tests.kernels.pipeline.scheduled import Scheduled


def test_a_schedule_is_shown_as_loops() -> None:
    file = named("a product")
    here = instance(file.backbone)
    candidate = here.root()
    decided: dict[tuple[str, str], str | int] = {
        ("site", "g"): "ROOT", ("site", "f"): "INLINE", ("site", "f_sum.1"): "REG", ("site", "f_sum"): "REG",
        ("site", "a"): "TASK", ("tile", "g.y.TASK"): 2, ("tile", "g.y.REG"): 1, ("tile", "g.x.REG"): 2,
    }  # fmt: skip
    for box in file.backbone.loops:
        decided.setdefault(("tile", box.name), FULL)
    for (choice, name), value in decided.items():
        assert candidate is not None, (choice, name)
        candidate = here.decide(candidate, Decision(choice, (name,), (value,)))
    assert candidate is not None
    assert candidate.is_complete
    assert text(schedule(file.backbone.steps, CandidateDecisions(candidate))).splitlines() == [
        "g: 5 x, 4 y",
        "  for y in 2 of 2 (TASK)",
        "    a: 5 x, 6 k",
        "    for y in 2 of 1 (REG)",
        "      for x in 3 of 2 (REG)",
        "        f_sum: 2 x, 1 y",
        "        f_sum.1: 6 k, 2 x, 1 y",
    ]


def paths(nests: Sequence[Nest], around: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each step behind those in whose iterations it is computed."""
    for nest in nests:
        path = (*around, nest.step.name)
        yield path
        for level in nest.levels:
            yield from paths(level.guests, path)


@pytest.mark.parametrize("case", PIPELINES)
def test_nests_hold_what_is_computed_in_their_iterations(case: str) -> None:
    """As it turns out when schedules are carried out point by point."""
    file = named(case)
    for candidate in drawn(file, 10, 1, DescentCounts()):
        carried_out = Scheduled(file.backbone, file.boxes, candidate, inputs_of(file))
        carried_out.run()
        nests = schedule(file.backbone.steps, CandidateDecisions(candidate))
        assert list(carried_out.paths) == list(paths(nests)), text(nests)

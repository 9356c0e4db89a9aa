"""Loop nests of candidates: what stands inside of what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import pytest

from spacedsl.codegen.pipeline.schedule import (
    CandidateDecisions,
    Nest,
    check_decisions,
    schedule,
    text,
)
from spacedsl.diagnostics import DiagnosticError, Source
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.pipeline.backbone import FOLLOWING, SLOTS
from spacedsl.kernels.pipeline.kernel_file import PIPELINE_SPACE, PipelineFile
from spacedsl.language.loader import check_source
from tests.kernels.pipeline.cases import PIPELINES, drawn, inputs_of, instance, named, scheduled
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.scheduled import Scheduled
from tests.rules import rules_of


def test_a_schedule_is_shown_as_loops() -> None:
    file = named("a product")
    sites = {"f": "INLINE", "f_sum.1": "REG", "f_sum": "REG", "a": "TASK"}
    tiles = {"g.y.TASK": 2, "g.y.REG": 1, "g.x.REG": 2}
    candidate = scheduled(instance(file.backbone), sites, tiles)
    assert text(schedule(file.backbone.steps, CandidateDecisions(candidate))).splitlines() == [
        "g: 5 x, 4 y",
        "  for y in 2 of 2 (TASK)",
        "    a: 5 x, 6 k",
        "    for y in 2 of 1 (REG)",
        "      for x in 3 of 2 (REG)",
        "        f_sum: 2 x, 1 y",
        "        f_sum.1: 6 k, 2 x, 1 y",
    ]


def test_tasks_with_partial_results_are_shown() -> None:
    file = named("a histogram")
    candidate = scheduled(instance(file.backbone), {"a": "INLINE"}, {"h.1.r.TASK": 2, "h.1.i.CHUNK": 12})
    shown = text(schedule(file.backbone.steps, CandidateDecisions(candidate)))
    assert shown.splitlines()[-4:-1] == [
        "h.1: 5 r, 23 i",
        "  for r in 3 of 2 (TASK, PARTIAL)",
        "    for i in 2 of 12 (CHUNK)",
    ]


def planes() -> PipelineFile:
    return pipeline("a(x, y, z) = x * y + z", "{a: {x: 4, y: 2, z: 2}}")


def test_the_innermost_loop_is_chosen_and_others_keep_their_order() -> None:
    file = planes()
    here = instance(file.backbone)
    tiles = {"a.x.CHUNK": 2, "a.y.CHUNK": 1, "a.z.CHUNK": 1}
    orders = [
        "".join(loop.dim for loop in schedule(file.backbone.steps, CandidateDecisions(c))[0].levels[0].loops)
        for c in (scheduled(here, {}, tiles, innermost={"a.CHUNK": place}) for place in range(3))
    ]
    assert orders == ["zyx", "zxy", "yxz"]


def test_each_loop_nest_has_one_spelling() -> None:
    """Of a stage alone: nothing but tiles and orders is decided."""
    file = planes()
    here = instance(file.backbone)
    root = here.root()
    assert root is not None
    shown: Counter[str] = Counter()
    waiting = [root]
    while waiting:
        candidate = waiting.pop()
        variable = next((v for v in here.variables if candidate.is_open(v)), None)
        if variable is None:
            shown[text(schedule(file.backbone.steps, CandidateDecisions(candidate)))] += 1
            continue
        mask = candidate.mask(variable)
        values = [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]
        found = (here.restrict(candidate, variable, value) for value in values)
        waiting += [each for each in found if each is not None]
    assert set(shown.values()) == {1}
    (step,) = (each for each in file.backbone.steps if not each.is_exit)
    nests = product(*(cuts(box.sizes[:-1], step.points(box.dim), SLOTS[1:]) for box in step.slots[1].boxes))
    orders = (prod(max(1, sum(slot in dim for dim in nest)) for slot in FOLLOWING) for nest in nests)
    assert len(shown) == sum(orders)


def cuts(sizes: Sequence[int], points: int, slots: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The slots at which a dimension has loops, once for each choice of their tiles."""
    if not slots:
        yield ()
        return
    yield from cuts(sizes, points, slots[1:])
    for size in sizes:
        if size < points:
            yield from ((slots[0], *more) for more in cuts(sizes, size, slots[1:]))


def refused(space: str) -> list[str]:
    """What is said of a space that code is wanted of."""
    source = Source("own.space", space)
    checked, _ = check_source(source)
    assert checked is not None
    try:
        check_decisions(checked, source)
    except DiagnosticError as error:
        return [f"{d.code} {d.message}" for d in error.diagnostics]
    return []


def test_a_space_has_to_decide_what_lowering_reads() -> None:
    rules = rules_of(PIPELINE_SPACE)
    assert refused(rules) == []
    steps = 'set Steps: iterator = "$kernel.steps" end\n'
    assert refused(steps + "choice ordered enum site($s in Steps): ROOT < WARP end") == [
        "SP420 there is no code for the value `WARP` of `site`",
        "SP420 no code can be made: a quantity `extent` of 1 object is needed",
        "SP420 no code can be made: a quantity `trips` of 1 object is needed",
    ]
    assert refused(rules_of(PIPELINE_SPACE).replace("value PARTIAL:", "value SHUFFLE:")) == [
        "SP420 there is no code for the value `SHUFFLE` of `reduce`",
    ]
    other = (
        "choice ordered enum place($s in Steps): ROOT < TASK end\nquantity extent($s in Steps) = place($s)"
    )
    assert refused(steps + other)[:2] == [
        "SP420 no code can be made: an enum choice `site` of 1 object is needed",
        "SP420 no code can be made: a quantity `extent` of 1 object is needed",
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
    for candidate in drawn(file, 6, 1, DescentCounts()):
        carried_out = Scheduled(file.backbone, candidate, inputs_of(file))
        carried_out.run()
        nests = schedule(file.backbone.steps, CandidateDecisions(candidate))
        assert list(carried_out.paths) == list(paths(nests)), text(nests)

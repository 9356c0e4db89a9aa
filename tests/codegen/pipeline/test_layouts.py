"""Layouts: along which dimension what a stage keeps lies beside each other, and what vectors make of it."""

from __future__ import annotations

import pytest

from spacedsl.codegen.pipeline.schedule import CandidateDecisions, schedule, text
from spacedsl.codegen.tree.expressions import Gather, Lane, Load, Pack, type_of
from spacedsl.codegen.tree.parts import expressions, loaded, statements
from spacedsl.codegen.tree.program import Program, Store, Sweep
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from tests.codegen.pipeline.test_lower import found, lowered
from tests.kernels.pipeline.cases import drawn, inputs_of, instance, scheduled
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.pointwise import elements
from tests.kernels.pipeline.scheduled import outputs_of

IMAGE = "{image: {dtype: i32, extents: [40, 40]}}"

TURNED = pipeline("t(x, y) = image(x, y) * 3\nf(x, y) = t(y, x) + 1", "{f: {x: 19, y: 13}}", IMAGE)


def program_of(file: PipelineFile, layouts: dict[str, int], sites: dict[str, str] | None = None) -> Program:
    """What is right."""
    program = lowered(file, scheduled(instance(file.backbone), sites or {}, {}, layouts=layouts))
    assert found(file, program) == outputs_of(
        file.algorithm, elements(file.algorithm, file.boxes, inputs_of(file))
    )
    return program


def widths(program: Program, tensor: str) -> set[int]:
    """Lanes that are loaded of an array together."""
    return {e.type.lanes for e in expressions(program.body) if isinstance(e, Load) and e.tensor == tensor}


def stored(program: Program, tensor: str) -> set[int]:
    found = (s for s in statements(program.body) if isinstance(s, Store) and s.tensor == tensor)
    return {type_of(store.value).lanes for store in found}


def test_vectors_go_along_what_lies_beside_each_other() -> None:
    """By rows, those of `f` pick elements of `t`; by columns, those of `t` pick elements of the image."""
    rows, columns = (program_of(TURNED, {"t": layout}) for layout in (0, 1))
    picked = (Pack, Gather)
    for program, wide, apart in ((rows, "image", "t"), (columns, "t", "image")):
        assert 4 in widths(program, wide)
        assert widths(program, apart) <= {1}
        assert 4 in stored(program, "t") & stored(program, "f")
        assert {e for e in expressions(program.body) if isinstance(e, picked)}
        assert all(wide not in loaded_by(e) for e in expressions(program.body) if isinstance(e, picked))


def loaded_by(expression: Pack | Gather) -> set[str]:
    if isinstance(expression, Gather):
        return {expression.tensor}
    return {part.tensor for part in expression.values if isinstance(part, Load)}


def test_rows_of_columns_are_summed_up_by_lanes() -> None:
    stages = "t(x, k) = image(x, k) * 3\ns(x) = 1\ns(x) += t(x, k) for k in 0:23"
    file = pipeline(stages, "{s: {x: 5}}", IMAGE)
    by_rows, by_columns = (program_of(file, {"t": layout}) for layout in (0, 1))

    def steps(program: Program) -> set[int]:
        found = (s for s in statements(program.body) if isinstance(s, Sweep))
        return {sweep.step for sweep in found if sweep.variable.startswith("s_k")}

    assert steps(by_rows) == {1}
    assert steps(by_columns) == {16, 4, 1}
    assert any(isinstance(e, Lane) for e in expressions(by_columns.body))


def test_accumulators_lie_as_their_stage_does() -> None:
    stages = "s(x, y) = 1\ns(x, y) += image(y, x + k) for k in 0:4\nf(x, y) = s(x, y) + s(x, y + 1)"
    file = pipeline(stages, "{f: {x: 9, y: 7}}", IMAGE)
    for site in ("ROOT", "TASK"):
        program = program_of(file, {"s.1": 1}, {"s": site, "s.1": site})
        assert 4 in widths(program, "image")
        assert loaded(program.body)


def test_what_is_kept_another_way_is_shown() -> None:
    candidate = scheduled(instance(TURNED.backbone), {}, {}, layouts={"t": 1})
    shown = text(schedule(TURNED.backbone.steps, CandidateDecisions(candidate)))
    assert "t: 13 x, 19 y, kept along y" in shown.splitlines()


def test_each_layout_is_spelled_in_one_way() -> None:
    """Of what is inlined, or a point thick, there is one; of outputs, their callers say it."""
    file = pipeline(
        "a(x, y, c) = image(x, y) + c\nb(x, y, c) = a(y, x, c)\nf(x, y) = b(x, y, 0)",
        "{f: {x: 9, y: 7}}",
        IMAGE,
    )
    kernel = file.backbone
    assert {step.name for step in kernel.arrangeable} == {"a", "b", "image_copy"} - (
        {"image_copy"} if not any(s.is_copy for s in kernel.steps) else set()
    )
    assert all(step.layouts == (0, 1) for step in kernel.arrangeable)
    layouts, is_other = set[tuple[str, int]](), 0
    for candidate in drawn(file, 60, 3, DescentCounts()):
        for step in kernel.arrangeable:
            layout, site = candidate.value("layout", step), str(candidate.value("site", step))
            layouts.add(("INLINE" if site == "INLINE" else "", int(layout)))
            if layout:
                is_other += 1
                slot = step.slots[("ROOT", "TASK", "CHUNK", "LANE", "REG").index(site)]
                assert CandidateDecisions(candidate).extent(slot.boxes[1]) > 1
    assert ("INLINE", 1) not in layouts
    assert is_other


@pytest.mark.parametrize("layout", [1, 2])
def test_any_dimension_may_be_the_first(layout: int) -> None:
    stages = "t(x, y, c) = image(x, y) * (c + 1)\nf(x, y) = t(x, y, 0) + t(x, y, 1) * 2 + t(x, y, 5) * 7"
    file = pipeline(stages, "{f: {x: 11, y: 6}}", IMAGE)
    for site in ("ROOT", "TASK", "LANE"):
        program_of(file, {"t": layout}, {"t": site})

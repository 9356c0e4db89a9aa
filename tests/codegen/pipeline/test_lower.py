"""Programs of random schedules: interpreted, and as C, they compute what the algorithm says."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.pipeline import nests
from spacedsl.codegen.pipeline.lower import lower
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.tree.expressions import Gather, Interleave, Lane, Pack, Select, type_of
from spacedsl.codegen.tree.parts import expressions, statements, values
from spacedsl.codegen.tree.program import Program, Store, Sweep, When
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.pipeline.algorithm import Box
from spacedsl.kernels.pipeline.arguments import held, value_names
from spacedsl.kernels.pipeline.backbone import FULL
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.costs.pipeline import PipelineCosts
from tests.codegen.devices import DEVICE
from tests.codegen.interpreter import interpret
from tests.codegen.pipeline.running import compiled_difference
from tests.codegen.pipeline.test_cases import MOST_COMPUTED, SCHEDULES, scheduled_case
from tests.kernels.pipeline.cases import (
    IMAGE,
    PIPELINES,
    drawn,
    inputs_of,
    instance,
    moderate,
    named,
    scheduled,
)
from tests.kernels.pipeline.cases import points as computed
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.images import Image, images
from tests.kernels.pipeline.pointwise import Elements, elements
from tests.kernels.pipeline.scheduled import outputs_of
from tests.kernels.pipeline.test_library import NAMES
from tests.kernels.pipeline.test_space import graphs


def lowered(file: PipelineFile, candidate: Candidate, vector_bytes: int = 16) -> Program:
    return verify(lower(file.backbone, CandidateDecisions(candidate), vector_bytes))


def points(box: Box) -> list[tuple[int, ...]]:
    """In the order of an array, the innermost dimension first in each."""
    return [p[::-1] for p in itertools.product(*(range(e.low, e.high + 1) for e in reversed(box)))]


def found(file: PipelineFile, program: Program) -> dict[str, Elements]:
    """What the program leaves in its outputs."""
    inputs, boxes = inputs_of(file), held(file.algorithm, file.boxes)
    memory: dict[str, list[Any]] = {t.name: [None] * t.span for t in program.tensors}
    memory |= {s.tensor.name: [None] * s.tensor.span for s in program.scratch}
    memory |= {name: [inputs[name](p) for p in points(boxes[name])] for name in inputs if name in boxes}
    interpret(program, memory, {p.name: p.value for p in file.algorithm.parameters})
    return {
        name: {
            point: tuple(memory[array][n] for array in value_names(file.algorithm.stage(name)))
            for n, point in enumerate(points(box))
        }
        for name, box in file.algorithm.outputs.items()
    }


def sweeps(program: Program) -> list[Sweep]:
    return [s for s in statements(program.body) if isinstance(s, Sweep)]


def results(file: PipelineFile) -> dict[str, Elements]:
    """What the algorithm says is in its outputs."""
    return outputs_of(file.algorithm, elements(file.algorithm, file.boxes, inputs_of(file)))


def try_programs(file: PipelineFile, count: int, seed: int, vector_bytes: int = 16) -> None:
    expected = results(file)
    for candidate in drawn(file, count, seed, DescentCounts()):
        program = lowered(file, candidate, vector_bytes)
        assert found(file, program) == expected, candidate.decisions()


@pytest.mark.parametrize("case", PIPELINES)
def test_programs_compute_what_algorithms_say(case: str) -> None:
    try_programs(named(case), 12, 4)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(graphs(), st.integers(1, 40), st.sampled_from([16, 32, 64]), st.integers(0, 2**32))
def test_programs_of_generated_graphs_compute_what_they_say(
    stages: str, extent: int, vector_bytes: int, seed: int
) -> None:
    last = stages.splitlines()[-1].split("(")[0]
    try_programs(pipeline(stages, f"{{{last}: {{x: {extent}}}}}", IMAGE), 2, seed, vector_bytes)


@settings(max_examples=7, deadline=None, derandomize=True)
@given(images(12), st.sampled_from([16, 32, 64]), st.integers(0, 2**32))
def test_programs_of_generated_images_compute_what_they_say(
    image: Image, vector_bytes: int, seed: int
) -> None:
    file = image.file()
    assume(sum(math.prod(e.size for e in box) for box in file.boxes.values()) < 2000)
    try_programs(file, 2, seed, vector_bytes)


def test_what_stands_still_is_there_before_a_loop_with_what_it_alone_reads() -> None:
    """Both slide around `y`; along `r`, which is inside of it, neither moves."""
    stages = """
        a(x, y) = image(x, y)
        d(x, y) = a(x, y) + a(x, y + 1)
        b(x, y) = 0
        b(x, y) += d(x, y) * r for r in 0:6
    """
    file = pipeline(stages, "{b: {x: 5, y: 7}}", IMAGE)
    tiles = {"b.1.y.CHUNK": 3, "b.1.r.CHUNK": 2}
    candidate = scheduled(instance(file.backbone), {"a": "CHUNK", "d": "CHUNK"}, tiles, sliding=["a", "d"])
    assert found(file, lowered(file, candidate)) == results(file)


def test_what_would_go_beyond_the_end_of_a_row_begins_earlier_where_points_may_be_computed_again() -> None:
    """There are no single points then, and nothing is asked; updates have what is left one by one."""

    def loops(definition: str, extent: int, tile: int) -> tuple[list[int], bool]:
        """The steps of loops, and whether something is asked."""
        file = pipeline(definition, f"{{b: {{x: {extent}}}}}", IMAGE)
        candidate = scheduled(instance(file.backbone), {}, {"b.x.LANE": tile})
        program = lowered(file, candidate)
        assert found(file, program) == results(file)
        is_asked = any(isinstance(s, When) for s in statements(program.body))
        return [sweep.step for sweep in sweeps(program)], is_asked

    once = "b(x) = image(x, 0) * 2"
    assert loops(once, 260, FULL) == ([4], False)
    assert loops(once, 263, FULL) == ([1, 4], False), "twice through the same loop"
    assert loops(once, 245, 64) == ([64], False), "one point in 16 again"
    assert loops(once, 210, 64) == ([64, 64, 1, 4], True), "the last box may begin in the one before"
    assert 1 in loops(f"{once}\nb(x) += 3", 263, FULL)[0]


def test_of_points_that_read_much_a_part_of_each_row_is_written_out() -> None:
    """Of 8 vectors in each of 2 rows, where vectors of both rows may read 128 others."""

    def written_out(reads: int) -> int:
        terms = " + ".join(f"image(x + {n % 5}, y + {n // 5})" for n in range(reads))
        file = pipeline(f"b(x, y) = {terms}", "{b: {x: 64, y: 4}}", IMAGE)
        candidate = scheduled(instance(file.backbone), {}, {"b.x.LANE": 32, "b.y.LANE": 2})
        program = lowered(file, candidate)
        assert found(file, program) == results(file)
        bodies = [[s for s in sweep.body if isinstance(s, Store)] for sweep in sweeps(program)]
        return max(map(len, bodies))

    assert [written_out(reads) for reads in (1, 8, 9, 16, 25)] == [16, 16, 8, 8, 4]


@pytest.mark.parametrize(
    "definition",
    [
        "f(x) = select(x * 100000000 >= 0, a(x), 5 - a(x))",
        "f(x) = select(x * 65536 * 65536 == 0, a(x), 5)",
        "f(x) = select(x * 100000000 / 100000000 == x, a(x), 5)",
        "f(x) = a((b(x) * 1000000020 + x) % 60)",
        "f(x) = a(clamp((b(x) * 1000000008 + x) / 4, 0, 59))",
        "f(x) = a(clamp(b(x) * 65536 * 65535, 0, 59))",
        "f(x) = a(x / 100000 / 100000) + a(-x / 100000 / 100000 + 1)",
        "g(x) = x * 1000000007\nf(x) = a(clamp(g(x) / 3, 0, 59)) + g(x) % 7",
        "f(x) = a(clamp(min(b(x) * 1000000007 + 5, b(x) * 1000000007 + 2000000000) / 70000000, 0, 59))",
        "f(x) = a(clamp(max(b(x) * 1000000007 + 5, b(x) * 1000000007 + 2000000000) / 70000000, 0, 59))",
    ],
)
def test_integers_wrap_around_wherever_they_stand(definition: str) -> None:
    """Whole numbers that positions are reasoned about would not."""
    inputs = "{a: {dtype: i32, extents: [60]}, b: {dtype: i32, rank: 1}}"
    try_programs(pipeline(definition, "{f: {x: 60}}", inputs), 6, 1)


def test_what_an_accumulation_with_a_condition_has_so_far_is_computed_once() -> None:
    def length(turns: int) -> int:
        stages = f"s(x) = 0\ns(x) += image(x + r, 0) for r in 0:{turns} where r != x\no(x) = s(x) + s(x + 1)"
        file = pipeline(stages, "{o: {x: 9}}", IMAGE)
        inlined = scheduled(instance(file.backbone), {"s": "INLINE", "s.1": "INLINE"}, {})
        return len(print_c(lowered(file, inlined), 2))

    assert length(16) < 2.5 * length(8)


def test_long_chains_of_inlined_stages_are_lowered() -> None:
    stages = ["s0(x) = image(x, 0)", *(f"s{n}(x) = s{n - 1}(x) + {n}" for n in range(1, 300))]
    file = pipeline("\n".join(stages), "{s299: {x: 9}}", IMAGE)
    inlined = scheduled(instance(file.backbone), {f"s{n}": "INLINE" for n in range(299)}, {})
    program = lowered(file, inlined)
    assert found(file, program) == results(file)


# ---- Applications -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_schedules_of_applications_compute_in_c_what_they_say(name: str, tmp_path: Path) -> None:
    file, case = scheduled_case(name)
    costs = PipelineCosts(instance(file.backbone), DEVICE)
    candidates = moderate(
        lambda count, apart: drawn(file, count, 1, DescentCounts(), apart),
        lambda candidate: computed(costs.estimate(candidate)),
        SCHEDULES,
        MOST_COMPUTED,
    )
    for number, candidate in enumerate(candidates):
        program = lowered(file, candidate, (16, 32, 64)[number % 3])
        library = tmp_path / f"{number}.so"
        assert compiled_difference(file, program, case, library, ("-O0",)) == "", candidate.decisions()
    assert number + 1 == SCHEDULES


# ---- Vectors along a range --------------------------------------------------------------------------------


def test_rows_are_summed_up_by_lanes_and_what_is_left_one_by_one() -> None:
    """Of 23 elements four vectors side by side, one, and three; of columns, lanes are points."""

    def steps(count: int, vector_bytes: int) -> list[int]:
        file = pipeline(f"s(y) = 1\ns(y) += image(k, y) for k in 0:{count}", "{s: {y: 5}}", IMAGE)
        program = lowered(file, scheduled(instance(file.backbone), {}, {}), vector_bytes)
        return [sweep.step for sweep in sweeps(program) if sweep.variable.startswith("s_k")]

    assert steps(23, 16) == [16, 4, 1]
    assert steps(23, 32) == [16, 8, 1]
    assert steps(23, 64) == [16, 1]
    assert steps(32, 64) == [32]
    assert steps(16, 64) == [16]
    assert set(steps(9, 16)) == {1}
    columns = pipeline("s(y) = 1\ns(y) += image(y, k) for k in 0:23", "{s: {y: 5}}", IMAGE)
    program = lowered(columns, scheduled(instance(columns.backbone), {}, {}), 16)
    assert not any(isinstance(e, Lane) for e in expressions(program.body))


# ---- Vectors ----------------------------------------------------------------------------------------------

EDGES = ("repeat_edge", "repeat_image", "mirror_image", "mirror_interior", "constant_exterior")


@pytest.mark.parametrize("edge", EDGES)
def test_away_from_edges_neighbours_are_loaded_together(edge: str) -> None:
    """Wherever there are vectors at all. Points beside the middle are computed, too."""
    taps = (f"{edge}(photo, {'0, ' * (edge == 'constant_exterior')}x + {n})" for n in (-5, 0, 7))
    photo = "{photo: {dtype: f32, extents: [200]}}"
    file = pipeline(f"f(x) = {' + '.join(taps)}", "{f: {x: 200}}", photo)
    stored = []
    for candidate in drawn(file, 10, 2, DescentCounts()):
        body = lowered(file, candidate, 32).body
        stored += [s for s in statements(body) if isinstance(s, Store) and type_of(s.value).lanes > 1]
        assert not [v for v in values(body) if isinstance(v, Pack)], candidate.decisions()
    assert stored
    try_programs(file, 10, 2, 32)


@pytest.mark.parametrize("edge", EDGES)
def test_stages_that_end_somewhere_are_computed_nowhere_else(edge: str) -> None:
    """Wherever they are computed, and with vectors in the middle."""
    outside = "7, " * (edge == "constant_exterior")
    stages = f"""
        g(x, y) = photo(x, y) * 3
        h(x, y) = {edge}(g, {outside}x - 2, y + 1 in 0:4) + {edge}(g, {outside}x + 5 in 8:30, y)
        f(x, y) = h(x, y) + h(x + 1, y - 1)"""
    file = pipeline(stages, "{f: {x: 30, y: 5}}", "{photo: {dtype: i32, rank: 2}}")
    try_programs(file, 5, 3, 16)


@pytest.mark.parametrize("sites", [{}, {"b": "INLINE"}, {"a": "INLINE", "b": "INLINE"}])
def test_what_the_number_of_a_colour_decides_is_not_computed(sites: dict[str, str]) -> None:
    file = named("colours")
    body = lowered(file, scheduled(instance(file.backbone), sites, {})).body
    assert not [e for e in expressions(body) if isinstance(e, Select)]


IN_TURNS = """
    picked(x, y) = select(x % 2 == 0 && y % 2 == 0, a(x / 2, y / 2), y % 2 == 0, b(x / 2, y / 2),
      x % 2 == 0, a(x / 2, y / 2 + 1), b(x / 2, y / 2 + 1))
    large(x, y) = (a(x / 2, y) + a((x + 1) / 2, y)) / 2
"""


@pytest.mark.parametrize("name", ["picked", "large"])
@pytest.mark.parametrize(("low", "size"), [(0, 61), (1, 62), (3, 5), (0, 2), (7, 40)])
def test_even_and_odd_points_are_computed_apart(name: str, low: int, size: int) -> None:
    """Vectors of neighbours are read and woven; nothing is selected, at whatever point a row begins."""
    inputs = "{a: {dtype: i16, extents: [40, 20]}, b: {dtype: i16, extents: [40, 20]}}"
    file = pipeline(IN_TURNS, f"{{{name}: {{x: '{low}:{low + size}', y: '1:12'}}}}", inputs)
    candidate = scheduled(instance(file.backbone), {}, {f"{name}.y.TASK": 3})
    body = lowered(file, candidate, 16).body
    found = [*values(body)]
    wide = [s for s in statements(body) if isinstance(s, Store) and type_of(s.value).lanes > 1]
    assert not [v for v in found if isinstance(v, Pack)]
    if size >= 4:
        assert wide
        assert all(isinstance(s.value, Interleave) for s in wide)
        assert not [e for e in expressions(body) if isinstance(e, Select) and type_of(e).lanes > 1]
    try_programs(file, 4, 3, 16)


def test_what_values_read_of_a_single_place_is_read_there() -> None:
    """By lanes as well: there is nothing that would say where each lies."""
    inputs = "{a: {dtype: f32, rank: 1}, t: {dtype: f32, extents: [1]}}"
    stages = "g(i) = i * 3\nf(x) = f32(g(clamp(i32(a(x)), 5, 5))) + t(clamp(i32(a(x)), 0, 0))"
    try_programs(pipeline(stages, "{f: {x: 64}}", inputs), 8, 1, 32)


def test_what_values_say_where_to_read_is_gathered() -> None:
    file = named("a slice")
    body = lowered(file, scheduled(instance(file.backbone), {}, {}), 32).body
    gathers = [e for e in expressions(body) if isinstance(e, Gather)]
    assert {gather.tensor for gather in gathers} == {"t"}
    assert {len(gather.taken) for gather in gathers} == {2}


@pytest.mark.parametrize("sum_type", ["u16", "f32"])
def test_what_is_stored_is_as_wide_as_vectors_of_the_machine(sum_type: str) -> None:
    """Also where it is a number, as what a sum begins with; ranges say nothing of how wide it is."""
    file = pipeline(
        f"f(x) = sum[i in 0:9]({sum_type}(i + 1) * photo(x + i))",
        "{f: {x: 99}}",
        f"{{photo: {{dtype: {sum_type}, rank: 1}}}}",
    )
    body = lowered(file, scheduled(instance(file.backbone), {}, {}), 16).body
    kinds = [type_of(s.value) for s in statements(body) if isinstance(s, Store)]
    assert max(kind.lanes * kind.dtype.nbytes for kind in kinds) == 16


def test_who_is_done_with_lowering_leaves_others_their_depth() -> None:
    """Several threads lower at a time, and the limit is one for all."""
    usual = sys.getrecursionlimit()
    first, second = nests._depth.further(), nests._depth.further()
    with second:
        with first:
            assert sys.getrecursionlimit() == nests.MOST_FRAMES
        assert sys.getrecursionlimit() == nests.MOST_FRAMES
    assert sys.getrecursionlimit() == usual

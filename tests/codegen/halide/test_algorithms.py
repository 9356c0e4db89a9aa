"""Algorithms as Halide's Python: what they compute there, and how they read."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from spacedsl.codegen.halide.export import algorithm_text, has_bf16, schedule_text
from spacedsl.codegen.pipeline.cases import make_cases
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.running.cases import Case
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.formats import NUMPY_TYPE
from spacedsl.kernels.pipeline.arguments import held, value_names
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.reference import evaluate
from spacedsl.kernels.pipeline.typing import ARGUMENTS
from spacedsl.kernels.reference import view
from tests.codegen.halide.running import Job, differences
from tests.codegen.pipeline.test_cases import cases_of
from tests.codegen.pipeline.test_lower import points
from tests.kernels.pipeline.arithmetic import arithmetic
from tests.kernels.pipeline.cases import PIPELINES, drawn, inputs_of, named
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.images import Image, images

pytest.importorskip("halide", reason="the package `halide` runs what is printed for it")


def jobs(file: PipelineFile, most: int = 6) -> list[Job]:
    """Of one pipeline, a stage after the other, on random values and on hard ones."""
    text = algorithm_text(file, is_at_root=True)
    cases = make_cases(file, np.random.default_rng(3))
    return [Job(file, text, case) for case in itertools.islice(cases, most)]


def small(file: PipelineFile) -> Case:
    """Small numbers, of which no float becomes an integer that does not hold it."""
    of, boxes = inputs_of(file), held(file.algorithm, file.boxes)
    tensors = {t.name: t for t in file.tensors if not t.is_output}
    given = {
        name: np.array([of[name](p) for p in points(boxes[name])], NUMPY_TYPE[t.dtype])
        for name, t in tensors.items()
    }
    arrays = {name: view(t, given[name]) for name, t in tensors.items()}
    found = evaluate(file.algorithm, file.boxes, arrays)
    expected = {}
    for stage, box in ((file.algorithm.stage(name), box) for name, box in file.algorithm.outputs.items()):
        pairs = zip(reversed(box), reversed(file.boxes[stage.name]), strict=True)
        part = tuple(slice(e.low - whole.low, e.high + 1 - whole.low) for e, whole in pairs)
        for name, array in zip(value_names(stage), found[stage.name], strict=True):
            expected[name] = np.ravel(array[part])
    return Case("small", given, {}, expected, dict.fromkeys(expected, 0.0))


def check(wanted: dict[str, list[Job]], folder: Path) -> None:
    tried = [(name, job) for name, each in wanted.items() for job in each]
    found = differences([job for _, job in tried], folder)
    wrong = [
        f"{name}, {job.case.name}: {said}\n{job.text}"
        for (name, job), said in zip(tried, found, strict=True)
        if said
    ]
    assert not wrong, wrong[0]


def test_small_pipelines_of_every_kind(tmp_path: Path) -> None:
    check({name: jobs(named(name), 1) for name in PIPELINES}, tmp_path)


def test_what_nothing_schedules_is_computed_where_it_is_read(tmp_path: Path) -> None:
    wanted = {}
    for name in ("blur", "a histogram", "a scan", "two values", "updates of an output"):
        file = named(name)
        case = next(make_cases(file, np.random.default_rng(3)))
        wanted[name] = [Job(file, algorithm_text(file, most_terms=most), case) for most in (0, 25)]
    check(wanted, tmp_path)


APPLICATIONS = ("camera_pipe", "hist_eq", "max_filter")
"""Of which the others are in `test_schedules.py`, and in the soak."""


def test_applications(tmp_path: Path) -> None:
    wanted = {}
    for name in APPLICATIONS:
        file, (random, *_) = cases_of(name)
        wanted[name] = [Job(file, algorithm_text(file, is_at_root=True), random)]
    check(wanted, tmp_path)


def test_a_reduction_takes_the_place_of_what_is_nothing_else_but_no_output_does(tmp_path: Path) -> None:
    inputs = "{image: {dtype: u16, rank: 2}}"
    stages = "h(x) = 0; h(x) += image(x, r) for r in 0:30; g(x) = h(x); f(x) = g(x) + g(x + 1)"
    stages = stages.replace("; ", "\n")
    merged, kept = (
        pipeline(stages, outputs, inputs) for outputs in ("{f: {x: 9}}", "{f: {x: 9}, h: {x: 10}}")
    )
    assert "    g[x] += hl.i32(image[x, r])\n" in algorithm_text(merged)
    assert "    h[x] += hl.i32(image[x, r])\n" in algorithm_text(kept)
    check({"merged": jobs(merged, 1), "kept": jobs(kept, 1)}, tmp_path)


def test_a_variable_that_stands_twice_in_a_position_is_one(tmp_path: Path) -> None:
    """Halide would ask for more of the image than there is."""
    stages = "s(x, y) = image(2 * y, x); f(x) = s(1, (x - 1) / 2 - x % 2)"
    file = pipeline(stages.replace("; ", "\n"), "{f: {x: 9}}", "{image: {dtype: i32, rank: 2}}")
    assert "unsafe_promise_clamped" in algorithm_text(file, is_at_root=True)
    check({"f": jobs(file, 1)}, tmp_path)


def test_what_is_known_of_a_part_is_promised_on_either_side(tmp_path: Path) -> None:
    for position in ("(i32(a(x)) >> 3) + 1", "1 + (i32(a(x)) >> 3)"):
        inputs = "{a: {dtype: u8, rank: 1}, lut: {dtype: i32, extents: [300]}}"
        file = pipeline(f"g(x) = lut({position})", "{g: {x: 9}}", inputs)
        assert algorithm_text(file).count("unsafe_promise_clamped") == 1
        check({"g": jobs(file, 1)}, tmp_path)


def test_a_remainder_that_does_not_begin_anew_is_promised(tmp_path: Path) -> None:
    """To Halide, each number below the divisor is one."""
    wanted = {}
    for position, count in (("x % 50", 1), ("x % 5", 0), ("(x + 12) % 32", 1), ("(x % 50) / 2", 1)):
        file = pipeline(f"f(x) = a({position})", "{f: {x: 9}}", "{a: {dtype: i32, rank: 1}}")
        assert algorithm_text(file).count("unsafe_promise_clamped") == count
        wanted[position] = jobs(file, 1)
    sums = "f(x) = sum[r in -2:0](a(r % 5, x))"
    wanted["of a range"] = jobs(pipeline(sums, "{f: {x: 9}}", "{a: {dtype: i32, rank: 2}}"), 1)
    check(wanted, tmp_path)


def test_ranges_that_nothing_depends_on_are_gone_through(tmp_path: Path) -> None:
    stages = "f(x) = 0; f(x) += image(x, 3) for r in 0:30, q in 0:2 where x < 4; f(x) = f(x) * 3 for r in 2:4"
    stages = stages.replace("; ", "\n")
    file = pipeline(stages, "{f: {x: 9}}", "{image: {dtype: i32, rank: 2}}")
    check({"f": jobs(file, 1)}, tmp_path)


def scheduled_jobs(file: PipelineFile, count: int) -> list[Job]:
    case = next(make_cases(file, np.random.default_rng(3)))
    candidates = drawn(file, count, 0, DescentCounts())
    return [Job(file, schedule_text(file, CandidateDecisions(c), 32), case) for c in candidates]


def test_a_condition_that_looks_at_the_stage_itself_stays_inside_of_all_tiles(tmp_path: Path) -> None:
    stages = "s(x, y) = i16(2)\ns(x, y) = i16(-p) for r in 0:4 where i16(-p) < s(x, y)"
    params = "params: {p: {dtype: i16, value: 3}}\n"
    check({"s": scheduled_jobs(pipeline(stages, "{s: {x: 1, y: 33}}", "{}", params), 8)}, tmp_path)


def test_an_output_may_have_several_values(tmp_path: Path) -> None:
    file = pipeline("o(x) = (a(x) + 1, f32(a(x)))", "{o: {x: 2:9}}", "{a: {dtype: i32, rank: 1}}")
    check({"o": [*jobs(file, 1), *scheduled_jobs(file, 2)]}, tmp_path)


def test_points_of_stages_are_chosen_from_anywhere(tmp_path: Path) -> None:
    """Of such points alone, the package makes a tuple."""
    inputs = "{a: {dtype: i8, rank: 1}, c: {dtype: bool, rank: 1}, n: {dtype: i32, rank: 1, values: [0, 2]}}"
    begun = "f(x) = a(x)\ng(x) = a(x) + i8(1)\n"
    made = {
        "in a sum": "o(x) = select(c(x), f(x), g(x)) + i8(1)",
        "alone": "o(x) = select(c(x), f(x), g(x))",
        "of many": "o(x) = mux(n(x), f(x), g(x), f(x + 1)) + i8(1)",
        "summed up": "o(x) = i8(0)\no(x) += select(c(x + r), f(x + r), g(x)) for r in 0:3",
        "two": "o(x) = (select(c(x), f(x), g(x)), select(c(x), g(x), f(x)) & i8(3))",
    }
    check({n: jobs(pipeline(begun + each, "{o: {x: 9}}", inputs), 1) for n, each in made.items()}, tmp_path)


def test_inputs_of_64_bits_lie_beside_others(tmp_path: Path) -> None:
    inputs = "{a: {dtype: u64, rank: 1}, b: {dtype: u32, rank: 1}}"
    check({"o": jobs(pipeline("o(x) = a(x) + u64(b(x))", "{o: {x: 9}}", inputs), 1)}, tmp_path)


def test_a_number_that_is_shifted_has_its_own_type(tmp_path: Path) -> None:
    made = ["i8(127) << clamp(a(x), i8(0), i8(3))", "(u8(255) << clamp(u8(a(x)), u8(0), u8(3))) / u8(4)"]
    made += [
        "u8(255) >> clamp(u8(a(x)), u8(0), u8(3))",
        "select(a(x) > i8(0), i8(1) << i8(a(x) & i8(3)), a(x))",
    ]
    stages = "\n".join(f"o{n}(x) = {each}" for n, each in enumerate(made))
    outputs = ", ".join(f"o{n}: {{x: 30}}" for n in range(len(made)))
    check({"o": jobs(pipeline(stages, f"{{{outputs}}}", "{a: {dtype: i8, rank: 1}}"), 1)}, tmp_path)


# ---- Semantics --------------------------------------------------------------------------------------------

INTEGERS = ("u8", "i16", "i32", "u64")


def test_integers_of_every_width_and_sign(tmp_path: Path) -> None:
    check({dtype: jobs(arithmetic(dtype), 1) for dtype in INTEGERS}, tmp_path)


def test_floats_of_every_type(tmp_path: Path) -> None:
    wanted = {}
    for dtype in ("f32", "f64", "f16"):
        made = [f"{function}(a(x))" for function, count in ARGUMENTS.items() if count == 1]
        made += [
            "pow(a(x), b(x))", "atan2(a(x), b(x))", "lerp(a(x), b(x), 0.3)", "u8(a(x) * 300)",
            "i32(-a(x) * 9)", "u32(a(x) * 40000)", "a(x) * 0.1 - 2 / b(x)", "a(x) < b(x) || a(x) > 0.7",
            "gain * a(x)", "bool(a(x))",
        ]  # fmt: skip
        stages = "\n".join(f"made{n}(x) = {each}" for n, each in enumerate(made))
        outputs = ", ".join(f"made{n}: {{x: 40}}" for n in range(len(made)))
        inputs = ", ".join(f"{name}: {{dtype: {dtype}, rank: 1}}" for name in "ab")
        params = f"params: {{gain: {{dtype: {dtype}, value: 0.3}}}}\n"
        file = pipeline(stages, f"{{{outputs}}}", f"{{{inputs}}}", params)
        wanted[dtype] = jobs(file, 1)
    check(wanted, tmp_path)


EDGES = ("repeat_edge", "repeat_image", "mirror_image", "mirror_interior", "constant_exterior")


def edged(edge: str) -> PipelineFile:
    value = "7, " * (edge == "constant_exterior")
    stages = f"f(x, y) = {edge}(photo, {value}x - 9, y + 3, 1) + {edge}(photo, {value}3 - x, 2 * y, 0)"
    return pipeline(stages, "{f: {x: 30, y: 8}}", "{photo: {dtype: u8, extents: [6, 5, 2]}}")


def test_an_input_may_be_a_single_element(tmp_path: Path) -> None:
    file = pipeline("f(x) = x + i32(z())", "{f: {x: 9}}", "{z: {dtype: u8, rank: 0}}")
    check({"z": jobs(file, 1)}, tmp_path)


def test_vectors_of_floats_that_narrow_integers_do_not_hold_are_their_last_bits(tmp_path: Path) -> None:
    file = pipeline(
        "f(x) = u8(a(x) * 1000)\ng(x) = i16(a(x) * 100000)\nh(x) = i8(i32(a(x) * 1000))\nk(x) = u8_sat(a(x))",
        "{f: {x: 64}, g: {x: 64}, h: {x: 64}, k: {x: 64}}",
        "{a: {dtype: f32, extents: [64]}}",
    )
    text = re.sub(r"\n( +)(\w)\[x\] = .*", r"\g<0>\n\1\2.vectorize(x, 16)", algorithm_text(file))
    assert text.count(".vectorize(x, 16)") == 4
    check({"vectors": [Job(file, text, small(file))]}, tmp_path)


def test_edges_are_rules_of_halide(tmp_path: Path) -> None:
    files = {edge: edged(edge) for edge in EDGES}
    for edge, file in files.items():
        text = algorithm_text(file)
        assert text.count(f"hl.BoundaryConditions.{edge}(photo, ") == 1
        assert "hl.Range(hl.Expr(), hl.Expr())" in text and "clamp" not in text
    check({edge: jobs(file, 2) for edge, file in files.items()}, tmp_path)


def test_stages_that_end_somewhere(tmp_path: Path) -> None:
    outside = {edge: "7, " * (edge == "constant_exterior") for edge in EDGES}
    stages = "\n".join(
        f"{edge}_(x, y) = {edge}(g, {value}x - 2, y + 1 in 0:4) + {edge}(g, {value}x + 5 in 8:30, y)"
        for edge, value in outside.items()
    )
    outputs = ", ".join(f"{edge}_: {{x: 30, y: 5}}" for edge in EDGES)
    file = pipeline(f"g(x, y) = photo(x, y) * 3\n{stages}", f"{{{outputs}}}", "{photo: {dtype: u8, rank: 2}}")
    check({"stages": jobs(file, 1)}, tmp_path)


@pytest.mark.parametrize(
    ("stages", "dtype", "has"),
    [
        ("f(x) = a(x) + 1.0", "f32", False),
        ("f(x) = f32(a(x))", "bf16", True),
        ("f(x) = f32(bf16(a(x)))", "f32", True),
        ("f(x) = a(x)\nf(r) += f32(bf16(r)) for r in 0:3", "f32", True),
    ],
)
def test_what_arrays_of_halide_do_not_have_is_noticed(stages: str, dtype: str, has: bool) -> None:
    file = pipeline(stages, "{f: {x: 9}}", f"{{a: {{dtype: {dtype}, rank: 1}}}}")
    assert has_bf16(file.algorithm) is has


def test_names_of_python_and_of_the_module_are_avoided(tmp_path: Path) -> None:
    stages = "lambda(x, s) = x + s; hl(s) = sum[lambda in 0:3](lambda(lambda, s)); x(x) = hl(x) + run(x)"
    inputs = "{run: {dtype: i32, rank: 1}}"
    check({"names": jobs(pipeline(stages.replace("; ", "\n"), "{x: {x: 9}}", inputs), 1)}, tmp_path)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(images())
def test_generated_images(tmp_path: Path, image: Image) -> None:
    file = image.file()
    assume(sum(math.prod(e.size for e in box) for box in file.boxes.values()) < 4000)
    check({"image": [Job(file, algorithm_text(file, is_at_root=True), small(file))]}, tmp_path)


# ---- How they read ----------------------------------------------------------------------------------------


def test_an_algorithm_reads_as_one_writes_it_by_hand() -> None:
    stages = (
        "gray(x, y) = 0.25 * f32(image(x, y, 0)) + 0.5 * f32(image(x, y, 1))\n"
        "wide(x, y) = sum[i in 0:3](gray(x + i, y))\n"
        "level(x, y) = u8_sat(wide(x, y))\n"
        "histogram(i) = 0\n"
        "histogram(level(r, q)) += 1 for r in 0:8, q in 0:6 where r != q\n"
    )
    file = pipeline(stages, "{histogram: {i: 256}}", "{image: {dtype: u8, extents: [10, 6, 2]}}")
    text = algorithm_text(file)
    body = text[text.index("    x, y") : text.index("    wanted(")]
    assert (
        body
        == """\
    x, y, i = hl.vars("x y i")

    gray = hl.Func("gray")
    gray[x, y] = 0.25 * hl.f32(image[x, y, 0]) + 0.5 * hl.f32(image[x, y, 1])

    wide = hl.Func("wide")
    wide[x, y] = gray[x, y] + gray[x + 1, y] + gray[x + 2, y]

    level = hl.Func("level")
    level[x, y] = hl.u8(hl.clamp(wide[x, y], 0.0, 255.0))

    histogram = hl.Func("histogram")
    histogram[i] = 0
    histogram_range = hl.RDom([hl.Range(0, 8), hl.Range(0, 6)], "histogram_range")
    r = histogram_range[0]
    q = histogram_range[1]
    histogram_range.where(r != q)
    histogram[hl.i32(level[r, q])] += 1

"""
    )

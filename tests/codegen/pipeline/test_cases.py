"""Test cases of pipelines: what they are of, and that they find mistakes in every application."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.cuda.batches.cases import write_cases
from spacedsl.codegen.pipeline.cases import make_cases, most_calls, not_finite
from spacedsl.codegen.running.cases import Case, NotFiniteError
from spacedsl.codegen.running.differences import first_difference
from spacedsl.kernels.backbones import load_any
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import as_numbers
from spacedsl.kernels.inputs import Array
from spacedsl.kernels.pipeline.algorithm import Algorithm
from spacedsl.kernels.pipeline.arguments import held
from spacedsl.kernels.pipeline.inputs import FLOATS, patchwork, random_values
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.pieces import parts, pieces
from spacedsl.kernels.pipeline.reference import evaluate
from spacedsl.kernels.reference import view
from tests.kernels.pipeline.faults import faulty
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, LIBRARY, NAMES, load

SIZES = {
    **{name: case.sizes for name, case in CASES.items()},
    "interpolate": {"width": 60, "height": 50},
    "iir_blur": {"width": 24, "height": 17},
    "lens_blur": {"width": 46, "height": 38, "slices": 8, "focus": 3, "reach": 3, "samples": 8},
    "local_laplacian": {"width": 37, "height": 26, "levels": 3},
    "max_filter": {"width": 28, "height": 22},
    "stencil_chain": {"width": 20, "height": 13},
}
SCHEDULES = 10
"""Random ones of each application that tests carry out; the soak has more."""

MOST_COMPUTED = 20_000_000
"""Points: what computes more is for the soak."""

SEEN_AT_LARGE = ("down_", "up_", "push_", "pull_")
"""Of deep pyramids, whose coarse levels have hardly an influence at small sizes."""


@cache
def cases_of(name: str) -> tuple[PipelineFile, tuple[Case, ...]]:
    file = load(name, SIZES[name])
    return file, tuple(make_cases(file, np.random.default_rng(0)))


def test_counts_of_a_stage_of_rounded_numbers_have_cases() -> None:
    """Both the place of a hit and what is read there may be off."""
    stages = "q(x) = u8_sat(8 + 200 * sqrt(image(x)))\nhist(i) = u32(0)\nhist(i32(q(r))) += 1 for r in 0:64"
    file = pipeline(stages, "{hist: {i: 256}}", "{image: {dtype: f32, extents: [64]}}")
    cases = [*make_cases(file, np.random.default_rng(0))]
    assert len(cases) > 3 and all(elements(file, case, "hist").sum() == 64 for case in cases)


SHORTER: Mapping[str, Mapping[str, int]] = {
    "interpolate": {**SIZES["interpolate"], "levels": 6},
    "lens_blur": {**SIZES["lens_blur"], "levels": 3},
    "local_laplacian": {**SIZES["local_laplacian"], "depth": 4},
    "stencil_chain": {**SIZES["stencil_chain"], "stages": 8},
    "vgg": {**SIZES["vgg"], "blocks": 3},
}
"""Of those with many stages that are alike: sizes of what Python makes of them."""


@cache
def scheduled_case(name: str) -> tuple[PipelineFile, Case]:
    """What tests try random schedules of an application on; the soak has all stages."""
    if name not in SHORTER:
        file, (case, *_) = cases_of(name)
        return file, case
    shorter = load_any(Path(f"{LIBRARY / 'python' / name}.py:build"), SHORTER[name])
    assert isinstance(shorter, PipelineFile)
    return shorter, next(make_cases(shorter, np.random.default_rng(0)))


def elements(file: PipelineFile, case: Case, name: str) -> Array:
    (tensor,) = (t for t in file.tensors if t.name == name)
    return view(tensor, {**case.inputs, **case.expected}[name])


def is_found(file: PipelineFile, case: Case, other: Algorithm) -> bool:
    """Whether the case tells another algorithm from that of the file."""
    (output,) = file.algorithm.outputs
    inputs = {name: elements(file, case, name) for name in case.inputs}
    boxes = {**file.boxes, **held(file.algorithm, file.boxes)}
    (found,) = evaluate(other, boxes, inputs)[output]
    return bool(first_difference(found, elements(file, case, output), case.tolerances[output]))


@pytest.mark.parametrize("name", NAMES)
def test_the_random_case_judges_nearly_all_elements(name: str) -> None:
    _, (random, *_) = cases_of(name)
    assert random.name == "random"
    for output, expected in random.expected.items():
        largest = np.nanmax(np.abs(expected.astype(np.float64)))
        sharp = np.ravel(random.tolerances[output]) <= largest / 16
        assert np.mean(sharp | np.isnan(expected)) > 0.95


@pytest.mark.parametrize("name", NAMES)
def test_what_computes_the_same_passes_and_a_mistake_does_not(name: str) -> None:
    file, cases = cases_of(name)
    assert not any(is_found(file, case, file.algorithm) for case in cases)
    mistakes = [
        (what, other)
        for what, other in faulty(file.algorithm, {**file.boxes, **held(file.algorithm, file.boxes)})
        if not what.startswith(SEEN_AT_LARGE)
    ]
    some = np.random.default_rng(5).choice(len(mistakes), min(len(mistakes), 6), replace=False)
    missed = [
        what
        for what, other in (mistakes[n] for n in some)
        if not any(is_found(file, case, other) for case in cases)
    ]
    assert not missed


@pytest.mark.parametrize("name", NAMES)
def test_a_tile_that_is_off_by_one_and_a_column_that_is_not_written_are_found(name: str) -> None:
    file, (case, *_) = cases_of(name)
    for output in case.expected:
        expected, tolerance = elements(file, case, output), case.tolerances[output]
        shifted = expected.copy()
        shifted[..., 1:3] = expected[..., 0:2]
        assert first_difference(shifted, expected, tolerance)
        unwritten = expected.copy()
        unwritten[..., -1] = np.frombuffer(b"\xde\xad\xc0\x7f" * 2, expected.dtype)[0]
        assert first_difference(unwritten, expected, tolerance)


def test_integers_are_exact_and_within_what_the_file_declares() -> None:
    inputs = "{a: {dtype: i16, extents: [4000], values: [-3, 40]}}"
    file = pipeline("f(x) = a(x) * 3 - a(x + 1)", "{f: {x: 3999}}", inputs)
    cases = {case.name: case for case in make_cases(file, np.random.default_rng(0))}
    assert list(cases) == [
        "random", "extremes", "zeros", "greatest values", "last element", "one element"
    ]  # fmt: skip
    assert all(case.tolerances == {"f": 0.0} for case in cases.values())
    assert {int(v) for v in cases["random"].inputs["a"]} == set(range(-3, 41))
    assert {int(v) for v in cases["extremes"].inputs["a"]} == {-3, -2, -1, 0, 1, 18, 39, 40}
    assert set(np.flatnonzero(cases["last element"].inputs["a"])) == {3999}


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("f32", 0, 1), ("f32", -2, 9), ("f16", 3, 5), ("bf16", -7, -6)]
)
def test_floats_are_within_what_the_file_declares(dtype: str, low: int, high: int) -> None:
    """What is read where they say is no further away, either."""
    inputs = f"{{a: {{dtype: {dtype}, extents: [4000], values: [{low}, {high}]}}}}"
    file = pipeline("g(i) = 3 * i\nf(x) = g(i32(a(x) * 4))", "{f: {x: 4000}}", inputs)
    for case in make_cases(file, np.random.default_rng(0)):
        values = as_numbers(DType.of(dtype), case.inputs["a"]).astype(np.float64)
        assert low <= values.min() and values.max() <= high
    for draw in (patchwork(np.random.default_rng(0)), random_values(np.random.default_rng(0), FLOATS[1])):
        values = draw(file.algorithm.inputs[0], 8000).astype(np.float64)
        assert low <= values.min() <= low + 0.1 and high - 0.1 <= values.max() <= high


def test_what_is_not_exact_has_the_tolerance_of_the_file() -> None:
    """Relative to the largest element; integers are exact."""
    stages, outputs = "f(x) = a(x) * 0.3\ng(x) = x * 2", "{f: {x: 50}, g: {x: 50}}"
    inputs = "{a: {dtype: f32, extents: [50]}}"
    file = pipeline(stages, outputs, inputs, "tolerance: 0.25\n")
    case = next(make_cases(file, np.random.default_rng(0)))
    largest = float(np.max(case.expected["f"]))
    assert case.tolerances == {"f": 0.25 * largest, "g": 0.0}
    off = case.expected["f"] + np.float32(0.2 * largest)
    assert not first_difference(off, case.expected["f"], case.tolerances["f"])


def test_floats_of_images_are_from_0_to_1_and_otherwise_where_that_gives_no_numbers() -> None:
    inputs = "{a: {dtype: f32, extents: [64]}}"
    image = pipeline("f(x) = a(x) * 0.5", "{f: {x: 64}}", inputs)
    random = next(make_cases(image, np.random.default_rng(0))).inputs["a"]
    assert 0 <= random.min() < 0.2 and 0.8 < random.max() < 1
    powers = pipeline("f(x) = sqrt(a(x) - 0.49)", "{f: {x: 64}}", inputs)
    assert next(make_cases(powers, np.random.default_rng(0))).inputs["a"].min() >= 0.5


def test_what_is_never_finite_is_told_with_its_output() -> None:
    file = pipeline(
        "g(x) = x\nf(x) = sqrt(-1 - a(x) * a(x))", "{g: {x: 3}, f: {x: 4}}", "{a: {dtype: f32, rank: 1}}"
    )
    with pytest.raises(NotFiniteError) as raised:
        list(make_cases(file, np.random.default_rng(0)))
    said = not_finite(file, raised.value.line)
    assert said.code == "KF047" and "`f`" in said.message


def test_what_rounding_may_change_altogether_is_told_as_what_it_is() -> None:
    file = pipeline(
        "f(i) = bf16(0)\nf(i) += a(r) for r in 0:4000", "{f: {i: 4}}", "{a: {dtype: bf16, rank: 1}}"
    )
    with pytest.raises(NotFiniteError) as raised:
        list(make_cases(file, np.random.default_rng(0)))
    said = not_finite(file, raised.value.line)
    assert "rounding may change all of it" in said.message and "f32 could hold" in (said.hint or "")


def test_a_bin_of_a_histogram_is_off_by_what_it_has_counted() -> None:
    """And not by what all others have."""
    file = pipeline(
        "h(i) = f16(0)\nh(i32(a(r))) += f16(b(r) % u8(3)) * f16(0.3) for r in 0:5000",
        "{h: {i: 256}}",
        "{a: {dtype: u8, extents: [5000]}, b: {dtype: u8, extents: [5000]}}",
    )
    random = next(make_cases(file, np.random.default_rng(0)))
    tolerance = random.tolerances["h"]
    assert not isinstance(tolerance, float)
    assert 0 < np.median(tolerance) < np.median(random.expected["h"].view(np.float16)) / 16


def test_a_large_pipeline_has_one_hard_case_of_all_kinds() -> None:
    file = load("blur", {"width": 2048, "height": 1500})
    random, patchwork = make_cases(file, np.random.default_rng(0))
    assert most_calls(file) == 2 and patchwork.name == "patchwork"
    assert random.expected["blur_y"].size == 2048 * 1500
    values = patchwork.inputs["input"]
    kinds = {tuple(np.unique(values[start : start + 997])[:3]) for start in range(997, 30000, 2 * 997)}
    assert len(kinds) > 3


def test_cases_hold_what_parts_give() -> None:
    file, (case, *_) = cases_of("camera_pipe")
    given = {name: elements(file, case, name) for name in case.inputs}
    for part in parts(file.algorithm, pieces(file.algorithm, file.boxes), given):
        np.testing.assert_array_equal(part.elements, elements(file, case, part.name)[part.place])


def test_a_batch_holds_the_tolerance_of_each_element(tmp_path: Path) -> None:
    file = pipeline("f(x) = exp(a(x))", "{f: {x: 9}}", "{a: {dtype: f32, rank: 1}}")
    write_cases(tmp_path, file, 3)
    about = json.loads((tmp_path / "cases.json").read_text(encoding="utf-8"))
    with np.load(tmp_path / "cases.npz") as arrays:
        for number, case in enumerate(make_cases(file, np.random.default_rng(3))):
            assert about[number]["tolerances"] == {}
            assert np.array_equal(arrays[f"{number}/tolerance/f"], case.tolerances["f"])
            assert np.array_equal(arrays[f"{number}/out/f"], case.expected["f"])


@pytest.mark.parametrize("count", [40, 4096, 300_000])
def test_long_sums_may_be_added_one_after_the_other(count: int) -> None:
    """Where all terms are alike, all of them are rounded the same way."""
    stages = f"s(i) = sum[p in 0:{count}](exp(x(p)))"
    file = pipeline(stages, "{s: {i: 1}}", f"{{x: {{dtype: f32, extents: [{count}]}}}}")
    cases = list(make_cases(file, np.random.default_rng(5)))
    assert len(cases) > 2
    for case in cases:
        terms = np.exp(case.inputs["x"])
        wanted, tolerance = float(case.expected["s"][0]), float(np.ravel(case.tolerances["s"])[0])
        assert tolerance < wanted / (16 if count > 4096 else 256)
        for lanes in (n for n in (1, 2, 8, 32) if count % n == 0):
            for chains in (terms.reshape(-1, lanes), terms.reshape(lanes, -1).T):
                assert abs(float(np.cumsum(chains, 0)[-1].sum()) - wanted) <= tolerance, case.name

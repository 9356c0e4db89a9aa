"""The space of pipelines: its schedules compute what the algorithm says, in boxes as large as it says."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Engine, Instance, Variable, instantiate
from spacedsl.kernels.pipeline.backbone import Kernel, Step
from spacedsl.kernels.pipeline.kernel_file import PIPELINE_SPACE, PipelineFile
from spacedsl.language import load_space
from tests.engine.agreement import Tally
from tests.engine.real_spaces import real_space
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.pointwise import Point, elements
from tests.kernels.pipeline.scheduled import Scheduled, outputs_of


@cache
def rules() -> CompiledSpace:
    return compile_space(load_space(PIPELINE_SPACE))


def instance(kernel: Kernel) -> Instance:
    return instantiate(rules(), kernel, None, Engine.NATIVE)


def stagewise(here: Instance) -> Callable[[Candidate], tuple[Variable, Sequence[int]] | None]:
    """From the output on: the site of a step, then its tiles; value by value."""

    def place(variable: Variable) -> int:
        each: Any = variable.objects[0]
        return (each if isinstance(each, Step) else each.step).from_output

    order = sorted(here.variables, key=lambda v: (place(v), v.choice))

    def branches(candidate: Candidate) -> tuple[Variable, Sequence[int]] | None:
        variable = next((v for v in order if candidate.is_open(v)), None)
        if variable is None:
            return None
        mask = candidate.mask(variable)
        return variable, [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]

    return branches


def inputs_of(file: PipelineFile) -> dict[str, Callable[[Point], Any]]:
    """Small numbers, everywhere."""
    return {
        i.name: lambda point, n=n: (7 * sum((k + 3) * p for k, p in enumerate(point)) + 11 * n) % 23  # type: ignore[misc]
        for n, i in enumerate(file.algorithm.inputs)
    }


def try_schedules(file: PipelineFile, count: int, seed: int = 0) -> DescentCounts:
    """Random ones, each carried out."""
    kernel = file.backbone
    here = instance(kernel)
    root = here.root()
    assert root is not None
    inputs = inputs_of(file)
    expected = outputs_of(file.algorithm, file.boxes, elements(file.algorithm, file.boxes, inputs))
    counts, branches, generator = DescentCounts(), stagewise(here), np.random.default_rng(seed)
    for _ in range(count):
        candidate = random_descent(here, root, branches, generator, counts)
        if candidate is not None:
            found = Scheduled(kernel, file.boxes, candidate, inputs).run()
            assert outputs_of(file.algorithm, file.boxes, found) == expected, candidate.decisions()
    return counts


IMAGE = "{image: {dtype: i32, rank: 2}}"

PIPELINES = {
    "blur": (
        "bx(x, y) = image(x, y) + image(x + 1, y); by(x, y) = bx(x, y) + bx(x, y + 2)",
        "{by: {x: 9, y: 7}}",
    ),
    "a chain": (
        "a(x) = image(x, 0); b(x) = a(x - 1) + a(x + 1); c(x) = b(x - 1) * b(x + 1); d(x) = c(x) + c(x + 2)",
        "{d: {x: 13}}",
    ),
    "a fork": (
        "a(x) = image(x, 0); b(x) = a(x - 2); c(x) = a(x + 3) * 2; d(x) = b(x) + c(x)", "{d: {x: 11}}"
    ),
    "a host that may be inlined": (
        "a(x) = image(x, 0); b(x) = a(x) + a(x + 1); c(x) = b(x); d(x) = b(x + 1); e(x) = c(x) + d(x + 1)",
        "{e: {x: 7}}",
    ),
    "two outputs": (
        "a(x) = image(x, 1); b(x) = a(x) + 1; c(x) = a(x + 1) * b(x)", "{b: {x: 6}, c: {x: 5}}"
    ),
    "downsampling": (
        "a(x) = image(x, 0); b(x) = a(2 * x) + a(2 * x + 1); c(x) = b(x) - b(x + 1)", "{c: {x: 7}}"
    ),
    "upsampling": (
        "a(x) = image(x, 0); b(x) = a(x / 2 - 1 + 2 * (x % 2)) + 3 * a(x / 2); c(x) = b(x) + b(x + 1)",
        "{c: {x: 13}}",
    ),
    "a pyramid": (
        "a(x) = image(x, 0); d(x) = a(2 * x - 1) + a(2 * x + 1); u(x) = d(x / 2) + d((x + 1) / 2); "
        "l(x) = a(x) - u(x); o(x) = l(x) + l(x + 1)",
        "{o: {x: 12}}",
    ),
    "two phases": ("a(x) = image(x, 0); b(x) = a(2 * x); c(x) = a(x) + b(x / 2)", "{c: {x: 11}}"),
    "a slow and a fast reader": ("a(x) = image(x, 0); b(x) = a(3 * x); c(x) = a(x) + b(x)", "{c: {x: 9}}"),
    "mirrored": ("a(x) = image(x, 0); b(x) = a(-x); c(x) = b(x) + b(x + 1)", "{c: {x: 9}}"),
    "transposed": (
        "a(x, y) = image(x, y); b(x, y) = a(y, x + 1); c(x, y) = b(x, y) + b(x + 1, y)", "{c: {x: 6, y: 5}}"
    ),
    "clamped": (
        "a(x) = image(x, 0); b(x) = a(clamp(x - 2, 0, 5)) + a(clamp(x + 2, 0, 5)); c(x) = b(x) + b(x + 1)",
        "{c: {x: 12}}",
    ),
    "clamped and not": (
        "a(x) = image(x, 0); b(x) = a(clamp(x, 2, 5)) + a(x); c(x) = b(x) - b(x + 1)", "{c: {x: 12}}"
    ),
    "clamped above": (
        "z(x) = image(x, 0); a(x) = z(x) + 1; b(x) = a(clamp(x, 2, 5)); c(x) = b(x) + z(x)", "{c: {x: 12}}"
    ),
    "a table": (
        "t(i) = i * i; a(x) = image(x, 0); b(x) = t(clamp(a(x), 0, 22)) + a(x + 1)", "{b: {x: 8}}"
    ),
    "a sum": (
        "f(x, y) = sum[r in 0:5](image(x + r, y)); g(x, y) = f(x, y) - f(x, y + 1)", "{g: {x: 7, y: 3}}"
    ),
    "a product": (
        "a(x, k) = image(x, k) + 1; f(x, y) = sum[k in 0:6](a(x, k) * image(k, y)); "
        "g(x, y) = max(f(x, y), 0)",
        "{g: {x: 5, y: 4}}",
    ),
    "a histogram": (
        "a(x, y) = image(x, y); rows(i, y) = 0; rows(clamp(a(r, y), 0, 22), y) += 1 for r in 0:6; "
        "h(i) = 0; h(i) += rows(i, r) for r in 0:5; g(i) = h(i) * 2",
        "{g: {i: 23}}",
    ),
    "a scan": (
        "a(x, y) = image(x, y); f(x, y) = a(x, y); f(x, r) = f(x, r - 1) * 2 + f(x, r) for r in 1:6; "
        "f(x, 4 - r) += f(x, 5 - r) for r in 0:5; g(x, y) = f(x, y) + f(x + 1, y)",
        "{g: {x: 6, y: 6}}",
    ),
    "a scan over two ranges": (
        "f(x) = x; f(x) = f(x) * 3 + image(r * x, s) for r in 0:5, s in 0:4; g(x) = f(x) - f(x + 1)",
        "{g: {x: 3}}",
    ),
    "two updates": (
        "f(x) = image(x, 0); f(x) += image(x, r) for r in 1:4; "
        "f(x) max= image(r, x) for r in 0:3 where r != x; g(x) = f(x) - f(x + 1)",
        "{g: {x: 9}}",
    ),
    "two values": ("f(x) = argmin[r in 0:7](image(x, r)); g(x) = f(x) + f(x + 1)", "{g: {x: 8}}"),
    "updates of an output": ("f(x) = image(x, 0); f(x) += image(x, r) for r in 1:4", "{f: {x: 9}}"),
}  # fmt: skip


@pytest.mark.parametrize("case", PIPELINES)
def test_schedules_compute_what_the_algorithm_says(case: str) -> None:
    stages, outputs = PIPELINES[case]
    counts = try_schedules(pipeline(stages.replace("; ", "\n"), outputs, IMAGE), 40)
    assert counts.complete >= 36


@pytest.mark.parametrize("name", ["a stencil", "a sum"])
def test_the_engine_finds_the_schedules_that_cp_sat_counts(name: str, tmp_path: Path) -> None:
    """All of them, and on the way to some of them nothing that has a solution is removed."""
    space, tally = real_space(name, tmp_path), Tally()
    assert space.solutions is not None
    assert space.solutions > 900
    space.count(tally)
    for seed in range(3):
        space.walk(random.Random(seed), tally)
    assert tally.questions > 5


# ---- Generated pipelines ----------------------------------------------------------------------------------


@st.composite
def positions(draw: st.DrawFn) -> str:
    """Of `x`: stencils, down- and upsampling, mirrored, held by numbers."""
    times, by = draw(st.sampled_from([(1, 1)] * 4 + [(2, 1), (1, 2), (3, 2), (1, 3), (-1, 1), (-1, 2)]))
    found = f"({times} * x + {draw(st.integers(-2, 2))}) / {by}"
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return f"clamp({found}, {draw(st.integers(-2, 1))}, {draw(st.integers(2, 5))})"
    return f"{found} + {draw(st.integers(1, 3))} * (x % {draw(st.integers(2, 3))})" if kind == 1 else found


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """Stages of one variable, each read by some that follow it."""
    count = draw(st.integers(2, 7))
    lines = ["s0(x) = image(x, 0)"]
    for number in range(1, count):
        sources = [number - 1, *draw(st.lists(st.integers(0, number - 1), max_size=2))]
        taps = [f"{draw(st.integers(1, 3))} * s{n}({draw(positions())})" for n in sources]
        if draw(st.integers(0, 4)):
            lines.append(f"s{number}(x) = {' + '.join(taps)}")
        else:
            lines += [f"s{number}(x) = 1", f"s{number}(x) += r * ({' + '.join(taps)}) for r in 0:3"]
    return "\n".join(lines)


@settings(max_examples=25, deadline=None)
@given(graphs(), st.integers(1, 9), st.integers(0, 2**32))
def test_schedules_of_generated_pipelines_compute_what_they_say(stages: str, extent: int, seed: int) -> None:
    last = stages.splitlines()[-1].split("(")[0]
    try_schedules(pipeline(stages, f"{{{last}: {{x: {extent}}}}}", IMAGE), 3, seed)

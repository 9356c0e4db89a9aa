"""Programs of random schedules for GPUs: their twins compute what the algorithm says, without races."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.cuda.nvrtc import QUICKLY, compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda, shared_bytes
from spacedsl.codegen.pipeline.cases import make_cases
from spacedsl.codegen.running.cases import Case
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import Barrier, Grid, PerThread
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from tests.codegen.cuda.grids import device
from tests.codegen.pipeline.on_gpus import (
    built,
    drawn,
    grids_of,
    moderate,
    twin_difference,
    twin_differences,
)
from tests.codegen.pipeline.test_cases import MOST_COMPUTED, SCHEDULES, cases_of, scheduled_case
from tests.kernels.pipeline.arithmetic import arithmetic
from tests.kernels.pipeline.cases import named
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.images import Image, images
from tests.kernels.pipeline.test_library import NAMES

pytestmark = pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")


MOST_WATCHED = 1_000_000
"""Points: races in what computes more are for the soak."""


def try_grids(file: PipelineFile, case: Case, count: int, seed: int, folder: Path) -> None:
    candidates = moderate(file, count, seed, MOST_COMPUTED)
    programs = [(candidate, grids_of(file, candidate)) for candidate in candidates]
    assert len(programs) == count
    for candidate, found in twin_differences(file, case, programs, folder, MOST_WATCHED):
        assert found == "", candidate.decisions()


@pytest.mark.parametrize("name", NAMES)
def test_schedules_of_applications_compute_what_they_say(name: str, tmp_path: Path) -> None:
    file, case = scheduled_case(name)
    try_grids(file, case, SCHEDULES, 1, tmp_path)


KINDS = (
    "a host that may be inlined", "upsampling", "transposed", "a product", "a scan", "updates of an output",
    "a histogram of each column", "a scan over two ranges", "values that change places",
    "reductions of every kind", "one value",
)  # fmt: skip
"""Of pipelines: what lies in arrays of all kinds, and is updated in each way."""


@pytest.mark.parametrize("case", KINDS)
def test_programs_compute_what_algorithms_say(case: str, tmp_path: Path) -> None:
    file = named(case)
    (first, *_) = make_cases(file, np.random.default_rng(3))
    try_grids(file, first, 2, 5, tmp_path)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(images(12), st.integers(0, 2**32))
def test_programs_of_generated_images_compute_what_they_say(image: Image, seed: int) -> None:
    file = image.file()
    assume(sum(math.prod(e.size for e in box) for box in file.boxes.values()) < 4000)
    (case, *_) = make_cases(file, np.random.default_rng(3))
    programs = [(candidate, grids_of(file, candidate)) for candidate in drawn(file, 2, seed)]
    with tempfile.TemporaryDirectory() as folder:
        for candidate, found in twin_differences(file, case, programs, Path(folder), MOST_WATCHED):
            assert found == "", candidate.decisions()


TYPES = {
    "i8": "f(x) = a(x) / b(x) + (a(x) % b(x)) - (a(x) << (b(x) & 7)) + abs(a(x))",
    "u8": "f(x) = max(a(x) / b(x), a(x) >> b(x)) ^ (a(x) % 5)",
    "i16": "f(x) = a(x) / 7 - a(x) % 7 + (a(x) >> 3) + min(a(x), b(x))",
    "u32": "f(x) = select(a(x) < b(x), a(x) / b(x), a(x) * b(x)) + u32(a(x) > 9)",
    "i64": "f(x) = a(x) / b(x) + a(x) % b(x) + (a(x) >> (b(x) & 63))",
    "u64": "f(x) = a(x) / b(x) ^ (a(x) << 3)",
    "f16": "f(x) = a(x) * b(x) + f16(1)",
    "bf16": "f(x) = max(a(x), sqrt(b(x))) * b(x) + bf16(1)",
    "f64": "f(x) = floor(a(x) * 9.0) + sqrt(b(x)) * exp(a(x)) - pow(b(x), 2.0)",
}


@pytest.mark.parametrize("dtype", TYPES)
def test_values_of_every_type_are_computed_with(dtype: str, tmp_path: Path) -> None:
    inputs = f"{{a: {{dtype: {dtype}, rank: 1}}, b: {{dtype: {dtype}, rank: 1}}}}"
    file = pipeline(TYPES[dtype], "{f: {x: 700}}", inputs)
    programs = [grids_of(file, candidate) for candidate in drawn(file, 2, 1)]
    compile_cubin(print_cuda(programs[0]), device().compute_capability, QUICKLY)
    library = built(programs, tmp_path)
    for case in make_cases(file, np.random.default_rng(2)):
        for number in range(len(programs)):
            assert twin_difference(file, library, f"program_{number}", case) == ""


@pytest.mark.parametrize("dtype", ["u8", "i64", "u64"])
def test_all_that_integers_can_do_is_taken_by_the_compiler_of_cuda(dtype: str) -> None:
    """Which has no headers, and so not their macros, where twins have them."""
    file = arithmetic(dtype)
    program = grids_of(file, next(drawn(file, 5, 2)))
    compile_cubin(print_cuda(program), device().compute_capability, QUICKLY)


def test_code_is_taken_by_the_compiler_of_cuda() -> None:
    file, _ = cases_of("camera_pipe")
    program = grids_of(file, next(drawn(file, 5, 2)))
    cubin = compile_cubin(print_cuda(program), device().compute_capability)
    assert set(cubin.resources) == {c_name(s.name) for s in program.body if isinstance(s, Grid)}


def test_neighbouring_threads_are_neighbours_along_innermost_loops_and_wait_for_what_is_shared() -> None:
    file, _ = cases_of("blur")
    barriers, found = 0, set()
    for candidate in drawn(file, 25, 0):
        orders = {(o.step.name, o.slot): candidate.value("innermost", o) for o in file.backbone.orderable}
        body = grids_of(file, candidate).body
        barriers += sum(isinstance(s, Barrier) for s in statements(body))
        for part in (s for s in statements(body) if isinstance(s, PerThread) and len(s.coordinates) == 2):
            outer, along = part.coordinates
            stage = next(name for name, _ in orders if along.variable.startswith(f"{name}_"))
            dims = ("x", "y") if orders[stage, "LANE"] == 0 else ("y", "x")
            assert along.variable.startswith(f"{stage}_{dims[0]}_") and along.stride == 1
            assert outer.variable.startswith(f"{stage}_{dims[1]}_") and outer.stride == along.extent
            found.add(dims)
    assert len(found) == 2 and barriers


@pytest.mark.parametrize("name", ["blur", "iir_blur", "unsharp"])
def test_limits_are_about_what_grids_have(name: str) -> None:
    """Blocks and threads as the space says, and memory as it allows for."""
    file, _ = cases_of(name)
    for candidate in drawn(file, 12, 9):
        limits = {
            (quantity.name, names[0]): high
            for quantity, names, (_, high) in candidate.instance.quantities(candidate.vector)
        }
        roots = [s for s in file.backbone.inner if candidate.value("site", s) == "ROOT"]
        grids = [s for s in grids_of(file, candidate).body if isinstance(s, Grid)]
        for root, grid in zip(roots, grids, strict=True):
            assert limits["tasks", root.name] == grid.blocks
            assert limits["threads", root.name] == grid.threads
            assert shared_bytes(grid) <= limits["shared_bytes", root.name]
            assert sum(t.nbytes for t in grid.private) <= limits["own_bytes", root.name]


def test_what_is_wanted_of_an_output_is_copied_by_a_grid_of_its_own(tmp_path: Path) -> None:
    stages = "f(x, y) = a(x + y); g(x, y) = f(x, y) + f(x + 3, y)".replace("; ", "\n")
    file = pipeline(stages, "{f: {x: 300, y: 3}, g: {x: 298, y: 3}}", "{a: {dtype: f32, rank: 1}}")
    assert any(
        "f_grid" in s.name for s in grids_of(file, next(drawn(file, 5, 0))).body if isinstance(s, Grid)
    )
    (case, *_) = make_cases(file, np.random.default_rng(1))
    try_grids(file, case, 3, 3, tmp_path)

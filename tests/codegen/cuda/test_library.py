"""Random implementations for GPUs of the whole library: right in every order of threads, without races."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.cuda.checking import executed
from spacedsl.codegen.cuda.corners import PARTS_OF_TILES, corner_program
from spacedsl.codegen.cuda.nvrtc import QUICKLY, compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.tree.program import Grid, Program
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from tests.codegen.cuda.grids import device, random_candidates, space_of
from tests.codegen.cuda.soak_batch import Corner, run_watched
from tests.codegen.runs import brief_case
from tests.kernels.library_formulas import DIRECT, swept_sizes
from tests.kernels.samples import LIBRARY

COUNT = 20
MOST_COPIES = 40
"""Of an instruction: most of what is drawn of a convolution has more, which is for `make soak-cuda`."""

MOST_EXECUTED = 1 << 25
"""Statements: so is what runs for long."""

MOST_TEXT = 16_000
"""Characters: CUDA's compiler takes seconds for a long one."""


def on_corners(kernel: KernelFile) -> Iterator[tuple[KernelFile, Program]]:
    for candidate in random_candidates(space_of(kernel), 20 * COUNT, seed=11):
        instructions = kernel.backbone.instructions
        if max(candidate.interval("unroll_factor", inst)[1] for inst in instructions) > MOST_COPIES:
            continue
        smaller, program = corner_program(kernel, candidate, PARTS_OF_TILES)
        if executed(program.body) < MOST_EXECUTED:
            yield smaller, program


@pytest.mark.parametrize("name", DIRECT)
def test_random_implementations_are_right(name: str, tmp_path: Path) -> None:
    path = LIBRARY / f"{name}.yaml"
    kernel = load_kernel(path, swept_sizes(load_kernel(path).sizes, 5, 3), "gpu")
    corners = [
        Corner(number, smaller, program, brief_case(smaller))
        for number, (smaller, program) in enumerate(islice(on_corners(kernel), COUNT))
    ]
    assert len(corners) == COUNT
    assert run_watched(corners, tmp_path) == ""
    texts = sorted(((print_cuda(c.program), c.program) for c in corners), key=lambda made: len(made[0]))
    for number, (text, program) in enumerate(texts):
        if number == 0 or len(text) <= MOST_TEXT:
            options = [QUICKLY] if number else []
            cubin = compile_cubin(text, device().compute_capability, *options)
            assert set(cubin.resources) == {c_name(s.name) for s in program.body if isinstance(s, Grid)}

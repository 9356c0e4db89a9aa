"""Implementations for GPUs written by hand: the space has them, they are right, the model likes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.prediction import predict
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.cuda.grids import device, orders, space_of, twin
from tests.codegen.golden import FOLDER, GoldenList, read
from tests.codegen.runs import integer_case, run_difference
from tests.codegen.scripts import decide, script

LISTS = {path.stem: read(path) for path in sorted((FOLDER / "cuda").glob("*.txt"))}

PREDICTED_NS = {
    "axpy-streamed": 270_000,
    "batched_matmul-blocks": 10_000,
    "dot-blocks": 50_000,
    "matmul-128x128": 200_000,
    "matmul-pipeline": 150_000,
    "matmul-split-k": 45_000,
    "matmul-tensor": 16_000,
    "matmul-tensor-128x256": 22_000,
    "matvec-warps": 30_000,
    "softmax-registers": 20_000,
}
"""At most, on an H100."""


def program(golden: GoldenList, kernel: KernelFile) -> Program:
    instance = space_of(kernel)
    root = instance.root()
    assert root is not None
    candidate = decide(instance, root, script(kernel.backbone, golden.text))
    assert candidate.is_complete
    return verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_in_the_space_and_right(name: str, tmp_path: Path) -> None:
    golden = LISTS[name]
    kernel = golden.kernel_file(golden.test_sizes).made_for("gpu")
    library = twin(program(golden, kernel), tmp_path)
    for _ in orders(library, (1, 2)):
        assert run_difference(kernel, library, integer_case(kernel)) == ""


@pytest.mark.parametrize("name", LISTS)
def test_it_takes_no_more_than_a_thread_has(name: str) -> None:
    golden = LISTS[name]
    made = program(golden, golden.kernel_file().made_for("gpu"))
    resources = compile_cubin(print_cuda(made), device().compute_capability).resources
    assert all(r.spilled_bytes == 0 for r in resources.values())
    assert predict(made, device(), resources).time_ns <= PREDICTED_NS[name]

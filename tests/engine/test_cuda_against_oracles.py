"""The space of GPUs on sums so small that oracles count their implementations, all of which are right."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.parts import combined_into
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.diagnostics import Source
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.kernel_file import KernelFile, check_kernel
from spacedsl.oracle.cp_sat import CpSatModel
from tests.codegen.cuda.grids import compiled, device, orders, twins
from tests.codegen.runs import integer_case, run_difference
from tests.engine.agreement import Agreement
from tests.engine.test_linalg_against_oracles import everything

TOTAL = """
kernel: total
backbone: linalg
sizes: {n: 4}
tensors:
  x: {dtype: f32, shape: [n]}
  s: {dtype: f32, shape: [], output: true}
compute:
  - s = sum[p](x[p])
tiling: {p: [[2]]}
"""

ROWS = """
kernel: rows
backbone: linalg
sizes: {m: 2, n: 2}
tensors:
  A: {dtype: f32, shape: [m, n]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - y[i] = sum[p](A[i, p])
tiling: {i: [], p: []}
"""

GPU = device().model_copy(update={"threads_per_block": 4})


def read(text: str) -> KernelFile:
    return check_kernel(Source("kernel.yaml", text), Path("kernel.yaml"), {}, "gpu")


def leaves(instance: Instance, candidate: Candidate) -> Iterator[Candidate]:
    """All complete candidates below one."""
    variable = next((v for v in instance.variables if candidate.mask(v).bit_count() > 1), None)
    if variable is None:
        yield candidate
        return
    mask = candidate.mask(variable)
    for bit in range(mask.bit_length()):
        if mask >> bit & 1 and (child := instance.restrict(candidate, variable, 1 << bit)) is not None:
            yield from leaves(instance, child)


@pytest.mark.parametrize("text", [TOTAL, ROWS], ids=["total", "rows"])
def test_sums_have_exactly_the_implementations_that_both_oracles_count(text: str) -> None:
    kernel, space = read(text).backbone, compiled().space
    solutions = tuple(enumerate_solutions(space, kernel, GPU, limit=300_000))
    assert CpSatModel(space, kernel, GPU).count() == len(solutions)
    compared = Agreement(space, instantiate(compiled(), kernel, GPU), solutions, everything(kernel))
    compared.check_exhaustively()
    for seed in range(6):
        compared.check_descent(random.Random(seed))
        compared.check_order(random.Random(seed))
        compared.check_monotone(random.Random(seed))
    assert compared.tally.decisions > 10
    assert compared.tally.leaves > 5


@pytest.mark.parametrize("text", [TOTAL, ROWS], ids=["total", "rows"])
def test_all_of_them_are_right(text: str, tmp_path: Path) -> None:
    kernel = read(text)
    instance = instantiate(compiled(), kernel.backbone, GPU, Engine.NATIVE)
    root = instance.root()
    assert root is not None
    programs: dict[str, Program] = {}
    met = Counter[bool]()
    for candidate in leaves(instance, root):
        program = verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))
        programs[print_cuda(program)] = program
        (sum_over,) = (d for d in kernel.backbone.dimensions if d.is_added_up)
        adds = bool(combined_into(program.body))
        assert adds == (candidate.value("dim_kind", sum_over) == "BLOCK")
        met[adds] += 1
    assert min(met[True], met[False]) > 5
    library, case = ctypes.CDLL(str(twins(list(programs.values()), tmp_path, "-O0"))), integer_case(kernel)
    for order in orders(library):
        for number in range(len(programs)):
            assert run_difference(kernel, library, case, f"program_{number}") == "", f"in order {order}"

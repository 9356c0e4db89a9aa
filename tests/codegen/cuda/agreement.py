"""Random kernels as code for a GPU: the twins of random implementations give what the reference gives.

In: `RandomKernel`s, each with a source of random numbers. Out: what becomes of each, and of those that there
are implementations of the programs; raises `DisagreementError` with the text of a kernel. That the reference
gives what NumPy gives is for `tests/codegen/agreement.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.cuda.checking import EASILY_EXECUTED, executed
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.running.cases import NotFiniteError, make_cases
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.diagnostics import DiagnosticError, Source
from spacedsl.kernels.kernel_file import check_kernel
from tests.codegen.agreement import DOCUMENTED, DisagreementError
from tests.codegen.cuda.grids import device, random_from, space_of
from tests.codegen.cuda.soak_batch import NAMED, Corner, run_watched
from tests.codegen.random_kernels import RandomKernel


def drawn(kernel: RandomKernel, rng: np.random.Generator, *, is_compiled: bool) -> Corner | str:
    """A random implementation with one of the test cases, or why there is none.

    `is_compiled`: by the compiler of CUDA as well.
    """
    try:
        file = check_kernel(Source("random.yaml", kernel.text), Path("random.yaml")).made_for("gpu")
        cases = list(make_cases(file, rng))
    except DiagnosticError as error:
        codes = {d.code for d in error.diagnostics}
        if not codes <= DOCUMENTED:
            raise DisagreementError(f"refused with {codes}", kernel) from None
        return ", ".join(sorted(codes))
    except NotFiniteError:
        return "KF047"
    root = space_of(file).root()
    if root is None:
        raise DisagreementError("the space for GPUs is empty", kernel)
    candidate = next(random_from(root, 1, int(rng.integers(2**31))), None)
    if candidate is None:
        return "dead end"
    try:
        program = verify(lower_grids(file.backbone, CandidateImplementation(candidate)))
    except (LoweringError, VerificationError) as error:
        raise DisagreementError(str(error), kernel) from None
    if is_compiled:
        _compile(program, kernel)
    if executed(program.body) > EASILY_EXECUTED:
        return "too long"
    return Corner(0, file, program, cases[int(rng.integers(len(cases)))])


def _compile(program: Program, kernel: RandomKernel) -> None:
    try:
        compile_cubin(print_cuda(program), device().compute_capability)
    except BuildError as error:
        if "uses too much shared data" not in str(error):
            raise DisagreementError(str(error), kernel) from None


def agree(corners: Sequence[Corner], kernels: Sequence[RandomKernel]) -> None:
    """Of implementations, a kernel for each: their twins, watched for races, in several orders of threads."""
    with tempfile.TemporaryDirectory() as folder:
        said = run_watched(corners, Path(folder)) if corners else ""
    if said:
        named = NAMED.findall(said)
        raise DisagreementError(said[-2000:], kernels[int(named[-1]) if named else -1])

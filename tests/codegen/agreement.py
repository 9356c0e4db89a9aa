"""One random kernel against its meaning: the reference and a random implementation give what NumPy gives.

In: a `RandomKernel`, a source of random numbers, and a folder to build in, if code is to be built. Out: what
became of it; raises `DisagreementError` with the text of the kernel.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np

from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.running.cases import Case, NotFiniteError, make_cases
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.diagnostics import DiagnosticError, Source
from spacedsl.kernels.formats import numbers
from spacedsl.kernels.kernel_file import KernelFile, check_kernel
from spacedsl.kernels.reference import evaluate, greatest_magnitude, view
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.random_kernels import RandomKernel
from tests.codegen.runs import build, interpreted_difference, run_difference

_PAGE = Path(__file__).parents[2] / "docs" / "kernel-diagnostics.md"
DOCUMENTED = frozenset(re.findall(r"^### (KF\d{3}) ", _PAGE.read_text(encoding="utf-8"), re.MULTILINE))

MOST_DEAD_ENDS = 8
PREFERRED = ({"dim_kind": "VECTOR"}, {"dim_kind": "UNROLL"}, {"dim_kind": "PARALLEL"}, None)


class DisagreementError(Exception):
    """What differs, and the kernel."""

    def __init__(self, what: str, kernel: RandomKernel) -> None:
        super().__init__(f"{what}\n\n{kernel.text}")


def outcome(random_kernel: RandomKernel, rng: np.random.Generator, folder: Path | None = None) -> str:
    """`implemented`, `dead end`, or the code with which the file is refused."""
    try:
        kernel = check_kernel(Source("random.yaml", random_kernel.text), Path("random.yaml"))
    except DiagnosticError as error:
        codes = {d.code for d in error.diagnostics}
        if not codes <= DOCUMENTED:
            raise DisagreementError(f"refused with {codes}", random_kernel) from None
        return ", ".join(sorted(codes))
    try:
        cases = list(make_cases(kernel, rng))
    except NotFiniteError:
        return "KF047"
    for case in cases:
        _check_reference(random_kernel, kernel, case)
    instance = space_of(kernel)
    for _ in range(MOST_DEAD_ENDS):
        candidate = random_candidate(instance, rng, PREFERRED[int(rng.integers(len(PREFERRED)))])
        if candidate is not None:
            break
    else:
        return "dead end"
    try:
        program = verify(lower(kernel.backbone, CandidateImplementation(candidate)))
    except (LoweringError, VerificationError) as error:
        raise DisagreementError(str(error), random_kernel) from None
    _check_program(random_kernel, kernel, program, cases, folder)
    return "implemented"


def _check_reference(random_kernel: RandomKernel, kernel: KernelFile, case: Case) -> None:
    is_integer = random_kernel.text.count("i32") > 0
    wide = np.int64 if is_integer else np.float64
    values: dict[str, object] = {
        t.name: numbers(t.dtype, view(t, case.inputs[t.name])).astype(wide)
        for t in kernel.backbone.tensors
        if not t.is_output
    }
    values |= {name: wide(number) for name, number in case.parameters.items()}
    with np.errstate(all="ignore"):
        wanted = random_kernel.outputs(values)
        found = evaluate(kernel, case.inputs, case.parameters)
        scale = 0.0 if is_integer else greatest_magnitude(kernel, case.inputs, case.parameters)
    for name, array in wanted.items():
        if not np.allclose(found[name], array, rtol=1e-9, atol=1e-9 * max(1.0, scale)):
            raise DisagreementError(f"the reference differs in {name} on {case.name}", random_kernel)


def _check_program(
    random_kernel: RandomKernel, kernel: KernelFile, program: Program, cases: list[Case], folder: Path | None
) -> None:
    for case in cases[:2]:
        with np.errstate(all="ignore"):
            wrong = interpreted_difference(kernel, program, case)
        if wrong:
            raise DisagreementError(f"the program differs on {case.name}: {wrong}", random_kernel)
    if folder is not None:
        library = build(program, Path(tempfile.mkdtemp(dir=folder)) / "random.so")
        for case in cases:
            wrong = run_difference(kernel, library, case)
            if wrong:
                raise DisagreementError(f"C differs on {case.name}: {wrong}", random_kernel)

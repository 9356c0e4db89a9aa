"""Generated code of the whole library against NumPy written by hand, on small sizes of all kinds."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.native import build_function
from spacedsl.codegen.running.cases import make_cases
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import numbers
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.kernels.reference import view
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.runs import run_difference
from tests.kernels.library_formulas import DIRECT, swept_sizes
from tests.kernels.samples import LIBRARY


@pytest.mark.parametrize("name", DIRECT)
@pytest.mark.parametrize(("smallest", "step"), [(1, 0), (7, 0), (4, 4)], ids=["ones", "primes", "even"])
def test_generated_code_computes_what_numpy_does(name: str, smallest: int, step: int) -> None:
    path = LIBRARY / f"{name}.yaml"
    kernel = load_kernel(path, swept_sizes(load_kernel(path).sizes, smallest, step))
    instance, random = space_of(kernel), np.random.default_rng(smallest)
    candidate = None
    for _ in range(8):
        candidate = candidate or random_candidate(instance, random, {"dim_kind": "VECTOR"})
    assert candidate is not None
    program = verify(lower(kernel.backbone, CandidateImplementation(candidate)))
    case = next(make_cases(kernel, np.random.default_rng(5)))
    function = build_function(kernel.backbone, print_c(program, 2))
    assert run_difference(kernel, function.library, case) == ""
    inputs = {t.name: view(t, case.inputs[t.name]) for t in kernel.backbone.tensors if not t.is_output}
    integers = {p.name for p in kernel.backbone.parameters if p.dtype is DType.I32}
    parameters = [int(p) if name in integers else p for name, p in case.parameters.items()]
    found = function(*inputs.values(), *parameters)
    dtypes = {t.name: t.dtype for t in kernel.backbone.tensors}
    given = {n: numbers(dtypes[n], a) for n, a in inputs.items()}
    wide = {n: a.astype(np.int64 if a.dtype == np.int32 else np.float64) for n, a in given.items()}
    expected = DIRECT[name](wide, case.parameters)
    outputs = [t for t in kernel.backbone.tensors if t.is_output]
    for tensor, array, wanted in zip(
        outputs,
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        values = numbers(tensor.dtype, array)
        tolerance = case.tolerances[tensor.name]
        assert isinstance(tolerance, float)
        np.testing.assert_allclose(values, wanted, rtol=0, atol=2 * tolerance)

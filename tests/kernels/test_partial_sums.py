"""Memory combines what can be split into parts: reductions from nothing that are stored as they are."""

from __future__ import annotations

import pytest

from spacedsl.kernels.kernel_file import load_kernel
from tests.kernels.samples import LIBRARY

ADDED_UP = {
    "dot": ["i"], "sum_all": ["i", "j"], "matmul_small": ["p"], "dot_f64": ["p"],
    "column_sum": ["i"], "bicg": ["i", "j"], "conv2d_nhwc": ["p", "r", "q"],
    # The first of two sums is read again, or has too many results.
    "atax": ["j", "i"], "matmul_deep": ["q"],
    # With so many results there are blocks enough.
    "matmul": [], "matmul_i32": [],
    # No sums; of softmax, the first line alone.
    "max_all": ["i", "j"], "row_max_i32": ["j"], "softmax": ["j"],
    # A sum that is rounded when it is stored; sums that are not stored as they are.
    "dot_f32_f64": [], "matmul_bias_relu": [], "gesummv": [],
}  # fmt: skip
"""The indices that parts may be of."""


@pytest.mark.parametrize("name", ADDED_UP)
def test_parts_are_of_the_outermost_levels_of_sums_that_are_stored_as_they_are(name: str) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", {}, "gpu").backbone
    dims = [dim for dim in kernel.dimensions if dim.is_added_up]
    assert [dim.index for dim in dims] == ADDED_UP[name]
    assert all(dim.level == 0 and dim.is_reduction for dim in dims)
    for dim in dims:
        (store,) = dim.instruction.consumers
        (start,) = dim.instruction.initialisers
        assert dim.group in store.added_levels
        assert dim.group in start.added_levels


@pytest.mark.parametrize("name", ["max_all", "row_max_i32", "softmax"])
def test_a_cpu_adds_up_sums_alone(name: str) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml").backbone
    assert not any(dim.is_summed_up or dim.is_parted for dim in kernel.dimensions)


def test_it_is_said_which_sums_the_kernel_itself_reads() -> None:
    kernel = load_kernel(LIBRARY / "atax.yaml", {}, "gpu").backbone
    assert {d.index: d.is_read_back for d in kernel.dimensions if d.is_added_up} == {"j": True, "i": False}


@pytest.mark.parametrize(("terms", "is_long"), [(4096, False), (8192, True)])
def test_long_sums_of_products_gain_by_parts_however_many_results_there_are(
    terms: int, is_long: bool
) -> None:
    sizes = {"m": 1024, "n": 1024, "k": terms}
    kernel = load_kernel(LIBRARY / "matmul.yaml", sizes).backbone
    assert [dim.name for dim in kernel.dimensions if dim.is_parted] == (["fma.p0"] if is_long else [])
    assert not any(dim.has_few_results for dim in kernel.dimensions if dim.is_parted)
    levels = next(g for g in kernel.logical_dims if g.name == "fma.p").dims
    assert len(levels) == 2 + is_long


def test_sums_that_read_an_operand_once_gain_nothing() -> None:
    kernel = load_kernel(LIBRARY / "matvec.yaml", {"m": 4096, "k": 16384}).backbone
    assert not [dim for dim in kernel.dimensions if dim.is_parted]

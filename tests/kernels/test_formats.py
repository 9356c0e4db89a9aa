"""Numbers of 16 bits in NumPy, against a search among all of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import PRECISION, elements, numbers

HALVES = (DType.BF16, DType.F16)
FINITE = {dtype: np.arange(0x7F80 if dtype is DType.BF16 else 0x7C00, dtype=np.uint16) for dtype in HALVES}
"""The bits of all that are positive and finite: in order of size."""


def as_numbers(dtype: DType, bits: np.ndarray[tuple[int], np.dtype[np.uint16]]) -> list[float]:
    """By their definition: sign, exponent, digits."""
    digits = 7 if dtype is DType.BF16 else 10
    bias = 127 if dtype is DType.BF16 else 15
    found = []
    for pattern in bits.tolist():
        exponent, mantissa = pattern >> digits, pattern & (1 << digits) - 1
        leading = 1 << digits if exponent else 0
        found.append(float((mantissa + leading) * 2.0 ** (max(exponent, 1) - bias - digits)))
    return found


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.label)
def test_bits_stand_for_the_numbers_of_the_format(dtype: DType) -> None:
    bits = FINITE[dtype]
    held = bits if dtype is DType.BF16 else bits.view(np.float16)
    assert numbers(dtype, held).astype(np.float64).tolist() == as_numbers(dtype, bits)
    assert numbers(dtype, np.array([1.5])) == [1.5]


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.label)
def test_the_nearest_number_is_taken_and_of_two_the_even_one(dtype: DType) -> None:
    known = as_numbers(dtype, FINITE[dtype])
    random = np.random.default_rng(3)
    for _ in range(300):
        at = int(random.integers(len(known) - 1))
        low, high = Fraction(known[at]), Fraction(known[at + 1])
        middle = (low + high) / 2
        for beside in (0, (high - low) / 2**30, -(high - low) / 2**30):
            value = middle + beside
            wanted = at if value < middle or (value == middle and at % 2 == 0) else at + 1
            for sign, top in ((1, 0), (-1, 0x8000)):
                found = elements(dtype, np.array([sign * float(value)]))
                assert Fraction(float(value)) == value
                assert found.view(np.uint16).tolist() == [wanted | top]


def test_infinities_and_what_is_no_number_stay_so() -> None:
    for dtype in HALVES:
        given = np.array([np.inf, -np.inf, np.nan, -0.0, 1e39, -1e300])
        found = numbers(dtype, elements(dtype, given)).astype(np.float64)
        np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, -0.0, np.inf, -np.inf])
        assert np.signbit(found[3])


def test_precision_is_the_distance_from_one_to_the_next_number() -> None:
    for dtype, nearest in PRECISION.items():
        if dtype is DType.I32:
            assert nearest == 0
            continue
        assert numbers(dtype, elements(dtype, [1 + nearest])).tolist() == [1 + nearest]
        assert numbers(dtype, elements(dtype, [1 + nearest / 2])).tolist() == [1]

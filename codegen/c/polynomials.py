"""Polynomials that stand for functions, as short as the format that they are computed in allows.

In: a floating-point format. Out: coefficients, the constant term first. Each is a Taylor series, written as
Chebyshev polynomials of the interval that counts, of which the last ones are left out (economisation, C.
Lanczos 1938): the error is spread over the interval, where a series that is cut off has it at the ends, so
that fewer terms do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from numpy.polynomial import Chebyshev, Polynomial

from spacedsl.kernels.dtypes import DType

_TAYLOR = 20
"""Terms of a series that is exact in each format."""

_SLACK = 1.01
"""How much longer intervals are than what exact numbers would be reduced to."""

_EXPONENTIAL = {DType.F32: 5, DType.F64: 10}
_LOGARITHM = {DType.F32: 3, DType.F64: 7}
"""Terms with which the function is off by less than a tenth of the last place."""


@cache
def exponential_rest(dtype: DType) -> tuple[float, ...]:
    """P with e^r = 1 + r + r^2 P(r), where |r| is at most log(2) / 2."""
    most = math.log(2) / 2 * _SLACK
    series = [1 / math.factorial(n + 2) for n in range(_TAYLOR)]
    return _economised(series, -most, most, _EXPONENTIAL[dtype])


@cache
def logarithm_rest(dtype: DType) -> tuple[float, ...]:
    """P with atanh(s) = s + s z P(z) and z = s^2, where s = (m - 1) / (m + 1), and m^2 is from 1/2 to 2."""
    root = math.sqrt(2)
    most = ((root - 1) / (root + 1)) ** 2 * _SLACK
    return _economised([1 / (2 * n + 3) for n in range(_TAYLOR)], 0, most, _LOGARITHM[dtype])


def _economised(series: Sequence[float], low: float, high: float, terms: int) -> tuple[float, ...]:
    polynomial = Polynomial(series).convert(domain=[low, high], kind=Chebyshev).truncate(terms)
    return tuple(map(float, polynomial.convert(kind=Polynomial).coef))

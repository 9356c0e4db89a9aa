"""Random positions: sums of variables, quotients, remainders, minima and maxima of each other."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from spacedsl.kernels.pipeline.affine import Linear, extreme, quotient, remainder, variable

DIVISORS = st.sampled_from([2, 2, 3, 4, 6])


def sums(names: Sequence[str], most: int = 3) -> st.SearchStrategy[Linear]:
    """Of variables, each times a small number."""
    parts = st.lists(st.tuples(st.sampled_from(names), st.integers(-most, most)), max_size=3)

    def total(constant: int, numbers: Sequence[tuple[str, int]]) -> Linear:
        found = Linear(constant)
        for name, number in numbers:
            found += variable(name) * number
        return found

    if not names:
        return st.builds(Linear, st.integers(-9, 9))
    return st.builds(total, st.integers(-9, 9), parts)


def positions(
    names: Sequence[str], depth: int = 2, *, has_remainders: bool = True
) -> st.SearchStrategy[Linear]:
    """Of these variables, in which quotients and the like are within each other as deep as that."""
    if depth == 0:
        return sums(names)
    part = positions(names, depth - 1, has_remainders=has_remainders)
    kinds = [
        sums(names),
        st.builds(quotient, part, DIVISORS),
        st.builds(extreme, st.sampled_from(["min", "max"]), part, part),
        *([st.builds(remainder, part, DIVISORS)] if has_remainders else []),
    ]
    one = st.one_of(kinds)
    return st.one_of(
        one,
        st.builds(lambda a, b, n: a + b * n, one, one, st.sampled_from([-3, -2, -1, 1, 1, 2])),
        st.builds(lambda a, n, c: a * n + Linear(c), one, st.integers(-2, 3), st.integers(-4, 4)),
    )

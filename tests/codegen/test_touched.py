"""What threads touch is judged by all iterations of random loops over arrays with windows."""

from __future__ import annotations

import itertools

from hypothesis import event, given
from hypothesis import strategies as st

from spacedsl.codegen.ranges import Ranges
from spacedsl.codegen.touched import is_apart, is_inside
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Linear, remainder, variable
from spacedsl.kernels.tensors import Tensor, dense_strides
from tests.codegen.interpreter import position


def window(rows: int, columns: int) -> Tensor:
    shape = (rows, columns)
    return Tensor("a", DType.F32, shape, dense_strides(shape), True)


@given(
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(-2, 3),
    st.integers(0, 3),
    st.integers(-6, 6),
    st.integers(0, 4),
    st.integers(1, 3),
)
def test_what_is_apart_is_so_in_all_pairs_of_iterations(
    rows: int, columns: int, threads: int, step: int, more: int, least: int, width: int, lanes: int
) -> None:
    """Threads come to rows of a window that goes along; columns begin below 0, as where there is a margin."""
    tensor = window(rows, columns)
    ends = {"t": (0, threads - 1), "y": (0, more), "x": (least, least + width)}
    ranges = Ranges()
    for name, (low, high) in ends.items():
        ranges = ranges.with_loop(name, Linear(low), Linear(high))
    row = remainder(variable("t") * step + variable("y"), rows)
    for columns_before in (0, least, columns):
        at = row * columns + variable("x") + Linear(-columns_before)
        if not is_apart(tensor, at, range(lanes), "t", ranges, ()):
            continue
        event(f"{threads > 1} {more > 0} {width > 0}")
        assert is_inside(tensor, at, range(lanes), ranges)
        owners: dict[int, int] = {}
        for values in itertools.product(*(range(low, high + 1) for low, high in ends.values())):
            named = dict(zip(ends, values, strict=True))
            for lane in range(lanes):
                assert owners.setdefault(position(at, named) + lane, named["t"]) == named["t"]


def test_a_number_of_columns_that_is_as_large_as_a_row_moves_no_rows() -> None:
    """Of rows that begin before 0, the element behind 5 of 5 is none of the next row."""
    tensor = window(4, 5)
    ranges = Ranges().with_loop("t", Linear(0), Linear(3)).with_loop("x", Linear(-5), Linear(-1))
    row = remainder(variable("t"), 4)
    assert is_apart(tensor, row * 5 + variable("x") + Linear(5), range(1), "t", ranges, ())
    assert not is_apart(tensor, row * 5 + variable("x") + Linear(6), range(1), "t", ranges, ())
    more = Ranges().with_loop("t", Linear(0), Linear(4)).with_loop("x", Linear(-5), Linear(-1))
    assert not is_apart(tensor, row * 5 + variable("x") + Linear(5), range(1), "t", more, ())

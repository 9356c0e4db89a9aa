"""What threads touch is judged by all iterations of random loops over arrays with windows."""

from __future__ import annotations

import itertools

from hypothesis import event, given
from hypothesis import strategies as st

from spacedsl.codegen.ranges import Ranges
from spacedsl.codegen.touched import is_apart
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Linear, extreme, remainder, variable
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
        owners: dict[int, int] = {}
        for values in itertools.product(*(range(low, high + 1) for low, high in ends.values())):
            named = dict(zip(ends, values, strict=True))
            for lane in range(lanes):
                assert owners.setdefault(position(at, named) + lane, named["t"]) == named["t"]


def test_rows_are_apart_wherever_their_columns_begin_but_no_longer_ones_and_no_more_of_them() -> None:
    def apart(threads: int, columns: int, number: int) -> bool:
        ranges = Ranges().with_loop("t", Linear(0), Linear(threads - 1))
        ranges = ranges.with_loop("x", Linear(-5), Linear(columns - 6))
        at = remainder(variable("t"), 4) * 5 + variable("x") + Linear(number)
        return is_apart(window(4, 5), at, range(1), "t", ranges, ())

    assert all(apart(4, 5, number) for number in (0, 5, 6, 11))
    assert not any(apart(4, 6, number) for number in (0, 5, 6))
    assert not apart(5, 5, 5)


def test_what_goes_with_a_column_leads_along_columns_however_large_its_number_is() -> None:
    ranges = Ranges().with_loop("y", Linear(0), Linear(4)).with_position("begin", variable("y") * 3)
    ranges = ranges.with_loop("t", Linear(0), Linear(1)).with_loop("c", Linear(0), Linear(2))
    ranges = ranges.with_loop("inner", variable("y"), extreme("min", variable("y"), Linear(3)))
    at = variable("t") * 3 + variable("inner") * 3 + variable("begin") * -1 + variable("c")
    assert is_apart(window(2, 3), at, range(1), "t", ranges, ())
    assert not is_apart(window(2, 3), at + variable("c"), range(1), "t", ranges, ())

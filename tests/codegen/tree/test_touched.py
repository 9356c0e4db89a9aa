"""What threads touch is judged by all iterations of random loops over arrays with windows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from hypothesis import event, given
from hypothesis import strategies as st

from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.codegen.tree.touched import is_apart
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Linear, extreme, remainder, variable
from spacedsl.kernels.tensors import Tensor
from tests.codegen.interpreter import position


def array(shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    return Tensor("a", DType.F32, shape, strides, True)


def window(rows: int, columns: int) -> Tensor:
    return array((rows, columns), (columns, 1))


def assert_apart(at: Linear, lanes: int, variable: str, ends: Mapping[str, tuple[int, int]]) -> None:
    """In all pairs of iterations."""
    owners: dict[int, int] = {}
    for values in itertools.product(*(range(low, high + 1) for low, high in ends.values())):
        named = dict(zip(ends, values, strict=True))
        for lane in range(lanes):
            assert owners.setdefault(position(at, named) + lane, named[variable]) == named[variable]


@given(
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    st.tuples(st.integers(0, 3), st.integers(1, 4)),
    st.tuples(st.integers(1, 4), st.integers(-2, 3), st.integers(0, 3)),
    st.tuples(st.integers(-6, 6), st.integers(0, 4), st.integers(0, 5)),
    st.integers(1, 3),
)
def test_what_is_apart_is_so_in_all_pairs_of_iterations(
    shape: tuple[int, int],
    gaps: tuple[int, int],
    rows_of: tuple[int, int, int],
    columns_of: tuple[int, int, int],
    lanes: int,
) -> None:
    """Threads come to rows of a window that goes along, of columns that may begin anywhere and have gaps."""
    (rows, columns), (gap, apart) = shape, gaps
    (threads, step, more), (least, width, between) = rows_of, columns_of
    row_stride = columns * apart + gap
    tensor = array((rows, columns), (row_stride, apart))
    ends = {"t": (0, threads - 1), "y": (0, more), "x": (least, least + width), "z": (0, between)}
    ranges = Ranges()
    for name, (low, high) in ends.items():
        ranges = ranges.with_loop(name, Linear(low), Linear(high))
    along = variable("t") * step + variable("y")
    for row in (remainder(along, rows), along):
        for before in (0, least, columns):
            column = variable("x") * apart + variable("z") + Linear(-before * apart)
            at = row * row_stride + column
            if is_apart(tensor, at, range(lanes), "t", ranges, ()):
                event(f"{threads > 1} {more > 0} {width > 0} {apart > 1} {lanes > 1}")
                assert_apart(at, lanes, "t", ends)


def test_elements_between_those_of_an_array_are_not_apart() -> None:
    """Threads 0 and 1 meet at 4, which is no multiple of the stride for one of them."""
    ranges = Ranges().with_loop("t", Linear(0), Linear(1)).with_loop("x", Linear(0), Linear(4))
    at = variable("t") * 4 + variable("x")
    for tensor in (array((3,), (4,)), array((3, 3), (12, 4)), array((3, 5), (3, 1))):
        assert not is_apart(tensor, at, range(1), "t", ranges, ())
    ranges = Ranges().with_loop("t", Linear(0), Linear(1)).with_loop("x", Linear(0), Linear(3))
    assert is_apart(array((3,), (4,)), at, range(1), "t", ranges, ())
    assert not is_apart(array((3,), (4,)), at, range(2), "t", ranges, ())


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

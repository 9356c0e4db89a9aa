"""Pieces that loops come to, beside each access one by one."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacedsl.search.costs.touched import Access, Loop, Touched, contracted

LINE = 64


def loop(name: str, trips: int) -> Loop:
    return Loop(cast("Any", SimpleNamespace(name=name)), "LOOP", trips, float(trips))


def load(array: str, loops: Sequence[Loop], strides: Sequence[int], nbytes: int = 4) -> Access:
    return Access(array, tuple(loops), tuple(strides), nbytes, is_store=False, is_streamed=False)


def places(access: Access) -> Iterator[int]:
    """Lines, in the order of the loops."""
    for iteration in itertools.product(*(range(int(each.trips)) for each in access.loops)):
        first = sum(n * stride for n, stride in zip(iteration, access.strides, strict=True))
        yield from range(first // LINE, (first + access.nbytes - 1) // LINE + 1)


def missed(accesses: Sequence[Access], room: int) -> int:
    """Of a cache of so many lines, in which the one goes that was used least recently. All accesses have the
    same loops.
    """
    kept: OrderedDict[tuple[object, int], None] = OrderedDict()
    count = 0
    for at in zip(*map(places, accesses), strict=True):
        for access, line in zip(accesses, at, strict=True):
            key = access.array, line
            count += key not in kept
            kept[key] = None
            kept.move_to_end(key)
            if len(kept) > room:
                kept.popitem(last=False)
    return count


def fetched(touched: Touched, room: float, *, is_cold: bool = True) -> float:
    """Of all arrays."""
    return sum(touched.fetched(room, is_cold=is_cold).values())


def product(m: int, n: int, k: int) -> list[Access]:
    """Of matrices: the loops over rows, terms and columns."""
    loops = (loop("i", m), loop("p", k), loop("j", n))
    return [load("A", loops, (4 * k, 4, 0)), load("B", loops, (0, 4 * n, 4)), load("C", loops, (4 * n, 0, 4))]


@pytest.mark.parametrize("room", [4, 20, 60, 10_000])
def test_a_product_misses_what_a_cache_misses(room: int) -> None:
    """Rooms for nothing, for a row of B and of C, for these and a row of A, and for B as well."""
    accesses = product(16, 128, 32)
    expected = missed(accesses, room)
    assert fetched(Touched(accesses, LINE), room) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("room", [10, 190, 191, 10_000])
def test_all_that_there_is_is_left_from_one_time_to_the_next_where_it_fits(room: int) -> None:
    """Of three arrays, 7, 56 and 128 lines."""
    accesses = product(16, 128, 7)
    cold, warm = (fetched(Touched(accesses, LINE), room, is_cold=is_cold) for is_cold in (True, False))
    assert cold >= 191
    assert warm == (0 if room >= 191 else cold)


def test_loops_one_after_the_other_share_what_fits() -> None:
    first, second = loop("i", 100), loop("j", 100)
    accesses = [load("A", (first,), (LINE,)), load("A", (second,), (LINE,))]
    assert fetched(Touched(accesses, LINE), 100) == 100
    assert fetched(Touched(accesses, LINE), 99) == 200


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from("AB"), st.lists(st.sampled_from([0, 4, 64, 256, 4096]))), min_size=1),
)
def test_more_room_never_misses_more_and_all_that_there_is_comes_once(
    trips: list[int], drawn: list[tuple[str, list[int]]]
) -> None:
    loops = [loop(str(n), each) for n, each in enumerate(trips)]
    accesses = [load(array, loops, ([0] * 4 + s)[-len(loops) :]) for array, s in drawn]
    touched = Touched(accesses, LINE)
    found = [fetched(touched, room) for room in (0, 1, 3, 10, 30, 100, 1e9)]
    assert found == sorted(found, reverse=True)
    most = max(len(set(places(access))) for access in accesses)
    assert found[-1] >= most / 2
    assert found[0] <= sum(len(list(places(access))) for access in accesses)


@pytest.mark.parametrize(
    ("sizes", "strides", "has_gaps"),
    [
        ((100, 100), (12_800, 128), True),  # every other line, of each an element
        ((100, 100), (400, 4), False),
        ((100, 100), (4, 400), False),  # neighbours come in another row
        ((100, 8), (0, 4), False),  # a piece that is all there is
        ((100, 8), (256, 4), True),
    ],
)
def test_what_lies_apart_has_gaps(sizes: Sequence[int], strides: Sequence[int], has_gaps: bool) -> None:
    loops = [loop(str(number), size) for number, size in enumerate(sizes)]
    assert load("A", loops, strides).has_gaps(LINE) == has_gaps


def stored(loops: Sequence[Loop], strides: Sequence[int], nbytes: int) -> Access:
    return Access("Y", tuple(loops), tuple(strides), nbytes, is_store=True, is_streamed=True)


@pytest.mark.parametrize(
    ("sizes", "strides", "nbytes", "is_whole"),
    [
        ((4, 8), (4096, 32), 32, True),  # one half after the other
        ((8, 7), (32, 4096), 32, True),  # of as many rows as there is room for
        ((8, 8), (32, 4096), 32, False),
        ((4, 8), (4096, 64), 32, False),  # the other halves are never written
        ((8, 100), (64, 4096), 64, True),
        ((4, 9, 5), (64, 16, 0), 16, True),  # what repeats begins nothing
    ],
)
def test_parts_of_a_line_are_put_together_where_few_are_begun(
    sizes: Sequence[int], strides: Sequence[int], nbytes: int, is_whole: bool
) -> None:
    loops = [loop(str(number), size) for number, size in enumerate(sizes)]
    assert stored(loops, strides, nbytes).is_whole(LINE, 7) == is_whole


def test_an_array_of_its_own_needs_room_for_what_is_alive_at_a_time() -> None:
    """Rows that are stored and loaded again in the same loop; a sum over them does not keep them, either."""
    rows, first, second = loop("i", 100), loop("j", 64), loop("k", 64)
    accesses = [load("E", (rows, first), (256, 4)), load("E", (rows, second), (256, 4))]
    assert [access.strides for access in contracted(accesses)] == [(0, 4), (0, 4)]
    assert fetched(Touched(contracted(accesses), LINE), 4) == 4
    assert fetched(Touched(accesses, LINE), 1000) == 400


def test_what_other_iterations_load_is_kept() -> None:
    rows, first, second = loop("i", 100), loop("j", 64), loop("k", 64)
    # Loaded in a loop of its own, along another stride, or beyond the next row.
    elsewhere = load("E", (second,), (4,))
    across = load("E", (rows, second), (4, 400))
    beyond = load("E", (rows, second), (256, 8))
    for other in (elsewhere, across, beyond):
        accesses = [load("E", (rows, first), (256, 4)), other]
        assert contracted(accesses) == accesses

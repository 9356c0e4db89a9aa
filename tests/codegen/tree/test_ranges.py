"""Bounds of positions are judged by all iterations of random nests of loops."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from spacedsl.codegen.tree.ranges import Ranges, simplified
from spacedsl.kernels.pipeline.affine import Linear, extreme, quotient, remainder, variable
from tests.codegen.interpreter import position
from tests.kernels.pipeline.positions import positions, sums

MOST = 3_000
"""Iterations of a nest; where there are more, it is not tried."""


@dataclass(frozen=True)
class Nest:
    """Variables, outermost first: of loops by their two ends, or for a position where there is one alone."""

    variables: tuple[tuple[str, tuple[Linear, ...]], ...]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.variables]

    @property
    def ranges(self) -> Ranges:
        found = Ranges()
        for name, ends in self.variables:
            found = found.with_position(name, *ends) if len(ends) == 1 else found.with_loop(name, *ends)
        return found

    def iterations(self) -> list[dict[str, int]]:
        found: list[dict[str, int]] = [{}]
        for name, ends in self.variables:
            found = [
                {**at, name: n}
                for at in found
                for n in range(position(ends[0], at), position(ends[-1], at) + 1)
            ]
            assume(len(found) <= MOST)
        return found


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    """Of boxes, tiles within boxes, what is needed for them, and of anything at all."""
    variables: list[tuple[str, tuple[Linear, ...]]] = []
    for number in range(draw(st.integers(1, 4))):
        outer = [name for name, _ in variables]
        first = draw(positions(outer, draw(st.integers(0, 2)), has_remainders=False))
        kind = draw(st.integers(0, 5))
        if kind == 0 and outer:
            ends: tuple[Linear, ...] = (first,)
        elif kind == 1:
            ends = (first, draw(positions(outer, 1, has_remainders=False)))
        else:
            last = first + Linear(draw(st.integers(0, 6)))
            if kind > 3:
                last = extreme("min", last, draw(sums(outer)))
            ends = (first, last)
        variables.append((f"v{number}", ends))
    return Nest(tuple(variables))


COSTLY = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@COSTLY
@given(nests(), st.data())
def test_what_is_said_of_positions_holds_in_all_iterations(nest: Nest, data: st.DataObject) -> None:
    ranges, iterations = nest.ranges, nest.iterations()
    for _ in range(4):
        form = data.draw(positions(nest.names))
        values = [position(form, at) for at in iterations]
        greatest, least = ranges.greatest(form), ranges.least(form)
        if greatest is not None:
            assert greatest >= max(values, default=greatest)
        if least is not None:
            assert least <= min(values, default=least)
        # Whatever has been asked before.
        for more in data.draw(st.permutations(range(-3, 3))):
            at_least = form + Linear(-min(values, default=0) + more)
            if ranges.is_natural(at_least):
                assert all(position(at_least, at) >= 0 for at in iterations)
            count = max(values, default=0) - min(values, default=0) + more
            if ranges.is_among(at_least, count):
                assert all(0 <= position(at_least, at) < count for at in iterations)


@COSTLY
@given(nests(), st.data())
def test_what_is_apart_is_so_in_all_pairs_of_iterations(nest: Nest, data: st.DataObject) -> None:
    ranges, iterations = nest.ranges, nest.iterations()
    name = data.draw(st.sampled_from(nest.names))
    assume(len(dict(nest.variables)[name]) == 2)
    for _ in range(3):
        step = data.draw(st.sampled_from([-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]))
        others = [other for other in nest.names if other != name]
        rest = data.draw(
            positions(others, 1) | sums(others, 1) | st.just(Linear(data.draw(st.integers(-9, 9))))
        )
        form = variable(name) * step + rest
        if data.draw(st.booleans()):
            form = extreme(data.draw(st.sampled_from(["min", "max"])), form, data.draw(sums(nest.names)))
        around = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
        for more in range(4):
            for found in set(ranges.steps(form, name, around)):
                if ranges.is_within(form, more, name, *found):
                    assert_apart(form, name, more, iterations, around)


def assert_apart(
    form: Linear, name: str, more: int, iterations: list[dict[str, int]], around: list[str]
) -> None:
    """In all iterations in which the variables around are the same."""
    owners: dict[tuple[int, ...], int] = {}
    for at in iterations:
        first = position(form, at)
        for element in range(first, first + more + 1):
            place = (element, *(at[other] for other in around))
            assert owners.setdefault(place, at[name]) == at[name], place


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 9), st.integers(-5, 5)), min_size=1, max_size=4),
    st.integers(-9, 9),
)
def test_bounds_of_sums_of_variables_that_vary_by_themselves_are_exact(
    loops: list[tuple[int, int, int]], constant: int
) -> None:
    ranges, form, low, high = Ranges(), Linear(constant), constant, constant
    for n, (first, more, number) in enumerate(loops):
        ranges = ranges.with_loop(f"v{n}", Linear(first), Linear(first + more))
        form += variable(f"v{n}") * number
        ends = sorted((first * number, (first + more) * number))
        low, high = low + ends[0], high + ends[1]
    assert (ranges.least(form), ranges.greatest(form)) == (low, high)
    # Whatever has been asked before.
    for more in (-low - 1, -low, -low - 2, -low + 1, -low):
        assert ranges.is_natural(form + Linear(more)) is (more >= -low)


@COSTLY
@given(nests(), st.data())
def test_what_is_simpler_has_the_same_values(nest: Nest, data: st.DataObject) -> None:
    ranges, iterations = nest.ranges, nest.iterations()
    for form in data.draw(st.lists(positions(nest.names, 3), min_size=1, max_size=3)):
        more = data.draw(positions(nest.names, 1))
        for each in (form, *(extreme(operator, form, form + more) for operator in ("min", "max"))):
            simple = simplified(each, ranges.is_natural)
            for at in iterations:
                assert position(simple, at) == position(each, at)


def test_minima_and_maxima_of_which_it_is_known_which_part_they_are_are_no_more() -> None:
    """But where that part is a number: what moves may cancel out with where a box begins."""
    x = variable("x")
    ranges = Ranges().with_loop("x", Linear(0), Linear(4))
    for other, less in ((Linear(4), x), (Linear(0), Linear(0)), (x * 2, x), (x * -1, x * -1)):
        more = x if less == other else other
        for pair in ((x, other), (other, x)):
            for form, end in ((extreme("min", *pair), less), (extreme("max", *pair), more)):
                assert simplified(form, ranges.is_natural) == (end if end.terms else form)
    undecided = extreme("min", x, Linear(3))
    assert simplified(undecided, ranges.is_natural) == undecided


# ---- What has to be found ---------------------------------------------------------------------------------


def tiles(extent: int, size: int) -> tuple[Ranges, Linear, Linear]:
    """Points of tiles of a row, the last of which may end early; the first and the last point of a tile."""
    tile = variable("tile") * size
    ranges = Ranges().with_loop("tile", Linear(0), Linear(-(-extent // size) - 1))
    last = extreme("min", tile + Linear(size - 1), Linear(extent - 1))
    return ranges.with_loop("x", tile, last), tile, last


def test_points_of_tiles_are_within_their_row_and_within_their_tile() -> None:
    for extent, size in itertools.product((1, 7, 8, 9), (2, 3, 4)):
        ranges, first, last = tiles(extent, size)
        x = variable("x")
        assert (ranges.least(x), ranges.greatest(x)) == (0, extent - 1)
        assert ranges.least(x + first * -1) == 0
        assert ranges.is_natural(last + x * -1) and ranges.is_natural(first + x * -1 + Linear(size - 1))
        if size < extent:
            assert [*ranges.steps(x, "tile")] == [(size, Linear(0))]
            assert ranges.is_within(x, 0, "tile", size, Linear(0))
            assert not ranges.is_within(x, 1, "tile", size, Linear(0))


def test_what_a_stencil_needs_of_a_tile_lies_in_a_box_as_large_as_it_says() -> None:
    ranges, first, _ = tiles(30, 8)
    ranges = ranges.with_loop("r", Linear(-2), Linear(2)).with_position("from", first + Linear(-2))
    at = variable("x") + variable("r") + variable("from") * -1
    assert (ranges.least(at), ranges.greatest(at)) == (0, 8 + 4 - 1)
    clamped = extreme("max", extreme("min", variable("x") + variable("r"), Linear(29)), Linear(0))
    assert (ranges.least(clamped), ranges.greatest(clamped)) == (0, 29)


def test_what_half_as_many_points_need_lies_in_a_box_half_as_large() -> None:
    ranges, first, last = tiles(30, 8)
    half = quotient(variable("x"), 2)
    ranges = ranges.with_loop("y", quotient(first, 2), quotient(last + Linear(1), 2))
    at = half + quotient(first, 2) * -1
    assert (ranges.least(at), ranges.greatest(at)) == (0, 3)
    assert ranges.is_natural(variable("y") + quotient(first, 2) * -1)
    assert ranges.is_natural(quotient(first, 2) + Linear(4) + variable("y") * -1)


def test_quotients_are_as_near_to_what_is_divided_as_they_can_be() -> None:
    x = variable("x")
    ranges = Ranges().with_loop("x", Linear(-50), Linear(50))
    for divisor in (2, 3, 7):
        lost = x + quotient(x, divisor) * -divisor
        assert ranges.is_natural(lost) and ranges.is_natural(lost * -1 + Linear(divisor - 1))
        assert not ranges.is_natural(lost + Linear(-1))
        assert not ranges.is_natural(lost * -1 + Linear(divisor - 2))


def test_remainders_are_below_their_divisors() -> None:
    ranges = Ranges().with_loop("x", Linear(-9), Linear(9))
    rest = remainder(variable("x"), 4)
    assert (ranges.least(rest), ranges.greatest(rest)) == (0, 3)
    within = Ranges().with_loop("x", Linear(0), Linear(3))
    assert simplified(rest, within.is_natural) == variable("x")
    assert simplified(rest, Ranges().with_loop("x", Linear(0), Linear(4)).is_natural) == rest


def test_mirrored_positions_are_within_what_they_are_mirrored_in() -> None:
    """Of a row of 5 that ends with each element once, and of one that ends with each twice."""
    x = Ranges().with_loop("x", Linear(-30), Linear(30))
    for period, greatest in ((8, 4), (10, 4)):
        folded = remainder(variable("x"), period)
        other = folded * -1 + Linear(period if period == 8 else period - 1)
        mirrored = extreme("min", folded, other)
        assert (x.least(mirrored), x.greatest(mirrored)) == (0, greatest)
        assert x.is_natural(mirrored) and x.is_natural(mirrored * -1 + Linear(greatest))
        assert not x.is_natural(mirrored * -1 + Linear(greatest - 1))
        assert x.least(extreme("max", folded, other)) == period // 2


def test_of_what_nothing_is_known_nothing_is_said() -> None:
    ranges = Ranges().with_loop("x", Linear(0), Linear(3))
    for form in (variable("y"), variable("x") + variable("y"), quotient(variable("y"), 2)):
        assert ranges.greatest(form) is None and ranges.least(form) is None
        assert not ranges.is_natural(form)


def test_what_is_known_belongs_to_a_loop_and_not_to_the_name_of_its_variable() -> None:
    x = variable("x")
    around = Ranges().with_loop("y", Linear(0), Linear(3))
    assert not around.is_natural(Linear(3) + x * -1)
    for last in (9, 3, 4):
        assert around.with_loop("x", Linear(0), Linear(last)).is_natural(Linear(3) + x * -1) is (last <= 3)


def test_a_variable_of_one_position_may_become_one_of_a_loop() -> None:
    ranges = Ranges().with_loop("t", Linear(-3), Linear(9)).with_loop("x", variable("t"), variable("t"))
    again = ranges.with_loop("x", extreme("max", variable("t"), Linear(0)), variable("t"))
    assert again.least(variable("x")) == 0
    assert again.is_natural(variable("t") + variable("x") * -1)


def test_the_order_of_quotients_does_not_matter() -> None:
    """Every second of so many points, of which the last one is odd, begins before the one behind it."""
    ranges = Ranges().with_loop("t", Linear(0), Linear(1))
    end = extreme("min", variable("t") * 12 + Linear(11), Linear(15))
    ranges = ranges.with_loop("x", variable("t") * 12, end)
    last = extreme("min", variable("x") + Linear(3), end)
    pair = [quotient(last + Linear(1), 2), quotient(variable("x"), 2) * -1]
    for terms in (pair, pair[::-1]):
        assert Ranges(ranges.loops).is_natural(sum(terms, Linear(-1)))


def test_what_cancels_out_is_not_there() -> None:
    """However large the variables of a nest become."""
    ranges = Ranges()
    for outer, inner in pairwise(["", "a", "b", "c"]):
        first = variable(outer) if outer else Linear(0)
        ranges = ranges.with_loop(inner, first, first + Linear(1000))
    assert ranges.greatest(variable("c") + variable("b") * -1) == 1000
    assert ranges.least(variable("c") + variable("a") * -1) == 0


def test_an_iteration_does_not_begin_where_another_loop_says() -> None:
    """Both iterations of `x` come to 0: the second one where `r` is 2."""
    ranges = Ranges().with_loop("x", Linear(0), Linear(1)).with_loop("r", Linear(0), Linear(2))
    form = variable("x") * -4 + quotient(variable("r"), 2)
    assert [*ranges.steps(form, "x")] == [(-4, Linear(0))]
    assert not ranges.is_within(form, 3, "x", -4, Linear(0))


def test_of_several_of_a_minimum_some_may_be_one_side_and_some_the_other() -> None:
    """As along the diagonal of an array, whose elements are a row and a column apart from each other."""
    r, tile = variable("r"), extreme("min", variable("r") + Linear(5), Linear(6))
    ranges = Ranges().with_loop("r", Linear(0), Linear(6))
    assert ranges.greatest(tile * 7 + r * -1) == 41
    assert ranges.is_among(tile * 7 + r * -1, 42) and not ranges.is_among(tile * 7 + r * -1, 41)
    low = extreme("max", r * -1 + Linear(-5), Linear(-6))
    assert ranges.least(low * 7 + r) == -41


def test_what_a_loop_goes_through_lies_between_its_ends_whatever_these_are() -> None:
    """A tile that is no longer than a point does not begin earlier; its ends alone do not tell."""
    x, t = variable("x"), variable("t")
    first, last = (
        quotient(t + Linear(14), 16) + Linear(1),
        quotient(extreme("min", t + Linear(16), t * 2), 16),
    )
    ranges = Ranges().with_loop("t", Linear(0), Linear(40)).with_loop("x", first, last)
    for end, sign in ((extreme("min", x, last), 1), (extreme("max", first, x), -1)):
        begun = ranges.with_position("begun", end)
        assert begun.is_natural((variable("begun") + x * -1) * sign)
        assert begun.is_natural(variable("begun") + first * -1)
    assert not ranges.is_natural(last + first * -1)


def test_a_part_of_a_position_is_an_end_of_a_loop_that_is_gone_through() -> None:
    """Where a window has moved to, nothing may be new: what is there does not begin before what is new."""
    x, k = variable("x"), variable("k")
    before = extreme("min", x, Linear(15))
    last = extreme("min", before + Linear(1), Linear(15))
    window = Ranges().with_loop("x", Linear(0), Linear(16))
    assert not window.is_natural(last + before * -1 + Linear(-1))
    inside = window.with_loop("k", before + Linear(1), last)
    high, low = extreme("min", k + Linear(3), last), extreme("max", k + Linear(-3), before + Linear(1))
    for moved in (high, low, quotient(high * 2 + Linear(1), 2)):
        assert inside.is_natural(moved + before * -1 + Linear(-1))
        assert inside.is_natural(last + moved * -1)

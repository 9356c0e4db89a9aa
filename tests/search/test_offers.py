"""Values that variables might have, and who has them, against a look at each variable by itself."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.engine.instance import Variable
from spacedsl.engine.layout import INTEGER_WORDS
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.descent import Descent
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.offers import Values
from spacedsl.search.rollouts import Bounded, Cut, Implementation
from tests.search.linalg import DEVICE, MATMUL, native, ordering_of, root

Named = set[tuple[int, str | int]]
"""Variables, each with a value."""


@pytest.mark.parametrize(
    ("choice", "is_added"), [("order", True), ("storage", False), ("size", False), ("caching", False)]
)
def test_offers_are_what_each_variable_might_have_by_itself(choice: str, is_added: bool) -> None:
    """Of products, some with copies: what these add might have what it could where it was decided."""
    instance, rng, added = native(MATMUL), np.random.default_rng(4), 0
    start, ordering = root(instance), ordering_of(instance)
    descent = Descent(instance, ordering, CpuBound(instance, DEVICE))
    values = [*dict.fromkeys(v for variable in instance.variables_of(choice) for v in variable.universe)]
    for _ in range(6):
        end = descent.completed(Bounded(start, 0.0), Cut(None, 1.0), rng)
        assert isinstance(end, Implementation)
        known, near = end.end.candidate, Neighbourhood(descent, start)
        before, might, has = start, Named(), Named()
        for variable in near.open.get(choice, ()):
            if known.is_present(variable):
                might |= _named(variable, start.mask(variable) & ~known.mask(variable))
                has |= _named(variable, known.mask(variable))
        for step, after in descent.way(start, known):
            variable = instance.variables[step.variable]
            if variable.choice == choice and not start.is_open(variable):
                if not any(number == variable.index for number, _ in has):
                    might |= _named(variable, before.mask(variable) & ~known.mask(variable))
                    has |= _named(variable, known.mask(variable))
                added += 1
            before = after
        offers = near._offers(known, near._around(known), choice)
        assert {values[place] for place in offers.values} == {value for _, value in might}
        for place, value in enumerate(values):
            assert {*offers.having(place)} == {number for number, each in has if each == value}
            found = zip(*offers.to_have(place), strict=True)
            allowed = {(n, instance.variables[n].universe[bit]) for n, bit in found}
            assert allowed == {each for each in might if each[1] == value}
    assert bool(added) is is_added


def test_masks_of_several_words_are_read_as_one() -> None:
    sizes = [tuple(range(1, 71)), tuple(range(0, 140, 2))]
    variables = [Variable(n, "size", (), 0, universe) for n, universe in enumerate(sizes)]
    masks = np.zeros((2, 2, INTEGER_WORDS), np.uint64)
    masks[0, 0, 1] = 1 << 5  # has the 70th: 70
    masks[0, 1, 0] = 1 << 3  # has the 4th: 6
    masks[1, 0, 0] = 1 << 5 | 1 << 63  # might have 6 and 64
    masks[1, 1, 1] = 1 << 1  # might have the 66th: 130
    offers = Values.of(variables).offers(np.arange(2), masks[0], masks[1])
    places = {value: n for n, value in enumerate(dict.fromkeys(v for size in sizes for v in size))}
    assert [*offers.values] == [places[6], places[64], places[130]]
    assert [*map(list, offers.to_have(places[6]))] == [[0], [5]]
    assert [*map(list, offers.to_have(places[130]))] == [[1], [65]]
    assert [*offers.having(places[6])] == [1]
    assert [*offers.having(places[70])] == [0]


def _named(variable: Variable, mask: int) -> Named:
    return {(variable.index, value) for value in variable.values(mask)}


def test_nothing_is_offered_where_nothing_else_is_allowed() -> None:
    instance = native(MATMUL)
    start = root(instance)
    variables = instance.variables_of("caching")
    numbers = np.array([variable.index for variable in variables])
    masks = instance.domain_table.masks(start.vector, numbers)
    offers = Values.of(variables).offers(numbers, masks, masks)
    assert not offers.values.size

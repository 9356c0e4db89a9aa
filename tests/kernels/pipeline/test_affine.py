"""Positions keep their values, whatever becomes of their form."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from spacedsl.kernels.pipeline.affine import (
    Atom,
    Extreme,
    Linear,
    Quotient,
    Remainder,
    atoms,
    extreme,
    quotient,
    remainder,
    replaced,
    substituted,
    variable,
)
from spacedsl.kernels.pipeline.algorithm import Variable
from tests.codegen.interpreter import position
from tests.kernels.pipeline.positions import positions

NAMES = ("x", "y")
FORMS = positions(NAMES)
DIVISORS = st.integers(1, 7)


def places() -> Iterator[dict[str, int]]:
    for values in itertools.product(range(-7, 8), repeat=len(NAMES)):
        yield dict(zip(NAMES, values, strict=True))


@given(FORMS, DIVISORS)
def test_quotients_and_remainders_are_those_of_their_values(form: Linear, divisor: int) -> None:
    whole, rest = quotient(form, divisor), remainder(form, divisor)
    for at in places():
        assert (position(whole, at), position(rest, at)) == divmod(position(form, at), divisor)


@given(FORMS, st.lists(DIVISORS, min_size=2, max_size=3), st.integers(-9, 9))
def test_quotients_of_quotients_are_those_of_their_values(form: Linear, by: list[int], more: int) -> None:
    found = form
    for divisor in by:
        found = quotient(found + Linear(more), divisor)
    for at in places():
        wanted = position(form, at)
        for divisor in by:
            wanted = (wanted + more) // divisor
        assert position(found, at) == wanted


@given(FORMS, FORMS, st.integers(-3, 3), DIVISORS)
def test_extremes_are_those_of_their_values(form: Linear, other: Linear, more: int, divisor: int) -> None:
    pairs = [
        (form, other),
        (form, form + Linear(more)),
        (quotient(form, divisor), quotient(form + Linear(more), divisor)),
        (quotient(form, divisor), quotient(form + Linear(more), divisor + 1)),
        (quotient(form, divisor) * -2, quotient(form + Linear(more), divisor) * -2 + Linear(more)),
    ]
    for left, right in pairs:
        least, greatest = extreme("min", left, right), extreme("max", left, right)
        for at in places():
            ends = sorted((position(left, at), position(right, at)))
            assert [position(least, at), position(greatest, at)] == ends


@given(FORMS, FORMS, FORMS)
def test_what_is_put_in_place_of_variables_has_their_values(form: Linear, x: Linear, y: Linear) -> None:
    found = substituted(form, {"x": x, "y": y})
    for at in places():
        assert position(found, at) == position(form, {"x": position(x, at), "y": position(y, at)})


@given(FORMS, st.data())
def test_what_is_put_in_place_of_parts_has_their_values(form: Linear, data: st.DataObject) -> None:
    """Each by a new variable, and each by what it is itself, said otherwise."""
    parts = list(dict.fromkeys(atoms(form)))
    if not parts:
        return
    part = data.draw(st.sampled_from(parts))
    named = replaced(form, {part: variable("new")})
    for at in places():
        assert position(named, {**at, "new": position(Linear(0, ((part, 1),)), at)}) == position(form, at)
    assert part not in atoms(named)


@given(FORMS)
def test_forms_are_as_plain_as_their_classes_say(form: Linear) -> None:
    for atom in atoms(form):
        assert is_plain(atom)
    assert all(number for _, number in form.terms)
    assert len({atom for atom, _ in form.terms}) == len(form.terms)


def is_plain(atom: Atom) -> bool:
    match atom:
        case Quotient(dividend, divisor) | Remainder(dividend, divisor):
            reduced = 0 <= dividend.constant < divisor and all(n % divisor for _, n in dividend.terms)
            return divisor >= 2 and reduced and bool(dividend.terms)
        case Extreme(_, left, right):
            return left.terms != right.terms
    return isinstance(atom, Variable)


def test_what_is_plainly_the_same_is_found_to_be() -> None:
    x = variable("x")
    assert extreme("min", x, x + Linear(1)) == x
    assert extreme("max", quotient(x, 2), quotient(x + Linear(1), 2)) == quotient(x + Linear(1), 2)
    assert quotient(quotient(x, 2) + Linear(3), 4) == quotient(x + Linear(6), 8)
    assert quotient(x * 6 + Linear(5), 3) == x * 2 + Linear(1)
    assert remainder(x * 6 + Linear(5), 3) == Linear(2)

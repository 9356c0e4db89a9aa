"""What a decision on an integer removes of others that it is compared with. Domains are written by hand."""

from __future__ import annotations

import pytest

from tests.engine.small import Thing, Things, things, world


def test_integers_of_different_universes_are_compared_by_value() -> None:
    text = (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "require forall $x in Some: forall $y in Things: size($x) == size($y)\n"
    )
    first, second = Thing(0, "first", sizes=(1, 3, 4, 5, 8)), Thing(1, "second", sizes=(2, 3, 5, 9))
    here = world(text, Things((first, second), some=(first,)))
    assert here.root().possible("size", first) == (3, 5)
    assert here.root().possible("size", second) == (3, 5)
    assert here.made(here.root(), "size", second, to=(5,)).value("size", first) == 5


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("size($x) < 5", (1, 3, 4)),
        ("size($x) <= 5", (1, 3, 4, 5)),
        ("size($x) > 5", (8,)),
        ("size($x) >= 5", (5, 8)),
        ("size($x) == 4", (4,)),
        ("size($x) != 4", (1, 3, 5, 8)),
        ("2 * size($x) + 1 <= 7", (1, 3)),
        ('size($x) - "$x.weight" >= 3', (4, 5, 8)),
        ('10 - "$x.weight" < size($x) + 5', (5, 8)),
        ("!(size($x) == 4) && size($x) < 8", (1, 3, 5)),
    ],
)
def test_comparisons_with_constants_keep_the_values_that_satisfy_them(
    condition: str, expected: tuple[int, ...]
) -> None:
    text = f'choice integer size($x in Things): "$x.sizes" end\nrequire forall $x in Things: {condition}'
    here = world(text, Things(things(1, sizes=(1, 3, 4, 5, 8))))
    assert here.root().possible("size", here.things[0]) == expected


def test_comparisons_of_two_integers_restrict_both_ends() -> None:
    text = (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "require forall $x in Some: forall $y in Things: 2 * size($x) < size($y) + 1\n"
    )
    low, high = things(2, sizes=(1, 2, 3, 4, 5))
    here = world(text, Things((low, high), some=(low,)))
    assert here.root().possible("size", low) == (1, 2)
    assert here.root().possible("size", high) == (2, 3, 4, 5)
    assert here.made(here.root(), "size", high, to=(2, 3)).possible("size", low) == (1,)
    assert here.made(here.root(), "size", low, to=(2,)).possible("size", high) == (4, 5)


def test_universes_wider_than_a_word_lose_no_value() -> None:
    text = (
        'choice integer size($x in Things): "range(0, 500, 2)" end\n'
        "require forall $x in Some: forall $y in Things: size($x) == size($y)\n"
        "require forall $x in Things: size($x) >= 8"
    )
    a, b = things(2)
    here = world(text, Things((a, b), some=(a,)))
    assert here.root().possible("size", a) == tuple(range(8, 500, 2))
    middle = here.made(here.root(), "size", a, to=(130, 256, 498))
    assert middle.possible("size", b) == (130, 256, 498)
    assert here.made(middle, "size", b, to=(498,)).value("size", a) == 498

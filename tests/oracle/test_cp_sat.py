"""The translation to CP-SAT has as many solutions as there are by brute force."""

from __future__ import annotations

import pytest

from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.oracle.cp_sat import CpSatModel, NotTranslatedError
from tests.engine.small import Machine, Things, things, world

ORDERED = """
choice ordered enum site($x in Things): ROOT < TASK < LANE < INLINE end
map host($x in Things) in Things = "$x.near[0]"
"""


def chain(count: int) -> Things:
    """Things of which each one's first neighbour is the next, the last one's is itself."""
    made = things(count)
    for thing, following in zip(made, (*made[1:], made[-1]), strict=True):
        thing.near = (following,)
    return Things(made)


@pytest.mark.parametrize(
    "rules",
    [
        "require forall $x in Things: site($x) <= site(host($x))",
        "require forall $x in Things: site($x) < site(host(host($x))) || site($x) is INLINE",
        "require forall $x in Things: forall $y in Things: site($x) >= site($y) || site(host($x)) is LANE",
        "require forall $x in Things: site($x) <= \"'TASK' if $x.id < 1 else 'LANE'\"",
        "require forall $x in Things: \"'TASK'\" != site(host($x))",
        "choice counter deep($x in Things):\n"
        "  forall $y in Things: sum 1 when: site(host($y)) > site($x) end\n"
        "require forall $x in Things: deep(host($x)) <= 1",
    ],
)
def test_maps_and_ordered_enums_are_translated(rules: str) -> None:
    here = world(ORDERED + rules, chain(3))
    space = here.instance.space
    expected = len(list(enumerate_solutions(space, here.kernel, Machine())))
    assert CpSatModel(space, here.kernel, Machine()).count() == expected > 0


def test_quantities_are_refused_in_words() -> None:
    text = 'choice integer size($x in Things): "$x.sizes" end\nquantity twice($x in Things) = 2 * size($x)\n'
    here = world(text + "require forall $x in Things: twice($x) <= 4\n", 2)
    with pytest.raises(NotTranslatedError, match="quantities"):
        CpSatModel(here.instance.space, here.kernel, Machine())

"""Maps and ordered enums in requirements, counters and triggers, against enumeration."""

from __future__ import annotations

import random

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import enumerate_solutions
from tests.engine.agreement import Agreement
from tests.engine.small import KIND, Machine, Things, World, things, world

ORDERED = """
choice ordered enum site($x in Things): ROOT < TASK < LANE < INLINE end
choice ordered enum store($x in Things): ROOT < TASK < LANE < INLINE end
map host($x in Things) in Things = "$x.near[0]"
"""


def agreement(here: World) -> Agreement:
    space = here.instance.space
    solutions = tuple(enumerate_solutions(space, here.kernel, Machine()))
    return Agreement(space, here.instance, solutions, {x.name: x for x in here.things})


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
        "require forall $x in Things: store($x) <= site($x) && (site($x) > TASK || store($x) != TASK)",
        "require forall $x in Things: forall $y in Things: site($x) >= store($y) || site(host($x)) is LANE",
        "require forall $x in Things: site($x) <= \"'TASK' if $x.id < 1 else 'LANE'\"",
        "require forall $x in Things: \"'TASK'\" != site(host($x)) || store($x) == \"'ROOT'\"",
        "require forall $x in Things: forall $y in Things: host($x) != host($y) || site($x) == site($y)",
        "require forall $x in Things: host(host($x)) == host($x) => site($x) is ROOT",
        "choice counter alone():\n"
        "  forall $x in Things: sum 1 when: host(host($x)) != host($x) && site($x) is LANE end\n"
        "require alone() >= 1",
        "quantity depth($x in Things) = host($x) == host(host($x)) ? 0 : 1 + depth(host($x))\n"
        "quantity depths() = sum $x in Things:\n"
        "  (site($x) > ROOT && host($x) != host(host($x)) ? depth($x) : 1)\n"
        "require depths() <= 3",
        "choice counter deep($x in Things):\n"
        "  forall $y in Things: sum 1 when: site(host($y)) > site($x) end\n"
        "require forall $x in Things: deep(host($x)) <= 1",
    ],
)
def test_orders_and_maps_agree_with_enumeration(rules: str) -> None:
    found = agreement(world(ORDERED + rules, chain(3 if "store" not in rules else 2)))
    assert found.solutions
    found.check_exhaustively()
    for seed in range(6):
        rng = random.Random(seed)
        found.check_descent(rng)
        found.check_order(rng)
        found.check_queue(rng)


def test_whether_two_maps_give_one_object_is_settled_before_any_decision() -> None:
    rule = "require forall $x in Things: host($x) == host(host($x)) => site($x) is ROOT"
    here = world(ORDERED + rule, chain(3))
    assert [here.root().possible("site", x) for x in here.things[1:]] == [("ROOT",), ("ROOT",)]
    assert len(here.root().possible("site", here.things[0])) == 4


def test_an_order_between_neighbours_prunes_both_ends() -> None:
    rule = 'require forall $x in Things where "$x.id < 2": site($x) < site(host($x))'
    here = world(ORDERED + rule, chain(3))
    a, b, c = here.things
    assert here.root().possible("site", a) == ("ROOT", "TASK")
    assert here.root().possible("site", b) == ("TASK", "LANE")
    decided = here.made(here.root(), "site", c, to=("LANE",))
    assert [decided.value("site", x) for x in (a, b)] == ["ROOT", "TASK"]


def refusal(text: str, kernel: Things) -> tuple[str, str]:
    with pytest.raises(DiagnosticError) as caught:
        world(text, kernel)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code, diagnostic.message


def test_a_map_must_have_a_value_where_a_requirement_applies_it() -> None:
    text = (
        ORDERED.replace("$x.near[0]", "$x.spare") + "require forall $x in Things: site($x) <= site(host($x))"
    )
    assert refusal(text, chain(2)) == ("SP432", "host(t0) has no value")


def test_a_map_must_stay_within_its_set() -> None:
    text = ORDERED.replace("in Things =", "in Some =")
    assert refusal(text, Things(chain(1).things)) == ("SP431", "host(t0) is t0, which does not lie in Some")


def test_a_choice_of_two_things_is_not_applied_to_one_twice() -> None:
    text = ORDERED + (
        "choice enum pair($x in Things, $y in Things):\n  value A:\n  value B:\nend\n"
        "require forall $x in Things: pair($x, host($x)) is A\n"
    )
    assert refusal(text, chain(2)) == ("SP433", "pair(t1, t1) has one object twice")


def test_a_string_that_names_no_value_is_refused_where_it_stands() -> None:
    text = ORDERED + "require forall $x in Things: site($x) <= \"'DEEP'\""
    assert refusal(text, chain(1)) == ("SP414", "this is DEEP, not one of ROOT, TASK, LANE, INLINE")


@pytest.mark.parametrize("name", ["first", "kernel", "device"])
def test_a_map_without_parameters_may_be_called_as_what_is_always_in_scope(name: str) -> None:
    text = f"""
        map {name}() in Things = "$kernel.things[0]"
        map host($x in Things) in Things = "$x.near[0]"
        require forall $x in Things: host($x) != {name}() || kind($x) is A
    """
    a, b, c = things(3)
    a.near, b.near, c.near = (a,), (a,), (b,)
    here = world(KIND + text, Things((a, b, c)))
    assert [here.root().possible("kind", x) for x in (a, b, c)] == [("A",), ("A",), ("A", "B", "C")]

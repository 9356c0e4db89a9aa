"""Quantities: intervals, impossible branches, limits that prune; against enumeration."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.engine.quantities.grounding import MOST_FRAMES
from spacedsl.language.parser import DEEPEST_NESTING
from tests.engine.agreement import Agreement
from tests.engine.small import Machine, Thing, Things, World, things, world

CHOICES = """
choice ordered enum site($x in Things): ROOT < TASK < LANE < INLINE end
choice integer size($x in Things): "$x.sizes" end
map host($x in Things) in Things = "$x.near[0] if $x.near else None"
"""


def agreement(here: World) -> Agreement:
    space = here.instance.space
    solutions = tuple(enumerate_solutions(space, here.kernel, Machine()))
    return Agreement(space, here.instance, solutions, {x.name: x for x in here.things})


def chain(count: int, sizes: tuple[int, ...] = (1, 2, 4)) -> Things:
    """Things of which each one's only neighbour is the next; the last has none."""
    made = things(count, sizes=sizes)
    for thing, following in pairwise(made):
        thing.near = (following,)
    return Things(made)


@pytest.mark.parametrize(
    "rules",
    [
        "quantity total() = sum $x in Things: (size($x))\nrequire total() <= 5",
        "quantity total() = sum $x in Things: (size($x) * size($x)) - 3\nrequire total() == 14",
        "quantity volume() = prod $x in Things: (size($x))\nrequire volume() > 4 || volume() == 1",
        "quantity least() = min $x in Things: (size($x))\n"
        "quantity most() = max $x in Things: (size($x))\nrequire least() < most()",
        "quantity ratio($x in Things) = floor(7 - 3 * size($x), size($x))\n"
        "require forall $x in Things: ratio($x) <= -1 && -2 <= ratio($x)",
        "quantity up($x in Things) = ceil(5 - 4 * size($x), size($x))\n"
        "require forall $x in Things: up($x) != -2",
        'quantity extent($x in Things) = "not $x.near" ? size($x)\n'
        "  : case site($x) { ROOT | TASK: size($x), LANE: extent(host($x)) + 1, INLINE: extent(host($x)) }\n"
        "require forall $x in Things: extent($x) <= 3\n"
        'require forall $x in Things where "not $x.near": site($x) is ROOT',
        'quantity cap($x in Things) = "not $x.near" ? LANE : max(TASK, min(site($x), cap(host($x))))\n'
        "require forall $x in Things:\n  site($x) <= cap($x) || site($x) is INLINE && size($x) == 1",
        "quantity few() = sum $x in Things: (site($x) is ROOT ? 0 : 1)\n"
        "choice counter many(): forall $x in Things: sum 1 when: size($x) > few() end\n"
        "require many() == few()",
        "quantity far($x in Things) = max(1, max $y in Near($x): (size($y) + far($y)))\n"
        "require forall $x in Things: 2 * far($x) <= size($x) + 3",
        # The constants together are infinite, what is left of them is not.
        f"quantity left($x in Things) = {2**62} - size($x) + {2**62}\n"
        f"require forall $x in Things: left($x) <= {2**63 - 3}",
        f"quantity left() = sum $x in Things: ({2**62} - size($x))\nrequire left() < {2**63 - 4}",
    ],
)
def test_quantities_agree_with_enumeration(rules: str) -> None:
    found = agreement(world(CHOICES + rules, chain(2)))
    assert found.solutions
    found.check_exhaustively()
    for seed in range(6):
        rng = random.Random(seed)
        found.check_descent(rng)
        found.check_order(rng)
        found.check_queue(rng)
        found.check_monotone(rng)


TRIGGERED = """
choice enum kind($x in Things):
  value A:
  value B:
end
trigger forall $x in Things: "$kernel.add_to_some($x)" when kind($x) is A
"""


@pytest.mark.parametrize(
    "rules",
    [
        'choice integer size($x in Some): "$x.sizes" end\n'
        "quantity total() = sum $x in Some: (size($x))\nrequire total() == 3",
        'quantity least() = max(1, min $x in Some: "2 * $x.id")\nrequire least() < 2',
        'quantity few() = min(2, min $x in Some: "$x.id")\nrequire few() >= 1',
        'quantity most() = max(1, max $x in Some: "2 * $x.id")\nrequire most() <= 2 && most() != 1',
        'choice integer size($x in Things): "$x.sizes" end\n'
        "quantity volume() = prod $x in Some: (kind($x) is A ? size($x) : 5)\nrequire 2 * volume() > 6",
    ],
)
def test_absent_objects_take_no_part(rules: str) -> None:
    found = agreement(world(TRIGGERED + rules, Things(things(3, sizes=(1, 2)))))
    assert found.solutions
    found.check_exhaustively()
    for seed in range(8):
        rng = random.Random(seed)
        found.check_descent(rng)
        found.check_order(rng)
        found.check_queue(rng)


def refusal(text: str, kernel: Things) -> tuple[str, str]:
    with pytest.raises(DiagnosticError) as caught:
        world(text, kernel)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code, diagnostic.message


@pytest.mark.parametrize(
    ("extreme", "word"),
    [
        ("max $x in Some: site($x)", "max"),
        ("min $x in Some: size($x)", "min"),
        ("min(max $x in Some: size($x), max $x in Some: (3 * size($x)))", "min"),
    ],
)
def test_an_extremum_that_decisions_may_leave_empty_is_refused(extreme: str, word: str) -> None:
    text = TRIGGERED + CHOICES + f"quantity best() = {extreme}\n"
    message = f"there may be nothing to take the {word}imum of"
    assert refusal(text, Things(things(2))) == ("SP443", message)


def test_an_extremum_has_the_members_that_come_with_an_object_that_may_be_absent() -> None:
    text = (
        "choice enum kind($x in Things): value A: value B: end\n"
        'trigger forall $x in Things: "$kernel.add_spare($x)" when kind($x) is A\n'
        "choice ordered enum site($x in Things): LOW < MID < TOP end\n"
        "quantity reach($x in Things) = max $y in Near($x): site($y)\n"
        "require forall $x in Things: site($x) <= reach($x)\n"
    )
    a, b = things(2)
    a.near, b.near, a.spare = (b,), (a,), Thing(2, "t2", near=(b,))
    here = world(text, Things((a, b)))
    found = agreement(here)
    assert found.solutions
    found.objects = {**found.objects, "t2": a.spare}
    found.check_exhaustively()
    for seed in range(6):
        found.check_descent(random.Random(seed))
    a.spare = Thing(2, "t2")
    assert refusal(text, Things((a, b)))[0] == "SP443"


def test_a_trigger_may_not_wait_for_a_quantity_over_what_it_adds() -> None:
    text = TRIGGERED.replace("is A\n", "is A && total() < 2\n") + "quantity total() = sum $x in Some: 1\n"
    code, message = refusal(text, Things(things(2)))
    assert code == "SP423"
    assert "total()" in message


def test_a_limit_removes_the_values_that_cannot_meet_it() -> None:
    text = CHOICES + (
        "quantity bytes($x in Things) =\n"
        "  case site($x) { ROOT: 0, TASK: size($x) * size($x), else: 8 * size($x) }\n"
        "quantity all_bytes() = sum $x in Things: (bytes($x))\nrequire all_bytes() <= 20\n"
    )
    here = world(text, chain(2))
    a, b = here.things
    decided = here.made(here.root(), "site", a, to=("INLINE",))
    assert decided.possible("size", a) == (1, 2)
    assert decided.possible("site", b) == ("ROOT", "TASK", "LANE", "INLINE")
    large = here.made(decided, "size", b, to=(4,))
    assert large.possible("site", b) == ("ROOT",)
    assert here.made(large, "site", b, to=("ROOT",)).interval("all_bytes") == (8, 16)


def test_what_the_root_makes_impossible_is_not_looked_up() -> None:
    # The last thing has no host; a rule without any quantity is what keeps it at ROOT.
    text = CHOICES + "quantity depth($x in Things) = site($x) is ROOT ? 0 : 1 + depth(host($x))\n"
    here = world(text + 'require forall $x in Things: "$x.near" || site($x) is ROOT\n', chain(3))
    assert here.root().interval("depth", here.things[0]) == (0, 2)
    assert refusal(text, chain(2)) == ("SP432", "host(t1) has no value")


def test_an_expression_without_variables_is_not_computed_where_it_is_not_looked_up() -> None:
    text = CHOICES + 'quantity nothing($x in Things) = "True" ? size($x) : "1 // 0"\n'
    here = world(text, chain(2))
    assert here.root().interval("nothing", here.things[0]) == (1, 4)
    code, message = refusal(text.replace("True", "False"), chain(2))
    assert (code, message.partition(":")[0]) == ("SP062", "ZeroDivisionError")


def test_values_saturate_and_what_is_infinite_stays_so() -> None:
    huge = 2**62
    text = CHOICES + (
        "quantity volume() = prod $x in Things: (size($x))\n"
        "quantity less() = volume() - 5\n"
        "quantity none() = 0 * volume()\n"
        "require forall $x in Things: volume() < 2 * volume() || size($x) == 1\n"
    )
    here = world(text, chain(2, (1, huge)))
    found = agreement(here)
    found.check_exhaustively()
    decided = here.made(here.root(), "size", here.things[0], to=(1,))
    assert here.root().interval("volume") == (1, 2**63 - 1)
    assert here.root().interval("less") == (-4, 2**63 - 1)
    assert here.root().interval("none") == (0, 0)
    assert decided.interval("volume")[1] == huge


DEPTH = 'quantity depth($x in Things) = "not $x.near" ? size($x) : depth(host($x)) + 1\n'


@pytest.mark.parametrize("is_reversed", [False, True])
def test_quantities_need_each_other_to_any_depth(is_reversed: bool) -> None:
    made = things(MOST_FRAMES, sizes=(1, 4))
    in_order = made[::-1] if is_reversed else made
    for thing, following in pairwise(in_order):
        thing.near = (following,)
    here = world(CHOICES + DEPTH, Things(made))
    assert here.root().interval("depth", in_order[0]) == (len(made), len(made) + 3)
    assert here.root().interval("depth", in_order[-1]) == (1, 4)


def test_terms_may_nest_as_deeply_as_they_can_be_written() -> None:
    nested = "depth(host($x))"
    for _ in range(DEEPEST_NESTING - 10):
        nested = f"max({nested}, 1)"
    text = f'quantity depth($x in Things) = "not $x.near" ? size($x) : {nested} + 1\n'
    here = world(CHOICES + text, chain(20))
    assert here.root().interval("depth", here.things[0]) == (20, 23)


@pytest.mark.parametrize("count", [1, 3, MOST_FRAMES])
def test_quantities_that_need_themselves_are_refused(count: int) -> None:
    kernel = chain(count + 2)
    ring = kernel.things[2:]
    ring[-1].near = (ring[0],)
    shown = " <- ".join(f"depth(t{number})" for number in [*range(2, count + 2), 2])
    assert refusal(CHOICES + DEPTH, kernel) == ("SP441", f"this quantity depends on itself: {shown}")

"""The translation to CP-SAT has as many solutions as there are by brute force."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Hashable

import pytest

from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.oracle.cp_sat import Binding, CpSatModel, NotTranslatedError
from tests.engine.examples import load_text
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


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("quantity sum_() = sum $x in Things: (size($x))\nrequire sum_() <= 5", 6),
        (
            "quantity halved($x in Things) = floor(1 - size($x), 2)\n"
            "require forall $x in Things: halved($x) > -2",
            4,
        ),
        ("quantity both() = prod $x in Things: (size($x) == 2 ? -1 : size($x))\nrequire both() < 0", 4),
        ("quantity most() = max(2, max $x in Things: (3 - size($x)))\nrequire most() == 2", 9),
    ],
)
def test_quantities_follow_from_the_decisions(rules: str, expected: int) -> None:
    here = world('choice integer size($x in Things): "$x.sizes" end\n' + rules, 2)
    assert CpSatModel(here.instance.space, here.kernel, Machine()).count() == expected


def test_quantities_that_grow_too_large_are_refused_in_words() -> None:
    text = f'choice integer size(): "[1, 2]" end\nquantity huge() = {2**50} * size()\nrequire huge() > 4\n'
    here = world(text, 2)
    with pytest.raises(NotTranslatedError, match="too large"):
        CpSatModel(here.instance.space, here.kernel, Machine())


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        # Each of two things has a spare that is there, and decided too, where it is kept: 1 + 2 ways.
        ("", 9),
        ("choice counter all(): forall $x in Things: sum 1 when: end\nrequire all() <= 3", 5),
        ('quantity least() = max(2, min $x in Some: ("$x.weight"))\nrequire least() == 2', 9),
        ("require forall $x in Things: forall $y in Things: kept($x) is NO || kept($y) is NO", 3),
    ],
)
def test_objects_that_triggers_may_add_count_where_they_are_there(rules: str, expected: int) -> None:
    kept = """\
choice enum kept($x in Things): value YES: value NO: end
trigger forall $x in Things: "$kernel.add_spare($x)" when kept($x) is YES
trigger forall $x in Things: "$kernel.add_to_some($x)" when kept($x) is NO
"""
    nodes = things(2)
    for number, node in enumerate(nodes):
        node.spare = things(6)[4 + number]
    here = world(kept + rules, Things(nodes))
    space = here.instance.space
    assert len(list(enumerate_solutions(space, here.kernel, Machine()))) == expected
    assert CpSatModel(space, here.kernel, Machine()).count() == expected


def test_integers_that_are_too_large_are_refused_in_words() -> None:
    here = world(f'choice integer size(): "[1, {2**63 - 1}]" end\n', 2)
    with pytest.raises(NotTranslatedError, match="size has a value that is too large"):
        CpSatModel(here.instance.space, here.kernel, Machine())


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (f"3 * size() + 1 != {2**63 - 1}", 3),
        (f"size() < {2**63 - 1}", 3),
        (f'"{2**70}" <= size() + 1', 0),
        ("size() - 7 > -6", 1),
        ("2 * size() == 6", 0),
    ],
)
def test_numbers_beyond_what_the_other_side_can_be_decide_comparisons(rule: str, expected: int) -> None:
    space = load_text(f'choice integer size(): "[0, 1, 2]" end\nrequire {rule}\n')
    kernel = Things(things(2))
    assert CpSatModel(space, kernel, Machine()).count() == expected
    assert len(list(enumerate_solutions(space, kernel, Machine()))) == expected


def test_an_interrupt_ends_the_solver_and_is_no_timeout() -> None:
    """Thirteen pigeons in twelve holes, which CP-SAT does not get done with."""
    space = load_text(
        'set Pigeons: iterator = "$kernel.things" end\n'
        'choice integer hole($p in Pigeons): "range(12)" end\n'
        "require forall $a in Pigeons: forall $b in Pigeons: hole($a) != hole($b)\n"
    )

    def pair(number: int, binding: Binding) -> Hashable:
        return frozenset(str(each) for each in binding.values())

    model = CpSatModel(space, Things(things(13)), Machine(), grouping=pair)
    interrupting = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        model.core({}, model.groups, timeout_s=600)
    interrupting.join()

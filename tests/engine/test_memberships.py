"""A host expression is asked only of objects for which a space asks it: members of what it quantifies over.

Things near members of `Some` have a shade; no other thing knows the word, and most wakes concern others.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.engine.instance import Engine
from spacedsl.language.host import exposed
from spacedsl.oracle.cp_sat import CpSatModel
from tests.engine.agreement import Agreement
from tests.engine.native import both, check_descents, needs_compiler
from tests.engine.small import Machine, Thing, Things, World, world

pytestmark = pytest.mark.usefixtures("quickly_compiled")

KIND = "choice enum kind($x in Things): value A: value B: end\n"
ORDER = (
    "choice enum order($x in Things, $y in Things):\n"
    "  antisymmetric: BEFORE -> AFTER\n  value BEFORE: value AFTER:\nend\n"
)
SIZE = 'choice integer size($x in Things): "$x.sizes" end\n'
ADD = "choice enum add($x in Some): value YES: value NO: end\n"
GROWS = ADD + 'trigger forall $x in Some: "$kernel.add_spare($x)" when add($x) is YES\n'

RULES = {
    "two objects of a choice": ORDER
    + 'require forall $x in Some: forall $y in Some: forall $a in Near($x): forall $b in Near($y)\n'
    + '  where "$a.shade == $b.shade": order($a, $b) is BEFORE || order($x, $a) is BEFORE',
    "one object": KIND
    + 'require forall $x in Some: forall $a in Near($x) where "$a.shade > 1": kind($a) is B || kind($x) is A',
    "an object and what its set is of": KIND
    + 'require forall $x in Some: forall $a in Near($x) where "$a.shade > $x.weight":\n'
    + "  kind($a) is B || kind($x) is A",
    "a condition": KIND
    + "require forall $x in Some: forall $a in Near($x):\n"
    + '  "$a.shade > 1" || kind($a) is B || kind($x) is A',
    "a comparison": SIZE
    + KIND
    + 'require forall $x in Some: forall $a in Near($x): size($a) <= "$a.shade" || kind($a) is B',
    "a counter": KIND
    + "choice counter dark():\n"
    + '  forall $x in Some: forall $a in Near($x): sum "$a.shade" when: "$a.shade > 1" && kind($a) is A\n'
    + "end\nrequire dark() <= 4",
}  # fmt: skip


@exposed("shade")
@dataclass(slots=True, eq=False, repr=False)
class Shaded(Thing):
    shade: int = 2


def kernel() -> Things:
    """Of five things the first two are some; near these are shaded ones, near the others are not."""
    plain = [Thing(i, f"t{i}", sizes=(1, 3)) for i in range(3)]
    shaded = [Shaded(3 + i, f"t{3 + i}", sizes=(1, 3), shade=1 + i) for i in range(2)]
    plain[0].near, plain[1].near, plain[2].near = tuple(shaded), (shaded[1],), (plain[0], plain[1])
    plain[0].spare = Thing(5, "spare", sizes=(1, 3), near=(plain[2],))
    return Things((*plain, *shaded), tuple(plain[:2]))


def agreement(here: World) -> Agreement:
    space = here.instance.space
    solutions = tuple(enumerate_solutions(space, here.kernel, Machine()))
    objects = {x.name: x for x in (*here.things, here.things[0].spare) if x is not None}
    return Agreement(space, here.instance, solutions, objects)


@pytest.mark.parametrize("engine", [Engine.PYTHON, pytest.param(Engine.NATIVE, marks=needs_compiler)])
@pytest.mark.parametrize("grows", [False, True], ids=["fixed", "growing"])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_only_members_are_asked(rules: str, grows: bool, engine: Engine) -> None:
    here = world(rules + "\n" + (GROWS if grows else ""), kernel(), engine)
    assert here.instance.no_native is None or engine is Engine.PYTHON
    found = agreement(here)
    assert found.solutions
    for seed in range(4):
        found.check_descent(random.Random(seed))
        found.check_order(random.Random(seed))
    assert CpSatModel(here.instance.space, here.kernel, Machine()).count() == len(found.solutions)


@needs_compiler
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_both_engines_ask_alike(rules: str) -> None:
    check_descents(both(world(rules + "\n" + GROWS, kernel()).instance), seed=1, count=8)

"""Maps in parameters, supersets, what maps give, and quotients: against enumeration and CP-SAT."""

from __future__ import annotations

import random

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.engine.instance import Engine
from spacedsl.language.host import Addition, callback, exposed
from spacedsl.oracle.cp_sat import CpSatModel
from tests.engine.agreement import Agreement
from tests.engine.small import Machine, Thing, Things, World, things, world

HOST = 'map host($x in Things) in Things = "$x.near[0]"\n'
GROWING = (
    "choice enum add($x in Some):\n  value YES:\n  value NO:\nend\n"
    'trigger forall $x in Some: "$kernel.add_beside($x)" when add($x) is YES\n'
)
SIDE = "choice enum side($x in Things, $y in Near(host($x))):\n  value L:\n  value R:\nend\n"
KIND = "choice enum kind($x in Things):\n  value A:\n  value B:\nend\n"


@exposed("add_beside")
class Ring(Things):
    """Each thing is near all others, the following ones first."""

    @callback
    def add_beside(self, thing: Thing) -> Addition:
        """A thing near what hosts this one, and in the supersets."""
        assert thing.spare is not None
        return Addition((("Things", (), thing.spare), ("Near", (thing.near[0],), thing.spare)))


def ring(count: int) -> Ring:
    made = things(count)
    for i, thing in enumerate(made):
        thing.near = (*made[i + 1 :], *made[:i])
    made[0].spare = Thing(count, "spare", near=made[:2])
    return Ring(made, made[:1])


RULES = [
    # Parameters of choices, and quantifiers over the same.
    SIDE
    + "require forall $x in Things: forall $y in Near(host($x)): forall $z in Near(host($x)):\n"
    + "  side($x, $y) is L || side($x, $z) is L",
    # Of integers, counters and quantities.
    'choice integer far($x in Some, $y in Near(host(host($x)))): "$y.sizes" end\n'
    "choice counter total($x in Some, $y in Near(host(host($x)))):\n"
    "  forall $z in Near(host($y)): sum far($x, $y) when: \"$z.id > 1\" end\n"
    "quantity twice($x in Some, $y in Near(host(host($x)))) = 2 * far($x, $y)\n"
    "require forall $x in Some: forall $y in Near(host(host($x))):\n"
    "  total($x, $y) <= 4 && twice($x, $y) >= 4",
    # Of sets and maps, supersets, and what a map gives.
    "set Far($x in Some) subsetof Near(host($x)): iterator = \"$x.near[0].near[1:]\" end\n"
    "set Beside($x in Some, $y in Near(host($x))) subsetof Near($y): iterator = \"$y.near[:1]\" end\n"
    "map next($x in Some, $y in Near(host($x))) in Near($y) = \"$y.near[1]\"\n"
    + KIND
    + SIDE
    + "require forall $x in Some: forall $y in Far($x):\n  side($x, $y) is L => kind($y) is A\n"
    "require forall $x in Some: forall $y in Near(host($x)): forall $z in Beside($x, $y):\n"
    "  kind($z) is B || kind(next($x, $y)) is B || side($x, $y) is R",
    # Quotients: their sets and their conditions.
    KIND
    + "choice enum same($x in Things, $y in Things):\n  symmetric\n  value YES:\n  value NO:\nend\n"
    "require forall $x in Things: forall $y in Things: same($x, $y) is NO || kind($x) == kind($y)\n"
    "quotient Kept of $x in Things:\n  is_kept = kind(host($x)) is A / same is YES\nend\n"
    "quotient Local($x in Some) of $y in Near(host($x)):\n"
    "  is_local = kind($y) is A && kind(host($x)) != kind(host($y)) / same is YES\nend\n"
    "choice counter kept():\n  forall $x in Kept: sum 1 when: end\n"
    "require kept() <= 1\n"
    "require forall $x in Some: forall $y in Local($x): kind(host($y)) is B\n",
]  # fmt: skip


def agreement(here: World) -> Agreement:
    space = here.instance.space
    solutions = tuple(enumerate_solutions(space, here.kernel, Machine()))
    objects = {x.name: x for x in (*here.things, here.things[0].spare) if x is not None}
    return Agreement(space, here.instance, solutions, objects)


@pytest.mark.parametrize("engine", [Engine.PYTHON, Engine.NATIVE])
@pytest.mark.parametrize("grows", [False, True], ids=["fixed", "growing"])
@pytest.mark.parametrize(
    ("rules", "count"),
    list(zip(RULES, [4, 3, 3, 3], strict=True)),
    ids=["choices", "integers", "sets", "quotients"],
)
def test_images_agree_with_enumeration_and_cp_sat(
    rules: str, count: int, grows: bool, engine: Engine
) -> None:
    here = world(HOST + rules + "\n" + (GROWING if grows else ""), ring(count), engine)
    assert here.instance.no_native is None or engine is Engine.PYTHON
    found = agreement(here)
    assert found.solutions
    for seed in range(8):
        rng = random.Random(seed)
        found.check_descent(rng)
        found.check_order(rng)
    space = here.instance.space
    assert CpSatModel(space, here.kernel, Machine()).count() == len(found.solutions)


def test_a_choice_over_an_image_has_an_instance_for_each_of_its_members() -> None:
    here = world(HOST + SIDE, ring(3))
    assert sorted(tuple(map(str, v.objects)) for v in here.instance.variables_of("side")) == [
        ("t0", "t2"), ("t1", "t0"), ("t2", "t1"),
    ]  # fmt: skip


def test_a_member_outside_of_an_image_is_named() -> None:
    text = HOST + 'set Far($x in Some) subsetof Near(host($x)): iterator = "$x.near[:1]" end\n'
    with pytest.raises(DiagnosticError) as caught:
        world(text, ring(3))
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == (
        "SP403", "t1 lies in Far(t0) but not in its superset Near(host($x))",
    )  # fmt: skip


def test_a_map_must_have_a_value_where_a_parameter_applies_it() -> None:
    with pytest.raises(DiagnosticError) as caught:
        world(HOST.replace("$x.near[0]", "$x.spare") + SIDE, ring(3))
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.span.text) == ("SP432", "host(t1) has no value", "host($x)")

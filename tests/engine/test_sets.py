"""Sets on a kernel: chains of any length, and what triggers may add to which of their instances."""

from __future__ import annotations

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.language.host import Addition, callback, exposed
from tests.engine.agreement import Agreement
from tests.engine.small import Machine, Thing, Things, things, world

COUNT = 1_200
KIND = "choice enum kind($x in Things): value A: value B: end\n"


@exposed("add_lowest", "add_next_to")
class Adding(Things):
    @callback
    def add_lowest(self, thing: Thing) -> Addition:
        return Addition((("A0", (), thing),))

    @callback
    def add_next_to(self, thing: Thing, other: Thing) -> Addition:
        """What the other has to spare, near to it."""
        assert other.spare is not None
        return Addition((("Near", (other,), thing), ("Near", (other.spare,), other)))


def test_parameters_may_need_other_sets_to_any_depth() -> None:
    chain = "".join(f'set A{i}($x in A{i + 1}): iterator = "()" end\n' for i in range(COUNT))
    here = world(chain + f'set A{COUNT}: iterator = "$kernel.things" end\n', 1)
    assert here.instance.objects.members["A1"] == {}
    assert here.instance.objects.members[f"A{COUNT - 1}"] == {(0,): {}}


def test_what_a_trigger_adds_lies_in_any_number_of_supersets() -> None:
    chain = "".join(f'set A{i} subsetof A{i + 1}: iterator = "()" end\n' for i in range(COUNT))
    text = KIND + chain + f'set A{COUNT} subsetof Things: iterator = "()" end\n'
    text += 'trigger forall $x in Things: "$kernel.add_lowest($x)" when kind($x) is A\n'
    members = world(text, Adding(things(1))).instance.objects.members
    assert members["A0"] == members[f"A{COUNT}"] == {(): {0: None}}


NEXT = (
    KIND
    + 'trigger forall $x in Things where "$x.id == 0": forall $y in Things where "$y.id == 1":\n'
    + '  "$kernel.add_next_to($x, $y)" when kind($x) is B\n'
    + "require forall $x in Things: forall $y in Near($x): kind($x) is A || kind($y) is A\n"
)
SPARE = 'trigger forall $x in Things where "$x.id == 1": "$kernel.add_spare($x)" when kind($x) is A\n'


def test_a_trigger_adds_to_instances_that_a_set_has_in_the_end() -> None:
    made = things(2)
    made[1].spare = Thing(2, "t2")
    # The other trigger, which makes an instance for the spare thing, comes later.
    here = world(NEXT + SPARE, Adding(made))
    space = here.instance.space
    solutions = tuple(enumerate_solutions(space, here.kernel, Machine()))
    found = Agreement(space, here.instance, solutions, {x.name: x for x in (*made, made[1].spare)})
    assert found.solutions
    found.check_exhaustively()


def test_a_trigger_adds_to_no_instance_that_a_set_does_not_have() -> None:
    made = things(2)
    made[1].spare = Thing(2, "t2")
    with pytest.raises(DiagnosticError, match=r"SP422: the callback adds t1 to Near\(t2\), but Near is not"):
        world(NEXT, Adding(made))

"""Representatives of classes, and objects that triggers wake."""

from __future__ import annotations

import pytest

from spacedsl.diagnostics import DiagnosticError
from tests.engine.small import Thing, Things, things, world

CLASSES = """
choice enum kind($x in Things):
  value IN:
  value OUT:
end
choice enum same($x in Things, $y in Things):
  symmetric
  value YES:
  value NO:
end
quotient Classes of $x in Things:
  is_first = kind($x) is IN / same is YES
end
"""

KIND = """
choice enum kind($x in Things):
  value A:
  value B:
end
"""


def things_with_spares(count: int, **attributes: object) -> Things:
    originals = things(count)
    for thing in originals:
        thing.spare = Thing(count + thing.id, f"spare{thing.id}", **attributes)  # type: ignore[arg-type]
    return Things(originals)


# ---- Quotients --------------------------------------------------------------------------------


def test_the_lowest_that_qualifies_represents_its_class() -> None:
    here = world(CLASSES, 3)
    a, b, c = here.things
    candidate = here.root()
    assert candidate.possible("is_first", b) == ("FALSE", "TRUE")
    candidate = here.made(candidate, "kind", a, to=("IN",))
    assert candidate.value("is_first", a) == "TRUE"
    assert candidate.possible("is_first", b) == ("FALSE", "TRUE")
    candidate = here.made(candidate, "same", a, b, to=("YES",))
    assert candidate.value("is_first", b) == "FALSE"
    candidate = here.made(here.made(candidate, "same", a, c, to=("NO",)), "same", b, c, to=("NO",))
    candidate = here.made(candidate, "kind", c, to=("IN",))
    assert candidate.value("is_first", c) == "TRUE"


def test_what_does_not_qualify_neither_represents_nor_blocks() -> None:
    here = world(CLASSES, 2)
    a, b = here.things
    candidate = here.made(here.made(here.root(), "same", a, b, to=("YES",)), "kind", a, to=("OUT",))
    assert candidate.value("is_first", a) == "FALSE"
    assert here.made(candidate, "kind", b, to=("IN",)).value("is_first", b) == "TRUE"


def test_a_representative_that_is_required_takes_away_what_blocks_it() -> None:
    here = world(CLASSES + "require forall $x in Some: is_first($x) is TRUE\n", _kernel_with_last_of(3))
    a, b, c = here.things
    assert here.root().value("kind", c) == "IN"
    assert here.made(here.root(), "kind", a, to=("IN",)).value("same", a, c) == "NO"
    assert here.made(here.root(), "same", b, c, to=("YES",)).value("kind", b) == "OUT"


def test_an_item_that_must_not_represent_is_blocked_by_the_last_that_can() -> None:
    text = (
        CLASSES
        + "require forall $x in Some: is_first($x) is FALSE\nrequire forall $x in Things: kind($x) is IN\n"
    )
    here = world(text, _kernel_with_last_of(3))
    a, b, c = here.things
    assert here.made(here.root(), "same", a, c, to=("NO",)).value("same", b, c) == "YES"


def test_a_requirement_on_a_quotient_concerns_its_members_only() -> None:
    text = CLASSES + KIND.replace("kind", "colour") + "require forall $x in Classes: colour($x) is A\n"
    here = world(text, 2)
    a, _ = here.things
    assert here.root().possible("colour", a) == ("A", "B")
    assert here.made(here.root(), "kind", a, to=("IN",)).value("colour", a) == "A"
    other = here.made(here.root(), "colour", a, to=("B",))
    assert other.value("is_first", a) == "FALSE"
    assert other.value("kind", a) == "OUT"


def test_a_counter_over_a_quotient_counts_classes() -> None:
    text = CLASSES + (
        "choice counter classes(): forall $x in Classes: sum 1 when: end\n"
        "require classes() <= 1\nrequire forall $x in Things: kind($x) is IN\n"
    )
    here = world(text, 3)
    a, b, c = here.things
    # The first represents its class; a limit of one leaves room for no other class.
    assert here.root().interval("classes") == (1, 1)
    assert here.root().value("same", a, b) == "YES"
    assert here.made(here.root(), "same", a, c, to=("YES",)).value("is_first", c) == "FALSE"


def _kernel_with_last_of(count: int) -> Things:
    all_of_them = things(count)
    return Things(all_of_them, some=all_of_them[-1:])


# ---- Triggers --------------------------------------------------------------------------------

SPARE = KIND + 'trigger forall $x in Things: "$kernel.add_spare($x)" when kind($x) is A\n'


def test_what_may_be_added_is_dormant_until_the_trigger_fires() -> None:
    kernel = things_with_spares(1)
    here = world(SPARE, kernel)
    (a,), spare = here.things, kernel.things[0].spare
    assert spare is not None
    dormant = here.instance.variable("kind", spare)
    assert not here.root().is_open(dormant)
    assert not here.root().is_complete
    woken = here.made(here.root(), "kind", a, to=("A",))
    assert woken.is_open(dormant)
    never = here.made(here.root(), "kind", a, to=("B",))
    assert not never.is_open(dormant)
    assert never.is_complete
    assert [d.objects for d in never.decisions()] == [("t0",)]
    assert [d.objects for d in woken.decisions()] == [("t0",), ("spare0",)]


def test_a_dormant_object_constrains_nothing_until_it_is_present() -> None:
    text = SPARE + "require forall $x in Things: forall $y in Things: kind($x) is A || kind($y) is A\n"
    kernel = things_with_spares(1)
    here = world(text, kernel)
    (a,), spare = here.things, kernel.things[0].spare
    assert spare is not None
    assert here.root().possible("kind", a) == ("A", "B")
    assert here.made(here.root(), "kind", a, to=("A",)).possible("kind", spare) == ("A", "B")
    stricter = world(
        SPARE + "require forall $x in Things: forall $y in Things: kind($x) is B || kind($y) is B\n", kernel
    )
    assert stricter.made(stricter.root(), "kind", a, to=("A",)).value("kind", spare) == "B"


def test_a_counter_takes_possible_objects_into_its_maximum_only() -> None:
    text = SPARE + "choice counter total(): forall $x in Things: sum 1 when: end\n"
    kernel = things_with_spares(2)
    here = world(text, kernel)
    a, b = here.things
    assert here.root().interval("total") == (2, 4)
    one = here.made(here.root(), "kind", a, to=("A",))
    assert one.interval("total") == (3, 4)
    assert here.made(one, "kind", b, to=("B",)).interval("total") == (3, 3)


def test_a_limit_does_not_decide_whether_something_is_present() -> None:
    text = SPARE + "choice counter total(): forall $x in Things: sum 1 when: end\nrequire total() <= 1\n"
    kernel = things_with_spares(1)
    here = world(text, kernel)
    assert here.set(here.root(), "kind", here.things[0], to=("A",)) is None
    assert here.made(here.root(), "kind", here.things[0], to=("B",)).interval("total") == (1, 1)


def test_what_is_added_may_be_lowered_again() -> None:
    first, second, third = things(3)
    first.spare, second.spare = second, third
    here = world(SPARE, Things((first,)))
    decided = here.made(here.root(), "kind", first, to=("A",))
    assert decided.is_open(here.instance.variable("kind", second))
    assert not decided.is_open(here.instance.variable("kind", third))
    assert here.made(decided, "kind", second, to=("A",)).is_open(here.instance.variable("kind", third))
    assert here.made(decided, "kind", second, to=("B",)).is_complete


def test_an_object_that_wakes_late_represents_its_class_if_it_is_lower() -> None:
    text = (
        CLASSES.replace("of $x in Things", "of $x in Some")
        + "choice enum add($x in Things):\n  value YES:\n  value NO:\nend\n"
        + 'trigger forall $x in Things: "$kernel.add_to_some($x)" when add($x) is YES\n'
    )
    here = world(text, 2)
    a, b = here.things
    candidate = here.root()
    for thing in (a, b):
        candidate = here.made(candidate, "kind", thing, to=("IN",))
    candidate = here.made(candidate, "same", a, b, to=("YES",))
    candidate = here.made(candidate, "add", b, to=("YES",))
    # The lower one may still join, and then represents the class.
    assert candidate.possible("is_first", b) == ("FALSE", "TRUE")
    assert here.made(candidate, "add", a, to=("NO",)).value("is_first", b) == "TRUE"
    assert here.made(candidate, "add", a, to=("YES",)).value("is_first", b) == "FALSE"


def test_two_triggers_that_add_the_same_must_both_be_impossible_for_it_to_be_absent() -> None:
    text = (
        KIND
        + KIND.replace("kind", "other")
        + 'trigger forall $x in Things: "$kernel.add_to_some($x)" when kind($x) is A\n'
        + 'trigger forall $x in Things: "$kernel.add_to_some($x)" when other($x) is A\n'
        + "choice counter total(): forall $x in Some: sum 1 when: end\n"
    )
    here = world(text, 1)
    (a,) = here.things
    half = here.made(here.root(), "kind", a, to=("B",))
    assert half.interval("total") == (0, 1)
    assert here.made(half, "other", a, to=("B",)).interval("total") == (0, 0)
    assert here.made(half, "other", a, to=("A",)).interval("total") == (1, 1)


def test_a_trigger_that_counts_what_it_adds_is_refused_with_the_cycle() -> None:
    text = (
        KIND
        + "choice counter total(): forall $x in Some: sum 1 when: end\n"
        + 'trigger forall $x in Things: "$kernel.add_to_some($x)" when total() <= 0\n'
    )
    with pytest.raises(DiagnosticError) as caught:
        world(text, 2)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "SP423"
    assert "total()" in diagnostic.message and "in Some" in diagnostic.message


def test_triggers_without_end_are_refused() -> None:
    chain = Thing(0, "t0")
    _grow(chain)
    with pytest.raises(DiagnosticError, match="SP421"):
        world(SPARE, Things((chain,)))


def _grow(thing: Thing, length: int = 200) -> None:
    for number in range(1, length):
        thing.spare = Thing(number, f"t{number}")
        thing = thing.spare


def test_a_callback_that_adds_to_no_set_is_located() -> None:
    from spacedsl.language.host import Addition, callback, exposed

    @exposed("things", "some", "add_wrong")
    class Wrong(Things):
        @callback
        def add_wrong(self, thing: Thing) -> Addition:
            return Addition((("Nowhere", (), thing),))

    with pytest.raises(DiagnosticError, match="Nowhere"):
        world(
            KIND + 'trigger forall $x in Things: "$kernel.add_wrong($x)" when kind($x) is A\n',
            Wrong(things(1)),
        )

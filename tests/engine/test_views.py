"""Candidates that look the same under a view have the same hash, and only those."""

from __future__ import annotations

from itertools import product

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.views import ViewHash
from tests.engine.small import Thing, Things, World, things, world

SITES = """
choice ordered enum site($x in Things): ROOT < TASK < LANE < INLINE end
choice integer size($x in Things): "$x.sizes" end
view depth1: site by ROOT, INLINE end
view depth2: site by ROOT, INLINE, TASK end
view sizes: size end
view both: site by INLINE size end
"""
VALUES = ("ROOT", "TASK", "LANE", "INLINE")


def looked_at(here: World, candidate: Candidate, view: str) -> int:
    return view_hash(here, view)(candidate)


def view_hash(here: World, view: str) -> ViewHash:
    return ViewHash(here.instance, here.instance.space.views[view])


def test_at_the_root_every_group_is_possible() -> None:
    here = world(SITES, 2)
    assert view_hash(here, "depth1").groups(here.root()) == (0b111, 0b111)
    assert view_hash(here, "depth2").groups(here.root()) == (0b1111, 0b1111)
    assert view_hash(here, "sizes").groups(here.root()) == (0b111, 0b111)
    assert view_hash(here, "both").groups(here.root()) == (0b11, 0b11, 0b111, 0b111)


def test_the_hash_tells_the_groups_of_each_object_apart_and_nothing_else() -> None:
    here = world(SITES, 2)
    a, b = here.things
    looks: dict[str, dict[object, set[int]]] = {"depth1": {}, "depth2": {}}
    for left, right in product(VALUES, repeat=2):
        candidate = here.made(here.root(), "site", a, to=(left,))
        candidate = here.made(candidate, "site", b, to=(right,))
        for view, between in (("depth1", ("TASK", "LANE")), ("depth2", ("LANE",))):
            groups = tuple("between" if value in between else value for value in (left, right))
            looks[view].setdefault(groups, set()).add(looked_at(here, candidate, view))
    for view, count in (("depth1", 9), ("depth2", 16)):
        assert len(looks[view]) == count
        hashes = [each for found in looks[view].values() for each in found]
        # One hash for all candidates of a look, another for each look.
        assert len(hashes) == len(set(hashes)) == count


def test_a_value_that_is_gone_shows_only_when_its_group_is() -> None:
    here = world(SITES, 1)
    (a,) = here.things
    root = here.root()
    narrowed = here.made(root, "site", a, to=("ROOT", "TASK", "INLINE"))
    assert looked_at(here, narrowed, "depth1") == looked_at(here, root, "depth1")
    without = here.made(narrowed, "site", a, to=("ROOT", "INLINE"))
    assert looked_at(here, without, "depth1") != looked_at(here, root, "depth1")
    sized = here.made(root, "size", a, to=(4,))
    assert looked_at(here, sized, "depth1") == looked_at(here, root, "depth1")
    assert looked_at(here, sized, "both") != looked_at(here, root, "both")


def test_objects_that_are_absent_have_no_group() -> None:
    text = """
        choice ordered enum site($x in Things): LOW < HIGH end
        view depth: site end
        trigger forall $x in Things: "$kernel.add_spare($x)" when site($x) is HIGH
    """
    (original,) = things(1)
    original.spare = Thing(1, "spare")
    here = world(text, Things((original,)))
    depth = view_hash(here, "depth")
    assert depth.groups(here.root()) == (0b11, 0b11)
    assert depth.groups(here.made(here.root(), "site", original, to=("LOW",))) == (0b01, 0)
    assert depth.groups(here.made(here.root(), "site", original, to=("HIGH",))) == (0b10, 0b11)

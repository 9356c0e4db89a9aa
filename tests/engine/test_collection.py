"""Collection of garbage is put off while an instance is made, and never for longer."""

from __future__ import annotations

import gc

import pytest

from spacedsl.engine.collection import collection_paused
from tests.engine.small import Things, things, world


class Watched(Things):
    """A kernel that notes whether garbage is collected while it is asked for its things."""

    def __getattribute__(self, name: str) -> object:
        if name == "things":
            seen.append(gc.isenabled())
        return super().__getattribute__(name)


seen: list[bool] = []


def test_nothing_is_collected_while_an_instance_is_made() -> None:
    kernel = Watched(things(2))
    seen.clear()
    world("choice enum c($a in Things): value A: value B: end\n", kernel)
    # The last one that asks is the test's own world, after it.
    assert seen[0] is False
    assert seen[-1] is True


def test_collection_goes_on_after_a_pause_that_fails() -> None:
    with pytest.raises(KeyError), collection_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_pause_within_a_pause_ends_with_the_outer_one() -> None:
    with collection_paused():
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_has_turned_collection_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

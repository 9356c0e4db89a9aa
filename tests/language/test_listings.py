"""The paper's listings are spaces once they are mended; as printed, each slip is found."""

from __future__ import annotations

import pytest

from spacedsl.diagnostics import Severity, render
from spacedsl.language.space import Counter, EnumChoice, Requirement, Symmetry
from tests.language import listings
from tests.language.sources import check


@pytest.mark.parametrize("text", [listings.SETS, listings.COUNTERS, listings.GPU], ids=["1-4", "5-6", "7-13"])
def test_the_mended_listings_are_spaces(text: str) -> None:
    space, found = check(text)
    assert space is not None, "\n".join(render(d) for d in found)
    assert [d for d in found if d.severity is not Severity.NOTE] == []


def test_the_listings_mean_what_the_paper_says() -> None:
    space, _ = check(listings.SETS)
    assert space is not None
    order = space.choices["order"]
    assert isinstance(order, EnumChoice)
    assert order.symmetry is Symmetry.ANTISYMMETRIC and order.inverse == (1, 0)
    (transitivity,) = space.requirements
    assert isinstance(transitivity, Requirement)
    assert [b.name for b in transitivity.foralls] == ["a", "b", "c"]
    assert space.sets["MemAccesses"].supersets[0].name == "Instructions"
    assert space.sets["AccessedRegions"].params[0].set.name == "MemAccesses"


def test_the_quotient_of_threads_declares_its_choice_and_its_set() -> None:
    space, _ = check(listings.COUNTERS)
    assert space is not None
    quotient = space.quotients["ThreadDims"]
    assert quotient.representative == "is_thread_dim" and quotient.equivalence == "fused"
    assert quotient.equivalence_mask == 0b01
    declared = space.choices["is_thread_dim"]
    assert isinstance(declared, EnumChoice) and declared.values == ("FALSE", "TRUE")
    threads = space.choices["num_threads"]
    assert isinstance(threads, Counter) and threads.product and threads.base == 1
    assert space.is_derived("is_thread_dim") and not space.is_derived("fused")


def mutated(text: str, old: str, new: str) -> list[tuple[str, str | None]]:
    """(code, hint) of each error after one replacement."""
    assert text.count(old) == 1
    return [(d.code, d.hint) for d in check(text.replace(old, new))[1] if d.severity is Severity.ERROR]


def test_listing_1_as_printed_names_a_set_that_is_not_declared() -> None:
    found = mutated(listings.SETS, "($inst in MemAccesses) subsetof", "($inst in MemAccess) subsetof")
    assert found == [("SP012", "did you mean `MemAccesses`?")]


def test_listing_5_as_printed_lacks_a_colon() -> None:
    text = listings.COUNTERS
    found = mutated(text, 'sum "$mem_block.size()" when:', 'sum "$mem_block.size()" when')
    assert found == [("SP002", "put `:` here")]


def test_listing_5_as_printed_says_gpu_for_the_device() -> None:
    found = mutated(listings.COUNTERS, '"$device.local_mem_size"', '"gpu.local_mem_size"')
    assert found == [("SP060", "the device is `$device`")]


def test_listing_5_as_printed_quantifies_over_an_undeclared_set() -> None:
    declaration = 'set MemBlocks: iterator = "$fun.mem_blocks" end\n'
    assert [code for code, _ in mutated(listings.COUNTERS, declaration, "")] == ["SP012", "SP012"]


def test_listing_7_as_printed_lacks_an_in() -> None:
    found = mutated(listings.GPU, "of $dim in Dimensions:\n  is_outer", "of $dim Dimensions:\n  is_outer")
    assert found == [("SP002", "put `in` here")]


def test_listing_11_clashes_with_listing_1() -> None:
    again = 'set AccessedRegions($mem in MemAccesses): iterator = "$mem.regions" end\n'
    found = [d for d in check(listings.SETS + again)[1] if d.severity is Severity.ERROR]
    assert [(d.code, d.hint) for d in found] == [("SP010", "rename one of the two")]


def test_listing_13_as_printed_does_not_say_which_kind() -> None:
    found = mutated(listings.GPU, "dim_kind($d) is THREAD", "dim_kind($d)")
    assert found == [("SP050", "say what must hold of it: `dim_kind($d) is VALUE`")]


@pytest.mark.parametrize("left_out", ["set Statements: ...", "choice enum cache($inst in MemInsts): ..."])
def test_an_elision_is_named_as_such(left_out: str) -> None:
    (found,) = check(left_out)[1]
    assert found.message == "`...` stands for text that is left out"

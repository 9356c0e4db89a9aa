"""The paper's listings are spaces once they are mended; as printed, each slip is found and repaired.

The corpus lies in `corpus/`, its errata list beside it.
"""

from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import YAML

from spacedsl.diagnostics import Diagnostic, Severity, render
from spacedsl.language.space import Counter, EnumChoice, Requirement, Space, Symmetry
from tests.language.listings import CORPUS
from tests.language.sources import check

ERRATA: list[dict[str, Any]] = YAML(typ="safe").load(CORPUS / "errata.yaml")
LISTINGS = sorted(path.name for path in CORPUS.glob("listings-*.space"))


def text_of(name: str) -> str:
    return (CORPUS / name).read_text(encoding="utf-8")


def space_of(name: str) -> Space:
    space, found = check(text_of(name))
    assert space is not None, "\n".join(render(d) for d in found)
    return space


def errors(text: str) -> list[Diagnostic]:
    return [d for d in check(text)[1] if d.severity is Severity.ERROR]


@pytest.mark.parametrize("name", LISTINGS)
def test_the_mended_listings_are_spaces(name: str) -> None:
    space, found = check(text_of(name))
    assert space is not None, "\n".join(render(d) for d in found)
    assert [d for d in found if d.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("slip", ERRATA, ids=lambda s: f"{s['listing']} {s['slip'][:40]}")
def test_a_slip_as_printed_is_said_with_its_repair(slip: dict[str, Any]) -> None:
    mended = text_of(slip["file"])
    assert mended.count(slip["mended"]) == 1
    start = mended.index(slip["mended"])
    found = errors(mended.replace(slip["mended"], slip["printed"]))
    if not slip["says"]:
        assert found == []
        return
    code, message, repair = slip["says"]
    assert (code, message, repair) in [(d.code, d.message, d.hint) for d in found]
    # What is missing is found where it is used, so at the printed text or behind it.
    assert all(d.span.start >= start for d in found)


def test_the_listings_mean_what_the_paper_says() -> None:
    space = space_of("listings-1-4.space")
    order = space.choices["order"]
    assert isinstance(order, EnumChoice)
    assert order.symmetry is Symmetry.ANTISYMMETRIC and order.inverse == (1, 0)
    (transitivity,) = space.requirements
    assert isinstance(transitivity, Requirement)
    assert [b.name for b in transitivity.foralls] == ["a", "b", "c"]
    assert space.sets["MemAccesses"].supersets[0].name == "Instructions"
    assert space.sets["AccessedRegions"].params[0].set.name == "MemAccesses"


def test_the_quotient_of_threads_declares_its_choice_and_its_set() -> None:
    space = space_of("listings-5-6.space")
    quotient = space.quotients["ThreadDims"]
    assert quotient.representative == "is_thread_dim" and quotient.equivalence == "fused"
    assert quotient.equivalence_mask == 0b01
    declared = space.choices["is_thread_dim"]
    assert isinstance(declared, EnumChoice) and declared.values == ("FALSE", "TRUE")
    threads = space.choices["num_threads"]
    assert isinstance(threads, Counter) and threads.product and threads.base == 1
    assert space.is_derived("is_thread_dim") and not space.is_derived("fused")


def test_the_dimensions_around_an_instruction_are_one_for_each_class_of_merged_ones() -> None:
    space = space_of("listings-7-13.space")
    around = space.quotients["IterationDims"]
    assert [p.set.name for p in around.params] == ["Insts"] and around.item.set.name == "Dimensions"
    order = space.choices["order"]
    assert isinstance(order, EnumChoice) and around.equivalence_mask == order.mask("MERGED")


def test_the_space_of_pipelines_says_only_what_nothing_limits() -> None:
    space, found = check(text_of("pipeline.space"))
    assert space is not None, "\n".join(render(d) for d in found)
    assert [d.span.text for d in found] == ["owner", "reduce"]
    assert space.quantities["cap"].values == ("ROOT", "TASK", "CHUNK", "LANE", "REG", "INLINE")
    assert [q.name for q in space.quantities.values() if q.values is None] == [
        "lo", "hi", "extent", "trips", "bytes", "shared", "lanes",
    ]  # fmt: skip

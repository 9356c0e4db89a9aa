"""What is proposed at a cursor: what may stand there, and what fits comes first."""

from __future__ import annotations

import pytest

from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.linalg.backbone import Dimension
from spacedsl.lsp.completion import complete
from tests.lsp.editing import SPACE, Editor

OPENERS = {
    "choice",
    "include",
    "map",
    "ordering",
    "quantity",
    "quotient",
    "require",
    "set",
    "trigger",
    "view",
}


@pytest.fixture(autouse=True)
def _typed_before(editor: Editor) -> None:
    editor.type(SPACE)


def test_a_declaration_begins_a_line(editor: Editor) -> None:
    assert set(editor.typed(SPACE)) >= OPENERS
    assert set(editor.typed("")) == OPENERS
    assert not OPENERS & set(editor.typed(SPACE + "require forall $d in Dimensions: kind($d) is LOOP "))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("require forall $x in ", {"Statements", "Dimensions", "Nest", "Classes"}),
        ("set More subsetof Dim", {"Statements", "Dimensions", "Nest", "Classes"}),
        ("require forall $x in Dimensions: kind(", {"$x", "next($x)"}),
        ("require forall $x in Dimensions: kind($x) is ", {"LOOP", "VECTOR", "ANY", "not"}),
        ("require forall $x in Dimensions: kind($x) is not LOOP | V", {"LOOP", "VECTOR", "ANY"}),
        ("require forall $x in Dimensions: kind(next($x)) is ", {"LOOP", "VECTOR", "ANY", "not"}),
        ("ordering other: kind by LOOP, ", {"LOOP", "VECTOR", "ANY"}),
        ("ordering other: kind($x) for $x in Dimensions by ", {"LOOP", "VECTOR", "ANY"}),
        ("ordering other: ki", {"kind", "order", "site", "size", "dynamic", "end", "for"}),
        ("quotient More of $d in Dimensions: first = true / ", {"order"}),
        ("quotient More of $d in Dimensions: first = true / order is ", {"SAME", "APART"}),
        ("quantity q($d in Dimensions) = case kind($d) { LOOP: 1, ", {"LOOP", "VECTOR", "ANY", "else"}),
        ("choice enum ", set()),
        ("choice enum more(", set()),
        ("choice enum kind($d in Dimensions): alias B = ", {"LOOP", "VECTOR", "ANY"}),
        ("choice counter c(): forall $d in Dimensions: mul ", {"size($d)", "total($d)"}),
        ("set More:\n  ", {"type", "iterator", "reverse", "disjoint", "end"}),
        ("// require forall $x in ", set()),
        ("/// require forall $x in ", set()),
        ("/* require forall $x in ", set()),
        ('require "$', {"$kernel", "$device"}),
        ('require forall $x in Dimensions: "1 < $device.', set(CpuDevice.__exposed__)),  # type: ignore[attr-defined]
        ('require forall $x in Dimensions: "$x.', set(Dimension.__exposed__)),  # type: ignore[attr-defined]
        ('require forall $x in Nest: "$x.is_', set(Dimension.__exposed__)),  # type: ignore[attr-defined]
        ('require forall $x in Classes: "$x.', set(Dimension.__exposed__)),  # type: ignore[attr-defined]
        ('require forall $x in Statements: "$x.', set()),
        ('require forall $x in Dimensions: "$x.twins.', set()),
    ],
)  # fmt: skip
def test_what_may_stand_at_the_cursor(editor: Editor, typed: str, expected: set[str]) -> None:
    assert set(editor.typed(SPACE + typed)) == expected


JOBS = """\
kernel: shop
backbone: plain
space: SPACE
parameters: {horizon: 9}
objects:
  machines: [lathe]
  tasks:
    - {name: cut, machine: lathe, minutes: 3, next: [polish]}
    - {name: polish, machine: lathe, minutes: 2}
"""
SHOP = """\
set Tasks: iterator = "$kernel.tasks" end
set After($t in Tasks) subsetof Tasks: iterator = "$t.next" end
set Where($t in Tasks): iterator = "[$t.machine]" end
set Long subsetof Tasks: iterator = "[t for t in $kernel.tasks if t.minutes > $device.threads]" end
"""
TASK = {"id", "machine", "minutes", "name", "next"}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ('require "$kernel.', {"horizon", "machines", "name", "tasks"}),
        ('require forall $t in Tasks: "$t.', TASK),
        ('require forall $t in Tasks: forall $u in After($t): "$u.', TASK),
        ('require forall $t in Tasks: forall $m in Where($t): "$m.', {"id", "name"}),
        ('require forall $t in Long: "$t.', TASK),
        ('require forall $t in Nowhere: "$t.', set()),
    ],
)
def test_a_kernel_file_beside_the_space_says_what_its_objects_have(
    editor: Editor, typed: str, expected: set[str]
) -> None:
    editor.save(JOBS.replace("SPACE", "main.space"), "shop.yaml")
    editor.save("kernel: [", "broken.yaml")
    editor.save(SHOP, "main.space")
    editor.type(SHOP)
    assert set(editor.typed(SHOP + typed)) == expected


def test_a_kernel_file_that_names_another_space_says_nothing(editor: Editor) -> None:
    editor.save(SHOP, "other.space")
    editor.save(JOBS.replace("SPACE", "other.space"), "shop.yaml")
    editor.type(SHOP)
    assert editor.typed(SHOP + 'require forall $t in Tasks: "$t.') == []
    included = 'include "other.space"\n'
    editor.type(included)
    assert set(editor.typed(included + 'require forall $t in Tasks: "$t.')) == TASK


def test_a_kernel_file_is_read_again_when_it_changes(editor: Editor) -> None:
    jobs = JOBS.replace("SPACE", "main.space")
    editor.save(SHOP, "main.space")
    editor.save(jobs, "shop.yaml")
    editor.type(SHOP)
    assert "due" not in editor.typed(SHOP + 'require forall $t in Tasks: "$t.')
    editor.save(
        jobs.replace("minutes: 3", "minutes: 3, due: 5").replace("minutes: 2", "minutes: 2, due: 9"),
        "shop.yaml",
    )
    assert "due" in editor.typed(SHOP + 'require forall $t in Tasks: "$t.')


def test_choices_come_with_variables_in_scope_and_others_behind_them(editor: Editor) -> None:
    found = editor.proposals(SPACE + "require forall $s in Statements: forall $d in Dimensions:\n  ")
    typed = [p.inserted for p in found]
    assert {"order($s, $d)", "kind($d)", "total($s)", "area($d)", "is_first($d)"} <= set(typed)
    assert "next($d)" not in typed
    alone = editor.proposals(SPACE + "require forall $s in Statements:\n  ")
    fitting = [p.inserted for p in alone if p.fits]
    assert "total($s)" in fitting
    assert [p.inserted for p in alone if not p.fits] == [
        "kind()", "order()", "site()", "size()", "area()", "is_first()"
    ]  # fmt: skip
    assert [p.fits for p in alone] == sorted((p.fits for p in alone), reverse=True)


def test_what_a_value_requires_sees_the_parameters_and_its_own_variables(editor: Editor) -> None:
    text = SPACE + (
        "choice enum more($p in Dimensions):\n"
        "  value A:\n    requires forall $q in Dimensions: order($p, $q) is SAME\n"
        "  value B:\n    requires kind("
    )
    assert editor.typed(text)[:1] == ["$p"]
    assert "$q" not in editor.typed(text)


def test_proposals_are_documented(editor: Editor) -> None:
    (kind,) = [p for p in editor.proposals(SPACE + "require kin") if p.label == "kind"]
    assert "How a loop is written." in kind.documentation
    assert kind.detail == "choice on ($dim in Dimensions)"
    (loop,) = [p for p in editor.proposals(SPACE + "require kind($x) is L") if p.label == "LOOP"]
    assert loop.documentation == "A regular loop."


def test_a_proposal_replaces_the_word_that_has_been_begun(editor: Editor) -> None:
    def replaced(typed: str) -> str:
        offset = editor.type(SPACE + typed)
        start = complete(editor.workspace, editor.path(), offset).start
        return (SPACE + typed)[start:offset]

    assert replaced("require kin") == "kin"
    assert replaced("require forall $x in Dimensions: kind($x") == "$x"
    assert replaced("require forall $x in Dimensions: kind($") == "$"
    assert replaced('require "$devi') == "$devi"
    assert replaced('require "$device.thr') == "thr"
    assert replaced('require "1 < ') == ""


def test_a_declaration_that_is_broken_before_the_cursor_still_gets_names(editor: Editor) -> None:
    typed = editor.typed(SPACE + "require forall forall $x in Dimensions: kind($x) is ")
    assert {"LOOP", "VECTOR", "ANY"} & set(typed) or {"kind($x)", "Dimensions"} <= set(typed)

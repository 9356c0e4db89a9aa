"""Hover, definitions, references, renaming and the outline, on files that are right and on broken ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spacedsl.diagnostics import Severity, Source
from spacedsl.language.loader import check_source
from spacedsl.language.parser import grammar, parse
from spacedsl.lsp.hover import definition, hover
from spacedsl.lsp.indexing import index
from spacedsl.lsp.outline import outline
from spacedsl.lsp.rename import RenameError, applied, references, rename
from tests.language import listings
from tests.language.sources import PREAMBLE
from tests.lsp.editing import SPACE, Editor, cursor, shown
from tests.rules import rules_of

ROOT = Path(__file__).parents[2]
LINALG = rules_of()


def markdown(editor: Editor, text: str) -> str:
    found = hover(editor.workspace, editor.path(), editor.type(text))
    return "" if found is None else found.markdown


@pytest.mark.parametrize(
    "text", [SPACE, LINALG, listings.SETS, listings.COUNTERS, listings.GPU, listings.PIPELINE, PREAMBLE]
)
def test_every_name_in_a_right_file_stands_for_something(text: str) -> None:
    """Against the lexer: each word that is no keyword, key or type is in the index exactly once."""
    file = parse(Source("test.space", text))
    found = [o.span.start for o in index(file.declarations).occurrences]
    words = {
        token.start_pos: str(token)
        for token in grammar().lex(text)
        if token.type in ("NAME", "VALUE_NAME", "SET_NAME", "VARIABLE")
    }
    keys = re.compile(r"type|iterator|reverse|item_getter|default")
    missing = {word for start, word in words.items() if start not in found and not keys.fullmatch(word)}
    assert missing == set()
    assert len(found) == len(set(found))


def test_the_preamble_is_right() -> None:
    assert check_source(Source("test.space", SPACE))[0] is not None


def test_hover_shows_the_declaration_and_what_documents_it(editor: Editor) -> None:
    assert markdown(editor, cursor("requires forall $other in Dim¦ensions where")) == (
        '```space\nset Dimensions subsetof Statements:\n  type = "Dimension"\n'
        '  iterator = "$kernel.dimensions"\nend\n```\n\nCounted loops.'
    )
    assert 'size($dim in Dimensions): "$dim.possible_sizes"' in markdown(editor, cursor("mul si¦ze"))
    kind = markdown(editor, cursor("when: ki¦nd("))
    assert "choice enum kind($dim in Dimensions):\n  value LOOP:\n  value VECTOR:\n  alias ANY" in kind
    assert kind.endswith("How a loop is written.")
    loop = markdown(editor, cursor("when: kind($dim) is LO¦OP"))
    assert "value LOOP:" in loop
    assert "A value of `kind`." in loop
    assert loop.endswith("A regular loop.")
    assert markdown(editor, cursor("> $di¦m.id")).startswith("```space\n$dim in Dimensions\n```")
    assert "is_first is TRUE" in markdown(editor, cursor("is_first($dim) is TR¦UE"))
    assert markdown(editor, cursor("require¦ forall $dim in Dimensions: site")) == ""


def test_hover_on_a_text_that_does_not_parse_is_that_of_the_last_one_that_did(editor: Editor) -> None:
    editor.type(SPACE)
    broken = SPACE + "\nrequire forall $x in Dimen¦sions kind("
    assert "Counted loops." in markdown(editor, broken)
    assert "Counted loops." in markdown(editor, broken.replace("$x in Dimen¦sions", "$di¦m in Dimensions"))
    assert "A regular loop" in markdown(editor, SPACE + "\nrequire LO¦OP LOOP")
    assert markdown(editor, SPACE + "\nrequire nothing¦ LOOP") == ""


def test_definitions_are_found_across_files(editor: Editor) -> None:
    editor.save(SPACE, "base.space")
    text = 'include "base.space"\nrequire forall $d in Dimensions: kind($d) is ANY\n'

    def target(marked: str) -> object:
        (place,) = definition(editor.workspace, editor.path(), editor.type(marked))
        return place if isinstance(place, Path) else (Path(place.source.name).name, shown(place))

    assert target(cursor("in Dim¦ensions", text)) == ("base.space", "5: Dimensions")
    assert target(cursor("is ANY¦", text)) == ("base.space", "17: ANY")
    assert target(cursor("($¦d)", text)) == ("main.space", "2: $d")
    assert target(cursor("ba¦se", text)) == editor.path("base.space")
    assert definition(editor.workspace, editor.path(), editor.type(cursor("req¦uire", text))) == ()
    assert definition(editor.workspace, editor.path(), editor.type(text.replace("base", "no¦ne"))) == ()


def test_an_open_file_counts_before_the_one_on_the_disk(editor: Editor) -> None:
    editor.save("", "base.space")
    editor.type('include "base.space"\nrequire forall $x in Items: "$x.ok"\n')
    (wrong,) = [d for d in editor.workspace.diagnostics()[editor.path()] if d.severity is Severity.ERROR]
    assert wrong.code == "SP012"
    editor.type('set Items: iterator = "$kernel.items" end', "base.space")
    assert not [d for d in editor.workspace.diagnostics()[editor.path()] if d.severity is Severity.ERROR]
    editor.workspace.close(editor.path("base.space"))
    assert [d.code for d in editor.workspace.diagnostics()[editor.path()]] == ["SP012"]


def test_an_included_file_is_checked_with_what_stands_in_front_of_it(editor: Editor) -> None:
    """By itself, it would lack the set."""
    part = 'require forall $x in Ite¦ms: "$x.ok"\n'
    editor.save(part.replace("¦", ""), "part.space")
    offset = editor.type(part, "part.space")
    assert [d.code for d in editor.workspace.diagnostics()[editor.path("part.space")]] == ["SP012"]
    editor.type('/// All.\nset Items: iterator = "$kernel.items" end\ninclude "part.space"\n')
    assert editor.workspace.diagnostics()[editor.path("part.space")] == ()
    found = hover(editor.workspace, editor.path("part.space"), offset)
    assert found is not None
    assert found.markdown.endswith("All.")


def test_files_that_include_each_other_are_both_shown(editor: Editor) -> None:
    editor.save('include "main.space"\n', "other.space")
    editor.type('include "other.space"\n')
    editor.type('include "main.space"\n', "other.space")
    found = editor.workspace.diagnostics()
    assert {d.code for diagnostics in found.values() for d in diagnostics} == {"SP008"}


def test_references_are_all_places_with_the_declaration_first(editor: Editor) -> None:
    def places(marked: str) -> list[str]:
        return [shown(s) for s in references(editor.workspace, editor.path(), editor.type(marked))]

    assert places(cursor("ANY / order is SA¦ME")) == ["21: SAME", "16: SAME", "31: SAME"]
    assert places(cursor("choice enum or¦der")) == ["19: order", "16: order", "31: order", "34: order"]
    assert places(cursor("is_fir¦st($dim)")) == ["31: is_first", "32: is_first"]
    assert places(cursor("< LE¦AF ||")) == ["24: LEAF", "32: LEAF"]
    assert places(cursor("$ou¦ter.inner")) == ["9: $outer", "9: $outer"]
    assert places(cursor("$dim in Dimensions: si¦te")) == ["24: site", "32: site"]


RENAMED = [
    ("set Dimen¦sions", "Loops", 14),
    ("set Ne¦st", "Inside", 1),
    ("when: ki¦nd", "form", 4),
    ("alias AN¦Y", "SOME", 2),
    ("ROOT < LE¦AF", "TIP", 2),
    ("size(ne¦xt", "following", 2),
    ("quantity ar¦ea", "surface", 2),
    ("is_f¦irst =", "is_chosen", 2),
    ("$oth¦er.id", "$another", 3),
    ("ordering def¦ault", "usual", 1),
]


@pytest.mark.parametrize(("needle", "name", "count"), RENAMED)
def test_renaming_changes_every_place_and_nothing_else(
    editor: Editor, needle: str, name: str, count: int
) -> None:
    offset = editor.type(cursor(needle))
    ((path, edits),) = rename(editor.workspace, editor.path(), offset, name).items()
    assert path == editor.path()
    assert len(edits) == count
    text = applied(SPACE, edits)
    space, found = check_source(Source("test.space", text))
    assert space is not None, found
    # Back again, from the same place: as long as the name was new, nothing is left of it.
    back = editor.type(text.replace(name, f"{name[:1]}¦{name[1:]}", 1))
    old = edits[0].span.text
    ((_, edits),) = rename(editor.workspace, editor.path(), back, old).items()
    assert applied(text, edits) == SPACE


def test_renaming_reaches_every_file_that_includes_the_declaration(editor: Editor) -> None:
    editor.workspace.folders = (editor.folder,)
    editor.save('set Items: iterator = "$kernel.items" end\n', "base.space")
    editor.save('include "base.space"\nrequire forall $y in Items: "$y.ok"\n', "closed.space")
    editor.save('set Items: iterator = "1" end\n', "unrelated.space")
    offset = editor.type('include "base.space"\nrequire forall $x in It¦ems: "$x.ok"\n')
    edits = rename(editor.workspace, editor.path(), offset, "Things")
    assert {p.name: [e.span.line for e in es] for p, es in edits.items()} == {
        "base.space": [1],
        "closed.space": [2],
        "main.space": [2],
    }


@pytest.mark.parametrize(
    ("needle", "name", "said"),
    [
        ("set Dimen¦sions", "Statements", "there is already a set `Statements`"),
        ("set Dimen¦sions", "loops", "CamelCase"),
        ("when: ki¦nd", "order", "there is already a choice `order`"),
        ("when: ki¦nd", "area", "there is already a quantity `area`"),
        ("when: ki¦nd", "is_first", "there is already a choice `is_first`"),
        ("when: ki¦nd", "value", "is a word of the language"),
        ("when: ki¦nd", "Kind", "snake_case"),
        ("alias AN¦Y", "LOOP", "there is already a value `LOOP`"),
        ("alias AN¦Y", "any", "UPPER_CASE"),
        ("$oth¦er.id", "dim", "there is already a variable `$dim`"),
        ("$oth¦er.id", "kernel", "always in scope"),
        ("is_first($dim) is TR¦UE", "YES", "is a word of the language here"),
        ("requ¦ire forall $dim in Dimensions: area", "demand", "there is no name here"),
    ],
)
def test_a_name_that_cannot_be_had_is_refused_in_words(
    editor: Editor, needle: str, name: str, said: str
) -> None:
    with pytest.raises(RenameError, match=re.escape(said)):
        rename(editor.workspace, editor.path(), editor.type(cursor(needle)), name)


def test_nothing_is_renamed_in_a_file_with_a_syntax_error(editor: Editor) -> None:
    editor.type(SPACE)
    with pytest.raises(RenameError, match="syntax error"):
        rename(editor.workspace, editor.path(), editor.type(cursor("set Ne¦st") + "\nset"), "Inside")


def test_the_outline_lists_declarations_with_their_values(editor: Editor) -> None:
    editor.type(SPACE)
    entries = outline(editor.workspace.current[editor.path()], editor.path())
    names = [entry.name for entry in entries]
    assert names[:3] == ["Statements", "Dimensions", "Nest"]
    assert names[-3:] == [
        "require site($dim) < LEAF || is_first($dim) is TRUE",
        'require area($dim) <= "$device.threads"',
        "default",
    ]
    (kind,) = [entry for entry in entries if entry.name == "kind"]
    assert [child.name for child in kind.children] == ["LOOP", "VECTOR", "ANY"]
    for entry in entries:
        assert entry.extent.start <= entry.place.start <= entry.place.end <= entry.extent.end


def test_what_cannot_be_compiled_is_shown(editor: Editor) -> None:
    names = [f"$a{i}" for i in range(11)]
    prefix = " ".join(f"forall {name} in Dimensions:" for name in names)
    editor.type(f"{SPACE}\nrequire {prefix}\n  kind($a0) is LOOP || kind($a10) is LOOP\n")
    found = editor.workspace.diagnostics()[editor.path()]
    assert [d.code for d in found if d.severity is Severity.ERROR] == ["SP303"]

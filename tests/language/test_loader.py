"""Files that include files."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.diagnostics import DiagnosticError, render
from spacedsl.language.loader import check_file, load_space

SETS = 'set Items: iterator = "$kernel.items" end\n'
CHOICES = "choice enum kind($x in Items): value A: value B: end\n"


def write(folder: Path, **files: str) -> Path:
    """Writes NAME.space for each; returns the path of `main`."""
    for name, text in files.items():
        (folder / f"{name}.space").write_text(text, encoding="utf-8")
    return folder / "main.space"


def codes(path: Path) -> list[tuple[str, str, int]]:
    return [(d.code, Path(d.span.source.name).name, d.span.line) for d in check_file(path)[1]]


def test_an_include_is_relative_to_the_file_that_includes(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/choices.space").write_text('include "sets.space"\n' + CHOICES, encoding="utf-8")
    (tmp_path / "sub/sets.space").write_text(SETS, encoding="utf-8")
    path = write(tmp_path, main='include "sub/choices.space"\nrequire forall $x in Items: kind($x) is A\n')
    loaded = load_space(path)
    assert list(loaded.sets) == ["Items"] and list(loaded.choices) == ["kind"]
    assert [Path(s).name for s in loaded.sources] == ["main.space", "choices.space", "sets.space"]


def test_a_file_is_read_once_however_often_it_is_included(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        sets=SETS,
        left='include "sets.space"',
        right='include "./sets.space"',
        main='include "left.space" include "right.space" include "sets.space"\n' + CHOICES,
    )
    assert list(load_space(path).sets) == ["Items"]


def test_a_cycle_of_includes_is_an_error_at_the_include_that_closes_it(tmp_path: Path) -> None:
    path = write(tmp_path, a='include "b.space"', b='\ninclude "a.space"', main='include "a.space"')
    (found,) = check_file(path)[1]
    assert (found.code, found.span.line, found.hint) == ("SP008", 2, "a.space -> b.space -> a.space")
    assert Path(found.span.source.name).name == "b.space"
    assert codes(write(tmp_path, main='include "main.space"')) == [("SP008", "main.space", 1)]


@pytest.mark.parametrize("name", ["missing.space", ".", "a\x00b", "x" * 5000, "/dev/zero"])
def test_an_include_that_cannot_be_read_is_an_error_at_its_name(tmp_path: Path, name: str) -> None:
    assert codes(write(tmp_path, main=f'\ninclude "{name}"')) == [("SP007", "main.space", 2)]


@pytest.mark.parametrize("name", ["secret.txt", "secret", "/etc/passwd", "link.space"])
def test_no_line_of_a_file_of_another_kind_is_shown_by_including_it(tmp_path: Path, name: str) -> None:
    for file in ("secret.txt", "secret"):
        (tmp_path / file).write_text("hunter2", encoding="utf-8")
    (tmp_path / "link.space").symlink_to("secret.txt")
    path = write(tmp_path, main=f'\ninclude "{name}"')
    (found,) = check_file(path)[1]
    assert (found.code, found.span.line, found.span.column) == ("SP007", 2, 10)
    assert found.message == f"cannot read `{name}`: only .space files can be included"
    assert "hunter2" not in render(found)


def test_a_very_long_chain_of_includes_is_an_error_where_it_becomes_too_long(tmp_path: Path) -> None:
    chain = {f"f{i}": f'include "f{i + 1}.space"' for i in range(1500)}
    assert codes(write(tmp_path, main='include "f0.space"', **chain)) == [("SP007", "f58.space", 1)]


def test_a_file_that_is_not_utf_8_is_an_error_at_the_byte(tmp_path: Path) -> None:
    (tmp_path / "bad.space").write_bytes(b"// fine\n// \xff\n")
    assert codes(tmp_path / "bad.space") == [("SP001", "bad.space", 2)]
    assert codes(write(tmp_path, main='include "bad.space"')) == [("SP001", "bad.space", 2)]


def test_the_syntax_errors_of_all_files_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path, a="set", b="choice", main='include "a.space" include "b.space"')
    assert [name for _, name, _ in codes(path)] == ["a.space", "b.space"]


def test_load_raises_all_diagnostics_and_check_returns_them(tmp_path: Path) -> None:
    path = write(tmp_path, main="require forall $x in A: true\nrequire forall $x in B: true\n")
    loaded, found = check_file(path)
    assert loaded is None
    with pytest.raises(DiagnosticError) as caught:
        load_space(path)
    assert [d.code for d in caught.value.diagnostics] == [d.code for d in found] == ["SP012", "SP012"]


def test_a_file_that_does_not_exist_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_space(tmp_path / "missing.space")


def test_the_digest_depends_on_the_text_of_every_file(tmp_path: Path) -> None:
    path = write(tmp_path, sets=SETS, main='include "sets.space"\n' + CHOICES)
    first = load_space(path).digest
    assert load_space(path).digest == first
    write(tmp_path, sets=SETS + "// more")
    assert load_space(path).digest != first


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "main.space").write_bytes(b"\xef\xbb\xbf" + (SETS + CHOICES).replace("\n", "\r\n").encode())
    assert list(load_space(tmp_path / "main.space").choices) == ["kind"]

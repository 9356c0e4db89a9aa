"""`spacedsl fmt`: what it writes, what it leaves alone, and what it says."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spacedsl.cli import fmt
from spacedsl.cli.app import app
from tests.cli.running import Ran, run

LOOSE = 'set   Items :\n\n// why\n iterator="$kernel.items" end'
TIDY = 'set Items:\n  // why\n  iterator = "$kernel.items"\nend\n'
WRONG = "set Items iterator"


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    path = tmp_path / "loose.space"
    path.write_text(LOOSE, encoding="utf-8")
    return path


def piped(text: str, *flags: str) -> Ran:
    result = CliRunner().invoke(app, ["fmt", *flags, "-"], input=text, catch_exceptions=False)
    return Ran(result.exit_code, result.stdout, result.stderr)


def test_a_file_is_laid_out_anew_in_its_place_and_then_left_alone(loose: Path) -> None:
    loose.chmod(0o640)
    ran = run("fmt", loose)
    assert (ran.code, ran.out) == (0, "")
    assert "loose.space: laid out anew" in ran.err
    assert loose.read_text(encoding="utf-8") == TIDY
    assert loose.stat().st_mode & 0o777 == 0o640
    written = loose.stat().st_mtime_ns
    assert run("fmt", loose).err == ""
    assert loose.stat().st_mtime_ns == written
    assert list(loose.parent.iterdir()) == [loose]


def test_a_link_stays_a_link(loose: Path) -> None:
    link = loose.with_name("link.space")
    link.symlink_to(loose.name)
    assert run("fmt", link).code == 0
    assert link.is_symlink()
    assert loose.read_text(encoding="utf-8") == TIDY


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "mark.space"
    path.write_bytes(b"\xef\xbb\xbf" + TIDY.encode())
    assert run("fmt", "--check", path).code == 1
    assert run("fmt", path).code == 0
    assert path.read_bytes() == TIDY.encode()


def test_check_says_what_would_change_and_changes_nothing(loose: Path) -> None:
    ran = run("fmt", "--check", loose)
    assert (ran.code, ran.out) == (1, "")
    assert "loose.space: would be laid out anew" in ran.err
    assert loose.read_text(encoding="utf-8") == LOOSE
    run("fmt", loose)
    assert run("fmt", "--check", loose).code == 0


def test_diff_shows_what_would_change_and_changes_nothing(loose: Path) -> None:
    ran = run("fmt", "--diff", loose)
    assert ran.code == 1
    assert "\n-set   Items :\n" in ran.out
    assert "\n+set Items:\n" in ran.out
    assert "No newline at end of file" in ran.out
    assert loose.read_text(encoding="utf-8") == LOOSE


def test_stdin_goes_to_stdout() -> None:
    assert piped(LOOSE) == Ran(0, TIDY, "<stdin>: laid out anew\n")
    assert piped(TIDY) == Ran(0, TIDY, "")
    assert piped(LOOSE, "--check", "-q") == Ran(1, "", "")


def test_a_file_with_errors_is_not_changed_and_the_others_are(loose: Path) -> None:
    wrong = loose.with_name("wrong.space")
    wrong.write_text(WRONG, encoding="utf-8")
    ran = run("fmt", wrong, loose)
    assert ran.code == 1
    assert "wrong.space:1:11: error SP002" in ran.err
    assert wrong.read_text(encoding="utf-8") == WRONG
    assert loose.read_text(encoding="utf-8") == TIDY
    assert piped(WRONG).out == ""


def test_a_file_that_cannot_be_replaced_stops_no_other(loose: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = loose.with_name("other.space")
    other.write_text(LOOSE, encoding="utf-8")
    replace = fmt._replace

    def refused(file: Path, text: str) -> None:
        if file == loose:
            raise PermissionError(errno.EACCES, "Permission denied", str(loose.parent))
        replace(file, text)

    monkeypatch.setattr(fmt, "_replace", refused)
    ran = run("fmt", loose, other)
    assert ran.code == 5
    assert f"{loose.parent}: permission denied" in ran.err
    assert loose.read_text(encoding="utf-8") == LOOSE
    assert other.read_text(encoding="utf-8") == TIDY


def test_what_is_no_space_file_is_a_usage_error(tmp_path: Path) -> None:
    other = tmp_path / "kernel.yaml"
    other.write_text("kernel: a\n", encoding="utf-8")
    for path, said in (
        (other, "not a .space file"),
        (tmp_path / "nope.space", "there is no such file"),
        (tmp_path, "this is a folder"),
    ):
        ran = run("fmt", path)
        assert ran.code == 2
        assert said in ran.err


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data.space"
    path.write_bytes(b"\xff\xfe")
    ran = run("fmt", path)
    assert ran.code == 1
    assert "SP001" in ran.err

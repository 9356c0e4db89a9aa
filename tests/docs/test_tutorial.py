"""The tutorial is true: its files are those beside it, and its commands print what the page shows."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.running import run

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "tutorial.md"
_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

LEFT_OUT = "[...]\n"
"""In an output that is shown: any lines."""


@dataclass(frozen=True, slots=True)
class Block:
    kind: str
    file: str | None
    text: str


def blocks() -> list[Block]:
    return [Block(m["kind"], m["file"], m["text"]) for m in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


def output(commands: str) -> str:
    """What the commands print on both streams, one after the other."""
    said = ""
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "spacedsl"
        ran = run(*arguments)
        said += ran.out + ran.err
    return said


def agrees(shown: str, said: str) -> bool:
    """Whether the output is what is shown, with lines that are left out."""
    pattern = ".*".join(map(re.escape, shown.split(LEFT_OUT)))
    return re.fullmatch(pattern, said, re.DOTALL) is not None


def test_every_command_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The files grow with the page, as a reader's would."""
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    wrong: list[str] = []
    found = blocks()
    for at, block in enumerate(found):
        if block.file is not None:
            file = tmp_path / block.file
            before = file.read_text(encoding="utf-8") + "\n" if file.exists() else ""
            file.write_text(before + block.text, encoding="utf-8")
        elif block.kind == "sh":
            shown, said = found[at + 1], output(block.text)
            assert shown.kind == "text"
            if agrees(shown.text, said):
                continue
            wrong.append(f"{block.text}\n{said}")
            old = f"```sh\n{block.text}```\n\n```text\n{shown.text}```"
            assert page.count(old) == 1
            page = page.replace(old, f"```sh\n{block.text}```\n\n```text\n{said}```")
    if wrong and request.config.getoption("--update-golden"):
        PAGE.write_text(page, encoding="utf-8")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["shop.yaml", "shop.space", "filed.yaml", "filed.space"])
def test_the_finished_files_are_those_of_the_page(name: str, request: pytest.FixtureRequest) -> None:
    text = "\n".join(block.text for block in blocks() if block.file == name)
    file = DOCS / "tutorial" / name
    if request.config.getoption("--update-golden"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["shop.space", "filed.space"])
def test_the_spaces_are_laid_out_as_the_formatter_does(name: str) -> None:
    assert run("fmt", "--check", DOCS / "tutorial" / name).code == 0


def test_the_page_shows_something_of_every_kind() -> None:
    kinds = [block.kind for block in blocks()]
    assert kinds.count("sh") == kinds.count("text") >= 8
    assert {"yaml", "space"} <= set(kinds)

"""What README and docs say is true: links lead somewhere, commands and flags exist, examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from spacedsl.cli.app import app
from spacedsl.diagnostics import Source
from spacedsl.kernels.kernel_file import check_kernel
from spacedsl.language.loader import load_space

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_to_files(page: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", page.read_text(encoding="utf-8")))
    targets = re.findall(r"\[[^\]]*\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose)
    assert not [target for target in targets if not (page.parent / target).exists()]


def commands() -> list[str]:
    """Every line of README and docs that calls the program."""
    lines = [line.strip() for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("spacedsl ")]


@pytest.mark.parametrize("line", commands())
def test_commands_and_flags_in_examples_exist(line: str) -> None:
    import typer.main

    _, name, *arguments = shlex.split(line, comments=True)
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert not {a for a in arguments if a.startswith("-")} - known


def test_the_examples_call_the_program() -> None:
    assert len(commands()) >= 5


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=lambda page: page.name)
def test_python_examples_run(
    page: Path, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels").symlink_to(ROOT / "kernels")
    monkeypatch.chdir(tmp_path)
    (example,) = blocks(page, "python")
    exec(compile(example, page.name, "exec"), {})
    assert list(tmp_path.glob("runs/*/best.c"))


def test_the_kernel_of_the_readme_is_one() -> None:
    (text,) = blocks(ROOT / "README.md", "yaml")
    kernel = check_kernel(Source("README.md", text), ROOT / "README.md")
    assert [i.name for i in kernel.backbone.instructions]


def test_the_rule_of_the_readme_extends_the_space(tmp_path: Path) -> None:
    (rule,) = blocks(ROOT / "README.md", "space")
    space = tmp_path / "own.space"
    (tmp_path / "kernels").symlink_to(ROOT / "kernels")
    space.write_text(rule)
    before = load_space(ROOT / "kernels" / "spaces" / "linalg.space")
    assert len(load_space(space).requirements) == len(before.requirements) + 1


def test_the_configuration_of_the_docs_is_one(tmp_path: Path) -> None:
    from spacedsl.cli.options import Settings, configuration

    (text,) = blocks(ROOT / "docs" / "index.md", "toml")
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    assert configuration(file) == Settings(time_s=600, seed=1, policy="tag", runs=tmp_path / "runs")

"""The pages on diagnostics are true: every code has its section, every example says exactly what is shown.

A section shows a wrong example, what is said of it (`line:column: severity code: message`, then the hint) and
a right one. The first words behind the three backticks say what the example is.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from spacedsl import record
from spacedsl.api import targets
from spacedsl.api.problem import pose
from spacedsl.cli.explore import explore
from spacedsl.codegen.cuda.batches.results import read_results
from spacedsl.codegen.linalg.implementation import check_decisions
from spacedsl.codegen.running import memory
from spacedsl.codegen.running.cases import NotFiniteError, make_cases, not_finite
from spacedsl.compiler import compile_space
from spacedsl.compiler.c import build
from spacedsl.diagnostics import Diagnostic, DiagnosticError, Severity, Source, render
from spacedsl.engine.instance import instantiate
from spacedsl.kernels.backbones import load_any
from spacedsl.kernels.device import DEVICES, load_device
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.language.loader import check_file
from spacedsl.language.spelled import spelled_ordering
from tests.conftest import UNOPTIMISED
from tests.rules import rules_of

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs/diagnostics.md", ROOT / "docs/kernel-diagnostics.md")
CODE = r"(?:SP|KF|DV|RC)\d{3}"
_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One block of a page; `shown` is the block of text that follows it."""

    page: Path
    code: str
    info: str
    text: str
    shown: str


def _sections(page: Path) -> Iterator[tuple[str, str]]:
    """The title of each section and its text."""
    text = page.read_text(encoding="utf-8")
    starts = list(re.finditer(r"^### (.*)\n", text, re.MULTILINE))
    ends = [m.start() for m in re.finditer(r"^##+ ", text, re.MULTILINE)] + [len(text)]
    for start in starts:
        end = next(e for e in ends if e > start.start())
        yield start[1], text[start.end() : end]


def _examples() -> Iterator[Example]:
    for page in PAGES:
        for title, text in _sections(page):
            blocks = list(_BLOCK.finditer(text))
            for block, after in zip(blocks, [*blocks[1:], None], strict=True):
                kind = block["info"].split()
                if kind[-1] not in ("wrong", "right"):
                    continue
                shown = after["text"] if after is not None and after["info"] == "text" else ""
                code = re.findall(CODE, title)[-1 if "device" in kind else 0]
                yield Example(page, code, block["info"], block["text"], shown)


EXAMPLES = tuple(_examples())
TITLES = [title for page in PAGES for title, _ in _sections(page)]


def _preamble(page: Path, info: str) -> str:
    return next(b["text"] for b in _BLOCK.finditer(page.read_text(encoding="utf-8")) if b["info"] == info)


def check_example(example: Example, folder: Path) -> tuple[int, tuple[Diagnostic, ...]]:
    """The number of lines that stand before the example, and what is said of both."""
    kind, *rest = example.info.split()
    before, check = {
        "space": (_preamble(PAGES[0], "space preamble"), _check_space),
        "ordering": ("", _check_ordering),
        "bytes": ("", _check_bytes),
        "yaml": (_base(example, "yaml preamble"), _check_with(_load, "example.yaml")),
        "plain": ("", _check_with(load_any, "example.yaml")),
        "python": ("", _check_with(_build, "example.py")),
        "json": ("", _check_with(record.read, "best.json")),
        "results": ("", _check_with(_results, "results.jsonl")),
    }[kind]
    if "device" in rest:
        before, check = _base(example, "yaml device"), _check_with(load_device, "example.yaml")
    if "pipeline" in rest:
        before, check = _base(example, "yaml pipeline"), _check_with(load_any, "example.yaml")
    if "alone" in rest:
        before = ""
    return before.count("\n"), check(before + example.text, example.code, folder)


def _base(example: Example, info: str) -> str:
    """The file that an example is laid over: what both give, only the example gives."""
    if "yaml" not in example.info:
        return ""
    keys = re.findall(r"^(\w+):", example.text, re.MULTILINE)
    entries = re.split(r"^(?=\w+:)", _preamble(PAGES[1], info), flags=re.MULTILINE)
    return "".join(entry for entry in entries if entry.split(":")[0] not in keys)


Check = Callable[[str, str, Path], tuple[Diagnostic, ...]]


def _check_with(load: Callable[[Path], object], name: str) -> Check:
    def check(text: str, code: str, folder: Path) -> tuple[Diagnostic, ...]:
        (folder / name).write_text(text, encoding="utf-8")
        (folder / "other.space").write_text(rules_of(), encoding="utf-8")
        try:
            return getattr(load(folder / name), "remarks", ())
        except DiagnosticError as error:
            return error.diagnostics

    return check


def _build(path: Path) -> None:
    load_any(path.with_name(f"{path.name}:build"))


def _results(path: Path) -> None:
    """The results of a batch with one implementation, whose code has the digest 00."""
    entry = {"digest": "00", "predicted_ns": 9.0, "bound_ns": 4.0}
    about = {"kernel": "scale", "sizes": {"n": 4}, "cache": "warm", "runs": [], "implementations": [entry]}
    (path.parent / "scale").mkdir()
    (path.parent / "scale" / "problem.json").write_text(json.dumps(about), encoding="utf-8")
    batch = json.dumps({"schema": 2, "problems": ["scale"]})
    (path.parent / "batch.json").write_text(batch, encoding="utf-8")
    read_results(path)


def _load(path: Path) -> KernelFile:
    """A kernel file as `explore` takes it, up to the point where a compiler is needed."""
    kernel, device = load_kernel(path), load_device(DEVICES / "generic-x86-64.yaml")
    with patch.object(
        memory, "available_memory", return_value=memory.Room(16 << 30, "MemAvailable of the system")
    ):
        memory.check_memory(kernel, memory.flush_bytes(kernel, device))
    try:
        next(make_cases(kernel, np.random.default_rng(0)))
    except NotFiniteError as error:
        raise DiagnosticError([not_finite(kernel, error.line)]) from None
    # Rules that are not the library's have an engine of their own, which nothing else runs on.
    is_own = kernel.space.parent == path.parent
    with patch.object(build, "FLAGS", UNOPTIMISED if is_own else build.FLAGS):
        pose(kernel, kernel.space, device, lambda event: None)
    with patch.object(targets, "find_compiler", side_effect=_FarEnoughError), suppress(_FarEnoughError):
        explore(path)
    return kernel


class _FarEnoughError(Exception):
    pass


def _check_bytes(text: str, code: str, folder: Path) -> tuple[Diagnostic, ...]:
    (folder / "example.space").write_bytes(eval(text, {}))
    return check_file(folder / "example.space")[1]


def _check_ordering(text: str, code: str, folder: Path) -> tuple[Diagnostic, ...]:
    (folder / "example.space").write_text(_preamble(PAGES[0], "space preamble"), encoding="utf-8")
    space = check_file(folder / "example.space")[0]
    assert space is not None
    try:
        spelled_ordering(space, Source("--ordering", text.strip()))
    except DiagnosticError as error:
        return error.diagnostics
    return ()


def _check_space(text: str, code: str, folder: Path) -> tuple[Diagnostic, ...]:
    """What checking says; for codes of later stages, then what these say, on the kernel of the page."""
    (folder / "other.space").write_text("", encoding="utf-8")
    path = folder / "example.space"
    path.write_text(text, encoding="utf-8")
    space, found = check_file(path)
    if space is None or (code < "SP300" and code not in ("SP062", "SP063")):
        return found
    names: dict[str, type] = {}
    exec(compile(_preamble(PAGES[0], "python kernel"), PAGES[0].name, "exec"), names)
    try:
        if code == "SP420":
            check_decisions(space, Source(str(path), text))
            return found
        compiled = compile_space(space)
        if code >= "SP400" or code < "SP300":
            instantiate(compiled, names["Kernel"](), names["Device"]())
    except DiagnosticError as error:
        return (*found, *error.diagnostics)
    return found


def _counts(diagnostic: Diagnostic, example: Example, before: int) -> bool:
    """Errors anywhere, and what the section is about; the preamble has remarks of its own."""
    is_about = diagnostic.code == example.code and diagnostic.span.line > before
    return diagnostic.severity is Severity.ERROR or is_about


def _line(diagnostic: Diagnostic, before: int) -> str:
    line, words = diagnostic.span.line - before, f"{diagnostic.severity} {diagnostic.code}"
    hint = "" if diagnostic.hint is None else f"\n  = {diagnostic.hint}"
    return f"{line}:{diagnostic.span.column}: {words}: {diagnostic.message}{hint}\n"


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if "wrong" in e.info], ids=lambda e: f"{e.code} {e.info}"
)
def test_of_a_wrong_example_is_said_what_is_shown_and_nothing_worse(
    example: Example, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before, found = check_example(example, tmp_path)
    said = [d for d in found if _counts(d, example, before)]
    assert {d.code for d in said} == {example.code}, "\n".join(map(render, found))
    text = (
        "".join(_line(d, before) for d in said)
        .replace(f"{tmp_path}/", "")
        .replace(str(tmp_path), "the folder of this file")
    )
    if request.config.getoption("--update-golden") and example.shown != text:
        page = example.page.read_text(encoding="utf-8")
        # The blocks that follow have moved when one before them was written anew: it is found by its text.
        old = f"```{example.info}\n{example.text}```\n\n```text\n"
        assert old + example.shown + "```" in page, "put a block of `text` behind the example"
        changed = page.replace(old + example.shown + "```", old + text + "```")
        example.page.write_text(changed, encoding="utf-8")
        return
    assert text == example.shown


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if "right" in e.info], ids=lambda e: f"{e.code} {e.info}"
)
def test_of_a_right_example_nothing_of_the_kind_is_said(example: Example, tmp_path: Path) -> None:
    before, found = check_example(example, tmp_path)
    assert [render(d) for d in found if _counts(d, example, before)] == []


@pytest.mark.parametrize("title", TITLES)
def test_a_section_has_a_wrong_and_a_right_example_for_each_of_its_codes(title: str) -> None:
    for code in re.findall(CODE, title):
        kinds = {e.info.split()[-1] for e in EXAMPLES if e.code == code}
        assert kinds == {"wrong", "right"}, code


def test_every_code_that_can_be_reported_has_its_section_and_no_other_has() -> None:
    reported: set[str] = set()
    for path in (
        path for top in ("spacedsl", "kernels", "search", "codegen") for path in (ROOT / top).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if re.fullmatch(CODE, node.value):
                reported.add(node.value)
            elif re.fullmatch(r"00\d", node.value):
                reported |= {f"KF{node.value}", f"DV{node.value}"}  # of what both kinds of YAML files share
    listed = [code for title in TITLES for code in re.findall(CODE, title)]
    assert sorted(set(listed) ^ reported) == []
    assert len(listed) == len(set(listed))

"""Kernel files of the plain backbone: which objects they make, and where each mistake is reported."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.compiler import compile_space
from spacedsl.diagnostics import DiagnosticError, Source
from spacedsl.engine.decision import Decision
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.engine.instance import instantiate
from spacedsl.kernels.backbones import load_any
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.kernels.located_yaml import parse_document
from spacedsl.kernels.plain.kernel_file import PlainFile, check_plain
from spacedsl.kernels.sizes import SizeOverrideError
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import select_ordering
from spacedsl.search.solutions import all_solutions
from tests.kernels.samples import LIBRARY, changed

SHOP = """\
kernel: shop
backbone: plain
space: shop.space
parameters: {horizon: 9, first: cut, shifts: [[0, 3], [5, 9]], is_open: true}
objects:
  machines: [saw, press]
  tasks:
    - {name: cut, machine: saw, hours: 3}
    - {name: bend, machine: press, hours: 2, after: [cut]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.space").write_text('set Tasks: iterator = "$kernel.tasks" end\n')
    return tmp_path


def check(text: str, folder: Path) -> PlainFile:
    path = folder / "shop.yaml"
    return check_plain(parse_document(Source("shop.yaml", text), "KF"), path)


def test_objects_have_their_attributes_and_texts_become_objects(folder: Path) -> None:
    kernel = check(SHOP, folder).backbone
    saw, press = kernel.machines  # type: ignore[attr-defined]
    cut, bend = kernel.tasks  # type: ignore[attr-defined]
    assert [m.name for m in (saw, press)] == ["saw", "press"]
    assert (cut.machine, bend.machine) == (saw, press)
    assert (cut.hours, bend.hours) == (3, 2)
    assert (cut.after, bend.after) == ((), (cut,))
    assert [o.id for o in (saw, press, cut, bend)] == [0, 1, 2, 3]
    assert type(cut).__name__ == "tasks"


def test_parameters_are_attributes_of_the_kernel(folder: Path) -> None:
    file = check(SHOP, folder)
    kernel = file.backbone
    assert kernel.first is kernel.tasks[0]  # type: ignore[attr-defined]
    assert kernel.shifts == ((0, 3), (5, 9))  # type: ignore[attr-defined]
    assert kernel.is_open is True  # type: ignore[attr-defined]
    assert file.sizes == {"horizon": 9}


def test_integer_parameters_can_be_replaced_from_outside_and_nothing_else(folder: Path) -> None:
    path = folder / "shop.yaml"
    path.write_text(SHOP)
    file = load_any(path, {"horizon": 12})
    assert file.sizes == {"horizon": 12}
    assert file.backbone.horizon == 12  # type: ignore[union-attr]
    for name in ("first", "horizn", "is_open"):
        with pytest.raises(SizeOverrideError, match=f"no integer parameter `{name}`"):
            load_any(path, {name: 12})


def test_host_expressions_read_attributes_and_only_these(folder: Path) -> None:
    (folder / "shop.space").write_text(
        'set Tasks: type = "tasks" iterator = "$kernel.tasks" end\n'
        'set After($t in Tasks) subsetof Tasks: iterator = "$t.after" end\n'
        'choice integer start($t in Tasks): "range($kernel.horizon - $t.hours + 1)" end\n'
        "require forall $t in Tasks: forall $before in After($t):\n"
        '  start($t) >= start($before) + "$before.hours" && "$t.machine.name != $before.machine.name"\n'
    )
    file = check(SHOP, folder)
    root = instantiate(compile_space(load_space(file.space)), file.backbone, None).root()
    assert root is not None
    cut, bend = file.backbone.tasks  # type: ignore[attr-defined]
    assert root.possible("start", cut) == (0, 1, 2, 3, 4)
    assert root.possible("start", bend) == (3, 4, 5, 6, 7)

    (folder / "shop.space").write_text('set Tasks: iterator = "$kernel.tasks[0].__class__" end\n')
    with pytest.raises(DiagnosticError):
        load_space(file.space)
    (folder / "shop.space").write_text(
        'set Tasks: iterator = "$kernel.tasks" end\nchoice integer size($t in Tasks): "$t.houres" end\n'
    )
    with pytest.raises(
        DiagnosticError, match=r"exposes no `houres` \(it has after, hours, id, machine, name\)"
    ):
        instantiate(compile_space(load_space(file.space)), file.backbone, None)


def test_triggers_add_objects_without_python(folder: Path) -> None:
    (folder / "shop.space").write_text(
        'set Tasks: iterator = "$kernel.tasks" end\n'
        "choice enum done($t in Tasks): value EARLY: value LATE: end\n"
        "trigger forall $t in Tasks: \"$kernel.add('Tasks', $t.checks)\" when done($t) is LATE\n"
    )
    text = changed(
        ("hours: 3", "hours: 3, checks: [look]"),
        ("  machines", "  checks:\n    - {name: look, checks: []}\n  machines"),
        text=SHOP,
    )
    file = check(text, folder)
    space = load_space(file.space)
    solutions = {frozenset(s.decisions.items()) for s in enumerate_solutions(space, file.backbone, None)}
    assert len(solutions) == 2 * (1 + 2), "two for bend; for cut EARLY, or LATE and two for look"
    instance = instantiate(compile_space(space), file.backbone, None)
    root = instance.root()
    assert root is not None
    late = instance.decide(root, Decision("done", ("cut",), ("LATE",)))
    assert late is not None
    assert [v.names for v in instance.variables if late.is_open(v)] == [("bend",), ("look",)]


# name: text, then (code, line, column, a part of the message) of every diagnostic in order
BROKEN: dict[str, tuple[str, list[tuple[str, int, int, str]]]] = {
    "an unknown object": (
        changed(("machine: press", "machine: pres"), text=SHOP),
        [("KF050", 9, 29, "no object is named `pres`")],
    ),
    "an unknown object in a list": (
        changed(("[cut]", "[cut, cit]"), text=SHOP),
        [("KF050", 9, 59, "no object is named `cit`")],
    ),
    "an unknown object in a parameter": (
        changed(("first: cut", "first: tomorrow"), text=SHOP),
        [("KF050", 4, 33, "no object is named `tomorrow`")],
    ),
    "a name twice": (
        changed(("name: bend", "name: saw"), text=SHOP),
        [("KF011", 9, 14, "two objects are named `saw`")],
    ),
    "a name that is no name": (
        changed(("[saw, press]", '[saw, press, "a b"]'), text=SHOP),
        [("KF010", 6, 26, "'a b' cannot be the name of an object")],
    ),
    "a name that is a number": (
        changed(("[saw, press]", "[saw, press, 3]"), text=SHOP),
        [("KF007", 6, 26, "a mapping")],
    ),
    "an object without a name": (
        changed(("{name: cut, ", "{"), text=SHOP),
        [("KF006", 8, 7, "`name` of entry 1 of `tasks` is missing")],
    ),
    "an object without an attribute": (
        changed((", hours: 2", ""), text=SHOP),
        [("KF006", 9, 14, "the attribute `hours` of `bend` is missing")],
    ),
    "attributes of two types": (
        changed(("hours: 2", "hours: saw"), text=SHOP),
        [("KF007", 9, 43, "`hours` is one of `machines` here, and a number elsewhere")],
    ),
    "attributes of two kinds": (
        changed(("machine: press", "machine: cut"), text=SHOP),
        [("KF007", 9, 29, "`machine` is one of `tasks` here, and one of `machines` elsewhere")],
    ),
    "a list of two types": (
        changed(("[cut]", "[cut, 3]"), text=SHOP),
        [("KF007", 9, 59, "`after` is a number here, and one of `tasks` elsewhere")],
    ),
    "a number beside truth": (
        changed(("hours: 2", "hours: true"), text=SHOP),
        [("KF007", 9, 43, "`hours` is true or false here, and a number elsewhere")],
    ),
    "a mapping as a value": (
        changed(("hours: 2", "hours: {at: 2}"), text=SHOP),
        [("KF007", 9, 43, "expected a number, true or false, the name of an object, or a list")],
    ),
    "an attribute that is taken": (
        changed(("hours: 3", "hours: 3, id: 4"), ("hours: 2", "hours: 2, id: 4"), text=SHOP),
        [("KF010", 8, 43, "`id` is a reserved word"), ("KF010", 9, 46, "`id` is a reserved word")],
    ),
    "a kind that cannot be read": (
        changed(("  machines", "  my-machines"), text=SHOP),
        [("KF010", 6, 3, "'my-machines' cannot be read in a host expression")],
    ),
    "a kind that is a keyword": (
        changed(("  machines", "  class"), text=SHOP),
        [("KF010", 6, 3, "`class` is a reserved word")],
    ),
    "a parameter that is a kind": (
        changed(("first:", "tasks:"), text=SHOP),
        [("KF011", 4, 26, "`tasks` is declared twice")],
    ),
    "no space": (changed(("space: shop.space\n", ""), text=SHOP), [("KF006", 1, 1, "`space` is missing")]),
    "an unknown space": (
        changed(("shop.space", "shops.space"), text=SHOP),
        [("KF041", 3, 8, "there is no file")],
    ),
    "a space that is none": (
        changed(("shop.space", "shop.yaml"), text=SHOP),
        [("KF041", 3, 8, "shop.yaml is no .space file")],
    ),
    "an unknown key": (SHOP + "tiling: {}\n", [("KF005", 10, 1, "unknown key `tiling`")]),
    "a kind that is no list": (
        changed(("[saw, press]", "saw"), text=SHOP),
        [("KF007", 6, 13, "a list")],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_mistakes_are_reported_where_they_are(name: str, folder: Path) -> None:
    text, expected = BROKEN[name]
    with pytest.raises(DiagnosticError) as caught:
        check(text, folder)
    found = [(d.code, d.span.line, d.span.column, d.message) for d in caught.value.diagnostics]
    assert [f[:3] for f in found] == [e[:3] for e in expected], found
    assert all(e[3] in f[3] for f, e in zip(found, expected, strict=True)), found


@settings(max_examples=150, deadline=None)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, len(SHOP)),
            st.integers(0, 8),
            st.sampled_from(
                ["", "[", "]", "{", "}", ":", ",", "- ", "\n", "null", "1e999", "cut", "&a ", "*a", "id"]
            ),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_however_it_is_changed_a_file_loads_or_is_refused_in_words(edits: list[tuple[int, int, str]]) -> None:
    text = SHOP
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    with suppress(DiagnosticError):
        check(text, LIBRARY)


def test_a_plain_kernel_is_not_explored(folder: Path) -> None:
    path = folder / "shop.yaml"
    path.write_text(SHOP)
    with pytest.raises(DiagnosticError) as caught:
        load_kernel(path)
    (found,) = caught.value.diagnostics
    assert (found.code, found.span.line, found.span.column) == ("KF045", 2, 11)
    assert "spacedsl solve" in str(found.hint)


def test_a_kernel_of_any_backbone_is_loaded() -> None:
    assert isinstance(load_any(LIBRARY / "matmul.yaml"), KernelFile)
    assert isinstance(load_any(LIBRARY / "plain" / "registers.yaml"), PlainFile)


@pytest.mark.parametrize("path", sorted((LIBRARY / "plain").glob("*.yaml")), ids=lambda p: p.stem)
def test_the_plain_kernels_of_the_library_have_solutions(path: Path) -> None:
    file = load_any(path)
    instance = instantiate(compile_space(load_space(file.space)), file.backbone, None)
    assert instance.root() is not None


def test_the_examples_of_the_page_are_one_kernel_and_one_space(tmp_path: Path) -> None:
    page = (LIBRARY.parents[1] / "docs" / "plain.md").read_text(encoding="utf-8")
    (kernel,) = re.findall(r"```yaml\n(.*?)```", page, re.S)
    (tmp_path / "shop.space").write_text("\n".join(re.findall(r"```space\n(.*?)```", page, re.S)))
    (tmp_path / "shop.yaml").write_text(kernel)
    file = load_any(tmp_path / "shop.yaml")
    space = load_space(file.space)
    instance = instantiate(compile_space(space), file.backbone, None)
    ordering = select_ordering(instance, space)
    root = instance.root()
    assert root is not None
    # The cut starts at 0 to 6 and the bend, hours later, by 7; a cut at 4 or later is measured, at 7 or 8.
    solutions = list(enumerate_solutions(space, file.backbone, None))
    assert len(solutions) == (5 + 4 + 3 + 2) + 2 * 1
    assert sum(found is not None for found in all_solutions(root, ordering)) == len(solutions)

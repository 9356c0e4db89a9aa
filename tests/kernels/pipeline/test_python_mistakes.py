"""What is wrong in a Python file that builds a pipeline is said at its place there."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl import pipeline as pl
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.kernels.backbones import load_any
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.sizes import SizeOverrideError

HEAD = """\
from spacedsl import pipeline as pl
x, y = pl.Var("x"), pl.Var("y")
def build(width=64, height=48):
    image = pl.Input("image", pl.u8, [width, height])
    f, g, r = pl.Func("f"), pl.Func("g"), pl.RDom(r=3)
    f[x, y] = pl.u16(image[x, y])
"""
TAIL = """\
    return pl.Pipeline("k", g.output(width, height))
"""


def write(folder: Path, text: str, name: str = "my.py") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / f"{name}:build"


def said(path: Path) -> Diagnostic:
    with pytest.raises(DiagnosticError) as error:
        load_any(path)
    (only,) = error.value.diagnostics
    return only


@pytest.mark.parametrize(
    ("lines", "code", "place", "words"),
    [
        ("g[x, y] = f[x, y, 1]", "KF022", "f[x, y, 1]", "`f` has 2 variables, not 3"),
        ("g[x, y] = g[x, y] + 1", "KF060", "g[x, y]", "`g` has no value yet"),
        ("g[x, y] = f[r.r, y]", "KF060", "g[x, y]", "no value yet that could be updated"),
        ("g[x, 0] = 1", "KF061", "g[x, 0]", "each position is a Var"),
        ("g[x, x] = 1", "KF061", "g[x, x]", "`x` twice"),
        ("g[x, y] = 0\n    g[x, y] += g[x - 1, y]", "KF062", "g[x, y]", "give a range"),
        ("g[x, y] = f[x, y]\n    f[x, y] += 1", "KF062", "f[x, y]", "after others have read it"),
        ("g[x, y] = 0\n    g[x, y] = pl.f32(1) * 0.5", "KF064", "g[x, y]", "does not hold every f32"),
        ("g[x, y] = 0\n    g[r.r, y] = pl.RDom(s=2).s", "KF063", "g[r.r, y]", "of one RDom"),
        ("g[x, y] = 0\n    g[x, 0] = f[x, y]", "KF021", "g[x, 0]", "`y` is no variable here"),
        ("g[x, y] = f[x, pl.Var('z')]", "KF021", "g[x, y]", "`z` is no variable here"),
        ("g[x, y] = 1 if f[x, y] > 3 else 4", "KF064", "f[x, y] > 3", "no value is known"),
        ("g[x, y] = max(f[x, y], 1)", "KF064", "max(f[x, y], 1)", "no value is known"),
        ("g[x, y] = 0 if 0 <= x < 3 else 1", "KF064", "0 <= x < 3", "no value is known"),
        ("g[x, y] = (0, 1)\n    g[x, y] += 1", "KF064", "g[x, y]", "2 values"),
        ("g[x, y] = (0, 1)\n    g[x, y] = 2 * g[x, y]", "KF064", "2 * g[x, y]", "2 values"),
        ("g[x, y] = (0, 1)\n    g[x, y] = (g[x, y] == 1, 1)", "KF064", "g[x, y] == 1", "2 values"),
        ("g[x, y] = (0, 1)\n    g[x, y] = (-g[x, y], 1)", "KF064", "-g[x, y]", "2 values"),
        ("g[x, y] = f[x, y] << 2.5", "KF064", "f[x, y] << 2.5", "`<<` is for integers"),
        ("g[x, y] = f[x, y] // 2.5", "KF064", "f[x, y] // 2.5", "`//` is for integers"),
        ("g[x, y] = f[x, y] + f", "KF064", "f[x, y] + f", "a Func is neither"),
        ("g[x, y] = f == 3", "KF064", "f == 3", "a Func is neither"),
        ("g[x, y] = pl.select(image != 3, 1, 2)", "KF064", "image != 3", "an Input is neither"),
        ("g[x, y] = ()", "KF022", "g[x, y]", "`g` has no value in this definition"),
        ("g[x, y] = 0\n    g.update((x, y), 1, over=r.r)", "KF064", "g.update(",
         "an RDom, and not an expression"),
        ("g[x, y] = f[x + 0.5, y]", "KF064", "f[x + 0.5, y]", "a position is a whole number"),
        ("g[x, y] = pl.min(f[x, y])", "KF064", "pl.min(f[x, y])", "at least 2 arguments"),
        ("g[x, y] = pl.sum(3, x)", "KF064", "pl.sum(3, x)", "a reduction goes through an RDom"),
        ("pl.sum(r, pl.sum(pl.RDom(r=4), r.r))", "KF011", "pl.sum(pl.RDom(r=4), r.r)", "already"),
        ("g[x, y] = pl.argmin(pl.RDom(i=2, j=2), x)", "KF022", "pl.argmin(", "over one range"),
        ("r.where(x)", "KF064", "r.where(x)", "a condition is true or false"),
        ("pl.RDom(r=0)", "KF063", "pl.RDom(r=0)", "is empty"),
        ("pl.RDom(r='a')", "KF064", "pl.RDom(r='a')", "neither an expression"),
        ("pl.RDom(r=(0, 3))", "KF064", "pl.RDom(", "a tuple is no whole number"),
        ("pl.RDom(r=x)", "KF064", "pl.RDom(r=x)", "an expression is no whole number"),
        ("pl.RDom(r=range(0, 6, 2))", "KF064", "pl.RDom(", "`range(0, 6, 2)` leaves out points"),
        ("pl.RDom()", "KF063", "pl.RDom()", "an RDom has ranges"),
        ("pl.Input('a', 'u8', 2)", "KF064", "pl.Input(", "`'u8'` is no element type"),
        ("pl.Param('p', float, 2)", "KF064", "pl.Param(", "is no element type"),
        ("pl.undefined(3)", "KF064", "pl.undefined(3)", "is no element type"),
        ("pl.saturated(pl.f32, x)", "KF064", "pl.saturated(", "f32 has no least"),
        ("pl.Param('p', pl.u8, 300)", "KF065", "pl.Param('p', pl.u8, 300)", "300 is no u8"),
        ("pl.Func('a-b')", "KF010", "pl.Func('a-b')", "cannot be a name"),
        ("pl.Var('sum')", "KF010", "pl.Var('sum')", "a word of the language"),
        ("pl.Input('a', pl.u8, [0])", "KF012", "pl.Input('a', pl.u8, [0])", "at least 1"),
        ("pl.Input('a', pl.u8, 2, values=(3, 256))", "KF065", "pl.Input(", "no values of u8"),
        ("pl.Input('a', pl.u8, 2.5)", "KF064", "pl.Input(", "`2.5` is no whole number"),
        ("pl.Input('a', pl.u8, 2, values=5)", "KF064", "pl.Input(", "the least and the greatest, not `5`"),
        ("pl.Input('a', pl.u8, 2, values=(1, 2, 3))", "KF064", "pl.Input(", "the greatest, not a tuple"),
        ("g[x, y] = pl.repeat_edge(f, x, y)", "KF022", "pl.repeat_edge(f, x, y)", "the ends of `f`"),
        ("g[x, y] = pl.repeat_edge(3, x, y)", "KF022", "pl.repeat_edge(3, x, y)", "takes a Func"),
        ("g[x, y] = pl.repeat_edge(pl.Func('h'), x)", "KF022", "pl.repeat_edge(", "that has a value"),
        ("g[x, y] = pl.repeat_edge(image, x)", "KF022", "pl.repeat_edge(", "2 variables, not 1"),
        ("g[x, y] = pl.repeat_edge(f, x, y, bounds=[3])", "KF022", "pl.repeat_edge(", "2 positions, and 1"),
        ("g[x, y] = pl.repeat_edge(f, x, y, bounds=[0, 3])", "KF063", "pl.repeat_edge(", "is empty"),
        ("g[x, y] = sum(x for _ in range(300))", "KF008", "sum(", "256 operations inside each other"),
        ("g[x, y] = pl.mux(x, range(400))", "KF008", "pl.mux(x, range(400))", "more than 256"),
        ("e = x\n    for _ in range(99): e = 1 + e\n    g[x, y] = e", "KF008", "g[x, y]", "100 operations"),
        ("e = x\n    for _ in range(60): e = e * e", "KF008", "e * e", "more than 10,000 operations"),
        ("h = pl.Func('h' * 60_000)\n    h[x, y] = x\n    return pl.Pipeline('k', h.output(3, 3))", "KF008",
         "pl.Pipeline('k'", "more than 100,000 characters"),
        ("g[x, pl.Var('image')] = f[x, 3]", "KF011", "g[", "`image` is an input"),
        ("h = pl.Func('f')\n    h[x, y] = 1\n    g[x, y] = f[x, y] + h[x, y]", "KF011",
         "pl.Func('f')", "two of these are called `f`"),
        ("h = pl.Func('width')\n    h[x, y] = 1\n    g[x, y] = h[x, y]", "KF011",
         "pl.Func('width')", "`width` is a size"),
        ("g[x, y] = f[x, y + 1]", "KF035", "image[x, y]", "is read from 1 to 48"),
        ("g[x, y] = 1\n    return pl.Pipeline('k', g.output(3))", "KF066", "g.output(3)", "`x`, `y`"),
        ("return pl.Pipeline('k', g.output(3))", "KF060", "g.output(3)", "`g` has no value yet"),
        ("g[x, y] = 1\n    return pl.Pipeline('k', g)", "KF066", "pl.Pipeline('k', g)", "outputs"),
        ("g[x, y] = 1\n    return pl.Pipeline('k', g.output(0, 3))", "KF063", "g.output(0, 3)", "empty"),
        ("g[x, y] = 1\n    return pl.Pipeline('k', g.output('a', 3))", "KF064", "g.output(", "neither"),
        ("g[x, y] = 1\n    return pl.Pipeline('k', [g.output(3, 3)] * 2)", "KF011", "g.output(", "already"),
        ("h = pl.Func('g_0')\n    h[x, y] = 1\n    g[x, y] = (1, 2)\n"
         "    return pl.Pipeline('k', [g.output(3, 3), h.output(3, 3)])",
         "KF011", "g.output(", "`g_0` is an array with values of `g`, and something else"),
        ("pl.Pipeline('k', f.output(3, 3), decisions=['f'])", "KF007", "pl.Pipeline(", "no decision"),
        ("pl.Pipeline('k', f.output(3, 3), decisions=[pl.Decision('site', 'f', 'INLINE')])", "KF007",
         "pl.Pipeline(", "no decision"),
        ("pl.Pipeline('k', f.output(3, 3), decisions=[pl.Decision('site', ('f',), (True,))])", "KF007",
         "pl.Pipeline(", "no decision"),
        ("pl.Pipeline('k', f.output(3, 3), cache='hot')", "KF007", "pl.Pipeline(", "not 'hot'"),
        ("pl.Pipeline('k', f.output(3, 3), tolerance=-1)", "KF007", "pl.Pipeline(", "not -1"),
        ("pl.Pipeline('k', f.output(3, 3), tolerance=True)", "KF007", "pl.Pipeline(", "not True"),
        ("g[x, y] = h[x, y]", "KF068", "h", "NameError: name 'h' is not defined"),
        ("1 / 0", "KF068", "1 / 0", "ZeroDivisionError: division by zero"),
        ("import nosuch", "KF068", "import nosuch", "ModuleNotFoundError: No module named 'nosuch'"),
        ("raise SystemExit(3)", "KF068", "raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyError", "KF068", "raise KeyError", "KeyError"),
        ("pl.Func()", "KF068", "pl.Func()", "missing 1 required positional argument: 'name'"),
        ("r.z", "KF068", "r.z", "AttributeError: this RDom has no range `z`, only `r`"),
        ("for _ in f: pass", "KF068", "for", "'Func' object is not iterable"),
        ("g[x, y] = 1 +", "KF068", "", "this is no Python: invalid syntax"),
        ("return g", "KF069", "def build(width=64, height=48):", "returns a Func, not a Pipeline"),
        ("return", "KF069", "def build(width=64, height=48):", "returns nothing, not a Pipeline"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_where_it_is(lines: str, code: str, place: str, words: str, tmp_path: Path) -> None:
    found = said(write(tmp_path, HEAD + f"    {lines}\n" + TAIL))
    assert (found.code, found.span.source.name) == (code, str(tmp_path / "my.py"))
    assert words in found.message
    assert found.span.text.startswith(place)
    if code != "KF069":
        # The line itself, or one of those before that it makes wrong.
        last = HEAD.count("\n") + lines.count("\n") + 1
        assert found.span.line <= last
        assert found.span.line == last or code in ("KF011", "KF035")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("pl.repeat_edge(image, x)", "a point of it is written `repeat_edge(image, x, y)`"),
        ("pl.constant_exterior(image, x, y)", "a point of it is written `constant_exterior(image, 0, x, y)`"),
        ("pl.repeat_edge(f, x, y)",
         "such as `repeat_edge(f, x, y, bounds=[10, None])`; an Input with extents has them"),
    ],
)  # fmt: skip
def test_what_is_right_is_said_in_python(call: str, hint: str, tmp_path: Path) -> None:
    assert said(write(tmp_path, HEAD + f"    g[x, y] = {call}\n" + TAIL)).hint == hint


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        ("r.where(True)\n    g[x, y] = pl.sum(r, 1)", "g_sum() += 1 for r in 0:3 where true"),
        ("g[x, y] = pl.select(np.bool_(True), f[x, y], 3)", "select(true, f(x, y), 3)"),
        ("h = pl.Input('h', pl.u8, np.int64(2))\n    g[x, y] = h[x, y]", "h: {dtype: u8, rank: 2}"),
        ("g[x, y] = [h for h in (f, g) if h in (g, f)][0][x, y]", "g(x, y) = f(x, y)"),
    ],
)
def test_what_is_as_good_is_taken(lines: str, printed: str, tmp_path: Path) -> None:
    file = load_any(write(tmp_path, f"import numpy as np\n{HEAD}    {lines}\n{TAIL}"))
    assert isinstance(file, PipelineFile)
    assert printed in file.text


def test_a_file_is_compiled_as_it_stands(tmp_path: Path) -> None:
    """Without what the program that runs it imports from the future."""
    text = HEAD.replace("def build(", "class Size:\n    of: 3\ndef build(") + TAIL.replace(
        "return", "assert Size.__annotations__ == {'of': 3}\n    g[x, y] = f[x, y]\n    return"
    )
    load_any(write(tmp_path, text))


def test_recursion_without_an_end_is_said_in_a_line_of_it(tmp_path: Path) -> None:
    found = said(write(tmp_path, HEAD + "    build()\n" + TAIL))
    assert found.code == "KF068"
    assert "RecursionError" in found.message
    assert found.span.source.name == str(tmp_path / "my.py")


def test_a_mistake_in_a_module_beside_it_is_said_there(tmp_path: Path) -> None:
    beside = "from spacedsl import pipeline as pl\nTOO_MUCH = pl.Param('p', pl.u8, 256)\n"
    (tmp_path / "beside_it.py").write_text(beside)
    found = said(write(tmp_path, "import beside_it\ndef build(): pass\n"))
    assert found.code == "KF065"
    assert (Path(found.span.source.name).name, found.span.line) == ("beside_it.py", 2)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("def build(width, height=3):", "the argument `width` of `build` cannot be given as a size"),
        ("def build(width=3, /):", "the argument `width` of `build` cannot be given as a size"),
        ("def biuld():", "no function is called `build` in my.py"),
        ("from textwrap import dedent as build", "no function is called `build` in my.py"),
        ("async def build():", "`build` returns a coroutine, not a Pipeline"),
    ],
)
def test_what_cannot_be_called_is_no_pipeline(header: str, words: str, tmp_path: Path) -> None:
    body = " pass" if header.endswith(":") else ""
    found = said(write(tmp_path, f"{header}{body}\n"))
    assert (found.code, found.span.line) == ("KF069", 1)
    assert found.message == words


@pytest.mark.parametrize("name", ["max", "_n"])
def test_what_cannot_be_a_name_is_no_size(name: str, tmp_path: Path) -> None:
    found = said(write(tmp_path, f"def build({name}=3): pass\n"))
    assert (found.code, found.span.text) == ("KF010", f"def build({name}=3): pass")


def test_a_file_without_a_function_names_one(tmp_path: Path) -> None:
    write(tmp_path, HEAD + TAIL)
    found = said(tmp_path / "my.py")
    assert found.code == "KF069"
    assert found.hint == f"`{tmp_path}/my.py:build`, for example"


GOOD = HEAD + "    g[x, y] = f[x, y]\n" + TAIL


def test_arguments_with_whole_numbers_are_sizes(tmp_path: Path) -> None:
    header = "def build(width=64, height=48, *, factor=0.5, margin=0, is_wide=True, kind='a', **others):"
    path = write(tmp_path, GOOD.replace("def build(width=64, height=48):", header))
    file = load_any(path, {"width": 7})
    assert isinstance(file, PipelineFile)
    assert file.sizes == {"width": 7, "height": 48}
    assert [e.size for e in file.algorithm.outputs["g"]] == [7, 48]
    with pytest.raises(SizeOverrideError, match="`build` has no size `factor`"):
        load_any(path, {"factor": 7})


def test_sizes_that_have_become_numbers_cannot_be_replaced(tmp_path: Path) -> None:
    """A kernel file that Python has written says which sizes it was for."""
    file = load_any(write(tmp_path, GOOD), {"width": 7})
    (tmp_path / "written.yaml").write_text(file.text)
    again = load_any(tmp_path / "written.yaml", {"width": 7})
    assert again.sizes == {"width": 7, "height": 48}
    with pytest.raises(SizeOverrideError, match="nothing in `k` depends on the size `width`"):
        load_any(tmp_path / "written.yaml", {"width": 8})


def test_what_is_decided_and_the_space_are_those_of_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "mine.space").write_text('include "pipeline.space"\n')
    decided = """pl.Pipeline("k", g.output(width, height), space="mine.space", cache="cold", tolerance=1e-5,
        decisions=[pl.Decision("site", ("f",), ("INLINE",)), pl.Decision("tile", ("g.x.REG",), (8, 16))])"""
    file = load_any(write(tmp_path, GOOD.replace(TAIL.strip().removeprefix("return "), decided)))
    assert isinstance(file, PipelineFile)
    assert (file.cache, file.space, file.tolerance) == ("cold", tmp_path / "mine.space", 1e-5)
    assert file.decisions == (
        pl.Decision("site", ("f",), ("INLINE",)), pl.Decision("tile", ("g.x.REG",), (8, 16))
    )  # fmt: skip


def test_what_it_prints_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GOOD.replace("    f[x, y]", "    print('f')\n    f[x, y]", 1)
    load_any(write(tmp_path, f"print('loading')\n{text}"))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "loading\nf\n")


def test_a_file_is_read_again_once_it_has_changed(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    load_any(path)
    assert said(write(tmp_path, GOOD.replace("g[x, y] =", "g[0, y] ="))).span.text == "g[0, y]"
    assert load_any(write(tmp_path, GOOD)).sizes == {"width": 64, "height": 48}

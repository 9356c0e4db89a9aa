"""`FILE.py:FUNCTION` in the place of a kernel file: it does the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.running import run

LIBRARY = Path(__file__).parents[2] / "kernels" / "library" / "pipelines"
BLUR = LIBRARY / "python" / "blur.py"
SMALL = ("--size", "width=64", "--size", "height=33")


def test_a_solution_is_that_of_the_kernel_file() -> None:
    written, built = run("solve", LIBRARY / "blur.yaml", *SMALL), run("solve", f"{BLUR}:build", *SMALL)
    assert (built.code, built.out) == (0, written.out)
    assert "for y in" in built.out


def test_what_is_explained_is_that_of_the_kernel_file() -> None:
    asked = ("site(blur_x) is ROOT", *SMALL)
    written, built = run("explain", LIBRARY / "blur.yaml", *asked), run("explain", f"{BLUR}:build", *asked)
    assert (built.code, built.out, built.err) == (written.code, written.out, written.err)


def test_what_it_prints_does_not_go_among_results(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text("print('hello')\n" + BLUR.read_text())
    ran = run("check", f"{tmp_path / 'noisy.py'}:build", "--json")
    assert (ran.code, ran.err) == (0, "hello\n")
    assert json.loads(ran.out) == {"schema": 1, "ok": True, "diagnostics": []}


@pytest.mark.parametrize("command", ["check", "solve", "stats", "explain", "explore"])
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("nope.py:build", 2, "nope.py: there is no such file"),
        ("mine.py:biuld", 1, "no function is called `biuld` in mine.py"),
        ("mine.py", 1, "which function builds the pipeline?"),
        ("mine.py:build", 1, "mine.py:2:12: error KF068: NameError: name 'image' is not defined"),
    ],
)
def test_what_cannot_be_built_is_said_by_every_command(
    command: str, name: str, code: int, words: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("def build():\n    return image[0]\n")
    ran = run(command, tmp_path / name)
    assert ran.code == code
    assert words in ran.out + ran.err
    assert "Traceback" not in ran.err


def test_a_file_has_the_modules_beside_it_and_no_others(tmp_path: Path) -> None:
    """Neither those of another file, nor those of before."""
    text = BLUR.read_text().replace("from spacedsl", "import beside\nfrom spacedsl", 1)
    assert "import beside" in text
    for name in ("right", "wrong"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.py").write_text(text)
        (tmp_path / name / "beside.py").write_text("raise ValueError('mine')\n" if name == "wrong" else "")
    ran = run("check", f"{tmp_path}/right/k.py:build", f"{tmp_path}/wrong/k.py:build")
    assert ran.code == 1
    assert ran.out.count("error KF068: ValueError: mine") == 1
    (tmp_path / "wrong" / "beside.py").write_text("")
    assert run("check", f"{tmp_path}/wrong/k.py:build").code == 0
    (tmp_path / "right" / "beside.py").write_text("raise ValueError('new')\n")
    assert run("check", f"{tmp_path}/right/k.py:build").code == 1
    assert "beside" not in sys.modules


def test_a_run_goes_on_without_python(machine: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(BLUR.read_text())
    ran = run("explore", f"{mine}:build", *SMALL, "-n", 1, "--runs", tmp_path / "runs", "--json")
    assert ran.code == 0, ran.err
    folder = Path(json.loads(ran.out)["run"])
    mine.unlink()
    ran = run("resume", folder, "-n", 1, "--json")
    assert ran.code == 0, ran.err
    recorded = json.loads((folder / "best.json").read_text())["kernel"]
    assert recorded["sizes"] == {"width": 64, "height": 33}
    assert "blur_y: {x: 64, y: 33}" in recorded["text"]


def test_a_size_that_the_function_lacks_is_a_usage_error() -> None:
    ran = run("solve", f"{BLUR}:build", "--size", "widht=3")
    assert (ran.code, ran.out) == (2, "")
    assert "`build` has no size `widht`; did you mean `width`?" in ran.err

"""`solve`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacedsl.compiler.c import build as building
from tests.cli.running import run
from tests.engine.native import has_compiler

LIBRARY = Path(__file__).parents[2] / "kernels" / "library"
REGISTERS = LIBRARY / "plain" / "registers.yaml"
COLOURING = LIBRARY / "plain" / "colouring.yaml"


def test_one_solution_is_printed_by_the_names_of_its_decisions() -> None:
    ran = run("solve", REGISTERS)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "solution 1"
    assert "  home(z) = MEMORY" in lines
    assert "  spilled() = 1 (counter)" in lines
    assert ran.err == "1 solution\n"


def test_all_colourings_of_a_map_are_found() -> None:
    """A wheel: Austria takes one of the colours; around it lie seven in a cycle, 2**7 - 2 ways for each, and
    Poland has three neighbours in a path."""
    ran = run("solve", COLOURING, "--all", "--json")
    document = json.loads(ran.out)
    assert ran.code == 0
    assert document["complete"] is True
    colourings = [{d["objects"][0]: d["values"][0] for d in s["decisions"]} for s in document["solutions"]]
    rim = 2**7 - 2
    assert len({(c["austria"], *(v for k, v in c.items() if k != "poland")) for c in colourings}) == 4 * rim
    for c in colourings:
        assert c["poland"] not in (c["czechia"], c["germany"], c["slovakia"])


def test_quantities_follow_the_counters_of_a_solution(tmp_path: Path) -> None:
    (tmp_path / "boil.space").write_text(
        """
set Tasks: iterator = "$kernel.tasks" end
set Before($task in Tasks) subsetof Tasks: iterator = "$task.after" end
choice integer cooks($task in Tasks): "range(1, 4)" end
choice ordered enum heat($task in Tasks): LOW < MIDDLE < HIGH end
quantity done($task in Tasks) =
  max(0, max $b in Before($task): (done($b))) + ceil("$task.minutes", cooks($task))
quantity hottest() = max $task in Tasks: (heat($task))
require forall $task in Tasks: cooks($task) == 2
require forall $task in Tasks: heat($task) is MIDDLE
"""
    )
    kernel = tmp_path / "boil.yaml"
    kernel.write_text(
        "kernel: boil\nbackbone: plain\nspace: boil.space\nobjects:\n  tasks:\n"
        "    - {name: peel, minutes: 5, after: []}\n    - {name: cook, minutes: 20, after: [peel]}\n"
    )
    ran = run("solve", kernel)
    assert ran.out.splitlines()[-3:] == [
        "  done(peel) = 3 (quantity)",
        "  done(cook) = 13 (quantity)",
        "  hottest() = MIDDLE (quantity)",
    ], ran.err
    (solution,) = json.loads(run("solve", kernel, "--all", "--json").out)["solutions"]
    assert solution["quantities"][1] == {"quantity": "done", "objects": ["cook"], "value": 13}


def test_so_many_solutions_are_found_as_are_asked_for_and_they_differ() -> None:
    document = json.loads(run("solve", COLOURING, "--limit", 7, "--seed", 3, "--json").out)
    assert document["complete"] is False
    assert len({json.dumps(s) for s in document["solutions"]}) == len(document["solutions"]) == 7


def test_without_a_compiler_the_reference_finds_the_same_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pots.space").write_text(
        'set Pots: iterator = "$kernel.pots" end\n'
        "choice enum warmth($p in Pots): value COLD: value WARM: value HOT: end\n"
        "require forall $p in Pots: forall $q in Pots: warmth($p) != warmth($q)\n"
    )
    kernel = tmp_path / "pots.yaml"
    kernel.write_text("kernel: pots\nbackbone: plain\nspace: pots.space\nobjects: {pots: [a, b, c]}\n")
    with monkeypatch.context() as patched:
        patched.setenv("CC", str(tmp_path / "no-compiler"))
        building.find_compiler.cache_clear()
        reference = run("solve", kernel, "--limit", 4, "--seed", 5)
    building.find_compiler.cache_clear()
    assert reference.code == 0
    assert "the reference engine propagates, which is slower: " in reference.err
    assert "no-compiler" in reference.err
    native = run("solve", kernel, "--limit", 4, "--seed", 5)
    assert native.out == reference.out
    assert has_compiler() == ("the reference engine" not in native.err)


def test_an_empty_space_is_said_to_be_empty_and_what_explains_it() -> None:
    ran = run("solve", REGISTERS, "--size", "most_spilled=0")
    assert ran.code == 3
    assert "the constraints leave no solution of `registers`" in ran.err
    assert f"`spacedsl explain {REGISTERS} --size most_spilled=0`" in ran.err
    assert json.loads(run("solve", REGISTERS, "--size", "most_spilled=0", "--json").out)["solutions"] == []


def test_a_space_that_propagation_leaves_open_may_be_empty_too() -> None:
    ran = run("solve", COLOURING, "--size", "most_colours=3")
    assert ran.code == 3
    assert "no solution of `colouring`" in ran.err


def test_a_kernel_of_linear_algebra_has_solutions_without_a_machine(tmp_path: Path) -> None:
    ran = run("solve", LIBRARY / "matmul_small.yaml", "--seed", 1)
    assert ran.code == 0
    assert "  order(load_A, fma) = BEFORE" in ran.out.splitlines()


def test_of_a_pipeline_its_loops_are_shown(tmp_path: Path) -> None:
    kernel = tmp_path / "blur.yaml"
    text = (LIBRARY / "pipelines" / "blur.yaml").read_text(encoding="utf-8")
    decided = "decisions:\n  - {choice: site, objects: [blur_x], values: [TASK]}\n"
    kernel.write_text(text + decided + "  - {choice: tile, objects: [blur_y.y.TASK], values: [8]}\n")
    ran = run("solve", kernel, "--size", "width=64", "--size", "height=16")
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[:3] == ["solution 1", "  blur_y: 64 x, 16 y", "    for y in 2 of 8 (TASK)"]
    assert "  site(blur_x) = TASK" in lines
    assert any(line.strip().startswith("blur_x: ") and line.endswith("10 y") for line in lines)
    (solution,) = json.loads(run("solve", kernel, "--size", "height=16", "--json").out)["solutions"]
    assert solution["loops"][0] == "blur_y: 6400 x, 16 y"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--size", "spilled=3"), 2, "no integer parameter `spilled`"),
        (("--time", "soon"), 2, "is not a length of time"),
        (("--ordering", "sideways"), 2, "neither an ordering nor a choice"),
        (("--space", "missing.space"), 2, "there is no such file"),
    ],
)
def test_wrong_flags_are_said(arguments: tuple[str, ...], code: int, words: str) -> None:
    ran = run("solve", REGISTERS, *arguments)
    assert ran.code == code
    assert words in ran.err


def test_check_and_explore_know_plain_kernels() -> None:
    assert run("check", REGISTERS).code == 0
    ran = run("explore", REGISTERS)
    assert ran.code == 1
    assert "error KF045: there is no code to generate" in ran.err

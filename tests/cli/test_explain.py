"""`explain`: what it says, word for word, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from spacedsl.api.explaining import Answer, Left
from spacedsl.cli.explain import text
from spacedsl.compiler.ir import SATURATED
from spacedsl.engine.quantities.nodes import INFINITE
from tests.cli.running import Ran, run

ROOT = Path(__file__).parents[2]
PLAIN = Path("kernels/library/plain")
REGISTERS = PLAIN / "registers.yaml"
COLOURING = PLAIN / "colouring.yaml"
MATMUL = Path("kernels/library/matmul_small.yaml")
TOURS = Path("tests/cli/quantities/tours.yaml")


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are shown relative to the working folder."""
    monkeypatch.chdir(ROOT)


def said(ran: Ran) -> str:
    return f"{ran.out}{ran.err}exit code {ran.code}\n"


SLOWLY = ("--decide", "pace(lake) = SLOW", "--decide", "hours(summit) >= 6")
CASES: dict[str, tuple[object, ...]] = {
    "tours_quantity": (TOURS, "total() <= 300", *SLOWLY),
    "tours_quantity_excluded": (TOURS, "total() >= 300", *SLOWLY),
    "tours_quantity_of_quantities": (TOURS, "ready(forest) >= 10", *SLOWLY),
    "tours_ordered_quantity": (TOURS, "slowest() >= EVEN", "--decide", "pace(lake) = SLOW"),
    "tours_quantity_at_once": (TOURS, "total() <= 480"),
    "tours_quantity_of_one_value": (TOURS, "total() = 300", *SLOWLY),
    "tours_quantity_is_one_value": (
        *(TOURS, "ready(lake) = 5", "--decide", "hours(summit) = 1", "--decide", "hours(lake) = 4"),
    ),
    "tours_possible_value": (TOURS, "total() = 200", *SLOWLY),
    "tours_possible_quantity": (TOURS, "ready(forest) <= 12", *SLOWLY),
    "tours_possible_ordered_quantity": (TOURS, "slowest() <= EVEN"),
    "registers_counter_excluded": (REGISTERS, "spilled() > 1"),
    "registers_counter_is_one_value": (REGISTERS, "spilled() = 1", "--decide", "home(x) = MEMORY"),
    "registers_counter_whatever_is_decided": (REGISTERS, "spilled() >= 0"),
    "registers_excluded": (REGISTERS, "home(x) is MEMORY", "--decide", "home(y) = MEMORY"),
    "registers_empty": (REGISTERS, "--size", "most_spilled=0"),
    "registers_solvable": (REGISTERS,),
    "registers_after_decisions": (REGISTERS, "--decide", "home(x) = MEMORY", "--decide", "home(y) = MEMORY"),
    "registers_value": (REGISTERS, "home(x) is REGISTER", "--decide", "home(y) = MEMORY"),
    "registers_counter": (REGISTERS, "spilled() <= 1"),
    "registers_possible": (REGISTERS, "home(x) is not MEMORY"),
    "registers_possible_counter": (REGISTERS, "registers_of(x) >= 1"),
    "matmul_root": (MATMUL, "order(load_A, store_C.i0) is not AFTER"),
    "matmul_fused": (
        *(MATMUL, "order(fma, load_A.i0) is INNER"),
        *("--decide", "size(fma.j0) = 2", "--decide", "order(load_A.i0, fma.i0) = MERGED"),
    ),
    "matmul_size": (
        *(MATMUL, "size(fma.i1) <= 2", "--decide", "dim_kind(fma.j1) = UNROLL"),
        *("--decide", "size(fma.j1) = 2", "--decide", "dim_kind(fma.i1) = UNROLL"),
    ),
    "matmul_of_what_may_be_there": (MATMUL, "order(fma, reload_A) is AFTER"),
    "matmul_of_what_is_not_there": (
        *(MATMUL, "order(fma, reload_A) is AFTER", "--decide", "storage(load_A) = REGISTERS"),
    ),
    "matmul_contradiction_before_the_question": (
        *(MATMUL, "size(fma.i1) <= 2", "--decide", "dim_kind(fma.i1) = UNROLL"),
        *("--decide", "size(fma.i2) = 16"),
    ),
    "matmul_contradiction": (
        *(MATMUL, "--decide", "dim_kind(fma.j0) = VECTOR"),
        *("--decide", "order(load_A, load_B) = BEFORE"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_the_golden_file(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"explain_{name}.txt", said(run("explain", *CASES[name])))


@pytest.mark.parametrize(
    ("ends", "shown"),
    [((0, SATURATED), "0 to infinity"), ((-INFINITE, 3), "-infinity to 3"), ((5, INFINITE), "5 to infinity")],
)
def test_ends_that_nobody_knows_are_infinite(ends: tuple[int, int], shown: str) -> None:
    left = Left("total()", ends, is_interval=True)
    assert f"total() is still from {shown}" in text(Answer("total() = 4", holds=False, left=left))


def test_what_propagation_does_not_see_is_found_by_search_and_proof() -> None:
    ran = run("explain", COLOURING, "--size", "most_colours=3", "--json")
    assert ran.code == 3
    document = json.loads(ran.out)
    assert document["chain"] is None
    limit, different = document["conflict"]["lines"]
    assert "most_colours >= 4" in limit["text"]
    assert different["text"] == "colour($country) != colour($neighbour)"
    # Austria and the seven countries in a cycle around it, an odd wheel; Poland has nothing to do with it.
    assert {b["country"] for b in limit["bindings"]} == {
        *("austria", "czechia", "germany", "hungary"),
        *("italy", "slovakia", "slovenia", "switzerland"),
    }
    assert len({frozenset(b.values()) for b in different["bindings"]}) == 7 + 7


def test_decisions_of_the_kernel_file_and_of_a_record_count_as_made(tmp_path: Path) -> None:
    for file in ("registers.space", "registers.yaml"):
        (tmp_path / file).write_text((ROOT / PLAIN / file).read_text(encoding="utf-8"), encoding="utf-8")
    kernel = tmp_path / "registers.yaml"
    fixed = "decisions: [{choice: home, objects: [y], values: [MEMORY]}]\n"
    kernel.write_text(kernel.read_text(encoding="utf-8") + fixed, encoding="utf-8")
    ran = run("explain", kernel, "home(x) is REGISTER")
    assert ran.code == 0
    assert "decision: home(y) = MEMORY" in ran.out
    assert run("solve", kernel).code == 3, "what must be spilled is z"
    assert "decision: home(y) = MEMORY" in run("explain", kernel).out

    record = json.loads(
        (ROOT / "docs" / "kernel-diagnostics.md")
        .read_text(encoding="utf-8")
        .split("```json right\n")[1]
        .split("```")[0]
    )
    record["decisions"] = [{"choice": "home", "objects": ["z"], "values": ["MEMORY"]}]
    (tmp_path / "best.json").write_text(json.dumps(record), encoding="utf-8")
    ran = run("explain", REGISTERS, "home(x) is REGISTER", "--decisions", tmp_path / "best.json")
    assert ran.code == 0
    assert "decision: home(z) = MEMORY" in ran.out


def test_the_hundredth_line_is_shown_by_its_number(tmp_path: Path) -> None:
    lines = (PLAIN / "registers.space").read_text(encoding="utf-8").splitlines()
    above = 99 - lines.index('require spilled() <= "$kernel.most_spilled"')
    space = tmp_path / "registers.space"
    space.write_text("\n".join(["// ..", *[""] * (above - 1), *lines, ""]), encoding="utf-8")
    ran = run("explain", REGISTERS, "spilled() <= 1", "--space", space)
    assert "registers.space:100: require spilled()" in ran.out


def test_the_document_holds_the_chain() -> None:
    ran = run("explain", REGISTERS, "home(x) is REGISTER", "--decide", "home(y) = MEMORY", "--json")
    assert ran.code == 0
    document = json.loads(ran.out)
    assert (document["holds"], document["conflict"]) == (True, None)
    limit, decision, counter = document["chain"]["steps"]
    assert limit["lines"][0]["text"] == 'require spilled() <= "$kernel.most_spilled"'
    assert Path(limit["lines"][0]["file"]).is_absolute()
    assert decision["decision"] == {"choice": "home", "objects": ["y"], "values": ["MEMORY"]}
    assert counter["reasons"] == [0, 1]
    assert counter["changes"] == [
        {"what": "home(x)", "before": ["REGISTER", "MEMORY"], "after": ["REGISTER"]}
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("home(x) REGISTER",), "is not of the form"),
        (("homes(x) is REGISTER",), "no choice is called `homes`; did you mean `home`?"),
        (("place(x) is REGISTER",), "no choice is called `place`; known here: `home`, `lives_in`,"),
        (("home(w) is REGISTER",), "no object is called `w`"),
        (("home(x, y) is REGISTER",), "there is no home(x, y): it is home($value in Values)"),
        (("home(x) is REGISTERS",), "no value of home is called `REGISTERS`; did you mean `REGISTER`?"),
        (("lives_in(x, x) is YES",), "there is no lives_in(x, x): its objects are different ones"),
        (("home(x) is register",), "no value of home is called `register`; did you mean `REGISTER`?"),
        (("home(x) <= REGISTER",), "the values of home have no order"),
        (("home(x) <= REGISTERS",), "no value of home is called `REGISTERS`"),
        (("spilled() = 1 | 2",), "of a counter, say that it is =, !=, <=, <, >= or > one number"),
        (("--decide", "spilled() <= 1"), "spilled is a counter, which follows from decisions"),
        (("--decisions", "missing.json"), "there is no such file"),
        (("--size", "spilled=3"), "no integer parameter `spilled`"),
        (("--size", "most_spilled=1_"), "is not of the form NAME=NUMBER"),
        (("spilled() = 1_",), "1_ is no integer"),
        (("--space", f"{'x' * 300}.yaml"), "File name too long"),
        (("--device", "x" * 300), "File name too long"),
    ],
)
def test_wrong_questions_are_refused_in_words(arguments: tuple[str, ...], words: str) -> None:
    ran = run("explain", REGISTERS, *arguments)
    assert ran.code == 2
    assert words in ran.err


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("slowest() = EVEN | SLOW", "of a quantity, say that it is =, !=, <=, <, >= or > one value"),
        ("total() = 1 | 2", "of a quantity, say that it is =, !=, <=, <, >= or > one number"),
        ("hours(lake) is 9", "9 is none of 1, 2, 3, 4, 5, 6, 7, 8"),
        ("slowest() > EVE", "no value of slowest is called `EVE`; did you mean `EVEN`?"),
        ("totla() > 3", "no choice is called `totla`; did you mean `total`?"),
        ("ready() > 3", "there is no ready(): it is ready($w in Walks)"),
        ("ready(wood) > 3", "no object is called `wood`"),
    ],
)
def test_wrong_questions_about_quantities_are_refused_in_words(question: str, words: str) -> None:
    ran = run("explain", TOURS, question)
    assert ran.code == 2
    assert words in ran.err


def test_the_last_part_of_several_names_is_answered_with_them() -> None:
    ran = run("explain", MATMUL, "size(i0) = 4")
    assert ran.code == 2
    named = "no object is called `i0` alone; there are `load_A.i0`, `init.i0`, `fma.i0`, `store_C.i0`"
    assert named in ran.err
    assert "did you mean `load_A.i1`?" in run("explain", MATMUL, "size(loadA.i1) = 4").err


def test_hints_name_objects_that_the_choice_is_about() -> None:
    """`fma.p` is an object, but sizes are those of its levels."""
    ran = run("explain", MATMUL, "size(fma.p9) = 4")
    assert (ran.code, ran.err) == (2, "error: no object is called `fma.p9`; did you mean `fma.p1`?\n")
    ran = run("explain", MATMUL, "size(fma.p) = 4")
    said = "error: there is no size(fma.p): it is size($dim in Dimensions); did you mean `fma.p1`?\n"
    assert (ran.code, ran.err) == (2, said)
    ran = run("explain", MATMUL, "size(p0) = 4", "--decide", "size(fma.p0) = 4")
    assert "no object is called `p0` alone; there are `load_A.p0`, `load_B.p0`, `fma.p0`" in ran.err


def test_all_questions_may_be_about_a_gpu(tmp_path: Path) -> None:
    """`fma.i3` is a level that only a GPU has."""
    question = "dim_kind(fma.i3) is THREAD"
    kernel = tmp_path / "own.yaml"
    small = MATMUL.read_text(encoding="utf-8")
    kernel.write_text(f"{small}search: {{device: h100}}\n", encoding="utf-8")
    assert "no object is called `fma.i3`" in run("explain", kernel, question).err
    assert "no object is called `fma.i3`" in run("explain", kernel, question, "--target", "cpu").err
    named = "dim_kind(fma.i3) is still"
    assert named in run("explain", kernel, question, "--target", "cuda").out
    assert named in run("explain", MATMUL, question, "--device", "h100").out
    assert named in run("explain", MATMUL, question, "--target", "cuda", "--device", "h100").out
    bound = run("explain", kernel, "--bound", "--target", "cuda").out
    assert "H100" in bound and bound == run("explain", MATMUL, "--bound", "--device", "h100").out
    kernel.write_text(f"{small}search: {{target: cuda, device: h100}}\n", encoding="utf-8")
    assert named in run("explain", kernel, question).out
    assert "fma.i3" in run("solve", kernel).out


@pytest.mark.parametrize("command", [("explain",), ("explain", "--bound"), ("solve",), ("stats",)])
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--target", "cuda"), "for which GPU? name one with --device: "),
        (("--target", "gpu"), "no target is called `gpu`"),
        (("--target", "cpu", "--device", "h100"), "H100 SXM5 80 GB is no machine of the target `cpu`"),
        (("--device", "h1000"), "no GPU is called `h1000`; did you mean `h100`?"),
        (("--device", "apple"), "no GPU is called `apple`; there are a100, h100, "),
        (("--device", "h1000.yaml"), "h1000.yaml: there is no such file"),
    ],
)
def test_a_machine_that_there_is_not_is_refused_in_words(
    command: tuple[str, ...], flags: tuple[str, ...], words: str
) -> None:
    name, *others = command
    ran = run(name, MATMUL, *others, *flags)
    assert ran.code == 2
    assert words in " ".join(ran.err.replace("│", "").split())


def test_many_values_are_told_by_their_ends(tmp_path: Path) -> None:
    (tmp_path / "shop.space").write_text(
        'set Tasks: iterator = "$kernel.tasks" end\n'
        'choice integer start($t in Tasks): "range(200)" end\n'
        'choice integer pace($t in Tasks): "range(1, 200, 3)" end\n'
        "require forall $t in Tasks: start($t) >= 7\n"
        "require forall $t in Tasks: pace($t) >= 14\n"
    )
    kernel = tmp_path / "shop.yaml"
    kernel.write_text("kernel: shop\nbackbone: plain\nspace: shop.space\nobjects: {tasks: [cut]}\n")
    ran = run("explain", kernel, "start(cut) = 5")
    assert "start(cut) is not 0 to 6, which leaves 7 to 199" in ran.out
    ran = run("explain", kernel, "pace(cut) = 1 | 4")
    assert "is not 1 | 4 | 7 | 10 | 13, which leaves one of 62 values from 16 to 199" in ran.out
    ran = run("explain", kernel, "pace(cut) = 2")
    assert "2 is none of the 67 values, 1 to 199" in ran.err


THINGS = """\
set Things: iterator = "$kernel.things" end
map host($x in Things) in Things = "$x.near[0] if $x.near else None"
"""


def of_a_chain(folder: Path, rules: str, length: int, *, is_up: bool = True) -> Path:
    """A kernel file of things, each of which is near the one before it (or, not `is_up`, behind it)."""
    (folder / "chain.space").write_text(THINGS + rules, encoding="utf-8")
    near = {n: n - 1 if is_up else n + 1 for n in range(length)}
    things = [
        f"    - {{name: t{n}, near: [{f't{other}' if 0 <= other < length else ''}]}}"
        for n, other in near.items()
    ]
    lines = ["kernel: chain", "backbone: plain", "space: chain.space", "objects:", "  things:", *things, ""]
    (folder / "chain.yaml").write_text("\n".join(lines), encoding="utf-8")
    return folder / "chain.yaml"


def test_what_the_solver_cannot_read_is_said(tmp_path: Path) -> None:
    rules = """\
choice enum kind($x in Things): value A: value B: end
quantity runs() = sum $x in Things: ("$x.near" && kind(host($x)) is A ? 1 : 0)
require runs() <= 0
"""
    kernel = of_a_chain(tmp_path, rules, 2, is_up=False)
    ran = run("explain", kernel, "--decide", "kind(t1) = A")
    assert ran.code == 3, ran.err
    assert "runs()" in ran.out


def test_quantities_that_need_each_other_deeply_are_no_bug(tmp_path: Path) -> None:
    rules = """\
choice integer size($x in Things): "range(1, 5)" end
quantity depth($x in Things) = "not $x.near" ? size($x) : depth(host($x)) + 1
require forall $x in Things: depth($x) <= 301
"""
    kernel = of_a_chain(tmp_path, rules, 300)
    ran = run("explain", kernel, "--decide", "size(t0) = 4")
    assert ran.code == 3, ran.err
    assert "too deeply for the solver" in ran.out


def test_a_decision_alone_may_leave_no_branch(tmp_path: Path) -> None:
    rules = """\
choice ordered enum site($x in Things): ROOT < TASK < LANE end
quantity depth($x in Things) = case site($x) { ROOT: 0, TASK: 5, else: 1 + depth(host($x)) }
require forall $x in Things: "$x.near" || site($x) is ROOT | TASK
"""
    kernel = of_a_chain(tmp_path, rules, 3)
    ran = run("explain", kernel, "depth(t0) <= 3", "--decide", "site(t0) = LANE")
    assert ran.code == 3, ran.err


def test_a_limit_beyond_all_numbers_is_a_limit(tmp_path: Path) -> None:
    ran = run("explain", TOURS, "total() <= 99999999999999999999")
    assert ran.code == 0, ran.err


def test_no_quantity_is_decided() -> None:
    ran = run("explain", TOURS, "--decide", "total() <= 40")
    assert ran.code == 2
    assert "total is a quantity, which follows from decisions" in ran.err


def test_beside_triggers_a_conflict_has_its_lines_and_its_chain(tmp_path: Path) -> None:
    (tmp_path / "shop.space").write_text(
        'set Tasks: iterator = "$kernel.tasks" end\n'
        "choice enum done($t in Tasks): value EARLY: value LATE: end\n"
        "trigger forall $t in Tasks: \"$kernel.add('Tasks', $t.checks)\" when done($t) is LATE\n"
        "require forall $t in Tasks: done($t) is EARLY\n"
        "require forall $t in Tasks: done($t) is LATE\n"
    )
    (tmp_path / "shop.yaml").write_text(
        "kernel: shop\nbackbone: plain\nspace: shop.space\n"
        "objects: {tasks: [{name: cut, checks: [look]}], checks: [{name: look, checks: []}]}\n"
    )
    ran = run("explain", tmp_path / "shop.yaml")
    assert ran.code == 3
    assert "shop.space:4: require" in ran.out and "shop.space:5: require" in ran.out
    assert "nothing is left" in ran.out


def test_values_of_an_ordered_enum_are_compared(tmp_path: Path) -> None:
    (tmp_path / "pots.space").write_text(
        'set Pots: iterator = "$kernel.pots" end\n'
        "choice ordered enum heat($p in Pots): COLD < WARM < HOT end\n"
        "require forall $p in Pots: forall $q in Pots: heat($p) != heat($q)\n"
    )
    (tmp_path / "pots.yaml").write_text(
        "kernel: pots\nbackbone: plain\nspace: pots.space\nobjects: {pots: [a, b]}\n"
    )
    ran = run("explain", tmp_path / "pots.yaml", "heat(a) > COLD", "--decide", "heat(b) < WARM")
    assert ran.code == 0
    assert "heat(a) is not COLD, which leaves WARM | HOT" in ran.out
    ran = run("explain", tmp_path / "pots.yaml", "heat(a) >= COLD | WARM")
    assert ran.code == 2
    assert "one value is compared with" in ran.err


def test_counters_that_are_compared_in_a_circle_have_its_lines_in_order(tmp_path: Path) -> None:
    (tmp_path / "pots.space").write_text(
        'set Pots: iterator = "$kernel.pots" end\n'
        "choice enum heat($p in Pots): value COLD: value HOT: end\n"
        "choice enum lid($p in Pots): value ON: value OFF: end\n"
        "choice counter hot(): forall $p in Pots: sum 1 when: heat($p) is HOT end\n"
        "choice counter cold(): forall $p in Pots: sum 1 when: heat($p) is COLD end\n"
        "choice counter kept($p in Pots): forall $q in Pots: sum 1 when: lid($q) is ON end\n"
        "require forall $p in Pots: kept($p) <= hot() + 2\n"
        "require forall $p in Pots where \"$p.name == 'b'\": cold() <= kept($p)\n"
        "require hot() + 3 <= cold()\n"
    )
    (tmp_path / "pots.yaml").write_text(
        "kernel: pots\nbackbone: plain\nspace: pots.space\nobjects: {pots: [a, b, c, d, e]}\n"
    )
    for question in ((), ("heat(a) is HOT",)):
        ran = run("explain", tmp_path / "pots.yaml", *question)
        assert ran.code == 3
        conflict, chain = ran.out.split("how propagation finds it\n")
        for line in (7, 8, 9):
            assert f"pots.space:{line}: require" in conflict
        steps = [text.strip("├└│─ ") for text in chain.splitlines()]
        assert [text for text in steps if "space:" not in text] == [
            "cold() is at least hot() + 3",
            "$p = b",
            "kept(b) is at least hot() + 3",
            "$p = b",
            "hot() is at least hot() + 1",
            "nothing is left",
        ]
        places = [text.split(": require")[0] for text in steps if "space:" in text]
        assert [place.split(f"{tmp_path}/") for place in places] == [
            ["1. ", "pots.space:9"],
            ["2. from 1: ", "pots.space:8"],
            ["3. from 2: ", "pots.space:7"],
        ]

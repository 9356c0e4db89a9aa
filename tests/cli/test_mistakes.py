"""Whatever a user gets wrong is said in words on stderr, with the documented exit code and no traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.running import Ran, run
from tests.rules import rules_of

MATMUL = Path(__file__).parents[2] / "kernels" / "library" / "matmul.yaml"


def refused(ran: Ran, code: int, *said: str) -> None:
    assert ran.code == code, ran
    assert not ran.out
    assert "Traceback" not in ran.err
    for words in said:
        assert words in ran.err, ran.err


@pytest.mark.parametrize("command", ["check", "explore", "replay", "emit", "compile"])
def test_a_missing_file_is_a_usage_error(command: str, tmp_path: Path) -> None:
    refused(run(command, tmp_path / "nope.yaml"), 2, "nope.yaml: there is no such file")


def test_the_package_runs_as_a_module() -> None:
    called = [sys.executable, "-m", "spacedsl", "check", str(MATMUL.with_name("nope.yaml"))]
    ran = subprocess.run(called, capture_output=True, text=True, check=False)
    refused(Ran(ran.returncode, ran.stdout, ran.stderr), 2, "nope.yaml: there is no such file")


@pytest.mark.parametrize("command", ["check", "explore", "replay", "compile"])
def test_a_folder_in_place_of_a_file_is_a_usage_error(command: str, tmp_path: Path) -> None:
    refused(run(command, tmp_path), 2, "this is a folder, not a file")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.space").write_text("")
    absent = tmp_path / "nope"
    refused(run("compile", tmp_path / "a.space", "-o", absent / "a.py"), 2, f"there is no folder {absent}")
    refused(run("explore", absent / "k.yaml"), 2, f"k.yaml: there is no folder {absent}")


def test_a_kernel_in_place_of_a_space_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(MATMUL, tmp_path)
    monkeypatch.chdir(tmp_path)
    said = "matmul.yaml: not a .space file"
    refused(run("compile", "matmul.yaml"), 2, f"Invalid value for 'FILE.space': {said}")
    refused(run("solve", MATMUL, "--space", "matmul.yaml"), 2, f"Invalid value for '--space': {said}")


@pytest.mark.parametrize("command", [("explore",), ("explain", "--bound")])
def test_a_mistake_is_said_before_this_machine_is_measured(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    name, *flags = command
    ran = run(name, MATMUL, *flags, "--space", tmp_path / "nope.space")
    refused(ran, 2, "nope.space: there is no such file")
    assert "measuring" not in ran.err
    assert not list(tmp_path.iterdir())


def test_check_says_what_it_cannot_check(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    for path in (Path("/dev/null"), tmp_path / "text"):
        refused(run("check", path), 2, f"{path}: neither a .space file nor a kernel file")
    refused(run("check", tmp_path), 2, f"{tmp_path}: this is a folder")


def test_a_folder_for_runs_that_cannot_be_made_is_said_before_anything_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, said in (
        (Path("/proc/foo"), "/proc/foo: no folder can be made there"),
        (tmp_path / "file" / "runs", f"{tmp_path}/file: this is a file, not a folder"),
    ):
        ran = run("explore", MATMUL, "--runs", folder)
        refused(ran, 2, said)
        assert "compiling" not in ran.err


def test_a_tile_that_is_never_full_is_warned_of(tmp_path: Path, machine: Path) -> None:
    kernel = tmp_path / "own.yaml"
    text = MATMUL.with_name("matmul_small.yaml").read_text(encoding="utf-8")
    kernel.write_text(text + "tiling: {p: [[8, 33], [32, 64]]}\n", encoding="utf-8")
    line = text.count("\n") + 1
    ran = run("check", kernel)
    assert ran.code == 0
    assert f"{kernel}:{line}:18: warning KF037: a tile of 33 is never full: `p` has 32 values" in ran.out
    assert f"{kernel}:{line}:28: warning KF037: a tile of 64 is never full: `p` has 32 values" in ran.out
    sizes = ("--size", "m=4,n=4,k=33", "-n", 1, "--runs", tmp_path / "runs")
    ran = run("explore", kernel, *sizes)
    assert ran.code == 0
    assert ran.err.count("is never full") == 1
    assert f"{kernel}:{line}:28: a tile of 64 is never full: `p` has 33 values" in ran.err


def test_a_device_that_there_is_not_is_answered_with_what_may_be_meant(machine: Path) -> None:
    refused(run("device", "show", "h1000"), 2, "no device is called `h1000`", "did you mean `h100`?")


def test_check_shows_what_is_odd_in_a_file_that_is_right(tmp_path: Path) -> None:
    file = tmp_path / "odd.space"
    file.write_text('set Items: iterator = "$kernel.items" end\nrequire false\n')
    ran = run("check", file)
    assert ran.code == 0
    assert "odd.space:1:5: note SP101" in ran.out
    assert "odd.space:2:9: warning SP104" in ran.out
    assert "2 diagnostics" in ran.err


def test_a_space_in_place_of_a_kernel_is_a_usage_error_that_names_the_flag() -> None:
    space = MATMUL.parents[1] / "spaces" / "linalg.space"
    refused(run("explore", space), 2, "linalg.space: a space, not a kernel", "give the space with --space")


@pytest.mark.parametrize("command", ["check", "explore"])
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\x00\x01", "SP001"),
        (b"- 1\n- 2\n", "KF003"),
        (b"kernel: [", "KF0"),
        (b"", "KF0"),
        (b"kernel: m\n", "KF0"),
    ],
)
def test_what_is_no_kernel_file_is_shown_at_its_place(
    command: str, data: bytes, code: str, tmp_path: Path
) -> None:
    file = tmp_path / "k.yaml"
    file.write_bytes(data)
    ran = run(command, file)
    shown = ran.out if command == "check" else ran.err
    assert ran.code == 1
    assert f"{file}:1:" in shown
    assert f"error {code}" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--size", "m=0"], "size `m` must"),
        (["--size", "m=-3"], "size `m` must"),
        (["--size", "q=3"], "no size `q`"),
        (["--size", "m"], "NAME=NUMBER"),
        (["--time", "soon"], "not a length of time"),
        (["--time", "0"], "not a length of time"),
        (["--evaluations", "0"], "greater than or"),
        (["--seed", "-1"], "greater than or"),
        (["--policy", "best"], "known here: `near`, `tag`, `bound`, `uniform`"),
        (["--policy", "bond"], "did you mean `bound`?"),
        (["--policy", ""], "known here: `near`, `tag`, `bound`, `uniform`"),
        (["--target", "opencl"], "known here: `cpu`, `cuda`"),
        (["--config", "nope.toml"], "nope.toml: there is no such file"),
        (["--bogus"], "No such option"),
        (["-v", "-q"], "exclude each other"),
    ],
)
def test_a_wrong_flag_is_a_usage_error(flags: list[str], said: str) -> None:
    refused(run("explore", MATMUL, *flags), 2, said)


def test_a_folder_that_holds_no_run_is_a_usage_error(tmp_path: Path) -> None:
    refused(run("resume", tmp_path), 2, "holds no run")
    refused(run("resume", tmp_path / "nope"), 2, "holds no run")


def test_a_run_in_place_of_a_record_and_the_other_way_round_hint_at_the_other_command(
    explored: Run, tmp_path: Path
) -> None:
    run_folder, record = explored.folder, explored.best
    for command in ("replay", "emit"):
        ran = run(command, run_folder)
        refused(ran, 2, f"{run_folder} is the folder of a run", f"its best is {record}; ")
        assert f"spacedsl resume {run_folder}\n" in ran.err
    refused(
        run("resume", record),
        2,
        f"{record} is a file, not the folder of a run",
        f"spacedsl replay {record}; to go on with its run: spacedsl resume {run_folder}\n",
    )
    kernel = shutil.copy(MATMUL, tmp_path)
    refused(run("resume", kernel), 2, f"spacedsl explore {kernel}\n")
    for command in ("replay", "emit"):
        refused(run(command, kernel), 2, f"{kernel} is a kernel file", f"spacedsl explore {kernel}\n")
    shutil.copy(run_folder / "run.sqlite", tmp_path)
    refused(run("replay", tmp_path), 2, "it has no best; ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ('{"decisions": ', "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "not the record of an implementation"),
        ('{"decisions": 3}', "damaged: `kernel`"),
        (f'{{"decisions": {"1" * 5000}}}', "a number has too many digits"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "emit"])
def test_a_damaged_record_is_a_diagnostic(command: str, text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "best.json"
    file.write_text(text)
    refused(run(command, file), 1, "RC001", said)


def test_check_reports_all_diagnostics_of_all_files_and_the_missing_ones_too(tmp_path: Path) -> None:
    first, second = tmp_path / "a.space", tmp_path / "b.yaml"
    first.write_text(
        'set A:\n  iterator = "$kernel.statements"\nend\nchoice enum c($x in B):\n  value V:\nend\n'
    )
    second.write_text("- 1\n")
    ran = run("check", first, tmp_path / "nope.space", second)
    assert ran.code == 2
    assert f"{first}:4:" in ran.out
    assert f"{second}:1:1" in ran.out
    assert "nope.space: there is no such file" in ran.err


def test_check_gives_its_diagnostics_as_json(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text("- 1\n")
    document = json.loads(run("check", "--json", file).out)
    (diagnostic,) = document["diagnostics"]
    assert document["schema"] == 1
    assert document["ok"] is False
    assert (diagnostic["code"], diagnostic["file"], diagnostic["line"], diagnostic["column"]) == (
        "KF003",
        str(file),
        1,
        1,
    )


def test_a_file_that_is_named_twice_is_one_file() -> None:
    assert run("check", MATMUL, MATMUL).err == "1 file checked, nothing to report\n"


def test_what_is_right_checks_without_a_word_on_stdout() -> None:
    ran = run("check", MATMUL, MATMUL.parents[1] / "spaces" / "linalg.space")
    assert (ran.code, ran.out) == (0, "")
    assert "nothing to report" in ran.err


def test_a_bug_is_reported_as_one_with_a_place_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("spacedsl.cli.language.check_one", broken)
    ran = run("check", MATMUL)
    assert ran.code == 70
    assert "this is a bug in spacedsl: ZeroDivisionError" in ran.err
    trace = Path(ran.err.split("the trace lies in ")[1].split(":")[0])
    assert "in broken" in trace.read_text()
    trace.unlink()


def test_help_imports_nothing_heavy() -> None:
    """`spacedsl --help` is to answer in less than 0.3 s."""
    assert not {"numpy", "lark", "pydantic", "ruamel", "rich"} & loaded_by("spacedsl.cli.app")
    assert "explore" in run("--help").out


def test_processes_that_run_code_load_nothing_that_makes_it() -> None:
    """Each of them takes half as long to start."""
    loaded = loaded_by("spacedsl.codegen.running.fork_server")
    assert "spacedsl.codegen.checks" in loaded
    makers = (
        "spacedsl.codegen.generation",
        "spacedsl.codegen.tree",
        "spacedsl.compiler",
        "spacedsl.engine.layout",
    )
    assert not [name for name in loaded if name.startswith((*makers, "spacedsl.language.parser"))]


def loaded_by(module: str) -> set[str]:
    """All modules that are there behind an import."""
    code = f"import sys, {module}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "value PARALLEL:",
            "value STREAM:\n  value PARALLEL:",
            "no code for the value `STREAM` of `dim_kind`",
        ),
        ("choice enum dim_kind($dim", "choice enum dim_kin($dim", "an enum choice `dim_kind` of 1 object is"),
    ],
)
def test_a_space_that_code_generation_cannot_read_is_shown_at_its_place(
    old: str, new: str, said: str, tmp_path: Path, machine: Path
) -> None:
    rules = rules_of()
    assert rules.count(old) == 1
    changed = rules.replace(old, new)
    if "dim_kin(" in changed:
        changed = changed.replace("dim_kind(", "dim_kin(").replace("  dim_kind\n", "  dim_kin\n")
    space = tmp_path / "own.space"
    space.write_text(changed, encoding="utf-8")
    ran = run("explore", MATMUL, "--size", "m=8,n=8,k=4", "--space", space, "--runs", tmp_path / "runs")
    refused(ran, 1, f"{space}:", "error SP420", said)
    assert not (tmp_path / "runs").exists()


def test_a_run_that_is_none_is_a_usage_error_and_a_damaged_one_is_wrong_content(tmp_path: Path) -> None:
    refused(run("resume", tmp_path), 2, "holds no run")
    (tmp_path / "run.sqlite").write_text("no database\n" * 1000)
    refused(run("resume", tmp_path), 1, f"{tmp_path / 'run.sqlite'} is not readable")
    (tmp_path / "run.sqlite").write_bytes(b"")
    refused(run("resume", tmp_path), 1, f"{tmp_path} holds no run: run.sqlite is empty")


@pytest.mark.parametrize(
    ("line", "column", "said"),
    [
        ("search: {policy: luck}", 18, "KF044: no policy is called `luck`"),
        (
            "search: {target: cuda, device: h1000}",
            32,
            "KF044: no GPU is called `h1000`",
        ),
        ("search: {ordering: luck}", 20, "SP085: `luck` is neither an ordering"),
        (
            "decisions: [{choice: luck, objects: [fma.i0], values: [1]}]",
            22,
            "KF043: no choice is called `luck`",
        ),
    ],
)
def test_what_only_the_search_finds_wrong_in_a_kernel_file_is_shown_there(
    line: str, column: int, said: str, tmp_path: Path, machine: Path
) -> None:
    text = MATMUL.read_text(encoding="utf-8").rstrip()
    kernel = tmp_path / "own.yaml"
    kernel.write_text(f"{text}\n{line}\n", encoding="utf-8")
    place = f"{kernel}:{text.count(chr(10)) + 2}:{column}: error"
    refused(run("explore", kernel, "--size", "m=8,n=8,k=4", "--runs", tmp_path / "runs"), 1, place, said)
    checked = run("check", kernel)
    assert checked.code == 1
    assert f"{place} {said}" in checked.out


WRONG_DECISIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "{choice: dim_kinds, objects: [fma.i0, fma.i9], values: [LOOP]}": {
        "dim_kinds": ("KF043: no choice is called `dim_kinds`", "did you mean `dim_kind`?"),
        "fma.i9": ("KF040: no object is called `fma.i9`", "did you mean `fma.i"),
    },
    "{choice: dim_kind, objects: [fma.i9], values: [LOOP, ROUND, LOPP]}": {
        "fma.i9": ("KF040: no object is called `fma.i9`", "did you mean `fma.i2`?"),
        "ROUND": ("KF043: no value of dim_kind is called `ROUND`", "known here: `"),
        "LOPP": ("KF043: no value of dim_kind is called `LOPP`", "did you mean `LOOP`?"),
    },
    "{choice: size, objects: [fma.p], values: [2]}": {
        "fma.p": ("KF043: there is no size(fma.p): it is size($dim in Dimensions)", "did you mean `fma.p1`?"),
    },
    "{choice: size, objects: [i0], values: [2]}": {
        "i0": ("KF040: no object is called `i0` alone", "there are `load_A.i0`, `init.i0`, `fma.i0`, "),
    },
    "{choice: size, objects: [fma.j0], values: [8, 7]}": {
        "7": ("KF043: 7 is no value of size(fma.j0)", "there are 1, 2, 4, 8, 16, 32, 64"),
    },
    "{choice: order, objects: [fma, fma], values: [BEFORE]}": {
        "[fma, fma]": ("KF043: there is no order(fma, fma): its objects are different ones",),
    },
    "{choice: order, objects: [fma], values: [BEFORE]}": {
        "[fma]": ("KF043: there is no order(fma): it is order($lhs in Statements, $rhs in Statements)",),
    },
    "{choice: accumulators, objects: [fma], values: [1]}": {
        "accumulators": ("KF043: accumulators is a counter, which follows from decisions",),
    },
}
"""By what is wrong in each: what is said of it, and the hint."""


@pytest.mark.parametrize("command", ["check", "explore", "solve", "explain"])
def test_all_that_a_space_does_not_offer_of_decisions_is_shown_at_once(
    command: str, tmp_path: Path, machine: Path
) -> None:
    before = MATMUL.with_name("matmul_small.yaml").read_text(encoding="utf-8").rstrip() + "\ndecisions:\n"
    lines = [f"  - {entry}" for entry in WRONG_DECISIONS]
    kernel = tmp_path / "own.yaml"
    kernel.write_text(before + "\n".join(lines), encoding="utf-8")
    ran = run(command, kernel)
    assert ran.code == 1
    shown = ran.out if command == "check" else ran.err
    expected = [
        (f"{before.count(chr(10)) + number}:{line.index(word) + 1}: error {said[0]}", said[1:])
        for number, (line, wrong) in enumerate(zip(lines, WRONG_DECISIONS.values(), strict=True), 1)
        for word, said in wrong.items()
    ]
    parts = shown.split(f"{kernel}:")[1:]
    assert len(parts) == len(expected)
    for part, (message, hints) in zip(parts, expected, strict=True):
        assert part.startswith(f"{message}\n")
        assert all(f"\n  = {hint}" in part for hint in hints), part


def test_check_looks_at_decisions_for_the_machine_that_the_kernel_file_names(tmp_path: Path) -> None:
    """The index p has five levels on a GPU, three on a CPU, and threads only there."""
    kernel = tmp_path / "own.yaml"
    text = MATMUL.read_text(encoding="utf-8").rstrip()
    decided = "decisions: [{choice: dim_kind, objects: [fma.i3], values: [THREAD]}]"
    kernel.write_text(f"{text}\n{decided}\nsearch: {{target: cuda, device: h100}}\n", encoding="utf-8")
    assert run("check", kernel).code == 0
    assert run("solve", kernel, "--device", "h100").code == 0
    kernel.write_text(f"{text}\n{decided}\n", encoding="utf-8")
    said = (
        "error KF040: no object is called `fma.i3`",
        "error KF043: no value of dim_kind is called `THREAD`",
    )
    ran = run("check", kernel)
    assert ran.code == 1
    assert all(words in ran.out for words in said)
    misspelt = decided.replace("THREAD", "THREADS")
    kernel.write_text(f"{text}\n{misspelt}\nsearch: {{target: cuda, device: h1000}}\n", encoding="utf-8")
    ran = run("check", kernel)
    assert ran.code == 1
    assert "error KF044: no GPU is called `h1000`; did you mean `h100`?" in ran.out
    assert "error KF043: no value of dim_kind is called `THREADS`" in ran.out


def test_check_reads_the_description_of_the_gpu_that_a_kernel_file_names(tmp_path: Path) -> None:
    kernel, device = tmp_path / "own.yaml", tmp_path / "gpu.yaml"
    text = MATMUL.read_text(encoding="utf-8").rstrip()
    kernel.write_text(f"{text}\nsearch: {{device: {device}, policy: luck}}\n", encoding="utf-8")
    ran = run("check", kernel)
    assert ran.code == 1
    assert "error KF044: " in ran.out and f"{device}: No such file or directory" in ran.out
    assert "error KF044: no policy is called `luck`" in ran.out
    device.write_text("kind: gpu\n", encoding="utf-8")
    ran = run("check", kernel)
    assert f"{device}:1:1: error DV006" in ran.out and "policy" in ran.out


def test_check_shows_a_decision_about_an_object_that_a_plain_kernel_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "a.space").write_text(
        'set Tasks: iterator = "$kernel.tasks" end\nchoice integer start($t in Tasks): "range(9)" end\n'
    )
    kernel = tmp_path / "k.yaml"
    kernel.write_text(
        "kernel: k\nbackbone: plain\nspace: a.space\nobjects: {tasks: [cut]}\n"
        "decisions: [{choice: start, objects: [cutt], values: [3]}]\n"
    )
    ran = run("check", kernel)
    assert ran.code == 1
    assert f"{kernel}:5:39: error KF040: no object is called `cutt`" in ran.out
    assert "did you mean `cut`?" in ran.out


def test_check_runs_the_host_expressions_of_a_plain_kernel(tmp_path: Path) -> None:
    (tmp_path / "a.space").write_text(
        'set Tasks: iterator = "$kernel.tasks" end\n'
        'choice integer start($t in Tasks): "range(9 // $t.hours)" end\n'
    )
    kernel = tmp_path / "k.yaml"
    kernel.write_text(
        "kernel: k\nbackbone: plain\nspace: a.space\nobjects: {tasks: [{name: cut, hours: 0}]}\n"
    )
    ran = run("check", kernel)
    assert ran.code == 1
    assert f"{tmp_path / 'a.space'}:2:" in ran.out and "error SP062" in ran.out, ran


def test_decisions_of_which_only_the_bound_sees_that_nothing_is_left_end_the_run_before_it_begins(
    tmp_path: Path, machine: Path
) -> None:
    small = MATMUL.with_name("matmul_small.yaml").read_text(encoding="utf-8").rstrip()
    kernel = tmp_path / "own.yaml"
    unrolled = (f"{{choice: dim_kind, objects: [load_A.{dim}], values: [UNROLL]}}" for dim in ("i0", "p0"))
    kernel.write_text(f"{small}\ndecisions: [{', '.join(unrolled)}]\n", encoding="utf-8")
    flags = ("--size", "m=64", "--runs", tmp_path / "runs")
    refused(run("explore", kernel, *flags), 3, "unrolled copies: load_A has more than")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"device": {}}, "no description of a machine"),
        ({"decisions": [{"choice": "size", "objects": ["fma.i0"], "values": [3]}]}, "size(fma.i0) is 3"),
        ({"decisions": [{"choice": "size", "objects": ["fma.z9"], "values": [1]}]}, "size(fma.z9) is 1"),
    ],
)
def test_an_edited_record_is_refused_in_words(
    change: dict[str, object], said: str, explored: Run, tmp_path: Path
) -> None:
    edited = tmp_path / "edited.json"
    edited.write_text(
        json.dumps({**json.loads(explored.best.read_text("utf-8")), **change}), encoding="utf-8"
    )
    refused(run("replay", edited), 1, f"{edited}: ", said)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A space that is right."""
    file = tmp_path / "small.space"
    file.write_text('set Items: iterator = "$kernel.items" end\n')
    return file


@pytest.mark.parametrize("stream", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_no_bug(stream: str, small: Path) -> None:
    call = f"exec '{sys.executable}' -c 'import spacedsl.cli.app as c; c.main()' check nowhere.space {stream}"
    assert subprocess.run(["bash", "-c", call], capture_output=True, check=False).returncode == 2
    call = call.replace("nowhere.space", f"'{small}'")
    assert subprocess.run(["bash", "-c", call], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("name", ["nowhere.space", "small.space"])
def test_a_reader_of_stderr_that_goes_away_is_no_error(
    name: str, small: Path, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what could not be written waits for the end of the process."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    file = str(small.with_name(name))
    call = [sys.executable, "-c", "import spacedsl.cli.app as c; c.main()", "check", file]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert subprocess.run(call, stdout=writer, stderr=writer, check=False).returncode == 141
    finally:
        os.close(writer)


def test_an_output_that_is_full_is_said_and_is_no_bug() -> None:
    call = [sys.executable, "-c", "import spacedsl.cli.app as c; c.main()", "device", "list"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ran = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (5, "error: no room is left on the disk\n")


def test_what_is_wrong_in_a_space_is_shown_once_for_all_kernels_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.space").write_text("set Items: end\n")
    kernels = [tmp_path / f"{name}.yaml" for name in "kl"]
    for kernel in kernels:
        kernel.write_text("kernel: k\nbackbone: plain\nspace: a.space\nobjects: {things: [a]}\n")
    ran = run("check", *kernels, tmp_path / "a.space")
    assert ran.code == 1
    assert ran.out.count("error SP020") == 1


def test_check_reports_all_that_cannot_be_compiled(tmp_path: Path) -> None:
    choices = "".join(f"choice enum k{i}($x in Items): value A: value B: value C: end\n" for i in range(6))
    many = " || ".join(f"(k{i}($x) is A && k{i}($y) is B)" for i in range(6))
    pairs = "forall $x in Items: forall $y in Items:"
    (tmp_path / "a.space").write_text(
        f'set Items: iterator = "$kernel.items" end\n{choices}'
        f"require {pairs} {many}\n"
        f"choice counter c(): {pairs} sum 1 when: {many} end\n"
        "require c() <= 3\n"
    )
    kernel = tmp_path / "k.yaml"
    kernel.write_text("kernel: k\nbackbone: plain\nspace: a.space\nobjects: {items: [a, b]}\n")
    for file in (tmp_path / "a.space", kernel):
        ran = run("check", file)
        assert ran.code == 1
        assert re.findall(r"a.space:(\d+):\d+: error (SP\d+)", ran.out) == [("8", "SP301"), ("9", "SP301")]

"""Libraries that are kept are found without printing, and none is believed that does not fit."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spacedsl import c_compilers, compiler
from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.compiler.c import build as building
from spacedsl.compiler.c import kept, print_c
from spacedsl.compiler.c.interface import Interface
from spacedsl.compiler.c.tables import Table
from spacedsl.language.loader import load_space
from tests.engine.examples import load_text
from tests.engine.native import needs_compiler
from tests.engine.small import SETS

CORPUS = Path(__file__).parents[1] / "language" / "corpus"
SMALL = Path(__file__).parent / "small.space"
LINALG = Path("kernels/spaces/linalg.space")
TEXT = """
choice enum narrow($a in Things):
  value A:
  value B:
end
choice integer size($x in Things): "$x.sizes" end
choice counter total(): forall $x in Things: mul size($x) when: end
require forall $a in Things: narrow($a) is A || size($a) < "$a.weight"
"""


OTHER = TEXT.replace("<", ">")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and a process that remembers nothing, whose sources may be edited meanwhile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiler, "_kept", {})
    sources = kept.digest_of(kept.PACKAGE, float("inf"))
    monkeypatch.setattr(kept, "_sources_digest", lambda: sources)
    return tmp_path / "spacedsl" / "engines"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with libraries of two spaces; no record of them."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        for text in (TEXT, OTHER):
            kept.library_of(space_of(text), constants)
    for record in (folder / "spacedsl" / "engines").glob("*.json"):
        record.unlink()
    return folder / "spacedsl" / "engines"


@pytest.fixture
def filled(made: Path, folder: Path) -> Path:
    """A cache in which these libraries need not be compiled."""
    return shutil.copytree(made, folder)


def space_of(text: str = TEXT) -> CompiledSpace:
    """As another process compiles it: nothing is remembered of an object of its own."""
    compiler._kept.clear()
    return compile_space(load_text(SETS + text))


def constants(_: Interface) -> dict[str, int]:
    return {"OBJECT_WORDS": 1, "ROW_WORDS": 1, "MASK_WORDS": 1}


def found(compiled: CompiledSpace) -> tuple[Path, tuple[Table, ...], int]:
    """What is comparable of what two compilations of one text find."""
    interface, path = kept.library_of(compiled, constants)
    return path, interface.tables, len(interface.checks)


def unprintable(*_: object) -> None:
    raise AssertionError("printed anew")


@pytest.mark.parametrize("path", [SMALL, LINALG, *sorted(CORPUS.glob("*.space"))], ids=lambda path: path.stem)
def test_what_is_kept_is_what_was_printed(folder: Path, path: Path) -> None:
    compiled = compile_space(load_space(path))
    module = print_c(compiled.module, compiled.complete)
    kept.write(compiled, module)
    assert kept.read(compiled) == (module.interface, module.digest)


@needs_compiler
def test_a_library_is_found_without_printing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = found(space_of())
    monkeypatch.setattr(kept, "print_c", unprintable)
    monkeypatch.setattr(subprocess, "run", unprintable)
    assert found(space_of()) == first


@needs_compiler
def test_another_process_prints_nothing_and_makes_the_same_vectors(folder: Path) -> None:
    program = f"""
import sys
from spacedsl.compiler.c import kept
from spacedsl.engine.instance import Engine
from tests.engine.small import Things, things, world
printed, print_c = [], kept.print_c
kept.print_c = lambda *given: printed.append(1) or print_c(*given)
here = world({TEXT!r}, Things(things(2, weight=3)), Engine.NATIVE)
assert here.instance.engine is Engine.NATIVE, here.instance.no_native
print(len(printed), here.root().vector.tolist())
"""
    answers = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
        ).stdout.split(" ", 1)
        for _ in range(2)
    ]
    assert [printed for printed, _ in answers] == ["1", "0"]
    assert answers[0][1] == answers[1][1]


@needs_compiler
def test_a_cache_that_cannot_be_written_is_read(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = found(space_of()), space_of()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    for change in ("touch", "mkdir", "write_text", "write_bytes", "replace"):
        monkeypatch.setattr(Path, change, refused)
    monkeypatch.setattr(kept, "print_c", unprintable)
    assert found(again) == first


# ---- Every part of the keys -------------------------------------------------------------------------------


def test_another_text_form_python_or_file_has_another_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = space_of()
    renamed = replace(compiled, space=replace(compiled.space, sources=("other.space",)))
    object.__setattr__(renamed, "digest", compiled.digest)
    keys = [kept.key_of(compiled), kept.key_of(space_of(TEXT.replace("<", "<="))), kept.key_of(renamed)]
    monkeypatch.setattr(kept, "FORM", kept.FORM + 1)
    keys.append(kept.key_of(compiled))
    monkeypatch.setattr(kept, "_sources_digest", lambda: "other sources")
    keys.append(kept.key_of(compiled))
    monkeypatch.setattr(sys, "version", "other")
    keys.append(kept.key_of(compiled))
    assert None not in keys
    assert len(set(keys)) == len(keys)


def package(folder: Path) -> Path:
    """Sources like those of the package."""
    for name in ("diagnostics.py", "language/checker.py", "compiler/c/module.py", "compiler/c/runtime.h"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    (folder / "grammars").mkdir()
    (folder / "grammars" / "space.lark").write_text("start: NAME\n")
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "diagnostics.py",
        "language/checker.py",
        "compiler/c/module.py",
        "compiler/c/runtime.h",
        "grammars/space.lark",
    ],
)
def test_every_source_that_c_follows_from_is_part_of_the_key(tmp_path: Path, name: str) -> None:
    sources, late = package(tmp_path / "package"), float("inf")
    before = kept.digest_of(sources, late)
    (sources / name).write_text("# other\n")
    assert kept.digest_of(sources, late) != before


def test_a_source_that_comes_or_goes_or_moves_changes_the_key(tmp_path: Path) -> None:
    sources, late = package(tmp_path / "package"), float("inf")
    digests = [kept.digest_of(sources, late)]
    (sources / "compiler" / "c" / "wakes.py").write_text("")
    digests.append(kept.digest_of(sources, late))
    (sources / "compiler" / "c" / "wakes.py").rename(sources / "compiler" / "wakes.py")
    digests.append(kept.digest_of(sources, late))
    (sources / "compiler" / "wakes.py").unlink()
    (sources / "compiler" / "c" / "runtime.h").unlink()
    digests.append(kept.digest_of(sources, late))
    assert len(set(digests)) == len(digests)


def test_the_sources_of_the_package_are_found() -> None:
    text = (kept.PACKAGE / "compiler" / "c" / "kept.py").read_text(encoding="utf-8")
    assert "def digest_of" in text
    assert kept.digest_of(kept.PACKAGE, float("inf")) is not None


@needs_compiler
def test_nothing_is_kept_once_a_source_has_changed(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = package(tmp_path / "package")
    assert kept.digest_of(sources, (sources / "diagnostics.py").stat().st_ctime - 1) is None
    monkeypatch.setattr(kept, "_sources_digest", lambda: None)
    compiled = space_of()
    assert kept.key_of(compiled) is None
    kept.library_of(compiled, constants)
    assert not list(filled.glob("*.json"))


def test_what_was_changed_after_it_was_compiled_is_not_kept(folder: Path) -> None:
    compiled = space_of()
    changed = replace(compiled, module=replace(compiled.module, propagators=()))
    assert kept.key_of(compiled) is not None
    assert kept.key_of(changed) is None
    assert kept.key_of(compile_space(replace(compiled.space, digest=""))) is None


@needs_compiler
@pytest.mark.parametrize("part", ["text", "constants", "flags", "command", "version", "processor"])
def test_every_part_of_what_a_library_follows_from_is_part_of_its_name(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, given = "int answer(void) { return ANSWER; }\n", {"ANSWER": 1}
    library = building.build(source, given, tmp_path)
    here = building.find_compiler()
    assert building.find(building.text_digest(source), given, tmp_path) == library
    match part:
        case "text":
            source += "\n"
        case "constants":
            given = {"ANSWER": 2}
        case "flags":
            monkeypatch.setattr(building, "FLAGS", (*building.FLAGS, "-g"))
        case "command":
            monkeypatch.setattr(building, "find_compiler", lambda: replace(here, command=("another", "cc")))
        case "version":
            monkeypatch.setattr(building, "find_compiler", lambda: replace(here, version="another"))
        case "processor":
            monkeypatch.setattr(c_compilers, "processor", lambda: "another")
    assert building.find(building.text_digest(source), given, tmp_path) is None


# ---- What is broken or foreign ----------------------------------------------------------------------------


def resealed(change: Callable[[Any], object]) -> Callable[[str, str], str]:
    """A record with a change, whose seal fits it."""

    def changed(text: str, _: str) -> str:
        record = json.loads(text)
        del record["seal"]
        change(record)
        return json.dumps({**record, "seal": kept._seal(record)})

    return changed


BROKEN: dict[str, Callable[[str, str], str]] = {
    "empty": lambda text, other: "",
    "half": lambda text, other: text[: len(text) // 2],
    "another": lambda text, other: other,
    "no record": lambda text, other: "[]",
    "a table more": lambda text, other: text.replace('"tables": [', '"tables": [["x", "at", "y", 1, false],'),
    "another text": lambda text, other: text.replace('"text": "', '"text": "0'),
    "no seal": lambda text, other: json.dumps({k: v for k, v in json.loads(text).items() if k != "seal"}),
    "unknown kind": resealed(lambda r: r["interface"]["tables"][0].__setitem__(1, "nothing")),
    "unknown static": resealed(lambda r: r["interface"]["tables"][0].__setitem__(2, ["static", 999])),
    "counted from the end": resealed(lambda r: r["interface"]["tables"][0].__setitem__(2, ["static", -1])),
    "unknown check": resealed(lambda r: r["interface"].__setitem__("checks", [999])),
    "no interface": resealed(lambda r: r.__setitem__("interface", 3)),
}


@needs_compiler
@pytest.mark.parametrize("name", BROKEN)
def test_a_record_that_is_not_sound_is_written_anew(filled: Path, name: str) -> None:
    expected = found(space_of())
    (record,) = filled.glob("*.json")
    text = record.read_text()
    kept.library_of(space_of(OTHER), constants)
    (other,) = (path for path in filled.glob("*.json") if path != record)
    record.write_text(BROKEN[name](text, other.read_text()))
    assert record.read_text() != text
    assert kept.read(space_of()) is None
    assert found(space_of()) == expected
    assert record.read_text() == text


@needs_compiler
@pytest.mark.parametrize("damage", ["empty", "half", "a bit", "another", "no seal"])
def test_a_library_that_is_not_sound_is_compiled_anew(damage: str, tmp_path: Path) -> None:
    source = "int answer(void) { return ANSWER; }\n"
    library = building.build(source, {"ANSWER": 1}, tmp_path)
    content = library.read_bytes()
    other = building.build(source, {"ANSWER": 2}, tmp_path).read_bytes()
    middle = len(content) // 2
    broken = {
        "empty": b"",
        "half": content[:middle],
        "a bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "another": other,
        "no seal": content[: -building.SEAL_BYTES],
    }[damage]
    library.unlink()
    library.write_bytes(broken)
    assert building.find(building.text_digest(source), {"ANSWER": 1}, tmp_path) is None
    assert building.build(source, {"ANSWER": 1}, tmp_path) == library
    assert library.read_bytes() == content


# ---- Several processes ------------------------------------------------------------------------------------


def build_here(_: int) -> str:
    return str(kept.library_of(space_of(), constants)[1])


@needs_compiler
def test_processes_that_make_a_library_at_once_leave_one(folder: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(build_here, range(2), chunksize=1)
    assert len(set(found)) == 1
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".so"]
    assert kept.read(space_of()) is not None

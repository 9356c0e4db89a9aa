"""What is built of units is built once, and programs of the same units share it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from ctypes import CDLL
from pathlib import Path

import pytest

from spacedsl.codegen.c import units as under_test
from spacedsl.codegen.c.build import BuildError, build_library, build_object
from spacedsl.codegen.c.units import Units
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.kernels.evaluation import Lowered

SEVEN, EIGHT = (f"int {name}(void) {{ return {value}; }}" for name, value in (("seven", 7), ("eight", 8)))


def program(result: str, *others: str) -> Lowered:
    calls = "int seven(void); int eight(void);"
    return Lowered.of(result, units=(f"{calls} int answer(void) {{ return {result}; }}", *others))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    build = build_object

    def counting(code: str, target: Path, *, timeout_s: float) -> Path:
        found.append(code)
        return build(code, target, timeout_s=timeout_s)

    monkeypatch.setattr(under_test, "build_object", counting)
    return found


def answer(units: Units, wanted: Lowered, folder: Path) -> int:
    objects = tuple(map(str, units.of(wanted)))
    library = build_library(wanted.units[0], folder / f"{wanted.digest[:9]}.so", extra_flags=objects)
    found: int = CDLL(str(library)).answer()
    return found


@pytest.fixture
def units(tmp_path: Path) -> Iterator[Units]:
    made = Units(tmp_path, 30.0)
    yield made
    made.settle()


def test_programs_share_what_they_are_made_of(units: Units, tmp_path: Path, built: list[str]) -> None:
    both, less, more = (program(f"seven() {sign} eight()", SEVEN, EIGHT) for sign in "*-+")
    units.begin([program("seven()", SEVEN)])
    units.begin([both, less])
    units.begin([more])
    assert sorted(built) == sorted([SEVEN, EIGHT])
    assert [answer(units, each, tmp_path) for each in (both, less, more)] == [56, -1, 15]


def test_a_unit_that_cannot_be_built_is_a_fault_of_its_programs_alone(
    units: Units, tmp_path: Path, built: list[str]
) -> None:
    wrong, right = program("seven()", SEVEN, "nonsense"), program("seven() + 1", SEVEN)
    units.begin([wrong, right])
    for _ in range(2):
        units.build([wrong])
        with pytest.raises(BuildError, match="nonsense"):
            units.of(wrong)
    assert answer(units, right, tmp_path) == 8
    assert len(built) == 2


def test_what_is_forgotten_is_built_again(
    units: Units, tmp_path: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "KEPT", 1)
    seven, eight = program("seven()", SEVEN), program("eight()", EIGHT)
    for each, expected in ((seven, 7), (eight, 8), (seven, 7)):
        units.begin([each])
        units.settle()
        assert len(list(tmp_path.glob("*.o"))) == 1
        assert answer(units, each, tmp_path) == expected
    assert built == [SEVEN, EIGHT, SEVEN]


def test_what_no_compiler_has_begun_with_is_forgotten_and_all_else_is_there(
    units: Units, tmp_path: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spacedsl.codegen.machine.processor.usable_cpus", lambda: (0,))
    texts = [f"int f{number}(void) {{ return {number}; }}" for number in range(50)]
    threads = threading.active_count()
    units.begin([program("0", *texts)])
    while not built:
        time.sleep(0.001)
    units.settle()
    assert 1 <= len(built) < 50
    assert threading.active_count() == threads
    assert built == texts[: len(built)]
    assert len(list(tmp_path.glob("*.o"))) == len(built)
    units.begin([program("0", *texts)])
    assert len(units.of(program("0", *texts))) == 50
    assert built == texts
    units.settle()


def test_what_takes_far_longer_than_other_units_is_given_up(
    units: Units, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one has all the time that there may be."""
    limits: list[float] = []

    def building(code: str, target: Path, *, timeout_s: float) -> Path:
        limits.append(timeout_s)
        clock[0] += 0.5
        if code == "slow":
            raise BuildError("", timed_out=True)
        target.write_text(code)
        return target

    clock = [0.0]
    monkeypatch.setattr(under_test, "build_object", building)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("spacedsl.codegen.machine.processor.usable_cpus", lambda: (0,))
    units.begin([program("0", "slow", "a", "b", "c")])
    with pytest.raises(BuildError):
        units.of(program("0", "slow"))
    units.of(program("0", "a", "b", "c"))
    assert limits == [30.0, 30.0, 10.0, 10.0]
    monkeypatch.setattr(under_test, "PATIENCE", 2.0)
    units.begin([program("0", "d")])
    units.of(program("0", "d"))
    assert limits[4] == under_test.PATIENT_S
    units.settle()


def test_what_the_machine_lacks_is_no_fault_of_a_program(
    units: Units, tmp_path: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, and built once there is room."""

    def lacking(code: str, target: Path, *, timeout_s: float) -> Path:
        raise EnvironmentLack("no room")

    seven = program("seven()", SEVEN)
    with monkeypatch.context() as full:
        full.setattr(under_test, "build_object", lacking)
        units.begin([seven])
        with pytest.raises(EnvironmentLack, match="no room"):
            units.build([seven])
    units.build([seven])
    assert answer(units, seven, tmp_path) == 7
    assert built == [SEVEN]

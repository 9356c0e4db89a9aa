"""What is built of units is built once, and programs of the same units share it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import CDLL
from pathlib import Path

import pytest

from spacedsl.codegen.c import units as under_test
from spacedsl.codegen.c.build import BuildError, build_library, build_object
from spacedsl.codegen.c.units import Units
from spacedsl.kernels.evaluation import Lowered

SEVEN, EIGHT = (f"int {name}(void) {{ return {value}; }}" for name, value in (("seven", 7), ("eight", 8)))


def program(result: str, *others: str) -> Lowered:
    calls = "int seven(void); int eight(void);"
    return Lowered.of(result, units=(f"{calls} int answer(void) {{ return {result}; }}", *others))


@pytest.fixture
def compilers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


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


def test_programs_share_what_they_are_made_of(
    tmp_path: Path, compilers: ThreadPoolExecutor, built: list[str]
) -> None:
    units = Units(tmp_path, 60.0)
    both, less, more = (program(f"seven() {sign} eight()", SEVEN, EIGHT) for sign in "*-+")
    units.build([program("seven()", SEVEN)], compilers)
    units.build([both, less], compilers)
    units.build([more], compilers)
    assert sorted(built) == sorted([SEVEN, EIGHT])
    assert [answer(units, each, tmp_path) for each in (both, less, more)] == [56, -1, 15]


def test_a_unit_that_cannot_be_built_is_a_fault_of_its_programs_alone(
    tmp_path: Path, compilers: ThreadPoolExecutor, built: list[str]
) -> None:
    units = Units(tmp_path, 60.0)
    wrong, right = program("seven()", SEVEN, "nonsense"), program("seven() + 1", SEVEN)
    units.build([wrong, right], compilers)
    for _ in range(2):
        units.build([wrong], compilers)
        with pytest.raises(BuildError, match="nonsense"):
            units.of(wrong)
    assert answer(units, right, tmp_path) == 8
    assert len(built) == 2


def test_what_is_forgotten_is_built_again(
    tmp_path: Path, compilers: ThreadPoolExecutor, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "KEPT", 1)
    units = Units(tmp_path, 60.0)
    seven, eight = program("seven()", SEVEN), program("eight()", EIGHT)
    for each, expected in ((seven, 7), (eight, 8), (seven, 7)):
        units.build([each], compilers)
        assert len(list(tmp_path.glob("*.o"))) == 1
        assert answer(units, each, tmp_path) == expected
    assert built == [SEVEN, EIGHT, SEVEN]

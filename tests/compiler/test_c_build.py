"""Compiling of engines: once for each text, compiler and set of flags."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spacedsl.compiler.c import build as building
from tests.engine.native import needs_compiler


@needs_compiler
def test_a_library_is_compiled_once_and_found_again(tmp_path: Path) -> None:
    source = "int answer(void) { return ANSWER; }\n"
    first = building.build(source, {"ANSWER": 1}, tmp_path)
    assert building.build(source, {"ANSWER": 1}, tmp_path) == first
    assert building.build(source, {"ANSWER": 2}, tmp_path) != first
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".so", ".so"]


@needs_compiler
def test_libraries_that_nobody_has_asked_for_in_a_month_are_removed(tmp_path: Path) -> None:
    old, used = (building.build(f"int f{n}(void) {{ return 0; }}", {}, tmp_path) for n in range(2))
    for library in (old, used):
        os.utime(library, (0, 0))
    assert building.build("int f1(void) { return 0; }", {}, tmp_path) == used
    building.build("int f2(void) { return 0; }", {}, tmp_path)
    assert not old.exists() and used.exists()


@needs_compiler
def test_text_that_the_compiler_refuses_is_no_engine_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(building.NoCompilerError, match="refused"):
        building.build("this is no C", {}, tmp_path)
    assert list(tmp_path.iterdir()) == []

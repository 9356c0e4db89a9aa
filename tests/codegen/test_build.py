"""Compilers are found, hanging ones killed, and nothing is left behind."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacedsl.codegen.build import BuildError, Compiler, EnvironmentLack, build_library, find_compiler


@pytest.fixture(autouse=True)
def _forget_compilers() -> Iterator[None]:
    find_compiler.cache_clear()
    yield
    find_compiler.cache_clear()


def test_cc_names_the_compiler_with_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "my-cc"
    script.write_text("#!/bin/sh\necho 'clang version 99, honest'\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", f"{script} -m32")
    compiler = find_compiler()
    assert compiler.command == (str(script), "-m32")
    assert compiler.is_clang and "-fno-vectorize" in compiler.flags


@pytest.mark.parametrize("chosen", ["no-such-compiler", "false"])
def test_a_chosen_compiler_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    monkeypatch.setenv("CC", chosen)
    with pytest.raises(EnvironmentLack, match=chosen):
        find_compiler()


def test_without_any_other_compiler_zig_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    compiler = find_compiler()
    assert compiler.command[:2] == (sys.executable, "-m") and compiler.is_clang


def test_the_lack_of_a_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvironmentLack, match="pip install ziglang"):
        find_compiler()


def test_a_hanging_compiler_is_killed_with_its_children(tmp_path: Path) -> None:
    # A child that outlived its parent would hold the pipe, and `communicate` would wait for it.
    hanging = Compiler(("sh", "-c", "sleep 60 & sleep 60"), "", is_clang=False)
    start = time.monotonic()
    with pytest.raises(BuildError) as caught:
        build_library("", tmp_path / "x.so", hanging, timeout_s=0.2)
    assert caught.value.timed_out
    assert time.monotonic() - start < 10
    assert list(tmp_path.iterdir()) == []


def test_messages_are_kept_and_no_file_is(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="undeclared"):
        build_library("int f(void) { return undeclared; }", tmp_path / "x.so")
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_writes_nothing_has_failed(tmp_path: Path) -> None:
    silent = Compiler(("true",), "", is_clang=False)
    with pytest.raises(BuildError, match="status 0"):
        build_library("", tmp_path / "x.so", silent)

"""Compilers are found, hanging ones killed, and nothing is left behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacedsl.codegen.c.build import BuildError, Compiler, build_library, find_compiler
from spacedsl.codegen.lack import EnvironmentLack


@pytest.fixture(autouse=True)
def _forget_compilers() -> Iterator[None]:
    find_compiler.cache_clear()
    yield
    find_compiler.cache_clear()


def test_cc_names_the_compiler_with_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = " ".join(find_compiler().command)
    find_compiler.cache_clear()
    # It calls itself clang, whose flags it takes, and leaves the work to another.
    script = tmp_path / "my-cc"
    script.write_text(
        f"""#!/bin/sh
        case "$*" in *--version*) echo 'clang version 99, honest'; exit;; esac
        for a; do shift; case $a in -fno-vectorize|-fno-slp-vectorize) ;; *) set -- "$@" "$a";; esac; done
        exec {own} "$@"
        """
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", f"{script} -DNOTHING")
    compiler = find_compiler()
    assert compiler.command == (str(script), "-DNOTHING")
    assert compiler.is_clang and "-fno-vectorize" in compiler.flags


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("no-such-compiler", "does not run"),
        ("false", "does not run"),
        ("true", "builds no library: the compiler ended with status 0"),
        ("python3", "builds no library"),
        ("cc 'unclosed", "No closing quotation"),
    ],
)
def test_a_chosen_compiler_that_is_none_is_named(
    monkeypatch: pytest.MonkeyPatch, chosen: str, said: str
) -> None:
    monkeypatch.setenv("CC", chosen)
    with pytest.raises(EnvironmentLack, match=f"`{chosen}`.*{said}"):
        find_compiler()


def test_a_compiler_that_fails_with_empty_lines_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "cc"
    script.write_text('#!/bin/sh\ntest "$1" = --version && echo cc 1.0 && exit\necho\nexit 3\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    with pytest.raises(EnvironmentLack, match="builds no library: the compiler ended with status 3"):
        find_compiler()


def test_what_is_found_and_builds_nothing_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = find_compiler()
    find_compiler.cache_clear()
    monkeypatch.delenv("CC", raising=False)
    for name, text in (("cc", "echo cc 1.0"), ("gcc", f'exec {" ".join(own.command)} "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\nPATH='{os.environ['PATH']}'\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler().command == ("gcc",)


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
    assert time.monotonic() - start < 50, "the children sleep for a minute"
    assert list(tmp_path.iterdir()) == []


def test_messages_are_kept_and_no_file_is(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="undeclared"):
        build_library("int f(void) { return undeclared; }", tmp_path / "x.so")
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_writes_nothing_has_failed(tmp_path: Path) -> None:
    silent = Compiler(("true",), "", is_clang=False)
    with pytest.raises(BuildError, match="status 0"):
        build_library("", tmp_path / "x.so", silent)


@pytest.mark.parametrize(
    "message",
    [
        "as: code.o: No space left on device",
        "cc1: fatal error: cannot open '/tmp/c.s': Read-only file system",
    ],
)
def test_a_full_disk_is_no_fault_of_the_code(message: str, tmp_path: Path) -> None:
    failing = Compiler(("sh", "-c", f'echo "{message}"; exit 1'), "", is_clang=False)
    with pytest.raises(EnvironmentLack, match=f"{tmp_path}: temporary files cannot be written"):
        build_library("", tmp_path / "x.so", failing)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLack, match=r"nowhere.*No such file"):
        build_library("", tmp_path / "nowhere" / "x.so")


def test_temporary_files_of_a_compiler_lie_in_the_folder_that_ends_with_it(tmp_path: Path) -> None:
    littering = Compiler(("sh", "-c", 'touch "$TMPDIR/litter"; echo "$TMPDIR"; exit 1'), "", is_clang=False)
    with pytest.raises(BuildError, match=str(tmp_path)):
        build_library("", tmp_path / "x.so", littering)
    assert list(tmp_path.iterdir()) == []

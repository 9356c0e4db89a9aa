"""The printed C: a golden file, and that compilers find nothing to say about it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from spacedsl.compiler import compile_space
from spacedsl.compiler.c import print_c
from spacedsl.language.loader import load_space
from tests.engine.examples import load_text

SPACE = Path(__file__).parent / "small.space"
UNUSED = ("-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-unused-function")
"""Variables of a binding that a body does not mention are printed all the same."""
STRICT = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", *UNUSED, "-fsyntax-only")


def printed(path: Path) -> str:
    compiled = compile_space(load_space(path))
    return print_c(compiled.module, compiled.complete).source


def test_the_propagators_of_a_small_space_read_as_they_did(golden: Callable[[str, str], None]) -> None:
    compiled = compile_space(load_space(SPACE))
    golden("small.c.txt", print_c(compiled.module, compiled.complete).generated)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("path", [SPACE, Path("kernels/spaces/linalg.space")], ids=lambda p: p.stem)
def test_a_strict_compiler_has_nothing_to_say(path: Path, compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"this machine has no {compiler}")
    source = tmp_path / "engine.c"
    source.write_text(printed(path))
    for words in ("1", "2"):
        constants = (f"-DOBJECT_WORDS={words}", "-DROW_WORDS=1", "-DMASK_WORDS=4")
        done = subprocess.run(
            [compiler, *STRICT, *constants, str(source)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_every_propagator_and_every_wake_that_loops_has_a_function() -> None:
    compiled = compile_space(load_space(SPACE))
    source = print_c(compiled.module, compiled.complete).source
    functions = set(re.findall(r"^static bool run_(\w+)\(", source, re.MULTILINE))
    for propagator in compiled.module.propagators:
        assert {propagator.name, f"{propagator.name}_everywhere"} <= functions
        assert {wake.name for wake in propagator.wakes if wake.loops} <= functions


def test_names_of_variables_and_choices_never_clash_with_those_of_the_runtime(tmp_path: Path) -> None:
    from tests.engine.small import SETS

    text = """
choice enum narrow($s in Things, $int in Things):
  antisymmetric:
    A -> B
  value A:
  value B:
end
choice enum state($at in Things):
  value A:
  value B:
end
choice counter lo($key in Things): forall $later in Things: sum 1 when: narrow($key, $later) is A end
require forall $s in Things: forall $int in Things: forall $mask in Things:
  narrow($s, $int) is A || narrow($int, $mask) is A || state($mask) is B
require forall $hi in Things: lo($hi) <= 1
"""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("this machine has no C compiler")
    compiled = compile_space(load_text(SETS + text))
    source = tmp_path / "engine.c"
    source.write_text(print_c(compiled.module, compiled.complete).source)
    command = [compiler, *STRICT, "-DOBJECT_WORDS=1", "-DROW_WORDS=1", "-DMASK_WORDS=1", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

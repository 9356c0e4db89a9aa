"""Host functions: what they ask the runtime of CUDA for, of a runtime that writes it down."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from spacedsl.codegen.c.interface import print_header
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.printer import print_cuda, shared_bytes
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.program import Grid, Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.kernels.tensors import Tensor
from tests.codegen.cuda.grids import random_candidates, space_of

HERE = Path(__file__).parent
LIBRARY = Path("kernels/library")

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

CALLS = """
int main(int count, char **arguments) {
  fake_failing = count > 1 ? atoi(arguments[1]) : 0;
  for (size_t stream = 7; stream < 9; ++stream)
    printf("returns %d\\n", {function}({passed}, (cudaStream_t)stream));
}
"""
"""Calls it in stream 7, then in stream 8, with addresses that are numbers."""


@cache
def program(name: str, **sizes: int) -> Program:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", sizes).made_for("gpu")
    (candidate,) = random_candidates(space_of(kernel), 1, seed=2)
    return verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))


def grids(made: Program) -> list[Grid]:
    return [statement for statement in made.body if isinstance(statement, Grid)]


def softmax() -> Program:
    return program("softmax", m=8, n=16)


def padded() -> Program:
    return program("conv2d_nchw")


def host(made: Program, folder: Path) -> Path:
    """What calls the host function; kernels themselves are left out."""
    text = print_cuda(made).rpartition("#ifndef __CUDACC_RTC__\n")[2].removesuffix("#endif\n")
    passed = ", ".join(f"({t.dtype.c_name} *){16 * n}" for n, t in enumerate(made.tensors, 1))
    main = CALLS.replace("{function}", made.name).replace("{passed}", passed)
    lines = ["#include <stdint.h>", "#include <cuda_runtime_api.h>", text, main]
    (folder / "host.cc").write_text("\n".join(lines), encoding="utf-8")
    command = ["g++", "-std=c++17", "-Wall", "-Werror", f"-I{HERE / 'fake_runtime'}", "host.cc", "-o", "host"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "host"


def calls(built: Path, failing: int = 0) -> list[list[str]]:
    """What each of two calls asks for, and returns."""
    ran = subprocess.run([built, str(failing)], capture_output=True, text=True, check=True).stdout
    parts = re.split(r"(?<=returns )(\d+)\n", ran)
    return [
        [*asked.splitlines()[:-1], f"returns {error}"]
        for asked, error in zip(parts[::2], parts[1::2], strict=False)
    ]


def test_kernels_are_launched_in_the_stream_that_is_given(tmp_path: Path) -> None:
    made = softmax()
    for stream, asked in zip((7, 8), calls(host(made, tmp_path)), strict=True):
        launches = [line for line in asked if line.startswith("launch")]
        assert [line.partition(f" stream {stream} ")[0] for line in launches] == [
            f"launch {g.name} {g.blocks} {g.threads} {shared_bytes(g)}" for g in grids(made)
        ]
        assert asked[-1] == "returns 0"
        assert all(f"stream {stream}" in line for line in asked[:-1] if not line.startswith("set "))


def test_memory_between_kernels_is_of_one_call_and_its_stream(tmp_path: Path) -> None:
    """In the order of the stream: it is there before what uses it, and free behind that."""
    made = softmax()
    names = [s.tensor.name for s in made.scratch]
    assert names
    for asked in calls(host(made, tmp_path)):
        sizes, places = zip(*(re.findall(r"malloc (\d+) .* gives (\w+)", "\n".join(asked))), strict=True)
        assert list(sizes) == [str(s.tensor.nbytes) for s in made.scratch]
        kinds = [line.partition(" ")[0] for line in asked]
        assert kinds == [
            *["malloc"] * len(names),
            *["launch"] * len(made.body),
            *["free"] * len(names),
            "returns",
        ]
        assert {line.split()[1] for line in asked if line.startswith("free")} == set(places)
        passed = " ".join(line for line in asked if line.startswith("launch")).split()
        assert set(places) <= set(passed)


def test_what_has_to_be_0_is_filled_by_each_call(tmp_path: Path) -> None:
    made = padded()
    sizes = [s.tensor.nbytes for s in made.scratch if s.is_zeroed]
    assert sizes
    for asked in calls(host(made, tmp_path)):
        lines = [line for line in asked if line.startswith("memset")]
        assert [int(line.split()[3]) for line in lines] == sizes
        for line, nbytes in zip(lines, sizes, strict=True):
            _, place, value, _ = line.split()[:4]
            assert value == "0"
            assert asked[asked.index(line) - 1].startswith(f"malloc {nbytes} ")
            assert asked[asked.index(line) - 1].endswith(f" gives {place}")


def test_much_shared_memory_is_asked_for_first(tmp_path: Path) -> None:
    tile = Tensor("tile", DType.F32, (16384,), (1,), is_output=True)
    made = replace(softmax(), body=tuple(replace(grid, shared=(tile,)) for grid in grids(softmax())))
    asked = [line for line in calls(host(made, tmp_path))[0] if line.startswith(("set", "launch"))]
    for grid, (first, second) in zip(grids(made), zip(asked[::2], asked[1::2], strict=True), strict=True):
        assert first == f"set {grid.name} cudaFuncAttributeMaxDynamicSharedMemorySize {64 << 10}"
        assert second.startswith(f"launch {grid.name} {grid.blocks} {grid.threads} {64 << 10} ")


def test_what_fails_first_is_returned_and_all_memory_given_back(tmp_path: Path) -> None:
    made = softmax()
    built = host(made, tmp_path)
    whole = calls(built)[0]
    for failing in range(1, len(whole)):
        asked, other = calls(built, failing)
        assert asked[-1] == "returns 700" and other[-1] == "returns 0"
        begun = [line for line in whole[:failing] if not line.startswith("free")]
        assert len([line for line in asked[:-1] if not line.startswith("free")]) == len(begun)
        given = {line.split()[-1] for line in asked if line.startswith("malloc")} - {"(nil)"}
        assert sorted(line.split()[1] for line in asked if line.startswith("free")) == sorted(given)


def test_where_something_has_failed_before_nothing_is_begun(tmp_path: Path) -> None:
    asked, _ = calls(host(softmax(), tmp_path), -1)
    assert asked == ["returns 700"]


@pytest.mark.parametrize(("compiler", "suffix"), [("gcc", "c"), ("g++", "cc")])
def test_the_header_declares_it_for_c_and_for_cpp(compiler: str, suffix: str, tmp_path: Path) -> None:
    made = softmax()
    header = print_header(made.name, made.tensors, made.parameters, is_for_gpu=True)
    (tmp_path / "best.h").write_text(header, encoding="utf-8")
    call = "cudaError_t called(cudaStream_t stream) { return softmax(0, 0, stream); }"
    (tmp_path / f"caller.{suffix}").write_text(f'#include "best.h"\n{call}\n', encoding="utf-8")
    include = f"-I{HERE / 'fake_runtime'}"
    subprocess.run([compiler, include, "-c", f"caller.{suffix}", "-o", "caller.o"], cwd=tmp_path, check=True)

"""Kernels that are compiled by themselves take what they take in their program, and are compiled once."""

from __future__ import annotations

import pytest

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.cuda import kernels_apart
from spacedsl.codegen.cuda.kernels_apart import FEW, KernelsApart
from spacedsl.codegen.cuda.nvrtc import Cubin, compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from tests.codegen.cuda.grids import device
from tests.codegen.pipeline.on_gpus import grids_of, schedule
from tests.kernels.pipeline.files import pipeline

CAPABILITY = device().compute_capability
FILE = pipeline(
    "a(x) = photo(x) * 3.0\nb(x) = a(x) + a(x + 1)\nc(x) = sqrt(b(x))\nd(x) = c(x) - c(x + 2)",
    "{d: {x: 4000}}",
    "{photo: {dtype: f32, rank: 1}}",
)
ROOTS = dict.fromkeys("abcd", "ROOT")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the compiler was given."""
    texts: list[str] = []

    def counted(code: str, capability: str) -> Cubin:
        texts.append(code)
        return compile_cubin(code, capability)

    monkeypatch.setattr(kernels_apart, "compile_cubin", counted)
    return texts


def test_kernels_take_what_they_take_in_their_program(compiled: list[str]) -> None:
    program = grids_of(FILE, schedule(FILE, ROOTS, {"c.x.TASK": 128}))
    found = KernelsApart(CAPABILITY).resources(program, print_cuda(program))
    assert found == compile_cubin(print_cuda(program), CAPABILITY).resources
    assert len(compiled) == len(found) == 4 > FEW


def test_a_kernel_that_was_compiled_is_known_in_other_programs(compiled: list[str]) -> None:
    apart = KernelsApart(CAPABILITY)
    for size in (128, 256, 128):
        program = grids_of(FILE, schedule(FILE, ROOTS, {"c.x.TASK": size}))
        apart.resources(program, print_cuda(program))
    assert len(compiled) == 5


def test_few_kernels_are_compiled_as_a_whole(compiled: list[str]) -> None:
    program = grids_of(FILE, schedule(FILE, {"a": "INLINE", "b": "INLINE", "c": "ROOT"}, {}))
    code = print_cuda(program)
    assert KernelsApart(CAPABILITY).resources(program, code).keys() and compiled == [code]


def test_what_the_compiler_refuses_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(code: str, capability: str) -> Cubin:
        raise BuildError("no")

    monkeypatch.setattr(kernels_apart, "compile_cubin", refusing)
    program = grids_of(FILE, schedule(FILE, ROOTS, {}))
    with pytest.raises(BuildError):
        KernelsApart(CAPABILITY).resources(program, print_cuda(program))

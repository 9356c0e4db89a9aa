"""Implementations for GPUs: random ones of a kernel's space, and the twins that run them on this CPU."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.cuda.twin import build_twin
from spacedsl.codegen.tree.program import Grid, Program
from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.language.loader import load_space
from spacedsl.search.bounds.domains import linalg_kernel
from spacedsl.search.orderings import branches_of, select_ordering

SPACE = Path("kernels/spaces/linalg_cuda.space")


@cache
def compiled() -> CompiledSpace:
    return compile_space(load_space(SPACE))


@cache
def device() -> GpuDevice:
    return load_gpu(DEVICES / "h100.yaml")


def space_of(kernel: KernelFile) -> Instance:
    return instantiate(compiled(), kernel.backbone, device(), Engine.NATIVE)


def on_tensor_cores(kernel: KernelFile) -> Candidate:
    """All implementations of a kernel whose sum of products is done there."""
    instance = space_of(kernel)
    candidate = instance.root()
    (fma,) = kernel.backbone.reductions
    for variable in instance.variables_of("dim_kind"):
        if variable.objects[0] in fma.dims and variable.objects[0] in kernel.backbone.fragment_dims:
            assert candidate is not None
            candidate = instance.restrict(candidate, variable, 1 << variable.universe.index("FRAGMENT"))
    assert candidate is not None
    return candidate


def in_blocks(instance: Instance, root: Candidate | None = None) -> Iterator[Candidate]:
    """The root once blocks share a reduction over an index, for each that they may share."""
    root = root or instance.root()
    assert root is not None
    for dim in (d for d in linalg_kernel(instance).dimensions if d.is_added_up):
        variable = instance.variable("dim_kind", dim)
        bit = 1 << [str(kind) for kind in variable.universe].index("BLOCK")
        if (found := instance.restrict(root, variable, bit)) is not None:
            yield found


def random_candidates(instance: Instance, count: int, seed: int) -> Iterator[Candidate]:
    """Complete ones; descents that end dead are not counted."""
    root = instance.root()
    assert root is not None
    return random_from(root, count, seed)


def random_from(
    root: Candidate, count: int, seed: int, descents: DescentCounts | None = None
) -> Iterator[Candidate]:
    """The same of those that are left of a candidate. `descents`: where all descents are counted."""
    descents = descents or DescentCounts()
    rule = select_ordering(root.instance, compiled().space, None)
    random = np.random.default_rng(seed)
    while count:
        candidate = random_descent(root.instance, root, branches_of(rule), random, descents)
        if candidate is not None:
            count -= 1
            yield candidate


def twin(program: Program, folder: Path, order: int = 0) -> ctypes.CDLL:
    """What has been loaded from a path is not loaded from it again: every twin has a path of its own."""
    library = Path(tempfile.mkdtemp(dir=folder)) / "program.so"
    return ctypes.CDLL(str(build_twin(print_cuda(program), library, order=order)))


def twins(programs: Sequence[Program], folder: Path, *flags: str) -> Path:
    """Programs in one library, which takes a fraction of the time: the n-th is called `program_n`."""
    texts = [
        f"namespace program_{number} {{\n{print_cuda(_renamed(program, number))}\n}}"
        for number, program in enumerate(programs)
    ]
    return build_twin("\n".join(texts), folder / "programs.so", extra_flags=flags, timeout_s=300)


def _renamed(program: Program, number: int) -> Program:
    grids = (replace(s, name=f"{s.name}_of_{number}") for s in program.body if isinstance(s, Grid))
    return replace(program, name=f"program_{number}", body=tuple(grids))


ORDERS = (0, 1, 3)
"""In which threads may be taken, of every kind one."""


def orders(library: ctypes.CDLL, chosen: Sequence[int] = ORDERS) -> Iterator[int]:
    """Takes the threads of what the library has in every kind of order, or in those chosen, in turn."""
    order = ctypes.c_uint.in_dll(library, "twin_order")
    for order.value in chosen:
        library.twin_forget()
        yield order.value

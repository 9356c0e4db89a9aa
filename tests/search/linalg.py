"""Kernels, a device with round numbers, and random descents for tests of bounds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.diagnostics import Source
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.device import AccessRate, ArithmeticRate, ChainLatency, CpuDevice, MemoryLevel, Mixture
from spacedsl.kernels.kernel_file import LINALG_SPACE, KernelFile, check_kernel
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import Branching, Ordering, StaticOrdering, select_ordering
from tests.products import product
from tests.rules import rules_of

AXPY = """
kernel: axpy
backbone: linalg
sizes: {n: 1048576}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n]}
  z: {dtype: f32, shape: [n], output: true}
params: {alpha: f32}
compute:
  - z[i] = alpha * x[i] + y[i]
tiling: {i: [[64], [16]]}
"""

MATMUL = product(64, 64, 2048, "{i: [[1, 2, 4]], j: [[1, 2, 4], [1, 16]], p: []}")

LONG = product(32, 32, 8192, "{i: [[2, 4]], j: [[16]], p: [[256], [4]]}")
"""Whose sums memory may add up."""

ONE_PASS = """
kernel: atax
backbone: linalg
sizes: {m: 1024, n: 512}
tensors:
  A: {dtype: f32, shape: [m, n]}
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n], output: true}
compute:
  - t[i] = sum[j](A[i, j] * x[j])
  - y[j] = sum[i](A[i, j] * t[i])
tiling: {i: [[4]], j: [[2, 4], [16]]}
"""

DOT = """
kernel: dot
backbone: linalg
sizes: {n: 1048576}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n]}
  s: {dtype: f32, shape: [], output: true}
compute:
  - s = sum[p](x[p] * y[p])
tiling: {p: [[16]]}
"""

ODD = product(37, 53, 523, "{i: [[2, 4], [1, 4]], j: [[1, 2, 4], [1, 16]], p: [[1, 4, 7]]}", name="odd")
"""No level of which ends where its index does."""

FEW = """
kernel: few
backbone: linalg
sizes: {h: 3, m: 5, n: 48, k: 600}
tensors:
  A: {dtype: f32, shape: [h, m, k]}
  B: {dtype: f32, shape: [h, k, n]}
  C: {dtype: f32, shape: [h, m, n], output: true}
compute:
  - C[b, i, j] = sum[p](A[b, i, p] * B[b, p, j])
tiling: {b: [], i: [], j: [[16]], p: [[4]]}
"""
"""Loops with few iterations, which are shared out together."""

SHIFTED = """
kernel: shifted
backbone: linalg
sizes: {m: 64, n: 512}
tensors:
  X: {dtype: f32, shape: [m, n]}
  Y: {dtype: f32, shape: [m, n], output: true}
compute:
  - top[i] = max[j](X[i, j])
  - Y[i, j] = X[i, j] - top[i]
tiling: {i: [[2, 4]], j: [[16]]}
"""
"""Two nests, whose loops over rows can be one."""

SCALED = """
kernel: scaled
backbone: linalg
sizes: {m: 64, n: 4096}
tensors:
  A: {dtype: f32, shape: [m, n]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - T[i, j] = 2.5 * A[i, j]
  - y[i] = sum[p](T[i, p] * T[i, p])
tiling: {i: [[2, 4]], j: [[16]], p: [[16]]}
"""
"""A product whose result is kept in memory and read again when all of it is there."""


def mixtures(one: float, every: float, *shares: float, is_streamed: bool = False) -> tuple[Mixture, ...]:
    """The same rates for each share of the bytes that are stored."""
    return tuple(
        Mixture(stored=share, is_streamed=is_streamed, bytes_per_ns=one, bytes_per_ns_all=every)
        for share in shares
    )


DEVICE = CpuDevice(
    name="round",
    threads=2,
    vector_bytes=64,
    vector_registers=32,
    arithmetic=(
        ArithmeticRate(dtype="f32", lanes=1, instructions_per_ns=4, unit="multiply"),
        ArithmeticRate(dtype="f32", lanes=1, instructions_per_ns=4, unit="add"),
        ArithmeticRate(dtype="f32", lanes=1, instructions_per_ns=8, unit="any"),
        ArithmeticRate(dtype="f32", lanes=16, instructions_per_ns=2, unit="multiply"),
        ArithmeticRate(dtype="f32", lanes=16, instructions_per_ns=2, unit="add"),
        ArithmeticRate(dtype="f32", lanes=16, instructions_per_ns=4, unit="any"),
    ),
    accesses=(
        AccessRate(kind="load", nbytes=4, instructions_per_ns=4),
        AccessRate(kind="load", nbytes=64, instructions_per_ns=2),
        AccessRate(kind="store", nbytes=4, instructions_per_ns=2),
        AccessRate(kind="store", nbytes=64, instructions_per_ns=1),
    ),
    latencies=(ChainLatency(dtype="f32", latency_ns=1),),
    memory=(
        MemoryLevel(
            name="L1",
            capacity_bytes=1 << 16,
            bytes_per_ns=100,
            bytes_per_ns_all=200,
            mixtures=mixtures(150, 300, 1 / 3, 1),
        ),
        MemoryLevel(
            name="L2",
            capacity_bytes=1 << 20,
            bytes_per_ns=50,
            bytes_per_ns_all=100,
            mixtures=mixtures(50, 100, 1),
        ),
        MemoryLevel(
            name="DRAM",
            capacity_bytes=None,
            bytes_per_ns=10,
            bytes_per_ns_all=20,
            mixtures=mixtures(12, 24, 1 / 6, 1),
        ),
    ),
)


def with_caches(*core_bytes: int) -> CpuDevice:
    """The round device with two private caches of these sizes a core, and slow memory behind them."""
    memory = tuple(
        level.model_copy(
            update={"capacity_bytes": None if nbytes is None else 2 * nbytes, "core_bytes": nbytes}
        )
        for level, nbytes in zip(DEVICE.memory, (*core_bytes, None), strict=True)
    )
    return DEVICE.model_copy(update={"memory": memory})


def parse(text: str) -> KernelFile:
    return check_kernel(Source("kernel.yaml", text), Path("kernel.yaml"), {})


@functools.cache
def compiled() -> CompiledSpace:
    return compile_space(load_space(LINALG_SPACE))


def instance_of(text: str, device: CpuDevice = DEVICE) -> Instance:
    return instantiate(compiled(), parse(text).backbone, device, Engine.NATIVE)


def instance_under(
    folder: Path, text: str, *changes: tuple[str, str], device: CpuDevice = DEVICE
) -> Instance:
    """An instance of a kernel under changed rules: pairs of old and new text of `linalg.space`."""
    rules = rules_of()
    for old, new in changes:
        assert rules.count(old) == 1
        rules = rules.replace(old, new)
    space = folder / "changed.space"
    space.write_text(rules, encoding="utf-8")
    return instantiate(compile_space(load_space(space)), parse(text).backbone, device)


def root(instance: Instance) -> Candidate:
    candidate = instance.root()
    assert candidate is not None
    return candidate


def decide(instance: Instance, candidate: Candidate, choice: str, dim: str, *values: str | int) -> Candidate:
    decided = instance.decide(candidate, Decision(choice, (dim,), values))
    assert decided is not None
    return decided


def ordering_of(instance: Instance) -> Ordering:
    return select_ordering(instance, compiled().space)


@functools.cache
def native(text: str) -> Instance:
    return instantiate(compiled(), parse(text).backbone, DEVICE, Engine.NATIVE)


def descent(
    instance: Instance, random: np.random.Generator, start: Candidate | None = None
) -> Iterator[Candidate]:
    """The candidates of a random descent, the last one complete; what leads to nothing is passed over."""
    ordering = ordering_of(instance)

    def children(candidate: Candidate) -> Iterator[Candidate]:
        branching = ordering.next(candidate)
        if branching is None:
            return
        for i in random.permutation(len(branching.masks)):
            child = instance.restrict(candidate, branching.variable, branching.masks[i])
            if child is not None:
                yield child

    candidate = start or root(instance)
    path, others = [candidate], [children(candidate)]
    while ordering.next(path[-1]) is not None:
        child = next(others[-1], None)
        if child is not None:
            path.append(child)
            others.append(children(child))
        else:
            path.pop()
            others.pop()
    yield from path


def any_descent(
    instance: Instance,
    random: np.random.Generator,
    ordering: str | None = None,
    start: Candidate | None = None,
    arrange: Callable[[Branching, list[int]], None] | None = None,
) -> Iterator[Candidate]:
    """As `descent`, by any ordering and from any candidate, in another order of values; it may end early."""
    chosen = select_ordering(instance, compiled().space, ordering)
    assert isinstance(chosen, StaticOrdering)
    candidate: Candidate | None = start or root(instance)
    while candidate is not None:
        yield candidate
        branching = chosen.next(candidate)
        if branching is None:
            return
        masks = [branching.masks[i] for i in random.permutation(len(branching.masks))]
        if arrange is not None:
            arrange(branching, masks)
        children = (instance.restrict(candidate, branching.variable, mask) for mask in masks)
        candidate = next((child for child in children if child is not None), None)


ELEMENTWISE = """
kernel: elementwise
backbone: linalg
sizes: {{n: 100}}
tensors:
  {inputs}
  y: {{dtype: {dtype}, shape: [n], output: true}}
  z: {{dtype: {dtype}, shape: [n], output: true}}
compute:
  - y[i] = {y}
  - z[i] = {z}
"""


def elementwise(y: str, z: str = "c[i]", dtype: str = "f32") -> Kernel:
    read = [name for name in "abc" if f"{name}[" in y + z]
    inputs = "\n  ".join(f"{name}: {{dtype: {dtype}, shape: [n]}}" for name in read)
    return parse(ELEMENTWISE.format(y=y, z=z, dtype=dtype, inputs=inputs)).backbone

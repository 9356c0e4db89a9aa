"""Micro-kernels that wait for one resource of a GPU each: kernel files and the decisions that make them wait.

For `bound_tightness.py`. They are large enough that the start of a kernel is a small part of their time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spacedsl.engine.decision import Decision

SUM = """
kernel: total
backbone: linalg
sizes: {{n: 65536}}
tensors:
  x: {{dtype: f32, shape: [n]}}
  s: {{dtype: f32, shape: [], output: true}}
compute:
  - s = {reduce}[p](x[p])
tiling: {{p: [[1, 8, 32, 256]]}}
"""

TWO_SUMS = """
kernel: two_sums
backbone: linalg
sizes: {{m: 32, n: 16384}}
tensors:
  A: {{dtype: f32, shape: [n, m]}}
  B: {{dtype: f32, shape: [n, m]}}
  y: {{dtype: f32, shape: [m], output: true}}
  z: {{dtype: f32, shape: [m], output: true}}
compute:
  - t[i] = sum[p](A[p, i])
  - y[i] = 2 * t[i]
  - z[i] = sum[q](B[q, i] * {factor})
tiling: {{i: [], p: [], q: []}}
"""

ELEMENTS = """
kernel: elements
backbone: linalg
sizes: {{m: {rows}, n: 4096}}
tensors:
  A: {{dtype: f32, shape: [m, n]}}
  C: {{dtype: f32, shape: [m, n], output: true}}
compute:
  - C[i, j] = 3 * A[i, j]
tiling: {{i: [[1, 64]], j: [[64], [1, 4]]}}
"""

COLUMNS = """
kernel: columns
backbone: linalg
sizes: {m: 135168, n: 64}
tensors:
  A: {dtype: f32, shape: [n, m]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - y[i] = sum[p](exp(A[p, i]) * exp(3 * A[p, i]))
tiling: {i: [[256]], p: []}
"""

PRODUCT = """
kernel: product
backbone: linalg
sizes: {{m: 1024, n: 1024, k: 2048}}
tensors:
  A: {{dtype: {dtype}, shape: [m, k]}}
  B: {{dtype: {dtype}, shape: [k, n]}}
  C: {{dtype: {dtype}, shape: [m, n], output: true}}
compute:
  - C[i, j] = sum[p](A[i, p] * B[p, j])
tiling: {{i: {i}, j: {j}, p: {p}}}
precision: {precision}
"""


TWO_LOOPS = """
kernel: two_loops
backbone: linalg
sizes: {n: 256}
tensors:
  A: {dtype: f32, shape: [n, n]}
  s: {dtype: f32, shape: [], output: true}
compute:
  - s = sum[p, q](A[p, q])
tiling: {p: [], q: []}
"""

APART = """
kernel: apart
backbone: linalg
sizes: {{n: 1048576}}
tensors:
  x: {{dtype: f32, shape: [n], strides: [{stride}]}}
  y: {{dtype: f32, shape: [n], output: true}}
compute:
  - y[i] = 3 * x[i]
tiling: {{i: [[64]]}}
"""

SQUARES = """
kernel: squares
backbone: linalg
sizes: {m: 2048, n: 2048}
tensors:
  A: {dtype: f32, shape: [m, n]}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - C[i, j] = 3 * A[i, j]
tiling: {i: [[16]], j: [[32]]}
"""

Choices = tuple[str, ...]
OF_DIMENSIONS: Choices = ("dim_kind", "size", "thread_stride")
OF_STORAGE: Choices = ("storage", "padding")
OF_SUMS: Choices = ("accumulation",)
STORAGE, ACCUMULATION = ("REGISTERS", "SHARED", "GLOBAL"), ("CHAINED", "SPLIT")


@dataclass(frozen=True, slots=True)
class GpuCase:
    """`decided`: a line for each instruction, with kinds, sizes and strides of threads, or where its value is
    stored, and how that is padded: `fma: i0 BLOCK 8, i1 THREAD 32 1`, `load_A: SHARED WORD`.
    """

    name: str
    term: str
    kernel: str
    decided: str

    def decisions(self) -> tuple[Decision, ...]:
        found: list[Decision] = []
        for line in self.decided.splitlines():
            instruction, _, items = line.partition(": ")
            for item in items.split(", "):
                for choice, about, word in _taken(instruction, item.split()):
                    value = int(word) if word.isdigit() else word
                    found.append(Decision(choice, (about,), (value,)))
        return tuple(found)


def _taken(instruction: str, words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Choices, what they are about, and their values."""
    about, choices, values = f"{instruction}.{words[0]}", OF_DIMENSIONS, words[1:]
    if words[0] in STORAGE:
        about, choices, values = instruction, OF_STORAGE, words
    elif words[0] in ACCUMULATION:
        about, choices, values = instruction, OF_SUMS, words
    yield from ((choice, about, value) for choice, value in zip(choices, values, strict=False))


def product(copies: int) -> str:
    side = f"[[16], [{copies}]]" if copies > 1 else "[[16]]"
    return PRODUCT.format(i=side, j=side, p="[[16]]", dtype="f32", precision="full")


def copied(copies: int) -> str:
    """A nest of 16 x 16 threads that copy a body, in blocks."""
    kinds = f", {{0}}2 UNROLL {copies}" if copies > 1 else ""
    return ", ".join(f"{x}0 BLOCK, {x}1 THREAD 16{kinds.format(x)}" for x in "ij")


ROWS = "mul: i0 BLOCK, i1 THREAD 64, j0 LOOP, j1 LOOP, j2 LOOP 1"
NEIGHBOURS = "mul: i0 BLOCK, i1 LOOP 1, j0 BLOCK, j1 THREAD 64, j2 LOOP 1"
SIDE_BY_SIDE = "mul: i0 BLOCK, i1 THREAD 64"
CASES = (
    GpuCase("a sum of one thread", "latency", SUM.format(reduce="sum"), "add: p0 LOOP, p1 LOOP 1"),
    GpuCase(
        "a product of one thread, unrolled",
        "latency",
        SUM.format(reduce="prod"),
        "mul: p0 LOOP, p1 UNROLL 32",
    ),
    GpuCase("two loops of one thread", "latency", TWO_LOOPS, "add: p0 LOOP, q0 LOOP"),
    GpuCase(
        "a sum of one thread in 32 parts",
        "latency",
        SUM.format(reduce="sum"),
        "add: p0 LOOP, p1 UNROLL 32, SPLIT",
    ),
    GpuCase(
        "two sums, side by side or not",
        "latency",
        TWO_SUMS.format(factor="2"),
        "add: i0 THREAD, p0 LOOP\nfma: i0 THREAD, q0 LOOP",
    ),
    GpuCase(
        "two sums, one after the other",
        "sums",
        TWO_SUMS.format(factor="t[i]"),
        "add: i0 THREAD, p0 LOOP\nfma: i0 THREAD, q0 LOOP",
    ),
    GpuCase(
        "a sum of 256 threads",
        "memory units",
        SUM.format(reduce="sum"),
        "load_x: REGISTERS\nadd: p0 LOOP, p1 THREAD 256",
    ),
    GpuCase(
        "elements of neighbours",
        "L2",
        ELEMENTS.format(rows=1024),
        f"load_A: REGISTERS\n{NEIGHBOURS}",
    ),
    GpuCase(
        "elements of rows",
        "L1",
        ELEMENTS.format(rows=1024),
        f"load_A: REGISTERS\n{ROWS}",
    ),
    GpuCase(
        "threads of columns inside those of rows",
        "L2",
        SQUARES,
        "load_A: REGISTERS\nmul: i0 BLOCK, i1 THREAD 16 32, j0 LOOP, j1 THREAD 32 1",
    ),
    GpuCase(
        "threads of rows inside those of columns",
        "L1",
        SQUARES,
        "load_A: REGISTERS\nmul: i0 BLOCK, i1 THREAD 16 1, j0 LOOP, j1 THREAD 32 16",
    ),
    GpuCase("a sector for each thread", "L2", APART.format(stride=8), f"load_x: REGISTERS\n{SIDE_BY_SIDE}"),
    GpuCase("a line for each thread", "L2", APART.format(stride=32), f"load_x: REGISTERS\n{SIDE_BY_SIDE}"),
    GpuCase(
        "more than the L2 cache keeps",
        "DRAM",
        ELEMENTS.format(rows=1 << 15),
        f"load_A: REGISTERS\n{NEIGHBOURS}",
    ),
    GpuCase("exponentials", "special units", COLUMNS, "fma: i0 BLOCK, i1 THREAD 256, p0 LOOP"),
    GpuCase(
        "a product, each element by itself",
        "memory units",
        product(1),
        f"load_A: REGISTERS\nload_B: REGISTERS\nfma: {copied(1)}, p0 LOOP, p1 LOOP",
    ),
    GpuCase(
        "a product, tiles of a block",
        "shared memory",
        product(1),
        f"load_A: SHARED\nload_B: SHARED\nfma: {copied(1)}, p0 LOOP, p1 LOOP",
    ),
    GpuCase(
        "a product, tiles of padded rows",
        "shared memory",
        product(1),
        f"load_A: SHARED WORD\nload_B: SHARED\nfma: {copied(1)}, p0 LOOP, p1 LOOP",
    ),
    GpuCase(
        "a product, tiles, 2 x 2 of a thread",
        "shared memory",
        product(2),
        f"load_A: SHARED\nload_B: SHARED\nfma: {copied(2)}, p0 LOOP, p1 LOOP",
    ),
    GpuCase(
        "a product, tiles, 8 x 8 of a thread",
        "issue",
        product(8),
        f"load_A: SHARED\nload_B: SHARED\nfma: {copied(8)}, p0 LOOP, p1 LOOP",
    ),
    GpuCase(
        "a product on tensor cores",
        "tensor cores",
        PRODUCT.format(i="[[4], [4], [8]]", j="[[2], [4], [8]]", p="[[8]]", dtype="bf16", precision="tensor"),
        "load_A: SHARED\nload_B: SHARED\nfma: i0 BLOCK, i1 THREAD, i2 UNROLL, i3 FRAGMENT, "
        "j0 BLOCK, j1 THREAD, j2 UNROLL, j3 FRAGMENT, p0 LOOP, p1 FRAGMENT",
    ),
)

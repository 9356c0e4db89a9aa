"""What the printer of CUDA promises to compilers, and what it asks them to do."""

from __future__ import annotations

import pytest

from spacedsl.codegen.cuda import printer
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.tree.expressions import Add, Index, Load, LoadMatrix, Number, Register, Type
from spacedsl.codegen.tree.program import (
    Assign,
    Barrier,
    Coordinate,
    Grid,
    Loop,
    Multiply,
    PerThread,
    Program,
    Statement,
    Store,
    Where,
)
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.tensors import Scratch, Tensor

F32, BITS = Type(DType.F32), Type(DType.U32)
AT = Index(0, (("t", 1),))
A = Tensor("A", DType.F32, (64,), (1,), is_output=False)
C = Tensor("C", DType.F32, (64,), (1,), is_output=True)
BETWEEN = Tensor("between", DType.F32, (64,), (1,), is_output=True)
TILE = Tensor("tile", DType.BF16, (4096,), (1,), is_output=True)
SHARED = Tensor("shared", DType.F32, (64,), (1,), is_output=True)


def printed(*body: Statement) -> str:
    grid = Grid(
        "k_0", 1, 64, (Coordinate("t", False, 1, 64), Coordinate("row", False, 1, 8)), (TILE, SHARED), body
    )
    return print_cuda(Program("k", (A, C), (), (grid,), scratch=(Scratch(BETWEEN, False),)))


def load(tensor: str) -> Load:
    return Load(tensor, AT, F32)


def test_what_others_change_is_promised_to_nobody() -> None:
    """What one thread has stored behind a barrier another one may not have loaded before it."""
    one = Where(((0, 1, 64),), (Store("between", AT, load("A")),))
    (head,) = (
        line
        for line in printed(one, Barrier(), Store("C", AT, load("between"))).splitlines()
        if "__global__" in line
    )
    assert "const float *__restrict__ A" in head
    assert "float *__restrict__ C" in head
    assert "float *between" in head


@pytest.mark.parametrize(("extent", "inner", "is_told"), [(8, 4, [True, True]), (400, 4, [False, True])])
def test_short_loops_are_to_be_unrolled(extent: int, inner: int, is_told: list[bool]) -> None:
    x = Register("x", F32)
    add = Assign(x, Add(x, load("A")))
    text = printed(
        Assign(x, Number(0.0, F32)), Loop("p", extent, (Loop("q", inner, (add,)),)), Store("C", AT, x)
    )
    lines = [line.strip() for line in text.splitlines()]
    loops = [n for n, line in enumerate(lines) if line.startswith("for (")]
    assert [lines[n - 1] == "#pragma unroll" for n in loops] == is_told
    assert (extent * inner <= printer.UNROLLED) == is_told[0]


@pytest.mark.parametrize(
    ("tensor", "extent", "told"),
    [("A", 128, "#pragma unroll"), ("A", 200, "#pragma unroll 128"), ("shared", 200, "#pragma unroll")],
)
def test_no_more_is_loaded_ahead_than_there_are_registers(tensor: str, extent: int, told: str) -> None:
    """What comes from memory of the device would be loaded before anything is computed, all of it."""
    x = Register("x", F32)
    loop = Loop("p", extent, (Assign(x, Add(x, load(tensor))),))
    lines = [
        line.strip() for line in printed(Assign(x, Number(0.0, F32)), loop, Store("C", AT, x)).splitlines()
    ]
    assert lines[next(n for n, line in enumerate(lines) if line.startswith("for (")) - 1] == told


@pytest.mark.parametrize(
    ("spans", "printed_as"),
    [
        (((0, 1, 64),), "threadIdx.x == 0"),
        (((0, 1, 32),), "threadIdx.x % 32 == 0"),
        (((3, 4, 64),), "threadIdx.x == 3"),
        (((0, 48, 256),), "threadIdx.x < 48"),
        (((0, 16, 32), (32, 64, 64)), "threadIdx.x % 32 < 16 && threadIdx.x >= 32"),
        (((16, 32, 64),), "threadIdx.x / 16 == 1"),
        (((16, 32, 32),), "threadIdx.x % 32 >= 16"),
        (((5, 12, 32),), "threadIdx.x % 32 >= 5 && threadIdx.x % 32 < 12"),
    ],
)
def test_a_condition_says_no_more_than_a_block_needs(
    spans: tuple[tuple[int, int, int], ...], printed_as: str
) -> None:
    """Of 64 threads: each of them is in as many spans as the condition says."""
    text = printed(Where(spans, (Store("C", AT, load("A")),)))
    assert f"  if ({printed_as}) {{" in text.splitlines()
    condition = printed_as.replace("&&", "and").replace("/", "//")
    for thread in range(64):
        said = eval(condition.replace("threadIdx.x", str(thread)))
        assert said == all(low <= thread % period < high for low, high, period in spans)


@pytest.mark.parametrize(
    ("threads", "head"), [(64, "{"), (63, "if (threadIdx.x < 63) {"), (1, "if (threadIdx.x == 0) {")]
)
def test_what_all_threads_do_for_themselves_has_no_condition(threads: int, head: str) -> None:
    own = PerThread(
        (Coordinate("own", False, 1, threads),), (Store("C", Index(0, (("own", 1),)), load("A")),)
    )
    lines = [line.strip() for line in printed(own).splitlines()]
    assert lines[lines.index(f"const int own = {'threadIdx.x' if threads > 1 else '0'};") - 1] == head


def matrix(name: str, constant: int, *, is_transposed: bool = False) -> Assign:
    index = Index(constant, (("row", 8),))
    return Assign(Register(name, BITS), LoadMatrix("tile", index, DType.BF16, is_transposed=is_transposed))


def product(rows: int, terms: tuple[str, ...], columns: tuple[str, ...]) -> Multiply:
    result = tuple(Register(f"c{rows}{n}", F32) for n in range(len(terms)))
    return Multiply(
        result,
        tuple(Register(name, BITS) for name in terms),
        tuple(Register(name, BITS) for name in columns),
        DType.BF16,
    )


def loads_of(*body: Statement) -> list[str]:
    return [line.strip() for line in printed(*body).splitlines() if line.strip().startswith("load_matrices<")]


def test_an_instruction_loads_what_a_product_takes() -> None:
    """Whatever order they are loaded in: registers of an operand are neighbours."""
    loads = [matrix("a0", 0), matrix("a1", 512), matrix("a2", 1024), matrix("a3", 1536)]
    taken = product(0, ("a0", "a2", "a1", "a3"), ("b0", "b1"))
    others = [matrix("b0", 2048, is_transposed=True), matrix("b1", 2112, is_transposed=True)]
    of_a, of_b = loads_of(*loads, *others, taken)
    row = "row * 8 + threadIdx.x / 8 % 2"
    assert of_a == f"load_matrices<0>(&tile[{row} * 1024 + threadIdx.x / 16 % 2 * 512], a0, a2, a1, a3);"
    assert of_b == "load_matrices<1>(&tile[row * 8 + 2048 + threadIdx.x / 8 % 2 * 64], b0, b1);"


def test_two_small_operands_come_together_where_they_lie_alike() -> None:
    pairs = [product(n, (f"a{n}",), (f"b{2 * n}", f"b{2 * n + 1}")) for n in range(2)]
    loads = [matrix(f"b{n}", at, is_transposed=True) for n, at in enumerate((0, 64, 128, 192))]
    given = [Assign(Register(f"a{n}", BITS), Number(0.0, BITS)) for n in range(2)]
    assert len(loads_of(*given, *loads, *pairs)) == 1
    apart = [matrix(f"b{n}", at, is_transposed=True) for n, at in enumerate((0, 64, 128, 256))]
    assert len(loads_of(*given, *apart, *pairs)) == 2

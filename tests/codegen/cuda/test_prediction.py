"""What the model of a GPU counts: sectors and passes of the accesses of a warp, room on an SM, time."""

from __future__ import annotations

import pytest

from spacedsl.codegen.cuda.prediction import USUAL, Prediction, predict, resident_blocks
from spacedsl.codegen.tree.expressions import Fma, Index, Load, Register, Type
from spacedsl.codegen.tree.program import Assign, Coordinate, Grid, Loop, Program, Statement, Store
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.gpu_device import SECTOR_BYTES
from spacedsl.kernels.tensors import Tensor

H100 = load_gpu(DEVICES / "h100.yaml")
F32 = Type(DType.F32)
X, Y = Register("x", F32), Register("y", F32)
IN = Tensor("A", DType.F32, (1 << 16,), (1,), is_output=False)
OUT = Tensor("C", DType.F32, (1 << 16,), (1,), is_output=True)
TILE = Tensor("tile", DType.F32, (2048,), (1,), is_output=True)


def grid(*body: Statement, threads: int = 32, blocks: int = 1, shared: tuple[Tensor, ...] = ()) -> Grid:
    coordinates = (Coordinate("b", True, 1, blocks), Coordinate("t", False, 1, threads))
    return Grid("grid", blocks, threads, coordinates, shared, body)


def predicted(one: Grid) -> Prediction:
    return predict(Program("kernel", (IN, OUT), (), (one,)), H100)


def term(one: Grid, resource: str) -> float:
    ((_, terms),) = predicted(one).terms
    return next(t.time_ns for t in terms if t.resource == resource)


def load(tensor: str, stride: int, lanes: int = 1) -> Assign:
    kind = Type(DType.F32, lanes)
    return Assign(Register("x", kind), Load(tensor, Index(0, (("t", stride),)), kind))


@pytest.mark.parametrize(
    ("stride", "lanes", "cycles"),
    [(0, 1, 1), (1, 1, 1), (2, 1, 2), (4, 1, 4), (33, 1, 8), (0, 4, 4), (4, 4, 4), (8, 4, 8), (16, 4, 16)],
)
def test_cycles_of_the_l1_cache(stride: int, lanes: int, cycles: int) -> None:
    """As an H200 takes, about: it has banks, looks up four lines at a time, and serves quarters of a warp."""
    one = term(grid(load("A", 0)), "L1")
    assert term(grid(load("A", stride, lanes)), "L1") == pytest.approx(cycles * one)


@pytest.mark.parametrize(
    ("outer", "inner", "sectors", "passes"),
    [
        pytest.param((4, 0), (8, 1), 4, 1, id="rows of the same elements"),
        pytest.param((4, 1), (8, 0), 4, 1, id="the same element in a row"),
        pytest.param((4, 4), (4, 0), 4, 1, id="every fourth, four times each"),
        pytest.param((4, 64), (8, 1), 16, 4, id="rows that lie apart"),
        pytest.param((8, 1), (4, 64), 16, 4, id="columns"),
        pytest.param((4, 72), (8, 1), 4, 1, id="rows in banks of their own"),
    ],
)
def test_what_threads_of_two_dimensions_touch(
    outer: tuple[int, int], inner: tuple[int, int], sectors: int, passes: int
) -> None:
    """Pairs: threads of a dimension, and elements between two of them."""
    index = Index(0, (("a", outer[1]), ("b", inner[1])))

    def of(tensor: str) -> Grid:
        coordinates = (Coordinate("a", False, inner[0], outer[0]), Coordinate("b", False, 1, inner[0]))
        body = (Assign(X, Load(tensor, index, F32)),)
        return Grid("grid", 1, outer[0] * inner[0], coordinates, (TILE,), body)

    cycles_ns = 1 / H100.clock_ghz
    assert term(of("A"), "L1") == pytest.approx(sectors * 32 / H100.l1_bytes_per_cycle * cycles_ns)
    assert term(of("tile"), "shared memory") == pytest.approx(passes * cycles_ns / USUAL["shared memory"])


@pytest.mark.parametrize(
    ("stride", "lanes", "passes"),
    [(0, 1, 1), (1, 1, 1), (2, 1, 2), (16, 1, 16), (32, 1, 32), (33, 1, 1), (4, 4, 4), (2, 2, 2), (0, 4, 2)],
)
def test_passes_of_shared_memory(stride: int, lanes: int, passes: int) -> None:
    one = term(grid(load("tile", 0), shared=(TILE,)), "shared memory")
    assert term(grid(load("tile", stride, lanes), shared=(TILE,)), "shared memory") == passes * one


def test_an_sm_has_room_for_what_its_threads_take() -> None:
    assert resident_blocks(grid(threads=256), H100, 32) == 8
    assert resident_blocks(grid(threads=256), H100, 128) == 2
    assert resident_blocks(grid(threads=32), H100, 16) == 32
    huge = Tensor("tile", DType.F32, (28 << 10,), (1,), is_output=True)
    assert resident_blocks(grid(threads=64, shared=(huge,)), H100, 16) == 2


def test_more_work_takes_longer_and_more_blocks_share_it() -> None:
    fma = Assign(Y, Fma(X, X, Y))
    start = load("A", 1)

    def time_ns(count: int, blocks: int) -> float:
        body = (start, Assign(Y, X), Loop("p", count, (fma,) * 8), Store("C", Index(0, (("t", 1),)), Y))
        return predicted(grid(*body, threads=256, blocks=blocks)).time_ns

    assert time_ns(100, 132) < time_ns(200, 132)
    assert time_ns(1000, 132) == pytest.approx(time_ns(1000, 1), rel=0.05)
    assert time_ns(1000, 132 * 16) > 1.9 * time_ns(1000, 132 * 8)


def test_what_the_l1_cache_keeps_comes_once() -> None:
    """Of 32 rows, a warp loads an element each in every iteration: of eight neighbours, one sector."""
    rows = Index(0, (("t", 1 << 11), ("p", 1)))

    def moved(extent: int) -> float:
        return term(grid(Loop("p", extent, (Assign(X, Load("A", rows, F32)),))), "L2")

    assert moved(8) == pytest.approx(moved(1))
    assert moved(64) == pytest.approx(8 * moved(1))


def test_what_it_cannot_keep_comes_again() -> None:
    """Rows that are so long that their sectors of an iteration are gone when the loop around begins anew."""
    elements = Index(0, (("t", 8), ("p", 256)))

    def moved(extent: int) -> float:
        inner = Loop("p", extent, (Assign(X, Load("A", elements, F32)),))
        return term(grid(Loop("q", 10, (inner,))), "L2")

    assert moved(4) == pytest.approx(4 * 32 * SECTOR_BYTES / H100.l2_bytes_per_ns / USUAL["L2"])
    assert moved(200) == pytest.approx(10 * 200 * 32 * SECTOR_BYTES / H100.l2_bytes_per_ns / USUAL["L2"])

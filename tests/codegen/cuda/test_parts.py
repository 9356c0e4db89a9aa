"""What threads of a block do for themselves: what is refused, where they wait, positions, predictions."""

from __future__ import annotations

import pytest

from spacedsl.codegen.cuda.barriers import waiting
from spacedsl.codegen.cuda.positions import index_type
from spacedsl.codegen.cuda.prediction import LAUNCH, predict
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import Index, Load, Number, Position, Register, Type
from spacedsl.codegen.tree.program import (
    Assign,
    Barrier,
    Coordinate,
    Grid,
    Let,
    PerThread,
    Program,
    Statement,
    Store,
    Sweep,
    When,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import extreme, quotient, variable
from spacedsl.kernels.tensors import Tensor

H100 = load_gpu(DEVICES / "h100.yaml")
F32 = Type(DType.F32)
OUT = Tensor("out", DType.F32, (8, 4, 64), (256, 64, 1), is_output=True)
TILE = Tensor("tile", DType.F32, (4, 16), (16, 1), is_output=True)
OWN = Tensor("own", DType.F32, (4,), (1,), is_output=True)
BLOCK = Coordinate("b", True, 1, 8)
THREADS = (Coordinate("y", False, 16, 4), Coordinate("x", False, 1, 16))


def program(*body: Statement, threads: int = 64) -> Program:
    grid = Grid("k_0", 8, threads, (BLOCK,), (TILE,), body, (OWN,))
    return Program("k", (OUT,), (), (grid,))


def store(tensor: str = "out", constant: int = 0, **strides: int) -> Store:
    return Store(tensor, Index(constant, tuple(strides.items())), Number(1.0, F32))


def part(*body: Statement, coordinates: tuple[Coordinate, ...] = THREADS) -> PerThread:
    return PerThread(coordinates, body)


def refused(*body: Statement, threads: int = 64) -> str:
    with pytest.raises(VerificationError) as caught:
        verify(program(*body, threads=threads))
    return str(caught.value)


EACH = store(b=256, y=64, x=1)
"""An element for each thread."""


def test_threads_that_store_to_elements_of_their_own_are_right() -> None:
    verify(program(part(EACH)))
    verify(program(part(store("own"), store("tile", y=16, x=1), EACH)))
    guarded = Sweep("p", variable("x") * 4, extreme("min", variable("x") * 4, Position(37)), 1, (
        store(b=256, p=1),
    ))  # fmt: skip
    verify(program(part(guarded, coordinates=THREADS[1:])))


def test_threads_do_not_store_to_the_same_elements() -> None:
    assert "threads that differ in y may store to the same out" in refused(part(store(b=256, x=1)))
    assert "threads that differ in x may store to the same tile" in refused(part(store("tile", y=16)))
    assert "blocks that differ in b may store to the same out" in refused(part(store(y=64, x=1)))
    inner = Sweep("p", Position(0), Position(2), 1, (store(b=256, y=64, x=1, p=1),))
    assert "threads that differ in x" in refused(part(inner))


def test_a_barrier_stands_where_all_threads_come() -> None:
    uniform = Sweep("p", Position(0), variable("b"), 1, (Barrier(),))
    verify(program(part(EACH), uniform, When((variable("b"),), (Barrier(),))))
    assert "a barrier that not all threads of a block come to" in refused(part(EACH, Barrier()))


def test_coordinates_tell_as_many_threads_apart_as_there_are() -> None:
    assert "64 threads of the 32 in k_0" in refused(part(EACH), threads=32)
    twice = (Coordinate("y", False, 8, 4), Coordinate("x", False, 1, 16))
    assert "not told apart" in refused(part(EACH, coordinates=twice))
    assert "threads that are by themselves" in refused(part(part(EACH), coordinates=()))


def read(tensor: str) -> Assign:
    return Assign(Register("v", F32), Load(tensor, Index(0), F32))


def waited(*body: Statement) -> tuple[Statement, ...]:
    return waiting(body, {"tile"}, writes_again=True)


def test_threads_wait_between_parts_and_never_inside() -> None:
    write, again = part(store("tile")), part(store("tile"), read("tile"))
    assert waited(write, again) == (write, Barrier(), again)
    assert waited(write, part(store("tile"))) == (write, Barrier(), part(store("tile")))
    assert waited(part(read("tile")), part(read("tile"))) == (part(read("tile")), part(read("tile")))


def test_a_sweep_may_have_no_iteration_to_wait_in() -> None:
    write, use = part(store("tile")), part(read("tile"))
    sweep = Sweep("p", Position(0), variable("b"), 1, (use, write))
    before, inside, after = waited(write, sweep, use)[0], waited(write, sweep, use)[1:-1], use
    assert before == write and after == use
    (swept,) = (s for s in inside if isinstance(s, Sweep))
    assert swept.body == (Barrier(), use, Barrier(), write)
    assert inside[-1] == Barrier()


@pytest.mark.parametrize(("step", "wide"), [(1 << 20, "int"), (1 << 30, "long long")])
def test_positions_are_as_wide_as_what_they_are_made_of(step: int, wide: str) -> None:
    """Also where they are divided again."""
    far = Let("p", quotient(variable("b") * step, step - 1))
    assert index_type(program(part(far, EACH))) == wide
    assert f"const {wide} p = " in print_cuda(program(part(far, EACH)))


def time_ns(*body: Statement) -> float:
    return predict(program(*body), H100).time_ns


@pytest.mark.parametrize(("stride", "sectors"), [(1, 2), (4, 8)])
def test_sectors_are_those_of_the_threads(stride: int, sectors: int) -> None:
    """Of a warp of two rows of 16 threads, which lie in different sectors, and in banks of their own."""
    ((_, terms),) = predict(program(part(store(b=256, y=48, x=stride))), H100).terms
    (l1,) = (t.time_ns for t in terms if t.resource == "L1")
    assert l1 == pytest.approx(2 * 2 * sectors * 32 / H100.l1_bytes_per_cycle / H100.clock_ghz)


def test_a_loop_takes_as_long_as_its_iterations() -> None:
    def swept(count: int) -> float:
        return time_ns(Sweep("p", Position(0), Position(count - 1), 1, (part(EACH),)))

    assert swept(4000) == pytest.approx(2 * swept(2000) - LAUNCH * H100.launch_ns, rel=0.05)


def test_one_thread_keeps_its_block_waiting() -> None:
    many = Sweep("p", Position(0), Position(999), 1, (store("own"), EACH))
    alone = Sweep("q", Position(0), Position(999), 1, (store(b=256),))
    assert time_ns(part(alone, coordinates=())) > 0.5 * time_ns(part(many))

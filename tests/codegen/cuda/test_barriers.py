"""Where the threads of a block have to wait for each other, and where they need not."""

from __future__ import annotations

import pytest

from spacedsl.codegen.cuda.barriers import with_barriers
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Index, Load, Number, Register, Type
from spacedsl.codegen.tree.program import Assign, Barrier, Branch, Loop, Statement, Store, Where
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.tensors import Tensor

F32 = Type(DType.F32)
TILE = Tensor("tile", DType.F32, (64,), (1,), is_output=True)


def write(tensor: str = "tile") -> Store:
    return Store(tensor, Index(0), Number(1.0, F32))


def read(tensor: str = "tile") -> Assign:
    return Assign(Register("x", F32), Load(tensor, Index(0), F32))


def waited(*body: Statement, threads: int = 64) -> tuple[Statement, ...]:
    return with_barriers(body, (TILE,), threads)


def test_what_is_read_was_written_before_a_barrier() -> None:
    assert waited(write(), read()) == (write(), Barrier(), read())
    assert waited(write(), write(), read(), read()) == (write(), write(), Barrier(), read(), read())


def test_what_is_written_again_was_read_before_a_barrier() -> None:
    assert waited(write(), read(), write()) == (write(), Barrier(), read(), Barrier(), write())


def test_an_iteration_waits_for_the_one_before() -> None:
    (loop,) = waited(Loop("p", 4, (write(), read())))
    assert loop == Loop("p", 4, (Barrier(), write(), Barrier(), read()))


def test_a_barrier_before_a_loop_serves_all_of_its_iterations() -> None:
    body = Loop("p", 4, (read(),))
    assert waited(write(), body) == (write(), Barrier(), body)


def test_a_loop_that_waits_anyway_is_not_waited_for() -> None:
    """Its first barrier lies between what was before it and what it does."""
    body = Loop("p", 4, (write("other"), read("other"), write(), read()))
    waiting = (write("other"), Barrier(), read("other"), write(), Barrier(), read())
    assert waited(read(), body) == (read(), Loop("p", 4, waiting))
    assert waited(read(), write(), Barrier(), body)[:2] == (read(), Barrier())


def test_both_ways_of_a_branch_count() -> None:
    branch = Branch("i", 2, (read(),), (write(),))
    assert waited(branch, write()) == (branch, Barrier(), write())
    assert waited(branch, read()) == (branch, Barrier(), read())


def test_one_thread_and_memory_that_only_one_side_touches_need_none() -> None:
    assert waited(write(), read(), threads=1) == (write(), read())
    assert waited(read("A"), write("C"), read("A")) == (read("A"), write("C"), read("A"))
    # What a block writes to the device and reads again is waited for, too.
    assert waited(write("t"), read("t")) == (write("t"), Barrier(), read("t"))


def test_what_some_threads_do_is_not_waited_for_among_them() -> None:
    some = Where(((0, 32, 64),), (write(),))
    assert waited(some, read()) == (some, Barrier(), read())
    with pytest.raises(LoweringError, match="some threads would wait"):
        waited(Where(((0, 32, 64),), (write(), read())))

"""The verifier refuses programs of grids whose blocks meet, or whose indices their integers cannot hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import Broadcast, Index, Load, Number, Type
from spacedsl.codegen.tree.program import (
    Barrier,
    Branch,
    CommitCopies,
    Coordinate,
    CopyAhead,
    Grid,
    Loop,
    PartialStore,
    Program,
    Statement,
    Store,
    WaitForCopies,
    Where,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.tensors import Tensor

F32 = Type(DType.F32)
BLOCKS = (Coordinate("i0", True, 4, 8), Coordinate("j0", True, 1, 4), Coordinate("j1", False, 1, 16))
"""32 blocks of 16 threads: 8 rows, 4 times 16 columns."""


def grid(*body: Statement, coordinates: tuple[Coordinate, ...] = BLOCKS, span: int = 512) -> Program:
    out = Tensor("out", DType.F32, (span,), (1,), is_output=True)
    blocks = 1
    for coordinate in coordinates:
        blocks *= coordinate.extent if coordinate.is_block else 1
    return Program("k", (out,), (), (Grid("k_0", blocks, 16, coordinates, (), body),))


def store(constant: int = 0, **strides: int) -> Store:
    return Store("out", Index(constant, tuple(strides.items())), Number(1.0, F32))


def refused(program: Program) -> str:
    with pytest.raises(VerificationError) as caught:
        verify(program)
    return str(caught.value)


def test_blocks_that_store_to_elements_of_their_own_are_right() -> None:
    verify(grid(store(i0=64, j0=16, j1=1)))
    verify(grid(store(i0=1, j0=8, j1=32)))


def test_blocks_do_not_store_to_the_same_elements() -> None:
    assert "differ in j0 may store to the same out" in refused(grid(store(i0=64, j1=1)))
    # Each store alone has parts for all blocks, but they are not the same parts.
    assert "differ in i0" in refused(grid(store(i0=16, j0=128, j1=1), store(i0=64, j0=16, j1=1)))
    # Two blocks overlap: each has 16 columns, and the next one begins 8 further on.
    assert "differ in j0" in refused(grid(store(i0=64, j0=8, j1=1)))
    assert "differ in i0" in refused(grid(store(i0=16, j0=16, j1=1)))
    # A loop in each of them comes to the first elements of the next block.
    loop = Loop("q", 5, (store(i0=64, j0=4, q=1),))
    assert "differ in j0" in refused(grid(Where(((0, 1, 16),), (loop,))))
    vector = PartialStore("out", Index(0, (("i0", 64), ("j0", 2))), _vector(), 3)
    assert "differ in j0" in refused(grid(Where(((0, 1, 16),), (vector,))))


def test_blocks_have_numbers_of_their_own() -> None:
    alike = (Coordinate("i0", True, 1, 4), Coordinate("j0", True, 1, 8), Coordinate("j1", False, 1, 16))
    found = refused(grid(store(i0=128, j0=16, j1=1), coordinates=alike))
    assert found == "blocks that differ in j0 are not told apart"


def test_one_block_alone_may_store_for_all_of_them() -> None:
    others = store(i0=64, j0=16, j1=1)
    verify(grid(others, Branch("j0", 1, (Branch("i0", 1, (store(j1=1),), ()),), ())))
    assert "differ in i0" in refused(grid(others, Branch("j0", 1, (store(j1=1),), ())))


def _vector() -> Broadcast:
    return Broadcast(Number(1.0, F32), 4)


def test_sums_on_the_way_to_an_index_fit_its_integers() -> None:
    rows = (Coordinate("i0", True, 1, (1 << 28) - 8), Coordinate("j1", False, 1, 8))
    span = (1 << 31) - 64
    verify(grid(store(i0=8, j1=1), coordinates=rows, span=span))
    # The element lies in the array, but what is added up before the constant does not fit 32 bits.
    more = (Coordinate("i0", True, 1, (1 << 28) + 1), Coordinate("j1", False, 1, 8))
    found = refused(grid(store(-(1 << 7), i0=8, j1=1), coordinates=more, span=span))
    assert found == "an index of out comes to 2147483648, beyond 32 bits"
    # Of a larger array, integers have 64.
    wide = (Coordinate("i0", True, 1, 1 << 29), Coordinate("j1", False, 1, 8))
    verify(grid(store(i0=8, j1=1), coordinates=wide, span=1 << 32))


def test_there_are_no_more_blocks_than_a_launch_takes() -> None:
    many = (Coordinate("i0", True, 1, 1 << 31), Coordinate("j1", False, 1, 8))
    assert "has 2147483648 blocks" in refused(grid(store(i0=8, j1=1), coordinates=many, span=1 << 34))


def test_threads_of_a_block_do_not_take_both_ways_of_a_branch() -> None:
    """A branch is of all threads of a block; those that differ are told apart by what they span."""
    both = Branch("j1", 5, (store(i0=64, j0=16, j1=1),), (store(i0=64, j0=16, j1=1),))
    assert refused(grid(both)) == "threads of a block take both ways of a branch of j1"
    verify(grid(Branch("j0", 2, (store(i0=64, j0=16, j1=1),), (store(i0=64, j0=16, j1=1),))))


def test_vectors_begin_at_multiples_of_their_size() -> None:
    """Four threads have four elements each."""
    coordinates = (*BLOCKS[:2], Coordinate("j1", False, 1, 4))

    def stored(first: int, step: int) -> Program:
        whole = Store("out", Index(first, (("i0", 64), ("j0", 16), ("j1", step))), _vector())
        return grid(Where(((0, 4, 16),), (whole,)), coordinates=coordinates, span=600)

    assert refused(stored(2, 4)) == refused(stored(0, 6)) == "a vector of f32x4 in out begins where none may"
    part = PartialStore("out", Index(2, (("i0", 64), ("j0", 16), ("j1", 4))), _vector(), 3)
    assert "begins where none may" not in refused(
        grid(Where(((0, 4, 16),), (part,)), coordinates=coordinates)
    )


def test_what_is_copied_ahead_goes_from_memory_of_the_device_to_what_a_block_shares() -> None:
    own, shared, source = (Tensor(n, DType.F32, (16,), (1,), is_output=True) for n in ("own", "shared", "x"))
    given = replace(source, is_output=False)

    def copied(source: str, target: str) -> Program:
        copy = CopyAhead(target, Index(0, (("j1", 1),)), Load(source, Index(0, (("j1", 1),)), F32))
        first = [Store(t, Index(0, (("j1", 1),)), Number(1.0, F32)) for t in ("own", "shared")]
        body: tuple[Statement, ...] = (
            *first,
            copy,
            CommitCopies(),
            WaitForCopies(0),
            Barrier(),
            store(i0=64, j0=16, j1=1),
        )
        made = grid(*body)
        (only,) = (s for s in made.body if isinstance(s, Grid))
        return replace(
            made, tensors=(given, *made.tensors), body=(replace(only, shared=(shared,), private=(own,)),)
        )

    verify(copied("x", "shared"))
    assert refused(copied("x", "own")) == "f32 is copied ahead from x to own"
    assert refused(copied("shared", "shared")) == "f32 is copied ahead from shared to shared"
    assert refused(copied("own", "shared")) == "f32 is copied ahead from own to shared"

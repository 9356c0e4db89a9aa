"""What a thread still has is not loaded again, what nobody loads is not stored; nothing else is left out."""

from __future__ import annotations

import pytest

from spacedsl.codegen.cuda.forwarding import forwarded
from spacedsl.codegen.tree.expressions import Add, Index, Load, Number, Pack, Register, Type
from spacedsl.codegen.tree.program import Assign, CopyAhead, Grid, Loop, Statement, Store, Where
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import quotient, variable

F32 = Type(DType.F32)
HALF, THIRD = (quotient(variable("t"), divisor).terms[0][0] for divisor in (2, 3))
X, Y, Z = (Register(name, F32) for name in "xyz")
HERE = Index(0, (("t", 1),))


def load(register: Register, tensor: str, index: Index = HERE) -> Assign:
    return Assign(register, Load(tensor, index, register.type))


def body(*statements: Statement, own: tuple[str, ...] = ()) -> tuple[Statement, ...]:
    """What is left; OUT is stored at the end, so that there is something."""
    out = Store("OUT", HERE, X)
    (grid,) = forwarded([Grid("k", 1, 32, (), (), (*statements, out))], own)
    assert grid.body[-1] == out
    return grid.body[:-1]


def test_what_was_stored_or_loaded_is_not_loaded() -> None:
    assert body(Store("A", HERE, X), load(Y, "A")) == (Store("A", HERE, X), Assign(Y, X))
    assert body(load(X, "A"), load(Y, "A")) == (load(X, "A"), Assign(Y, X))


def test_a_vector_of_registers_is_one() -> None:
    pair, vector = Pack((X, Y)), Register("v", Type(DType.F32, 2))
    assert body(Store("A", HERE, pair), load(vector, "A"))[1] == Assign(vector, pair)
    # One of its lanes is another type.
    assert body(Store("A", HERE, pair), load(Z, "A"))[1] == load(Z, "A")


def test_what_nobody_loads_is_not_stored() -> None:
    assert body(Store("A", HERE, X), load(Y, "A"), own=("A",)) == (Assign(Y, X),)
    assert body(Where(((0, 1, 32),), (Store("A", HERE, X),)), own=("A",)) == ()


def test_a_grid_that_does_nothing_is_left_out() -> None:
    nothing = Grid("k", 1, 1, (), (), (Assign(X, Number(0, F32)), Store("A", HERE, X)))
    assert forwarded([nothing], ("A",)) == ()
    assert forwarded([nothing], ()) == (nothing,)


@pytest.mark.parametrize(
    "between",
    [
        Assign(X, Number(1, F32)),
        Store("A", Index(3, (("u", 1),)), Z),
        CopyAhead("A", Index(3, (("u", 1),)), Load("B", HERE, F32)),
        Loop("i", 2, (Assign(X, Add(X, X)),)),
        Where(((0, 1, 32),), (Store("A", Index(0), Z),)),
    ],
)
def test_what_may_have_changed_is_loaded(between: Statement) -> None:
    assert body(Store("A", HERE, X), between, load(Y, "A")) == (Store("A", HERE, X), between, load(Y, "A"))


def test_elements_that_are_apart_do_not_touch() -> None:
    there = Store("A", Index(1, HERE.terms), Z)
    assert body(Store("A", HERE, X), there, load(Y, "A"))[2] == Assign(Y, X)
    wide = Store("A", Index(-1, HERE.terms), Pack((Z, Z)))
    assert body(Store("A", HERE, X), wide, load(Y, "A"))[2] == load(Y, "A")


def test_an_iteration_has_nothing_of_the_one_before() -> None:
    loop = Loop("i", 4, (load(Y, "A"), Assign(X, Add(X, Y)), Store("A", HERE, X)))
    assert body(load(Z, "A"), loop)[1] == loop
    # What no iteration changes is there in all of them.
    steady = Loop("i", 4, (load(Y, "A"), Assign(X, Add(X, Y))))
    assert body(load(Z, "A"), steady)[1] == Loop("i", 4, (Assign(Y, Z), Assign(X, Add(X, Y))))


def test_what_some_threads_store_all_of_them_have() -> None:
    """But not what only those threads have."""
    some = ((0, 1, 32),)
    assert body(Where(some, (Store("A", HERE, X),)), load(Y, "A"))[1] == Assign(Y, X)
    own = Where(some, (Assign(Z, Number(1, F32)), Store("A", HERE, Z)))
    assert body(own, load(Y, "A"))[1] == load(Y, "A")
    assert body(Where(some, (load(Z, "A"),)), load(Y, "A"))[1] == load(Y, "A")


def test_positions_that_are_no_multiples_of_each_other_may_be_one() -> None:
    """A[t / 2] and A[t / 3 + 1] are the same where t is 4; A[t / 2 + 1] is never A[t / 2]."""
    kept = Store("A", Index(0, atoms=((HALF, 1),)), X)
    other, beside = (Store("A", Index(1, atoms=((atom, 1),)), Z) for atom in (THIRD, HALF))
    loaded = load(Y, "A", kept.index)
    assert body(kept, other, loaded) == (kept, other, loaded)
    assert body(kept, beside, loaded) == (kept, beside, Assign(Y, X))

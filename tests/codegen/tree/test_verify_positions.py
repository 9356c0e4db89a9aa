"""The verifier on what is done as often, and where, as positions say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import (
    Counted,
    Expression,
    Index,
    Load,
    Number,
    ParameterValue,
    Position,
    Register,
    Share,
    Type,
)
from spacedsl.codegen.tree.program import (
    Assign,
    Let,
    Loop,
    ParallelLoop,
    Program,
    Statement,
    Store,
    Sweep,
    Take,
    When,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Linear, Opaque, extreme, quotient, remainder, variable
from spacedsl.kernels.pipeline.algorithm import Constant
from spacedsl.kernels.tensors import Parameter, Scratch, Tensor

I32, I32X4 = Type(DType.I32), Type(DType.I32, 4)
ROWS, COLUMNS = 6, 10
X, Y, T = (variable(name) for name in "xyt")
IN = Tensor("picture", DType.I32, (ROWS, COLUMNS), (COLUMNS, 1), is_output=False)
OUT = Tensor("out", DType.I32, (ROWS, COLUMNS), (COLUMNS, 1), is_output=True)
MORE = Tensor("more", DType.I32, (ROWS, COLUMNS), (COLUMNS, 1), is_output=True)
ODD = Tensor("odd", DType.I32, (4,), (2,), is_output=True)
WIDE = Tensor("wide", DType.U64, (4,), (1,), is_output=False)
SEVEN = Number(7, I32)
ALL = Loop("all", ROWS * COLUMNS, (Store("out", Index(0, (("all", 1),)), SEVEN),))


def index(form: Linear) -> Index:
    return Index(form.constant, (), atoms=form.terms)


def at(x: Linear, y: Linear) -> Index:
    return index(y * COLUMNS + x)


def store(x: Linear = X, y: Linear = Y, value: Expression = SEVEN) -> Store:
    return Store("out", at(x, y), value)


def load(x: Linear, y: Linear, kind: Type = I32) -> Load:
    return Load("picture", at(x, y), kind)


def sweep(name: str, first: Linear | int, last: Linear | int, *body: Statement, step: int = 1) -> Sweep:
    first, last = (Linear(end) if isinstance(end, int) else end for end in (first, last))
    return Sweep(name, first, last, step, body)


def over(*body: Statement) -> Sweep:
    """All rows and columns."""
    return sweep("y", 0, ROWS - 1, sweep("x", 0, COLUMNS - 1, *body))


def rows(*body: Statement, private: tuple[Tensor, ...] = ()) -> ParallelLoop:
    """Two at a time."""
    return ParallelLoop("t", 3, body, private=private)


def two_rows(y: Linear, *body: Statement) -> Sweep:
    return sweep("y", y, y + Linear(1), sweep("x", 0, COLUMNS - 1, *body))


def program(*body: Statement) -> Program:
    parameters = (Parameter("gain", DType.I32),)
    return Program(
        "k", (IN, WIDE, OUT), parameters, body, tuple(Scratch(t, is_zeroed=True) for t in (MORE, ODD))
    )


END = extreme("min", T * 4 + Linear(3), Linear(COLUMNS - 1))
SHARED = replace(at(X, Y), shares=(("all", Share(2, 1, 1)),))
SHORT = extreme("min", T + Linear(3), Linear(COLUMNS - 1))
RIGHT: Mapping[str, Program] = {
    "all points": program(over(store())),
    "a tile that ends early": program(
        sweep("y", 0, 5, sweep("t", 0, 2, sweep("x", T * 4, END, store())))
    ),
    "steps of a tile": program(
        sweep("y", 0, 5, sweep("t", 0, 9, sweep("x", T, SHORT, store()), step=4))
    ),
    "a vector that is shifted inwards": program(
        sweep("y", 0, 5, sweep("x", 0, 6, store(value=load(X, Y, I32X4)), step=4),
              sweep("x", 6, 6, store(value=load(X, Y, I32X4)), step=4))
    ),
    "a row that goes on in the next one": program(sweep("y", 0, 4, sweep("x", 1, COLUMNS, store()))),
    "what is clamped": program(
        over(store(value=load(extreme("max", extreme("min", X + Linear(-3), Linear(9)), Linear(0)), Y)))
    ),
    "what wraps around": program(over(store(value=load(remainder(X + Linear(77), 10), Y)))),
    "half of it": program(over(store(value=load(quotient(X, 2) + Linear(5), quotient(Y, 3))))),
    "a number that belongs to a smaller dimension": program(
        sweep("y", 0, 4, sweep("x", -10, -1, Store("out", index(Y * COLUMNS + X + Linear(20)), SEVEN)))
    ),
    "a name for a position": program(
        over(Let("here", X + Linear(-9)), store(value=load(variable("here") + Linear(9), Y)))
    ),
    "an element that says where": program(
        over(Take("there", load(X, Y), 2, 9), store(value=load(variable("there"), Y)))
    ),
    "a register around names": program(
        over(
            Let("a", X), Assign(Register("v", I32), load(variable("a"), Y)),
            Let("b", Y), store(X, variable("b"), Register("v", I32)),
        )
    ),
    "both ways of a condition": program(over(When((X + Linear(-4),), (store(),), (store(),)))),
    "rows that are shared out": program(rows(Let("first", T * 2), two_rows(variable("first"), store()))),
    "rows that are shared out, the last first": program(rows(two_rows(T * -2 + Linear(4), store()))),
    "columns that are shared out as vectors": program(
        ParallelLoop("t", 2, (sweep("y", 0, 5, store(T * 4, Y, load(T * 4, Y, I32X4))),)), ALL
    ),
    "memory of each thread": program(
        rows(
            sweep("u", 0, 9, Store("own", at(variable("u"), Linear(0)), SEVEN)),
            two_rows(T * 2, store(value=Load("own", at(X, Linear(0)), I32))),
            private=(replace(OUT, name="own"),),
        )
    ),
    "names that end with their block": program(over(Let("a", X), store()), over(Let("a", Y), store())),
    "a name before threads that do not use it": program(Let("a", Linear(3)), rows(two_rows(T * 2, store()))),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_accepted(name: str) -> None:
    assert verify(RIGHT[name]) is RIGHT[name]


NOWHERE = "is accessed nobody knows where"
MISTAKES: Mapping[str, tuple[Program, str]] = {
    "a sweep that goes too far": (
        program(sweep("y", 0, 5, sweep("x", 0, COLUMNS, store()))),
        f"out has elements 0 to 59, and {NOWHERE}",
    ),
    "a sweep that begins too early": (program(sweep("y", -1, 5, sweep("x", 0, 9, store()))), NOWHERE),
    "a tile that does not end early": (
        program(sweep("y", 0, 5, sweep("t", 0, 2, sweep("x", T * 4, T * 4 + Linear(3), store())))),
        NOWHERE,
    ),
    "a vector that goes too far": (
        program(sweep("y", 0, 5, sweep("x", 0, 7, store(value=load(X, Y, I32X4)), step=4))),
        f"picture has elements 0 to 59, and {NOWHERE}",
    ),
    "what is clamped too late": (
        program(over(store(value=load(extreme("min", X + Linear(-3), Linear(9)), Y)))),
        NOWHERE,
    ),
    "what wraps around too late": (program(over(store(value=load(remainder(X, 11), Y)))), NOWHERE),
    "half of it, and too much": (program(over(store(value=load(quotient(X, 2) + Linear(6), Y)))), NOWHERE),
    "an element that says too much": (
        program(over(Take("there", load(X, Y), 2, 10), store(value=load(variable("there"), Y)))),
        NOWHERE,
    ),
    "an element that says too little": (
        program(over(Take("there", load(X, Y), -1, 9), store(value=load(variable("there"), Y)))),
        NOWHERE,
    ),
    "an element between those of an array": (
        program(sweep("x", 0, 3, Store("odd", index(X * 2 + Linear(1)), SEVEN)), ALL),
        f"odd has elements 0 to 6, and {NOWHERE}",
    ),
    "a condition that is not there": (program(over(When((X,), (store(X + Linear(1), Y),)))), NOWHERE),
    "a share beside a position": (
        program(Loop("all", 2, (over(Store("out", SHARED, SEVEN)),))),
        "an index of out is a position, and has shares",
    ),
    "a sweep without end": (program(sweep("x", 0, 9, store(X, Linear(0)), step=0)), "sweep x goes on by 0"),
    "a sweep backwards": (program(sweep("x", 0, 9, store(X, Linear(0)), step=-1)), "sweep x goes on by -1"),
    "an end that depends on the sweep itself": (
        program(sweep("x", 0, X, store(X, Linear(0)))),
        "a position uses x, which is not known here",
    ),
    "a first point that is not known": (
        program(sweep("x", Y, 9, store(X, Linear(0)))),
        "a position uses y, which is not known here",
    ),
    "a name of what is not known": (program(Let("a", X)), "a position uses x, which is not known here"),
    "a name that has ended": (
        program(over(Let("a", X)), over(store(variable("a"), Y))),
        "which is not known here",
    ),
    "a sweep that has ended": (program(over(store()), store()), "which is not known here"),
    "a name of one branch in the other": (
        program(over(When((X,), (Let("a", X),), (store(variable("a"), Y),)))),
        "which is not known here",
    ),
    "a register of one branch in the other": (
        program(over(When((X,), (Assign(Register("v", I32), SEVEN),), (store(value=Register("v", I32)),)))),
        "register v has no value here",
    ),
    "a register of a sweep that has ended": (
        program(sweep("x", 0, 3, Assign(Register("v", I32), SEVEN)), over(store(value=Register("v", I32)))),
        "register v has no value here",
    ),
    "a condition on what is not known": (
        program(When((X,), (ALL,))),
        "a position uses x, which is not known here",
    ),
    "a condition on nothing": (program(When((), (ALL,))), "a condition without positions"),
    "a count of what is not known": (
        program(Loop("all", 60, (Store("out", Index(0, (("all", 1),)), Counted(X, I32)),))),
        "a position uses x, which is not known here",
    ),
    "a count that is no integer": (
        program(over(Assign(Register("v", Type(DType.F32)), Counted(X, Type(DType.F32))), store())),
        "a position is counted as f32",
    ),
    "a position of values": (
        program(Let("a", Linear(0, ((Opaque(Constant(1, DType.I32)), 1),))), ALL),
        "a position is made of values",
    ),
    "two names that are the same": (
        program(over(Let("a", X), Let("a", Y), store())),
        "variable a has the name of something else",
    ),
    "a name like that of a sweep": (
        program(over(Let("x", Y), store())), "variable x has the name of something else"
    ),
    "a name like that of a tensor": (
        program(over(Let("picture", Y), store())), "variable picture has the name of something else"
    ),
    "a name like that of memory of its own": (
        program(over(Let("more", Y), store())), "variable more has the name of something else"
    ),
    "a name like that of a parameter": (
        program(over(Take("gain", SEVEN, 0, 9), store())), "variable gain has the name of something else"
    ),
    "a name like that of a register": (
        program(over(Assign(Register("v", I32), SEVEN), Let("v", Y), store())),
        "variable v has the name of something else",
    ),
    "a sweep like one around it": (
        program(over(sweep("x", 0, 3, store()))), "variable x has the name of something else"
    ),
    "a register like a name": (
        program(over(Let("a", X), Assign(Register("a", I32), SEVEN), store())),
        "register a has the name of something else",
    ),
    "a register like a sweep": (
        program(over(Assign(Register("x", I32), SEVEN), store())), "register x has the name of something else"
    ),
    "a name that is no identifier": (program(over(Let("a b", X), store())), "'a b' is not an identifier"),
    "an element that is no position": (
        program(over(Take("a", Number(1, Type(DType.F32)), 0, 9), store())),
        "f32 from 0 to 9 is no position",
    ),
    "several elements as one position": (
        program(over(Take("a", load(Linear(0), Y, I32X4), 0, 9), store())),
        "i32x4 from 0 to 9 is no position",
    ),
    "an element beyond all positions": (
        program(over(Take("a", Load("wide", Index(0), Type(DType.U64)), 0, 9), store())),
        "u64 from 0 to 9 is no position",
    ),
    "an element between nothing": (program(over(Take("a", SEVEN, 3, 2), store())), "i32 from 3 to 2"),
    "an element of an unknown parameter": (
        program(over(Take("a", ParameterValue("loss", I32), 0, 2), store())),
        "there is no parameter loss",
    ),
    "threads that store to the same rows": (
        program(rows(two_rows(T, store()))), "iterations of parallel loop t may store to the same out"
    ),
    "threads that store to the same row": (
        program(rows(sweep("x", 0, 9, store(X, Linear(0))))), "parallel loop t may store to the same out"
    ),
    "threads that store to what an element says": (
        program(rows(Take("a", load(Linear(0), T), 0, 5), sweep("x", 0, 9, store(X, variable("a"))))),
        "parallel loop t may store to the same out",
    ),
    "threads whose last vector is that of the next one": (
        program(rows(sweep("y", 0, 5, store(T * 3, Y, load(T * 3, Y, I32X4)))), ALL),
        "parallel loop t may store to the same out",
    ),
    "threads that share memory of the program": (
        program(rows(Let("a", T), sweep("x", 0, 9, Store("more", at(X, Linear(0)), SEVEN))), ALL),
        "parallel loop t may store to the same more",
    ),
    "threads in a sweep": (program(sweep("x", 0, 1, rows(two_rows(T * 2, store())))), "t is not outermost"),
    "threads under a condition": (
        program(When((Position(1),), (rows(two_rows(T * 2, store())),))), "t is not outermost"
    ),
    "threads that use a name from around": (
        program(Let("a", Linear(3)), rows(two_rows(T * 2, store(variable("a"), Y)))),
        "a position uses a, which is not known here",
    ),
    "threads that use a position from around": (
        program(Let("a", Linear(0)), rows(Let("b", variable("a")), two_rows(T * 2, store()))),
        "a position uses a, which is not known here",
    ),
    "an output that is read first": (
        program(over(store(value=Load("out", at(X, Y), I32)))), "output out is read before it is written"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_refused(mistake: str) -> None:
    wrong, message = MISTAKES[mistake]
    with pytest.raises(VerificationError) as caught:
        verify(wrong)
    assert message in str(caught.value)

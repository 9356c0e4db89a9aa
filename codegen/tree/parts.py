"""The parts of a program tree: what programs, statements and expressions consist of.

In: nodes of `program.py` and `expressions.py`. Out: their parts, one level of them or all; expressions with
other loads in them. What a part means is for whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from operator import attrgetter
from typing import Any

from spacedsl.codegen.tree.expressions import (
    Add,
    Apply,
    Bits,
    Bitwise,
    Blend,
    Broadcast,
    Call,
    Compare,
    Convert,
    Counted,
    Div,
    EveryOther,
    Expression,
    FirstLane,
    FloorDiv,
    FloorMod,
    Fma,
    Gather,
    Interleave,
    Lane,
    LaneReduction,
    Load,
    LoadMatrix,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Pack,
    ParameterValue,
    PartialLoad,
    Position,
    Register,
    Select,
    Shuffle,
    Sub,
)
from spacedsl.codegen.tree.program import (
    Ahead,
    Assign,
    AtomicCombine,
    Barrier,
    Branch,
    CopyAhead,
    Grid,
    Let,
    Loop,
    Multiply,
    ParallelLoop,
    PartialStore,
    PerThread,
    Prefetch,
    Program,
    Statement,
    Store,
    Sweep,
    Take,
    TakeEach,
    When,
    Where,
)
from spacedsl.kernels.linalg.operations import Combine
from spacedsl.kernels.tensors import Tensor


def index_bits(program: Program) -> int:
    """Of the integers that a GPU counts elements with: 64 where an array has more than 32 bits can say."""
    tensors = (*program.tensors, *(s.tensor for s in program.scratch))
    return 32 if all(t.span < 1 << 31 for t in tensors) else 64


def own_memory(program: Program) -> tuple[Tensor, ...]:
    """Arrays that are no arguments: of the program, of each block of a grid, of each thread."""
    loops = (t for s in program.body if isinstance(s, ParallelLoop) for t in s.own)
    grids = [s for s in program.body if isinstance(s, Grid)]
    private, shared = (t for g in grids for t in g.private), (t for g in grids for t in g.shared)
    return (*(s.tensor for s in program.scratch), *loops, *private, *shared)


def shared_loops(loop: ParallelLoop) -> tuple[ParallelLoop, ...]:
    """The loop and those inside it whose iterations are shared out with its own, outermost first."""
    match loop.body:
        case (ParallelLoop() as inner,):
            return (loop, *shared_loops(inner))
        case _:
            return (loop,)


def timed_phases(program: Program) -> tuple[str, ...]:
    """For each parallel loop of a program with phases, the one that it ends; empty where there are several
    between it and the loop before.
    """
    found: list[str] = []
    since: set[str] = set()
    for phase in program.phases:
        for statement in phase.statements:
            since.add(phase.name)
            if isinstance(statement, ParallelLoop):
                found.append(phase.name if since == {phase.name} else "")
                since.clear()
    return tuple(found)


def blocks(statement: Statement) -> tuple[tuple[Statement, ...], ...]:
    """The blocks that a statement consists of."""
    match statement:
        case Loop(_, _, body) | Ahead(_, _, body) | Where(_, body) | PerThread(_, body):
            return (body,)
        case Sweep():
            return (statement.body,)
        case Grid():
            return (statement.body,)
        case ParallelLoop():
            return (statement.first, statement.body)
        case Branch(_, _, body, otherwise) | When(_, body, otherwise):
            return (body, otherwise)
        case _:
            return ()


_PLAIN = frozenset({Assign, Store, PartialStore, AtomicCombine, Let, Take, TakeEach, Prefetch, Barrier})
"""Most statements: they have no blocks."""


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """These and all inside them, in order of the text."""
    pending = [iter(body)]
    while pending:
        for statement in pending[-1]:
            yield statement
            if type(statement) not in _PLAIN:
                pending += map(iter, reversed(blocks(statement)))
                break
        else:
            pending.pop()


_OPERANDS: Mapping[type, Callable[[Any], tuple[Expression, ...]]] = {
    **dict.fromkeys(
        (Broadcast, FirstLane, LaneReduction, Convert, Lane, Shuffle, Bits), lambda node: (node.value,)
    ),
    **dict.fromkeys((Neg, Apply, Not), lambda node: (node.operand,)),
    **dict.fromkeys(
        (Add, Sub, Mul, Div, Max, Min, FloorDiv, FloorMod, Bitwise, Compare), attrgetter("left", "right")
    ),
    Pack: attrgetter("values"),
    Call: attrgetter("operands"),
    Gather: lambda node: tuple(part.value for part in node.taken),
    Fma: attrgetter("a", "b", "c"),
    Blend: attrgetter("value", "other"),
    Interleave: attrgetter("even", "odd"),
    EveryOther: attrgetter("first", "second"),
    Select: attrgetter("condition", "yes", "no"),
}
"""Of expressions that have parts."""


def operands(expression: Expression) -> tuple[Expression, ...]:
    """The direct parts of an expression, left to right."""
    found = _OPERANDS.get(type(expression))
    return () if found is None else found(expression)


def subexpressions(expression: Expression) -> Iterator[Expression]:
    """All that it consists of, parts before wholes; itself last."""
    if type(expression) not in _OPERANDS:
        return iter((expression,))
    found: list[Expression] = []
    _add_subexpressions(expression, found)
    return iter(found)


def _add_subexpressions(expression: Expression, found: list[Expression]) -> None:
    parts = _OPERANDS.get(type(expression))
    if parts is not None:
        for part in parts(expression):
            _add_subexpressions(part, found)
    found.append(expression)


def loaded(body: Sequence[Statement]) -> set[str]:
    """The names of the arrays that these statements read."""
    return {e.tensor for e in expressions(body) if isinstance(e, Load | PartialLoad | LoadMatrix | Gather)}


def stored(body: Sequence[Statement]) -> set[str]:
    """The names of the arrays that they write."""
    return overwritten(body) | combined_into(body).keys()


def overwritten(body: Sequence[Statement]) -> set[str]:
    """The names of the arrays that they put something into in place of what was there."""
    found: set[str] = set()
    for statement in statements(body):
        if isinstance(statement, Store | PartialStore | CopyAhead):
            found.add(statement.tensor)
        elif isinstance(statement, ParallelLoop):
            found.update(each.tensor for each in statement.summed)
    return found


def combined_into(body: Sequence[Statement]) -> dict[str, Combine]:
    """The names of the arrays that they combine parts with, and how."""
    return {s.tensor: s.combine for s in statements(body) if isinstance(s, AtomicCombine)}


def used_parameters(body: Sequence[Statement]) -> set[str]:
    """Their names."""
    return {e.name for e in expressions(body) if isinstance(e, ParameterValue)}


_Valued = Assign | Store | PartialStore | AtomicCombine | Take


def values(body: Sequence[Statement]) -> Iterator[Expression]:
    """What these statements, and those inside them, do something with."""
    for statement in statements(body):
        if isinstance(statement, _Valued):
            yield statement.value
        elif isinstance(statement, TakeEach):
            yield statement.held


def expressions(body: Sequence[Statement]) -> Iterator[Expression]:
    """All expressions in these statements and inside them, parts before wholes."""
    return chain.from_iterable(map(own_expressions, statements(body)))


def own_expressions(statement: Statement) -> Iterator[Expression]:
    """Those of a statement itself."""
    if isinstance(statement, _Valued):
        return subexpressions(statement.value)
    if isinstance(statement, TakeEach):
        return subexpressions(statement.held)
    if isinstance(statement, CopyAhead):
        return iter((statement.source,))
    if isinstance(statement, Multiply):
        return iter((*statement.a, *statement.b, *statement.result))
    return iter(())


def positions(body: Sequence[Statement]) -> Iterator[Position]:
    """All positions in these statements and inside them."""
    for statement in statements(body):
        yield from positions_of(statement)


def positions_of(statement: Statement) -> Iterator[Position]:
    """Those of a statement itself; of an index without atoms, what is known of loops says enough."""
    match statement:
        case Let(_, position):
            yield position
        case Sweep(_, first, last):
            yield from (first, last)
        case When(least):
            yield from least
        case Store(_, index) | PartialStore(_, index) | AtomicCombine(_, index) | Prefetch(_, index):
            yield index.position
    for expression in own_expressions(statement):
        match expression:
            case Counted(position):
                yield position
            case Load(_, index) | PartialLoad(_, index) | Gather(index=index):
                yield index.position


def assigned(statement: Statement) -> tuple[Register, ...]:
    """The registers that it gives a value to, itself."""
    match statement:
        case Assign(register):
            return (register,)
        case Multiply(result):
            return result
    return ()


def registers_of(statement: Statement) -> Iterator[str]:
    """The names of those that it or something inside it reads or assigns."""
    for each in statements((statement,)):
        yield from (register.name for register in assigned(each))
        yield from (e.name for e in own_expressions(each) if isinstance(e, Register))


def with_blocks(
    statement: Statement, change: Callable[[tuple[Statement, ...]], tuple[Statement, ...]]
) -> Statement:
    """The statement with each block of it changed."""
    match statement:
        case Branch(_, _, body, otherwise) | When(_, body, otherwise):
            return replace(statement, body=change(body), otherwise=change(otherwise))
        case ParallelLoop(body=body, first=first):
            return replace(statement, body=change(body), first=change(first))
        case Loop() | Sweep() | Ahead() | Where() | PerThread() | Grid():
            return replace(statement, body=change(statement.body))
    return statement


def map_loads(
    expression: Expression, change: Callable[[Load | PartialLoad], Load | PartialLoad]
) -> Expression:
    """The expression with each load in it changed."""
    if isinstance(expression, Load | PartialLoad):
        return change(expression)
    if isinstance(expression, Pack):
        return Pack(tuple(map_loads(value, change) for value in expression.values))
    if isinstance(expression, Gather):
        taken = (replace(part, value=map_loads(part.value, change)) for part in expression.taken)
        return replace(expression, taken=tuple(taken))
    if isinstance(expression, Call):
        return replace(expression, operands=tuple(map_loads(value, change) for value in expression.operands))
    parts: dict[str, Any] = {
        field.name: map_loads(part, change)
        for field in fields(expression)
        if isinstance(part := getattr(expression, field.name), Expression)
    }
    return replace(expression, **parts) if parts else expression

"""Contraction: memory of the program's own shrinks to what is alive at a time.

In: a `Program`. Out: one that computes the same. Where all accesses to an array of `scratch` lie in one loop
and move alike along it, an iteration sees nothing of what others wrote, and all of them can use the same
elements. Of a parallel loop each thread then has elements of its own. Only the outermost
extents of an array go, so that what is left is dense. Whether accesses lie in one loop was decided before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spacedsl.codegen.tree.expressions import Expression, Index, Load, PartialLoad, type_of
from spacedsl.codegen.tree.parts import map_loads, operands, shared_loops, with_blocks
from spacedsl.codegen.tree.program import (
    Ahead,
    Assign,
    Branch,
    Loop,
    ParallelLoop,
    PartialStore,
    Program,
    Statement,
    Store,
)
from spacedsl.kernels.tensors import Tensor


def contract(program: Program) -> Program:
    """The program with each array of its scratch as small as its loops allow."""
    for scratch in program.scratch:
        if scratch.is_zeroed:
            continue
        accesses = tuple(_accesses(program.body, scratch.tensor.name, ()))
        loops = _contractible(accesses)
        is_private = any(isinstance(loop, ParallelLoop) for loop in loops)
        if not loops:
            continue
        span = _span(accesses, loops)
        tensor = replace(scratch.tensor, shape=(span,), strides=(1,), pad=())
        variables = frozenset(loop.variable for loop in loops)
        body = _without(program.body, tensor, variables)
        others = tuple(s for s in program.scratch if s is not scratch)
        kept = others if is_private else (*others, replace(scratch, tensor=tensor))
        program = replace(program, body=body, scratch=kept)
    return program


@dataclass(frozen=True, slots=True)
class _Access:
    loops: tuple[Loop | ParallelLoop, ...]
    """Around it, outermost first."""
    index: Index
    lanes: int


def _accesses(
    body: Sequence[Statement], name: str, loops: tuple[Loop | ParallelLoop, ...]
) -> Iterator[_Access]:
    for statement in body:
        match statement:
            case Loop():
                yield from _accesses(statement.body, name, (*loops, statement))
            case ParallelLoop():
                yield from _accesses((*statement.first, *statement.body), name, (*loops, statement))
                for each in statement.summed:
                    if each.tensor == name:
                        yield _Access(loops, Index(0), each.part.span)
            case Ahead(_, _, inner):
                yield from _accesses(inner, name, loops)
            case Branch(_, _, inner, otherwise):
                yield from _accesses((*inner, *otherwise), name, loops)
            case Assign(_, value):
                yield from _loads(value, name, loops)
            case PartialStore(tensor, index, value, count):
                yield from _loads(value, name, loops)
                if tensor == name:
                    yield _Access(loops, index, count)
            case Store(tensor, index, value):
                yield from _loads(value, name, loops)
                if tensor == name:
                    yield _Access(loops, index, type_of(value).lanes)


def _loads(value: Expression, name: str, loops: tuple[Loop | ParallelLoop, ...]) -> Iterator[_Access]:
    if isinstance(value, Load) and value.tensor == name:
        yield _Access(loops, value.index, value.type.lanes)
    if isinstance(value, PartialLoad) and value.tensor == name:
        yield _Access(loops, value.index, value.count)
    for part in operands(value):
        yield from _loads(part, name, loops)


def _contractible(accesses: Sequence[_Access]) -> tuple[Loop | ParallelLoop, ...]:
    """The loops around all accesses whose extents can go: the rest lies within the least of their strides."""
    strides: list[tuple[int, Loop | ParallelLoop]] = []
    for loop in _common(accesses):
        steps = {_strides(access)[loop.variable] for access in accesses if loop.variable in _strides(access)}
        if len(steps) == 1 and all(loop.variable in _strides(access) for access in accesses):
            strides.append((steps.pop(), loop))
    strides.sort(key=lambda each: each[0], reverse=True)
    for count in range(len(strides), 0, -1):
        loops = tuple(loop for _, loop in strides[:count])
        if 0 < _span(accesses, loops) <= strides[count - 1][0]:
            return loops
    return ()


def _common(accesses: Sequence[_Access]) -> tuple[Loop | ParallelLoop, ...]:
    first, *others = accesses
    return tuple(loop for loop in first.loops if all(any(o is loop for o in a.loops) for a in others))


def _strides(access: _Access) -> Mapping[str, int]:
    return dict(access.index.terms)


def _span(accesses: Iterable[_Access], without: Sequence[Loop | ParallelLoop]) -> int:
    """Elements from the first to the last that are accessed in one iteration of these loops."""
    gone = {loop.variable for loop in without}
    last = 0
    for access in accesses:
        extents = {loop.variable: loop.extent for loop in access.loops}
        steps = sum(max(s, 0) * (extents[v] - 1) for v, s in access.index.terms if v not in gone)
        steps += sum(max((s.modulus - 1) // s.divisor * s.stride, 0) for _, s in access.index.shares)
        last = max(last, access.index.constant + access.lanes - 1 + steps)
    return last + 1


def _without(body: Sequence[Statement], tensor: Tensor, variables: frozenset[str]) -> tuple[Statement, ...]:
    """The statements; the tensor's elements no longer move along these loops, and a parallel one owns it."""

    def moved(index: Index) -> Index:
        return replace(index, terms=tuple(term for term in index.terms if term[0] not in variables))

    def load(found: Load | PartialLoad) -> Load | PartialLoad:
        return replace(found, index=moved(found.index)) if found.tensor == tensor.name else found

    def changed(statement: Statement) -> Statement:
        match statement:
            case ParallelLoop():
                loops = shared_loops(statement)
                own = (tensor,) if any(loop.variable in variables for loop in loops) else ()
                inner = _without(loops[-1].body, tensor, variables)
                for loop in reversed(loops[1:]):
                    inner = (replace(loop, body=inner),)
                first = _without(statement.first, tensor, variables)
                return replace(statement, body=inner, private=(*statement.private, *own), first=first)
            case Assign():
                return replace(statement, value=map_loads(statement.value, load))
            case Store() | PartialStore():
                index = moved(statement.index) if statement.tensor == tensor.name else statement.index
                return replace(statement, index=index, value=map_loads(statement.value, load))
            case _:
                return with_blocks(statement, lambda block: _without(block, tensor, variables))

    return tuple(changed(statement) for statement in body)

"""Forwarding: what a thread still has in registers is not loaded again.

In: grids, before their barriers. Out: the same, in which a load of what the thread has stored or loaded
before, and still has, is a register; then without stores to arrays of the program's own that nothing loads,
and without grids that do nothing else. It sees straight through the text: two accesses are to one element
where their indices are spelled alike. Each element is written by one thread, and threads that differ in
nothing but their number have the same in their registers: it does not matter which of them stores it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from spacedsl.codegen.tree.expressions import Expression, Index, Load, Pack, Register, Type, type_of
from spacedsl.codegen.tree.parts import assigned, loaded, statements, stored, subexpressions
from spacedsl.codegen.tree.program import (
    Assign,
    AtomicCombine,
    Branch,
    CopyAhead,
    Grid,
    Loop,
    PartialStore,
    Statement,
    Store,
    Where,
)

Element = tuple[str, Index, Type]
"""An array, where in it, and how much of it."""

Held = dict[Element, tuple[Expression, frozenset[str]]]
"""What a thread has of elements: a register, or a vector of registers; and their names."""


def forwarded(grids: Sequence[Grid], own: Collection[str]) -> tuple[Grid, ...]:
    """The grids. `own`: the names of arrays that nobody sees but the program."""
    made = [replace(grid, body=_block(grid.body, {})) for grid in grids]
    unread = set(own).difference(*(loaded(grid.body) for grid in made))
    kept = (_without(grid, unread) for grid in made)
    return tuple(grid for grid in kept if stored(grid.body))


def _block(body: Sequence[Statement], held: Held) -> tuple[Statement, ...]:
    """The statements; `held` is what the thread has before them, then what it has behind them."""
    done: list[Statement] = []
    for statement in body:
        match statement:
            case Assign(register, Load(tensor, index, kind) as load):
                value, _ = held.get((tensor, index, kind), (load, None))
                done.append(Assign(register, value))
                _forget([statement], held)
                held[tensor, index, kind] = register, frozenset((register.name,))
            case Store():
                done.append(statement)
                _forget([statement], held)
                held |= _stored(statement)
            case Loop() | Where() | Branch():
                inside = dict(held)
                changes = list(statements((statement,)))
                _forget(changes, held)
                if isinstance(statement, Loop):
                    # Of the iteration before.
                    _forget(changes, inside)
                done.append(_inside(statement, inside))
                if isinstance(statement, Where):
                    held |= _stored_by_some(statement)
            case _:
                done.append(statement)
                _forget([statement], held)
    return tuple(done)


def _inside(statement: Loop | Where | Branch, held: Held) -> Statement:
    body = _block(statement.body, dict(held))
    if isinstance(statement, Branch):
        return replace(statement, body=body, otherwise=_block(statement.otherwise, dict(held)))
    return replace(statement, body=body)


def _stored(store: Store) -> Held:
    """What a thread has of an element that it has stored."""
    if not isinstance(store.value, Register | Pack):
        return {}
    names = frozenset(part.name for part in subexpressions(store.value) if isinstance(part, Register))
    return {(store.tensor, store.index, type_of(store.value)): (store.value, names)} if names else {}


def _stored_by_some(where: Where) -> Held:
    """What all threads have of what some of them have stored: not what only those have assigned."""
    changed = {register.name for s in statements(where.body) for register in assigned(s)}
    stores = (_stored(s) for s in where.body if isinstance(s, Store))
    return {e: kept for stored in stores for e, kept in stored.items() if changed.isdisjoint(kept[1])}


def _forget(changes: Sequence[Statement], held: Held) -> None:
    """What statements change, or may change."""
    if not held:
        return
    changed = {register.name for statement in changes for register in assigned(statement)}
    written: dict[str, list[Element]] = defaultdict(list)
    for statement in changes:
        match statement:
            case (
                Store(tensor, index, value)
                | PartialStore(tensor, index, value)
                | AtomicCombine(tensor, index, value)
            ):
                written[tensor].append((tensor, index, type_of(value)))
            case CopyAhead(tensor, index, source):
                written[tensor].append((tensor, index, source.type))
    gone = [element for element, (_, names) in held.items() if not names.isdisjoint(changed)]
    if written:
        gone += [
            element
            for element in held
            if element[0] in written and any(_may_be_same(element, each) for each in written[element[0]])
        ]
    for element in gone:
        held.pop(element, None)


def _may_be_same(one: Element, other: Element) -> bool:
    """Whether accesses may touch the same element; not where a constant distance keeps them apart."""
    (name, index, kind), (other_name, other_index, other_kind) = one, other
    if name != other_name:
        return False
    if replace(index, constant=0) != replace(other_index, constant=0):
        return True
    distance = other_index.constant - index.constant
    return -other_kind.lanes < distance < kind.lanes


def _without(grid: Grid, unread: Collection[str]) -> Grid:
    """A grid without stores to arrays that nothing reads."""
    shared = tuple(tensor for tensor in grid.shared if tensor.name not in unread)
    return replace(grid, shared=shared, body=tuple(_kept(grid.body, unread)))


def _kept(body: Sequence[Statement], unread: Collection[str]) -> Iterator[Statement]:
    for statement in body:
        match statement:
            case Store(tensor) | PartialStore(tensor) | CopyAhead(tensor):
                if tensor not in unread:
                    yield statement
            case Loop(_, _, inner) | Where(_, inner):
                if rest := tuple(_kept(inner, unread)):
                    yield replace(statement, body=rest)
            case Branch(_, _, inner, otherwise):
                first, second = tuple(_kept(inner, unread)), tuple(_kept(otherwise, unread))
                if first or second:
                    yield replace(statement, body=first, otherwise=second)
            case _:
                yield statement

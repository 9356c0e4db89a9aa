"""A simulated machine: the instructions of a program tree that its busiest thread executes, and their time.

Written from the meaning of the tree: the oracle of what bounds say about instructions. Of what a compiler may
save, loads of what was stored to a temporary just before, in the same straight line, cost nothing here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from spacedsl.codegen.tree import expressions
from spacedsl.codegen.tree import program as tree
from spacedsl.codegen.tree.parts import operands, shared_loops, with_blocks
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.linalg.operations import Op

Executed = Counter[tuple[str, int]]
"""Instructions of the busiest thread, by kind and bytes."""

Kept = list[tuple[str, expressions.Index, int]]
"""What was stored in a straight line: tensor, first element, lanes."""

_RESOURCES = {
    "multiply": "floating-point multipliers",
    "load": "load instructions",
    "store": "store instructions",
}


_PRODUCTS = {Op.EXP: 10}
"""Products, fused or not, that a function of f32 is printed as: of its polynomial and what leads to it."""


def executed_time_ns(program: tree.Program, device: CpuDevice) -> dict[str, float]:
    """By resource of the bound. Arrays of the program's own are what a compiler may keep in registers."""
    private = (t for s in program.body if isinstance(s, tree.ParallelLoop) for t in s.own)
    own = frozenset(t.name for t in (*(s.tensor for s in program.scratch), *private))
    time_ns = dict.fromkeys(_RESOURCES.values(), 0.0)
    for (kind, nbytes), count in executed(begun(program.body), device.threads, own).items():
        time_ns[_RESOURCES[kind]] += count / rate(device, kind, nbytes)
    return time_ns


def begun(body: tuple[tree.Statement, ...]) -> tuple[tree.Statement, ...]:
    """Where a sum is added up in memory, as if each iteration stored its part: no load of what was there."""
    found: list[tree.Statement] = []
    for statement in body:
        match statement:
            case tree.Branch(_, 1, (tree.Store() | tree.PartialStore() as first,), (further,)) if (
                isinstance(further, tree.Store | tree.PartialStore) and further.tensor == first.tensor
            ):
                found.append(first)
            case _:
                found.append(with_blocks(statement, begun))
    return tuple(found)


def executed(body: tuple[tree.Statement, ...], threads: int, own: Collection[str]) -> Executed:
    """`own`: tensors whose elements may be kept in registers from a store to the loads behind it."""
    found: Executed = Counter()
    kept: Kept = []
    for statement in body:
        match statement:
            case tree.Loop(_, extent, inner, first):
                found.update(iterations(inner, range(first, extent), extent, threads, own))
            case tree.ParallelLoop():
                by_thread = [shared(statement, t, threads, own) for t in range(threads)]
                found.update(max(by_thread, key=lambda counts: sum(counts.values())))
            case tree.Branch():
                raise AssertionError("a branch is the whole body of its loop")
            case tree.Store(tensor, index, value) | tree.PartialStore(tensor, index, value):
                found["store", width(value)] += 1
                found.update(counted(value, kept))
                if tensor in own:
                    kept.append((tensor, index, expressions.type_of(value).lanes))
            case tree.Assign(_, value):
                found.update(counted(value, kept))
    return found


def shared(parallel: tree.ParallelLoop, thread: int, threads: int, own: Collection[str]) -> Executed:
    """By one thread of a parallel loop."""
    blocks, times = dict[int, tuple[tree.Statement, ...]](), Counter[int]()
    loops = shared_loops(parallel)
    for at in positions(loops, thread, threads):
        body = loops[-1].body
        while isinstance(body[0], tree.Branch):
            body = body[0].body if at[body[0].variable] < body[0].limit else body[0].otherwise
        blocks[id(body)] = body
        times[id(body)] += 1
    found: Executed = Counter()
    for number, body in blocks.items():
        found.update({k: n * times[number] for k, n in executed(body, threads, own).items()})
    return found


def positions(loops: Sequence[tree.ParallelLoop], thread: int, threads: int) -> Iterator[dict[str, int]]:
    """Where loops that are shared out together stand in each iteration of one thread."""
    extent = math.prod(loop.extent for loop in loops)
    for number in range(extent * thread // threads, extent * (thread + 1) // threads):
        at, rest = dict[str, int](), number
        for loop in reversed(loops):
            rest, at[loop.variable] = divmod(rest, loop.extent)
        yield at


def iterations(
    body: tuple[tree.Statement, ...], share: range, extent: int, threads: int, own: Collection[str]
) -> Executed:
    """By some of the iterations of a loop. Where it branches, the last one has a body of its own."""
    parts = [(body, len(share))]
    if isinstance(body[0], tree.Branch):
        assert len(body) == 1 and body[0].limit == extent - 1
        last = int(extent - 1 in share)
        parts = [(body[0].body, len(share) - last), (body[0].otherwise, last)]
    found: Executed = Counter()
    for inner, times in parts:
        found.update({k: n * times for k, n in executed(inner, threads, own).items()})
    return found


def counted(expression: expressions.Expression, kept: Kept) -> Iterator[tuple[str, int]]:
    if isinstance(expression, expressions.Fma | expressions.Mul):
        yield "multiply", width(expression)
    elif isinstance(expression, expressions.Apply):
        yield from [("multiply", width(expression))] * _PRODUCTS.get(expression.function, 0)
    elif isinstance(expression, expressions.Load | expressions.PartialLoad) and not is_kept(expression, kept):
        yield "load", width(expression)
    for part in operands(expression):
        yield from counted(part, kept)


def is_kept(load: expressions.Load | expressions.PartialLoad, kept: Kept) -> bool:
    """Whether one store has written all lanes, so that a compiler may take them out of its vector."""
    return any(
        tensor == load.tensor
        and index.terms == load.index.terms
        and index.constant <= load.index.constant
        and load.index.constant + load.type.lanes <= index.constant + lanes
        for tensor, index, lanes in kept
    )


def width(expression: expressions.Expression) -> int:
    kind = expressions.type_of(expression)
    return kind.lanes * kind.dtype.nbytes


def rate(device: CpuDevice, kind: str, nbytes: int) -> float:
    if kind == "multiply":
        table = {4 * r.lanes: r.instructions_per_ns for r in device.arithmetic if r.unit == "multiply"}
    else:
        table = {a.nbytes: a.instructions_per_ns for a in device.accesses if a.kind == kind}
    return table.get(nbytes, max(table.values()))

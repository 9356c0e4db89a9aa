"""A simulated machine: the instructions of a program tree that its busiest thread executes, and their time.

Written from the meaning of the tree: the oracle of what bounds say about instructions. Of what a compiler may
save, loads of what was stored to a temporary just before, in the same straight line, cost nothing here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from spacedsl.codegen.tree import expressions
from spacedsl.codegen.tree import program as tree
from spacedsl.codegen.tree.parts import operands, shared_loops, statements, with_blocks
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.linalg.operations import Op

Executed = dict[tuple[str, int], Fraction]
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


def executed(
    body: tuple[tree.Statement, ...],
    threads: int,
    own: Collection[str],
    around: Mapping[str, range] | None = None,
) -> Executed:
    """`own`: tensors whose elements may be kept in registers from a store to the loads behind it. `around`:
    the iterations of the loops around it that come here, of which what is counted is the mean.
    """
    found: Executed = defaultdict(Fraction)
    kept: Kept = []
    loops = around or {}
    for statement in body:
        match statement:
            case tree.Loop(variable, extent, inner, first):
                turns = range(first, extent)
                counts = executed(inner, threads, own, {**loops, variable: turns})
                add(found, counts.items(), len(turns))
            case tree.ParallelLoop():
                by_thread = [shared(statement, t, threads, own) for t in range(threads)]
                add(found, max(by_thread, key=lambda counts: sum(counts.values())).items())
            case tree.Branch(variable, limit, inner, otherwise):
                turns = loops[variable]
                parts = range(turns.start, limit), range(limit, turns.stop)
                for part, block in zip(parts, (inner, otherwise), strict=True):
                    counts = executed(block, threads, own, {**loops, variable: part})
                    add(found, counts.items(), Fraction(len(part), len(turns)))
            case tree.Store(tensor, index, value) | tree.PartialStore(tensor, index, value):
                add(found, [(("store", width(value)), 1), *((what, 1) for what in counted(value, kept))])
                if tensor in own:
                    kept.append((tensor, index, expressions.type_of(value).lanes))
            case tree.Assign(_, value):
                add(found, ((what, 1) for what in counted(value, kept)))
    return found


def add(
    found: Executed, counts: Iterable[tuple[tuple[str, int], int | Fraction]], times: int | Fraction = 1
) -> None:
    for what, number in counts:
        found[what] += number * times


def shared(parallel: tree.ParallelLoop, thread: int, threads: int, own: Collection[str]) -> Executed:
    """By one thread of a parallel loop: iterations are alike that come to the same sides of all branches."""
    loops = shared_loops(parallel)
    body = loops[-1].body
    limits = {(s.variable, s.limit) for s in statements(body) if isinstance(s, tree.Branch)}
    counts: dict[tuple[bool, ...], Executed] = {}
    found: Executed = defaultdict(Fraction)
    for at in positions(loops, thread, threads):
        sides = tuple(at[variable] < limit for variable, limit in sorted(limits) if variable in at)
        if sides not in counts:
            here = {variable: range(place, place + 1) for variable, place in at.items()}
            counts[sides] = executed(body, threads, own, here)
        add(found, counts[sides].items())
    return found


def positions(loops: Sequence[tree.ParallelLoop], thread: int, threads: int) -> Iterator[dict[str, int]]:
    """Where loops that are shared out together stand in each iteration of one thread."""
    extent = math.prod(loop.extent for loop in loops)
    for number in range(extent * thread // threads, extent * (thread + 1) // threads):
        at, rest = dict[str, int](), number
        for loop in reversed(loops):
            rest, at[loop.variable] = divmod(rest, loop.extent)
        yield at


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

"""Lowering for GPUs: a kernel's backbone and the decisions about it become a program of grids.

In: a `Kernel` and a `GridImplementation` of it. Out: a `Program`, not yet verified. Outermost BLOCK
dimensions that lie in each other are a grid, and so is what lies between two of these. THREAD dimensions
become coordinates of the threads of a block, found from a thread's number; what some of the threads do is put
in a `Where`, but for what all of them do to combine a sum (`reductions.py`). Where blocks combine parts
of a reduction in memory, a grid before starts it (`starting.py`). LOOP, UNROLL and VECTOR dimensions
become what they are on a CPU (`expansion.py`). Where threads have to wait for each other is for
`barriers.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from spacedsl.codegen.cuda.barriers import with_barriers
from spacedsl.codegen.cuda.forwarding import forwarded
from spacedsl.codegen.cuda.fragments import Fragments, instruction_in, joined
from spacedsl.codegen.cuda.pipelines import begun, check_whole, pipelined, stages
from spacedsl.codegen.cuda.reductions import SharedOut, combined, is_for_all, shared_out
from spacedsl.codegen.cuda.starting import starting
from spacedsl.codegen.linalg.addresses import Place
from spacedsl.codegen.linalg.copying import turning_loops
from spacedsl.codegen.linalg.expansion import Expansion, enter
from spacedsl.codegen.linalg.implementation import GridImplementation
from spacedsl.codegen.linalg.instructions import Instructions
from spacedsl.codegen.linalg.nest import Fused, Node, nest
from spacedsl.codegen.linalg.registers import Registers
from spacedsl.codegen.linalg.remainder import divide
from spacedsl.codegen.linalg.temporaries import Temporary, temporaries
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import WARP
from spacedsl.codegen.tree.parts import combined_into, loaded
from spacedsl.codegen.tree.program import (
    AtomicCombine,
    Branch,
    Coordinate,
    CopyAhead,
    Grid,
    Loop,
    PartialStore,
    Program,
    Span,
    Statement,
    Store,
    Where,
)
from spacedsl.kernels.linalg.backbone import Instruction, Kernel, Level
from spacedsl.kernels.tensors import Scratch, Tensor
from spacedsl.kernels.unique_names import UniqueNames


def lower_grids(kernel: Kernel, implementation: GridImplementation) -> Program:
    """The program of a complete implementation; raises `LoweringError` where the decisions are no program."""
    nested = nest(kernel, implementation)
    turning = turning_loops(nested, kernel, implementation)
    tree = divide(nested, kernel, implementation)
    tensors = (*kernel.tensors, *(scratch.tensor for scratch in kernel.scratch))
    names = UniqueNames({t.name for t in tensors} | {p.name for p in kernel.parameters} | {kernel.name})
    stored = temporaries(kernel, implementation, turning, names.fresh)
    registers = Registers(kernel.reductions, implementation, names.fresh)
    instructions = Instructions(implementation, registers, stored)
    grids: list[Grid] = []
    for number, nodes in enumerate(_grids(tree)):
        threads = _threads(nodes, implementation)
        sums = shared_out(_reductions(nodes), implementation, threads, names.fresh)
        lowering = _Lowering(implementation, instructions, stored, names, registers, threads, sums)
        grids.append(lowering.grid(names.fresh(f"{kernel.name}_{number}"), nodes))
    through = (t for maker, t in stored.items() if not implementation.is_shared(maker))
    scratch = (*kernel.scratch, *(Scratch(t.tensor, t.has_padding) for t in through))
    own = {s.tensor.name for s in scratch} | {t.name for grid in grids for t in grid.shared}
    pipelined = frozenset(t.tensor for t in stored.values() if t.turning is not None)
    body = tuple(_waiting(grid, pipelined) for grid in forwarded(grids, own))
    begun = (*kernel.tensors, *(s.tensor for s in kernel.scratch))
    ways = combined_into(body)
    body = (*starting({t: ways[t.name] for t in begun if t.name in ways}, names.fresh), *body)
    used = {name for grid in body for name in loaded(grid.body)}
    scratch = tuple(s for s in scratch if s.tensor.name in used)
    return Program(kernel.name, kernel.tensors, kernel.parameters, body, scratch)


def _waiting(grid: Grid, pipelined: frozenset[Tensor]) -> Grid:
    """With barriers."""
    return replace(grid, body=with_barriers(grid.body, grid.shared, grid.threads, pipelined))


def _grids(tree: Sequence[Node]) -> Iterator[tuple[Node, ...]]:
    """What each grid consists of."""
    for is_blocks, nodes in groupby(tree, lambda node: isinstance(node, Fused) and node.kind == "BLOCK"):
        group = tuple(nodes)
        yield from ((node,) for node in group) if is_blocks else (group,)


def _threads(nodes: Sequence[Node], implementation: GridImplementation) -> int:
    """The threads of a block: whole warps where these have fragments."""
    taken = [
        implementation.thread_stride(node.dims[0]) * implementation.size(node.dims[0])
        for node in _inside(nodes)
        if isinstance(node, Fused) and node.kind == "THREAD"
    ]
    has_fragments = any(isinstance(node, Fused) and node.kind == "FRAGMENT" for node in _inside(nodes))
    return max(WARP if has_fragments else 1, *taken, 1)


def _reductions(nodes: Sequence[Node]) -> tuple[Instruction, ...]:
    """Those of a grid."""
    found = (n for n in _inside(nodes) if isinstance(n, Instruction) and n.reduced_dims)
    return tuple(dict.fromkeys(found))


def _inside(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Fused):
            yield from _inside((*node.body, *(node.last or ())))


@dataclass(slots=True)
class _Lowering(Expansion):
    """Of one grid."""

    implementation: GridImplementation
    instructions: Instructions
    temporaries: Mapping[Instruction, Temporary]
    names: UniqueNames
    registers: Registers
    threads: int
    """Of a block."""
    shared_out: tuple[SharedOut, ...]
    """The reductions that threads share."""
    coordinates: dict[tuple[Level | None, int, int], Coordinate] = field(default_factory=dict)
    """Of threads, by what moves along them, stride and extent."""

    def grid(self, name: str, nodes: tuple[Node, ...]) -> Grid:
        """Without barriers."""
        for node in _inside(nodes):
            if isinstance(node, Fused):
                check_whole(node, self.temporaries, self.implementation.kind(node.dims[0]))
        blocks: list[Fused] = []
        while _is_block(inside := blocks[-1].body if blocks else nodes):
            (node,) = inside
            assert isinstance(node, Fused)
            blocks.append(node)
        variables = [self.variable(block) for block in blocks]
        body = joined(self.blocks(blocks, variables, nodes, {}))
        numbers = [
            Coordinate(variable, True, math.prod(b.size for b in blocks[n + 1 :]), block.size)
            for n, (variable, block) in enumerate(zip(variables, blocks, strict=True))
        ]
        coordinates = (*numbers, *self.coordinates.values())
        count = math.prod(block.size for block in blocks)
        return Grid(name, count, self.threads, coordinates, self.shared(nodes), body)

    def shared(self, nodes: Sequence[Node]) -> tuple[Tensor, ...]:
        """The arrays of a block."""
        made = [node for node in _inside(nodes) if isinstance(node, Instruction)]
        stored = tuple(
            self.temporaries[maker].tensor
            for maker in dict.fromkeys(made)
            if maker in self.temporaries and self.implementation.is_shared(maker)
        )
        return (*stored, *(s.exchange for s in self.shared_out if s.exchange is not None))

    def blocks(
        self, blocks: Sequence[Fused], variables: Sequence[str], nodes: tuple[Node, ...], place: Place
    ) -> tuple[Statement, ...]:
        """What a block does, with its number in these dimensions."""
        if not blocks:
            return self.block(nodes, place)
        (node, *others), (variable, *rest) = blocks, variables
        inside = enter(place, node, variable)
        body = self.blocks(others, rest, node.body, inside)
        if node.last is None:
            return body
        last: tuple[Node, ...] = node.last
        return (Branch(variable, node.size - 1, body, self.blocks(_chain(last, others), rest, last, inside)),)

    def block(self, nodes: tuple[Node, ...], place: Place) -> tuple[Statement, ...]:
        """A loop and its last tile behind it are what the threads of a reduction have summed up together."""
        statements: list[Statement] = []
        for dims, group in groupby(nodes, lambda node: node.dims if isinstance(node, Fused) else (node,)):
            made = Expansion.block(self, tuple(group), place)
            for shared in self.shared_out:
                reduced = [d for d in shared.reduction.reduced_dims if self.implementation.kind(d) != "BLOCK"]
                if not set(reduced).isdisjoint(dims) and set(reduced).isdisjoint(place):
                    made = combined(shared, made, self.registers, self.threads, self.thread_variable)
            statements += made
        return tuple(statements)

    def counted(self, node: Fused, place: Place) -> tuple[Statement, ...]:
        match node.kind:
            case "THREAD":
                return self.thread(node, place)
            case "FRAGMENT":
                return self.fragment(node, place)
            case "LOOP":
                variable = self.variable(node)
                if copied := stages(node, self.temporaries):
                    around = {self.implementation.kind(dim) for dim in place}
                    is_repeated = not around <= {"BLOCK", "THREAD"}
                    return pipelined(node, copied, variable, place, self.block, is_repeated=is_repeated)
                inside = enter(place, node, variable)
                body = self.block(node.body, inside)
                if node.last is not None:
                    body = (Branch(variable, node.size - 1, body, self.block(node.last, inside)),)
                return (Loop(variable, node.size, body),)
        raise LoweringError(f"{node.dims[0]!r} is {node.kind} inside of other loops")

    def thread(self, node: Fused, place: Place) -> tuple[Statement, ...]:
        """What the iterations of a thread dimension do: all of them the same, or the last one less."""
        dim = node.dims[0]
        stride, size = self.implementation.thread_stride(dim), self.implementation.size(dim)
        inside = enter(place, node, self.coordinate(node, stride, size))
        whole = node.size if node.last is None else node.size - 1
        body, period = self.block(node.body, inside), stride * size
        parts = [((0, whole * stride, period), body)]
        if node.last is not None:
            parts.append(((whole * stride, node.size * stride, period), self.block(node.last, inside)))
        return tuple(s for span, statements in parts for s in self.some(span, statements))

    def fragment(self, node: Fused, place: Place) -> tuple[Statement, ...]:
        """What a warp does with a small matrix. `node`: its outermost side."""
        dims, instruction = instruction_in(node)
        made = Fragments(self.implementation, self.instructions, self.thread_variable)
        return self.by_one(made.statements(instruction, dims, place), place, made.spans(dims))

    def some(self, span: Span, statements: Sequence[Statement]) -> Iterator[Statement]:
        """What only these threads do, and what all of them do in between."""
        if not self.shared_out:
            yield from _where((span,), statements)
            return
        exchanges = frozenset(s.exchange.name for s in self.shared_out if s.exchange is not None)
        for is_together, group in groupby(statements, lambda s: is_for_all(s, exchanges)):
            part = tuple(group)
            yield from part if is_together else _where((span,), part)

    def coordinate(self, node: Fused, stride: int, size: int) -> str:
        key = (node.dims[0].group, stride, size)
        if key not in self.coordinates:
            self.coordinates[key] = Coordinate(self.variable(node), False, stride, size)
        return self.coordinates[key].variable

    def thread_variable(self, stride: int, size: int) -> str:
        """Whatever iterations it counts."""
        key = (None, stride, size)
        if key not in self.coordinates:
            self.coordinates[key] = Coordinate(self.names.fresh("t"), False, stride, size)
        return self.coordinates[key].variable

    def instance(self, instruction: Instruction, place: Place) -> Sequence[Statement]:
        statements = self.instructions.statements(instruction, place)
        if instruction in self.temporaries and self.temporaries[instruction].turning is not None:
            statements = begun(statements)
        return self.by_one(statements, place, ())

    def by_one(
        self, statements: tuple[Statement, ...], place: Place, taken: Iterable[tuple[int, int]]
    ) -> tuple[Statement, ...]:
        """What writes memory is done by one thread for each element.

        `taken`: strides and sizes by which threads differ, besides those of dimensions around it.
        """
        if not any(isinstance(s, Store | PartialStore | AtomicCombine | CopyAhead) for s in statements):
            return statements
        around = (d for d in place if self.implementation.kind(d) == "THREAD")
        own = ((self.implementation.thread_stride(d), self.implementation.size(d)) for d in around)
        found: list[Span] = []
        end = 1
        for stride, size in sorted({*own, *taken}):
            if end < stride:
                found.append((0, end, stride))
            end = stride * size
        return _where((*found, (0, end, self.threads)), statements)


def _is_block(nodes: Sequence[Node]) -> bool:
    match nodes:
        case (Fused(kind="BLOCK"),):
            return True
    if any(isinstance(node, Fused) and node.kind == "BLOCK" for node in nodes):
        raise LoweringError(f"blocks lie beside something else: {nodes!r}")
    return False


def _chain(nodes: Sequence[Node], others: Sequence[Fused]) -> Sequence[Fused]:
    """The block dimensions that lie in a last tile: the same ones."""
    found: list[Fused] = []
    while _is_block(nodes):
        (node,) = nodes
        assert isinstance(node, Fused)
        found.append(node)
        nodes = node.body
    if [(f.dims, f.size) for f in found] != [(o.dims, o.size) for o in others]:
        raise LoweringError(f"the last of some blocks lie in others than {others!r}")
    return found


def _where(spans: Sequence[Span], statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements, in these threads."""
    kept = tuple(span for span in spans if span[:2] != (0, span[2]))
    return (Where(kept, tuple(statements)),) if kept else tuple(statements)

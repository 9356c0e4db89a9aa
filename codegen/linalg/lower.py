"""Lowering for CPUs: a kernel's backbone and the decisions about it become a program tree.

In: a `Kernel` and an `Implementation` of it. Out: a `Program`, not yet verified. LOOP and PARALLEL
dimensions become loops, parallel ones inside each other a single one; UNROLL dimensions are expanded
(`expansion.py`), so that every instance of an instruction has a register of its own (`registers.py`).
Where a tile is not whole (`remainder.py`), registers are all the same. Memory of the program's own is then
made as small as its loops allow. What an instance does is for `instructions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spacedsl.codegen.linalg.addresses import Place, Position, loop_variable
from spacedsl.codegen.linalg.copying import Copying, asked, copyings, share, turning_loops, whole
from spacedsl.codegen.linalg.expansion import Expansion, enter
from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.linalg.instructions import Instructions
from spacedsl.codegen.linalg.nest import Fused, Node, nest
from spacedsl.codegen.linalg.prefetches import Request, requests
from spacedsl.codegen.linalg.registers import Registers
from spacedsl.codegen.linalg.remainder import divide
from spacedsl.codegen.linalg.temporaries import Temporary, temporaries
from spacedsl.codegen.tree.branches import joined
from spacedsl.codegen.tree.contraction import contract
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.parts import with_blocks
from spacedsl.codegen.tree.program import Ahead, Branch, Loop, ParallelLoop, Program, Statement, Summed
from spacedsl.codegen.tree.starts import without_starts
from spacedsl.kernels.linalg.backbone import Instruction, Kernel
from spacedsl.kernels.tensors import Scratch, Tensor
from spacedsl.kernels.unique_names import UniqueNames


def lower(kernel: Kernel, implementation: Implementation) -> Program:
    """The program of a complete implementation; raises `LoweringError` where the decisions are no program."""
    nested = nest(kernel, implementation)
    turns = turning_loops(nested, kernel, implementation)
    tree = divide(nested, kernel, implementation)
    tensors = (*kernel.tensors, *(scratch.tensor for scratch in kernel.scratch))
    names = UniqueNames({t.name for t in tensors} | {p.name for p in kernel.parameters})
    copied = copyings(tree, turns)
    turning = {c.maker: c.loop for each in copied.values() for c in each}
    stored = temporaries(kernel, implementation, turning, names.fresh)
    registers = Registers(kernel.reductions, implementation, names.fresh)
    parts = _parts(kernel, implementation, names)
    instructions = Instructions(implementation, registers, stored, parts)
    prefetched = requests(tree, kernel, implementation)
    lowering = _Lowering(kernel, implementation, names, registers, stored, instructions, prefetched, copied)
    body = joined(without_starts(lowering.block(tree, {})))
    return contract(Program(kernel.name, kernel.tensors, kernel.parameters, body, lowering.scratch))


@dataclass(frozen=True, slots=True)
class _Lowering(Expansion):
    kernel: Kernel
    implementation: Implementation
    names: UniqueNames
    registers: Registers
    temporaries: Mapping[Instruction, Temporary]
    instructions: Instructions
    requests: Mapping[Fused, tuple[Request, ...]]
    copyings: Mapping[Fused, tuple[Copying, ...]]

    @property
    def scratch(self) -> tuple[Scratch, ...]:
        """Memory that the program shares among its threads."""
        shared = (t for t in self.temporaries.values() if not t.is_private)
        return (*self.kernel.scratch, *(Scratch(t.tensor, t.has_padding) for t in shared))

    def counted(self, node: Fused, place: Place) -> tuple[Statement, ...]:
        if node.kind == "PARALLEL":
            return (self.shared_out(node, place),)
        if node.kind != "LOOP":
            raise LoweringError(f"{node.dims[0]!r} is {node.kind}, for which there is no code")
        variable, first = self.variable(node), self.first(node, enter(place, node, Position(0)))
        if not self.begins(node, place):
            return (*first, Loop(variable, node.size, self.iteration((node,), (variable,), place)))
        begun = self.block(node.body, enter(place, node, 0))
        if whole(node) == 1:
            return (*begun, *self.block(node.last or (), enter(place, node, 1)))
        return (*begun, Loop(variable, node.size, self.iteration((node,), (variable,), place), first=1))

    def begins(self, node: Fused, place: Place) -> bool:
        """Whether its first iteration is by itself: the first of all loops of a sum."""
        if not any(
            self.implementation.is_begun(reduction)
            and not set(node.dims).isdisjoint(reduction.reduced_dims)
            and all(place.get(dim, 0) == 0 for dim in reduction.reduced_dims)
            for reduction in self.kernel.reductions
        ):
            return False
        if any(node in (c.loop, *c.sharing, c.asking) for copied in self.copyings.values() for c in copied):
            raise LoweringError(f"{node.dims!r} copy ahead, and their first iteration is by itself")
        return True

    def shared_out(self, node: Fused, place: Place) -> ParallelLoop:
        """The loop over a parallel dimension, and those over others of which it consists."""
        nodes, private = [node], self.private(node)
        while any(isinstance(inner, Fused) and inner.kind == "PARALLEL" for inner in nodes[-1].body):
            found = _only(nodes[-1].body)
            if self.registers.combined(found.dims) or self.private(found) != private:
                raise LoweringError(f"{found.dims!r} are parallel for sums or memory of their own")
            nodes.append(found)
        variables = [self.variable(each) for each in nodes]
        body = self.iteration((node,), variables, place)
        for variable, each in zip(reversed(variables[1:]), reversed(nodes[1:]), strict=True):
            body = (ParallelLoop(variable, each.size, body),)
        if any(each in self.copyings for each in nodes if len(nodes) > 1):
            raise LoweringError(f"{node.dims!r} copy ahead, and are shared out with others")
        first = self.first(node, enter(place, node, variables[0]))
        if first and node.last is not None:
            first = (Branch(variables[0], node.size - 1, first, ()),)
        combined = self.registers.combined(node.dims)
        summed = tuple(
            Summed(part, store.access.tensor.name)
            for store, part in self.instructions.parts.items()
            if store.access is not None and self.implementation.order(store, node.dims[0]) == "INNER"
        )
        return ParallelLoop(variables[0], node.size, body, combined, private, first, summed)

    def first(self, node: Fused, place: Place) -> tuple[Statement, ...]:
        """What is copied before the first iteration of a loop."""
        return self.block(tuple(n for copying in self.copyings.get(node, ()) for n in copying.nest), place)

    def ahead(self, node: Fused, place: Place) -> Iterator[Ahead]:
        """What an iteration copies for others."""
        for copying in (c for copied in self.copyings.values() for c in copied):
            statements: tuple[Statement, ...] = ()
            if copying.host is node:
                statements = share(copying, place, self.variable, self.block)
            elif copying.asking is node:
                statements = asked(copying, place, self.implementation.size)
            if statements:
                yield Ahead(loop_variable(copying.loop, place), copying.tiles, statements)

    def iteration(
        self, nodes: tuple[Node, ...], variables: Sequence[str], place: Place
    ) -> tuple[Statement, ...]:
        """What one iteration does of loops that consist of each other, with these variables."""
        if not variables:
            return self.block(nodes, place)
        node, (variable, *others) = _only(nodes), variables
        inside = enter(place, node, variable)
        requested = self.requests.get(node, ())
        prefetches = (prefetch for request in requested for prefetch in request.statements(inside))
        moved = {n for copying in self.copyings.get(node, ()) for n in copying.nest}
        kept = tuple(n for n in node.body if n not in moved)
        body = (*prefetches, *self.ahead(node, inside), *self.iteration(kept, others, inside))
        is_added = any(map(self.implementation.is_added, node.dims))
        if is_added and whole(node) == 1:
            body = _known(body, variable, is_first=True)
        if node.last is None:
            return body
        last = self.iteration(node.last, others, inside)
        if is_added:
            last = _known(last, variable, is_first=False)
        return (Branch(variable, node.size - 1, body, last),)

    def private(self, node: Fused) -> tuple[Tensor, ...]:
        """Temporaries of which each thread of a parallel dimension has one of its own."""
        return tuple(
            temporary.tensor
            for maker, temporary in self.temporaries.items()
            if temporary.is_private and self.implementation.order(maker, node.dims[0]) == "INNER"
        )


def _parts(kernel: Kernel, implementation: Implementation, names: UniqueNames) -> dict[Instruction, Tensor]:
    """By the stores of sums that threads add up: what each thread has of the result."""
    return {
        store: replace(store.access.tensor, name=names.fresh(f"{store.access.tensor.name}_part"))
        for reduction in kernel.reductions
        if any(
            implementation.is_added(d) and implementation.kind(d) == "PARALLEL"
            for d in reduction.reduced_dims
        )
        for store in reduction.consumers
        if store.access is not None
    }


def _known(body: tuple[Statement, ...], variable: str, *, is_first: bool) -> tuple[Statement, ...]:
    """The statements where it is known whether they are of the first iteration of a loop, on which some of
    them depend.
    """
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Branch) and (statement.variable, statement.limit) == (variable, 1):
            found += statement.body if is_first else statement.otherwise
        else:
            found.append(with_blocks(statement, lambda block: _known(block, variable, is_first=is_first)))
    return tuple(found)


def _only(nodes: tuple[Node, ...]) -> Fused:
    """The one loop that a parallel loop consists of."""
    match nodes:
        case (Fused() as node,):
            return node
    raise LoweringError(f"parallel dimensions lie in a parallel one beside something else: {nodes!r}")

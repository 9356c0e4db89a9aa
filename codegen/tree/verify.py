"""The verifier of program trees: what no correct lowering produces is refused before it is printed.

In: a `Program`. Out: the same `Program`, or a `VerificationError`. It is written from the meaning of the
tree alone and knows nothing of candidates. It does not say that a program computes the right thing:
running it does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from operator import is_

from spacedsl.codegen.tree.errors import VerificationError, refuse
from spacedsl.codegen.tree.expressions import Expression, Index, Number, Position, Register, Type, type_of
from spacedsl.codegen.tree.parts import (
    loaded,
    overwritten,
    own_memory,
    shared_loops,
    statements,
    stored,
)
from spacedsl.codegen.tree.program import (
    Ahead,
    Assign,
    AtomicCombine,
    Barrier,
    Branch,
    CommitCopies,
    Coordinate,
    CopyAhead,
    Grid,
    Let,
    Loop,
    Multiply,
    ParallelLoop,
    PartialStore,
    PerThread,
    Phase,
    Prefetch,
    Program,
    Statement,
    Store,
    Sweep,
    Take,
    TakeEach,
    WaitForCopies,
    When,
    Where,
)
from spacedsl.codegen.tree.races import contested
from spacedsl.codegen.tree.residues import residue, swept
from spacedsl.codegen.tree.rules import combination_fault, part_fault, product_fault, spans_fault
from spacedsl.codegen.tree.scopes import Scope
from spacedsl.codegen.tree.threads import are_apart
from spacedsl.codegen.tree.touched import is_apart
from spacedsl.codegen.tree.verified import VERIFIED, Verified
from spacedsl.codegen.tree.verify_expressions import ExpressionChecker
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine, neutral
from spacedsl.kernels.tensors import Tensor

MOST_THREADS = 1024
"""Of a block, on any GPU."""


COPIED_BYTES = (4, 8, 16)
"""That one thread copies ahead with an instruction."""


def verify(program: Program) -> Program:
    """The program itself; raises `VerificationError` at the first rule that it breaks.

    Phases of parallel loops, which are functions of their own, are not looked at again in other programs.
    """
    _check_names(program)
    checker = _Checker(program)
    scope, rest = Scope(), program.body
    for phase in _leading(program):
        if all(isinstance(s, ParallelLoop) for s in phase.statements):
            checker.phase(phase)
        else:
            scope = checker.block(phase.statements, scope)
        rest = rest[len(phase.statements) :]
    checker.block(rest, scope)
    for tensor in (*program.tensors, *(s.tensor for s in program.scratch if not s.is_zeroed)):
        counts = checker.combined if tensor.name in checker.combined else checker.writes
        written = counts[tensor.name]
        if tensor.is_output and written < tensor.elements and tensor.name not in checker.uncounted:
            raise VerificationError(
                f"output {tensor.name} has {tensor.elements} elements, but only {written} are written"
            )
    return program


def _leading(program: Program) -> Sequence[Phase]:
    """Its phases, if what they do is what the program begins with, and none if it is not."""
    statements = [statement for phase in program.phases for statement in phase.statements]
    is_body = len(statements) <= len(program.body) and all(map(is_, statements, program.body))
    return program.phases if is_body else ()


def _check_names(program: Program) -> None:
    """Tensors, parameters and loops are told apart by name alone."""
    taken: set[str] = set()
    arguments = [t.name for t in program.tensors] + [p.name for p in program.parameters]
    arguments += [t.name for t in own_memory(program)]
    loops = [s.variable for s in statements(program.body) if isinstance(s, Loop | ParallelLoop)]
    grids = [s for s in program.body if isinstance(s, Grid)]
    loops += [name for g in grids for name in (g.name, *(c.variable for c in g.coordinates))]
    parts = (s for s in statements(program.body) if isinstance(s, PerThread))
    loops += [c.variable for part in parts for c in part.coordinates]
    for name in (*arguments, *loops):
        if name in taken:
            raise VerificationError(f"the name {name} is used twice")
        if not name.isidentifier() or not name.isascii():
            raise VerificationError(f"{name!r} is not an identifier")
        taken.add(name)


class _Checker(ExpressionChecker):
    """Statements of one program, one after the other."""

    def phase(self, phase: Phase) -> None:
        """One of parallel loops: of what is done before, it matters to it only what is stored to."""
        known = VERIFIED.get(phase)
        if known is None or not known.is_of(self.program, self.tensors):
            alone = _Checker(self.program, self.stored)
            alone.block(phase.statements, Scope())
            known = VERIFIED[phase] = Verified(
                self.program.tensors,
                self.program.parameters,
                alone.touched,
                frozenset(alone.names),
                frozenset(alone.read),
                alone.writes,
                alone.starts,
                frozenset(alone.uncounted),
            )
        for name in sorted(known.read.difference(self.stored)):
            raise VerificationError(f"output {name} is read before it is written")
        self.writes.update(known.writes)
        self.starts.update(known.starts)
        self.uncounted |= known.uncounted

    def block(self, body: tuple[Statement, ...], scope: Scope) -> Scope:
        """The scope behind it."""
        for statement in body:
            if isinstance(statement, Let | Take | TakeEach):
                scope = self.declared(statement, scope)
            else:
                self.statement(statement, scope)
        return scope

    def declared(self, statement: Let | Take | TakeEach, scope: Scope) -> Scope:
        """With variables for the rest of its block, which sees the same registers."""
        names = statement.variables if isinstance(statement, TakeEach) else (statement.variable,)
        for name in names:
            self.unused(name, scope)
        if isinstance(statement, Let):
            self.position(statement.position, scope)
            scope = scope.with_moving(names[0], scope.moves(statement.position))
            if scope.grid is not None:
                scope = scope.with_residue(names[0], residue(statement.position, scope.residues))
            return replace(scope, ranges=scope.ranges.with_position(names[0], statement.position))
        kind = self.expression(statement.value, scope)
        is_position = kind.dtype.is_integer and kind.dtype is not DType.U64 and kind.lanes == len(set(names))
        if isinstance(statement, TakeEach):
            is_position &= kind.dtype.least <= statement.low and statement.high <= kind.dtype.greatest
        if not is_position or statement.low > statement.high:
            raise VerificationError(f"{kind} from {statement.low} to {statement.high} is no position")
        ends = Position(statement.low), Position(statement.high)
        for name in names:
            scope = scope.with_moving(name, True)
        ranges = reduce(lambda found, name: found.with_loop(name, *ends), names, scope.ranges)
        return replace(scope, ranges=ranges)

    def unused(self, name: str, scope: Scope) -> None:
        """A name for a variable, which nothing else has here."""
        if not name.isidentifier() or not name.isascii():
            raise VerificationError(f"{name!r} is not an identifier")
        taken = (*self.tensors, *self.parameters, *scope.private, *scope.registers)
        if name in taken or name in scope.ranges:
            raise VerificationError(f"variable {name} has the name of something else")
        self.names.add(name)

    def statement(self, statement: Statement, scope: Scope) -> None:
        match statement:
            case CopyAhead(tensor, index, source):
                kind = self.expression(source, scope)
                is_shared = scope.is_shared(tensor) and source.tensor not in scope.private
                if not is_shared or kind.dtype.nbytes * kind.lanes not in COPIED_BYTES:
                    raise VerificationError(f"{kind} is copied ahead from {source.tensor} to {tensor}")
                self.store(tensor, index, source, range(kind.lanes), scope)
            case Multiply():
                self.product(statement, scope)
            case CommitCopies() | WaitForCopies():
                if scope.grid is None:
                    raise VerificationError("nothing is copied ahead outside of a grid")
            case Assign(register, value):
                self.assign(register, value, scope)
            case Store(tensor, index, value, is_streamed):
                if is_streamed and type_of(value).lanes == 1 and scope.grid is None:
                    raise VerificationError(f"a single element of {tensor} is streamed")
                self.store(tensor, index, value, range(type_of(value).lanes), scope)
            case PartialStore(tensor, index, value, count):
                refuse(part_fault(type_of(value), count))
                self.store(tensor, index, value, range(count), scope)
            case AtomicCombine(tensor, index, value, combine):
                self.combination(tensor, index, self.expression(value, scope), combine, scope)
            case Prefetch(tensor, index):
                self.prefetch(tensor, [v for v, _ in (*index.terms, *index.shares)], scope)
            case _:
                self.control(statement, scope)

    def control(self, statement: Statement, scope: Scope) -> None:
        """What says when other statements are done, and in which threads."""
        match statement:
            case Loop() | ParallelLoop():
                first = statement.first if isinstance(statement, Loop) else 0
                if not 0 <= first < statement.extent:
                    iterations = f"{statement.extent - first} iterations from {first} on"
                    raise VerificationError(f"loop {statement.variable} has {iterations}")
                if isinstance(statement, ParallelLoop):
                    self.parallel(statement, scope)
                else:
                    self.block(statement.body, scope.inside(statement))
            case Grid():
                self.grid(statement, scope)
            case Barrier():
                if scope.grid is None or scope.spans or not scope.is_together:
                    raise VerificationError("a barrier that not all threads of a block come to")
            case PerThread():
                self.part(statement, scope)
            case Where(spans, body):
                refuse(spans_fault(spans))
                self.block(body, scope.within(spans))
            case Sweep():
                self.sweep(statement, scope)
            case When(least, body, otherwise):
                if not least:
                    raise VerificationError("a condition without positions")
                for position in least:
                    self.position(position, scope)
                self.block(body, scope.at_times(scope.ranges, *least))
                self.block(otherwise, scope.at_times(scope.ranges, *least))
            case Branch(variable, limit, body, otherwise):
                around = scope.loops.get(variable, range(0))
                if not around.start < limit < around.stop:
                    raise VerificationError(f"a branch at {limit} of {variable} is always taken, or never")
                if variable in scope.moving:
                    raise VerificationError(f"threads of a block take both ways of a branch of {variable}")
                self.block(body, scope.where(variable, range(around.start, limit)))
                self.block(otherwise, scope.where(variable, range(limit, around.stop)))
            case Ahead(variable, limit, body):
                around = scope.loops.get(variable, range(0))
                if not around.start + 1 < limit <= around.stop:
                    raise VerificationError(f"no iteration of {variable} below {limit} comes next")
                self.block(body, scope.where(variable, range(around.start, limit - 1)))

    def sweep(self, sweep: Sweep, scope: Scope) -> None:
        variable, first, last = sweep.variable, sweep.first, sweep.last
        self.unused(variable, scope)
        self.position(first, scope)
        self.position(last, scope)
        if sweep.step < 1:
            raise VerificationError(f"sweep {variable} goes on by {sweep.step}")
        inside = scope.at_times(scope.ranges.with_loop(variable, first, last), first, last)
        inside = inside.up_to(first, last)
        if scope.grid is not None:
            inside = inside.with_residue(variable, swept(sweep, scope.residues))
        self.block(sweep.body, inside.with_moving(variable, inside.is_together is not scope.is_together))

    def grid(self, grid: Grid, scope: Scope) -> None:
        """It is outermost; blocks and threads are as many as their coordinates count."""
        if scope.loops or scope.registers:
            raise VerificationError(f"grid {grid.name} is not outermost")
        if grid.blocks >= 1 << 31 or grid.threads > MOST_THREADS:
            raise VerificationError(f"grid {grid.name} has {grid.blocks} blocks of {grid.threads} threads")
        counted = math.prod(c.extent for c in grid.coordinates if c.is_block)
        if counted != grid.blocks:
            raise VerificationError(f"grid {grid.name} has {grid.blocks} blocks with {counted} coordinates")
        stride = 1
        for c in sorted((c for c in grid.coordinates if c.is_block), key=lambda c: (c.stride, c.extent)):
            if c.stride != stride:
                raise VerificationError(f"blocks that differ in {c.variable} are not told apart")
            stride *= c.extent
        for c in grid.coordinates:
            if not c.is_block and (c.stride < 1 or c.stride * c.extent > grid.threads):
                raise VerificationError(f"coordinate {c.variable} takes more threads than there are")
        self.sums(grid)
        numbers = [c for c in grid.coordinates if c.is_block]
        with self.beside("blocks that differ in", numbers, (grid,), (*grid.shared, *grid.private)):
            self.block(grid.body, Scope.of_grid(grid))

    def part(self, part: PerThread, scope: Scope) -> None:
        """The coordinates count so many threads, each of which comes to others."""
        if scope.grid is None or scope.part is not None or scope.spans or not scope.is_together:
            raise VerificationError("threads that are by themselves are so in others, or outside of a grid")
        if part.threads > scope.grid.threads:
            raise VerificationError(
                f"{part.threads} threads of the {scope.grid.threads} in {scope.grid.name}"
            )
        stride = 1
        for c in sorted(part.coordinates, key=lambda c: (c.stride, c.extent)):
            if c.is_block or c.stride != stride:
                raise VerificationError(f"threads that differ in {c.variable} are not told apart")
            stride *= c.extent
        self.block(part.body, scope.by_itself(part))

    def sums(self, grid: Grid) -> None:
        """What a grid combines parts with, in one way, grids before have started from what changes nothing of
        them; it does nothing else with it.

        Where stores are not counted, they may have left anything there.
        """
        ways: dict[str, set[Combine]] = {}
        for statement in statements(grid.body):
            if isinstance(statement, AtomicCombine):
                ways.setdefault(statement.tensor, set()).add(statement.combine)
        others = loaded(grid.body) | overwritten(grid.body) if ways else set[str]()
        for name, (combine, *more) in sorted(ways.items()):
            tensor, what = self.tensors.get(name), f"grid {grid.name} has a {combine.value} in {name}"
            if name in others or more:
                raise VerificationError(f"{what}, and does something else with it as well")
            is_begun = name in self.uncounted or (
                tensor is not None
                and self.writes[name] == self.starts[name, neutral(combine, tensor.dtype)] >= tensor.elements
            )
            if not is_begun:
                raise VerificationError(f"{what}, not all of which starts from what changes nothing")

    def parallel(self, loop: ParallelLoop, scope: Scope) -> None:
        """It is outermost, or all that there is in one that is; its iterations do not meet."""
        if set(scope.loops) != set(scope.parallel) or not scope.is_counted:
            raise VerificationError(f"parallel loop {loop.variable} is not outermost")
        if scope.loops and (loop.combined or loop.own):
            raise VerificationError(f"parallel loop {loop.variable} has memory of its own inside another")
        if len(loop.body) > 1 and any(isinstance(s, ParallelLoop) for s in loop.body):
            raise VerificationError(f"parallel loop {loop.variable} has another one beside something else")
        if loop.first and len(shared_loops(loop)) > 1:
            raise VerificationError(
                f"parallel loop {loop.variable}, which has a first part, is shared out in two"
            )
        for partial in loop.combined:
            self.expression(partial.register, scope)
        if scope.parallel:
            self.block(loop.body, scope.inside(loop))
            return
        inside = (*loop.first, *loop.body)
        self.summed(loop, loaded(inside) | stored(inside))
        with self.beside("iterations of parallel loop", shared_loops(loop), inside, loop.own):
            self.block(loop.first, scope.inside(loop))
            self.block(loop.body, scope.inside(loop))

    def summed(self, loop: ParallelLoop, used: Collection[str]) -> None:
        """Parts are as large as their sum, which the iterations leave alone."""
        for each in loop.summed:
            tensor, part = self.tensors.get(each.tensor), each.part
            if tensor is None or not tensor.is_output:
                raise VerificationError(f"{each.tensor} is no output, but it is summed up")
            if not part.dtype == tensor.dtype or not part.span == tensor.span == tensor.elements:
                raise VerificationError(f"{part.name} is no part of {tensor.name}")
            if tensor.name in used:
                raise VerificationError(
                    f"parallel loop {loop.variable} sums up {tensor.name}, and accesses it"
                )
            self.writes[part.name] += part.elements
            self.writes[tensor.name] += tensor.elements
            self.touched[tensor.name] = tensor

    @contextmanager
    def beside(
        self,
        what: str,
        loops: Sequence[ParallelLoop | Coordinate],
        body: Sequence[Statement],
        own: Sequence[Tensor],
    ) -> Iterator[None]:
        """Around the check of what is done at the same time: nothing touches what others store.

        `own`: arrays that are not the same for all.
        """
        names = overwritten(body) - {t.name for t in own}
        self.contested = {name: [] for name in sorted(names)}
        yield
        extents = {each.variable: each.extent for each in loops}
        touched, self.contested = self.contested, {}
        for name, accesses in touched.items():
            variable = contested(extents, self.tensors[name], accesses)
            if variable is not None:
                raise VerificationError(f"{what} {variable} may store to the same {name}, or read it")

    def assign(self, register: Register, value: Expression, scope: Scope) -> None:
        found = self.expression(value, scope)
        if found != register.type:
            raise VerificationError(f"register {register.name} is {register.type}, its value is {found}")
        if scope.registers.get(register.name, register.type) != register.type:
            raise VerificationError(f"register {register.name} changes its type")
        if register.name in self.tensors or register.name in self.parameters or register.name in scope.ranges:
            raise VerificationError(f"register {register.name} has the name of something else")
        scope.registers[register.name] = register.type
        self.names.add(register.name)

    def store(self, name: str, index: Index, value: Expression, lanes: range, scope: Scope) -> None:
        tensor = self.access(name, index, self.expression(value, scope), lanes, scope)
        if not tensor.is_output:
            raise VerificationError(f"{name} is not an output, but it is stored to")
        if not self.is_counted(index, scope):
            self.uncounted.add(name)
            self.by_itself(tensor, index.position, lanes, scope)
            return
        strides = dict(index.terms)
        moving = {v: i for v, i in scope.loops.items() if v not in scope.threads or v in strides}
        written = len(lanes) * math.prod(map(len, moving.values()))
        if self.combined[name]:
            raise VerificationError(f"{name} is stored to after parts were combined with it")
        self.writes[name] += written
        if isinstance(value, Number):
            self.starts[name, value.value] += written

    def by_itself(self, tensor: Tensor, position: Position, lanes: range, scope: Scope) -> None:
        """Threads that are by themselves store to elements of their own, along a dimension.

        That is asked of each store alone, for one iteration of what is around them: they wait in between.
        Unlike those of blocks, their loads and other stores are not judged together with it.
        """
        if scope.part is None or scope.grid is None or tensor in scope.grid.private:
            return
        for c in scope.part.coordinates:
            if not scope.is_first(c) and not is_apart(
                tensor, position, lanes, c.variable, scope.ranges, scope.around
            ):
                raise VerificationError(
                    f"threads that differ in {c.variable} may store to the same {tensor.name}"
                )

    def is_counted(self, index: Index, scope: Scope) -> bool:
        """Whether it is of loops alone, all of which have so many iterations."""
        return scope.is_counted and not index.atoms and all(v in scope.loops for v, _ in index.terms)

    def combination(self, name: str, index: Index, kind: Type, combine: Combine, scope: Scope) -> None:
        """Threads of a block, which may have the same value, do not combine it with the same element.

        Those that are by themselves have numbers of their own, and may: none of them is lost.
        """
        tensor = self.access(name, index, kind, range(1), scope)
        refuse(combination_fault(kind, combine))
        if scope.grid is None or name in scope.private:
            raise VerificationError(f"{name} is combined with parts, which is no memory of a GPU")
        if scope.part is not None:
            self.uncounted.add(name)
            return
        moved = tuple((scope.threads[v], stride) for v, stride in index.terms if v in scope.threads)
        if not are_apart(scope.grid.threads, scope.spans, moved):
            raise VerificationError(f"threads of a block combine what they have with the same {name}")
        self.combined[tensor.name] += math.prod(len(scope.loops[v]) for v, _ in index.terms)

    def product(self, product: Multiply, scope: Scope) -> None:
        """A whole warp comes to it."""
        kinds = [self.expression(e, scope) for e in (*product.result, *product.a, *product.b)]
        if not scope.has_whole_warps or scope.spans:
            raise VerificationError("a product that not all threads of a warp come to")
        refuse(product_fault(product, kinds))

    def prefetch(self, name: str, variables: Sequence[str], scope: Scope) -> None:
        """Any address will do; memory of the program's own is left to the caches."""
        if name not in self.arguments:
            raise VerificationError(f"there is no argument {name} to prefetch")
        for variable in variables:
            if variable not in scope.loops:
                raise VerificationError(f"a prefetch of {name} uses {variable} outside of its loop")

"""The verifier of program trees: what no correct lowering produces is refused before it is printed.

In: a `Program`. Out: the same `Program`, or a `VerificationError`. It is written from the meaning of the
tree alone and knows nothing of candidates. It does not say that a program computes the right thing:
running it does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from spacedsl.codegen.parts import (
    added_to,
    index_bits,
    index_position,
    loaded,
    operands,
    overwritten,
    own_memory,
    shared_loops,
    statements,
)
from spacedsl.codegen.program import (
    WARP,
    Ahead,
    Assign,
    AtomicAdd,
    Barrier,
    Branch,
    CommitCopies,
    Coordinate,
    CopyAhead,
    Counted,
    Expression,
    Grid,
    Index,
    Let,
    Load,
    LoadMatrix,
    Loop,
    Multiply,
    Number,
    ParallelLoop,
    ParameterValue,
    PartialLoad,
    PartialStore,
    PerThread,
    Position,
    Prefetch,
    Program,
    Register,
    Shuffle,
    Span,
    Statement,
    Store,
    Sweep,
    Take,
    TakeEach,
    Type,
    WaitForCopies,
    When,
    Where,
    type_of,
)
from spacedsl.codegen.ranges import Ranges
from spacedsl.codegen.rules import (
    addition_fault,
    gpu_fault,
    part_fault,
    product_fault,
    spans_fault,
    type_fault,
)
from spacedsl.codegen.threads import are_apart
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.fragments import ROW_BYTES
from spacedsl.kernels.pipeline.affine import Opaque, atoms
from spacedsl.kernels.tensors import Tensor

MOST_THREADS = 1024
"""Of a block, on any GPU."""


COPIED_BYTES = (4, 8, 16)
"""That one thread copies ahead with an instruction."""


class VerificationError(Exception):
    """A program tree that breaks a rule; the message names the rule and the place."""


def _refuse(fault: str | None) -> None:
    """Raises `VerificationError` where there is one."""
    if fault is not None:
        raise VerificationError(fault)


def verify(program: Program) -> Program:
    """The program itself; raises `VerificationError` at the first rule that it breaks."""
    _check_names(program)
    checker = _Checker(program)
    checker.block(program.body, _Scope())
    for tensor in (*program.tensors, *(s.tensor for s in program.scratch if not s.is_zeroed)):
        counts = checker.added if tensor.name in checker.added else checker.writes
        written = counts[tensor.name]
        if tensor.is_output and written < tensor.elements and tensor.name not in checker.uncounted:
            raise VerificationError(
                f"output {tensor.name} has {tensor.elements} elements, but only {written} are written"
            )
    return program


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


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is visible at a place: loops with their iterations, registers with their types."""

    loops: Mapping[str, range] = field(default_factory=dict)
    registers: dict[str, Type] = field(default_factory=dict)
    parallel: tuple[str, ...] = ()
    """The variables of parallel loops around it."""
    private: Mapping[str, Tensor] = field(default_factory=dict)
    """Arrays that each thread has of its own, or each block."""
    ranges: Ranges = field(default_factory=Ranges)
    """Of all loops, and of other variables of positions."""
    is_counted: bool = True
    """Whether it is known how often a statement is done: loops alone say so."""
    threads: Mapping[str, Coordinate] = field(default_factory=dict)
    """Coordinates of the threads of a grid, which are loops, too."""
    blocks: tuple[str, ...] = ()
    """Coordinates of the blocks of a grid, which are loops, too."""
    grid: Grid | None = None
    spans: tuple[Span, ...] = ()
    """Of the threads of a block, which ones come here."""
    part: PerThread | None = None
    """Where each of some threads is by itself."""
    around: tuple[str, ...] = ()
    """The loops around that."""
    moving: frozenset[str] = frozenset()
    """Variables that are not the same for all threads of a block."""
    is_together: bool = True
    """Whether all threads of a block come here, or none."""

    @property
    def has_whole_warps(self) -> bool:
        """Whether the threads of a block are multiples of a warp."""
        return self.grid is not None and self.grid.threads % WARP == 0

    def inside(self, loop: Loop | ParallelLoop) -> _Scope:
        loops = {**self.loops, loop.variable: range(loop.extent)}
        if isinstance(loop, ParallelLoop):
            registers = {p.register.name: p.register.type for p in loop.combined}
            own = {**self.private, **{t.name: t for t in loop.private}}
            # Threads see no variables but those of loops that are shared out.
            return _Scope(loops, registers, (*self.parallel, loop.variable), own, _iterations(loops))
        ranges = self.ranges.with_loop(loop.variable, Position(0), Position(loop.extent - 1))
        return replace(self, loops=loops, registers=dict(self.registers), ranges=ranges)

    def at_times(self, ranges: Ranges, *said: Position) -> _Scope:
        """What is done as often as positions say."""
        is_together = self.is_together and not any(map(self.moves, said))
        registers = dict(self.registers)
        return replace(self, registers=registers, ranges=ranges, is_counted=False, is_together=is_together)

    def moves(self, position: Position) -> bool:
        """Whether it is not the same for all threads of a block."""
        return not self.moving.isdisjoint(position.names)

    def with_moving(self, variable: str, is_moving: bool) -> _Scope:
        return replace(self, moving=self.moving | {variable}) if is_moving else self

    def where(self, variable: str, iterations: range) -> _Scope:
        """Some of the iterations of a loop around this place."""
        return replace(self, loops={**self.loops, variable: iterations}, registers=dict(self.registers))

    def within(self, spans: Sequence[Span]) -> _Scope:
        """Some of the threads of a block. What they assign is visible around them."""
        loops = dict(self.loops)
        for low, high, period in spans:
            for name, coordinate in self.threads.items():
                if coordinate.stride * coordinate.extent == period:
                    loops[name] = range(low // coordinate.stride, -(-high // coordinate.stride))
        return replace(self, loops=loops, spans=(*self.spans, *spans))


class _Checker:
    def __init__(self, program: Program) -> None:
        own = (s.tensor for s in program.scratch)
        self.tensors: dict[str, Tensor] = {t.name: t for t in (*program.tensors, *own)}
        self.arguments = {t.name for t in program.tensors}
        self.parameters = {p.name: p for p in program.parameters}
        self.writes = Counter[str]()
        self.zeros = Counter[str]()
        """Of these, those of 0."""
        self.uncounted: set[str] = set()
        """What is stored to at positions that are not counted."""
        self.added = Counter[str]()
        """Elements that grids add to."""
        self.index_bits = index_bits(program)

    def block(self, body: tuple[Statement, ...], scope: _Scope) -> None:
        for statement in body:
            if isinstance(statement, Let | Take | TakeEach):
                scope = self.declared(statement, scope)
            else:
                self.statement(statement, scope)

    def declared(self, statement: Let | Take | TakeEach, scope: _Scope) -> _Scope:
        """With variables for the rest of its block, which sees the same registers."""
        names = statement.variables if isinstance(statement, TakeEach) else (statement.variable,)
        for name in names:
            self.unused(name, scope)
        if isinstance(statement, Let):
            self.position(statement.position, scope)
            scope = scope.with_moving(names[0], scope.moves(statement.position))
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

    def unused(self, name: str, scope: _Scope) -> None:
        """A name for a variable, which nothing else has here."""
        if not name.isidentifier() or not name.isascii():
            raise VerificationError(f"{name!r} is not an identifier")
        taken = (*self.tensors, *self.parameters, *scope.private, *scope.registers)
        if name in taken or name in scope.ranges:
            raise VerificationError(f"variable {name} has the name of something else")

    def position(self, position: Position, scope: _Scope) -> None:
        """It is of variables that are visible."""
        for name in position.names:
            if name not in scope.ranges:
                raise VerificationError(f"a position uses {name}, which is not known here")
        if any(isinstance(atom, Opaque) for atom in atoms(position)):
            raise VerificationError("a position is made of values")

    def statement(self, statement: Statement, scope: _Scope) -> None:
        match statement:
            case CopyAhead(tensor, index, source):
                kind = self.expression(source, scope)
                if tensor not in scope.private or kind.dtype.nbytes * kind.lanes not in COPIED_BYTES:
                    raise VerificationError(f"{kind} is copied ahead to {tensor}")
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
                _refuse(part_fault(type_of(value), count))
                self.store(tensor, index, value, range(count), scope)
            case AtomicAdd(tensor, index, value):
                self.addition(tensor, index, self.expression(value, scope), scope)
            case Prefetch(tensor, index):
                self.prefetch(tensor, [v for v, _ in (*index.terms, *index.shares)], scope)
            case _:
                self.control(statement, scope)

    def control(self, statement: Statement, scope: _Scope) -> None:
        """What says when other statements are done, and in which threads."""
        match statement:
            case Loop() | ParallelLoop():
                if statement.extent < 1:
                    raise VerificationError(f"loop {statement.variable} has {statement.extent} iterations")
                if isinstance(statement, ParallelLoop):
                    self.parallel(statement, scope)
                    self.block(statement.first, scope.inside(statement))
                self.block(statement.body, scope.inside(statement))
            case Grid():
                self.grid(statement, scope)
            case Barrier():
                if scope.grid is None or scope.spans or not scope.is_together:
                    raise VerificationError("a barrier that not all threads of a block come to")
            case PerThread():
                self.part(statement, scope)
            case Where(spans, body):
                _refuse(spans_fault(spans))
                self.block(body, scope.within(spans))
            case Sweep(variable, first, last, step, body):
                self.unused(variable, scope)
                self.position(first, scope)
                self.position(last, scope)
                if step < 1:
                    raise VerificationError(f"sweep {variable} goes on by {step}")
                inside = scope.at_times(scope.ranges.with_loop(variable, first, last), first, last)
                self.block(body, inside.with_moving(variable, inside.is_together is not scope.is_together))
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
                self.block(body, scope.where(variable, range(around.start, limit)))
                self.block(otherwise, scope.where(variable, range(limit, around.stop)))
            case Ahead(variable, limit, body):
                around = scope.loops.get(variable, range(0))
                if not around.start + 1 < limit <= around.stop:
                    raise VerificationError(f"no iteration of {variable} below {limit} comes next")
                self.block(body, scope.where(variable, range(around.start, limit - 1)))

    def grid(self, grid: Grid, scope: _Scope) -> None:
        """It is outermost; blocks and threads are as many as their coordinates count."""
        if scope.loops or scope.registers:
            raise VerificationError(f"grid {grid.name} is not outermost")
        if grid.blocks >= 1 << 31 or grid.threads > MOST_THREADS:
            raise VerificationError(f"grid {grid.name} has {grid.blocks} blocks of {grid.threads} threads")
        counted = math.prod(c.extent for c in grid.coordinates if c.is_block)
        if counted != grid.blocks:
            raise VerificationError(f"grid {grid.name} has {grid.blocks} blocks with {counted} coordinates")
        for c in grid.coordinates:
            if not c.is_block and (c.stride < 1 or c.stride * c.extent > grid.threads):
                raise VerificationError(f"coordinate {c.variable} takes more threads than there are")
        loops = {c.variable: range(c.extent) for c in grid.coordinates}
        own = {t.name: t for t in (*grid.shared, *grid.private)}
        threads = {c.variable: c for c in grid.coordinates if not c.is_block}
        numbers = tuple(c.variable for c in grid.coordinates if c.is_block)
        self.sums(grid)
        ranges = _iterations(loops)
        moving = frozenset(threads)
        scope = _Scope(
            loops, private=own, ranges=ranges, threads=threads, blocks=numbers, grid=grid, moving=moving
        )
        self.block(grid.body, scope)

    def part(self, part: PerThread, scope: _Scope) -> None:
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
        names = [c.variable for c in part.coordinates]
        ranges = scope.ranges
        for c in part.coordinates:
            ranges = ranges.with_loop(c.variable, Position(0), Position(c.extent - 1))
        inside = replace(
            scope, registers={}, ranges=ranges, part=part, around=tuple(scope.ranges.loops),
            moving=scope.moving | {*names}, is_together=False, is_counted=False,
        )  # fmt: skip
        self.block(part.body, inside)

    def sums(self, grid: Grid) -> None:
        """What a grid adds to, grids before have made 0; it does nothing else with it."""
        added = added_to(grid.body)
        others = loaded(grid.body) | overwritten(grid.body) if added else set[str]()
        for name in sorted(added):
            tensor = self.tensors.get(name)
            if tensor is None or not self.writes[name] == self.zeros[name] >= tensor.elements:
                raise VerificationError(f"grid {grid.name} adds to {name}, not all of which is 0 before")
            if name in others:
                raise VerificationError(
                    f"grid {grid.name} adds to {name}, and reads it or stores to it as well"
                )

    def parallel(self, loop: ParallelLoop, scope: _Scope) -> None:
        """It is outermost, or all that there is in one that is."""
        if set(scope.loops) != set(scope.parallel) or not scope.is_counted:
            raise VerificationError(f"parallel loop {loop.variable} is not outermost")
        if scope.loops and (loop.combined or loop.private):
            raise VerificationError(f"parallel loop {loop.variable} has memory of its own inside another")
        if len(loop.body) > 1 and any(isinstance(s, ParallelLoop) for s in loop.body):
            raise VerificationError(f"parallel loop {loop.variable} has another one beside something else")
        if loop.first and len(shared_loops(loop)) > 1:
            raise VerificationError(
                f"parallel loop {loop.variable}, which has a first part, is shared out in two"
            )
        for partial in loop.combined:
            self.expression(partial.register, scope)

    def assign(self, register: Register, value: Expression, scope: _Scope) -> None:
        found = self.expression(value, scope)
        if found != register.type:
            raise VerificationError(f"register {register.name} is {register.type}, its value is {found}")
        if scope.registers.get(register.name, register.type) != register.type:
            raise VerificationError(f"register {register.name} changes its type")
        if register.name in self.tensors or register.name in self.parameters or register.name in scope.ranges:
            raise VerificationError(f"register {register.name} has the name of something else")
        scope.registers[register.name] = register.type

    def store(self, name: str, index: Index, value: Expression, lanes: range, scope: _Scope) -> None:
        tensor = self.access(name, index, self.expression(value, scope), lanes, scope)
        if not tensor.is_output:
            raise VerificationError(f"{name} is not an output, but it is stored to")
        if not self.is_counted(index, scope):
            self.uncounted.add(name)
            is_own = scope.grid.private if scope.grid is not None else scope.private.values()
            if tensor not in is_own:
                self.parted(tensor, index, lanes, scope)
            return
        strides = dict(index.terms)
        for variable in scope.parallel if name not in scope.private else ():
            if strides.get(variable, 0) == 0 and len(scope.loops[variable]) > 1:
                raise VerificationError(
                    f"all iterations of parallel loop {variable} store to the same {name}"
                )
        if name not in scope.private:
            self.apart(name, index, lanes, scope)
        moving = {v: i for v, i in scope.loops.items() if v not in scope.threads or v in strides}
        written = len(lanes) * math.prod(map(len, moving.values()))
        if self.added[name]:
            raise VerificationError(f"{name} is stored to after it was added to")
        self.writes[name] += written
        self.zeros[name] += written if isinstance(value, Number) and value.value == 0 else 0

    def is_counted(self, index: Index, scope: _Scope) -> bool:
        """Whether it is of loops alone, all of which have so many iterations."""
        return scope.is_counted and not index.atoms and all(v in scope.loops for v, _ in index.terms)

    def parted(self, tensor: Tensor, index: Index, lanes: range, scope: _Scope) -> None:
        """Iterations of parallel loops, blocks and threads store to parts of their own, along a dimension.

        Of threads that is asked for one iteration of what is around them: they wait in between.
        """
        for variable in scope.parallel:
            if len(scope.loops[variable]) > 1 and not self.is_apart(tensor, index, lanes, variable, scope):
                raise VerificationError(
                    f"iterations of parallel loop {variable} may store to the same {tensor.name}"
                )
        if scope.grid is None:
            return
        for variable in scope.blocks if tensor not in scope.grid.shared else ():
            if len(scope.loops[variable]) > 1 and not self.is_apart(tensor, index, lanes, variable, scope):
                raise VerificationError(
                    f"blocks that differ in {variable} may store to the same {tensor.name}"
                )
        for c in scope.part.coordinates if scope.part is not None else ():
            if c.extent > 1 and not self.is_apart(tensor, index, lanes, c.variable, scope, scope.around):
                raise VerificationError(
                    f"threads that differ in {c.variable} may store to the same {tensor.name}"
                )

    def is_apart(
        self,
        tensor: Tensor,
        index: Index,
        lanes: range,
        variable: str,
        scope: _Scope,
        around: Collection[str] = (),
    ) -> bool:
        """Whether iterations that differ in a variable come to elements of their own, along a dimension."""
        rest = index_position(index)
        is_apart = False
        for stride, _ in tensor.extents_by_stride:
            part = _along(rest, stride)
            rest += part * -stride
            more = lanes[-1] if stride == 1 else 0
            is_apart = is_apart or scope.ranges.is_apart(part, variable, more, around)
        return is_apart

    def addition(self, name: str, index: Index, kind: Type, scope: _Scope) -> None:
        """Threads of a block, which may have the same sum, do not add to the same element."""
        tensor = self.access(name, index, kind, range(1), scope)
        _refuse(addition_fault(kind))
        if scope.grid is None or name in scope.private:
            raise VerificationError(f"{name} is added to, which is no memory of a GPU")
        moved = tuple((scope.threads[v], stride) for v, stride in index.terms if v in scope.threads)
        if not are_apart(scope.grid.threads, scope.spans, moved):
            raise VerificationError(f"threads of a block add to the same {name}")
        self.added[tensor.name] += math.prod(len(scope.loops[v]) for v, _ in index.terms)

    def apart(self, name: str, index: Index, lanes: range, scope: _Scope) -> None:
        """Blocks store to elements of their own: each steps over all that smaller steps come to together."""
        reach = len(lanes)
        steps = ((abs(stride), len(scope.loops[variable]), variable) for variable, stride in index.terms)
        for step, count, variable in sorted(steps):
            if variable in scope.blocks and count > 1 and step < reach:
                raise VerificationError(f"blocks that differ in {variable} store to the same {name}")
            reach += step * (count - 1)
        for variable in scope.blocks:
            if len(scope.loops[variable]) > 1 and dict(index.terms).get(variable, 0) == 0:
                raise VerificationError(f"blocks that differ in {variable} store to the same {name}")

    def product(self, product: Multiply, scope: _Scope) -> None:
        """A whole warp comes to it."""
        kinds = [self.expression(e, scope) for e in (*product.result, *product.a, *product.b)]
        if not scope.has_whole_warps or scope.spans:
            raise VerificationError("a product that not all threads of a warp come to")
        _refuse(product_fault(product, kinds))

    def matrix(self, load: LoadMatrix, scope: _Scope) -> None:
        """A whole warp loads it."""
        if not scope.has_whole_warps or scope.spans or load.tensor not in scope.private:
            raise VerificationError(f"a matrix of {load.tensor} that not all threads of a warp load")
        lanes = ROW_BYTES // load.dtype.nbytes
        self.load(load.tensor, load.index, Type(load.dtype, lanes), range(lanes), scope)

    def prefetch(self, name: str, variables: Sequence[str], scope: _Scope) -> None:
        """Any address will do; memory of the program's own is left to the caches."""
        if name not in self.arguments:
            raise VerificationError(f"there is no argument {name} to prefetch")
        for variable in variables:
            if variable not in scope.loops:
                raise VerificationError(f"a prefetch of {name} uses {variable} outside of its loop")

    def expression(self, expression: Expression, scope: _Scope) -> Type:
        """The expression's type, after checking all of it."""
        types = [self.expression(part, scope) for part in operands(expression)]
        _refuse(type_fault(expression, types))
        if scope.grid is not None:
            _refuse(gpu_fault(expression))
        match expression:
            case Register(name, kind):
                if name not in scope.registers:
                    raise VerificationError(f"register {name} has no value here")
                if scope.registers[name] != kind:
                    raise VerificationError(
                        f"register {name} is {scope.registers[name]}, it is used as {kind}"
                    )
            case Load(tensor, index, kind):
                self.load(tensor, index, kind, range(kind.lanes), scope)
            case PartialLoad(tensor, index, kind, count):
                self.load(tensor, index, kind, range(count), scope)
            case ParameterValue(name, kind):
                if name not in self.parameters or Type(self.parameters[name].dtype) != kind:
                    raise VerificationError(f"there is no parameter {name} of type {kind}")
            case LoadMatrix():
                self.matrix(expression, scope)
            case Counted(position, kind):
                self.position(position, scope)
                if not kind.dtype.is_integer:
                    raise VerificationError(f"a position is counted as {kind}")
            case Shuffle():
                if not scope.threads or scope.spans:
                    raise VerificationError("a shuffle that not all threads of a warp come to")
        return type_of(expression)

    def load(self, name: str, index: Index, kind: Type, lanes: range, scope: _Scope) -> None:
        tensor = self.access(name, index, kind, lanes, scope)
        if tensor.is_output and not self.writes[name] and name not in self.uncounted:
            raise VerificationError(f"output {name} is read before it is written")

    def access(self, name: str, index: Index, kind: Type, lanes: range, scope: _Scope) -> Tensor:
        """The tensor that is accessed, after checking type and bounds over all iterations."""
        tensor = scope.private.get(name) or self.tensors.get(name)
        if tensor is None:
            raise VerificationError(f"there is no tensor {name}")
        if kind.dtype is not tensor.dtype:
            raise VerificationError(f"{name} holds {tensor.dtype.label}, it is accessed as {kind}")
        if kind.lanes < 1 or kind.lanes & (kind.lanes - 1):
            raise VerificationError(f"a vector has 2, 4, 8, .. lanes, not {kind.lanes}")
        for variable, _ in (*index.terms, *index.shares):
            if variable not in scope.ranges:
                raise VerificationError(f"an index of {name} uses {variable} outside of its loop")
        if index.atoms or any(variable not in scope.loops for variable, _ in index.terms):
            self.placed(tensor, index, lanes, scope)
            return tensor
        low = high = index.constant
        for variable, stride in index.terms:
            ends = [stride * scope.loops[variable][end] for end in (0, -1)]
            low, high = low + min(ends), high + max(ends)
            self.representable(name, low - index.constant, high - index.constant, scope)
        for variable, share in index.shares:
            most = (
                min(share.modulus - 1, scope.loops[variable][-1] + share.ahead)
                // share.divisor
                * share.stride
            )
            low, high = low + min(most, 0), high + max(most, 0)
        self.representable(name, low, high, scope)
        high += lanes[-1]
        if low < 0 or high >= tensor.span:
            raise VerificationError(
                f"{name} has elements 0 to {tensor.span - 1}, {low} to {high} are accessed"
            )
        return tensor

    def placed(self, tensor: Tensor, index: Index, lanes: range, scope: _Scope) -> None:
        """An index that is a position is within the tensor, wherever it may be."""
        position = index_position(index)
        if index.shares:
            raise VerificationError(f"an index of {tensor.name} is a position, and has shares")
        self.position(position, scope)

        if not (
            self.is_inside_each(tensor.extents_by_stride, position, lanes, scope)
            or self.is_inside(position, tensor.span, lanes, scope)
        ):
            raise VerificationError(
                f"{tensor.name} has elements 0 to {tensor.span - 1}, and is accessed nobody knows where"
            )

    def is_inside(self, position: Position, extent: int, lanes: range, scope: _Scope) -> bool:
        end = position * -1 + Position(extent - 1 - lanes[-1])
        return scope.ranges.is_natural(position) and scope.ranges.is_natural(end)

    def is_inside_each(
        self, extents: Sequence[tuple[int, int]], position: Position, lanes: range, scope: _Scope
    ) -> bool:
        """Whether it is inside along each dimension, of these strides and extents, the largest stride first.

        A number may belong to a dimension, or with the opposite sign to those of smaller strides.
        """
        if not extents:
            return position == Position(0)
        (stride, extent), *others = extents
        part = _along(position, stride)
        here = range(1) if others else lanes
        for more in (0, 1):
            each = part + Position(more)
            if self.is_inside(each, extent, here, scope) and self.is_inside_each(
                others, position + each * -stride, lanes, scope
            ):
                return True
        return False

    def representable(self, name: str, low: int, high: int, scope: _Scope) -> None:
        """A sum on the way to an index of a grid, from its first term on, is a number of its integers.

        Of a CPU, all are 64 bits wide.
        """
        limit = 1 << self.index_bits - 1
        if (scope.blocks or scope.threads) and not -limit <= low <= high < limit:
            raise VerificationError(
                f"an index of {name} comes to {high if high >= limit else low}, beyond {self.index_bits} bits"
            )


def _iterations(loops: Mapping[str, range]) -> Ranges:
    ranges = Ranges()
    for variable, values in loops.items():
        ranges = ranges.with_loop(variable, Position(values.start), Position(values.stop - 1))
    return ranges


def _along(position: Position, stride: int) -> Position:
    """What leads along a dimension: all that are multiples of its stride, and the number rounded down."""
    terms = tuple((atom, number // stride) for atom, number in position.terms if number % stride == 0)
    return Position(position.constant // stride, terms)

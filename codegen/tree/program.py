"""The program tree: what a complete implementation does, statement by statement.

In: built by `lower.py`, or by hand in tests. Out: taken apart by `parts.py`, checked by `verify.py`, printed
by `c/printer.py`. Nothing is decided or optimised here.

    Program    = name, tensors, parameters, body, scratch
    Statement  = Loop(variable, extent, body, first) | Sweep(variable, first, last, step, body)
               | Let(variable, position) | Take(variable, value, low, high)
               | TakeEach(variables, value, low, high) | When(least, body, otherwise)
               | ParallelLoop(variable, extent, body, combined, private, first, summed)
               | Grid(name, blocks, threads, coordinates, shared, body, private) | Barrier
               | Where(spans, body) | PerThread(coordinates, body)
               | Branch(variable, limit, body, otherwise) | Ahead(variable, limit, body)
               | Assign(register, value) | Store(tensor, index, value, is_streamed)
               | PartialStore(tensor, index, value, count) | AtomicCombine(tensor, index, value, combine)
               | Prefetch(tensor, index, is_near)
               | CopyAhead(tensor, index, source) | CommitCopies | WaitForCopies(groups)
               | Multiply(result, a, b, dtype)

Expressions, indices and positions are those of `expressions.py`.

A register is a named scalar or vector; it belongs to the block of its first assignment, and a further
assignment where it is visible replaces its value. A parallel loop's iterations share no registers with
each other or with their surroundings, but for those that are `combined`: threads begin with what is neutral,
and what they end with is combined with the register outside, in an order of its own. Arrays that are `summed`
are the same in memory. A store that is
streamed goes around the caches. A prefetch changes nothing but the time that later loads take.
`scratch` is memory that belongs to the program and keeps its values between calls.

Variables are those of loops, and those of `Let`, `Take` and `TakeEach`, which belong to the rest of their
block.

A program for a GPU consists of grids, one after the other. Each of its blocks has `shared` arrays of its own
and runs the body in `threads` threads, each with registers of its own. What one thread writes is seen by
others of its block behind a barrier, which all of them pass, and by other blocks in the next grid. Any
threads may combine what they have with one element (`AtomicCombine`), in an order of their own: nothing is
lost. Threads of a warp also see each other's registers, in a shuffle that all of them come to. What lies in
a `Where` is done by some of the threads; registers that are assigned there belong to the block around it.
What lies in a `PerThread` is done by the first threads, each for itself: none waits for another there. What a
thread copies ahead is there when it has waited for it: copies up to a `CommitCopies` are a group. Small
matrices lie in the registers of all threads of a warp (`cuda/fragments.py`), which load and multiply them
together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from spacedsl.codegen.tree.expressions import Expression, Index, Load, Position, Register, held, type_of
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine
from spacedsl.kernels.pipeline.affine import Extreme
from spacedsl.kernels.tensors import Parameter, Scratch, Tensor


@dataclass(frozen=True, slots=True)
class Assign:
    register: Register
    value: Expression


@dataclass(frozen=True, slots=True)
class Store:
    tensor: str
    index: Index
    value: Expression
    is_streamed: bool = False


@dataclass(frozen=True, slots=True)
class PartialStore:
    """The first `count` lanes of `value`; what lies behind them in memory is not touched."""

    tensor: str
    index: Index
    value: Expression
    count: int


@dataclass(frozen=True, slots=True)
class AtomicCombine:
    """Combines a scalar with an element, as nothing else does at the same time."""

    tensor: str
    index: Index
    value: Expression
    combine: Combine = Combine.SUM


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Asks for a cache line: that of the element at `index`, also where there is none."""

    tensor: str
    index: Index
    is_near: bool = True
    """Whether it is read soon, from the first cache; else from the one behind it."""


@dataclass(frozen=True, slots=True)
class Branch:
    """`body` where the variable of a loop around it is below `limit`, `otherwise` where it is not."""

    variable: str
    limit: int
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Ahead:
    """`body` where the next iteration of a loop around it, in the same thread, is one below `limit`."""

    variable: str
    limit: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`variable` runs from `first` to `extent` - 1."""

    variable: str
    extent: int
    body: tuple[Statement, ...]
    first: int = 0


@dataclass(frozen=True, slots=True)
class Sweep:
    """`variable` goes from `first` by `step` as long as it is at most `last`: maybe not at all."""

    variable: str
    first: Position
    last: Position
    step: int
    body: tuple[Statement, ...]

    @property
    def limit(self) -> Position | None:
        """Of one that has an iteration at most: where `first` is no more than that."""
        match self.last.terms:
            case ((Extreme("min", left, right), 1),) if not self.last.constant:
                return right if self.first == left else left if self.first == right else None
        return None


@dataclass(frozen=True, slots=True)
class Let:
    """The variable stands for a position."""

    variable: str
    position: Position


@dataclass(frozen=True, slots=True)
class Take:
    """The variable stands for what an integer is, held between `low` and `high`."""

    variable: str
    value: Expression
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class TakeEach:
    """The same of a vector of integers, a variable for each lane. Its type holds both ends."""

    variables: tuple[str, ...]
    value: Expression
    low: int
    high: int

    @property
    def held(self) -> Expression:
        return held(self.value, self.low, self.high, type_of(self.value))


@dataclass(frozen=True, slots=True)
class When:
    """`body` where none of these is negative, `otherwise` where one is."""

    least: tuple[Position, ...]
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Partial:
    """A register with a value before a parallel loop, of which each thread has one of its own inside."""

    register: Register
    combine: Combine


@dataclass(frozen=True, slots=True)
class Summed:
    """An array of which each thread has a part of its own, of zeros at first. Behind the loop, it is the sum
    of all parts.
    """

    part: Tensor
    tensor: str
    """Without gaps, as the part is; the loop itself does nothing to it."""


@dataclass(frozen=True, slots=True)
class ParallelLoop:
    """A loop whose iterations are shared out among threads in contiguous chunks.

    One that consists of nothing but another is shared out with it: the chunks are of their iterations in all.
    """

    variable: str
    extent: int
    body: tuple[Statement, ...]
    combined: tuple[Partial, ...] = ()
    private: tuple[Tensor, ...] = ()
    """Arrays of which each thread has one of its own. An iteration finds nothing in them but what `first`, or
    the one before it in the same thread, has left there for it."""
    first: tuple[Statement, ...] = ()
    """What each thread does before its first iteration, where the variable has the value of that one."""
    summed: tuple[Summed, ...] = ()

    @property
    def own(self) -> tuple[Tensor, ...]:
        """All arrays that each thread has one of."""
        return (*self.private, *(each.part for each in self.summed))


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A variable of a grid: the number of a block, or of a thread in its block, / `stride` % `extent`."""

    variable: str
    is_block: bool
    stride: int
    extent: int


@dataclass(frozen=True, slots=True)
class Grid:
    """A kernel of a GPU: each of `blocks` blocks runs `body` in `threads` threads."""

    name: str
    blocks: int
    threads: int
    coordinates: tuple[Coordinate, ...]
    shared: tuple[Tensor, ...]
    """Arrays of which each block has one of its own. It finds nothing in them."""
    body: tuple[Statement, ...]
    private: tuple[Tensor, ...] = ()
    """The same of each thread."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of a block are here before any of them goes on."""


@dataclass(frozen=True, slots=True)
class CopyAhead:
    """A thread begins to copy `source` to memory that its block shares, and goes on."""

    tensor: str
    index: Index
    source: Load


@dataclass(frozen=True, slots=True)
class CommitCopies:
    """What a thread has begun to copy since the last group is a group, also where that is nothing."""


@dataclass(frozen=True, slots=True)
class WaitForCopies:
    """A thread waits until all its groups but the last `groups` of them have been copied."""

    groups: int


@dataclass(frozen=True, slots=True)
class Multiply:
    """The product of `a` and `b` is added to `result`, matrices that a warp has.

    They are one or two fragments of rows, and one or two of terms. `result`: two registers for each of its
    fragments. `a`: the rows of the first fragment of terms, then those of the second. The numbers that are
    multiplied are of `dtype`, each operand a register of bits.
    """

    result: tuple[Register, ...]
    a: tuple[Register, ...]
    b: tuple[Register, ...]
    dtype: DType


Span = tuple[int, int, int]
"""(low, high, period): threads with low <= number % period < high."""


@dataclass(frozen=True, slots=True)
class Where:
    """`body` in the threads that are in all of these."""

    spans: tuple[Span, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class PerThread:
    """`body` in as many threads as the coordinates count, from the first one on: in one without any.

    Variables and registers in it are of its own.
    """

    coordinates: tuple[Coordinate, ...]
    body: tuple[Statement, ...]

    @property
    def threads(self) -> int:
        return math.prod(c.extent for c in self.coordinates)


Statement = (
    Loop | ParallelLoop | Grid | Barrier | Where | PerThread | Branch | Ahead | Assign | Store | PartialStore
    | AtomicCombine | Prefetch | CopyAhead | CommitCopies | WaitForCopies | Multiply | Sweep | Let | Take
    | TakeEach | When
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Phase:
    """Of a program with several nests, one of them. Programs may share it: it is known by its identity."""

    name: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """`tensors` and `parameters` are the arguments, in the order of the kernel."""

    name: str
    tensors: tuple[Tensor, ...]
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    scratch: tuple[Scratch, ...] = ()
    phases: tuple[Phase, ...] = ()
    """What the body begins with; what is behind all of them belongs to none."""

"""Reductions whose terms the threads of a block share out.

In: a kernel's reductions and the decisions about them; then what the loops of one became, in which each
thread has accumulated some of the terms. Out: the same, after which the accumulators of all threads that
shared a sum hold all of it: through shuffles between the threads of a warp, through memory of the block
between warps. Which threads run what is for `lower.py`, where they wait for each other for `barriers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spacedsl.codegen.linalg.implementation import GridImplementation
from spacedsl.codegen.linalg.partials import accumulator, combination, combined_by
from spacedsl.codegen.linalg.registers import Registers
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import WARP, Index, Load, Register, Shuffle
from spacedsl.codegen.tree.parts import assigned, own_expressions, statements
from spacedsl.codegen.tree.program import Assign, Statement, Store
from spacedsl.kernels.linalg import backbone
from spacedsl.kernels.linalg.backbone import Instruction
from spacedsl.kernels.linalg.operations import Combine, Op, neutral
from spacedsl.kernels.tensors import Tensor

Variable = Callable[[int, int], str]
"""What counts a thread's number / stride % extent."""


@dataclass(frozen=True, slots=True)
class SharedOut:
    """A reduction with accumulators of its own in each of the threads that share its terms."""

    reduction: Instruction
    combine: Combine
    spans: tuple[tuple[int, int], ...]
    """(stride, size): threads that differ in number / stride % size share a result. The closer ones first."""
    exchange: Tensor | None
    """Memory of a block through which warps combine what they have: an element for each thread."""

    @property
    def initialiser(self) -> Instruction:
        return accumulator(self.reduction).initialiser


def shared_out(
    reductions: Sequence[Instruction],
    implementation: GridImplementation,
    threads: int,
    fresh: Callable[[str], str],
) -> tuple[SharedOut, ...]:
    """Those of a grid that its threads share, of which a block has so many; `fresh` makes a name unique."""
    found = []
    for reduction in reductions:
        dims = [d for d in reduction.reduced_dims if implementation.kind(d) == "THREAD"]
        if not dims:
            continue
        spans = _merged(sorted((implementation.thread_stride(d), implementation.size(d)) for d in dims))
        exchange = None
        if any(stride * size > WARP for stride, size in spans):
            name = fresh(f"exchange_{reduction.name}")
            exchange = Tensor(name, reduction.dtype, (threads,), (1,), is_output=True)
        found.append(SharedOut(reduction, _combined_by(reduction), spans, exchange))
    return tuple(found)


def _combined_by(reduction: Instruction) -> Combine:
    """Raises `LoweringError` unless each of several threads may start from what the initialiser makes."""
    combine, start = combined_by(reduction), accumulator(reduction).initialiser
    if start.op is not Op.MOVE or start.operands != (backbone.Number(neutral(combine, start.dtype)),):
        raise LoweringError(f"{reduction!r} is shared by threads, and starts from more than nothing")
    return combine


def _merged(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Spans that lie side by side are one."""
    merged: list[tuple[int, int]] = []
    for stride, size in spans:
        if merged and merged[-1][0] * merged[-1][1] == stride:
            closer, count = merged.pop()
            merged.append((closer, count * size))
        else:
            merged.append((stride, size))
    return tuple(merged)


def combined(
    shared: SharedOut, body: Sequence[Statement], registers: Registers, threads: int, variable: Variable
) -> tuple[Statement, ...]:
    """What the loops of the reduction do, and what makes one result of what its threads then have.

    `threads`: of a block, all of which come here.
    """
    given = {register for s in statements(body) for register in assigned(s)}
    groups = [g for g in registers.groups(shared.initialiser) if not given.isdisjoint(g)]
    return (*body, *(s for group in groups for s in _ended(shared, group, threads, variable)))


def _ended(
    shared: SharedOut, group: Sequence[Register], threads: int, variable: Variable
) -> Iterator[Statement]:
    first = group[0]
    if len(group) > 1:
        yield Assign(first, combination(group, shared.combine))
    for stride, size in shared.spans:
        distance = stride
        while distance < min(WARP, stride * size):
            other = Shuffle(first, distance, min(WARP, threads))
            yield Assign(first, combination((first, other), shared.combine))
            distance *= 2
        if stride * size > WARP:
            yield from _exchanged(shared, first, (distance, stride * size // distance), threads, variable)


def _exchanged(
    shared: SharedOut, register: Register, span: tuple[int, int], threads: int, variable: Variable
) -> Iterator[Statement]:
    """Every thread writes down what it has, and reads what those have that it shares a result with."""
    stride, size = span
    assert shared.exchange is not None
    name, period = shared.exchange.name, stride * size
    around = [(1, stride), (period, threads // period)]
    own = tuple((variable(each, extent), each) for each, extent in around if extent > 1)
    yield Store(name, Index(0, (*own, (variable(stride, size), stride))), register)
    values = tuple(Load(name, Index(number * stride, own), register.type) for number in range(size))
    yield Assign(register, combination(values, shared.combine))


def is_for_all(statement: Statement, exchanges: frozenset[str]) -> bool:
    """Whether all threads of a block have to come to a statement. `exchanges`: names of arrays for that."""
    for each in statements((statement,)):
        if isinstance(each, Store) and each.tensor in exchanges:
            return True
        for part in own_expressions(each):
            if isinstance(part, Shuffle) or (isinstance(part, Load) and part.tensor in exchanges):
                return True
    return False

"""Fragments: what the threads of a warp hold of small matrices, and multiply on tensor cores.

In: an instruction in dimensions that are sides of a fragment, and where the dimensions around them stand.
Out: statements of one thread. With `lane` the number of a thread in its warp, it holds of

    a result of 8 x 8              row lane / 4, columns 2 * (lane % 4) and the next one, a register each
    an operand, 16 bytes a row     row lane / 4, bytes 4 * (lane % 4) and the next three, in one register

in which the rows of the second operand are the columns of the result. Each sum of products becomes a
`Multiply` of one fragment of each; `joined` makes larger ones of them, as the machine's instructions are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spacedsl.codegen.linalg.addresses import Held, Place, Position, copies
from spacedsl.codegen.linalg.implementation import GridImplementation
from spacedsl.codegen.linalg.instructions import Instructions
from spacedsl.codegen.linalg.nest import Fused
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Bits, Index, Load, LoadMatrix, Pack, Register, Type
from spacedsl.codegen.tree.parts import assigned, blocks, expressions, with_blocks
from spacedsl.codegen.tree.program import Assign, Multiply, Statement, Store
from spacedsl.codegen.tree.residues import is_aligned
from spacedsl.kernels.linalg.backbone import Axis, Dimension, Instruction, Value
from spacedsl.kernels.linalg.fragments import COLUMNS_OF_THREAD, FRAGMENT_ROWS

LANES_OF_ROW = 4
"""Threads that hold a row together."""

Variable = Callable[[int, int], str]
"""What counts a thread's number / stride % extent."""


def instruction_in(node: Fused) -> tuple[tuple[Dimension, ...], Instruction]:
    """The sides of a fragment, and the instruction that they are of, of a nest of nothing else."""
    dims: list[Dimension] = []
    inner: Fused | Instruction = node
    while isinstance(inner, Fused):
        if inner.kind != "FRAGMENT" or len(inner.dims) > 1 or len(inner.body) != 1 or inner.last is not None:
            raise LoweringError(f"{inner.dims!r} is no side of the fragment of one instruction")
        dims += inner.dims
        inner = inner.body[0]
    return tuple(dims), inner


@dataclass(frozen=True, slots=True)
class Fragments:
    """What turns instructions on fragments into statements."""

    implementation: GridImplementation
    instructions: Instructions
    variable: Variable

    def statements(
        self, instruction: Instruction, dims: Sequence[Dimension], place: Place
    ) -> tuple[Statement, ...]:
        """`dims`: the sides, which are not in `place`."""
        sides = {self.implementation.axis(dim): dim for dim in dims}
        if len(sides) != len(dims):
            raise LoweringError(f"{instruction!r} has two sides of the same kind: {dims!r}")
        match sides:
            case {Axis.ROWS: _, Axis.COLUMNS: columns, Axis.TERMS: _}:
                return (self.product(instruction, columns, place),)
            case {Axis.ROWS: rows, Axis.TERMS: terms}:
                return (self.operand(instruction, rows, terms, place),)
        return self.elements(instruction, sides, place)

    def spans(self, dims: Sequence[Dimension]) -> Iterator[tuple[int, int]]:
        """(stride, size): threads that differ in number / stride % size hold different elements."""
        for dim in dims:
            is_row = self.implementation.axis(dim) is Axis.ROWS
            yield (LANES_OF_ROW, FRAGMENT_ROWS) if is_row else (1, LANES_OF_ROW)

    def elements(
        self, instruction: Instruction, sides: Mapping[Axis | None, Dimension], place: Place
    ) -> tuple[Statement, ...]:
        """What a thread does with the one or two elements that it has of a result, or of what is like one."""
        if Axis.ROWS in sides:
            place = {**place, sides[Axis.ROWS]: self.variable(LANES_OF_ROW, FRAGMENT_ROWS)}
        if Axis.COLUMNS not in sides:
            return self.instructions.statements(instruction, place)
        lane = self.variable(1, LANES_OF_ROW)
        made: list[Statement] = []
        for number in range(COLUMNS_OF_THREAD):
            at = Held(number, Position(number, ((lane, COLUMNS_OF_THREAD),)))
            made += self.instructions.statements(instruction, {**place, sides[Axis.COLUMNS]: at})
        return _side_by_side(made)

    def operand(self, load: Instruction, rows: Dimension, terms: Dimension, place: Place) -> Statement:
        """The four bytes that a thread has of an operand: out of shared memory, a warp loads it at once."""

        def at(row: int | str, term: int | str | Position) -> Index:
            return self.instructions.element(load, {**place, rows: row, terms: term})[1]

        tensor, first = self.instructions.element(load, {**place, rows: 0, terms: 0})
        register = self.instructions.registers.of(load, copies(place))
        lanes = 4 // tensor.dtype.nbytes
        is_row = at(0, 1).constant - first.constant == 1
        is_column = at(1, 0).constant - first.constant == 1
        if load.maker is not None and self.implementation.is_shared(load.maker):
            row = self.variable(1, FRAGMENT_ROWS)
            if is_row and is_aligned(across := at(row, 0), LANES_OF_ROW * lanes):
                return Assign(register, LoadMatrix(tensor.name, across, tensor.dtype, is_transposed=False))
            if is_column and lanes == 2 and is_aligned(across := at(0, row), FRAGMENT_ROWS):
                return Assign(register, LoadMatrix(tensor.name, across, tensor.dtype, is_transposed=True))
        row, lane = self.variable(LANES_OF_ROW, FRAGMENT_ROWS), self.variable(1, LANES_OF_ROW)
        is_streamed = load.maker is None and self.implementation.is_streamed(load)
        places = [at(row, Position(n, ((lane, lanes),))) for n in range(lanes)]
        if lanes == 1 or (is_row and is_aligned(places[0], lanes)):
            whole = Load(tensor.name, places[0], Type(tensor.dtype, lanes), is_streamed)
            return Assign(register, Bits(whole))
        single = Type(tensor.dtype)
        each = tuple(Load(tensor.name, index, single, is_streamed) for index in places)
        return Assign(register, Bits(Pack(each)))

    def product(self, instruction: Instruction, columns: Dimension, place: Place) -> Statement:
        """Of one fragment of each operand; rows of the result are those of the one that has them."""
        registers, unrolled = self.instructions.registers, copies(place)
        result = tuple(registers.of(instruction, {**unrolled, columns: n}) for n in range(COLUMNS_OF_THREAD))
        loads = [operand for operand in instruction.operands if isinstance(operand, Value)]
        loads.sort(key=lambda load: columns in dict(load.mapping).values())
        a, b = (self.instructions.operand(instruction, load, place) for load in loads)
        if not isinstance(a, Register) or not isinstance(b, Register):
            raise LoweringError(f"{instruction!r} multiplies what is in no register")
        return Multiply(result, (a,), (b,), loads[0].instruction.access_dtype)


def _side_by_side(made: Sequence[Statement]) -> tuple[Statement, ...]:
    """Two stores of neighbours are one."""
    match made:
        case (Store(tensor, first, a, is_streamed), Store(_, second, b)) if second == replace(
            first, constant=first.constant + 1
        ) and is_aligned(first, len(made)):
            return (Store(tensor, first, Pack((a, b)), is_streamed),)
    return tuple(made)


# ---- Larger instructions -------------------------------------------------------------------------------


def joined(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """Products of two fragments of rows, then of two of terms, become one where nothing comes in between.

    The earlier one is done where the later one is.
    """
    inner = tuple(with_blocks(statement, joined) for statement in body)
    return _merged(_merged(inner, _rows, _with_rows), _results, _with_terms)


def _rows(product: Multiply) -> tuple[Register, ...]:
    """What products of different rows have in common: the second operand."""
    return product.b


def _results(product: Multiply) -> tuple[Register, ...]:
    """What products of different terms have in common."""
    return product.result


def _with_rows(first: Multiply, second: Multiply) -> Multiply:
    return replace(first, result=(*first.result, *second.result), a=(*first.a, *second.a))


def _with_terms(first: Multiply, second: Multiply) -> Multiply:
    return replace(first, a=(*first.a, *second.a), b=(*first.b, *second.b))


def _merged(
    body: Sequence[Statement],
    common: Callable[[Multiply], tuple[Register, ...]],
    join: Callable[[Multiply, Multiply], Multiply],
) -> tuple[Statement, ...]:
    done: dict[int, Statement] = {}
    waiting: dict[tuple[Register, ...], tuple[int, Multiply]] = {}
    for number, statement in enumerate(body):
        joined_with = waiting.pop(common(statement), None) if isinstance(statement, Multiply) else None
        if isinstance(statement, Multiply) and joined_with is not None:
            earlier, first = joined_with
            del done[earlier]
            done[number] = join(first, statement)
        else:
            done[number] = statement
        waiting = _passed(waiting, done[number])
        if isinstance(statement, Multiply) and joined_with is None:
            waiting[common(statement)] = number, statement
    return tuple(done.values())


def _passed(
    waiting: Mapping[tuple[Register, ...], tuple[int, Multiply]], statement: Statement
) -> dict[tuple[Register, ...], tuple[int, Multiply]]:
    """The products that can be done behind a statement as well, which they are before."""
    if not waiting or blocks(statement):
        return {}
    changed = set(assigned(statement))
    touched = changed.union(e for e in expressions((statement,)) if isinstance(e, Register))
    return {
        key: (number, product)
        for key, (number, product) in waiting.items()
        if changed.isdisjoint((*product.a, *product.b)) and touched.isdisjoint(product.result)
    }

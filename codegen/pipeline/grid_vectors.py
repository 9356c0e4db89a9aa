"""Vectors on GPUs: what a thread loads or stores beside each other, one instruction moves.

In: statements of a grid of single elements, in which nobody waits yet. Out: the same, in which neighbours are
loaded together, as soon as the first of them is wanted, and stored together, once there is the last one. They
are in statements without branches, in memory that threads share with others, begin at a multiple of their
size, and all of them are wanted. Arithmetic stays as it is; loops are not made here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from spacedsl.codegen.tree.expressions import Index, Lane, Load, Pack, Register, Type, type_of
from spacedsl.codegen.tree.parts import loaded, with_blocks
from spacedsl.codegen.tree.program import Assign, Let, Statement, Store, Sweep
from spacedsl.codegen.tree.residues import Residues, is_aligned, residue, swept
from spacedsl.kernels.gpu_device import VECTOR_BYTES
from spacedsl.kernels.pipeline.backbone import VECTOR

LANES = (VECTOR, VECTOR // 2)
"""Of vectors, the longest first."""


def joined(
    body: Sequence[Statement], apart: Mapping[str, int], fresh: Callable[[str], str]
) -> tuple[Statement, ...]:
    """`apart`: by array in memory that threads share, how far its rows are apart; 0 where there is one."""
    return _Joining(apart, fresh).block(body, {})


_Row = tuple[str, Index, Type]
"""An array, an index without its constant, and what elements are: these are at a constant distance."""


@dataclass(slots=True)
class _Accesses:
    """Of one row, in the order of statements."""

    loads: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By constant, the numbers of statements that load that element."""
    stores: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True, slots=True)
class _Joining:
    apart: Mapping[str, int]
    fresh: Callable[[str], str]

    def block(self, body: Sequence[Statement], known: Residues) -> tuple[Statement, ...]:
        made: list[Statement] = []
        run: list[Assign | Store] = []
        for statement in body:
            if isinstance(statement, Assign | Store):
                run.append(statement)
                continue
            made += self.together(run, known)
            run = []
            inside = known
            if isinstance(statement, Let):
                known = {**known, statement.variable: residue(statement.position, known)}
            elif isinstance(statement, Sweep):
                inside = {**known, statement.variable: swept(statement, known)}
            made.append(with_blocks(statement, partial(self.block, known=inside)))
        return (*made, *self.together(run, known))

    def together(self, run: Sequence[Assign | Store], known: Residues) -> Sequence[Statement]:
        """Statements without branches."""
        if len(run) < 2:
            return run
        before: dict[int, list[Statement]] = defaultdict(list)
        instead: dict[int, Statement] = {}
        behind: dict[int, list[Statement]] = defaultdict(list)
        for (tensor, row, kind), accesses in self.rows(run).items():
            most, apart = VECTOR_BYTES // kind.dtype.nbytes, self.apart[tensor]
            counts = [n for n in LANES if n <= most and apart % n == 0]
            for first, lanes in _vectors(accesses.loads, row, counts, known):
                at = [accesses.loads[first + lane] for lane in range(lanes)]
                vector = Register(self.fresh("vector"), replace(kind, lanes=lanes))
                load = Load(tensor, replace(row, constant=first), vector.type)
                before[min(map(min, at))].append(Assign(vector, load))
                for lane, numbers in enumerate(at):
                    for number in numbers:
                        statement = run[number]
                        assert isinstance(statement, Assign)
                        instead[number] = Assign(statement.register, Lane(vector, lane))
            once = {constant: numbers for constant, numbers in accesses.stores.items() if len(numbers) == 1}
            for first, lanes in _vectors(once, row, counts, known):
                values: list[Register] = []
                numbers = [once[first + lane][0] for lane in range(lanes)]
                for number in numbers:
                    values.append(Register(self.fresh("v"), kind))
                    instead[number] = Assign(values[-1], run[number].value)
                store = Store(tensor, replace(row, constant=first), Pack(tuple(values)))
                behind[max(numbers)].append(store)
        found: list[Statement] = []
        for number, statement in enumerate(run):
            found += (*before[number], instead.get(number, statement), *behind[number])
        return found

    def rows(self, run: Sequence[Assign | Store]) -> Mapping[_Row, _Accesses]:
        """Those whose elements may be loaded earlier than they are, and stored later."""
        rows: dict[_Row, _Accesses] = defaultdict(_Accesses)
        others: set[str] = set()
        for number, statement in enumerate(run):
            match statement:
                case Assign(_, Load(tensor, index, kind, False)) if kind.lanes == 1:
                    rows[tensor, replace(index, constant=0), kind].loads[index.constant].append(number)
                    continue
                case Store(tensor, index, value, False) if (kind := type_of(value)).lanes == 1:
                    rows[tensor, replace(index, constant=0), kind].stores[index.constant].append(number)
                case Store(tensor):
                    others.add(tensor)
            others |= loaded((statement,))
        of: dict[str, list[_Accesses]] = defaultdict(list)
        for (tensor, *_), accesses in rows.items():
            of[tensor].append(accesses)
        return {
            row: accesses
            for row, accesses in rows.items()
            if row[0] in self.apart and row[0] not in others and _is_movable(of[row[0]])
        }


def _is_movable(rows: Sequence[_Accesses]) -> bool:
    """Whether loads of an array all come before what is stored to the same elements."""
    if not any(each.stores for each in rows):
        return True
    if len(rows) > 1:
        # Which of them are the same is not known.
        return False
    (one,) = rows
    return all(
        max(numbers) < min(one.stores[constant])
        for constant, numbers in one.loads.items()
        if constant in one.stores
    )


def _vectors(
    elements: Collection[int], row: Index, counts: Sequence[int], known: Residues
) -> Iterator[tuple[int, int]]:
    """Where vectors of these begin, and how many lanes they have: each element is in one at most.

    Rows are multiples of each, so that none goes beyond an end of its row.
    """
    left = set(elements)
    for lanes in counts:
        for first in sorted(left):
            all_of_it = set(range(first, first + lanes))
            if all_of_it <= left and is_aligned(replace(row, constant=first), lanes, known):
                left -= all_of_it
                yield first, lanes

"""The same where threads work by themselves, at places that are positions: grids of pipelines.

In and out as in `following.py`. A block in the middle is followed, all of its threads at the same time, and
of a loop the iteration in the middle: where accesses lead is computed for each of them. What threads of a
block access in the same iteration comes from the L2 cache once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.codegen.cuda.following import Follower, Work, l1_cycles
from spacedsl.codegen.tree.expressions import (
    Bitwise,
    Call,
    Compare,
    Convert,
    Counted,
    Expression,
    FloorDiv,
    FloorMod,
    Index,
    Not,
    Number,
    Position,
    Select,
    type_of,
)
from spacedsl.codegen.tree.parts import subexpressions
from spacedsl.codegen.tree.program import Grid, Let, PerThread, Program, Statement, Sweep, Take, When
from spacedsl.kernels.banks import passes
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.gpu_device import SECTOR_BYTES, GpuDevice
from spacedsl.kernels.pipeline.affine import Atom, Extreme, Opaque, Quotient, Remainder
from spacedsl.kernels.pipeline.algorithm import Function, Variable

Numbers = NDArray[np.int64]
"""By thread."""

_QUOTIENT, _UNKNOWN_QUOTIENT = 5, 25
"""Instructions of a division by a number that is known, and by one that is not, about."""

_CALLS: Mapping[Function, int] = {"floor": 1, "ceil": 1, "round": 1, "trunc": 1, "abs": 1, "sqrt": 6}
_CALL = 30
"""Of functions, about."""


@dataclass(slots=True)
class _Touched:
    """Sectors that threads of a block access, by array, while they go through the same statements."""

    sectors: dict[str, list[Numbers]] = field(default_factory=lambda: defaultdict(list))

    def count(self) -> int:
        return sum(len(np.unique(np.concatenate(some))) for some in self.sectors.values())


class PartFollower(Follower):
    """Follows those threads of a block that come to a place."""

    at: dict[str, Numbers]
    """Where variables stand."""
    touched: _Touched
    is_held: bool
    """Whether arrays of threads are in registers."""
    indices: set[object]
    """What has been computed of indices, but for a number."""

    @classmethod
    def of_grid(cls, program: Program, grid: Grid, device: GpuDevice, *, is_held: bool) -> PartFollower:
        made = cls(program, grid, device)
        made.nbytes |= {t.name: t.dtype.nbytes for t in grid.private}
        made.is_held = is_held
        made.indices = set()
        made.touched = _Touched()
        blocks = [c for c in grid.coordinates if c.is_block]
        made.at = {c.variable: np.array([c.extent // 2]) for c in blocks}
        return made

    def inside(self, at: Mapping[str, Numbers], touched: _Touched) -> PartFollower:
        made = type(self).__new__(type(self))
        made.__dict__ |= self.__dict__
        made.at, made.touched, made.indices = dict(at), touched, set(self.indices)
        return made

    @property
    def threads(self) -> int:
        return max((len(numbers) for numbers in self.at.values()), default=1)

    @property
    def warps_here(self) -> int:
        return -(-self.threads // self.device.warp)

    def some(self, come: NDArray[np.bool_]) -> dict[str, Numbers]:
        """Where variables stand of some of the threads."""
        return {v: n[come] if len(n) == len(come) else n for v, n in self.at.items()}

    # ---- Statements --------------------------------------------------------------------------------------

    def other(self, statement: Statement, work: Work, loads_wait: float) -> float:
        match statement:
            case Let(variable, position):
                self.computed(position, work)
                self.at[variable] = self.position(position)
            case Take(variable, value, low, high):
                loads_wait = max(loads_wait, self.expression(value, work))
                # Nobody knows where: apart from each other.
                self.at[variable] = low + np.arange(self.threads) * 7919 % (high - low + 1)
            case When(least, body, otherwise):
                holds = np.ones(self.threads, bool)
                for position in least:
                    self.computed(position, work)
                    holds &= self.position(position) >= 0
                for come, inner in ((holds, body), (~holds, otherwise)):
                    if inner and come.any():
                        self.part(self.inside(self.some(come), self.touched), inner, work, 1)
            case Sweep():
                work.waiting += loads_wait
                self.sweep(statement, work)
                return 0.0
            case PerThread():
                work.waiting += loads_wait
                self.together(statement, work)
                return 0.0
        return loads_wait

    def addition(self, tensor: str, index: Index, work: Work) -> None:
        sectors = work.sectors
        super().addition(tensor, index, work)
        # What one warp has added to is not there for the next one before the L2 cache.
        work.missed += work.sectors - sectors
        work.added += self.device.warp / self.elements[tensor]

    def sweep(self, sweep: Sweep, work: Work) -> None:
        for end in (sweep.first, sweep.last):
            self.computed(end, work)
        first, last = np.broadcast_arrays(self.position(sweep.first), self.position(sweep.last))
        turns = np.maximum(0, (last - first) // sweep.step + 1)
        most = int(turns.max())
        if most == 0:
            return
        come = turns > most // 2 if most > 1 else turns > 0
        at = {**self.some(come), sweep.variable: (first + most // 2 * sweep.step)[come]}
        self.part(self.inside(at, self.touched if most == 1 else _Touched()), sweep.body, work, most)
        work.issued += 2 * most * (most > 1)

    def part(self, inside: PartFollower, body: Sequence[Statement], work: Work, turns: int) -> None:
        """What some threads do, so many times; sectors of an iteration of its own count there."""
        found = inside.block(tuple(body))
        if inside.touched is not self.touched:
            found.missed += inside.touched.count() / inside.warps_here
        work.add(found, turns * min(1.0, inside.warps_here / self.warps_here))

    def together(self, part: PerThread, work: Work) -> None:
        """A block goes on when the slowest of its warps has come to the end."""
        numbers = np.arange(part.threads)
        at = {v: n[:1] for v, n in self.at.items()}
        at |= {c.variable: numbers // c.stride % c.extent for c in part.coordinates}
        if not part.coordinates:
            at["a thread"] = numbers
        inside = self.inside(at, _Touched())
        found = inside.block(part.body)
        found.missed += inside.touched.count() / inside.warps_here
        share = inside.warps_here / self.warps
        work.add(found, share)
        work.waiting += (1 - share) * (found.waiting + max(found.issued, found.chained))

    # ---- Positions ---------------------------------------------------------------------------------------

    def position(self, position: Position) -> Numbers:
        total = np.array([position.constant])
        for atom, number in position.terms:
            total = total + self.atom(atom) * number
        return total

    def atom(self, atom: Atom) -> Numbers:
        match atom:
            case Variable(name):
                return self.at[name]
            case Quotient(dividend, divisor):
                return self.position(dividend) // divisor
            case Remainder(dividend, divisor):
                return self.position(dividend) % divisor
            case Extreme(operator, left, right):
                function: Any = np.minimum if operator == "min" else np.maximum
                made: Numbers = function(self.position(left), self.position(right))
                return made
            case Opaque():
                raise AssertionError(f"{atom} is no part of a verified program")

    def computed(self, position: Position, work: Work) -> None:
        """What it takes, where nothing of it is known."""
        count = _instructions(position.terms) + (position.constant != 0)
        work.issued += count
        work.i32 += count

    # ---- Expressions and memory --------------------------------------------------------------------------

    def expression(self, expression: Expression, work: Work) -> float:
        for part in subexpressions(expression):
            match part:
                case FloorDiv(_, right) | FloorMod(_, right):
                    is_known = isinstance(right, Number)
                    self.arithmetic(part, work, _QUOTIENT if is_known else _UNKNOWN_QUOTIENT)
                case Bitwise() | Not() | Compare() | Select() | Convert():
                    self.arithmetic(part, work, 1)
                case Call(function):
                    self.arithmetic(part, work, _CALLS.get(function, _CALL))
                case Counted(position):
                    self.computed(position, work)
        return super().expression(expression, work)

    def arithmetic(self, expression: Expression, work: Work, count: int) -> None:
        dtype = type_of(expression).dtype
        if dtype.is_float:
            super().arithmetic(expression, work, count)
            return
        count *= 1 if dtype.nbytes < DType.I64.nbytes else 3
        work.issued += count
        work.i32 += count

    def access(
        self,
        tensor: str,
        index: Index,
        lanes: int,
        work: Work,
        *,
        is_store: bool = False,
        is_copy: bool = False,
    ) -> None:
        nbytes = self.nbytes[tensor]
        key = (tensor, index.terms, index.atoms)
        if key not in self.indices:
            self.indices.add(key)
            count = len(index.terms) + _instructions(index.atoms)
            work.issued += count
            work.i32 += count
        if any(t.name == tensor for t in self.grid.private):
            if not (self.is_held or not (index.terms or index.atoms)):
                work.issued += 1
                work.accesses += 1
                work.sectors += self.device.warp * nbytes / SECTOR_BYTES
            return
        work.issued += 1
        work.accesses += 1
        terms = tuple((Variable(name), stride) for name, stride in index.terms)
        firsts = self.position(Position(index.constant, (*terms, *index.atoms)))
        warp = firsts[: self.device.warp]
        if tensor in self.shared:
            work.passes += passes(warp.tolist(), lanes * nbytes, nbytes, is_shared_load=not is_store)
        else:
            work.sectors += len(np.unique(warp * nbytes // SECTOR_BYTES))
            work.l1_cycles += l1_cycles(warp.tolist(), lanes * nbytes, nbytes)
            self.touched.sectors[tensor].append(firsts * nbytes // SECTOR_BYTES)


def _instructions(terms: Iterable[tuple[Atom, int]]) -> int:
    """Additions with a multiplication, and what atoms are made of."""
    total = 0
    for atom, _ in terms:
        total += 1
        match atom:
            case Quotient(dividend, divisor) | Remainder(dividend, divisor):
                total += _instructions(dividend.terms)
                total += 1 if math.log2(divisor).is_integer() else _QUOTIENT
            case Extreme(_, left, right):
                total += 1 + _instructions(left.terms) + _instructions(right.terms)
    return total

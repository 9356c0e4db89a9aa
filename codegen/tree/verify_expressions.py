"""The verifier's view of values: what an expression reads is visible, has its type, and lies in its array.

In: an expression, the scope that it stands in. Out: its type, or a `VerificationError`; what has been touched
and stored to, for rules about more than one access. Statements are for `verify.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from spacedsl.codegen.tree.errors import VerificationError, refuse
from spacedsl.codegen.tree.expressions import (
    Counted,
    Expression,
    Gather,
    Index,
    Load,
    LoadMatrix,
    ParameterValue,
    PartialLoad,
    Position,
    Register,
    Shuffle,
    Type,
    type_by,
)
from spacedsl.codegen.tree.parts import index_bits, operands
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.races import Access
from spacedsl.codegen.tree.residues import is_aligned
from spacedsl.codegen.tree.rules import gpu_fault, type_fault
from spacedsl.codegen.tree.scopes import Scope
from spacedsl.codegen.tree.touched import counted_fault, is_inside
from spacedsl.kernels.linalg.fragments import ROW_BYTES
from spacedsl.kernels.pipeline.affine import has_values
from spacedsl.kernels.tensors import Tensor


class ExpressionChecker:
    """Expressions of one program, in the order in which they are evaluated."""

    def __init__(self, program: Program, before: Collection[str] = ()) -> None:
        """`before`: what has been stored to before."""
        self.program = program
        self.before = frozenset(before)
        self.read: set[str] = set()
        """Of these, what is read before it is stored to again."""
        self.touched: dict[str, Tensor] = {}
        """Arguments, and memory of the program's own."""
        self.names: set[str] = set()
        """Of variables and registers."""
        own = (s.tensor for s in program.scratch)
        self.tensors: dict[str, Tensor] = {t.name: t for t in (*program.tensors, *own)}
        self.arguments = {t.name for t in program.tensors}
        self.parameters = {p.name: p for p in program.parameters}
        self.writes = Counter[str]()
        self.starts = Counter[tuple[str, float]]()
        """Of these, those of a number."""
        self.uncounted: set[str] = set()
        """What is stored to at positions that are not counted."""
        self.combined = Counter[str]()
        """Elements that grids combine parts with."""
        self.contested: dict[str, list[Access]] = {}
        """What is done to arrays that the parallel loop, or grid, around stores to, without those of each."""
        self.index_bits = index_bits(program)

    @property
    def stored(self) -> Collection[str]:
        """Whatever has been stored to."""
        return {*(name for name, count in self.writes.items() if count), *self.uncounted}

    def position(self, position: Position, scope: Scope) -> None:
        """It is of variables that are visible."""
        for name in position.names:
            if name not in scope.ranges:
                raise VerificationError(f"a position uses {name}, which is not known here")
        if has_values(position):
            raise VerificationError("a position is made of values")

    def expression(self, expression: Expression, scope: Scope) -> Type:
        """The expression's type, after checking all of it."""
        parts = operands(expression)
        types = [self.expression(part, scope) for part in parts]
        refuse(type_fault(expression, types))
        if scope.grid is not None:
            refuse(gpu_fault(expression))
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
            case Gather():
                self.gather(expression, scope)
            case ParameterValue(name, kind):
                if name not in self.parameters or Type(self.parameters[name].dtype) != kind:
                    raise VerificationError(f"there is no parameter {name} of type {kind}")
            case LoadMatrix():
                self.matrix(expression, scope)
            case Counted(position, kind):
                self.position(position, scope)
                if not kind.dtype.is_integer:
                    raise VerificationError(f"a position is counted as {kind}")
            case Shuffle(_, _, threads):
                if not scope.has_neighbours(threads):
                    raise VerificationError("a shuffle that not all threads of a warp come to")
        known = {id(part): kind for part, kind in zip(parts, types, strict=True)}
        return type_by(expression, lambda part: known[id(part)])

    def matrix(self, load: LoadMatrix, scope: Scope) -> None:
        """A whole warp loads it."""
        if not scope.has_whole_warps or scope.spans or not scope.is_shared(load.tensor):
            raise VerificationError(f"a matrix of {load.tensor} that not all threads of a warp load")
        lanes = ROW_BYTES // load.dtype.nbytes
        self.load(load.tensor, load.index, Type(load.dtype, lanes), range(lanes), scope)

    def gather(self, gather: Gather, scope: Scope) -> None:
        """All that is taken may be anything between its ends, in each lane."""
        terms = [*gather.index.terms]
        ranges = scope.ranges
        for number, part in enumerate(gather.taken):
            name = f"taken {number}"
            ranges = ranges.with_loop(name, Position(part.low), Position(part.high))
            terms.append((name, part.stride))
        index = replace(gather.index, terms=tuple(terms))
        kind, scope = Type(gather.type.dtype), replace(scope, ranges=ranges)
        tensor = self.load(gather.tensor, index, kind, range(1), scope)
        if tensor.span != gather.extent:
            raise VerificationError(f"{gather.tensor} has {tensor.span} elements, not {gather.extent}")

    def load(self, name: str, index: Index, kind: Type, lanes: range, scope: Scope) -> Tensor:
        tensor = self.access(name, index, kind, lanes, scope)
        if tensor.is_output and not self.writes[name] and name not in self.uncounted:
            if name not in self.before:
                raise VerificationError(f"output {name} is read before it is written")
            self.read.add(name)
        return tensor

    def access(self, name: str, index: Index, kind: Type, lanes: range, scope: Scope) -> Tensor:
        """The tensor that is accessed, after checking type and bounds over all iterations."""
        tensor = scope.private.get(name) or self.tensors.get(name)
        if tensor is None:
            raise VerificationError(f"there is no tensor {name}")
        if name not in scope.private:
            self.touched[name] = tensor
        if kind.dtype is not tensor.dtype:
            raise VerificationError(f"{name} holds {tensor.dtype.label}, it is accessed as {kind}")
        if kind.lanes < 1 or kind.lanes & (kind.lanes - 1):
            raise VerificationError(f"a vector has 2, 4, 8, .. lanes, not {kind.lanes}")
        is_vector = scope.grid is not None and len(lanes) == kind.lanes > 1
        if is_vector and not is_aligned(index, kind.lanes, scope.residues):
            raise VerificationError(f"a vector of {kind} in {name} begins where none may")
        for variable, _ in (*index.terms, *index.shares):
            if variable not in scope.ranges:
                raise VerificationError(f"an index of {name} uses {variable} outside of its loop")
        if index.atoms or any(variable not in scope.loops for variable, _ in index.terms):
            self.placed(tensor, index, lanes, scope)
            return tensor
        refuse(counted_fault(tensor, index, lanes, scope, self.index_bits))
        # What shares add is anything from 0 to the most that they come to.
        more = sum(share.stride * ((share.modulus - 1) // share.divisor) for _, share in index.shares)
        self.touch(name, index.position, range(lanes.start, lanes.stop + more), scope)
        return tensor

    def placed(self, tensor: Tensor, index: Index, lanes: range, scope: Scope) -> None:
        """An index that is a position is within the tensor, wherever it may be."""
        position = index.position
        if index.shares:
            raise VerificationError(f"an index of {tensor.name} is a position, and has shares")
        self.position(position, scope)
        if not is_inside(tensor, position, lanes, scope.ranges):
            raise VerificationError(
                f"{tensor.name} has elements 0 to {tensor.span - 1}, and is accessed nobody knows where"
            )
        self.touch(tensor.name, position, lanes, scope)

    def touch(self, name: str, position: Position, lanes: range, scope: Scope) -> None:
        """Keeps what all that runs side by side is judged by."""
        if name in self.contested:
            self.contested[name].append(Access(position, lanes[-1], scope.ranges))

"""Instructions: what an instance of one does, at its place in loops and unrolled copies.

In: an instruction, and where the dimensions around it stand. Out: statements of the program tree. A user
finds the instance that made its operand through the mapping of dimensions: in a register, or in a temporary.
Readers combine the partial results of a reduction, unless its threads have. Of a vector that is not whole,
memory beyond the index is left alone, and so are the lanes that a reduction has no term for. What a padded
tile (`padding.py`) has beyond it is loaded as 0, and not stored to tensors. A store that lies inside of what
its value reduces has a part of that, and combines it with what is there. Loops are for `lower.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spacedsl.codegen.linalg.addresses import (
    At,
    Lanes,
    Place,
    copies,
    element,
    tensor_steps,
    turn,
)
from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.linalg.padding import Padding
from spacedsl.codegen.linalg.partials import Partials, accumulator, combination
from spacedsl.codegen.linalg.registers import Registers
from spacedsl.codegen.linalg.temporaries import Temporary
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import (
    Add,
    Apply,
    Blend,
    Broadcast,
    Div,
    Expression,
    FirstLane,
    Fma,
    Index,
    Lane,
    LaneReduction,
    Load,
    Max,
    Min,
    Mul,
    Neg,
    Number,
    Pack,
    ParameterValue,
    PartialLoad,
    Sub,
    Type,
    converted,
    type_of,
)
from spacedsl.codegen.tree.program import Assign, AtomicCombine, Branch, PartialStore, Statement, Store
from spacedsl.kernels.linalg import backbone
from spacedsl.kernels.linalg.backbone import Accumulator, Dimension, Instruction, Operand, Value
from spacedsl.kernels.linalg.operations import FUNCTIONS, Combine, Op, neutral
from spacedsl.kernels.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Instructions:
    """What turns instances of instructions into statements."""

    implementation: Implementation
    registers: Registers
    temporaries: Mapping[Instruction, Temporary]
    """By the instructions whose values go through memory."""
    parts: Mapping[Instruction, Tensor] = field(default_factory=dict)
    """By the stores to which each thread adds for itself: to its own part of the result."""

    @property
    def padding(self) -> Padding:
        return Padding(self.implementation)

    def statements(self, instruction: Instruction, place: Place) -> tuple[Statement, ...]:
        """What one instance does; raises `LoweringError` where its operands are not to be had there."""
        vector = self.registers.vector_dim(instruction)
        for dim in instruction.dims:
            if dim is not vector and dim not in place:
                raise LoweringError(f"{instruction!r} is not nested in its own dimension {dim!r}")
        ends = self.padding.padded(instruction) if self.is_of_tensor(instruction) else ()
        if instruction.op is Op.STORE:
            return self.padding.up_to_end(ends, vector, place, lambda at: self.stored(instruction, at))
        part = self.part(instruction, place)
        unrolled = {d: number for d, number in copies(place).items() if d in instruction.dims}
        value = self.value(instruction, place)
        if instruction in self.registers.partials:
            return self.started(instruction, value, unrolled)
        register = self.registers.of(instruction, unrolled)
        if part is not None and vector in instruction.reduced_dims:
            value = Blend(value, register, part.count)
        assigned: tuple[Statement, ...] = (Assign(register, value),)
        if ends:
            limited = self.padding.up_to_end(
                ends, vector, place, lambda at: (Assign(register, self.value(instruction, at)),)
            )
            nothing = _spread(Number(0, Type(register.type.dtype)), register.type.lanes)
            assigned = assigned if limited == assigned else (Assign(register, nothing), *limited)
        temporary = self.temporaries.get(instruction)
        if temporary is None:
            return assigned
        return (*assigned, _store(*self.kept(instruction, temporary, place), register, part))

    def is_of_tensor(self, instruction: Instruction) -> bool:
        """Whether it accesses one, and no temporary, which has room for whole tiles."""
        return instruction.access is not None and instruction.maker is None

    def stored(self, store: Instruction, place: Place) -> tuple[Statement, ...]:
        """What is stored; inside of what its value sums over, added to what was there before."""
        part = self.part(store, place)
        value = self.operand(store, store.operands[0], place)
        tensor, index = self.element(store, place)
        added = [
            dim for dim in place if dim.group in store.added_levels and self.implementation.is_added(dim)
        ]
        if any(self.implementation.kind(dim) == "BLOCK" for dim in added):
            return _combining(tensor, index, value, part, _combine(store))
        if store in self.parts:
            return (_addition(self.parts[store], index, value, part),)
        is_streamed = self.implementation.is_streamed(store)
        return _begun(
            [place[dim] for dim in added],
            (_store(tensor, index, value, part, is_streamed=is_streamed),),
            (_addition(tensor, index, value, part),) if added else (),
        )

    def started(
        self, initialiser: Instruction, value: Expression, unrolled: Mapping[Dimension, int]
    ) -> tuple[Statement, ...]:
        """The first of the partial results begins with `value`, the others with what changes nothing."""
        partials = self.registers.partials[initialiser]
        nothing = Number(neutral(partials.combine, initialiser.dtype), Type(initialiser.dtype))
        if partials.lanes > 1:
            value = FirstLane(value, partials.lanes, partials.combine)
        first, *others = self.registers.partials_of(initialiser, unrolled)
        rest = (Assign(register, _spread(nothing, register.type.lanes)) for register in others)
        return (Assign(first, value), *rest)

    def value(self, instruction: Instruction, place: Place) -> Expression:
        if instruction.op is Op.LOAD:
            tensor, index = self.element(instruction, place)
            dtype = self.registers.dtype(instruction)
            kind, part = Type(tensor.dtype, self.registers.lanes(instruction)), self.part(instruction, place)
            if part is not None:
                return converted(PartialLoad(tensor.name, index, kind, part.count), dtype)
            is_streamed = instruction.maker is None and self.implementation.is_streamed(instruction)
            return converted(Load(tensor.name, index, kind, is_streamed), dtype)
        values = [self.operand(instruction, o, place) for o in instruction.operands]
        match instruction.op, values:
            case Op.MOVE, [a]:
                return a
            case Op.NEG, [a]:
                return Neg(a)
            case Op.ADD, [a, b]:
                return Add(a, b)
            case Op.SUB, [a, b]:
                return Sub(a, b)
            case Op.MUL, [a, b]:
                return Mul(a, b)
            case Op.DIV, [a, b]:
                return Div(a, b)
            case Op.FMA, [a, b, c]:
                return Fma(a, b, c)
            case Op.MAX, [a, b]:
                return Max(a, b)
            case Op.MIN, [a, b]:
                return Min(a, b)
            case op, [a] if op in FUNCTIONS:
                return Apply(op, a)
        raise LoweringError(f"{instruction!r}: {instruction.op.value} with {len(values)} operands")

    def part(self, instruction: Instruction, place: Place) -> Lanes | None:
        """The lanes that an instance uses, where that is only a part of its vector."""
        vector = self.registers.vector_dim(instruction)
        found = None if vector is None else place.get(vector)
        return found if isinstance(found, Lanes) else None

    def element(self, instruction: Instruction, place: Place) -> tuple[Tensor, Index]:
        """What an instance loads or stores."""
        if instruction.maker is not None:
            return self.kept(instruction, self.temporaries[instruction.maker], place)
        access, vector = _access(instruction), self.registers.vector_dim(instruction)
        steps = tensor_steps(access, self.implementation.size)
        return access.tensor, element(instruction, vector, access.offset, steps, place)

    def kept(self, instruction: Instruction, temporary: Temporary, place: Place) -> tuple[Tensor, Index]:
        """The element of a temporary that an instance of its maker writes or of a reload loads."""
        vector = self.registers.vector_dim(instruction)
        index = element(instruction, vector, 0, temporary.strides, place)
        if temporary.turning is not None:
            index = turn(index, place[temporary.turning], temporary.buffers, temporary.tile)
        return temporary.tensor, index

    def operand(self, user: Instruction, operand: Operand, place: Place) -> Expression:
        """The operand of one instance of `user`, with as many lanes as it has."""
        lanes = self.registers.lanes(user)
        scalar = Type(user.dtype)
        match operand:
            case backbone.Number(number):
                return _spread(Number(number, scalar), lanes)
            case backbone.ParameterValue(parameter):
                value = ParameterValue(parameter.name, Type(parameter.dtype))
                return _spread(converted(value, user.dtype), lanes)
            case Accumulator():
                return self.registers.of(user, copies(place))
            case Value(instruction, mapping):
                if instruction not in self.temporaries:
                    return self.made(user, instruction, mapping, place)
                reload = next(r for r in instruction.reloads if user in r.consumers)
                return self.made(user, reload, tuple((d, d.mapped_to[0]) for d in reload.dims), place)

    def made(
        self,
        user: Instruction,
        maker: Instruction,
        mapping: tuple[tuple[Dimension, Dimension], ...],
        place: Place,
    ) -> Expression:
        lanes, used = self.registers.lanes(user), self.registers.vector_dim(user)
        made = next((m for m, u in mapping if u is used), None)
        if used is not None and made is not None and self.implementation.kind(made) == "UNROLL":
            # Each lane is a register of its own; those that are not used repeat the last one.
            part = place.get(used)
            last = part.count - 1 if isinstance(part, Lanes) else lanes - 1
            numbers = (min(lane, last) for lane in range(lanes))
            return Pack(tuple(self.one(user, maker, mapping, {**place, used: n}, 1) for n in numbers))
        return self.one(user, maker, mapping, place, lanes)

    def one(
        self,
        user: Instruction,
        maker: Instruction,
        mapping: tuple[tuple[Dimension, Dimension], ...],
        place: Place,
        lanes: int,
    ) -> Expression:
        """What one instance of `maker` made, as so many lanes."""
        vector = self.registers.vector_dim(maker)
        numbers = copies(place)
        unrolled = {m: numbers[u] for m, u in mapping if u in numbers and m is not vector}
        if maker.reduced_dims:
            # Every iteration of the reduced dimensions ends in the same register.
            unrolled |= dict.fromkeys(maker.reduced_dims, 0)
        value, partials = self.result(maker, unrolled)
        if partials is not None and partials.lanes > 1:
            return _spread(LaneReduction(value, partials.combine), lanes)
        if type_of(value).lanes == 1:
            return _spread(value, lanes)
        number = next((place.get(u) for m, u in mapping if m is vector), None)
        if isinstance(number, int):
            return _spread(Lane(value, number), lanes)
        if (vector, self.registers.vector_dim(user)) not in mapping or type_of(value).lanes != lanes:
            raise LoweringError(f"the lanes of {maker!r} are not those of {user!r}, which uses its value")
        return value

    def result(
        self, maker: Instruction, unrolled: Mapping[Dimension, int]
    ) -> tuple[Expression, Partials | None]:
        """What one instance made, lanes of partial results still apart."""
        start = accumulator(maker) if maker.reduced_dims else None
        initialiser = maker if start is None else start.initialiser
        partials = self.registers.partials.get(initialiser)
        if partials is None:
            return self.registers.of(maker, unrolled), None
        made = unrolled if start is None else {m: unrolled[u] for m, u in start.mapping if u in unrolled}
        registers = self.registers.partials_of(initialiser, made)
        return combination(registers[: 1 if partials.is_joined else None], partials.combine), partials


def _store(
    tensor: Tensor,
    index: Index,
    value: Expression,
    part: Lanes | None,
    *,
    is_streamed: bool = False,
) -> Statement:
    """Of a vector of which only some lanes are used, those."""
    value = converted(value, tensor.dtype)
    if part is not None:
        return PartialStore(tensor.name, index, value, part.count)
    return Store(tensor.name, index, value, is_streamed)


def _addition(tensor: Tensor, index: Index, value: Expression, part: Lanes | None) -> Statement:
    """To what is there, which no other thread touches."""
    kind = type_of(value)
    before = (
        Load(tensor.name, index, kind) if part is None else PartialLoad(tensor.name, index, kind, part.count)
    )
    return _store(tensor, index, Add(before, value), part)


def _begun(
    at: Sequence[At], first: tuple[Statement, ...], further: tuple[Statement, ...]
) -> tuple[Statement, ...]:
    """What is done in the first iteration of loops that stand there, and in all further ones."""
    for where in at:
        match where:
            case 0:
                pass
            case int():
                return further
            case str():
                first = (Branch(where, 1, first, further),)
            case _:
                raise LoweringError(f"a sum is added up where a loop stands at {where!r}")
    return first


def _combine(store: Instruction) -> Combine:
    """How parts of the reduction are combined whose result it stores."""
    match store.operands:
        case (Value(Instruction() as reduction),) if (combine := reduction.combine) is not None:
            return combine
    raise LoweringError(f"{store!r} does not store what a reduction has as it is")


def _combining(
    tensor: Tensor, index: Index, value: Expression, part: Lanes | None, combine: Combine
) -> tuple[Statement, ...]:
    """Of the lanes that are used, one by one."""
    lanes = type_of(value).lanes
    if lanes == 1:
        return (AtomicCombine(tensor.name, index, value, combine),)
    values = value.values if isinstance(value, Pack) else [Lane(value, n) for n in range(lanes)]
    used = values[: lanes if part is None else part.count]
    places = (replace(index, constant=index.constant + n) for n in range(lanes))
    return tuple(AtomicCombine(tensor.name, i, v, combine) for i, v in zip(places, used, strict=False))


def _spread(value: Expression, lanes: int) -> Expression:
    return value if lanes == 1 else Broadcast(value, lanes)


def _access(instruction: Instruction) -> backbone.Access:
    if instruction.access is None:
        raise LoweringError(f"{instruction!r} accesses no tensor")
    return instruction.access

"""Lowering: a kernel's backbone and the decisions about it become a program tree.

In: a `Kernel` and an `Implementation` of it. Out: a `Program`, not yet verified. LOOP and PARALLEL
dimensions become loops, parallel ones inside each other a single one; UNROLL dimensions are expanded, so that
every instance of an instruction has a register of its own, named by its unrolled indices; VECTOR dimensions
become lanes. A consumer finds the instance that made its operand through the mapping of dimensions. A
reduction updates the registers of its initialiser in place; where it has partial results (`partials.py`),
readers combine them. Where a tile is not whole (`remainder.py`), registers are all the same: memory beyond
the index is left alone, and so are the lanes that a reduction has no term for. Memory of the program's own is
then made as small as its loops allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.codegen.addresses import Lanes, Place, element, tensor_steps
from spacedsl.codegen.contraction import contract
from spacedsl.codegen.nest import Fused, Implementation, LoweringError, Node, nest
from spacedsl.codegen.partials import Partials, accumulator, check_accumulator, combination, combined_by
from spacedsl.codegen.prefetches import Request, requests
from spacedsl.codegen.program import (
    CONVERSIONS,
    Add,
    Apply,
    Assign,
    Blend,
    Branch,
    Broadcast,
    Convert,
    Div,
    Expression,
    FirstLane,
    Fma,
    Index,
    LaneReduction,
    Load,
    Loop,
    Max,
    Min,
    Mul,
    Neg,
    Number,
    ParallelLoop,
    ParameterValue,
    Partial,
    PartialLoad,
    PartialStore,
    Program,
    Register,
    Statement,
    Store,
    Sub,
    Type,
    type_of,
)
from spacedsl.codegen.remainder import divide
from spacedsl.codegen.temporaries import Temporary, temporaries
from spacedsl.kernels.linalg import backbone
from spacedsl.kernels.linalg.backbone import (
    FUNCTIONS,
    Accumulator,
    Dimension,
    DType,
    Instruction,
    Kernel,
    Op,
    Operand,
    Scratch,
    Tensor,
    Value,
    neutral,
)


def lower(kernel: Kernel, implementation: Implementation) -> Program:
    """The program of a complete implementation; raises `LoweringError` where the decisions are no program."""
    tree = divide(nest(kernel, implementation), kernel, implementation)
    lowering = _Lowering(kernel, implementation, requests(tree, kernel, implementation))
    body = lowering.block(tree, {})
    return contract(Program(kernel.name, kernel.tensors, kernel.parameters, body, lowering.scratch))


@dataclass(slots=True)
class _Lowering:
    kernel: Kernel
    implementation: Implementation
    requests: Mapping[Fused, tuple[Request, ...]]
    names: set[str] = field(init=False)
    registers: dict[tuple[Instruction, tuple[int, ...]], str] = field(default_factory=dict)
    """The names of the instances of instructions, by their unrolled indices."""
    partials: dict[Instruction, Partials] = field(init=False)
    """By the initialisers of the reductions that have some."""
    temporaries: dict[Instruction, Temporary] = field(init=False)
    """By the instructions whose values go through memory."""

    def __post_init__(self) -> None:
        self.names = {t.name for t in self.kernel.tensors} | {s.tensor.name for s in self.kernel.scratch}
        self.names |= {p.name for p in self.kernel.parameters}
        self.temporaries = temporaries(self.kernel, self.implementation, self.name)
        self.partials = {}
        for reduction in self.kernel.reductions:
            start = accumulator(reduction)
            check_accumulator(reduction, self.implementation)
            found = Partials.of(reduction, self.implementation)
            if found is not None:
                self.partials[start.initialiser] = found

    def vector_dim(self, instruction: Instruction) -> Dimension | None:
        vectors = [d for d in instruction.dims if self.implementation.kind(d) == "VECTOR"]
        if len(vectors) > 1:
            raise LoweringError(f"{instruction!r} has more than one vector dimension: {vectors!r}")
        return vectors[0] if vectors else None

    # ---- Structure -------------------------------------------------------------------------------------

    @property
    def scratch(self) -> tuple[Scratch, ...]:
        """Memory that the program shares among its threads."""
        shared = (t for t in self.temporaries.values() if not t.is_private)
        return (*self.kernel.scratch, *(Scratch(t.tensor, t.has_padding) for t in shared))

    def block(self, nodes: tuple[Node, ...], place: Place) -> tuple[Statement, ...]:
        statements: list[Statement] = []
        for node in nodes:
            if isinstance(node, Instruction):
                statements += self.instruction(node, place)
            else:
                statements += self.fused(node, place)
        return tuple(statements)

    def fused(self, node: Fused, place: Place) -> tuple[Statement, ...]:
        if node.kind == "UNROLL":
            indices = range(node.first, node.first + node.size)
            copies = [self.block(node.body, _enter(place, node, index)) for index in indices]
            return tuple(statement for copy in copies for statement in copy)
        if node.kind == "VECTOR":
            for inner in node.body:
                if isinstance(inner, Fused) or not set(node.dims) & set(inner.dims):
                    raise LoweringError(
                        f"{inner!r} cannot be nested in the vector dimension {node.dims[0]!r}"
                    )
            is_whole = node.size == self.implementation.size(node.dims[0])
            return self.block(node.body, place if is_whole else _enter(place, node, Lanes(node.size)))
        if node.kind == "PARALLEL":
            return (self.shared_out(node, place),)
        if node.kind != "LOOP":
            raise LoweringError(f"{node.dims[0]!r} is {node.kind}, for which there is no code")
        variable = self.variable(node)
        return (Loop(variable, node.size, self.iteration((node,), (variable,), place)),)

    def shared_out(self, node: Fused, place: Place) -> ParallelLoop:
        """The loop over a parallel dimension, and those over others of which it consists."""
        nodes = [node]
        while any(isinstance(inner, Fused) and inner.kind == "PARALLEL" for inner in nodes[-1].body):
            found = _only(nodes[-1].body)
            if self.combined(found) or self.private(found) != self.private(node):
                raise LoweringError(f"{found.dims!r} are parallel for sums or memory of their own")
            nodes.append(found)
        variables = [self.variable(each) for each in nodes]
        body = self.iteration((node,), variables, place)
        for variable, each in zip(reversed(variables[1:]), reversed(nodes[1:]), strict=True):
            body = (ParallelLoop(variable, each.size, body),)
        return ParallelLoop(variables[0], node.size, body, self.combined(node), self.private(node))

    def iteration(
        self, nodes: tuple[Node, ...], variables: Sequence[str], place: Place
    ) -> tuple[Statement, ...]:
        """What one iteration does of loops that consist of each other, with these variables."""
        if not variables:
            return self.block(nodes, place)
        node, (variable, *others) = _only(nodes), variables
        inside = _enter(place, node, variable)
        asked = (
            prefetch for request in self.requests.get(node, ()) for prefetch in request.statements(inside)
        )
        body = (*asked, *self.iteration(node.body, others, inside))
        if node.last is None:
            return body
        return (Branch(variable, node.size - 1, body, self.iteration(node.last, others, inside)),)

    def variable(self, node: Fused) -> str:
        return self.name(f"{node.dims[0].index}{node.dims[0].level}")

    def combined(self, node: Fused) -> tuple[Partial, ...]:
        """The accumulators into which all iterations of a parallel dimension combine their values."""
        found: list[Partial] = []
        for reduction in self.kernel.reductions:
            if not set(node.dims) & set(reduction.reduced_dims):
                continue
            combine, start = combined_by(reduction), accumulator(reduction).initialiser
            kind = Type(start.dtype, self.lanes(reduction))
            names = [name for (maker, _), name in self.registers.items() if maker in (start, reduction)]
            found += [Partial(Register(name, kind), combine) for name in names]
        return tuple(found)

    def private(self, node: Fused) -> tuple[Tensor, ...]:
        """Temporaries of which each thread of a parallel dimension has one of its own."""
        return tuple(
            temporary.tensor
            for maker, temporary in self.temporaries.items()
            if temporary.is_private and self.implementation.order(maker, node.dims[0]) == "INNER"
        )

    def name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.names:
            number += 1
            name = f"{wanted}_{number}"
        self.names.add(name)
        return name

    # ---- Instructions ----------------------------------------------------------------------------------

    def instruction(self, instruction: Instruction, place: Place) -> tuple[Statement, ...]:
        vector = self.vector_dim(instruction)
        for dim in instruction.dims:
            if dim is not vector and dim not in place:
                raise LoweringError(f"{instruction!r} is not nested in its own dimension {dim!r}")
        part = self.part(instruction, place)
        if instruction.op is Op.STORE:
            value = self.operand(instruction, instruction.operands[0], place)
            is_streamed = self.implementation.is_streamed(instruction)
            return (_store(*self.element(instruction, place), value, part, is_streamed=is_streamed),)
        unrolled = {d: i for d, i in place.items() if isinstance(i, int) and d in instruction.dims}
        value = self.value(instruction, place)
        if instruction in self.partials:
            return self.started(instruction, value, unrolled)
        register = self.register(instruction, unrolled)
        if part is not None and vector in instruction.reduced_dims:
            value = Blend(value, register, part.count)
        temporary = self.temporaries.get(instruction)
        if temporary is None:
            return (Assign(register, value),)
        return (Assign(register, value), _store(*self.kept(instruction, temporary, place), register, part))

    def started(
        self, initialiser: Instruction, value: Expression, unrolled: Mapping[Dimension, int]
    ) -> tuple[Statement, ...]:
        """The first of the partial results begins with `value`, the others with what changes nothing."""
        partials = self.partials[initialiser]
        nothing = Number(neutral(partials.combine, initialiser.dtype), Type(initialiser.dtype))
        if partials.lanes > 1:
            value = FirstLane(value, partials.lanes, partials.combine)
        first, *others = self.partial_registers(initialiser, unrolled)
        rest = (Assign(register, _spread(nothing, register.type.lanes)) for register in others)
        return (Assign(first, value), *rest)

    def value(self, instruction: Instruction, place: Place) -> Expression:
        if instruction.op is Op.LOAD:
            tensor, index = self.element(instruction, place)
            kind, part = Type(tensor.dtype, self.lanes(instruction)), self.part(instruction, place)
            if part is not None:
                return _converted(PartialLoad(tensor.name, index, kind, part.count), instruction.dtype)
            return _converted(Load(tensor.name, index, kind), instruction.dtype)
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

    def lanes(self, instruction: Instruction) -> int:
        vector = self.vector_dim(instruction)
        return 1 if vector is None else self.implementation.size(vector)

    def part(self, instruction: Instruction, place: Place) -> Lanes | None:
        """The lanes that an instance uses, where that is only a part of its vector."""
        vector = self.vector_dim(instruction)
        found = None if vector is None else place.get(vector)
        return found if isinstance(found, Lanes) else None

    def element(self, instruction: Instruction, place: Place) -> tuple[Tensor, Index]:
        """What an instance loads or stores."""
        if instruction.maker is not None:
            return self.kept(instruction, self.temporaries[instruction.maker], place)
        access, vector = _access(instruction), self.vector_dim(instruction)
        steps = tensor_steps(access, self.implementation.size)
        return access.tensor, element(instruction, vector, access.offset, steps, place)

    def kept(self, instruction: Instruction, temporary: Temporary, place: Place) -> tuple[Tensor, Index]:
        """The element of a temporary that an instance of its maker writes or of a reload loads."""
        vector = self.vector_dim(instruction)
        return temporary.tensor, element(instruction, vector, 0, temporary.strides, place)

    # ---- Values ----------------------------------------------------------------------------------------

    def register(self, instruction: Instruction, unrolled: Mapping[Dimension, int]) -> Register:
        """The register of one instance; of a reduction, that of the initialiser's instance."""
        if instruction.reduced_dims:
            start = accumulator(instruction)
            made = {m: unrolled[u] for m, u in start.mapping if u in unrolled}
            register = self.register(start.initialiser, made)
            if start.initialiser in self.partials:
                number = self.partials[start.initialiser].number(unrolled)
                register = self.partial_registers(start.initialiser, made)[number]
            lanes = self.lanes(instruction)
            if register.type.lanes != lanes:
                raise LoweringError(
                    f"{instruction!r} has {lanes} lanes, its initialiser {register.type.lanes}"
                )
            return register
        for dim in instruction.dims:
            if self.implementation.kind(dim) == "UNROLL" and dim not in unrolled:
                raise LoweringError(f"the value of {instruction!r} is used without an index for {dim!r}")
        is_partial = instruction in self.partials and self.partials[instruction].lanes > 1
        lanes = self.partials[instruction].lanes if is_partial else self.lanes(instruction)
        return self.named(instruction, unrolled, lanes)

    def partial_registers(
        self, initialiser: Instruction, unrolled: Mapping[Dimension, int]
    ) -> tuple[Register, ...]:
        """Of all copies along reduced dimensions; the first is the initialiser's own."""
        partials, first = self.partials[initialiser], self.register(initialiser, unrolled)
        free = {u: unrolled[m] for m, u in accumulator(partials.reduction).mapping if m in unrolled}
        others = (
            self.named(partials.reduction, {**free, **copy}, first.type.lanes) for copy in partials.copies[1:]
        )
        return (first, *others)

    def named(self, instruction: Instruction, unrolled: Mapping[Dimension, int], lanes: int) -> Register:
        instance = instruction, tuple(unrolled[d] for d in instruction.dims if d in unrolled)
        if instance not in self.registers:
            self.registers[instance] = self.name("_".join([instruction.name, *map(str, instance[1])]))
        return Register(self.registers[instance], Type(instruction.dtype, lanes))

    def operand(self, user: Instruction, operand: Operand, place: Place) -> Expression:
        """The operand of one instance of `user`, with as many lanes as it has."""
        lanes = self.lanes(user)
        scalar = Type(user.dtype)
        match operand:
            case backbone.Number(number):
                return _spread(Number(number, scalar), lanes)
            case backbone.ParameterValue(parameter):
                value = ParameterValue(parameter.name, Type(parameter.dtype))
                return _spread(_converted(value, user.dtype), lanes)
            case Accumulator():
                unrolled = {d: i for d, i in place.items() if isinstance(i, int)}
                return self.register(user, unrolled)
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
        unrolled = {m: i for m, u in mapping if isinstance(i := place.get(u), int)}
        if maker.reduced_dims:
            # Every iteration of the reduced dimensions ends in the same register.
            unrolled |= dict.fromkeys(maker.reduced_dims, 0)
        value, partials = self.result(maker, unrolled)
        lanes, vector = self.lanes(user), self.vector_dim(maker)
        if partials is not None and partials.lanes > 1:
            return _spread(LaneReduction(value, partials.combine), lanes)
        if type_of(value).lanes == 1:
            return _spread(value, lanes)
        if (vector, self.vector_dim(user)) not in mapping or type_of(value).lanes != lanes:
            raise LoweringError(f"the lanes of {maker!r} are not those of {user!r}, which uses its value")
        return value

    def result(
        self, maker: Instruction, unrolled: Mapping[Dimension, int]
    ) -> tuple[Expression, Partials | None]:
        """What one instance made, lanes of partial results still apart."""
        start = accumulator(maker) if maker.reduced_dims else None
        initialiser = maker if start is None else start.initialiser
        partials = self.partials.get(initialiser)
        if partials is None:
            return self.register(maker, unrolled), None
        made = unrolled if start is None else {m: unrolled[u] for m, u in start.mapping if u in unrolled}
        registers = self.partial_registers(initialiser, made)
        return combination(registers, partials.combine), partials


def _store(
    tensor: Tensor,
    index: Index,
    value: Expression,
    part: Lanes | None,
    *,
    is_streamed: bool = False,
) -> Statement:
    """Of a vector of which only some lanes are used, those."""
    value = _converted(value, tensor.dtype)
    if part is not None:
        return PartialStore(tensor.name, index, value, part.count)
    return Store(tensor.name, index, value, is_streamed)


def _only(nodes: tuple[Node, ...]) -> Fused:
    """The one loop that a parallel loop consists of."""
    match nodes:
        case (Fused() as node,):
            return node
    raise LoweringError(f"parallel dimensions lie in a parallel one beside something else: {nodes!r}")


def _enter(place: Place, node: Fused, at: str | int | Lanes) -> Place:
    return {**place, **dict.fromkeys(node.dims, at)}


def _spread(value: Expression, lanes: int) -> Expression:
    return value if lanes == 1 else Broadcast(value, lanes)


def _converted(value: Expression, dtype: DType) -> Expression:
    """In another type; what is between f64 and 16 bits goes through f32."""
    found = type_of(value).dtype
    if found is dtype:
        return value
    if (found, dtype) not in CONVERSIONS:
        value = Convert(value, DType.F32)
    return Convert(value, dtype)


def _access(instruction: Instruction) -> backbone.Access:
    if instruction.access is None:
        raise LoweringError(f"{instruction!r} accesses no tensor")
    return instruction.access

"""From a computation to the backbone: one instruction for each operation, each in a loop nest of its own.

In: a checked `Computation`, tensors and parameters, the possible tile sizes of every index. Out: a `Kernel`.
An instruction is nested in the indices that its operands depend on; `sum[p](a * b)` becomes a MOVE of zero
over the free indices and an FMA over free and reduced ones; `a * b + c` becomes an FMA. Other
reductions start from the number that is neutral to them. Indices of extent 1
are left out.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import assert_never

from spacedsl.kernels.computation import Computation, Padding
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import (
    Affine,
    Assignment,
    Binary,
    Call,
    Constant,
    Expression,
    Name,
    Negation,
    Read,
    Reduction,
)
from spacedsl.kernels.linalg.backbone import (
    Access,
    Accumulator,
    Dimension,
    Index,
    Instruction,
    Kernel,
    Level,
    LogicalDim,
    Number,
    Operand,
    ParameterValue,
    UnevenSize,
    Value,
)
from spacedsl.kernels.linalg.fragments import add_fragments
from spacedsl.kernels.linalg.locality import relate_nests
from spacedsl.kernels.linalg.operations import Combine, Op, neutral
from spacedsl.kernels.linalg.partial_sums import relate_sums
from spacedsl.kernels.linalg.temporaries import add_reloads
from spacedsl.kernels.linalg.tiling import Tiling, long_products
from spacedsl.kernels.tensors import Parameter, Scratch, Tensor
from spacedsl.kernels.unique_names import UniqueNames

Made = Number | ParameterValue | Instruction
"""What an expression became."""

Loads = dict[tuple[str, tuple[Affine, ...]], Instruction]
"""The loads of one scope. Reads in different sums or lines are separate loads: their loops may differ."""

_OPS = {"+": Op.ADD, "-": Op.SUB, "*": Op.MUL, "/": Op.DIV}
_CALL: Mapping[str, Callable[..., float]] = {
    "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "tanh": math.tanh,
    "abs": abs, "max": max, "min": min,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "gelu": lambda x: x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}  # fmt: skip
_REDUCE = {"sum": Op.ADD, "prod": Op.MUL, "max": Op.MAX, "min": Op.MIN}
_FOLD = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def build(
    name: str,
    computation: Computation,
    tensors: Sequence[Tensor],
    parameters: Sequence[Parameter],
    tilings: Mapping[str, Tiling],
    multiplied: Collection[DType] = (),
) -> Kernel:
    """The backbone; `tilings` has those on offer for each index whose extent is not 1.

    `multiplied`: the types of operands that tensor cores may multiply.
    """
    scratch = (
        *(Scratch(padding.padded, is_zeroed=True) for padding in computation.paddings),
        *(Scratch(tensor, is_zeroed=False) for tensor in computation.intermediates),
    )
    builder = _Builder(computation, (*tensors, *(s.tensor for s in scratch)), parameters, tilings)
    for padding in computation.paddings:
        builder.padding(padding)
    for line in computation.assignments:
        builder.assignment(line)
    instructions = tuple(builder.instructions)
    dimensions = tuple(d for i in instructions for d in i.dims)
    _number(instructions, dimensions)
    levels = tuple(level for levels in builder.levels.values() for level in levels)
    indices = tuple(dict.fromkeys(level.index for level in levels))
    _relate(instructions, dimensions, indices, builder.mapped)
    relate_sums(instructions, long_products(computation))
    relate_nests(instructions)
    add_reloads(instructions, builder.names.fresh)
    add_fragments(instructions, multiplied)
    uneven = sorted({s for t in tilings.values() for level in t.levels for s in level if s & (s - 1)})
    return Kernel(
        name=name,
        tensors=tuple(tensors),
        parameters=tuple(parameters),
        instructions=instructions,
        dimensions=dimensions,
        logical_dims=tuple(logical for i in instructions for logical in i.logical_dims),
        uneven_sizes=tuple(UnevenSize(f"uneven_{s}", s) for s in uneven),
        indices=indices,
        levels=levels,
        scratch=scratch,
    )


class _Builder:
    """Grows the list of instructions, operands first."""

    def __init__(
        self,
        computation: Computation,
        tensors: Sequence[Tensor],
        parameters: Sequence[Parameter],
        tilings: Mapping[str, Tiling],
    ) -> None:
        self.extents = computation.extents
        self.computed_in = computation.computed_in
        self.tensors = {t.name: t for t in tensors}
        self.parameters = {p.name: p for p in parameters}
        self.tilings = tilings
        self.levels = {name: _levels(name, tilings[name]) for name in computation.extents if name in tilings}
        self.instructions: list[Instruction] = []
        self.names = UniqueNames()
        self.stores: dict[str, Instruction] = {}
        self.targets: dict[str, Read] = {}
        self.padded: dict[str, Tensor] = {}
        self.mapped: list[tuple[Dimension, Dimension]] = []

    def assignment(self, line: Assignment) -> None:
        tensor = self.tensors[line.target.tensor]
        dtype = self.computed_in[tensor.name]
        value = self.value(line.value, dtype, {})
        store = self.instruction(Op.STORE, dtype, line.target.indices, name=f"store_{tensor.name}")
        self.place(store, tensor, line.target.positions)
        store.operands = (self.operand(value, store),)
        self.stores[tensor.name], self.targets[tensor.name] = store, line.target

    def padding(self, padding: Padding) -> None:
        """The input becomes a copy with zeros around it, which nobody writes."""
        tensor, padded = padding.tensor, padding.padded
        own = tuple(Affine(0, ((index, 1),)) for index in padding.indices)
        load = self.instruction(Op.LOAD, tensor.dtype, padding.indices, name=f"load_{tensor.name}")
        self.place(load, tensor, own)
        store = self.instruction(Op.STORE, padded.dtype, padding.indices, name=f"store_{padded.name}")
        self.place(store, padded, own, tensor.pad)
        store.operands = (self.operand(load, store),)
        self.stores[padded.name] = store
        self.padded[tensor.name] = padded

    def value(self, node: Expression, dtype: DType, loads: Loads) -> Made:
        match node:
            case Constant(value=number):
                return Number(float(number))
            case Name(name=name):
                return ParameterValue(self.parameters[name])
            case Read():
                return self.load(node, dtype, loads)
            case Negation(operand=operand):
                made = self.value(operand, dtype, loads)
                if not isinstance(made, Number):
                    return self.compute(Op.NEG, dtype, made)
                is_integer = dtype.is_integer
                return self.arithmetic("-", dtype, Number(0.0), made) if is_integer else Number(-made.value)
            case Binary():
                return self.binary(node, dtype, loads)
            case Reduction():
                return self.reduction(node, dtype)
            case Call():
                return self.call(node, dtype, loads)
            case _:
                assert_never(node)

    def call(self, node: Call, dtype: DType, loads: Loads) -> Made:
        """A function's instruction, or its value where the argument is a number and the value is finite."""
        name = node.function.name
        made = [self.value(a, dtype, loads) for a in node.arguments]
        if name == "relu":
            # In this order a NaN stays NaN.
            return self.compute(Op.MAX, dtype, Number(0.0), *made)
        if all(isinstance(m, Number) for m in made):
            with contextlib.suppress(ValueError, OverflowError):
                found = _CALL[name](*(m.value for m in made if isinstance(m, Number)))
                return Number(float(dtype.wrapped(int(found))) if dtype.is_integer else found)
        return self.compute(Op(name), dtype, *made)

    def load(self, read: Read, dtype: DType, loads: Loads) -> Instruction:
        known = loads.get((read.tensor, read.positions))
        if known is not None:
            return known
        tensor = self.tensors[read.tensor]
        pad: tuple[int, ...] = ()
        if tensor.name in self.padded and not read.is_bare:
            tensor, pad = self.padded[tensor.name], tensor.pad
        load = self.instruction(Op.LOAD, dtype, read.indices, name=f"load_{tensor.name}")
        self.place(load, tensor, read.positions, pad)
        if tensor.name in self.stores:
            self.follow(load, read, self.stores[tensor.name])
        loads[read.tensor, read.positions] = load
        return load

    def follow(self, load: Instruction, read: Read, store: Instruction) -> None:
        """Relates a load to the store that wrote what it reads, in these lines or for a padding."""
        store.readers += (load,)
        target = self.targets.get(read.tensor)
        if target is None:
            return
        shared = {
            wrote.terms[0][0]
            for wrote, reads in zip(target.positions, read.positions, strict=True)
            if wrote == reads and len(wrote.terms) == 1
        }
        others = {
            index
            for wrote, reads in zip(target.positions, read.positions, strict=True)
            if wrote != reads
            for index, _ in (*wrote.terms, *reads.terms)
        }
        load.followed_dims = tuple(d for d in store.dims if d.index in shared - others)

    def binary(self, node: Binary, dtype: DType, loads: Loads) -> Made:
        if node.operator == "+":
            # A product is fused with the addition: that of the right operand where both are products.
            if isinstance(node.right, Binary) and node.right.operator == "*":
                addend = self.value(node.left, dtype, loads)
                return self.fma(*self.operands_of(node.right, dtype, loads), addend, dtype)
            if isinstance(node.left, Binary) and node.left.operator == "*":
                pair = self.operands_of(node.left, dtype, loads)
                return self.fma(*pair, self.value(node.right, dtype, loads), dtype)
        return self.arithmetic(node.operator, dtype, *self.operands_of(node, dtype, loads))

    def operands_of(self, node: Binary, dtype: DType, loads: Loads) -> tuple[Made, Made]:
        left = self.value(node.left, dtype, loads)
        return left, self.value(node.right, dtype, loads)

    def fma(self, a: Made, b: Made, addend: Made, dtype: DType) -> Made:
        if isinstance(a, Number) and isinstance(b, Number):
            return self.arithmetic("+", dtype, addend, self.arithmetic("*", dtype, a, b))
        return self.compute(Op.FMA, dtype, a, b, addend)

    def arithmetic(self, symbol: str, dtype: DType, left: Made, right: Made) -> Made:
        """The operation, or its result where both operands are numbers and it is finite."""
        if isinstance(left, Number) and isinstance(right, Number) and (symbol != "/" or right.value):
            if dtype.is_integer:
                whole = _FOLD[symbol](int(left.value), int(right.value))
                return Number(float(dtype.wrapped(whole)))
            result = _FOLD[symbol](left.value, right.value)
            if math.isfinite(result):
                return Number(result)
        return self.compute(_OPS[symbol], dtype, left, right)

    def reduction(self, node: Reduction, dtype: DType) -> Made:
        loads: Loads = {}
        bound = [i for i in node.indices if self.extents[i] != 1]
        if not bound:
            return self.value(node.body, dtype, loads)
        body = node.body
        terms: tuple[Made, ...]
        if node.operator == "sum" and isinstance(body, Binary) and body.operator == "*":
            op = Op.FMA
            terms = self.operands_of(body, dtype, loads)
        else:
            op = _REDUCE[node.operator]
            terms = (self.value(body, dtype, loads),)
        free = [i for t in terms for i in self.indices(t) if i not in bound]
        initialiser = self.instruction(Op.MOVE, dtype, free, name="init")
        initialiser.operands = (Number(neutral(Combine(node.operator), dtype)),)
        reduction = self.instruction(op, dtype, (*free, *bound), reduced=bound)
        mapping = self.mapping(initialiser, reduction)
        accumulator = Accumulator(initialiser, mapping, reduction.reduced_dims)
        reduction.initialisers = (initialiser,)
        initialiser.consumers += (reduction,)
        reduction.operands = (*(self.operand(t, reduction) for t in terms), accumulator)
        return reduction

    def compute(self, op: Op, dtype: DType, *operands: Made) -> Instruction:
        indices = [i for o in operands for i in self.indices(o)]
        instruction = self.instruction(op, dtype, indices)
        instruction.operands = tuple(self.operand(o, instruction) for o in operands)
        return instruction

    def indices(self, made: Made) -> tuple[str, ...]:
        """What a value depends on: the indices of its instruction that are not reduced."""
        if not isinstance(made, Instruction):
            return ()
        return tuple(d.index for d in made.logical_dims if not d.dims[0].is_reduction)

    def operand(self, made: Made, user: Instruction) -> Operand:
        if not isinstance(made, Instruction):
            return made
        if user not in made.consumers:
            made.consumers += (user,)
        return Value(made, self.mapping(made, user))

    def mapping(self, made: Instruction, user: Instruction) -> tuple[tuple[Dimension, Dimension], ...]:
        """Pairs of one level of one index: iteration i of the first makes what i of the second uses."""
        own = {d.group: d for d in user.dims}
        pairs = tuple((d, own[d.group]) for d in made.dims if not d.is_reduction)
        self.mapped.extend(pairs)
        return pairs

    def instruction(
        self,
        op: Op,
        dtype: DType,
        indices: Iterable[str],
        *,
        reduced: Iterable[str] = (),
        name: str | None = None,
    ) -> Instruction:
        """A new instruction nested in `indices`, in the order in which the file first names them."""
        instruction = Instruction(len(self.instructions), self.names.fresh(name or op.value), op, dtype)
        wanted = {i for i in indices if self.extents[i] != 1}
        reduced = frozenset(reduced)
        instruction.logical_dims = tuple(
            self.logical_dim(instruction, index, index in reduced)
            for index in self.extents
            if index in wanted
        )
        instruction.dims = tuple(d for logical in instruction.logical_dims for d in logical.dims)
        if reduced:
            instruction.reduced_dims = tuple(d for d in instruction.dims if d.is_reduction)
            instruction.free_dims = tuple(d for d in instruction.dims if not d.is_reduction)
        self.instructions.append(instruction)
        return instruction

    def logical_dim(self, instruction: Instruction, index: str, is_reduction: bool) -> LogicalDim:
        tiling = self.tilings[index]
        levels = tiling.levels
        has_access = instruction.op in (Op.LOAD, Op.STORE)
        dims = tuple(
            Dimension(
                id=0,
                name=f"{instruction.name}.{index}{level}",
                index=index,
                level=level,
                group=self.levels[index][level],
                possible_sizes=sizes,
                is_reduction=is_reduction,
                is_vectorizable=level == len(levels) - 1 and not has_access,
                item_bytes=instruction.dtype.nbytes,
                instruction=instruction,
            )
            for level, sizes in enumerate(levels)
        )
        for dim in dims:
            dim.inner_levels = dims[dim.level + 1 :]
        return LogicalDim(f"{instruction.name}.{index}", index, self.extents[index], dims, tiling.is_ragged)

    def place(
        self, instruction: Instruction, tensor: Tensor, positions: Sequence[Affine], pad: Sequence[int] = ()
    ) -> None:
        """Gives a load or store its address; an index in several subscripts moves along all of them."""
        steps: dict[str, int] = {}
        offset = sum(p * s for p, s in zip(pad, tensor.strides, strict=True)) if pad else 0
        for position, stride in zip(positions, tensor.strides, strict=True):
            offset += position.constant * stride
            for index, number in position.terms:
                steps[index] = steps.get(index, 0) + number * stride
        strides = tuple((logical, steps[logical.index]) for logical in instruction.logical_dims)
        instruction.access = Access(tensor, offset, strides)
        for logical, stride in strides:
            logical.dims[-1].is_vectorizable = stride == 1


def _levels(name: str, tiling: Tiling) -> tuple[Level, ...]:
    index = Index(f"*.{name}")
    return tuple(Level(f"{index}.{number}", index) for number, _ in enumerate(tiling.levels))


def _number(instructions: Sequence[Instruction], dimensions: Sequence[Dimension]) -> None:
    statements: tuple[Instruction | Dimension, ...] = (*instructions, *dimensions)
    for position, statement in enumerate(statements):
        statement.id = position


def _relate(
    instructions: Sequence[Instruction],
    dimensions: Sequence[Dimension],
    indices: Sequence[Index],
    mapped: Sequence[tuple[Dimension, Dimension]],
) -> None:
    """Fills in the relations between dimensions, each in order of position."""
    for dim in dimensions:
        dim.group.dims += (dim,)
        dim.group.index.dims += (dim,)
    for instruction in instructions:
        own = {dim.group.index for dim in instruction.dims}
        instruction.foreign_indices = tuple(i for i in indices if i not in own)
    for made, used in dict.fromkeys(mapped):
        made.mapped_to += (used,)

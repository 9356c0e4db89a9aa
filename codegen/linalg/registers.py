"""Registers: where the value of each instance of an instruction is kept.

In: a kernel's backbone and the decisions about it. Out: a `Register` for each instance, named by its
instruction and, behind `_at`, its unrolled indices: instructions have numbers as well; of a reduction that of
its initialiser, which it updates in place, and further ones where it has partial results (`partials.py`).
What is assigned to them is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.linalg.partials import Partials, accumulator, check_accumulator, combined_by
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Register, Type
from spacedsl.codegen.tree.program import Partial
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.backbone import Axis, Dimension, Instruction

Instance = tuple[tuple[Dimension, int], ...]
"""One instance of an instruction: its unrolled indices."""


@dataclass(slots=True)
class Registers:
    """The registers that have been asked for."""

    reductions: tuple[Instruction, ...]
    """Of the kernel."""
    implementation: Implementation
    fresh: Callable[[str], str]
    """Makes a name unique."""
    partials: dict[Instruction, Partials] = field(init=False)
    """By the initialisers of the reductions that have some."""
    _names: dict[tuple[Instruction, Instance], str] = field(default_factory=dict, init=False)
    """The names of the instances of instructions."""
    _vectors: dict[Instruction, Dimension | None] = field(default_factory=dict, init=False)
    """What has been found out of instructions: lowering asks again for every copy of an unrolled body."""
    _dtypes: dict[Instruction, DType] = field(default_factory=dict, init=False)
    _copied: dict[Instruction, tuple[Dimension, ...]] = field(default_factory=dict, init=False)
    _partials: dict[tuple[Instruction, Instance], tuple[Register, ...]] = field(
        default_factory=dict, init=False
    )

    def __post_init__(self) -> None:
        self.partials = {}
        for reduction in self.reductions:
            start = accumulator(reduction)
            check_accumulator(reduction, self.implementation)
            found = Partials.of(reduction, self.implementation)
            if found is not None:
                self.partials[start.initialiser] = found

    def vector_dim(self, instruction: Instruction) -> Dimension | None:
        """The dimension whose iterations are lanes; raises `LoweringError` where there are two."""
        if instruction not in self._vectors:
            vectors = [d for d in instruction.dims if self.implementation.kind(d) == "VECTOR"]
            if len(vectors) > 1:
                raise LoweringError(f"{instruction!r} has more than one vector dimension: {vectors!r}")
            self._vectors[instruction] = vectors[0] if vectors else None
        return self._vectors[instruction]

    def lanes(self, instruction: Instruction) -> int:
        """1 for a scalar."""
        vector = self.vector_dim(instruction)
        return 1 if vector is None else self.implementation.size(vector)

    def dtype(self, instruction: Instruction) -> DType:
        """Of its value. Nothing computes with what is copied as it is; tensor cores take bits."""
        if instruction not in self._dtypes:
            self._dtypes[instruction] = self._decided_dtype(instruction)
        return self._dtypes[instruction]

    def _decided_dtype(self, instruction: Instruction) -> DType:
        axes = {self.implementation.axis(dim) for dim in instruction.dims}
        if Axis.TERMS in axes and not instruction.reduced_dims:
            return DType.I32
        return instruction.access_dtype if self.implementation.keeps_type(instruction) else instruction.dtype

    def _copied_dims(self, instruction: Instruction) -> tuple[Dimension, ...]:
        """Those whose iterations have a register each."""
        if instruction not in self._copied:
            kind, axis = self.implementation.kind, self.implementation.axis
            found = (d for d in instruction.dims if kind(d) == "UNROLL" or axis(d) is Axis.COLUMNS)
            self._copied[instruction] = tuple(found)
        return self._copied[instruction]

    def of(self, instruction: Instruction, unrolled: Mapping[Dimension, int]) -> Register:
        """The register of one instance; of a reduction, that of the initialiser's instance.

        `unrolled`: the indices of its UNROLL dimensions. Raises `LoweringError` where one is missing.
        """
        if instruction.reduced_dims:
            start = accumulator(instruction)
            made = {m: unrolled[u] for m, u in start.mapping if u in unrolled}
            register = self.of(start.initialiser, made)
            if start.initialiser in self.partials:
                number = self.partials[start.initialiser].number(unrolled)
                register = self.partials_of(start.initialiser, made)[number]
            lanes = self.lanes(instruction)
            if register.type.lanes != lanes:
                raise LoweringError(
                    f"{instruction!r} has {lanes} lanes, its initialiser {register.type.lanes}"
                )
            return register
        for dim in self._copied_dims(instruction):
            if dim not in unrolled:
                raise LoweringError(f"the value of {instruction!r} is used without an index for {dim!r}")
        is_partial = instruction in self.partials and self.partials[instruction].lanes > 1
        lanes = self.partials[instruction].lanes if is_partial else self.lanes(instruction)
        return self._named(instruction, unrolled, lanes)

    def partials_of(
        self, initialiser: Instruction, unrolled: Mapping[Dimension, int]
    ) -> tuple[Register, ...]:
        """Of all copies along reduced dimensions; the first is the initialiser's own."""
        instance = initialiser, tuple(unrolled.items())
        if instance not in self._partials:
            partials, first = self.partials[initialiser], self.of(initialiser, unrolled)
            free = {u: unrolled[m] for m, u in accumulator(partials.reduction).mapping if m in unrolled}
            reduction, lanes = partials.reduction, first.type.lanes
            others = (self._named(reduction, {**free, **copy}, lanes) for copy in partials.copies[1:])
            self._partials[instance] = first, *others
        return self._partials[instance]

    def groups(self, initialiser: Instruction) -> tuple[tuple[Register, ...], ...]:
        """Of each instance that has been asked for, what a reduction accumulates in: its own first."""
        instances = [dict(instance) for maker, instance in self._names if maker is initialiser]
        if initialiser in self.partials:
            return tuple(self.partials_of(initialiser, made) for made in instances)
        return tuple((self.of(initialiser, made),) for made in instances)

    def _named(self, instruction: Instruction, unrolled: Mapping[Dimension, int], lanes: int) -> Register:
        instance = tuple((d, unrolled[d]) for d in instruction.dims if d in unrolled)
        if (instruction, instance) not in self._names:
            copy = "".join(f"_{number}" for _, number in instance)
            name = f"{instruction.name}_at{copy}" if copy else instruction.name
            self._names[instruction, instance] = self.fresh(name)
        return Register(self._names[instruction, instance], Type(self.dtype(instruction), lanes))

    def combined(self, dims: Collection[Dimension]) -> tuple[Partial, ...]:
        """The accumulators into which all iterations of a parallel dimension combine their values."""
        found: list[Partial] = []
        for reduction in self.reductions:
            if all(self.implementation.is_added(dim) for dim in set(dims) & set(reduction.reduced_dims)):
                continue
            combine, start = combined_by(reduction), accumulator(reduction).initialiser
            kind = Type(start.dtype, self.lanes(reduction))
            names = [name for (maker, _), name in self._names.items() if maker in (start, reduction)]
            found += [Partial(Register(name, kind), combine) for name in names]
        return tuple(found)

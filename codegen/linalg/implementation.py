"""The decisions about a kernel that lowering reads, however they are held.

In: a complete candidate of a space. Out: an `Implementation` of the kernel, which says of each statement what
has been decided. A space that decides too little for that, or what there is no code for, is refused before
there is a candidate of it. What program the decisions make is for `nest.py` and those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.kernel_file import Kind
from spacedsl.kernels.linalg.backbone import Axis, Dimension, Instruction
from spacedsl.kernels.linalg.layout import PADDINGS
from spacedsl.kernels.linalg.operations import Op
from spacedsl.language.space import EnumChoice, IntegerChoice, Space

Statement = Instruction | Dimension


class Implementation(Protocol):
    """The decisions that lowering reads, however they are held."""

    def order(self, lhs: Statement, rhs: Statement) -> str:
        """BEFORE, AFTER, INNER, OUTER or MERGED: where `lhs` lies with respect to `rhs`."""
        ...

    def kind(self, dim: Dimension) -> str:
        """LOOP, UNROLL, VECTOR or PARALLEL."""
        ...

    def size(self, dim: Dimension) -> int: ...

    def is_guarded(self, dim: Dimension) -> bool:
        """Whether an outermost level tests in its loop for a last tile that is not whole."""
        ...

    def is_padded(self, dim: Dimension) -> bool:
        """Whether the last tile of an outermost level is whole, and goes on beyond the end of its index."""
        ...

    def is_added(self, dim: Dimension) -> bool:
        """Whether each iteration adds what it has of a sum to memory."""
        ...

    def is_streamed(self, access: Instruction) -> bool:
        """Whether what is loaded or stored goes around the caches, or leaves them before all else."""
        ...

    def is_split(self, reduction: Instruction) -> bool:
        """Whether its copies along reduced dimensions have accumulators of their own."""
        ...

    def is_begun(self, reduction: Instruction) -> bool:
        """Whether the first iteration of its loops is by itself, and starts from its own term."""
        ...

    def is_stored(self, instruction: Instruction) -> bool:
        """Whether the value goes through memory: its reloads are part of the program then."""
        ...

    def prefetch(self, load: Instruction) -> str:
        """NONE, AHEAD or NEXT: what is asked for before the load reads it."""
        ...

    def prefetch_distance(self, load: Instruction) -> int:
        """Of what is asked for AHEAD: how many bytes before it is read."""
        ...

    def buffers(self, maker: Instruction) -> int:
        """Of how many tiles of a stored value there is room for. More than one: they are copied ahead."""
        ...

    def is_spread(self, maker: Instruction) -> bool:
        """Whether what copies of a reload load lies apart, further than all that one of them loads."""
        ...

    def padding(self, maker: Instruction) -> int:
        """Bytes between the rows of a stored value."""
        ...

    def axis(self, dim: Dimension) -> Axis | None:
        """Which side of a fragment it is; None where it is none."""
        ...

    def keeps_type(self, maker: Instruction) -> bool:
        """Whether a stored value is in memory as it was in the tensor that it is loaded from."""
        ...


class GridImplementation(Implementation, Protocol):
    """The decisions about an implementation for a GPU.

    Kinds are LOOP, UNROLL, VECTOR, FRAGMENT, THREAD and BLOCK.
    """

    def is_shared(self, instruction: Instruction) -> bool:
        """Whether the value goes through memory that the threads of a block share."""
        ...

    def thread_stride(self, dim: Dimension) -> int:
        """Of a THREAD dimension: thread t of a block runs iteration t / stride % size."""
        ...


USUAL_DISTANCE = 512
"""Of prefetches, in bytes, where a space does not decide it."""


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """What lowering for a target reads of a space."""

    values: Mapping[str, tuple[str, ...]]
    """Of enums, those for which there is code. A space may do without some of them."""
    needed: Mapping[str, int]
    """Choices without which there is no code, and how many objects each is about."""
    optional: Mapping[str, int]
    """What a space need not decide."""


_SAME: Mapping[str, tuple[str, ...]] = {
    "order": ("BEFORE", "AFTER", "INNER", "OUTER", "MERGED"),
    "remainder": ("NONE", "PEELED", "GUARDED", "PADDED"),
    "accumulation": ("CHAINED", "SPLIT"),
}

_FOR_CPU = _Vocabulary(
    values={
        **_SAME,
        "dim_kind": ("LOOP", "UNROLL", "VECTOR", "PARALLEL"),
        "storage": ("REGISTERS", "TEMPORARY"),
        "caching": ("CACHED", "STREAMED"),
        "prefetch": ("NONE", "AHEAD", "NEXT"),
        "copying": ("BEFORE", "UNDER"),
        "summing": ("KEPT", "ADDED"),
        "initialisation": ("BEFORE", "MERGED"),
    },
    needed={"size": 1, "dim_kind": 1, "order": 2},
    optional={
        "summing": 1,
        "initialisation": 1,
        "storage": 1,
        "remainder": 1,
        "accumulation": 1,
        "caching": 1,
        "prefetch": 1,
        "prefetch_distance": 1,
        "copying": 1,
    },
)

_FOR_GRIDS = _Vocabulary(
    values={
        **_SAME,
        "dim_kind": ("LOOP", "UNROLL", "VECTOR", "FRAGMENT", "THREAD", "BLOCK"),
        "storage": ("REGISTERS", "SHARED", "GLOBAL"),
        "caching": ("CACHED", "STREAMED"),
        "layout": ("NESTED", "SPREAD"),
        "padding": tuple(PADDINGS),
    },
    needed={"size": 1, "dim_kind": 1, "order": 2, "thread_stride": 1},
    optional={
        "storage": 1,
        "remainder": 1,
        "accumulation": 1,
        "caching": 1,
        "layout": 1,
        "padding": 1,
        "buffers": 1,
    },
)


_VOCABULARIES: Mapping[Kind, _Vocabulary] = {"cpu": _FOR_CPU, "gpu": _FOR_GRIDS}


def check_decisions(space: Space, source: Source, kind: Kind = "cpu") -> None:
    """Raises `DiagnosticError` unless a space decides what lowering reads, and nothing that it does not know.

    `source` is the text of the space: where something is missing. `kind`: of the machines that code is for.
    """
    read = _VOCABULARIES[kind]
    report: list[Diagnostic] = []
    for name, arity in {**read.needed, **read.optional}.items():
        choice = space.choices.get(name)
        if choice is None and name in read.optional:
            continue
        wanted_class = EnumChoice if name in read.values else IntegerChoice
        if not isinstance(choice, wanted_class) or len(choice.params) != arity:
            span = choice.span if choice is not None else Span(source, 0, min(1, len(source.text)))
            wanted = f"{'an enum' if wanted_class is EnumChoice else 'an integer'} choice `{name}` of {arity}"
            message = f"no code can be made: {wanted} object{'s' * (arity > 1)} is needed"
            report.append(Diagnostic("SP420", message, span))
        elif isinstance(choice, EnumChoice):
            for value in choice.values:
                if value not in read.values[name]:
                    message = f"there is no code for the value `{value}` of `{name}`"
                    hint = f"values with code are {', '.join(read.values[name])}"
                    report.append(Diagnostic("SP420", message, choice.span, hint))
    if report:
        raise DiagnosticError(report)


def _orders(candidate: Candidate) -> Callable[[Statement, Statement], str]:
    """Where one statement lies with respect to another, straight from the words of the vector: lowering asks
    for all pairs.
    """
    instance, vector = candidate.instance, candidate.vector
    cells, ids = instance.layout.cells["order"], instance.objects.ids
    choice = instance.space.choices["order"]
    assert isinstance(choice, EnumChoice)  # check_decisions has seen it
    names = {1 << bit: name for bit, name in enumerate(choice.values)}

    def order(lhs: Statement, rhs: Statement) -> str:
        decided = names.get(vector[cells[ids[id(lhs)], ids[id(rhs)]]])
        return str(candidate.value("order", lhs, rhs)) if decided is None else decided

    return order


@dataclass(frozen=True, slots=True)
class CandidateImplementation:
    """The decisions of a complete candidate of `linalg.space` or `linalg_cuda.space`.

    Lowering asks again for every copy of an unrolled body, so that what has been read is kept.
    """

    candidate: Candidate
    _order: Callable[[Statement, Statement], str] = field(init=False, repr=False)
    _kinds: dict[Dimension, str] = field(default_factory=dict, init=False, repr=False)
    _sizes: dict[Dimension, int] = field(default_factory=dict, init=False, repr=False)
    _others: dict[tuple[str, Statement], str] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_order", _orders(self.candidate))

    def order(self, lhs: Statement, rhs: Statement) -> str:
        return self._order(lhs, rhs)

    def kind(self, dim: Dimension) -> str:
        found = self._kinds.get(dim)
        if found is None:
            found = self._kinds[dim] = str(self.candidate.value("dim_kind", self._dim(dim)))
        return found

    def is_streamed(self, access: Instruction) -> bool:
        return self._decided("caching", access, "CACHED") == "STREAMED"

    def is_split(self, reduction: Instruction) -> bool:
        return self._decided("accumulation", reduction, "CHAINED") == "SPLIT"

    def is_begun(self, reduction: Instruction) -> bool:
        return self._decided("initialisation", reduction, "BEFORE") == "MERGED"

    def is_guarded(self, dim: Dimension) -> bool:
        return self._decided("remainder", dim, "NONE") == "GUARDED"

    def is_padded(self, dim: Dimension) -> bool:
        return self._decided("remainder", dim, "NONE") == "PADDED"

    def is_added(self, dim: Dimension) -> bool:
        """By blocks, or by the iterations of a loop of a CPU."""
        if not self._dim(dim).is_added_up:
            return False
        return self.kind(dim) == "BLOCK" or self._decided("summing", dim, "KEPT") == "ADDED"

    def is_stored(self, instruction: Instruction) -> bool:
        return self._decided("storage", instruction, "REGISTERS") != "REGISTERS"

    def is_shared(self, instruction: Instruction) -> bool:
        return self._decided("storage", instruction, "REGISTERS") == "SHARED"

    def thread_stride(self, dim: Dimension) -> int:
        return int(self.candidate.value("thread_stride", dim))

    def prefetch(self, load: Instruction) -> str:
        return self._decided("prefetch", load, "NONE")

    def prefetch_distance(self, load: Instruction) -> int:
        return int(self._decided("prefetch_distance", load, str(USUAL_DISTANCE)))

    def buffers(self, maker: Instruction) -> int:
        reloads = maker.reloads
        if any(self._decided("copying", reload, "BEFORE") == "UNDER" for reload in reloads):
            return 2
        return max(int(self._decided("buffers", reload, "1")) for reload in reloads)

    def is_spread(self, maker: Instruction) -> bool:
        return self._decided("layout", maker, "NESTED") == "SPREAD"

    def padding(self, maker: Instruction) -> int:
        return PADDINGS[self._decided("padding", maker, "NONE")]

    def axis(self, dim: Dimension) -> Axis | None:
        if self.kind(dim) != "FRAGMENT":
            return None
        fragment = self._dim(dim).fragment
        return None if fragment is None else fragment.axis

    def keeps_type(self, maker: Instruction) -> bool:
        """What a CPU copies is computed with often; what a GPU copies is to take little room."""
        stored = self._decided("storage", maker, "REGISTERS")
        return maker.op is Op.LOAD and stored in ("SHARED", "GLOBAL")

    def size(self, dim: Dimension) -> int:
        if dim not in self._sizes:
            self._sizes[dim] = int(self.candidate.value("size", dim))
        return self._sizes[dim]

    def _dim(self, dim: Dimension) -> Dimension:
        """The dimension of the candidate's kernel that a dimension stands for."""
        return dim

    def _decided(self, choice: str, about: Statement, otherwise: str) -> str:
        """Of a choice that the space may lack, or have for other objects alone."""
        if (choice, about) not in self._others:
            decided = (v for v in self.candidate.instance.variables_of(choice) if v.objects == (about,))
            values = (str(self.candidate.value(choice, *v.objects)) for v in decided)
            self._others[choice, about] = next(values, otherwise)
        return self._others[choice, about]

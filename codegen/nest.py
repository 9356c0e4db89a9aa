"""The loop structure of a complete implementation: pairwise order decisions become one tree.

In: a kernel's backbone and the decisions about it. Out: a sequence of `Fused` dimensions and
instructions, in the order of execution. Whatever is not the order of some program is refused here;
whether the values then flow as they should is for `instructions.py` and for the check of the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Kernel
from spacedsl.language.space import EnumChoice, IntegerChoice, Space

Statement = Instruction | Dimension


class LoweringError(Exception):
    """A set of decisions that is no program; the message names the decisions."""


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

    def is_streamed(self, store: Instruction) -> bool:
        """Whether what is stored goes around the caches."""
        ...

    def is_split(self, reduction: Instruction) -> bool:
        """Whether its copies along reduced dimensions have accumulators of their own."""
        ...

    def is_stored(self, instruction: Instruction) -> bool:
        """Whether the value goes through memory: its reloads are part of the program then."""
        ...

    def prefetch(self, load: Instruction) -> str:
        """NONE, AHEAD or NEXT: what is asked for before the load reads it."""
        ...

    def is_copied_ahead(self, reload: Instruction) -> bool:
        """Whether what it loads is copied under the arithmetic of the tile before."""
        ...


_VALUES = {
    "order": ("BEFORE", "AFTER", "INNER", "OUTER", "MERGED"),
    "dim_kind": ("LOOP", "UNROLL", "VECTOR", "PARALLEL"),
    "remainder": ("NONE", "PEELED", "GUARDED"),
    "accumulation": ("CHAINED", "SPLIT"),
    "caching": ("CACHED", "STREAMED"),
    "storage": ("REGISTERS", "TEMPORARY"),
    "prefetch": ("NONE", "AHEAD", "NEXT"),
    "copying": ("BEFORE", "UNDER"),
}
"""Values for which there is code. A space may do without some of them."""

_NEEDED = {"size": 1, "dim_kind": 1, "order": 2}
"""Choices without which there is no code, and how many objects each is about."""

_OPTIONAL = {"storage": 1, "remainder": 1, "accumulation": 1, "caching": 1, "prefetch": 1, "copying": 1}
"""What a space need not decide."""


def check_decisions(space: Space, source: Source) -> None:
    """Raises `DiagnosticError` unless a space decides what lowering reads, and nothing that it does not know.

    `source` is the text of the space: where something is missing.
    """
    report: list[Diagnostic] = []
    for name, arity in (_NEEDED | _OPTIONAL).items():
        choice = space.choices.get(name)
        if choice is None and name in _OPTIONAL:
            continue
        kind = EnumChoice if name in _VALUES else IntegerChoice
        if not isinstance(choice, kind) or len(choice.params) != arity:
            span = choice.span if choice is not None else Span(source, 0, min(1, len(source.text)))
            wanted = f"{'an enum' if kind is EnumChoice else 'an integer'} choice `{name}` of {arity}"
            message = f"no code can be made: {wanted} object{'s' * (arity > 1)} is needed"
            report.append(Diagnostic("SP420", message, span))
        elif isinstance(choice, EnumChoice):
            for value in choice.values:
                if value not in _VALUES[name]:
                    message = f"there is no code for the value `{value}` of `{name}`"
                    hint = f"values with code are {', '.join(_VALUES[name])}"
                    report.append(Diagnostic("SP420", message, choice.span, hint))
    if report:
        raise DiagnosticError(report)


@dataclass(frozen=True, slots=True)
class CandidateImplementation:
    """The decisions of a complete candidate of `linalg.space`. Lowering asks for kinds again for every copy
    of an unrolled body, so that those and sizes are kept once they have been read.
    """

    candidate: Candidate
    _kinds: dict[Dimension, str] = field(default_factory=dict, init=False, repr=False)
    _sizes: dict[Dimension, int] = field(default_factory=dict, init=False, repr=False)

    def order(self, lhs: Statement, rhs: Statement) -> str:
        return str(self.candidate.value("order", lhs, rhs))

    def kind(self, dim: Dimension) -> str:
        if dim not in self._kinds:
            self._kinds[dim] = str(self.candidate.value("dim_kind", dim))
        return self._kinds[dim]

    def is_streamed(self, store: Instruction) -> bool:
        return self._is("caching", store, "STREAMED")

    def is_split(self, reduction: Instruction) -> bool:
        return self._is("accumulation", reduction, "SPLIT")

    def is_guarded(self, dim: Dimension) -> bool:
        return dim.logical.is_ragged and self._is("remainder", dim, "GUARDED")

    def is_stored(self, instruction: Instruction) -> bool:
        return self._is("storage", instruction, "TEMPORARY")

    def prefetch(self, load: Instruction) -> str:
        return self._of_some("prefetch", load, "NONE")

    def is_copied_ahead(self, reload: Instruction) -> bool:
        return self._of_some("copying", reload, "BEFORE") == "UNDER"

    def size(self, dim: Dimension) -> int:
        if dim not in self._sizes:
            self._sizes[dim] = int(self.candidate.value("size", dim))
        return self._sizes[dim]

    def _of_some(self, choice: str, about: Statement, otherwise: str) -> str:
        """Of a choice that the space has for some objects, and may lack."""
        if choice not in self.candidate.instance.space.choices:
            return otherwise
        decided = (v for v in self.candidate.instance.variables_of(choice) if v.objects == (about,))
        return next((str(self.candidate.value(choice, *v.objects)) for v in decided), otherwise)

    def _is(self, choice: str, about: Statement, value: str) -> bool:
        """False where the space does not decide it."""
        has_choice = choice in self.candidate.instance.space.choices
        return has_choice and self.candidate.value(choice, about) == value


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """Dimensions that are one loop, with what is nested in it.

    `remainder.py` makes parts of them, which begin at `first` or have something else in their last iteration.
    """

    dims: tuple[Dimension, ...]
    kind: str
    size: int
    body: tuple[Fused | Instruction, ...]
    first: int = 0
    last: tuple[Fused | Instruction, ...] | None = None


Node = Fused | Instruction
_INVERSE = {"BEFORE": "AFTER", "AFTER": "BEFORE", "INNER": "OUTER", "OUTER": "INNER", "MERGED": "MERGED"}


def nest(kernel: Kernel, implementation: Implementation) -> tuple[Node, ...]:
    """The program structure that the decisions describe; raises `LoweringError` where they describe none."""
    instructions = present(kernel, implementation)
    dimensions = tuple(d for i in instructions for d in i.dims)
    statements: tuple[Statement, ...] = (*instructions, *dimensions)
    order = {(a, b): implementation.order(a, b) for a, b in combinations(statements, 2)}
    order |= {(b, a): _INVERSE[decided] for (a, b), decided in order.items()}
    fused = _merge(dimensions, order)
    heads: list[Statement] = [*instructions, *fused]
    tree = _block(heads, fused, order, implementation)
    _confirm(tree, order)
    return tree


def present(kernel: Kernel, implementation: Implementation) -> tuple[Instruction, ...]:
    """The instructions of the program: those of the kernel, and reloads of what goes through memory."""
    stored = [maker for maker in kernel.storable if implementation.is_stored(maker)]
    return (*kernel.instructions, *(load for maker in stored for load in maker.reloads))


Order = Mapping[tuple[Statement, Statement], str]


def _merge(dimensions: Sequence[Dimension], order: Order) -> dict[Dimension, tuple[Dimension, ...]]:
    """The fused dimensions, by the first of them."""
    fused: dict[Dimension, tuple[Dimension, ...]] = {}
    for dim in dimensions:
        head = next((h for h in fused if order[h, dim] == "MERGED"), dim)
        fused[head] = (*fused.get(head, ()), dim)
    return fused


def _block(
    heads: Sequence[Statement],
    fused: Mapping[Dimension, tuple[Dimension, ...]],
    order: Order,
    implementation: Implementation,
) -> tuple[Node, ...]:
    """The statements of one block as a sequence, each with what is nested in it."""
    outermost = [a for a in heads if all(a is b or order[a, b] != "INNER" for b in heads)]
    nested: dict[Statement, list[Statement]] = {a: [] for a in outermost}
    for a in heads:
        if a in nested:
            continue
        around = [b for b in outermost if order[a, b] == "INNER"]
        if len(around) != 1:
            raise LoweringError(f"{a!r} is not nested in exactly one of {outermost!r}")
        nested[around[0]].append(a)
    nodes: list[Node] = []
    for head in sorted(
        outermost, key=lambda a: sum(order[b, a] == "BEFORE" for b in outermost if a is not b)
    ):
        if isinstance(head, Instruction):
            if nested[head]:
                raise LoweringError(f"{nested[head]!r} are nested in the instruction {head!r}")
            nodes.append(head)
        else:
            body = _block(nested[head], fused, order, implementation)
            nodes.append(_fuse(fused[head], body, implementation))
    return tuple(nodes)


def _fuse(dims: tuple[Dimension, ...], body: tuple[Node, ...], implementation: Implementation) -> Fused:
    kinds = {implementation.kind(d) for d in dims}
    sizes = {implementation.size(d) for d in dims}
    if len(kinds) != 1 or len(sizes) != 1:
        raise LoweringError(f"the fused dimensions {dims!r} differ in kind or size")
    return Fused(dims, kinds.pop(), sizes.pop(), body)


def _confirm(tree: tuple[Node, ...], order: Order) -> None:
    """Every pairwise decision holds in the tree."""
    paths: dict[Statement, tuple[int, ...]] = {}

    def place(nodes: tuple[Node, ...], path: tuple[int, ...]) -> None:
        for position, node in enumerate(nodes):
            here = (*path, position)
            if isinstance(node, Instruction):
                paths[node] = here
            else:
                paths.update(dict.fromkeys(node.dims, here))
                place(node.body, here)

    place(tree, ())
    for (a, b), decided in order.items():
        found = _relation(paths[a], paths[b])
        if decided != found:
            raise LoweringError(f"order({a!r}, {b!r}) is {decided}, but the other decisions make it {found}")


def _relation(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    if a == b:
        return "MERGED"
    if a == b[: len(a)]:
        return "OUTER"
    if b == a[: len(b)]:
        return "INNER"
    return "BEFORE" if a < b else "AFTER"

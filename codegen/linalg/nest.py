"""The loop structure of a complete implementation: pairwise order decisions become one tree.

In: a kernel's backbone and the decisions about it. Out: a sequence of `Fused` dimensions and
instructions, in the order of execution. Whatever is not the order of some program is refused here;
whether the values then flow as they should is for `instructions.py` and for the check of the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from spacedsl.codegen.linalg.implementation import Implementation, Statement
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Kernel


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
    order = _order(statements, implementation)
    fused = _merge(dimensions, order)
    heads: list[Statement] = [*instructions, *fused]
    tree = _block(heads, fused, order, implementation)
    _confirm(tree, statements, order)
    return tree


def present(kernel: Kernel, implementation: Implementation) -> tuple[Instruction, ...]:
    """The instructions of the program: those of the kernel, and reloads of what goes through memory."""
    stored = [maker for maker in kernel.storable if implementation.is_stored(maker)]
    return (*kernel.instructions, *(load for maker in stored for load in maker.reloads))


Order = Mapping[Statement, Mapping[Statement, str]]
"""Where the first one lies with respect to the second."""


def _order(statements: Sequence[Statement], implementation: Implementation) -> Order:
    order: dict[Statement, dict[Statement, str]] = {statement: {} for statement in statements}
    for a, b in combinations(statements, 2):
        order[a][b] = decided = implementation.order(a, b)
        order[b][a] = _INVERSE[decided]
    return order


def _merge(dimensions: Sequence[Dimension], order: Order) -> dict[Dimension, tuple[Dimension, ...]]:
    """The fused dimensions, by the first of them."""
    fused: dict[Dimension, tuple[Dimension, ...]] = {}
    for dim in dimensions:
        head = next((h for h in fused if order[h][dim] == "MERGED"), dim)
        fused[head] = (*fused.get(head, ()), dim)
    return fused


def _block(
    heads: Sequence[Statement],
    fused: Mapping[Dimension, tuple[Dimension, ...]],
    order: Order,
    implementation: Implementation,
) -> tuple[Node, ...]:
    """The statements of one block as a sequence, each with what is nested in it."""
    outermost = [a for a in heads if not any(order[a].get(b) == "INNER" for b in heads)]
    nested: dict[Statement, list[Statement]] = {a: [] for a in outermost}
    for a in heads:
        if a in nested:
            continue
        around = [b for b in outermost if order[a][b] == "INNER"]
        if len(around) != 1:
            raise LoweringError(f"{a!r} is not nested in exactly one of {outermost!r}")
        nested[around[0]].append(a)
    nodes: list[Node] = []
    for head in sorted(outermost, key=lambda a: sum(order[a].get(b) == "AFTER" for b in outermost)):
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


def _confirm(tree: tuple[Node, ...], statements: Sequence[Statement], order: Order) -> None:
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
    for a, b in combinations(statements, 2):
        decided, found = order[a][b], _relation(paths[a], paths[b])
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

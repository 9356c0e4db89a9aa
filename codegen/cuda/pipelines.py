"""Software pipelines: tiles are copied to shared memory while threads compute with earlier ones.

In: the loop structure of a grid, and of how many tiles of what there is room for. Out: statements for a loop
in whose iterations such tiles are copied and used:

    for i < 8: { copy tile i; use tile i }      becomes, with room for three of them,
    copy tile 0, group; copy tile 1, group; for i < 8: { wait for tile i; copy tile i + 2, group; use tile i }

A copy is under way until a thread has waited for its group; a barrier behind that shows it to all threads.
The same barrier says that all of them are done with the tile whose room the next copy takes. Where that room
lies is for `temporaries.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spacedsl.codegen.linalg.addresses import Place, Position
from spacedsl.codegen.linalg.copying import Block, instructions_in
from spacedsl.codegen.linalg.expansion import enter
from spacedsl.codegen.linalg.nest import Fused, Node
from spacedsl.codegen.linalg.temporaries import Temporary
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Load, Register
from spacedsl.codegen.tree.program import (
    Assign,
    Barrier,
    Branch,
    CommitCopies,
    CopyAhead,
    Loop,
    Statement,
    Store,
    WaitForCopies,
)
from spacedsl.kernels.linalg.backbone import Instruction


@dataclass(frozen=True, slots=True)
class Stage:
    """What copies one tile in each iteration of a loop, `ahead` iterations before it is used."""

    nest: Node
    ahead: int


def stages(node: Fused, temporaries: Mapping[Instruction, Temporary]) -> tuple[Stage, ...]:
    """What is copied ahead in a loop. Raises `LoweringError` where other things are done there."""
    makers = {maker for maker, temporary in temporaries.items() if temporary.turning in node.dims}
    found: list[Stage] = []
    for inner in node.body if makers else ():
        inside = set(instructions_in((inner,)))
        if inside & makers:
            if not inside <= makers:
                raise LoweringError(f"{inside - makers!r} lie in the nest of {makers!r}, copied ahead")
            found.append(Stage(inner, min(temporaries[maker].buffers for maker in inside) - 1))
    return tuple(found)


def check_whole(node: Fused, temporaries: Mapping[Instruction, Temporary], kind: str) -> None:
    """Raises `LoweringError` where tiles are copied ahead in a loop of which the last one is not whole."""
    is_whole = node.kind == kind and node.last is None
    if not is_whole and any(temporary.turning in node.dims for temporary in temporaries.values()):
        raise LoweringError(f"tiles are copied ahead in {node.dims!r}, the last of which is not whole")


def begun(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """What copies an element or a vector as a copy that is under way; a part of a vector at once."""
    match statements:
        case (Assign(_, Load() as source), Store(tensor, index, Register())):
            return (CopyAhead(tensor, index, source),)
    return statements


def pipelined(
    node: Fused, copied: Sequence[Stage], variable: str, place: Place, block: Block, *, is_repeated: bool
) -> tuple[Statement, ...]:
    """The loop `node`, with `variable`. `is_repeated`: whether it is run more than once by a block."""
    first = max(stage.ahead for stage in copied)
    statements: list[Statement] = [Barrier()] if is_repeated else []
    for step in range(first):
        for stage in copied:
            tile = step - first + stage.ahead
            if 0 <= tile < node.size:
                statements += block((stage.nest,), enter(place, node, tile))
        statements.append(CommitCopies())
    body: list[Statement] = [WaitForCopies(min(stage.ahead for stage in copied) - 1), Barrier()]
    for stage in copied:
        if stage.ahead < node.size:
            later = enter(place, node, Position(stage.ahead, ((variable, 1),)))
            body.append(Branch(variable, node.size - stage.ahead, block((stage.nest,), later), ()))
    kept = tuple(inner for inner in node.body if inner not in {stage.nest for stage in copied})
    body += [CommitCopies(), *block(kept, enter(place, node, variable))]
    return (*statements, Loop(variable, node.size, tuple(body)))

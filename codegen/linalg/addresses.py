"""Addresses: which element an instance of an instruction accesses.

In: an instruction that loads or stores, how far one iteration of each of its dimensions moves, and where the
dimensions around the instance stand. Out: an `Index`, the sum of loop variables times strides; of a vector,
its first element, along a dimension whose iterations are neighbours. Nothing is known here of what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from spacedsl.codegen.linalg.nest import Fused
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Index, Share
from spacedsl.kernels.linalg.backbone import Access, Dimension, Instruction


@dataclass(frozen=True, slots=True)
class Lanes:
    """The first ones of a vector, of which the others are not used."""

    count: int


@dataclass(frozen=True, slots=True)
class Position:
    """`constant` + the sum of each loop variable times a number."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """One of several iterations that a thread has of a fragment: its number among them, and where it is."""

    number: int
    position: Position


At = str | int | Position | Lanes | Held
Place = Mapping[Dimension, At]
"""Where each dimension around a statement stands: a loop variable, an unrolled index, or what follows
from the variables of several loops; of lanes, whether there are fewer than in registers."""


def copies(place: Place) -> dict[Dimension, int]:
    """By dimension whose iterations have a register each, which one it is for."""
    return {
        dim: at if isinstance(at, int) else at.number
        for dim, at in place.items()
        if isinstance(at, int | Held)
    }


def loop_variable(node: Fused, place: Place) -> str:
    """The variable of a loop around a place."""
    at = place[node.dims[0]]
    assert isinstance(at, str), f"{node.dims!r} stand at {at!r}, and are no loop"
    return at


def tensor_steps(access: Access, size: Callable[[Dimension], int]) -> dict[Dimension, int]:
    """How many elements one iteration of each dimension moves through a tensor."""
    steps: dict[Dimension, int] = {}
    for logical, stride in access.strides:
        step = stride
        for dim in reversed(logical.dims):
            steps[dim] = step
            step *= size(dim)
    return steps


def iteration_step(node: Fused, steps: Mapping[Dimension, int]) -> int:
    """How many elements one iteration of all its dimensions moves."""
    return sum(steps.get(dim, 0) for dim in node.dims)


def element(
    instruction: Instruction,
    vector: Dimension | None,
    offset: int,
    steps: Mapping[Dimension, int],
    place: Place,
) -> Index:
    """`offset` and the steps of all dimensions; raises `LoweringError` for a vector of other elements."""
    constant = offset
    terms: dict[str, int] = {}
    for dim in instruction.dims:
        step = steps.get(dim, 0)
        if dim is vector:
            if step != 1:
                raise LoweringError(f"{instruction!r} accesses every {step}th element along {dim!r}")
            continue
        at = place[dim]
        if isinstance(at, Held):
            at = at.position
        if isinstance(at, int):
            constant += at * step
        elif isinstance(at, str) and step:
            terms[at] = terms.get(at, 0) + step
        elif isinstance(at, Position) and step:
            constant += at.constant * step
            terms |= {v: terms.get(v, 0) + n * step for v, n in at.terms}
    return Index(constant, tuple(sorted(terms.items(), key=lambda term: -abs(term[1]))))


def turn(index: Index, at: At, tiles: int, tile: int) -> Index:
    """The same element of one of several tiles of so many, which a loop's iterations take in turn."""
    match at:
        case int():
            return replace(index, constant=index.constant + at % tiles * tile)
        case str():
            at = Position(0, ((at, 1),))
        case Lanes() | Held():
            raise LoweringError("what one instruction does takes no tiles in turn")
    match at.terms:
        case ((variable, 1),):
            return replace(index, shares=(*index.shares, (variable, Share(tiles, 1, tile, at.constant))))
        case ():
            return replace(index, constant=index.constant + at.constant % tiles * tile)
    raise LoweringError(f"which tile it is at {at!r} depends on several loops")

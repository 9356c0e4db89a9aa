"""Which elements of its array an access touches, in all iterations of the loops around it.

In: an array, an index, how many neighbours there are, the scope of the access. Out: whether all are inside,
or what is wrong with it. Who else touches the same elements is for `races.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from spacedsl.codegen.tree.expressions import Index, Position
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.codegen.tree.scopes import Scope
from spacedsl.kernels.pipeline.affine import Remainder
from spacedsl.kernels.tensors import Tensor


def is_inside(tensor: Tensor, position: Position, lanes: range, ranges: Ranges) -> bool:
    """Whether all lanes of a position are elements of an array, or lie between them, wherever it may be."""
    return _is_among(tensor.span, tensor.extents_by_stride, position, lanes, ranges)


def _is_among(
    neighbours: int, extents: Sequence[tuple[int, int]], position: Position, lanes: range, ranges: Ranges
) -> bool:
    """Whether all lanes are among so many neighbours, from 0 on.

    `extents`: by stride, the largest first, of dimensions that may lie in them.
    """
    has_room = bool(extents) and 1 + sum((n - 1) * stride for stride, n in extents) <= neighbours
    return (
        (has_room and _is_inside_each(extents, position, lanes, ranges, _along))
        or ranges.is_among(position, neighbours - lanes[-1])
        or (has_room and _is_inside_each(extents, position, lanes, ranges, _along_alone))
    )


def _is_inside_each(
    extents: Sequence[tuple[int, int]], position: Position, lanes: range, ranges: Ranges, along: _Part
) -> bool:
    """Whether it is inside along each dimension.

    What its number says of a dimension may be off by one, since those of smaller strides have theirs in it.
    """
    if not extents:
        return position == Position(0)
    (stride, extent), *others = extents
    part = along(position, stride, ranges)
    here = range(1) if others else lanes
    return any(
        ranges.is_among(each, extent - here[-1])
        and _is_inside_each(others, position + each * -stride, lanes, ranges, along)
        for each in (part + Position(n) for n in (0, 1, -1))
    )


def is_apart(
    tensor: Tensor, position: Position, lanes: range, variable: str, ranges: Ranges, around: Collection[str]
) -> bool:
    """Whether iterations that differ in a variable come to elements of their own, along a dimension.

    `around`: variables that are the same in all of them. What leads along smaller strides has to stay below.
    """
    return any(
        _is_apart(tensor.extents_by_stride, position, lanes, variable, ranges, around, along)
        for along in (_along, _along_alone)
    )


def _is_apart(
    extents: Sequence[tuple[int, int]],
    position: Position,
    lanes: range,
    variable: str,
    ranges: Ranges,
    around: Collection[str],
    along: _Part,
) -> bool:
    """The same, if that is what leads along each dimension."""
    above: int | None = None
    found = False
    for place, (stride, _) in enumerate(extents):
        part = along(position, stride, ranges)
        if not part.terms:
            continue
        if above is not None and not _stays_below(above, extents[place:], position, lanes, ranges):
            return False
        found = found or _is_apart_along(part, lanes[-1] if stride == 1 else 0, variable, ranges, around)
        above, position = stride, position + part * -stride
    return found and (above == 1 or (above is not None and _stays_below(above, (), position, lanes, ranges)))


def _stays_below(
    stride: int, extents: Sequence[tuple[int, int]], position: Position, lanes: range, ranges: Ranges
) -> bool:
    """Whether all are among as many neighbours as a stride leads on, wherever these begin.

    `extents`: of the dimensions with smaller strides.
    """
    least = ranges.least(position)
    numbers = dict.fromkeys((0, stride, -stride, *([] if least is None else [-least])))
    return any(_is_among(stride, extents, position + Position(n), lanes, ranges) for n in numbers)


def _is_apart_along(
    part: Position, more: int, variable: str, ranges: Ranges, around: Collection[str]
) -> bool:
    """The same of what leads along one dimension, with `more` elements behind it."""
    most: int | None = None
    match part.terms:
        case [(Remainder(dividend, divisor), 1)]:
            # Where it goes along a window: apart if all together are no longer than that. A number behind
            # it moves all alike, or belongs to a dimension of a smaller stride.
            part, most = dividend, divisor
    return any(
        ranges.is_within(part, more, variable, step, first)
        and (most is None or ranges.is_within(part, more, variable, 0, first, most))
        for step, first in dict.fromkeys(ranges.steps(part, variable, around))
    )


# ---- Dimensions -------------------------------------------------------------------------------------------

_Part = Callable[[Position, int, Ranges], Position]
"""Of a position, what leads along the dimension with a stride."""


def _along(position: Position, stride: int, _: Ranges) -> Position:
    """All that are multiples of the stride, and the number rounded down."""
    terms = tuple((atom, number // stride) for atom, number in position.terms if number % stride == 0)
    return Position(position.constant // stride, terms)


def _along_alone(position: Position, stride: int, ranges: Ranges) -> Position:
    """The same without those that depend on loops of what leads along a smaller stride.

    A multiple of the stride may lead along that, too: in rows of two elements, of which every second is read.
    """
    rest = [atom for atom, number in position.terms if number % stride]
    loops = ranges.origins(frozenset[str]().union(*[atom.names for atom in rest]))
    alone = (each for each in position.terms if ranges.origins(each[0].names).isdisjoint(loops))
    return _along(Position(position.constant, tuple(alone)), stride, ranges)


# ---- Positions that are counted ---------------------------------------------------------------------------


def counted_fault(tensor: Tensor, index: Index, lanes: range, scope: Scope, bits: int) -> str | None:
    """Of an index of loops alone, all of which have so many iterations; `bits`: of a GPU's indices."""
    low = high = index.constant
    for variable, stride in index.terms:
        ends = [stride * scope.loops[variable][end] for end in (0, -1)]
        low, high = low + min(ends), high + max(ends)
        if fault := _width_fault(tensor.name, low - index.constant, high - index.constant, scope, bits):
            return fault
    for variable, share in index.shares:
        last = min(share.modulus - 1, scope.loops[variable][-1] + share.ahead)
        most = last // share.divisor * share.stride
        low, high = low + min(most, 0), high + max(most, 0)
    if fault := _width_fault(tensor.name, low, high, scope, bits):
        return fault
    high += lanes[-1]
    if low < 0 or high >= tensor.span:
        return f"{tensor.name} has elements 0 to {tensor.span - 1}, {low} to {high} are accessed"
    return None


def _width_fault(name: str, low: int, high: int, scope: Scope, bits: int) -> str | None:
    """Of a sum on the way to an index of a grid, from its first term on: its integers have to hold it.

    Of a CPU, all are 64 bits wide.
    """
    limit = 1 << bits - 1
    if (scope.blocks or scope.threads) and not -limit <= low <= high < limit:
        return f"an index of {name} comes to {high if high >= limit else low}, beyond {bits} bits"
    return None

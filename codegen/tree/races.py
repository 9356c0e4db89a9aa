"""What runs side by side never touches what others store: there is one partition for all that is touched.

In: all that an iteration of parallel loops (or a block of a grid) touches of an array. Out: along which loop
two of them might meet, or none. Order plays no part, nor what is stored: two threads that store the same
value to one element are a race, too. No form of program is excused: what a row shifts inwards to fill a
vector lies within the box of its iteration.

Loads count as stores do: what only this iteration touches, nobody else stores. By a loop, an array is parted
into stretches, one for each iteration: `step` elements from `step` * variable + `first` on, maybe once in
each `period` elements. Of loops that are shared out together, each needs such a partition; two iterations
then differ in one of them at least, and so in the elements that they touch.

Threads that are by themselves in a block wait for each other in between; they are judged store by store
(`verify.py`), not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spacedsl.codegen.tree.expressions import Position
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.algorithm import Variable
from spacedsl.kernels.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Access:
    """Neighbours, in all iterations of the loops around them."""

    first: Position
    more: int
    """Behind the first one."""
    ranges: Ranges


def contested(loops: Mapping[str, int], tensor: Tensor, accesses: Sequence[Access]) -> str | None:
    """The variable of a parallel loop whose iterations may touch the same elements of an array.

    `loops`: the iterations of each. `accesses`: all that an iteration does to an array that it stores to.
    """
    joined = _joined(accesses)
    numbers = {(atom, abs(number)) for a in accesses for atom, number in a.first.terms}
    for variable, extent in loops.items():
        if extent == 1:
            continue
        # Where strides of the array do not help: what is unrolled around a loop repeats all that it comes to.
        others = {number for _, number in numbers}
        others |= {number * extent for atom, number in numbers if atom == Variable(variable)}
        strides = sorted(set(tensor.strides))
        periods = (*strides, None, *sorted(others.difference(strides)))
        if not any(_is_parted(variable, extent, p, _rests(tensor, p, joined)) for p in periods):
            return variable
    return None


def _rests(tensor: Tensor, period: int | None, accesses: Sequence[Access]) -> list[Access]:
    """The accesses without dimensions whose strides are no multiples of a period.

    Empty where one is beyond what leads along such a dimension: its elements would not tell where it is.
    """
    rests = [*accesses]
    for stride in sorted(set(tensor.strides), reverse=True):
        if period is None or stride <= period or stride % period == 0:
            continue
        for number, access in enumerate(rests):
            rest = _rest(access, stride)
            if rest is None:
                return []
            rests[number] = rest
    return rests


def _rest(access: Access, stride: int) -> Access | None:
    """The access without what leads along a dimension; None where it may be beyond that, or before it."""
    terms = tuple((atom, n) for atom, n in access.first.terms if n % stride)
    # Where boxes do not begin at 0, a number makes up for it, which may be negative.
    for constant in (access.first.constant % stride, access.first.constant % stride - stride):
        first = Position(constant, terms)
        last = first * -1 + Position(stride - 1 - access.more)
        if access.ranges.is_natural(first) and access.ranges.is_natural(last):
            return Access(first, access.more, access.ranges)
    return None


def _joined(accesses: Iterable[Access]) -> list[Access]:
    """Neighbours of a place as one access."""
    alike: dict[tuple[object, ...], list[Access]] = {}
    for access in accesses:
        alike.setdefault((id(access.ranges), access.first.terms), []).append(access)
    found: list[Access] = []
    for group in alike.values():
        first, *others = sorted(group, key=lambda access: access.first.constant)
        found.append(first)
        for access in others:
            apart = access.first.constant - found[-1].first.constant
            if apart > found[-1].more + 1:
                found.append(access)
            else:
                found[-1] = replace(found[-1], more=max(found[-1].more, apart + access.more))
    return found


def _modulo(period: int, accesses: Iterable[Access]) -> list[Access]:
    """Without what leads from period to period; each once."""
    found: dict[tuple[object, ...], Access] = {}
    for access in accesses:
        terms = tuple((atom, number) for atom, number in access.first.terms if number % period)
        first = Position(access.first.constant % period, terms)
        found[id(access.ranges), first, access.more] = replace(access, first=first)
    return [*found.values()]


def _is_parted(variable: str, extent: int, period: int | None, accesses: Sequence[Access]) -> bool:
    """Whether each iteration has stretches of its own, in which all of these lie."""
    if period is not None:
        accesses = _modulo(period, accesses)
    candidates = dict.fromkeys(step for a in accesses for step in a.ranges.steps(a.first, variable))
    for step, first in candidates:
        if step == 0 or (period is not None and abs(step) * (extent - 1) >= period):
            continue
        last = None
        if period is not None and abs(step) * extent > period:
            # The last stretch is not as long as the others, or it would meet the first one.
            last = first + Position(min(0, step * (extent - 1)) + period - 1)
        if all(_lies(a, variable, step, first, period, last) for a in accesses):
            return True
    return False


def _lies(
    access: Access, variable: str, step: int, first: Position, period: int | None, last: Position | None
) -> bool:
    """Whether it lies in the stretch of its iteration, and not behind the `last` element; in some period."""
    # Numbers that differ by a period are the same to it, and those of a row may be on both sides of one.
    for back in (0,) if period is None else (0, period, -period):
        begin = access.first + Position(-back)
        if access.ranges.is_within(begin, access.more, variable, step, first) and (
            last is None or access.ranges.is_natural(last + Position(-access.more) + begin * -1)
        ):
            return True
    return False

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
from dataclasses import dataclass

from spacedsl.codegen.program import Position
from spacedsl.codegen.ranges import Ranges
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
    numbers = {(atom, abs(number)) for a in accesses for atom, number in a.first.terms}
    steps = {number for _, number in numbers}
    for variable, extent in loops.items():
        if extent == 1:
            continue
        # What is unrolled around a loop repeats all that the loop comes to.
        all_of = {number * extent for atom, number in numbers if atom == Variable(variable)}
        periods = (None, *sorted({*tensor.strides, *steps, *all_of}))
        if not any(_is_parted(variable, extent, p, _rests(tensor, p, accesses)) for p in periods):
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
            terms = tuple((atom, n) for atom, n in access.first.terms if n % stride)
            first = Position(access.first.constant % stride, terms)
            last = first * -1 + Position(stride - 1 - access.more)
            if not access.ranges.is_natural(first) or not access.ranges.is_natural(last):
                return []
            rests[number] = Access(first, access.more, access.ranges)
    return rests


def _joined(period: int | None, accesses: Iterable[Access]) -> list[Access]:
    """Those of a place that differ by a number, as one from the first to the last of them.

    What leads from period to period makes no difference.
    """
    ends: dict[tuple[object, ...], Access] = {}
    for access in accesses:
        terms, constant, begin = access.first.terms, access.first.constant, 0
        if period is not None:
            terms = tuple((atom, number) for atom, number in terms if number % period)
            begin, constant = divmod(constant, period)
        key = id(access.ranges), terms, begin
        low, high = constant, constant + access.more
        if key in ends:
            known = ends[key]
            low = min(low, known.first.constant)
            high = max(high, known.first.constant + known.more)
        ends[key] = Access(Position(low, terms), high - low, access.ranges)
    return [*{(key[:2], a.first.constant, a.more): a for key, a in ends.items()}.values()]


def _is_parted(variable: str, extent: int, period: int | None, accesses: Sequence[Access]) -> bool:
    """Whether each iteration has stretches of its own, in which all of these lie."""
    accesses = _joined(period, accesses)
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
    for back in (0,) if period is None else (0, period):
        begin = access.first + Position(-back)
        if access.ranges.is_within(begin, access.more, variable, step, first) and (
            last is None or access.ranges.is_natural(last + Position(-access.more) + begin * -1)
        ):
            return True
    return False

"""The middle of a row: its part without edges, where lanes read neighbours.

In: a box, and where a row lies in it. Out: conditions that hold in the middle, and where it begins and ends.
What is computed of it, and of what is beside it, is for `bodies.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spacedsl.codegen.pipeline.blocks import Point
from spacedsl.codegen.pipeline.boxes import StepBox
from spacedsl.codegen.pipeline.edges import middle_conditions
from spacedsl.codegen.pipeline.placement import Span
from spacedsl.codegen.tree.program import Let
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Linear, extreme, quotient, variable
from spacedsl.kernels.pipeline.algorithm import Variable


@dataclass(frozen=True, slots=True)
class Middle:
    """Of a row, the part without edges."""

    lets: tuple[Let, ...]
    first: Linear
    last: Linear
    most: int
    has_before: bool
    has_behind: bool
    is_whole: bool
    """Whether it is all of a row that is always as long as it can be."""

    @classmethod
    def of(cls, span: Span, dim: str, edges: Sequence[Linear], fresh: Callable[[str], str]) -> Middle:
        """`edges`: conditions on where a point is along the row, whose variable is `along`."""
        lets: list[Let] = []

        def named(end: Linear, wanted: str, is_new: bool) -> Linear:
            if not is_new:
                return end
            lets.append(Let(fresh(wanted), end))
            return variable(lets[-1].variable)

        low, high = between(span.first, span.last, edges, "along")
        has_before, has_behind = low != span.first, high != span.last
        first = named(low, f"{dim}_from", has_before)
        last = named(high, f"{dim}_to", has_behind)
        is_whole = span.is_full and not lets
        return cls(tuple(lets), first, last, span.most, has_before, has_behind, is_whole)


def edges(box: StepBox, dim: str, point: Point, ranges: Ranges) -> list[Linear]:
    """The conditions of the middle of a row, as positions of the stage."""
    name = "along"
    here = {**point, dim: variable(name)}
    span = box.spans[dim]
    within = ranges.with_loop(name, span.first, span.last)
    return [c for c in conditions(box, dim, here, within, name) if not within.is_natural(c)]


def conditions(box: StepBox, dim: str, point: Point, ranges: Ranges, name: str) -> list[Linear]:
    """Those that leave most of all points along a row."""
    whole = box.step.box(dim, "ROOT").reads
    first = min(r.least for r in whole)
    last = max(r.least + r.more for r in whole)
    found = []
    known = middle_conditions(box.step.definition, box.setting.inlined, box.whole(point), name)
    for each in dict.fromkeys(known):
        number = next(n for atom, n in each.terms if atom == Variable(name))
        rest = each + variable(name) * -number
        low, high = ranges.least(rest), ranges.greatest(rest)
        if low is None or high is None:
            continue
        lost = -(low // number) - first if number > 0 else last - low // -number
        if 4 * lost <= last - first + 1:
            found.append(each)
    return found


def strictest(forms: Sequence[Linear]) -> list[Linear]:
    """Of those that differ by a number, the least one."""
    found: dict[object, Linear] = {}
    for form in forms:
        known = found.get(form.terms, form)
        found[form.terms] = known if known.constant <= form.constant else form
    return list(found.values())


def between(first: Linear, last: Linear, edges: Sequence[Linear], name: str) -> tuple[Linear, Linear]:
    """The part of a range in which these positions of a variable are not negative."""
    for edge in edges:
        number = next(n for atom, n in edge.terms if atom == Variable(name))
        rest = edge + variable(name) * -number
        if number > 0:
            first = extreme("max", first, quotient(rest, number) * -1)
        else:
            last = extreme("min", last, quotient(rest, -number))
    return first, last

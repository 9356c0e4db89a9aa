"""Which lines of a propagator made an inference, where it was compiled from several.

In: an application of a propagator whose table holds many requirements, the domains before it, and what it
narrowed. Out: a minimal part of these requirements from which the same follows, found by trying all values
that the few domains still had; or all of them, where this is not a matter of enums alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product

from spacedsl.diagnostics import Span
from spacedsl.engine.derivation import Application, Narrowing
from spacedsl.engine.instance import Instance
from spacedsl.engine.static import COMPARE
from spacedsl.language.reading import formula_uses
from spacedsl.language.space import (
    And,
    ComparePositions,
    Constant,
    EnumChoice,
    Formula,
    Host,
    Is,
    Not,
    Or,
    Position,
    Requirement,
    SameEnum,
    Use,
)

MOST_COMBINATIONS = 50_000

Environment = Mapping[str, int]
Assignment = Mapping[int, int]
"""By cell: the number of a value."""


class _NotEnumsError(Exception):
    """A condition on something else than enums."""


def responsible_lines(
    instance: Instance, part: Application, before: Sequence[int], narrowings: Sequence[Narrowing]
) -> tuple[Span, ...]:
    """The spans of the requirements that are needed; `narrowings` are empty for a contradiction."""
    assert part.propagator is not None
    spans = part.propagator.spans
    requirements = [r for r in instance.space.requirements if r.span in spans]
    if len(requirements) < 2 or len(requirements) < len(spans):
        return spans
    try:
        meanings = [_Meaning(instance, r, part.arguments) for r in requirements]
        cells = sorted({cell for m in meanings for cell in m.cells()})
    except (_NotEnumsError, KeyError):
        return spans
    domains = [[bit for bit in range(before[c].bit_length()) if before[c] >> bit & 1] for c in cells]
    if math.prod(map(len, domains)) > MOST_COMBINATIONS:
        return spans
    combinations = [dict(zip(cells, values, strict=True)) for values in product(*domains)]
    # By requirement, which combinations it allows, as one mask.
    try:
        allowed = [
            sum(1 << at for at, values in enumerate(combinations) if m.holds(values)) for m in meanings
        ]
    except _NotEnumsError:
        return spans
    removed = _removed(combinations, narrowings)

    def suffice(kept: Iterable[int]) -> bool:
        left = (1 << len(combinations)) - 1
        for number in kept:
            left &= allowed[number]
        return not left & removed

    needed = list(range(len(requirements)))
    if not suffice(needed):
        return spans
    for number in needed[::-1]:
        if suffice([n for n in needed if n != number]):
            needed.remove(number)
    return tuple(requirements[n].span for n in needed)


def _removed(combinations: Sequence[Assignment], narrowings: Sequence[Narrowing]) -> int:
    """The combinations in which a value is taken that is gone afterwards; all of them at a contradiction."""
    if not narrowings:
        return (1 << len(combinations)) - 1
    return sum(
        1 << at
        for at, values in enumerate(combinations)
        if any(n.cell in values and not n.after >> values[n.cell] & 1 for n in narrowings)
    )


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A requirement on objects, in whatever order they are bound to its variables."""

    instance: Instance
    requirement: Requirement
    objects: tuple[int, ...]

    def environments(self) -> Iterator[dict[str, int]]:
        """The bindings of its variables to some of the objects, where they lie in its sets."""
        binders = self.requirement.foralls
        objects = self.instance.objects
        for chosen in permutations(self.objects, len(binders)):
            environment = dict(zip((b.name for b in binders), chosen, strict=True))
            if all(
                environment[b.name] in objects.of(b.set, environment) and objects.passes(b.where, environment)
                for b in binders
            ):
                yield environment

    def cells(self) -> Iterator[int]:
        """Of what it reads; raises `_NotEnumsError` where that is not enums alone."""
        for use in formula_uses(self.requirement.formula):
            self._enum(use)
            for environment in self.environments():
                yield self._place(use, environment)[0]

    def _enum(self, use: Use) -> EnumChoice:
        choice = self.instance.compiled.complete.choices.get(use.choice)
        if not isinstance(choice, EnumChoice):
            raise _NotEnumsError
        return choice

    def holds(self, values: Assignment) -> bool:
        return all(self._holds(self.requirement.formula, e, values) for e in self.environments())

    def _place(self, use: Use, environment: Environment) -> tuple[int, bool]:
        """The cell of the pair's first orientation, and whether the use is the other one."""
        layout = self.instance.layout
        cell = layout.cells[use.choice][tuple(environment[a] for a in use.args)]
        first = min(cell, layout.twins.get(cell, cell))
        return first, first != cell

    def _value(self, use: Use, environment: Environment, values: Assignment) -> int:
        cell, is_turned = self._place(use, environment)
        choice = self._enum(use)
        return choice.inverse[values[cell]] if is_turned else values[cell]

    def _position(
        self, place: Position, names: Sequence[str], environment: Environment, values: Assignment
    ) -> int:
        """The place of one side in the order of an enum's values."""
        if isinstance(place, Use):
            return self._value(place, environment, values)
        if isinstance(place, int):
            return place
        return names.index(str(self.instance.objects.evaluate(place, dict(environment))))

    def _holds(self, formula: Formula, environment: Environment, values: Assignment) -> bool:
        match formula:
            case Constant(value):
                return value
            case Host(expression):
                return bool(self.instance.objects.evaluate(expression, dict(environment)))
            case Is(use, mask):
                return bool(mask >> self._value(use, environment, values) & 1)
            case SameEnum(left, right):
                same = formula.translate[self._value(left, environment, values)] == self._value(
                    right, environment, values
                )
                return same == formula.equal
            case ComparePositions(left_place, op, right_place, names):
                places = (self._position(p, names, environment, values) for p in (left_place, right_place))
                return COMPARE[op](*places)
            case Not(operand):
                return not self._holds(operand, environment, values)
            case And(operands):
                return all(self._holds(f, environment, values) for f in operands)
            case Or(operands):
                return any(self._holds(f, environment, values) for f in operands)
        raise _NotEnumsError

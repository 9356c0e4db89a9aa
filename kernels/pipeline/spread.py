"""At how many different points a step is read for a point of its host, where all between them is inlined.

In: steps with their readers and hosts. Out: for each step a number, beyond `MOST_COPIES` any greater one.
Reads that lead to one point by several ways count once, as code generation computes it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.kernels.pipeline.affine import Linear, fixed, has_values, linear, substituted, variable
from spacedsl.kernels.pipeline.algorithm import reads
from spacedsl.kernels.pipeline.backbone import MOST_COPIES, Step
from spacedsl.kernels.pipeline.reductions import turns

MANY = 1 << 20
"""More than are ever allowed."""

Point = tuple[Linear, ...]
"""In the variables of the host."""


def spreads(steps: Sequence[Step]) -> Mapping[Step, int]:
    found = _Spreads()
    return {step: found.count(step) for step in steps if step.host is not None and not step.host.is_exit}


@dataclass(slots=True)
class _Spreads:
    known: dict[tuple[Step, Step], frozenset[Point] | None] = field(default_factory=dict)
    """By host and step: None for too many."""

    def count(self, step: Step) -> int:
        assert step.host is not None
        points = self.points(step.host, step)
        return MANY if points is None else max(1, len(points))

    def points(self, host: Step, step: Step) -> frozenset[Point] | None:
        """Where all that is between a step and its host reads it."""
        if step is host:
            return frozenset((tuple(variable(v) for v in step.stage.variables),))
        if (host, step) not in self.known:
            self.known[host, step] = self._points(host, step)
        return self.known[host, step]

    def _points(self, host: Step, step: Step) -> frozenset[Point] | None:
        found: set[Point] = set()
        for reader in step.readers:
            around = self.points(host, reader)
            if around is None:
                return None
            if reader.before is step:
                found |= around
                continue
            forms = [
                [linear(at) for at in read.point]
                for read in reads(reader.definition)
                if read.source == step.stage.name
            ]
            if any(has_values(form) for each in forms for form in each):
                return None
            for point in around:
                here = dict(zip(reader.stage.variables, point, strict=True))
                # What has more turns is not inlined.
                is_inlined = reader is not host and reader.turns <= MOST_COPIES
                for turn in turns(reader.definition) if is_inlined else ({},):
                    given = {**here, **fixed(turn)}
                    found |= {tuple(substituted(form, given) for form in each) for each in forms}
                    if len(found) > MOST_COPIES:
                        return None
        return frozenset(found)

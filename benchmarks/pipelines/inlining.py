"""What it would cost to inline all stages of a pipeline.

In: an algorithm. Out: how many values are computed for a point of an output, at least; of what is read
twice in the same place, one. Compilers spend time and memory on as many, where they do not refuse.
"""

from __future__ import annotations

from spacedsl.kernels.pipeline.algorithm import Algorithm, Stage, Update, reads
from spacedsl.kernels.pipeline.reductions import turn_count


def values_of_a_point(algorithm: Algorithm) -> int:
    """Of the output that needs most."""
    known: dict[str, int] = {given.name: 0 for given in algorithm.inputs}
    for stage in algorithm.stages:
        known[stage.name] = sum(_values(definition, stage, known) for definition in stage.definitions)
    return max(known[name] for name in algorithm.outputs)


def _values(definition: Stage | Update, stage: Stage, known: dict[str, int]) -> int:
    turns = turn_count(definition)
    places = {(read.source, read.point) for read in reads(definition) if read.source != stage.name}
    return turns * (1 + sum(known[source] for source, _ in places))

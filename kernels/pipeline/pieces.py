"""An output in pieces, so that no stage of a large pipeline has to be in memory as a whole.

In: an algorithm, its boxes, and values for its inputs. Out: for each piece what is wanted of the output, and
the boxes that this needs; the elements of outputs, and how far they may be off, piece by piece. Pieces are
rows along one dimension. There is one piece alone where most of it would be computed again for every other:
of what looks at a whole image, and of several outputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from spacedsl.kernels.pipeline.algorithm import Algorithm, Box, Extent, Update
from spacedsl.kernels.pipeline.arguments import held, value_names
from spacedsl.kernels.pipeline.bounds import infer
from spacedsl.kernels.pipeline.rounding import evaluate_rounded
from spacedsl.kernels.pipeline.work import definitions, points, size

Array = NDArray[Any]

MOST_POINTS = 1 << 18
"""Of a stage in a piece, so that it stays in a cache, as long as there are `LEAST_ROWS`."""
LEAST_ROWS = 8
ON_THE_WAY, UPDATED = 64, 8
"""Bytes of a point of a stage that is being defined, whose numbers, errors and positions are wider than what
is kept of it, and of a point of the ranges of an update. Measured: `u8_sat` of a float takes 75, with all."""
MOST_WORK = 1.3
"""Points that all pieces together may have, for each one of the whole."""


@dataclass(frozen=True, slots=True)
class Piece:
    outputs: Mapping[str, Box]
    boxes: Mapping[str, Box]
    """Of stages and inputs; of inputs, those of their arrays."""


def pieces(algorithm: Algorithm, boxes: Mapping[str, Box]) -> tuple[Piece, ...]:
    """Which together have all outputs."""
    arrays = {name: box for name, box in held(algorithm, boxes).items() if name not in algorithm.outputs}
    whole = Piece(algorithm.outputs, {**boxes, **arrays})
    if len(algorithm.outputs) > 1:
        return (whole,)
    ((name, box),) = algorithm.outputs.items()
    at = next((n for n in reversed(range(len(box))) if box[n].size >= 2 * LEAST_ROWS), None)
    if at is None:
        return (whole,)
    rows = box[at].size
    most = max(size(boxes[stage.name]) for stage in algorithm.stages)
    count = min(-(-most // MOST_POINTS), rows // LEAST_ROWS)
    while count > 1:
        middle = next(_cut(algorithm, arrays, name, at, count, count // 2))
        if points(algorithm, middle.boxes) * count <= MOST_WORK * points(algorithm, whole.boxes):
            return tuple(_cut(algorithm, arrays, name, at, count))
        count //= 2
    return (whole,)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some elements of the array of an output."""

    name: str
    place: tuple[slice, ...]
    """Of the elements in the array."""
    elements: Array
    error: Array | None
    """How far each may be off; None where all are exact."""


def parts(
    algorithm: Algorithm, cut: Sequence[Piece], inputs: Mapping[str, Array], *, is_random: bool = True
) -> Iterator[Part]:
    """Of all outputs, with the parameters' own values. Inputs are arrays as programs are called with."""
    with ThreadPoolExecutor(_threads(cut)) as threads:
        for found in threads.map(lambda piece: _parts(algorithm, piece, inputs, is_random=is_random), cut):
            yield from found


def most_bytes(algorithm: Algorithm, cut: Sequence[Piece]) -> int:
    """That evaluating pieces takes at once: stages, their errors, and what there is on the way to them."""
    return _threads(cut) * max(_bytes(algorithm, piece.boxes) for piece in cut)


def _bytes(algorithm: Algorithm, boxes: Mapping[str, Box]) -> int:
    """Of all stages three times, for errors and copies, and what the largest one takes on the way to it."""
    there = [stage for stage in algorithm.stages if stage.name in boxes]
    values = sum(size(boxes[stage.name]) * sum(d.nbytes for d in stage.dtypes) for stage in there)
    defined = max((size(boxes[stage.name]) for stage in there), default=0)
    updated = max((n for each, n in definitions(algorithm, boxes) if isinstance(each, Update)), default=0)
    return 3 * values + ON_THE_WAY * defined + UPDATED * updated


def _threads(cut: Sequence[Piece]) -> int:
    """So many that less is in memory at a time than the whole: few pieces are large ones."""
    return max(1, min(len(os.sched_getaffinity(0)), len(cut) - 1))


def _parts(algorithm: Algorithm, piece: Piece, inputs: Mapping[str, Array], *, is_random: bool) -> list[Part]:
    stages = evaluate_rounded(algorithm, piece.boxes, inputs, is_random=is_random)
    found = []
    for name, wanted in piece.outputs.items():
        inside = _slices(wanted, piece.boxes[name])
        place = _slices(wanted, algorithm.outputs[name])
        for array, rounded in zip(value_names(algorithm.stage(name)), stages[name], strict=True):
            error = None if rounded.error is None else rounded.error[inside].copy()
            found.append(Part(array, place, rounded.elements[inside].copy(), error))
    return found


def _slices(box: Box, array: Box) -> tuple[slice, ...]:
    """Where a box lies in the array of another one."""
    return tuple(
        slice(own.low - around.low, own.low - around.low + own.size)
        for own, around in reversed(list(zip(box, array, strict=True)))
    )


def _cut(
    algorithm: Algorithm, arrays: Mapping[str, Box], name: str, at: int, count: int, first: int = 0
) -> Iterator[Piece]:
    """From the piece of that number on."""
    box = algorithm.outputs[name]
    for number in range(first, count):
        low, high = (box[at].low + box[at].size * n // count for n in (number, number + 1))
        outputs = {name: (*box[:at], Extent(low, high - low), *box[at + 1 :])}
        needed, problems = infer(algorithm.stages, algorithm.inputs, outputs)
        assert not problems
        yield Piece(outputs, {**needed, **arrays})

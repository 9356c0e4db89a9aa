"""How far rounding may take the results of a correct program from those of the reference.

In: what `reference.py` takes. Out: the elements that it gives, and beside each how far a program may be off
that rounds otherwise: sums in another order, products fused with additions, functions of another library. The
error of a value is how far it moves as its operands move by theirs, and what its own operation is rounded by.
It travels through decisions as well: where it is not certain on which side of a comparison, or between which
integers, a value lies, what follows from either is allowed, and only there. What is exact has no error, so
that pipelines of integers have none. It is an estimate and no proof: a sum of n terms is off by what n
values of random sign give, or by what is lost beside a large sum, and of large ones some terms are looked at.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE, PRECISION
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Box,
    Constant,
    Expression,
    Extent,
    Read,
    Scalar,
    Stage,
    Undefined,
    Update,
    Variable,
    operands,
    walk,
)
from spacedsl.kernels.pipeline.best import Best
from spacedsl.kernels.pipeline.reductions import turn_count
from spacedsl.kernels.pipeline.reference import (
    GATHERING,
    MOST_TOGETHER,
    MOST_TURNS,
    Evaluator,
    Grid,
    computed,
    each_block,
    each_turn,
    gathering,
    keeps_all,
    kept,
    ranges,
    scalars_of,
    shape,
    turn_at,
)
from spacedsl.kernels.pipeline.rounded_operations import (
    Error,
    added,
    carried_error,
    distance,
    is_integral,
    magnitude,
    own_error,
)
from spacedsl.kernels.rounding import share_one_way

Array = NDArray[Any]

_SAMPLES, _MOST_SAMPLED = 8, 1 << 12
"""Terms of each sum of an update that are looked at where all of them are too many; more of each where there
are few sums: so many of all together."""
_FARTHEST = 4
"""Points that a position may be off by, so that what lies between says what is read."""

_NOWHERE = 2.0**31
"""What a position of i32 is off by where it may be any."""

_LEAST = np.nextafter(np.float32(0), np.float32(1))
"""What is not exact is off by, at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """Elements, and how far each may be off: of their shape, or None where they are exact."""

    elements: Array
    error: Array | None


def evaluate_rounded(
    algorithm: Algorithm,
    boxes: Mapping[str, Box],
    inputs: Mapping[str, Array],
    parameters: Mapping[str, float] | None = None,
    *,
    is_random: bool = True,
) -> dict[str, tuple[Rounded, ...]]:
    """As `reference.evaluate`, with errors. Memory: a float of 32 bits for each element that is not exact.

    `is_random`: of random inputs. Where they have a pattern, terms of a long sum may all be rounded one way.
    """
    arrays: dict[str, tuple[Array, ...]] = {
        i.name: (inputs[i.name],) for i in algorithm.inputs if i.name in boxes
    }
    evaluator = _Evaluator(boxes, arrays, scalars_of(algorithm, parameters), is_random=is_random)
    with np.errstate(all="ignore"):
        for stage in algorithm.stages:
            if stage.name in boxes:
                evaluator.stage(stage)
    return {
        s.name: tuple(map(Rounded, arrays[s.name], evaluator.errors[s.name]))
        for s in algorithm.stages
        if s.name in boxes
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Rivals:
    """What may be kept of each element, along further axes."""

    values: Sequence[Array]
    errors: Sequence[Error]
    is_there: Any


class _Evaluator(Evaluator):
    """Puts the errors of a stage beside its elements."""

    def __init__(
        self,
        boxes: Mapping[str, Box],
        arrays: dict[str, tuple[Array, ...]],
        scalars: Mapping[str, Any],
        *,
        is_random: bool,
    ) -> None:
        super().__init__(boxes, arrays, scalars)
        self.is_random = is_random
        self.errors: dict[str, list[Array | None]] = {name: [None] for name in arrays}

    def stage(self, stage: Stage) -> None:
        box = self.boxes[stage.name]
        grid = Grid(tuple(reversed(list(zip(stage.variables, box, strict=True)))), {})
        made: list[Array] = []
        self.errors[stage.name] = []
        for value in stage.values:
            elements, error = self.pair(value, grid)
            made.append(np.empty(shape(box), NUMBER_TYPE[value.dtype]))
            made[-1][...] = elements
            self.errors[stage.name].append(_stored(error, shape(box)))
        self.arrays[stage.name] = tuple(made)
        for update in stage.updates:
            self.update(stage, update, dict(zip(stage.variables, box, strict=True)))

    # ---- Updates ---------------------------------------------------------------------------------------

    def update(self, stage: Stage, update: Update, box: Mapping[str, Extent]) -> None:
        self.updated(stage, update, box)
        for element, value in enumerate(update.values):
            is_extreme = isinstance(value, Binary) and value.operator in ("min", "max")
            if is_extreme and value.dtype.is_float:
                # What is left where one of several values is no number depends on their order.
                is_none = np.isnan(self.arrays[stage.name][element])
                if is_none.any():
                    errors = _room(self.errors[stage.name][element], is_none.shape)
                    self.errors[stage.name][element] = np.where(is_none, np.float32(np.inf), errors)

    def updated(self, stage: Stage, update: Update, box: Mapping[str, Extent]) -> None:
        summed, count = gathering(stage, update), turn_count(update)
        sums = math.prod(e.size for _, e in kept(stage, update, box))
        if (
            summed is None
            or summed.operator != "+"
            or update.condition is not None
            or count * sums <= MOST_TOGETHER
            or not keeps_all(stage, update)
        ):
            super().update(stage, update, box)
            return
        # Each element is the sum of as many terms as there are turns.
        is_done = self.contract(stage, update, summed, box)
        if not is_done and count > MOST_TURNS:
            for grid in each_block(stage, update, box):
                self.reduce(stage, update, summed, grid)
        elif not is_done:
            super().turns(stage, update, summed, box)
        if self.is_exact(summed.right):
            return
        samples = min(count, max(_SAMPLES, _MOST_SAMPLED // max(1, sums)))
        grids = (turn_at(n, stage, update, box) for n in _spread(count, samples))
        pairs = [self.pair(summed.right, grid) for grid in grids]
        found = [e for _, e in pairs if e is not None]
        error = functools.reduce(np.maximum, found) if found else None
        term = max(magnitude(t) for t, _ in pairs)
        error = self.sum_error(self.arrays[stage.name][0], count, term, error)
        before = self.errors[stage.name][0]
        self.errors[stage.name] = [_stored(added(before, error), self.arrays[stage.name][0].shape)]

    def is_exact(self, node: Expression) -> bool:
        """Whether it is made of exact integers alone."""
        parts = [*walk(node)]
        errors = [error for part in parts if isinstance(part, Read) for error in self.errors[part.source]]
        return not any(part.dtype.is_float for part in parts) and all(error is None for error in errors)

    def sum_error(self, result: Array, count: int | Array, term: float, error: Error) -> Error:
        """Of `count` terms, of each element or all, of at most this magnitude and this error each."""
        dtype = DType.of(_LABELS[result.dtype.type])
        if not dtype.is_float:
            return error if error is None else count * error
        if error is None and np.max(count) * term < 0.25 / PRECISION[dtype] and is_integral(result):
            return None
        reached = np.abs(result.astype(np.promote_types(result.dtype, np.float32)))
        # Beside a sum that is large enough, all terms may be lost.
        is_one_way = (not self.is_random) | (PRECISION[dtype] * reached > term)
        root = np.sqrt(count)
        is_worst = is_one_way & (count / 4 > 2 * root)
        lost = count / 4 * share_one_way(reached, term, PRECISION[dtype])
        steps = np.where(is_worst, count / 4, np.maximum(2 * root, lost))
        own = PRECISION[dtype] * (8 + steps) * np.maximum(reached, np.where(is_worst, count, root) * term)
        return own if error is None else own + count * error

    def turns(self, stage: Stage, update: Update, gathered: Binary | None, box: Mapping[str, Extent]) -> None:
        is_exact = gathered is not None and self.is_exact(gathered)
        super().turns(stage, update, gathered if is_exact else None, box)

    def turn(self, stage: Stage, update: Update, grid: Grid) -> None:
        lengths = tuple(extent.size for _, extent in grid.axes)
        condition, is_open = None, None
        if update.condition is not None:
            condition, is_open = self.pair(update.condition, grid)
        pairs = [self.pair(value, grid) for value in update.values]
        if len(pairs) > 1:
            # One value may be a view of what the other one is about to replace.
            pairs = [(np.array(value), error) for value, error in pairs]
        where, off = self.positions(stage.name, update.point, grid)
        if off is not None or is_open is not None:
            where = where or self.index(stage.name, update.point, grid)
        index = tuple(np.broadcast_to(w, lengths) for w in where)
        if off is not None and condition is not None:
            counts = condition if is_open is None else condition | (np.asarray(is_open) > 0)
            off = [None if each is None else np.where(counts, each, 0) for each in off]
        errors = self.errors[stage.name]
        for element, (array, (value, error)) in enumerate(zip(self.arrays[stage.name], pairs, strict=True)):
            is_certain = is_open is None and off is None
            jump = None if is_certain else distance(np.broadcast_to(value, lengths), array[index])
            self.write(array, stage, update, grid, value, condition)
            if error is None and jump is None and errors[element] is None:
                continue
            held = errors[element] = _room(errors[element], array.shape)
            self.write(held, stage, update, grid, np.float32(0) if error is None else error, condition)
            if jump is not None:
                if is_open is not None:
                    some = np.broadcast_to(is_open, lengths) > 0
                    if index:
                        np.add.at(held, tuple(i[some] for i in index), jump[some])
                    else:
                        held += np.where(some, jump, 0)
                if _is_added(stage, update, element):
                    _spread_out(held, off, index, jump)
                elif off is not None:
                    _put_beside(held, off, index, jump, np.broadcast_to(value, lengths), array)

    def keep(self, stage: Stage, update: Update, wanted: Best, box: Mapping[str, Extent]) -> None:
        """With the errors of what is kept, and how far away is what may be kept in its place."""
        blocks = [*each_block(stage, update, box)]
        if wanted.condition is not None and any(
            self.pair(wanted.condition, b)[1] is not None for b in blocks
        ):
            # Without what may not be there, any other may be the best.
            self.turns(stage, update, None, box)
            return
        arrays, errors = self.arrays[stage.name], self.errors[stage.name]
        before = _Rivals(
            [np.array(a)[..., None] for a in arrays],
            [None if e is None else e[..., None] for e in errors],
            True,
        )
        own = [*errors]
        for grid in blocks:
            offer = self.offer(stage, wanted, grid)
            for element, (array, value) in enumerate(zip(arrays, offer.values, strict=True)):
                np.copyto(array, value[offer.where], where=offer.is_better)
                error = self.pair(wanted.values[element], grid)[1]
                held = own[element]
                if error is not None or held is not None:
                    error = np.broadcast_to(0 if error is None else error, value.shape)[offer.where]
                    held = np.where(offer.is_better, error, 0 if held is None else held)
                    own[element] = _stored(held, array.shape)
        found = [*own]
        self.rival(wanted, arrays, own, before, found)
        for grid in blocks:
            offer = self.offer(stage, wanted, grid)
            pairs = [self.pair(value, grid)[1] for value in wanted.values]
            self.rival(wanted, arrays, own, _Rivals(offer.values, pairs, offer.is_there), found)
        self.errors[stage.name] = found

    def rival(
        self,
        wanted: Best,
        arrays: Sequence[Array],
        own: Sequence[Array | None],
        rivals: _Rivals,
        found: list[Array | None],
    ) -> None:
        """Adds to what is found how far away those are that may be better. `own`: errors of what is kept."""
        if rivals.errors[wanted.decisive] is None and own[wanted.decisive] is None:
            return
        ranks = [1] * (np.ndim(rivals.values[0]) - arrays[0].ndim)
        along = tuple(range(arrays[0].ndim, arrays[0].ndim + len(ranks)))
        off = [0 if e is None else e.reshape(*e.shape, *ranks) for e in own]
        apart = [distance(v, a.reshape(*a.shape, *ranks)) for v, a in zip(rivals.values, arrays, strict=True)]
        errors = [0 if e is None else e for e in rivals.errors]
        reach = errors[wanted.decisive] + off[wanted.decisive]
        is_open = rivals.is_there & (reach > 0) & (apart[wanted.decisive] <= reach)
        if not is_open.any():
            return
        for element, array in enumerate(arrays):
            moved = np.where(is_open, apart[element] + errors[element], 0).max(axis=along)
            before = found[element]
            found[element] = _stored(moved if before is None else np.maximum(moved, before), array.shape)

    def gather(self, stage: Stage, update: Update, gathered: Binary, box: Mapping[str, Extent]) -> None:
        is_kept, is_exact = keeps_all(stage, update), self.is_exact(gathered.right)
        if gathered.operator == "*" and not (is_kept and is_exact and update.condition is None):
            # How far a product moves by one of its terms, all others say.
            for grid in each_turn(stage, update, box):
                self.turn(stage, update, grid)
            return
        is_extreme = gathered.operator in ("min", "max")
        if is_extreme and (self.is_open(stage, update, box) or not (is_kept or is_exact)):
            self.between(stage, update, gathered, box)
            return
        super().gather(stage, update, gathered, box)
        if is_kept:
            self.reduced(stage, update, gathered, box)
            return
        grid = Grid((*kept(stage, update, box), *ranges(update)), {})
        lengths = tuple(extent.size for _, extent in grid.axes)
        where, off = self.positions(stage.name, update.point, grid)
        where = where or self.index(stage.name, update.point, grid)
        index = tuple(np.broadcast_to(w, lengths) for w in where)
        term, error = self.pair(gathered.right, grid)
        array = self.arrays[stage.name][0]
        total = self.errors[stage.name][0]
        if gathered.operator == "+":
            own = self.sum_error(array, turn_count(update), magnitude(term), None)
            if own is not None and off is None:
                hits = np.zeros(array.shape, np.int64)
                np.add.at(hits, index, 1)
                own = self.sum_error(array, hits, magnitude(term), None)
            total = _stored(added(total, own), array.shape)
        is_open = None if update.condition is None else self.pair(update.condition, grid)[1]
        if is_open is not None:
            total, some = _room(total, array.shape), np.broadcast_to(is_open, lengths) > 0
            np.add.at(total, tuple(i[some] for i in index), np.broadcast_to(np.abs(term), lengths)[some])
        if error is not None or off is not None:
            total = _room(total, array.shape)
            if error is not None:
                np.add.at(total, index, np.broadcast_to(error, lengths))
            _spread_out(total, off, index, np.broadcast_to(np.abs(term), lengths))
        self.errors[stage.name] = [total]

    def is_open(self, stage: Stage, update: Update, box: Mapping[str, Extent]) -> bool:
        """Whether it is not certain which points count, or where."""
        condition = update.condition
        return any(
            self.positions(stage.name, update.point, grid)[1] is not None
            or (condition is not None and self.pair(condition, grid)[1] is not None)
            for grid in each_block(stage, update, box)
        )

    def between(self, stage: Stage, update: Update, gathered: Binary, box: Mapping[str, Extent]) -> None:
        """Of an extreme, what is found without all that is not certain, and with all that there may be."""
        operation = GATHERING[gathered.operator]
        least, most = (np.array(self.arrays[stage.name][0], ndmin=1) for _ in range(2))
        total = np.atleast_1d(_room(self.errors[stage.name][0], self.arrays[stage.name][0].shape))
        super().gather(stage, update, gathered, box)
        for grid in each_block(stage, update, box):
            lengths = tuple(extent.size for _, extent in grid.axes)
            where, off = self.positions(stage.name, update.point, grid)
            where = where or self.index(stage.name, update.point, grid)
            index = tuple(np.broadcast_to(w, lengths) for w in where or (0,))
            pair = self.pair(gathered.right, grid)
            term, error = (np.broadcast_to(0 if each is None else each, lengths) for each in pair)
            is_there, is_open = np.True_, None
            if update.condition is not None:
                is_there, is_open = self.pair(update.condition, grid)
            unsure = np.broadcast_to(0 if is_open is None else is_open, lengths) > 0
            may = np.broadcast_to(is_there, lengths) | unsure
            moves = _lost(off, lengths, 0)
            sure = may & ~unsure & ~moves
            operation.at(least, tuple(i[sure] for i in index), term[sure])
            own = (may, tuple(i[may] for i in index))
            for some, places in (own, *_beside(off or [], index, least.shape)):
                there = may[some]
                at = tuple(place[there] for place in places)
                operation.at(most, at, term[some][there])
                np.maximum.at(total, at, error[some][there])
            lost = _lost(off, lengths) & may
            if lost.any():
                operation(most, operation.reduce(term[lost]), out=most)
                np.maximum(total, magnitude(error[lost]), out=total)
        array = self.arrays[stage.name][0]
        total = added(total, np.maximum(distance(least, array), distance(most, array)))
        self.errors[stage.name] = [_stored(np.reshape(total, array.shape), array.shape)]

    def reduced(self, stage: Stage, update: Update, gathered: Binary, box: Mapping[str, Extent]) -> None:
        """The errors of what each element finds along the ranges: of a sum, all of them; of an extreme, the
        greatest.
        """
        array, before = self.arrays[stage.name][0], self.errors[stage.name][0]
        is_sum = gathered.operator == "+"
        joined = np.add if is_sum else np.maximum
        greatest, total = 0.0, None
        for grid in each_block(stage, update, box):
            lengths = tuple(extent.size for _, extent in grid.axes)
            term, error = self.pair(gathered.right, grid)
            greatest = max(greatest, magnitude(term))
            error = added(error, self.jump(update, term, grid))
            if error is not None:
                along = tuple(range(array.ndim, len(lengths)))
                found = joined.reduce(np.broadcast_to(error, lengths), axis=along)
                total = found if total is None else joined(total, found)
        if is_sum:
            total = added(total, self.sum_error(array, turn_count(update), greatest, None))
        self.errors[stage.name] = [_stored(added(before, total), array.shape)]

    def jump(self, update: Update, term: Any, grid: Grid) -> Error:
        """How far sums move by terms of which it is not certain whether they count."""
        is_open = None if update.condition is None else self.pair(update.condition, grid)[1]
        return None if is_open is None else np.where(np.asarray(is_open) > 0, np.abs(term), 0)

    # ---- Expressions -----------------------------------------------------------------------------------

    def pair(self, node: Expression, grid: Grid) -> tuple[Any, Error]:
        """A value as the reference has it, and its error."""
        match node:
            case Constant() | Undefined() | Variable() | Scalar():
                return self.value(node, grid), None
            case Read():
                return self.read_pair(node, grid)
        given = [self.pair(operand, grid) for operand in operands(node)]
        values = [v for v, _ in given]
        value = computed(node, values)
        if all(e is None for _, e in given):
            return value, own_error(node, value, values)
        carried = carried_error(node, value, given)
        error = added(carried, own_error(node, value, values, carried))
        if not node.dtype.is_float and not np.any(error):
            return value, None
        return value, error

    def read_pair(self, node: Read, grid: Grid) -> tuple[Any, Error]:
        array = self.arrays[node.source][node.element]
        held = self.errors[node.source][node.element]
        where, off = self.positions(node.source, node.point, grid)
        if off is None:
            return self.taken(array, node, grid), None if held is None else self.taken(held, node, grid)
        index = np.broadcast_arrays(*where)
        value = array[tuple(index)]
        # Of a single position, as each hit of an update has, there is an array as well.
        error = (
            np.zeros(value.shape, np.float32) if held is None else np.array(held[tuple(index)], np.float32)
        )
        for some, beside in _beside(off, index, array.shape):
            found = distance(array[beside], value[some])
            error[some] = np.maximum(error[some], found if held is None else found + held[beside])
        lost = _lost(off, value.shape)
        if lost.any():
            error[lost] = magnitude(distance(array, array.flat[0])) * 2
            # What is inlined has a value there, wherever that is.
            error[_lost(off, value.shape, _NOWHERE)] = np.inf
        return value, error

    def positions(
        self, source: str, point: Sequence[Expression], grid: Grid
    ) -> tuple[tuple[Any, ...], list[Error] | None]:
        """Those in an array, and how far they may be off; nothing of either where all are certain."""
        if all(_is_certain(at) for at in point):
            return (), None
        pairs = [self.pair(at, grid) for at in reversed(point)]
        errors = [e for _, e in pairs]
        if all(e is None for e in errors):
            return (), None
        extents = reversed(self.boxes[source])
        return tuple(_held(*pair, extent) for pair, extent in zip(pairs, extents, strict=True)), errors

    def index(self, source: str, point: Sequence[Expression], grid: Grid) -> tuple[Any, ...]:
        where, _ = self.positions(source, point, grid)
        return where or super().index(source, point, grid)


def _is_certain(position: Expression) -> bool:
    """Whether nothing that is read, and no float, is part of it."""
    return not any(isinstance(node, Read) or node.dtype.is_float for node in walk(position))


def _held(value: Any, error: Error, extent: Extent) -> Any:
    """A position in an array; one that may be anywhere is inside, as in code that is made."""
    at = value - extent.low
    if error is None or not np.any(lost := np.asarray(error) > _FARTHEST):
        return at
    return np.where(lost, np.clip(at, 0, extent.size - 1), at)


# ---- Errors of arrays ------------------------------------------------------------------------------------


def _stored(error: Error, lengths: tuple[int, ...]) -> Array | None:
    """What is no number says nothing: anything may be there. What is something stays something."""
    if error is None:
        return None
    found = np.empty(lengths, np.float32)
    found[...] = error
    found[np.isnan(found)] = np.inf
    if np.result_type(error) == np.float64:
        np.copyto(found, _LEAST, where=(found == 0) & (np.asarray(error) > 0))
    return found


def _room(error: Array | None, lengths: tuple[int, ...]) -> Array:
    return np.zeros(lengths, np.float32) if error is None else error


def _beside(
    off: list[Error], index: Sequence[Array], lengths: tuple[int, ...]
) -> Iterator[tuple[Array, tuple[Array, ...]]]:
    """Which points have an uncertain position, and other places that they may mean, also these."""
    for dimension, error in enumerate(off):
        if error is None:
            continue
        reach = np.broadcast_to(error, index[dimension].shape)
        for step in range(-_FARTHEST, _FARTHEST + 1):
            some = np.asarray((reach > 0) & (reach >= abs(step)))
            if some.any():
                places = [i[some] for i in index]
                places[dimension] = np.clip(places[dimension] + step, 0, lengths[dimension] - 1)
                yield some, tuple(places)


def _lost(off: list[Error] | None, lengths: tuple[int, ...], farthest: float = _FARTHEST) -> Array:
    """Which points may be anywhere, beyond what is looked at; or farther away than a number says."""
    found = np.zeros(lengths, np.bool_)
    for error in off or ():
        if error is not None:
            found |= np.broadcast_to(error, lengths) > farthest
    return found


def _is_added(stage: Stage, update: Update, element: int) -> bool:
    """Whether a value is the one that is there, and something more."""
    value, own = update.values[element], Read(stage.name, update.point, stage.dtypes[element], element)
    match value:
        case Binary("+", left, right):
            return own in (left, right)
        case Binary("-", left):
            return left == own
    return False


def _put_beside(
    held: Array, off: list[Error], index: Sequence[Array], jump: Array, value: Array, array: Array
) -> None:
    """The errors of what takes the place of what is there, where it is not certain which place that is."""
    moves = _lost(off, value.shape, 0)
    np.add.at(held, tuple(i[moves] for i in index), jump[moves])
    for some, beside in _beside(off, index, held.shape):
        np.maximum.at(held, beside, distance(value[some], array[beside]))
    lost = _lost(off, value.shape)
    if lost.any():
        ends = value[lost].min(), value[lost].max()
        np.maximum(held, max(magnitude(distance(array, end)) for end in ends), out=held)


def _spread_out(held: Array, off: list[Error] | None, index: Sequence[Array], amount: Array) -> None:
    """Adds to the errors wherever something may have been written that is at an uncertain place."""
    if off is None:
        return
    for some, beside in _beside(off, index, held.shape):
        np.add.at(held, beside, amount[some])
    if _lost(off, amount.shape).any():
        held += magnitude(amount)


def _spread(count: int, samples: int) -> list[int]:
    """Some of so many, the first and the last among them."""
    return sorted({round(n * (count - 1) / max(1, samples - 1)) for n in range(samples)})


_LABELS = {kind: dtype.label for dtype, kind in NUMBER_TYPE.items()}

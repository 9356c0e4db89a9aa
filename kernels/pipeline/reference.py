"""What an algorithm should compute: its stages evaluated with NumPy, each as a whole.

In: an algorithm, the boxes that `bounds.py` found, arrays for its inputs. Out: an array for each stage. An
array has the shape of the box, its innermost dimension last, and its first element is the box's least point.
It follows the definitions and knows no schedule, so that it can judge what does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline.affine import Linear, linear
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Apply,
    Binary,
    Box,
    Cast,
    Compare,
    Constant,
    Expression,
    Extent,
    Read,
    Scalar,
    Select,
    Stage,
    Unary,
    Undefined,
    Update,
    Variable,
    operands,
)
from spacedsl.kernels.pipeline.best import Best, best
from spacedsl.kernels.pipeline.contractions import contract
from spacedsl.kernels.pipeline.reductions import (
    is_accumulation,
    is_associative,
    neutral_value,
    turn_count,
)

Array = NDArray[Any]

MOST_TURNS = 4096
"""Of an update, in Python; one that has more of them, and only gathers, is done at once."""

MOST_TOGETHER = 1 << 22
"""Values that are gathered at once where each point has its own."""

GATHERING: Mapping[str, np.ufunc] = {
    "+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum
}  # fmt: skip
_OPERATIONS: Mapping[str, np.ufunc] = {
    **GATHERING, "-": np.subtract, "%": np.mod, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor, "<<": np.left_shift, ">>": np.right_shift, "&&": np.logical_and,
    "||": np.logical_or, "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
    ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_FUNCTIONS = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "round": np.rint, "pow": np.power,
    "atan2": np.arctan2,
}  # fmt: skip
"""Those that NumPy calls otherwise."""


def evaluate(
    algorithm: Algorithm,
    boxes: Mapping[str, Box],
    inputs: Mapping[str, Array],
    parameters: Mapping[str, float] | None = None,
) -> dict[str, tuple[Array, ...]]:
    """The elements of all stages that are needed; parameters have their own values where none are given."""
    arrays: dict[str, tuple[Array, ...]] = {
        i.name: (inputs[i.name],) for i in algorithm.inputs if i.name in boxes
    }
    with np.errstate(all="ignore"):
        for stage in algorithm.stages:
            if stage.name in boxes:
                Evaluator(boxes, arrays, scalars_of(algorithm, parameters)).stage(stage)
    return {s.name: arrays[s.name] for s in algorithm.stages if s.name in boxes}


def scalars_of(algorithm: Algorithm, values: Mapping[str, float] | None) -> dict[str, Any]:
    """Of its parameters, their own values where none are given."""
    known = {p.name: p.value for p in algorithm.parameters} | dict(values or {})
    return {p.name: NUMBER_TYPE[p.dtype](known[p.name]) for p in algorithm.parameters}


def shape(box: Box) -> tuple[int, ...]:
    """Of an array that holds the box."""
    return tuple(extent.size for extent in reversed(box))


@dataclass(frozen=True, slots=True)
class Grid:
    """Variables that are axes, outermost first, and those that have one value for the time being."""

    axes: tuple[tuple[str, Extent], ...]
    fixed: Mapping[str, int]

    def extent(self, name: str) -> Extent | None:
        return next((extent for axis, extent in self.axes if axis == name), None)


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What some points offer to the elements of a stage, each for itself."""

    values: Sequence[Array]
    """At each point."""
    is_there: Array
    """Whether a point offers anything."""
    where: tuple[Array, ...]
    """For each element, the best of these points."""
    is_better: Array
    """Whether that one is better than what the element is."""


class Evaluator:
    """Puts the elements of one stage after the other into `arrays`, beside those of the inputs."""

    def __init__(
        self,
        boxes: Mapping[str, Box],
        arrays: dict[str, tuple[Array, ...]],
        scalars: Mapping[str, Any],
    ) -> None:
        self.boxes = boxes
        self.arrays = arrays
        self.scalars = scalars

    def stage(self, stage: Stage) -> None:
        box = self.boxes[stage.name]
        axes = tuple(reversed(list(zip(stage.variables, box, strict=True))))
        grid = Grid(axes, {})
        made = []
        for value in stage.values:
            array = np.empty(shape(box), NUMBER_TYPE[value.dtype])
            array[...] = self.value(value, grid)
            made.append(array)
        self.arrays[stage.name] = tuple(made)
        for update in stage.updates:
            self.update(stage, update, dict(zip(stage.variables, box, strict=True)))

    # ---- Updates ---------------------------------------------------------------------------------------

    def update(self, stage: Stage, update: Update, box: Mapping[str, Extent]) -> None:
        gathered = gathering(stage, update)
        if gathered is not None and self.contract(stage, update, gathered, box):
            return
        if turn_count(update) > MOST_TURNS and gathered is not None:
            self.gather(stage, update, gathered, box)
            return
        wanted = best(stage, update)
        if wanted is not None and is_accumulation(stage, update):
            self.keep(stage, update, wanted, box)
            return
        self.turns(stage, update, gathered, box)

    def turns(self, stage: Stage, update: Update, gathered: Binary | None, box: Mapping[str, Extent]) -> None:
        """All points of the ranges, one after the other. `gathered`: what only adds to what is there."""
        if gathered is not None and update.condition is None and keeps_all(stage, update):
            (array,), operation = self.arrays[stage.name], GATHERING[gathered.operator]
            for grid in each_turn(stage, update, box):
                operation(array, self.value(gathered.right, grid), out=array)
            return
        for grid in each_turn(stage, update, box):
            self.turn(stage, update, grid)

    def turn(self, stage: Stage, update: Update, grid: Grid) -> None:
        """One point of the ranges, for all values of the variables that are kept."""
        condition = None if update.condition is None else self.value(update.condition, grid)
        arrays = self.arrays[stage.name]
        values = [self.value(value, grid) for value in update.values]
        if len(values) > 1:
            # One value may be a view of what the other one is about to replace.
            values = [np.array(value) for value in values]
        for array, value in zip(arrays, values, strict=True):
            self.write(array, stage, update, grid, value, condition)

    def write(
        self, array: Array, stage: Stage, update: Update, grid: Grid, value: Any, condition: Any
    ) -> None:
        """Puts values where an update writes, in an array with the points of its stage."""
        lengths = tuple(extent.size for _, extent in grid.axes)
        place = self.slices(array, Read(stage.name, update.point, stage.dtypes[0]), grid)
        is_done = True if condition is None else np.broadcast_to(condition, lengths)
        if place is not None and place.shape == lengths:
            np.copyto(place, value, where=is_done)
            return
        where = tuple(np.broadcast_to(w, lengths) for w in self.index(stage.name, update.point, grid))
        value = np.broadcast_to(value, lengths)
        if condition is None:
            array[where] = value
        else:
            array[tuple(w[is_done] for w in where)] = value[is_done]

    def contract(self, stage: Stage, update: Update, gathered: Binary, box: Mapping[str, Extent]) -> bool:
        """Whether it is done as a sum of products: of many of them, all at once."""
        if gathered.operator != "+" or update.condition is not None or not keeps_all(stage, update):
            return False
        axes, along = kept(stage, update, box), ranges(update)
        terms = math.prod(extent.size for _, extent in (*axes, *along))
        (array,) = self.arrays[stage.name]
        return terms > MOST_TOGETHER and contract(gathered.right, self.arrays, self.boxes, axes, along, array)

    def gather(self, stage: Stage, update: Update, gathered: Binary, box: Mapping[str, Extent]) -> None:
        """All points at once, of which each only adds to what is there."""
        if keeps_all(stage, update):
            for grid in each_block(stage, update, box):
                self.reduce(stage, update, gathered, grid)
        else:
            self.scatter(stage, update, gathered, Grid((*kept(stage, update, box), *ranges(update)), {}))

    def reduce(self, stage: Stage, update: Update, gathered: Binary, grid: Grid) -> None:
        """To each element what there is along some of the ranges, which are the last axes."""
        lengths = tuple(extent.size for _, extent in grid.axes)
        (array,), operation = self.arrays[stage.name], GATHERING[gathered.operator]
        value = np.broadcast_to(self.value(gathered.right, grid), lengths)
        if update.condition is not None:
            nothing = array.dtype.type(neutral_value(gathered.operator, gathered.dtype))
            value = np.where(self.value(update.condition, grid), value, nothing)
        if not stage.dtypes[0].has_arithmetic:
            # Of so few digits, the order of a sum decides what it comes to: one after the other.
            each = np.concatenate([array[..., None], value.reshape(*array.shape, -1)], axis=-1)
            array[...] = operation.accumulate(each, axis=-1, dtype=array.dtype)[..., -1]
            return
        along = tuple(range(array.ndim, len(lengths)))
        # In the type of the elements, in which sums wrap around.
        operation(array, operation.reduce(value, axis=along, dtype=array.dtype), out=array)

    def keep(self, stage: Stage, update: Update, wanted: Best, box: Mapping[str, Extent]) -> None:
        """The best that each element meets, many points together."""
        for grid in each_block(stage, update, box):
            offer = self.offer(stage, wanted, grid)
            for array, value in zip(self.arrays[stage.name], offer.values, strict=True):
                np.copyto(array, value[offer.where], where=offer.is_better)

    def offer(self, stage: Stage, wanted: Best, grid: Grid) -> Offer:
        """Of the points along some of the ranges, which are the last axes."""
        lengths = tuple(extent.size for _, extent in grid.axes)
        values = [np.broadcast_to(self.value(value, grid), lengths) for value in wanted.values]
        compared, rank = values[wanted.decisive], len(stage.variables)
        # But for what is no number.
        is_there = np.equal(compared, compared)
        if wanted.condition is not None:
            is_there &= self.value(wanted.condition, grid)
        worst = compared.dtype.type(neutral_value(wanted.extreme, wanted.dtype))
        along = tuple(range(rank, len(lengths)))
        reached = GATHERING[wanted.extreme].reduce(
            np.where(is_there, compared, worst), axis=along, keepdims=True
        )
        is_best = (is_there & (compared == reached)).reshape(*lengths[:rank], -1)
        place = is_best.argmax(axis=-1)
        if not wanted.is_first:
            place = is_best.shape[-1] - 1 - is_best[..., ::-1].argmax(axis=-1)
        where = (*np.indices(lengths[:rank], sparse=True), *np.unravel_index(place, lengths[rank:]))
        before = self.arrays[stage.name][wanted.decisive]
        is_better = is_best.any(axis=-1) & _OPERATIONS[wanted.comparator](compared[where], before)
        return Offer(values, is_there, where, is_better)

    def scatter(self, stage: Stage, update: Update, gathered: Binary, grid: Grid) -> None:
        """To elements that positions lead to."""
        lengths = tuple(extent.size for _, extent in grid.axes)
        where = tuple(np.broadcast_to(w, lengths) for w in self.index(stage.name, update.point, grid))
        value = np.broadcast_to(self.value(gathered.right, grid), lengths)
        if update.condition is not None:
            condition = np.broadcast_to(self.value(update.condition, grid), lengths)
            where, value = tuple(w[condition] for w in where), value[condition]
        GATHERING[gathered.operator].at(self.arrays[stage.name][0], where, value)

    # ---- Expressions -----------------------------------------------------------------------------------

    def value(self, node: Expression, grid: Grid) -> Any:
        """An array that can be broadcast to the axes."""
        match node:
            case Constant(value, dtype):
                return NUMBER_TYPE[dtype](value)
            case Undefined(dtype):
                return NUMBER_TYPE[dtype](math.nan if dtype.is_float else 0x55)
            case Variable(name):
                return self.variable(name, grid)
            case Scalar(name):
                return self.scalars[name]
            case Read():
                return self.read(node, grid)
            case _:
                return computed(node, [self.value(operand, grid) for operand in operands(node)])

    def variable(self, name: str, grid: Grid) -> Any:
        if name in grid.fixed:
            return np.int32(grid.fixed[name])
        for at, (axis, extent) in enumerate(grid.axes):
            if axis == name:
                values = np.arange(extent.low, extent.high + 1, dtype=np.int32)
                return values.reshape([-1] + [1] * (len(grid.axes) - at - 1))
        raise KeyError(name)

    def read(self, node: Read, grid: Grid) -> Any:
        return self.taken(self.arrays[node.source][node.element], node, grid)

    def taken(self, array: Array, node: Read, grid: Grid) -> Any:
        """What a read finds in an array with the points of its source."""
        if (part := self.slices(array, node, grid)) is not None:
            return part
        return array[self.index(node.source, node.point, grid)]

    def index(self, source: str, point: Sequence[Expression], grid: Grid) -> tuple[Any, ...]:
        box = self.boxes[source]
        return tuple(
            self.value(at, grid) - extent.low for at, extent in reversed(list(zip(point, box, strict=True)))
        )

    def slices(self, array: Array, node: Read, grid: Grid) -> Any:
        """A view, where each position is a variable of its own, times a number, and a constant."""
        names = []
        parts: list[slice | int] = []
        for at, extent in reversed(list(zip(node.point, self.boxes[node.source], strict=True))):
            form = _with_values(linear(at), grid.fixed)
            if len(form.terms) > 1:
                return None
            if not form.terms:
                parts.append(form.constant - extent.low)
                continue
            ((atom, step),) = form.terms
            axis = grid.extent(atom.name) if isinstance(atom, Variable) else None
            if axis is None or step < 1 or atom in names:
                return None
            first = form.constant + step * axis.low - extent.low
            parts.append(slice(first, first + step * (axis.size - 1) + 1, step))
            names.append(atom)
        view = array[(*parts, ...)]
        order = [names.index(Variable(name)) for name, _ in grid.axes if Variable(name) in names]
        present = iter(np.shape(view.transpose(order)))
        lengths = [next(present) if Variable(name) in names else 1 for name, _ in grid.axes]
        return view.transpose(order).reshape(lengths)


def ranges(update: Update) -> tuple[tuple[str, Extent], ...]:
    """The outermost first."""
    return tuple((r.name, Extent(r.low, r.high - r.low)) for r in reversed(update.ranges))


def kept(stage: Stage, update: Update, box: Mapping[str, Extent]) -> tuple[tuple[str, Extent], ...]:
    """The variables of the stage that an update is done for each value of, the outermost first."""
    return tuple((v, box[v]) for v in reversed(stage.variables) if v in update.variables(stage))


def keeps_all(stage: Stage, update: Update) -> bool:
    """Whether each element of the stage is updated by itself, and with all that there is along the ranges."""
    return len(update.variables(stage)) == len(stage.variables)


def each_turn(stage: Stage, update: Update, box: Mapping[str, Extent]) -> Iterator[Grid]:
    """The points of its ranges in order, each with all values of the variables that are kept."""
    names = [name for name, _ in ranges(update)]
    axes = kept(stage, update, box)
    for point in itertools.product(*(range(e.low, e.high + 1) for _, e in ranges(update))):
        yield Grid(axes, dict(zip(names, point, strict=True)))


def turn_at(number: int, stage: Stage, update: Update, box: Mapping[str, Extent]) -> Grid:
    """One of these, by its number."""
    point: dict[str, int] = {}
    for name, extent in reversed(ranges(update)):
        number, place = divmod(number, extent.size)
        point[name] = extent.low + place
    return Grid(kept(stage, update, box), point)


def each_block(stage: Stage, update: Update, box: Mapping[str, Extent]) -> Iterator[Grid]:
    """Parts of its ranges in order, as axes behind those of the variables: not too many points together."""
    axes = kept(stage, update, box)
    room = max(1, MOST_TOGETHER // max(1, math.prod(extent.size for _, extent in axes)))
    whole: tuple[tuple[str, Extent], ...] = ()
    outer = [*ranges(update)]
    while outer and outer[-1][1].size <= room:
        whole = (outer.pop(), *whole)
        room //= max(1, whole[0][1].size)
    if not outer:
        yield Grid((*axes, *whole), {})
        return
    name, cut = outer.pop()
    names = [each for each, _ in outer]
    for point in itertools.product(*(range(e.low, e.high + 1) for _, e in outer)):
        for low in range(cut.low, cut.high + 1, room):
            part = Extent(low, min(room, cut.high + 1 - low))
            yield Grid((*axes, (name, part), *whole), dict(zip(names, point, strict=True)))


def _with_values(form: Linear, fixed: Mapping[str, int]) -> Linear:
    """Variables that have a value, as numbers."""
    constant = form.constant
    terms = []
    for atom, number in form.terms:
        if isinstance(atom, Variable) and atom.name in fixed:
            constant += number * fixed[atom.name]
        else:
            terms.append((atom, number))
    return Linear(constant, tuple(terms))


def gathering(stage: Stage, update: Update) -> Binary | None:
    """What the update adds to the one value of its stage, where it reads nothing else of it."""
    if len(update.values) != 1:
        return None
    value = update.values[0]
    if isinstance(value, Binary) and value.operator in GATHERING and is_associative(stage, update):
        return value
    return None


def computed(node: Expression, given: Sequence[Any]) -> Any:
    """The value of an expression from those of its operands."""
    match node:
        case Unary(operator):
            return {"-": np.negative, "!": np.logical_not, "~": np.invert}[operator](*given)
        case Binary("/"):
            return np.divide(*given) if node.dtype.is_float else np.floor_divide(*given)
        case Binary("min" | "max" as operator) if node.dtype.is_float:
            # The first one where it is beyond the other, as in code that is made: also of what is no number.
            one, other = given
            return np.where(one < other if operator == "min" else one > other, one, other)
        case Binary(operator) | Compare(operator):
            return _OPERATIONS[operator](*given)
        case Select():
            return np.where(*given)
        case Cast(dtype, operand):
            return _cast(dtype, operand.dtype, given[0])
        case Apply(function, _, dtype):
            made = _FUNCTIONS.get(function) or getattr(np, function)
            return made(*given).astype(NUMBER_TYPE[dtype], copy=False)
        case _:
            raise TypeError(f"{node} has no operands")


def _cast(dtype: DType, given: DType, value: Any) -> Any:
    if given.is_float and not dtype.is_float and dtype is not DType.BOOL:
        # By way of 64 bits, so that narrow types wrap around alike on every machine.
        value = np.trunc(value).astype(np.int64 if dtype is not DType.U64 else np.uint64)
    return np.asarray(value).astype(NUMBER_TYPE[dtype])

"""What an algorithm should compute: its stages evaluated with NumPy, each as a whole.

In: an algorithm, the boxes that `bounds.py` found, arrays for its inputs. Out: an array for each stage. An
array has the shape of the box, its innermost dimension last, and its first element is the box's least point.
It follows the definitions and knows no schedule, so that it can judge what does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMPY_TYPE
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
)
from spacedsl.kernels.pipeline.reductions import is_associative

Array = NDArray[Any]

MOST_TURNS = 4096
"""Of an update, in Python; one that has more of them, and only gathers, is done at once."""

_GATHERING: Mapping[str, np.ufunc] = {
    "+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum
}  # fmt: skip
_OPERATIONS: Mapping[str, np.ufunc] = {
    **_GATHERING, "-": np.subtract, "%": np.mod, "&": np.bitwise_and, "|": np.bitwise_or,
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
    values = {p.name: p.value for p in algorithm.parameters} | dict(parameters or {})
    scalars = {p.name: NUMPY_TYPE[p.dtype](values[p.name]) for p in algorithm.parameters}
    arrays: dict[str, tuple[Array, ...]] = {
        i.name: (inputs[i.name],) for i in algorithm.inputs if i.name in boxes
    }
    with np.errstate(all="ignore"):
        for stage in algorithm.stages:
            if stage.name in boxes:
                _Evaluator(boxes, arrays, scalars).stage(stage)
    return {s.name: arrays[s.name] for s in algorithm.stages if s.name in boxes}


def shape(box: Box) -> tuple[int, ...]:
    """Of an array that holds the box."""
    return tuple(extent.size for extent in reversed(box))


@dataclass(frozen=True, slots=True)
class _Grid:
    """Variables that are axes, outermost first, and those that have one value for the time being."""

    axes: tuple[tuple[str, Extent], ...]
    fixed: Mapping[str, int]

    def extent(self, name: str) -> Extent | None:
        return next((extent for axis, extent in self.axes if axis == name), None)


class _Evaluator:
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
        grid = _Grid(axes, {})
        made = []
        for value in stage.values:
            array = np.empty(shape(box), NUMPY_TYPE[value.dtype])
            array[...] = self.value(value, grid)
            made.append(array)
        self.arrays[stage.name] = tuple(made)
        for update in stage.updates:
            self.update(stage, update, dict(zip(stage.variables, box, strict=True)))

    # ---- Updates ---------------------------------------------------------------------------------------

    def update(self, stage: Stage, update: Update, box: Mapping[str, Extent]) -> None:
        kept = [(v, box[v]) for v in reversed(stage.variables) if v in update.variables(stage)]
        turns = math.prod(r.high - r.low for r in update.ranges)
        gathered = _gathered(stage, update)
        if turns > MOST_TURNS and gathered is not None:
            ranges = [(r.name, Extent(r.low, r.high - r.low)) for r in reversed(update.ranges)]
            self.gather(stage, update, gathered, _Grid((*kept, *ranges), {}))
            return
        counts = [range(r.low, r.high) for r in reversed(update.ranges)]
        names = [r.name for r in reversed(update.ranges)]
        for point in itertools.product(*counts):
            self.turn(stage, update, _Grid(tuple(kept), dict(zip(names, point, strict=True))))

    def turn(self, stage: Stage, update: Update, grid: _Grid) -> None:
        """One point of the ranges, for all values of the variables that are kept."""
        lengths = tuple(extent.size for _, extent in grid.axes)
        where = self.index(stage.name, update.point, grid)
        where = tuple(np.broadcast_to(w, lengths) for w in where)
        condition = None
        if update.condition is not None:
            condition = np.broadcast_to(self.value(update.condition, grid), lengths)
        values = [np.broadcast_to(self.value(value, grid), lengths) for value in update.values]
        for array, value in zip(self.arrays[stage.name], values, strict=True):
            if condition is None:
                array[where] = value
            else:
                array[tuple(w[condition] for w in where)] = value[condition]

    def gather(self, stage: Stage, update: Update, gathered: Binary, grid: _Grid) -> None:
        """All points at once, of which each only adds to what is there."""
        lengths = tuple(extent.size for _, extent in grid.axes)
        where = tuple(np.broadcast_to(w, lengths) for w in self.index(stage.name, update.point, grid))
        value = np.broadcast_to(self.value(gathered.right, grid), lengths)
        if update.condition is not None:
            condition = np.broadcast_to(self.value(update.condition, grid), lengths)
            where, value = tuple(w[condition] for w in where), value[condition]
        _GATHERING[gathered.operator].at(self.arrays[stage.name][0], where, value)

    # ---- Expressions -----------------------------------------------------------------------------------

    def value(self, node: Expression, grid: _Grid) -> Any:
        """An array that can be broadcast to the axes."""
        match node:
            case Constant(value, dtype):
                return NUMPY_TYPE[dtype](value)
            case Undefined(dtype):
                return NUMPY_TYPE[dtype](math.nan if dtype.is_float else 0x55)
            case Variable(name):
                return self.variable(name, grid)
            case Scalar(name):
                return self.scalars[name]
            case Read():
                return self.read(node, grid)
            case Unary(operator, operand):
                inner = self.value(operand, grid)
                return {"-": np.negative, "!": np.logical_not, "~": np.invert}[operator](inner)
            case Binary("/", left, right):
                a, b = self.value(left, grid), self.value(right, grid)
                return a / b if node.dtype.is_float else np.floor_divide(a, b)
            case Binary(operator, left, right) | Compare(operator, left, right):
                return _OPERATIONS[operator](self.value(left, grid), self.value(right, grid))
            case Select(condition, yes, no):
                return np.where(self.value(condition, grid), self.value(yes, grid), self.value(no, grid))
            case Cast(dtype, operand):
                return _cast(dtype, operand.dtype, self.value(operand, grid))
            case Apply(function, arguments, dtype):
                given = [self.value(a, grid) for a in arguments]
                made = _FUNCTIONS.get(function) or getattr(np, function)
                return made(*given).astype(NUMPY_TYPE[dtype], copy=False)

    def variable(self, name: str, grid: _Grid) -> Any:
        if name in grid.fixed:
            return np.int32(grid.fixed[name])
        for at, (axis, extent) in enumerate(grid.axes):
            if axis == name:
                values = np.arange(extent.low, extent.high + 1, dtype=np.int32)
                return values.reshape([-1] + [1] * (len(grid.axes) - at - 1))
        raise KeyError(name)

    def read(self, node: Read, grid: _Grid) -> Any:
        array = self.arrays[node.source][node.element]
        if (part := self.slices(node, grid)) is not None:
            return part
        return array[self.index(node.source, node.point, grid)]

    def index(self, source: str, point: Sequence[Expression], grid: _Grid) -> tuple[Any, ...]:
        box = self.boxes[source]
        return tuple(
            self.value(at, grid) - extent.low for at, extent in reversed(list(zip(point, box, strict=True)))
        )

    def slices(self, node: Read, grid: _Grid) -> Any:
        """A view, where each position is a variable of its own, times a number, and a constant."""
        array, names = self.arrays[node.source][node.element], []
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
        view = array[tuple(parts)]
        order = [names.index(Variable(name)) for name, _ in grid.axes if Variable(name) in names]
        present = iter(np.shape(view.transpose(order)))
        lengths = [next(present) if Variable(name) in names else 1 for name, _ in grid.axes]
        return view.transpose(order).reshape(lengths)


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


def _gathered(stage: Stage, update: Update) -> Binary | None:
    """What the update adds to the one value of its stage, where it reads nothing else of it."""
    if len(update.values) != 1:
        return None
    value = update.values[0]
    if isinstance(value, Binary) and value.operator in _GATHERING and is_associative(stage, update):
        return value
    return None


def _cast(dtype: DType, given: DType, value: Any) -> Any:
    if given.is_float and not dtype.is_float and dtype is not DType.BOOL:
        # By way of 64 bits, so that narrow types wrap around alike on every machine.
        value = np.trunc(value).astype(np.int64 if dtype is not DType.U64 else np.uint64)
    return np.asarray(value).astype(NUMPY_TYPE[dtype])

"""An algorithm as the text of a kernel file.

In: an `Algorithm`, in which all sizes are numbers, and what else the file is to say. Out: YAML that
`kernel_file.py` reads as an equal one.

What is read is what was printed, since both sides keep to one form. A constant has a value that its type
holds exactly, so that the fewest digits that stand for it are enough. Numbers without a type are computed
where they are read; of two constants that meet, the printer gives the first one its type, and both stay.
Every conversion is written down. `clamp`, and `min`, `max` and `select` of more than they take, are short
for the same expressions on both sides. An algorithm holds no stage that nothing needs.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeGuard

from spacedsl.engine.decision import Decision
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE
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
    Input,
    Parameter,
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

WIDTH = 100
"""Of a line, in characters."""

_SHORT = 40

_LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">="), ("|",), ("^",), ("&",), ("<<", ">>"),
           ("+", "-"), ("*", "/", "%"))  # fmt: skip
_BINDS: Mapping[str, int] = {operator: level for level, row in enumerate(_LEVELS) for operator in row}
"""How tightly each operator holds its operands, as in the grammar."""
_PREFIX = len(_LEVELS)
_ATOM = _PREFIX + 1

_GLUE = "\N{NO-BREAK SPACE}"
"""A space where no line is broken: behind an operator, and in a range."""


def print_pipeline(
    algorithm: Algorithm,
    *,
    sizes: Mapping[str, int] = MappingProxyType({}),
    tolerance: float | None = None,
    cache: Literal["warm", "cold"] = "warm",
    space: str | None = None,
    decisions: Sequence[Decision] = (),
) -> str:
    """A kernel file, with its line ends. The algorithm has been made with `sizes`, and names them no more."""
    counts = {stage.name: len(stage.values) for stage in algorithm.stages}
    lines = [f"kernel: {_word(algorithm.name)}", "backbone: pipeline"]
    if sizes:
        lines.append(f"sizes: {{{', '.join(f'{_word(n)}: {size}' for n, size in sizes.items())}}}")
    if algorithm.parameters:
        lines += ["params:", *(f"  {_word(p.name)}: {{{_parameter(p)}}}" for p in algorithm.parameters)]
    if algorithm.inputs:
        lines += ["inputs:", *(f"  {_word(i.name)}: {{{_input(i)}}}" for i in algorithm.inputs)]
    lines.append("stages: |")
    for stage in algorithm.stages:
        printer = _Printer(counts)
        lines += _wrapped(printer.stage(stage))
        for update in stage.updates:
            lines += _wrapped(printer.update(stage, update))
    lines.append("outputs:")
    for name, box in algorithm.outputs.items():
        lines.append(f"  {_word(name)}: {{{_box(algorithm.stage(name), box)}}}")
    if tolerance is not None:
        lines.append(f"tolerance: {tolerance!r}")
    if cache != "warm":
        lines.append(f"cache: {cache}")
    if space is not None:
        lines.append(f"space: {json.dumps(space, ensure_ascii=False)}")
    if decisions:
        lines += ["decisions:", *(f"  - {{{_decision(decision)}}}" for decision in decisions)]
    return "\n".join(lines) + "\n"


def nesting(node: Expression) -> tuple[int, int]:
    """How deep the tree of its text is at most: without operators that follow each other, and with them."""
    nested, levels, pending = 0, 0, [(node, 1, 1)]

    def inside(parts: Sequence[Expression], steps: int) -> None:
        pending.extend((part, depth + steps, level + steps) for part in parts)

    while pending:
        top, depth, level = pending.pop()
        nested, levels = max(nested, depth), max(levels, level)
        match top:
            # A call is one level, and its arguments are another one.
            case Constant() | Undefined():
                nested, levels = max(nested, depth + 3), max(levels, level + 3)
            case Select(condition, yes, no):
                inside((condition, yes), 2)
                inside((no,), 0 if isinstance(no, Select) else 2)
            case Binary("min" | "max" as operator, left, right):
                inside((left,), 0 if isinstance(left, Binary) and left.operator == operator else 2)
                inside((right,), 2)
            case Unary(operand=operand):
                inside((operand,), 1)
            case Binary(left=left, right=right) | Compare(left=left, right=right):
                pending.append((left, depth if _is_infix(left) else depth + 1, level + 1))
                inside((right,), 1)
            case _:
                inside(operands(top), 2)
    return nested, levels


def number(value: float, dtype: DType, *, with_point: bool = False) -> str:
    """The fewest digits that are read as this value where a number of this type is expected."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(value)
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    is_zero_below = value == 0 and math.copysign(1, value) < 0
    if value == int(value) and abs(value) < 2**53 and not with_point and not is_zero_below:
        return str(int(value))
    if dtype is not DType.F64:
        # Read as a number of 64 bits and rounded then, as all are.
        short = str(NUMBER_TYPE[dtype](value))
        short += ".0" if short.lstrip("-").isdigit() else ""
        if float(NUMBER_TYPE[dtype](float(short))) == value:
            return short
    return repr(float(value))


def _word(name: str) -> str:
    """A name, which YAML may have a meaning of its own for."""
    return f'"{name}"' if name.lower() in ("null", "true", "false") else name


def _parameter(given: Parameter) -> str:
    value = number(given.value, given.dtype) if given.dtype.is_float else str(int(given.value))
    return f"dtype: {given.dtype.label}, value: {value}"


def _input(given: Input) -> str:
    extents = ", ".join(map(str, given.extents))
    parts = [f"dtype: {given.dtype.label}", f"extents: [{extents}]" if extents else f"rank: {given.rank}"]
    if given.values is not None:
        parts.append(f"values: [{given.values[0]}, {given.values[1]}]")
    return ", ".join(parts)


def _decision(given: Decision) -> str:
    objects, values = (json.dumps(each, ensure_ascii=False) for each in (given.objects, given.values))
    return f"choice: {json.dumps(given.choice, ensure_ascii=False)}, objects: {objects}, values: {values}"


def _box(stage: Stage, box: Box) -> str:
    return ", ".join(f"{_word(v)}: {_extent(e)}" for v, e in zip(stage.variables, box, strict=True))


def _extent(extent: Extent) -> str:
    return str(extent.size) if extent.low == 0 else f'"{extent.low}:{extent.high + 1}"'


def _wrapped(line: str) -> list[str]:
    made = textwrap.wrap(
        line, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return [part.replace(_GLUE, " ") for part in made]


def _is_infix(node: Expression) -> TypeGuard[Binary | Compare]:
    """Whether it stands between its operands."""
    return isinstance(node, Compare) or (isinstance(node, Binary) and node.operator not in ("min", "max"))


def _whole(text: str) -> str:
    """What stands in parentheses, on one line where it is short."""
    return text.replace(" ", _GLUE) if len(text) <= _SHORT else text


class _Printer:
    """Prints expressions with as few parentheses and types as they need."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts
        """How many values each stage has."""

    # ---- Definitions -----------------------------------------------------------------------------------

    def stage(self, stage: Stage) -> str:
        target = f"{stage.name}({', '.join(stage.variables)})"
        return f"{target} = {self.values([self.alone(v) for v in stage.values])}"

    def update(self, stage: Stage, update: Update) -> str:
        target = f"{stage.name}({self.point(update.point)})"
        operator = _operator(stage, update)
        # What is written is of the type of its stage: a number may stand there alone.
        values = [v.right if operator and isinstance(v, Binary) else v for v in update.values]
        line = f"{target} {operator}= {self.values([self.anchored(v) for v in values])}"
        if update.ranges:
            ranges = (f"{r.name}{_GLUE}in{_GLUE}{r.low}:{r.high}" for r in update.ranges)
            line += f" for{_GLUE}{', '.join(ranges)}"
        if update.condition is not None:
            line += f" where{_GLUE}{self.alone(update.condition)}"
        return line

    def values(self, texts: Sequence[str]) -> str:
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    # ---- Numbers, which have the type that what stands around them gives them ----------------------------

    def alone(self, node: Expression) -> str:
        """Where nothing gives a number its type."""
        if not isinstance(node, Constant) or node.dtype not in (DType.I32, DType.F32, DType.BOOL):
            return self.text(node)
        return number(node.value, node.dtype, with_point=True)

    def anchored(self, node: Expression, least: int = 0) -> str:
        """Where a number gets the type that it has."""
        return number(node.value, node.dtype) if isinstance(node, Constant) else self.text(node, least)

    def together(self, nodes: Sequence[Expression]) -> list[str]:
        """Operands that get one type, none of which is computed with another one before."""
        if any(not isinstance(n, Constant) for n in nodes):
            return [self.anchored(n) for n in nodes]
        return [self.alone(nodes[0]), *(self.anchored(n) for n in nodes[1:])]

    def computed(self, left: Expression, right: Expression, least: tuple[int, int]) -> tuple[str, str]:
        """Two operands that would be computed at once if both were numbers."""
        is_number = isinstance(left, Constant) and isinstance(right, Constant)
        first = self.text(left, least[0]) if is_number else self.anchored(left, least[0])
        return first, self.anchored(right, least[1])

    # ---- Expressions -----------------------------------------------------------------------------------

    def point(self, point: Sequence[Expression]) -> str:
        """Positions are i32, as numbers are."""
        return ", ".join(self.anchored(at) for at in point)

    def text(self, node: Expression, least: int = 0) -> str:
        """In parentheses where it binds less tightly than `least`; a constant with its type."""
        text, binds = self.expression(node)
        return _whole(f"({text})") if binds < least else text

    def expression(self, node: Expression) -> tuple[str, int]:
        """The text, and how tightly it binds."""
        match node:
            case Constant(value, dtype):
                return f"{dtype.label}({number(value, dtype)})", _ATOM
            case Undefined(dtype):
                return f"undefined({dtype.label})", _ATOM
            case Variable(name) | Scalar(name):
                return name, _ATOM
            case Read(source, point, _, element):
                which = f".{element}" if self.counts.get(source, 1) > 1 else ""
                return _whole(f"{source}({self.point(point)}){which}"), _ATOM
            case Unary("!", operand):
                return f"!{self.anchored(operand, _PREFIX)}", _PREFIX
            case Unary(operator, operand):
                return f"{operator}{self.text(operand, _PREFIX)}", _PREFIX
            case Binary("max", Binary("min", value, high), low) if not isinstance(value, Constant):
                return self.call("clamp", [self.text(value), self.anchored(low), self.anchored(high)])
            case Binary("min" | "max" as operator):
                return self.call(operator, self.extremes(operator, node))
            case Binary() | Compare():
                return self.infixes(node)
            case Select():
                return self.call("select", self.choices(node))
            case Cast(dtype, operand):
                return self.call(dtype.label, [self.text(operand)])
            case Apply(function, arguments):
                return self.call(function, self.together(arguments))

    def infixes(self, node: Binary | Compare) -> tuple[str, int]:
        """Operators whose left operands are operators, however many: from the left."""
        chain: list[Binary | Compare] = [node]
        while _is_infix(left := chain[-1].left):
            chain.append(left)
        text, binds = "", _ATOM
        for each in reversed(chain):
            level = _BINDS[each.operator]
            # Comparisons do not follow each other.
            least = level + 1 if isinstance(each, Compare) else level
            if each is not chain[-1]:
                a = _whole(f"({text})") if binds < least else text
                b = self.anchored(each.right, level + 1)
            elif each.operator in ("&&", "||"):
                a, b = self.anchored(each.left, least), self.anchored(each.right, level + 1)
            else:
                a, b = self.computed(each.left, each.right, (least, level + 1))
            text, binds = f"{a} {each.operator}{_GLUE}{b}", level
        return text, binds

    def call(self, name: str, arguments: Sequence[str]) -> tuple[str, int]:
        return _whole(f"{name}({', '.join(arguments)})"), _ATOM

    def extremes(self, operator: str, node: Expression) -> list[str]:
        """The arguments of `min` or `max`, which takes them from the left."""
        rest = []
        while isinstance(node, Binary) and node.operator == operator:
            rest.append(node.right)
            node = node.left
        second, *others = reversed(rest)
        return [*self.computed(node, second, (0, 0)), *(self.anchored(o) for o in others)]

    def choices(self, node: Expression) -> list[str]:
        """The arguments of `select`: conditions, each with its value, and what holds otherwise."""
        conditions, values = [], []
        while isinstance(node, Select):
            conditions.append(self.anchored(node.condition))
            values.append(node.yes)
            node = node.no
        *texts, otherwise = self.together([*values, node])
        pairs = zip(conditions, texts, strict=True)
        return [*(text for pair in pairs for text in pair), otherwise]


def _operator(stage: Stage, update: Update) -> str:
    """What the update combines all its values with those before by, as `f(x) += ..` does."""
    for operator in ("+", "-", "*", "min", "max"):
        if all(
            isinstance(value, Binary)
            and value.operator == operator
            and value.left == Read(stage.name, update.point, value.dtype, element)
            for element, value in enumerate(update.values)
        ):
            return operator
    return ""

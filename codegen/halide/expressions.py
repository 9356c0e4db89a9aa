"""Expressions of an algorithm in Halide's Python.

In: expressions that mean to Halide what they say (`meaning.py`), and names. Out: trees of `python.py`. A
number stands without a type where Halide gives it the right one; what it has a word for, and the algorithm
has not, is found again: `hl.clamp`, `hl.mux`, `hl.absd`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spacedsl.codegen.halide.edges import Edge, edge_read
from spacedsl.codegen.halide.python import Atom, Call, Index, Infix, Node, Prefix, Several
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Apply,
    Binary,
    Cast,
    Compare,
    Constant,
    Expression,
    Input,
    Read,
    Scalar,
    Select,
    Unary,
    Undefined,
    Variable,
)
from spacedsl.kernels.pipeline.text import number

TYPES: Mapping[DType, Node] = {
    **{t: Call("hl.UInt", (Atom(str(8 * t.nbytes)),)) for t in (DType.U8, DType.U16, DType.U32, DType.U64)},
    **{t: Call("hl.Int", (Atom(str(8 * t.nbytes)),)) for t in (DType.I8, DType.I16, DType.I32, DType.I64)},
    **{t: Call("hl.Float", (Atom(str(8 * t.nbytes)),)) for t in (DType.F16, DType.F32, DType.F64)},
    DType.BOOL: Call("hl.Bool", ()),
}


@dataclass(frozen=True, slots=True)
class Expressions:
    """Of one definition."""

    inputs: Mapping[str, Input]
    counts: Mapping[str, int]
    """How many values each stage has."""
    names: Mapping[str, Node]
    """Of inputs, parameters and stages, and of the variables here."""
    edges: Callable[[Edge], Node]
    """An input with a rule for what lies outside of it."""
    promised: Mapping[Expression, tuple[int, int]]
    """The ends of what positions are made of, where Halide does not find them by itself."""

    # ---- Definitions -----------------------------------------------------------------------------------

    def alone(self, node: Expression) -> Node:
        """A value, or a condition, beside which nothing gives a number its type."""
        if isinstance(node, Constant) and node.dtype is DType.I32:
            return Atom(str(node.value))
        return self.of(node)

    def at(self, base: Node, point: Sequence[Expression], which: int | None = None) -> Node:
        """A point of a Func, or of an input: positions are i32, as numbers are."""
        found = Index(base, tuple(map(self.alone, point)))
        return found if which is None else Index(found, (Atom(str(which)),))

    # ---- Numbers ---------------------------------------------------------------------------------------

    def beside(self, node: Expression) -> Node:
        """Where another operand of the same type gives a number its own; floats of 16 bits become f32."""
        if isinstance(node, Constant) and node.dtype is not DType.F16 and _is_plain(node):
            return Atom(number(node.value, node.dtype, with_point=True))
        return self.of(node)

    def typed(self, node: Constant) -> Node:
        if node.dtype is DType.BOOL:
            return Call("hl.Expr", (Atom(str(bool(node.value))),))
        # All digits, where the number is a wider float first, which few digits may not be.
        is_exact = node.dtype is DType.F16 and math.isfinite(node.value)
        text = repr(node.value) if is_exact else number(node.value, node.dtype, with_point=True)
        if isinstance(node.value, float) and math.isinf(node.value):
            text = f'float("{text}")'
        return self.cast(node.dtype, Atom(text))

    def cast(self, dtype: DType, value: Node) -> Node:
        if dtype in (DType.F16, DType.BOOL):
            return Call("hl.cast", (TYPES[dtype], value))
        return Call(f"hl.{dtype.label}", (value,))

    # ---- Expressions -----------------------------------------------------------------------------------

    def of(self, node: Expression) -> Node:
        if self.promised and not isinstance(node, Constant | Variable) and node in self.promised:
            ends = (Atom(str(end)) for end in self.promised[node])
            return Call("hl.unsafe_promise_clamped", (self.made(node), *ends))
        return self.made(node)

    def made(self, node: Expression) -> Node:
        if (found := edge_read(node, self.inputs)) is not None:
            return self.at(self.edges(found.edge), found.read.point)
        match node:
            case Constant():
                return self.typed(node)
            case Undefined(dtype):
                return Call("hl.undef", (TYPES[dtype],))
            case Variable(name):
                return self.names[name]
            case Scalar(name, DType.F16):
                # Its parameter is wider.
                return self.cast(DType.F16, self.names[name])
            case Scalar(name, DType.F64):
                return Index(self.names[name], ())
            case Scalar(name):
                return self.names[name]
            case Read(source, point, _, element):
                which = element if self.counts.get(source, 1) > 1 else None
                return self.at(self.names[source], point, which)
            case Unary("!", operand):
                return Call("hl.logical_not", (self.of(operand),))
            case Unary(operator, operand):
                return Prefix(operator, self.of(operand))
            case Cast(_, Select() as choice) if (apart := _apart(choice)) is not None:
                if node.dtype is _unsigned(choice.dtype):
                    return self.call("hl.absd", apart)
                return self.cast(node.dtype, self.of(choice))
            case Select() if not node.dtype.is_signed and (apart := _apart(node)) is not None:
                return self.call("hl.absd", apart)
            case Select():
                return self.choice(node)
            case Cast(dtype, operand):
                return self.cast(dtype, self.of(operand))
            case Binary("max", Binary("min", value, high), low) if not isinstance(value, Constant):
                return Call("hl.clamp", (self.of(value), self.beside(low), self.beside(high)))
            case Binary("min" | "max" as operator, left, right):
                return self.call(f"hl.{operator}", (left, right))
            case Apply(function, arguments):
                return self.call(f"hl.{function}", arguments)
            case Binary() | Compare():
                return self.infix(node)

    def call(self, name: str, arguments: Sequence[Expression]) -> Node:
        """Functions that take numbers for i32 and f32."""
        return Call(name, tuple(self.argument(a) for a in arguments))

    def argument(self, node: Expression) -> Node:
        if isinstance(node, Constant) and node.dtype is DType.F32 and _is_plain(node):
            return Atom(number(node.value, node.dtype, with_point=True))
        return self.alone(node)

    def infix(self, node: Binary | Compare) -> Node:
        """From the left, however many operators follow each other."""
        chain: list[Binary | Compare] = [node]
        while isinstance(left := chain[-1].left, Binary) and _is_infix(left) and left not in self.promised:
            chain.append(left)
        made: Node | None = None
        for each in reversed(chain):
            if made is None:
                # What a number is shifted by has a type of its own.
                is_typed = isinstance(each.right, Constant) or each.operator in ("<<", ">>")
                made = self.of(each.left) if is_typed else self.beside(each.left)
            made = Infix(_operator(each), made, self.beside(each.right))
        assert made is not None
        return made

    def choice(self, node: Select) -> Node:
        conditions: list[Expression] = []
        values: list[Expression] = []
        rest: Expression = node
        while isinstance(rest, Select):
            conditions.append(rest.condition)
            values.append(rest.yes)
            rest = rest.no
        values.append(rest)
        which = _number_of(conditions)
        if which is not None and len(values) > 2:
            return Call("hl.mux", (self.of(which), Several(tuple(map(self.of, values)), "[]")))
        given = [*map(self.argument, values)]
        if all(map(self.is_of_func, values)):
            # Of points of Funcs alone, the package makes a tuple.
            given[0] = Call("hl.Expr", (given[0],))
        arguments: list[Node] = []
        for condition, value in zip(conditions, given, strict=False):
            arguments += [self.of(condition), value]
        return Call("hl.select", (*arguments, given[-1]))

    def is_of_func(self, node: Expression) -> bool:
        """Whether it stands as a point of a Func, which is no expression by itself."""
        if edge_read(node, self.inputs) is not None:
            return True
        return isinstance(node, Read) and self.counts.get(node.source) == 1 and node not in self.promised


def _is_plain(node: Constant) -> bool:
    """Whether Halide takes a number for what it is, without a type and without a word."""
    if node.dtype is DType.BOOL:
        return False
    if not node.dtype.is_float:
        return DType.I32.least <= node.value <= DType.I32.greatest
    if math.isinf(node.value):
        return False
    read = float(number(node.value, node.dtype, with_point=True))
    with np.errstate(over="ignore"):
        return read == node.value == float(np.float32(read))


def _is_infix(node: Expression) -> bool:
    return isinstance(node, Binary) and node.operator not in ("min", "max")


def _operator(node: Binary | Compare) -> str:
    """As Python spells it."""
    if node.operator == "/" and not node.dtype.is_float:
        return "//"
    if node.operator == "^" and node.dtype is DType.BOOL:
        return "!="
    return {"&&": "&", "||": "|"}.get(node.operator, node.operator)


def _number_of(conditions: Sequence[Expression]) -> Expression | None:
    """What is compared with 0, 1, 2 and so on."""
    first = conditions[0]
    if not isinstance(first, Compare) or first.left.dtype is not DType.I32:
        return None
    for count, condition in enumerate(conditions):
        if condition != Compare("==", first.left, Constant(count, DType.I32)):
            return None
    return first.left


def _apart(node: Select) -> tuple[Expression, Expression] | None:
    """Two integers of which the distance is taken."""
    match node:
        case Select(Compare("<", a, b), more, less) if a.dtype.is_integer:
            if more == Binary("-", b, a) and less == Binary("-", a, b):
                return a, b
    return None


def _unsigned(dtype: DType) -> DType:
    return DType.of(f"u{8 * dtype.nbytes}")

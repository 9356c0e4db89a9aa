"""Random kernel files, and what they compute: evaluated with NumPy from the tree that they are printed from.

In: a source of random numbers. Out: a `RandomKernel`: its text, and a function from inputs to outputs. The
parser and the reference of the product have no part in it: every index has an axis of its own, elements are
gathered by arrays of subscripts, and reductions go along axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Values = dict[str, Any]
"""Tensors in their shapes and parameters, by name."""

FAMILIES = (("i32",), ("f32",), ("f64",), ("bf16",), ("f16",), ("f32", "bf16"), ("f32", "f64", "bf16", "f16"))
"""Element types of one kernel."""

EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20)
MOST_POINTS = 2000
"""Of the iterations of an expression."""
MOST_OPERATIONS = 6
LONGEST_PRODUCT = 4

REDUCE: Mapping[str, Callable[..., Array]] = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
CALLS: Mapping[str, Callable[[Array], Array]] = {
    "exp(min({}, 3))": lambda x: np.exp(np.minimum(x, 3)),
    "log(abs({}) + 1)": lambda x: np.log(np.abs(x) + 1),
    "sqrt(abs({}))": lambda x: np.sqrt(np.abs(x)),
    "tanh({})": np.tanh,
    "sigmoid({})": lambda x: 1 / (1 + np.exp(-x)),
    "gelu({})": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}
INTEGER_CALLS: Mapping[str, Callable[[Array], Array]] = {
    "abs({})": np.abs, "relu({})": lambda x: np.maximum(x, 0), "-{}": np.negative
}  # fmt: skip
BINARIES: Mapping[str, Callable[[Array, Array], Array]] = {
    "({} + {})": np.add,
    "({} - {})": np.subtract,
    "({} * {})": np.multiply,
    "max({}, {})": np.maximum,
    "min({}, {})": np.minimum,
}


@dataclass(frozen=True)
class RandomKernel:
    text: str
    outputs: Callable[[Values], dict[str, Array]]
    """In 64 bits, from inputs and parameters in 64 bits; nothing is rounded between lines."""
    ingredients: frozenset[str]


@dataclass(frozen=True)
class _Term:
    """A part of a line; its values have an axis for each index of the kernel, perhaps of length 1."""

    text: str
    indices: frozenset[str]
    values: Callable[[Values], Array]


@dataclass
class _Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    pad: tuple[int, ...] = ()
    gap: int = 0
    """Elements behind each row."""
    is_output: bool = False

    @property
    def declaration(self) -> str:
        parts = [f"dtype: {self.dtype}", f"shape: {list(self.shape)}"]
        if self.gap:
            row = self.shape[-1] + self.gap
            parts.append(
                f"strides: {[*(row * math.prod(self.shape[n:-1]) for n in range(1, len(self.shape))), 1]}"
            )
        if any(self.pad):
            parts.append(f"pad: {list(self.pad)}")
        if self.is_output:
            parts.append("output: true")
        return f"  {self.name}: {{{', '.join(parts)}}}"


def random_kernel(random: Random) -> RandomKernel:
    """A file of one to three lines, which should be accepted."""
    return _Maker(random).kernel()


@dataclass
class _Maker:
    random: Random
    extents: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, _Tensor] = field(default_factory=dict)
    written: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """What earlier lines have assigned to, and its shape."""
    read: set[str] = field(default_factory=set)
    alone: set[str] = field(default_factory=set)
    """Indices that stand alone in some subscript."""
    parameters: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    family: tuple[str, ...] = ("f32",)
    operations: int = MOST_OPERATIONS

    def __post_init__(self) -> None:
        self.family = self.random.choice(FAMILIES)
        for name in "ijkl"[: self.random.randint(1, 4)]:
            self.extents[name] = self.random.choice(EXTENTS)
        self.axes = {name: axis for axis, name in enumerate(self.extents)}

    @property
    def is_integer(self) -> bool:
        return self.family == ("i32",)

    def kernel(self) -> RandomKernel:
        lines: list[tuple[str, Callable[[Values], Array]]] = []
        texts: list[str] = []
        for number in range(self.random.randint(1, 3)):
            name = f"T{number}"
            target = self.target()
            value = self.expression(2, target)
            # An intermediate takes its extents from what stands before.
            is_output = not set(target) <= self.alone or self.random.random() < 0.6
            shape = tuple(self.extents[i] for i in target)
            self.tensors[name] = _Tensor(name, self.random.choice(self.family), shape, is_output=is_output)
            self.written[name] = shape
            self.alone |= set(target)
            texts.append(f"  - '{name}{_subscripts(target)} = {value.text}'")
            lines.append((name, self.assigned(value, target)))
        for name in self.written:
            if name not in self.read:
                self.tensors[name].is_output = True
        self.used |= {f"{t.dtype} tensor" for t in self.tensors.values()}

        def outputs(values: Values) -> dict[str, Array]:
            known = dict(values)
            for name, assign in lines:
                known[name] = assign(known)
            return {name: known[name] for name, _ in lines if self.tensors[name].is_output}

        declared = [t.declaration for n, t in self.tensors.items() if n not in self.written or t.is_output]
        parts = ["kernel: random", "backbone: linalg", "tensors:", *declared]
        if self.parameters:
            parts += ["params:", *(f"  {name}: {dtype}" for name, dtype in self.parameters.items())]
        return RandomKernel(
            "\n".join([*parts, *self.options(), "compute:", *texts, ""]), outputs, frozenset(self.used)
        )

    def options(self) -> list[str]:
        found = []
        if not self.is_integer and self.random.random() < 0.2:
            self.used.add("accumulate")
            found.append("accumulate: f64")
        factors = {
            name: [d for d in range(2, extent) if extent % d == 0]
            for name, extent in self.extents.items()
            if name in self.alone
        }
        given = {n: [d] for n, d in factors.items() if d and self.random.random() < 0.5}
        return [*found, f"tiling: {{{', '.join(f'{n}: {d}' for n, d in given.items())}}}"] if given else found

    def target(self) -> tuple[str, ...]:
        names = list(self.extents)
        self.random.shuffle(names)
        chosen: list[str] = []
        for name in names[: self.random.randint(0, 3)]:
            if self.points([*chosen, name]) <= MOST_POINTS:
                chosen.append(name)
        return tuple(chosen)

    def points(self, indices: Sequence[str]) -> int:
        return math.prod(self.extents[i] for i in indices)

    def assigned(self, value: _Term, target: tuple[str, ...]) -> Callable[[Values], Array]:
        shape = [self.extents[i] if i in target else 1 for i in self.extents]
        ordered = [i for i in self.extents if i in target]

        def values(known: Values) -> Array:
            full = np.broadcast_to(value.values(known), shape).reshape([self.extents[i] for i in ordered])
            return np.transpose(full, [ordered.index(i) for i in target])

        return values

    # ---- Expressions -----------------------------------------------------------------------------------

    def expression(self, depth: int, scope: tuple[str, ...]) -> _Term:
        self.operations -= 1
        if depth == 0 or self.operations <= 0:
            return self.leaf(scope)
        kind = self.random.choice(("binary", "binary", "reduction", "reduction", "call", "quotient", "leaf"))
        free = [i for i in self.extents if i not in scope]
        if kind == "reduction" and free:
            return self.reduction(depth, scope, free)
        if kind == "call":
            calls = INTEGER_CALLS if self.is_integer or self.random.random() < 0.3 else CALLS
            form = self.random.choice(list(calls))
            self.used.add(form.partition("(")[0])
            return _applied(form, calls[form], self.expression(depth - 1, scope))
        if kind == "quotient" and not self.is_integer:
            self.used.add("quotient")
            over = _applied("(abs({}) + 1)", lambda x: np.abs(x) + 1, self.leaf(scope))
            return _applied("{} / {}", np.divide, self.expression(depth - 1, scope), over, parentheses=True)
        if kind == "leaf":
            return self.leaf(scope)
        form = self.random.choice(list(BINARIES))
        left, right = self.expression(depth - 1, scope), self.expression(depth - 1, scope)
        return _applied(form, BINARIES[form], left, right)

    def reduction(self, depth: int, scope: tuple[str, ...], free: list[str]) -> _Term:
        self.random.shuffle(free)
        bound = [i for n, i in enumerate(free[:2]) if self.points([*scope, *free[: n + 1]]) <= MOST_POINTS]
        if not bound:
            return self.leaf(scope)
        operator = self.random.choice(("sum", "sum", "sum", "max", "min", "prod"))
        if operator == "prod" and self.points(bound) > LONGEST_PRODUCT:
            operator = "sum"
        body = self.expression(depth - 1, (*scope, *bound))
        missing = tuple(i for i in bound if i not in body.indices or i not in self.alone)
        if missing:
            body = _applied("({} * {})", np.multiply, body, self.new_input(missing))
        self.used |= {operator, f"{len(bound)} reduced"}
        axes = tuple(self.axes[i] for i in bound)
        reduce, inner = REDUCE[operator], body.values
        text = f"{operator}[{', '.join(bound)}]({body.text})"
        return _Term(text, body.indices - set(bound), lambda known: reduce(inner(known), axes, keepdims=True))

    def leaf(self, scope: tuple[str, ...]) -> _Term:
        kind = self.random.random()
        rank = len(self.extents)
        if kind < 0.1:
            number = (
                self.random.randint(0, 3) if self.is_integer else self.random.choice((0, 1, 2, 0.5, 1.25))
            )
            self.used.add("number")
            return _Term(str(number), frozenset(), lambda known: np.full((1,) * rank, number))
        if kind < 0.2:
            name = f"s{self.random.randint(0, 1)}"
            wide = [d for d in self.family if d in ("f32", "f64", "i32")]
            self.parameters.setdefault(name, self.random.choice([*wide, "i32" if self.is_integer else "f32"]))
            self.used.add("parameter")
            return _Term(name, frozenset(), lambda known: np.full((1,) * rank, known[name]))
        known = [
            *self.written.items(),
            *((n, t.shape) for n, t in self.tensors.items() if n not in self.written),
        ]
        if kind < 0.5 and known:
            name, shape = self.random.choice(known)
            fitting = [[i for i in scope if self.extents[i] == extent] for extent in shape]
            if all(fitting):
                self.used.add("read again" if name not in self.written else "read of a result")
                return self.reading(name, [_Subscript.alone(self.random.choice(names)) for names in fitting])
        return self.new_input(scope, may_be_affine=True)

    def new_input(self, scope: tuple[str, ...], *, may_be_affine: bool = False) -> _Term:
        """An element of a tensor that nothing else has read; of all indices where none may be left out."""
        names = list(scope)
        self.random.shuffle(names)
        if may_be_affine:
            names = names[: self.random.randint(0, 3)]
        subscripts = [_Subscript.alone(i) for i in names]
        if may_be_affine and self.random.random() < 0.35:
            at = self.random.randint(0, len(subscripts))
            subscripts[at : at + 1] = [self.affine(scope)]
        name = f"A{len(self.tensors)}"
        bounds = [s.bounds(self.extents) for s in subscripts]
        pad = tuple(max(0, -low) for low, _ in bounds)
        shape = tuple(
            max(1, high + 1 - zeros + (0 if subscript.is_alone else self.random.randint(0, 1)))
            for (_, high), zeros, subscript in zip(bounds, pad, subscripts, strict=True)
        )
        gap = (
            self.random.randint(1, 5) if len(shape) > 1 and not any(pad) and self.random.random() < 0.2 else 0
        )
        self.tensors[name] = _Tensor(name, self.random.choice(self.family), shape, pad, gap)
        self.used |= {"zeros around"} if any(pad) else {"gaps"} if gap else set()
        return self.reading(name, subscripts)

    def affine(self, scope: tuple[str, ...]) -> _Subscript:
        self.used.add("affine")
        if not scope:
            return _Subscript(self.random.randint(0, 3))
        i, j = self.random.choice(scope), self.random.choice(scope)
        # Below 0 lie zeros around the tensor.
        start = self.random.choice((0, 1, 2, -1))
        forms: list[tuple[int, dict[str, int]]] = [(start, {i: self.random.randint(1, 3)})]
        forms.append((0, {i: 1, j: 1 + (i == j)}))
        if i != j:
            forms.append((self.extents[j] - 1, {i: 1, j: -1}))
        constant, terms = self.random.choice(forms)
        return _Subscript(constant, tuple(terms.items()))

    def reading(self, name: str, subscripts: list[_Subscript]) -> _Term:
        self.read.add(name)
        pad = self.tensors[name].pad
        # Zeros are there for subscripts that are more than an index.
        is_padded = any(pad) and not all(s.is_alone for s in subscripts)
        self.alone |= {s.terms[0][0] for s in subscripts if s.is_alone}
        indices = frozenset(i for s in subscripts for i, _ in s.terms)
        if len(indices) < len(subscripts):
            self.used.add("diagonal")
        rank, axes, extents = len(self.extents), self.axes, self.extents

        def values(known: Values) -> Array:
            tensor = np.pad(known[name], [(p, p) for p in pad]) if is_padded else known[name]
            places = [
                s.places(axes, extents) + (pad[n] if is_padded else 0) for n, s in enumerate(subscripts)
            ]
            return np.asarray(tensor[tuple(places)]) if places else np.reshape(tensor, (1,) * rank)

        text = f"{name}{_subscripts([s.text for s in subscripts])}"
        return _Term(text, indices, values)


@dataclass(frozen=True)
class _Subscript:
    constant: int
    terms: tuple[tuple[str, int], ...] = ()

    @classmethod
    def alone(cls, index: str) -> _Subscript:
        return cls(0, ((index, 1),))

    @property
    def is_alone(self) -> bool:
        return self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1

    @property
    def text(self) -> str:
        parts = [i if n == 1 else f"-{i}" if n == -1 else f"{n} * {i}" for i, n in self.terms]
        parts += [str(self.constant)] if self.constant or not parts else []
        return " + ".join(parts).replace("+ -", "- ")

    def bounds(self, extents: Mapping[str, int]) -> tuple[int, int]:
        steps = [n * (extents[i] - 1) for i, n in self.terms]
        return self.constant + sum(min(0, s) for s in steps), self.constant + sum(max(0, s) for s in steps)

    def places(self, axes: Mapping[str, int], extents: Mapping[str, int]) -> Array:
        found: Array = np.full((1,) * len(axes), self.constant)
        for index, number in self.terms:
            shape = [1] * len(axes)
            shape[axes[index]] = extents[index]
            found = found + number * np.arange(extents[index]).reshape(shape)
        return found


def _subscripts(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]" if names else ""


def _applied(form: str, function: Callable[..., Array], *terms: _Term, parentheses: bool = False) -> _Term:
    text = form.format(*(t.text for t in terms))
    indices = frozenset().union(*(t.indices for t in terms))
    parts = [t.values for t in terms]
    return _Term(
        f"({text})" if parentheses else text, indices, lambda known: function(*(p(known) for p in parts))
    )

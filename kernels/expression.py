"""The syntax tree of `compute:` lines.

In: built by `line_parser.py`. Out: frozen nodes that carry spans of the kernel file. What names mean is
checked in `resolution.py`, which types they have in `line_types.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from spacedsl.diagnostics import Span

FUNCTIONS: Mapping[str, int] = {
    "exp": 1, "log": 1, "sqrt": 1, "tanh": 1, "sigmoid": 1, "gelu": 1, "relu": 1, "abs": 1, "max": 2, "min": 2
}  # fmt: skip
"""The functions of the language and how many arguments they take."""

INTEGER_FUNCTIONS = ("relu", "abs", "max", "min")
"""Those that integers have as well."""

Reducer = Literal["sum", "prod", "max", "min"]
REDUCERS: tuple[Reducer, ...] = ("sum", "prod", "max", "min")


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that stands in the text."""

    value: int | float
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    """A name alone. `resolution.resolve` leaves only names of scalar parameters."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Affine:
    """A constant plus a sum of indices, each times a number that is not 0."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """An element of a tensor; on the left of an assignment, the element that is written."""

    tensor: str
    subscripts: tuple[Expression, ...]
    span: Span
    name_span: Span

    @property
    def positions(self) -> tuple[Affine, ...]:
        """The subscripts of a checked computation, in which every name is an index."""
        return tuple(cast("Affine", affine(s)) for s in self.subscripts)

    @property
    def indices(self) -> tuple[str, ...]:
        """The indices of a checked computation that the subscripts depend on, each once."""
        return tuple(dict.fromkeys(index for p in self.positions for index, _ in p.terms))

    @property
    def is_bare(self) -> bool:
        """Whether every subscript is an index alone."""
        return all(isinstance(s, Name) for s in self.subscripts)


@dataclass(frozen=True, slots=True)
class Negation:
    operand: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Reduction:
    """The body's values at all values of the indices, combined."""

    operator: Reducer
    bound: tuple[Name, ...]
    body: Expression
    span: Span

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(b.name for b in self.bound)


@dataclass(frozen=True, slots=True)
class Call:
    function: Name
    arguments: tuple[Expression, ...]
    span: Span


Expression = Constant | Name | Read | Negation | Binary | Reduction | Call


@dataclass(frozen=True, slots=True)
class Assignment:
    target: Read
    value: Expression
    span: Span


def children(node: Expression) -> tuple[Expression, ...]:
    """The operands of a node; subscripts of a read are none."""
    match node:
        case Negation(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Reduction(body=body):
            return (body,)
        case Call(arguments=arguments):
            return arguments
        case _:
            return ()


def walk(node: Expression) -> Iterator[Expression]:
    """The node and all below it, in the order of the text."""
    pending = [node]
    while pending:
        top = pending.pop()
        yield top
        pending.extend(reversed(children(top)))


def indices_of(node: Expression) -> frozenset[str]:
    """The indices of a checked computation that the value of `node` depends on."""
    if isinstance(node, Read):
        return frozenset(node.indices)
    inside = frozenset[str]().union(*map(indices_of, children(node)))
    return inside - frozenset(node.indices) if isinstance(node, Reduction) else inside


def affine(node: Expression) -> Affine | None:
    """What an expression of whole numbers and indices adds up to; None where it is not affine."""
    match node:
        case Constant(value=int(value)):
            return Affine(value)
        case Name(name=name):
            return Affine(0, ((name, 1),))
        case Negation(operand=operand):
            inner = affine(operand)
            return None if inner is None else _scaled(inner, -1)
        case Binary(operator="+" | "-" | "*" as operator, left=left, right=right):
            a, b = affine(left), affine(right)
            if a is None or b is None:
                return None
            if operator == "*":
                return _scaled(a, b.constant) if not b.terms else None if a.terms else _scaled(b, a.constant)
            return _total(a, b if operator == "+" else _scaled(b, -1))
        case _:
            return None


def _scaled(form: Affine, factor: int) -> Affine:
    terms = tuple((index, factor * number) for index, number in form.terms if factor)
    return Affine(factor * form.constant, terms)


def _total(a: Affine, b: Affine) -> Affine:
    terms = dict(a.terms)
    for index, number in b.terms:
        terms[index] = terms.get(index, 0) + number
    return Affine(a.constant + b.constant, tuple((i, n) for i, n in terms.items() if n))

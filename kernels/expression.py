"""The language of `compute:` lines: its syntax tree and its parser.

In: a line of text and where its characters stand in the kernel file. Out: a frozen tree whose nodes carry
spans in that file. The grammar is `grammars/kernel.lark`; what names mean is checked in `resolution.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.kernels.located_yaml import PlacedText

GRAMMAR = Path(__file__).resolve().parent.parent / "grammars" / "kernel.lark"

FUNCTIONS: Mapping[str, int] = {
    "exp": 1, "log": 1, "sqrt": 1, "tanh": 1, "sigmoid": 1, "gelu": 1, "relu": 1, "abs": 1, "max": 2, "min": 2
}  # fmt: skip
"""The functions of the language and how many arguments they take."""

INTEGER_FUNCTIONS = ("relu", "abs", "max", "min")
"""Those that integers have as well."""

Reducer = Literal["sum", "prod", "max", "min"]
REDUCERS: tuple[Reducer, ...] = ("sum", "prod", "max", "min")

DEEPEST = 100
"""Operations inside each other; beyond it a line is refused, since every later stage is recursive."""


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


def parse_assignment(text: PlacedText) -> Assignment:
    """One `compute:` line; raises `DiagnosticError` (KF020, a syntax error)."""
    return cast("Assignment", _parse(text, "assignment"))


def parse_size(text: PlacedText) -> Expression:
    """The text of a size in `shape:` or `strides:`; raises `DiagnosticError` (KF020)."""
    return cast("Expression", _parse(text, "size"))


@cache
def _parser() -> Lark:
    grammar = GRAMMAR.read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=["assignment", "size"], propagate_positions=True)


def _parse(text: PlacedText, start: str) -> Assignment | Expression:
    try:
        tree = _parser().parse(text.text, start=start)
    except UnexpectedInput as error:
        raise DiagnosticError([_syntax_error(error, text)]) from None
    if _depth(tree) > DEEPEST:
        message = f"more than {DEEPEST} operations inside each other are not supported"
        raise DiagnosticError([Diagnostic("KF008", message, text.span(0, len(text.text)))])
    return cast("Assignment | Expression", _Builder(text).transform(tree))


def _depth(tree: Tree[Token]) -> int:
    deepest, pending = 0, [(tree, 1)]
    while pending:
        top, depth = pending.pop()
        deepest = max(deepest, depth)
        pending.extend((child, depth + 1) for child in top.children if isinstance(child, Tree))
    return deepest


_TERMINAL_WORDS = {
    "EQUAL": "`=`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "COMMA": "`,`",
    "PLUS": "`+`",
    "MINUS": "`-`",
    "STAR": "`*`",
    "SLASH": "`/`",
    "NAME": "a name",
    "INTEGER": "a number",
    "REDUCER": "`sum[..](..)`",
    "$END": "the end",
}


TRIANGULAR_CALLS = ("range", "tril", "triu", "where")
"""What other languages write triangular loops with."""

_CONDITION = re.compile(r"[<>≤≥]|(if|for|where)\b")
_BOUND = re.compile(r"[<>≤≥=:.(]|in\b")
"""Of an index, where a reduction names it."""
_REDUCER_OPENED = re.compile(r"\b(sum|prod|max|min)\s*\[[^\]]*$")


def triangular(span: Span) -> Diagnostic:
    """What is said of a loop whose bounds depend on another index."""
    message = "an index takes all values up to its extent: there are no triangular loops"
    hint = (
        "tiles, vectors and threads are shared out before anything runs; compute the whole square, from "
        "inputs that hold zeros in one half, and leave what is not wanted of a result"
    )
    return Diagnostic("KF036", message, span, hint)


def _is_triangular(text: str, at: int) -> bool:
    """Whether what stands there limits an index."""
    if _CONDITION.match(text, at):
        return True
    return bool(_BOUND.match(text, at) and _REDUCER_OPENED.search(text[:at]))


def _syntax_error(error: UnexpectedInput, text: PlacedText) -> Diagnostic:
    start = error.pos_in_stream
    if start is not None and _is_triangular(text.text, start):
        return triangular(text.span(start, start + 1))
    if isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        return Diagnostic(
            "KF020", f"unexpected character {text.text[at]!r}", text.span(at, at + 1), _repair(text.text, at)
        )
    assert isinstance(error, UnexpectedToken)
    token = error.token
    start = token.start_pos or 0
    expected = sorted(_TERMINAL_WORDS[t] for t in error.accepts or error.expected if t in _TERMINAL_WORDS)
    hint = f"expected {' or '.join(expected)}" if expected else None
    if token.type == "$END":
        end = len(text.text.rstrip())
        return Diagnostic("KF020", "the line ends too early", text.span(max(0, end - 1), end), hint)
    span = text.span(start, token.end_pos or start + 1)
    return Diagnostic("KF020", f"unexpected `{token}`", span, _repair(text.text, start) or hint)


def _repair(text: str, at: int) -> str | None:
    """What was probably meant by something that other languages write."""
    before = text[:at].rstrip()
    if text[at] == "^" or text[at] == "*" == before[-1:]:
        return "powers are written as products: `x * x`"
    if text[at] == "{" or (text[at] == "(" and before.isidentifier()):
        return "indices stand in brackets: `A[i, j]`"
    if text.startswith(("+=", "-=", "*=", "/="), at):
        return "every tensor is written once: what is added up is `sum[p](..)`"
    if text[at] == "." and before[-1:].isalnum():
        return "functions are written without a module: `exp(x)`"
    return None


class _Builder(Transformer[Token, Any]):
    """Parse tree to syntax tree, one method for each rule of the grammar."""

    def __init__(self, text: PlacedText) -> None:
        super().__init__()
        self.text = text

    def _token(self, token: Token) -> Span:
        return self.text.span(token.start_pos or 0, token.end_pos or 0)

    def _meta(self, meta: Any) -> Span:
        return self.text.span(meta.start_pos, meta.end_pos)

    @v_args(meta=True)
    def assignment(self, meta: Any, parts: list[Any]) -> Assignment:
        return Assignment(parts[0], parts[1], self._meta(meta))

    @v_args(meta=True)
    def tensor_target(self, meta: Any, parts: list[Any]) -> Read:
        return self._read(meta, parts)

    @v_args(meta=True)
    def scalar_target(self, meta: Any, parts: list[Any]) -> Read:
        return self._read(meta, parts)

    @v_args(meta=True)
    def read(self, meta: Any, parts: list[Any]) -> Read:
        return self._read(meta, parts)

    def _read(self, meta: Any, parts: list[Any]) -> Read:
        subscripts = tuple(p for p in parts[1:] if p is not None)
        return Read(str(parts[0]), subscripts, self._meta(meta), self._token(parts[0]))

    def size(self, parts: list[Any]) -> Expression:
        return cast("Expression", parts[0])

    def number(self, parts: list[Any]) -> Constant:
        (token,) = parts
        value = int(token) if token.type == "INTEGER" and len(token) < 20 else float(token)
        return Constant(value, self._token(token))

    def name(self, parts: list[Any]) -> Name:
        return Name(str(parts[0]), self._token(parts[0]))

    @v_args(meta=True)
    def negate(self, meta: Any, parts: list[Any]) -> Negation:
        return Negation(parts[0], self._meta(meta))

    @v_args(meta=True)
    def add(self, meta: Any, parts: list[Any]) -> Binary:
        return Binary("+", parts[0], parts[1], self._meta(meta))

    @v_args(meta=True)
    def subtract(self, meta: Any, parts: list[Any]) -> Binary:
        return Binary("-", parts[0], parts[1], self._meta(meta))

    @v_args(meta=True)
    def multiply(self, meta: Any, parts: list[Any]) -> Binary:
        return Binary("*", parts[0], parts[1], self._meta(meta))

    @v_args(meta=True)
    def divide(self, meta: Any, parts: list[Any]) -> Binary:
        return Binary("/", parts[0], parts[1], self._meta(meta))

    @v_args(meta=True)
    def reduction(self, meta: Any, parts: list[Any]) -> Reduction:
        bound = tuple(Name(str(t), self._token(t)) for t in parts[1:-1])
        operator = cast("Reducer", str(parts[0]))
        return Reduction(operator, bound, parts[-1], self._meta(meta))

    @v_args(meta=True)
    def call(self, meta: Any, parts: list[Any]) -> Call:
        function = Name(str(parts[0]), self._token(parts[0]))
        return Call(function, tuple(p for p in parts[1:] if p is not None), self._meta(meta))

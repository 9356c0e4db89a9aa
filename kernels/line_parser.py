"""From a `compute:` line, or a size, to its syntax tree.

In: a text and where its characters stand in the kernel file. Out: the tree of `expression.py`, with spans in
that file, or a `DiagnosticError`. The grammar is `grammars/kernel.lark`; names are not looked up here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedInput

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.kernels.expression import (
    Assignment,
    Binary,
    Call,
    Constant,
    Expression,
    Name,
    Negation,
    Read,
    Reducer,
    Reduction,
)
from spacedsl.kernels.line_errors import syntax_error
from spacedsl.kernels.located_yaml import PlacedText

GRAMMAR = Path(__file__).resolve().parent.parent / "grammars" / "kernel.lark"

DEEPEST = 100
"""Operations inside each other; beyond it a line is refused, since every later stage is recursive."""


def parse_assignment(text: PlacedText) -> Assignment:
    """One `compute:` line; raises `DiagnosticError` (KF020 syntax, KF008 depth, KF036 limits of an index)."""
    return cast("Assignment", _parse(text, "assignment"))


def parse_size(text: PlacedText) -> Expression:
    """The text of a size in `shape:` or `strides:`; raises the same."""
    return cast("Expression", _parse(text, "size"))


@cache
def _parser() -> Lark:
    grammar = GRAMMAR.read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=["assignment", "size"], propagate_positions=True)


def _parse(text: PlacedText, start: str) -> Assignment | Expression:
    try:
        tree = _parser().parse(text.text, start=start)
    except UnexpectedInput as error:
        raise DiagnosticError([syntax_error(error, text)]) from None
    check_depth(tree, text.span(0, len(text.text)))
    return cast("Assignment | Expression", _Builder(text).transform(tree))


def check_depth(tree: Tree[Token], span: Span) -> None:
    """Raises `DiagnosticError` (KF008) where too many nodes stand inside each other."""
    if _depth(tree) > DEEPEST:
        message = f"more than {DEEPEST} operations inside each other are not supported"
        raise DiagnosticError([Diagnostic("KF008", message, span)])


def _depth(tree: Tree[Token]) -> int:
    deepest, pending = 0, [(tree, 1)]
    while pending:
        top, depth = pending.pop()
        deepest = max(deepest, depth)
        pending.extend((child, depth + 1) for child in top.children if isinstance(child, Tree))
    return deepest


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

"""From the text of `stages:` to its syntax tree.

In: a text and where its characters stand in the kernel file. Out: the definitions, in order, with spans in
that file, or a `DiagnosticError`. The grammar is `grammars/pipeline.lark`; names are not looked up here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedInput

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.kernels.located_yaml import PlacedText
from spacedsl.kernels.pipeline.definitions import shallow
from spacedsl.kernels.pipeline.line_errors import syntax_error
from spacedsl.kernels.pipeline.syntax import (
    Call,
    Definition,
    Infix,
    Name,
    Node,
    Number,
    Prefix,
    RangeNode,
    Reducer,
    Reduction,
    Within,
)
from spacedsl.kernels.pipeline.typing import DefinitionError

GRAMMAR = Path(__file__).resolve().parents[2] / "grammars" / "pipeline.lark"

_OPERATORS = {
    "or_": "||", "and_": "&&", "bit_or": "|", "bit_xor": "^", "bit_and": "&", "shift_left": "<<",
    "shift_right": ">>", "plus": "+", "minus": "-", "times": "*", "over": "/", "modulo": "%",
}  # fmt: skip
_INFIXES = _OPERATORS.keys() | {"compare"}
_PREFIXES = {"negative": "-", "not_": "!", "complement": "~"}
_DIGITS = 20
"""Of the largest integer of 64 bits."""

_ASSIGNMENTS = {"assign": "", "add": "+", "subtract": "-", "multiply": "*", "min": "min", "max": "max"}


def parse_stages(text: PlacedText) -> tuple[Definition, ...]:
    """Raises `DiagnosticError` (KF020 syntax, KF008 depth)."""
    try:
        tree = _parser().parse(text.text)
    except UnexpectedInput as error:
        raise DiagnosticError([syntax_error(error, text)]) from None
    for definition in tree.children:
        assert isinstance(definition, Tree)
        _check_depth(definition, text.span(definition.meta.start_pos, definition.meta.end_pos))
    return cast("tuple[Definition, ...]", _Builder(text).transform(tree))


def _check_depth(definition: Tree[Token], span: Span) -> None:
    pending = [(definition, 1, 1)]
    while pending:
        top, nested, levels = pending.pop()
        try:
            shallow(nested, levels)
        except DefinitionError as error:
            raise DiagnosticError([Diagnostic(error.code, str(error), span, error.hint)]) from None
        for position, child in enumerate(top.children):
            if isinstance(child, Tree):
                follows = position == 0 and {str(top.data), str(child.data)} <= _INFIXES
                pending.append((child, nested if follows else nested + 1, levels + 1))


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR.read_text(encoding="utf-8"), parser="lalr", propagate_positions=True)


class _Builder(Transformer[Token, Any]):
    """Parse tree to syntax tree, one method for each rule of the grammar."""

    def __init__(self, text: PlacedText) -> None:
        super().__init__()
        self.text = text

    def _name(self, token: Token) -> Name:
        return Name(str(token), self.text.span(token.start_pos or 0, token.end_pos or 0))

    def _span(self, meta: Any) -> Span:
        return self.text.span(meta.start_pos, meta.end_pos)

    def start(self, parts: list[Any]) -> tuple[Definition, ...]:
        return tuple(parts)

    @v_args(meta=True)
    def definition(self, meta: Any, parts: list[Any]) -> Definition:
        name, arguments, operator, value, ranges, condition = parts
        target = self._name(name)
        values = value if isinstance(value, tuple) else (value,)
        call = Call(target, arguments or (), None, target.span)
        return Definition(call, operator, values, ranges or (), condition, self._span(meta))

    def ranges(self, parts: list[Any]) -> tuple[RangeNode, ...]:
        return tuple(parts)

    @v_args(meta=True)
    def range(self, meta: Any, parts: list[Any]) -> RangeNode:
        return RangeNode(self._name(parts[0]), parts[1], parts[2], self._span(meta))

    @v_args(meta=True)
    def within(self, meta: Any, parts: list[Any]) -> Within:
        position, low, high = parts
        return Within(position, low, high, self._span(meta))

    def condition(self, parts: list[Any]) -> Node:
        return cast("Node", parts[0])

    def values(self, parts: list[Any]) -> tuple[Node, ...]:
        return tuple(parts)

    def arguments(self, parts: list[Any]) -> tuple[Node, ...]:
        return tuple(p for p in parts if p is not None)

    @v_args(meta=True)
    def number(self, meta: Any, parts: list[Any]) -> Number:
        (token,) = parts
        value = int(token) if token.type == "INTEGER" and len(token) <= _DIGITS else float(token)
        return Number(value, self._span(meta))

    def name(self, parts: list[Any]) -> Name:
        return self._name(parts[0])

    @v_args(meta=True)
    def call(self, meta: Any, parts: list[Any]) -> Call:
        return Call(self._name(parts[0]), parts[1], None, self._span(meta))

    @v_args(meta=True)
    def element(self, meta: Any, parts: list[Any]) -> Call:
        # No stage has as many values.
        element = int(parts[2]) if len(parts[2]) <= _DIGITS else 10**_DIGITS
        return Call(self._name(parts[0]), parts[1], element, self._span(meta))

    @v_args(meta=True)
    def compare(self, meta: Any, parts: list[Any]) -> Infix:
        return Infix(str(parts[1]), parts[0], parts[2], self._span(meta))

    @v_args(meta=True)
    def reduction(self, meta: Any, parts: list[Any]) -> Reduction:
        operator, *ranges, condition, body = parts
        return Reduction(cast("Reducer", str(operator)), tuple(ranges), condition, body, self._span(meta))

    def __default__(self, data: Any, children: list[Any], meta: Any) -> Any:
        if data in _ASSIGNMENTS:
            return _ASSIGNMENTS[data]
        if data in _PREFIXES:
            return Prefix(cast("Any", _PREFIXES[data]), children[0], self._span(meta))
        return Infix(_OPERATORS[data], children[0], children[1], self._span(meta))

"""Text to syntax tree.

In: a `Source`. Out: `syntax.File`, or a `DiagnosticError`: a syntax error is one diagnostic, with what was
expected and the edit that repairs it where there is one. Names are looked up later, by `checker.py`.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.language import syntax
from spacedsl.language.builder import Builder
from spacedsl.language.syntax_errors import explain

DEEPEST_NESTING = 100
"""Levels of the parse tree: more than a person writes, few enough for recursive stages."""


@cache
def grammar(*, start: str = "file", keep_all_tokens: bool = False) -> Lark:
    """The parser of a rule of `grammars/space.lark`; its trees hold names and texts only, or all tokens."""
    text = resources.files("spacedsl.grammars").joinpath("space.lark").read_text(encoding="utf-8")
    # The basic lexer keeps every keyword a keyword everywhere: a missing `end` is then found at the next
    # declaration, and not read as the name of a choice.
    return Lark(
        text,
        parser="lalr",
        lexer="basic",
        start=start,
        propagate_positions=True,
        maybe_placeholders=True,
        keep_all_tokens=keep_all_tokens,
    )


def parse(source: Source) -> syntax.File:
    """The file's syntax tree; raises `DiagnosticError`."""
    file: syntax.File = _build(source, grammar())
    return file


def parse_spelled(source: Source) -> syntax.Ordering:
    """The syntax tree of an ordering that is spelled out; raises `DiagnosticError`."""
    ordering: syntax.Ordering = _build(source, grammar(start="spelled"))
    return ordering


def _build(source: Source, parser: Lark) -> Any:
    tree = _parse_tree(source, parser)
    _check_depth(source, tree)
    builder = Builder(source)
    built = builder.transform(tree)
    if builder.problems:
        raise DiagnosticError(builder.problems)
    return built


def _parse_tree(source: Source, parser: Lark) -> Tree[Token]:
    try:
        return parser.parse(source.text)
    except UnexpectedInput:
        raise DiagnosticError([explain(parser, source)]) from None


def _check_depth(source: Source, root: Tree[Token]) -> None:
    stack = [(root, 0)]
    while stack:
        tree, depth = stack.pop()
        if depth > DEEPEST_NESTING:
            span = Span(source, tree.meta.start_pos, min(tree.meta.end_pos, tree.meta.start_pos + 1))
            message = f"nested more than {DEEPEST_NESTING} levels deep"
            raise DiagnosticError([Diagnostic("SP004", message, span, "split the condition")])
        stack.extend((child, depth + 1) for child in tree.children if isinstance(child, Tree))

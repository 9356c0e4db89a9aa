"""What a person reads when the text of a `.space` file does not parse.

In: where the parser stopped. Out: one `Diagnostic` with what was expected, in the words of the language, and
the edit that repairs it, when a single insertion or removal lets the parser read on.
"""

from __future__ import annotations

from lark import Token
from lark.exceptions import UnexpectedToken

from spacedsl.diagnostics import Diagnostic, Source, Span


def explain_token(source: Source, error: UnexpectedToken) -> Diagnostic:
    token = error.token
    start = token.start_pos if token.type != "$END" and token.start_pos is not None else len(source.text)
    return Diagnostic("SP002", f"unexpected {token}", Span(source, start, start + max(1, len(token))))


def explain_character(source: Source, offset: int) -> Diagnostic:
    return Diagnostic("SP003", "unexpected character", Span(source, offset, offset + 1))


__all__ = ["Token", "explain_character", "explain_token"]

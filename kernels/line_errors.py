"""What is wrong with a line that the grammar of `compute:` lines refuses.

In: the parser's error and the text. Out: a diagnostic with the repair, also for what other languages write.
Lines that the grammar accepts are checked in `resolution.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from spacedsl.diagnostics import Diagnostic, Span
from spacedsl.kernels.located_yaml import PlacedText

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
_SUBSCRIPTED = re.compile(r"\b(\w+)\s*\[[^\[\]]*\]$")
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


def syntax_error(error: UnexpectedInput, text: PlacedText) -> Diagnostic:
    """KF020 at what was not expected, or KF036 where the line limits an index."""
    start = error.pos_in_stream
    if start is not None and _is_triangular(text.text, start):
        return triangular(text.span(start, start + 1))
    return unexpected(error, text, _TERMINAL_WORDS, _repair, "the line ends too early")


def unexpected(
    error: UnexpectedInput,
    text: PlacedText,
    words: Mapping[str, str],
    repair: Callable[[str, int], str | None],
    at_end: str,
) -> Diagnostic:
    """KF020 at what was not expected.

    `words`: what a person calls the terminals of the grammar; `repair`: what was probably meant by what
    stands at an offset of the text; `at_end`: what is said where the text is over.
    """
    whole = text.text
    if isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        word = re.compile(r"[A-Za-z_]\w*").match(whole, at)
        what, end = (f"`{word[0]}`", word.end()) if word else (f"character {whole[at]!r}", at + 1)
        return Diagnostic("KF020", f"unexpected {what}", text.span(at, end), repair(whole, at))
    assert isinstance(error, UnexpectedToken)
    expected = sorted(words[t] for t in error.accepts or error.expected if t in words)
    hint = f"expected {' or '.join(expected)}" if expected else None
    if error.token.type == "$END":
        end = len(whole.rstrip())
        return Diagnostic("KF020", at_end, text.span(max(0, end - 1), end), hint)
    start = error.token.start_pos or 0
    span = text.span(start, error.token.end_pos or start + 1)
    return Diagnostic("KF020", f"unexpected `{error.token}`", span, repair(whole, start) or hint)


def _repair(text: str, at: int) -> str | None:
    """What was probably meant by something that other languages write."""
    before = text[:at].rstrip()
    if text[at] == "^" or text[at] == "*" == before[-1:]:
        return "powers are written as products: `x * x`"
    if text[at] == "(" and (called := _SUBSCRIPTED.search(before)):
        known = "reductions are `sum`, `prod`, `max` and `min`"
        if called[1] in ("argmax", "argmin"):
            return f"{known}; `argmax` and `argmin` are of pipelines (`backbone: pipeline`)"
        return f"`{called[1]}[..](..)`: {known}"
    if text.startswith("==", at) or (text[at] == "=" and before[-1:] == "="):
        return "lines of linear algebra compare nothing; pipelines do (`backbone: pipeline`)"
    if text[at] == "{" or (text[at] == "(" and before.isidentifier()):
        return "indices stand in brackets: `A[i, j]`"
    if text.startswith(("+=", "-=", "*=", "/="), at):
        return "every tensor is written once: what is added up is `sum[p](..)`"
    if text[at] == "." and before[-1:].isalnum():
        return "functions are written without a module: `exp(x)`"
    return None

"""What stands in front of the cursor: the tokens of the declaration that is being typed.

In: a text up to the cursor, which may be wrong anywhere. Out: a `Context`: the word that has been begun, the
variables in scope, and which words of the grammar the parser would accept next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from spacedsl.diagnostics import LINE_END
from spacedsl.language.parser import grammar

OPENERS = frozenset(
    {
        "set",
        "choice",
        "define",
        "require",
        "quotient",
        "trigger",
        "ordering",
        "view",
        "quantity",
        "map",
        "include",
    }
)
"""Words that begin a declaration, and stand nowhere else."""

_BEGUN = re.compile(r"(?:\$?[A-Za-z_][A-Za-z0-9_]*|\$)\Z")
_CLOSED = re.compile(
    r'"(?:[^"\\\r\n]|\\\r\n|\\.)*"|/\*.*?\*/|//[^\r\n]*(?=[\r\n])'
    r'|"(?P<string>(?:[^"\\\r\n]|\\\r\n|\\.)*)\Z|(?P<comment>//[^\r\n]*|/\*.*)\Z',
    re.DOTALL,
)
"""A string or comment; the two last ones reach up to the cursor."""
_ITEMS = ("value", "alias", "requires")


@dataclass(frozen=True, slots=True)
class Context:
    tokens: tuple[Token, ...]
    """Of the declaration that is being typed, without the word that has been begun."""
    begun: str
    string: str | None
    """What has been typed of the host expression that the cursor is in."""
    in_comment: bool
    begins_line: bool
    """Whether nothing but the word begun stands on the line."""
    accepted: frozenset[str]
    """What may come next: words and signs as they are written, and the names of terminals that stand for many
    words (`NAME`, `VARIABLE`, ..). Nothing where what is in front does not parse."""
    variables: tuple[tuple[str, str], ...]
    """In scope: (name without `$`, the set that it ranges over)."""

    def before(self) -> str:
        """The token in front of the word begun; empty where there is none."""
        return str(self.tokens[-1]) if self.tokens else ""


def context(text: str) -> Context:
    """The context at the end of a text."""
    string: str | None = None
    in_comment = False
    for match in _CLOSED.finditer(text):
        string, in_comment = match["string"], match["comment"] is not None
    begun = _BEGUN.search(text)
    start = begun.start() if begun is not None and string is None else len(text)
    tokens = _declaration([t for t in _tokens(text) if (t.start_pos or 0) < start])
    word = "" if begun is None or string is not None else begun.group()
    begins_line = not LINE_END.split(text[:start])[-1].strip()
    return Context(
        tuple(tokens), word, string, in_comment, begins_line, _accepted(tokens), _variables(tokens)
    )


def _tokens(text: str) -> list[Token]:
    """The tokens up to the first character that begins none."""
    tokens: list[Token] = []
    # `extend` keeps what the lexer gave before it failed.
    with suppress(UnexpectedCharacters):
        tokens.extend(grammar().lex(text))
    return tokens


def _declaration(tokens: list[Token]) -> list[Token]:
    """From the last word that begins a declaration; all tokens where there is none."""
    start = max((i for i, token in enumerate(tokens) if token in OPENERS), default=0)
    return tokens[start:]


def _accepted(tokens: Sequence[Token]) -> frozenset[str]:
    parser = grammar().parse_interactive("")
    try:
        for token in tokens:
            parser.feed_token(token)
    except UnexpectedToken:
        return frozenset()
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    terminals = [grammar().get_terminal(name) for name in accepted - {"$END"}]
    return frozenset(t.pattern.value if t.pattern.type == "str" else t.name for t in terminals)


def _variables(tokens: Sequence[Token]) -> tuple[tuple[str, str], ...]:
    """Bound so far; what a value's `requires` binds ends with it."""
    bound: list[tuple[str, str]] = []
    params: int | None = None
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if token == ":" and not depth and params is None:
            params = len(bound)
        elif token in _ITEMS and params is not None:
            del bound[params:]
        elif token.type == "VARIABLE" and i + 2 < len(tokens) and tokens[i + 1] == "in":
            bound.append((token[1:], str(tokens[i + 2])))
    return tuple(bound)

"""The tokens of a text with the comments and empty lines between them.

In: a text and its tokens. Out: a `pretty.Word` for each token: a comment that begins on the line where the
token before it ends belongs to that one, every other comment to the token behind it. No comment is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from lark import Token

from spacedsl.language.pretty import Comment, Word

_TRIVIA = re.compile(
    r"(?P<blank>[ \t\r\n\f]+)|(?P<comment>//[^\r\n]*|/\*(?:[^*]|\*(?!/))*\*/)",
)


def words(text: str, tokens: Iterable[Token]) -> tuple[list[Word], Word]:
    """A word for each token, in order, and one without text for the end, which has the last comments."""
    found: list[Word] = []
    end = 0
    for token in (*tokens, Token("$END", "", start_pos=len(text), end_pos=len(text))):
        assert token.start_pos is not None and token.end_pos is not None
        after, before, follows_blank = _comments(text, end, token.start_pos, is_first=not found)
        if found:
            found[-1] = replace(found[-1], after=after)
        found.append(Word(str(token), before, follows_blank=follows_blank))
        end = token.end_pos
    return found[:-1], found[-1]


def _comments(
    text: str, start: int, end: int, *, is_first: bool
) -> tuple[tuple[Comment, ...], tuple[Comment, ...], bool]:
    """(those on the line of the token in front, those behind, whether an empty line precedes the token)."""
    after: list[Comment] = []
    before: list[Comment] = []
    newlines = 1 if is_first else 0
    position = start
    while position < end:
        match = _TRIVIA.match(text, position)
        assert match is not None, "between two tokens there are blanks and comments only"
        position = match.end()
        if match.lastgroup == "blank":
            newlines += match.group().count("\n")
            continue
        comment = Comment(_trimmed(match.group()), follows_blank=newlines > 1)
        if newlines or before:
            before.append(comment)
        else:
            after.append(comment)
        newlines = 0
    return tuple(after), tuple(before), newlines > 1


def _trimmed(comment: str) -> str:
    """The comment without blanks at the ends of its lines."""
    return "\n".join(line.rstrip(" \t\r\f") for line in comment.split("\n"))

"""From the text of a host expression to Python's tree of it.

In: a text with `$variables`. Out: their uses; the tree, in which `$x` is the name `_x`, or the problem that
there is none of it. Which Python is allowed is for `host_syntax.py`.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

LONGEST_TEXT = 4000
DEEPEST_NESTING = 60

_VARIABLE = re.compile(r"'(?:[^'\\]|\\.)*'|\$(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
"""A string, in which `$` is a character like others, or a variable."""

_FOREIGN = {"&&": "and", "||": "or", "=>": "not .. or", "!(": "not (", "?": "a if condition else b"}
"""What is written outside of host expressions, and what Python has for it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the characters from `start` to before `end`."""

    message: str
    start: int
    end: int
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class VariableUse:
    """The characters from `start`, which is a `$`, to before `end`."""

    name: str
    start: int
    end: int


def variable_uses(text: str) -> tuple[VariableUse, ...]:
    """In order of the text."""
    found = (m for m in _VARIABLE.finditer(text) if m["name"] is not None)
    return tuple(VariableUse(m["name"], m.start(), m.end()) for m in found)


def parse(text: str) -> ast.expr | Problem:
    """The Python tree, in which `$x` is the name `_x`: both are as long, so places stay what they were."""
    if len(text) > LONGEST_TEXT:
        return Problem(f"longer than {LONGEST_TEXT:,} characters", 0, len(text))
    if not text.strip():
        return Problem(
            "an empty host expression", 0, len(text), "write a Python expression between the quotes"
        )
    if "\0" in text:
        # Python refuses it without saying where.
        place = text.index("\0")
        return Problem("a zero character", place, place + 1)
    python = _VARIABLE.sub(lambda m: m.group() if m["name"] is None else f"_{m['name']}", text)
    blanks = len(text) - len(text.lstrip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # such as `1 is 2`, which is only useless
            # The blanks in front would be an indentation; a parenthesis would move everything by one.
            tree = ast.parse(python[blanks:], mode="eval").body
    except SyntaxError as error:
        # Python gives no column for what is missing at the end.
        start = min(blanks + error.offset - 1, len(text)) if error.offset else len(text)
        word = next((w for w in _FOREIGN if w in text), None)
        hint = f"Python writes `{_FOREIGN[word]}` for `{word}`" if word else None
        return Problem(f"not a Python expression: {error.msg}", start, min(start + 1, len(text)), hint)
    except (ValueError, MemoryError, RecursionError):
        return Problem("not a Python expression", 0, len(text))
    _move(tree, len(text[:blanks].encode()))
    if _depth(tree) > DEEPEST_NESTING:
        return Problem(f"nested more than {DEEPEST_NESTING} levels deep", 0, len(text))
    return tree


def _move(tree: ast.expr, offset: int) -> None:
    """Adds the blanks in front to every place; the text is one line, as continuations are blanks too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.keyword):
            node.col_offset += offset
            node.end_col_offset = (node.end_col_offset or 0) + offset


def _depth(tree: ast.AST) -> int:
    deepest = 0
    stack = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return deepest


def character(text: str, byte: int) -> int:
    """The character at a byte of the text's UTF-8 form: Python counts columns in bytes."""
    return len(text.encode()[:byte].decode(errors="ignore"))

"""Python as a small tree, and its text.

In: statements, whose expressions are names, numbers, calls, subscripts and operators. Out: lines of at most
`WIDTH` characters with as few parentheses as they need. What they mean is for those who make them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDTH = 100
"""Of a line, in characters."""

_SHORT = 40
"""Of what is not broken between two lines."""

_GLUE = "\N{NO-BREAK SPACE}"
"""A space where no line is broken."""

_LEVELS = (("==", "!=", "<", "<=", ">", ">="), ("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"),
           ("*", "/", "//", "%"))  # fmt: skip
_BINDS = {operator: level for level, row in enumerate(_LEVELS) for operator in row}
"""How tightly each operator holds its operands."""
_PREFIX = len(_LEVELS)
_ATOM = _PREFIX + 1


@dataclass(frozen=True, slots=True)
class Atom:
    """A name, a number, a string in quotes, or a name with dots in it."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """`base[point]`; of no positions at all, `base[()]`."""

    base: Node
    point: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Infix:
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Prefix:
    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Several:
    """Values in parentheses, or in other brackets."""

    items: tuple[Node, ...]
    brackets: str = "()"


@dataclass(frozen=True, slots=True)
class Table:
    """A dictionary of strings to values."""

    items: tuple[tuple[str, Node], ...]


Node = Atom | Call | Index | Infix | Prefix | Several | Table


@dataclass(frozen=True, slots=True)
class Assign:
    """`target = value`, or `target += value` and the like."""

    target: str | Node
    value: Node
    operator: str = ""


@dataclass(frozen=True, slots=True)
class Do:
    value: Node


@dataclass(frozen=True, slots=True)
class Return:
    values: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    text: str


@dataclass(frozen=True, slots=True)
class Blank:
    pass


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines that are the same in each text."""

    text: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A function without arguments."""

    name: str
    docstring: str
    body: tuple[Statement, ...]


Statement = Assign | Do | Return | Comment | Blank | Verbatim | Definition


def print_module(docstring: str, statements: Sequence[Statement]) -> str:
    """With its line ends."""
    lines = [f'"""{docstring}"""', *(line for s in statements for line in _lines(s, ""))]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def quoted(text: str) -> Atom:
    """A string of letters, digits and signs that need no escape."""
    return Atom(f'"{text.replace(" ", _GLUE)}"')


# ---- Statements -------------------------------------------------------------------------------------------


def _lines(statement: Statement, margin: str) -> Iterator[str]:
    match statement:
        case Assign(str(target), Table(items)):
            yield f"{margin}{target} = {{"
            for name, value in items:
                yield from _wrapped(f'"{name}": {_text(value)},', f"{margin}    ")
            yield f"{margin}}}"
        case Assign(target, value, operator):
            yield from _closed(f"{_target(target)} {operator}= ", value, margin)
        case Do(value):
            yield from _wrapped(_text(value), margin)
        case Return(values):
            yield from _wrapped(f"return{_GLUE}{f',{_GLUE}'.join(map(_text, values))}", margin)
        case Comment(text):
            yield from textwrap.wrap(
                text, WIDTH, initial_indent=f"{margin}# ", subsequent_indent=f"{margin}# "
            )
        case Blank():
            yield ""
        case Verbatim(text):
            yield from text.splitlines()
        case Definition(name, docstring, body):
            yield f"{margin}def {name}():"
            yield f'{margin}    """{docstring}"""'
            for inner in body:
                yield from _lines(inner, f"{margin}    ")


def _target(target: str | Node) -> str:
    return target if isinstance(target, str) else _text(target).replace(" ", _GLUE)


def _closed(start: str, value: Node, margin: str) -> Iterator[str]:
    """A value that may go over several lines only within brackets."""
    text, start = _text(value), start.replace(" ", _GLUE)
    if len(margin) + len(start) + len(text) > WIDTH and isinstance(value, Infix):
        text = f"({text})"
    yield from _wrapped(start + text, margin)


def _wrapped(line: str, margin: str) -> Iterator[str]:
    for part in textwrap.wrap(
        line, WIDTH, initial_indent=margin, subsequent_indent=f"{margin}    ", break_long_words=False,
        break_on_hyphens=False,
    ):  # fmt: skip
        yield part.replace(_GLUE, " ")


# ---- Expressions ------------------------------------------------------------------------------------------


def _text(node: Node, least: int = 0) -> str:
    """In parentheses where it binds less tightly than `least`."""
    text, binds = _expression(node)
    return _whole(f"({text})") if binds < least else text


def _expression(node: Node) -> tuple[str, int]:
    """The text, and how tightly it binds."""
    match node:
        case Atom(text):
            return text, _PREFIX if text.startswith("-") else _ATOM
        case Call(function, arguments):
            return _whole(f"{function}({', '.join(map(_text, arguments))})"), _ATOM
        case Index(base, point):
            inner = ", ".join(map(_text, point)) or "()"
            return _whole(f"{_text(base, _ATOM)}[{inner}]"), _ATOM
        case Several(items, brackets):
            last = "," if len(items) == 1 and brackets == "()" else ""
            return _whole(f"{brackets[0]}{', '.join(map(_text, items))}{last}{brackets[1]}"), _ATOM
        case Table(items):
            entries = ", ".join(f'"{name}":{_GLUE}{_text(value)}' for name, value in items)
            return _whole(f"{{{entries}}}"), _ATOM
        case Prefix(operator, operand):
            return f"{operator}{_text(operand, _PREFIX)}", _PREFIX
        case Infix():
            return _infixes(node)


def _infixes(node: Infix) -> tuple[str, int]:
    """Operators whose left operands are operators, however many: from the left."""
    chain = [node]
    while isinstance(left := chain[-1].left, Infix):
        chain.append(left)
    text, binds = _expression(chain[-1].left)
    for each in reversed(chain):
        level = _BINDS[each.operator]
        # Comparisons that follow each other would be one.
        if binds < (level + 1 if level == 0 else level):
            text = _whole(f"({text})")
        # A product stays together, where it is no more than that.
        space = _GLUE if level > _BINDS["+"] and len(text) <= _SHORT else " "
        # Few know that sums hold their operands more tightly than shifts do.
        least = _PREFIX if each.operator in ("<<", ">>") else level + 1
        text, binds = f"{text}{space}{each.operator}{_GLUE}{_text(each.right, least)}", level
    return text, binds


def _whole(text: str) -> str:
    """What stands in brackets, on one line where it is short."""
    return text.replace(" ", _GLUE) if len(text) <= _SHORT else text

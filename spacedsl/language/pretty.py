"""A document printer after Wadler ("A prettier printer"): text whose line breaks depend on what fits.

In: a document of words, lines, indents and groups. Out: text. A group is laid out on one line where that
fits, else each line of its own breaks. Words carry their comments: whatever the document says, a comment in
front of a word has a line of its own, and the rest of a line that has ended in `//` goes on the next one.
Nothing here knows of the language.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

INDENT = 2
_CLOSING = (",", ")")
"""Words that no blank separates from a comment in front of them."""


@dataclass(frozen=True, slots=True)
class Comment:
    text: str
    follows_blank: bool = False
    """Whether an empty line stands in front of it."""

    @property
    def ends_line(self) -> bool:
        return self.text.startswith("//") or "\n" in self.text


@dataclass(frozen=True, slots=True)
class Word:
    """A token with the comments on the lines before it, and those behind it on its line."""

    text: str
    before: tuple[Comment, ...] = ()
    after: tuple[Comment, ...] = ()
    follows_blank: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line break; `flat` in its place where the group fits on one line."""

    flat: str = " "
    is_hard: bool = False
    keeps_blank: bool = False
    """Whether an empty line in front of what follows is kept."""


@dataclass(frozen=True, slots=True)
class Indent:
    document: Document


@dataclass(frozen=True, slots=True)
class Align:
    """Lines inside begin under the first character."""

    document: Document


@dataclass(frozen=True, slots=True)
class Group:
    document: Document


Document = str | Word | Line | Indent | Align | Group | tuple["Document", ...]
"""A plain string is blanks between words."""

_Entry = tuple[int, bool, Document]
"""A document with its indentation, and whether it is laid out on one line."""


def render(document: Document, width: int) -> str:
    """The text, ending in a newline unless it is empty; the outermost lines break."""
    paper = _Paper()
    stack: list[_Entry] = [(0, False, document)]
    while stack:
        indent, flat, item = stack.pop()
        match item:
            case str():
                paper.blank(item)
            case Word():
                paper.word(item, indent)
            case Line():
                if flat and not item.is_hard:
                    paper.blank(item.flat)
                else:
                    paper.new_line(indent, item.keeps_blank)
            case Indent(inner):
                stack.append((indent + INDENT, flat, inner))
            case Align(inner):
                stack.append((paper.column, flat, inner))
            case Group(inner):
                flat = flat or (not _must_break(inner) and _fits(inner, stack, width - paper.column))
                stack.append((indent, flat, inner))
            case tuple():
                stack.extend((indent, flat, part) for part in reversed(item))
    return paper.text()


def _leaves(document: Document) -> Iterator[Word | Line]:
    stack = [document]
    while stack:
        match stack.pop():
            case tuple() as parts:
                stack.extend(reversed(parts))
            case Indent(inner) | Align(inner) | Group(inner):
                stack.append(inner)
            case (Word() | Line()) as leaf:
                yield leaf


def _must_break(document: Document) -> bool:
    """Whether there is a hard line, or a comment between two words that needs the end of a line."""
    is_first, is_line_over = True, False
    for leaf in _leaves(document):
        if isinstance(leaf, Line):
            if leaf.is_hard:
                return True
            continue
        if not is_first and (leaf.before or is_line_over):
            return True
        is_first, is_line_over = False, any(c.ends_line for c in leaf.after)
    return False


def _fits(document: Document, rest: list[_Entry], room: int) -> bool:
    """Whether the document on one line, and what stands behind it up to the next line break, has room."""
    stack: list[tuple[bool, Document]] = [(True, document)]
    behind = len(rest)
    while room >= 0:
        if not stack:
            # The rest is looked at as far as it matters: it may be long.
            if not behind:
                return True
            behind -= 1
            _, flat, item = rest[behind]
        else:
            flat, item = stack.pop()
        match item:
            case str():
                room -= len(item)
            case Word():
                first, *others = item.text.split("\n")
                room -= len(first) + sum(1 + len(c.text) for c in item.after if not c.ends_line)
                if others or any(c.ends_line for c in item.after):
                    return room >= 0
            case Line():
                if not flat or item.is_hard:
                    return room >= 0
                room -= len(item.flat)
            case Indent(inner) | Align(inner) | Group(inner):
                stack.append((flat, inner))
            case tuple():
                stack.extend((flat, part) for part in reversed(item))
    return False


@dataclass(slots=True)
class _Paper:
    """What has been written; blanks and indentation are held back until something follows them."""

    lines: list[str] = field(default_factory=list)
    """Those that are complete."""
    line: str = ""
    indent: int = 0
    """Of the line, while nothing stands on it."""
    held: str = ""
    keeps_blank: bool = False
    """Whether an empty line may precede the next word."""
    is_line_over: bool = False
    """Whether the line has ended in a comment."""

    @property
    def column(self) -> int:
        if not self.line:
            return self.indent
        return len(self.line) - (self.line.rfind("\n") + 1) + len(self.held)

    def blank(self, blanks: str) -> None:
        self.held = blanks or self.held

    def new_line(self, indent: int, keeps_blank: bool = False) -> None:
        if self.line:
            self.lines += self.line.split("\n")
            self.line = ""
        self.indent, self.keeps_blank = indent, keeps_blank
        self.held, self.is_line_over = "", False

    def word(self, word: Word, indent: int) -> None:
        for comment in word.before:
            self._fresh_line(indent)
            self._follow(comment.follows_blank)
            self._write(comment.text)
            self.keeps_blank = True
        if word.before or self.is_line_over:
            self._fresh_line(indent)
        if word.text[:1] in _CLOSING:
            self.held = ""
        self._follow(word.follows_blank)
        self._write(word.text)
        self.keeps_blank = False
        for comment in word.after:
            self.held = " "
            self._write(comment.text)
            self.held = " "
            self.is_line_over = self.is_line_over or comment.ends_line

    def _fresh_line(self, indent: int) -> None:
        """Begins a line where the present one has anything on it."""
        if self.line:
            self.new_line(indent, self.keeps_blank)

    def _follow(self, blank: bool) -> None:
        if blank and self.keeps_blank and not self.line and self.lines:
            self.lines.append("")

    def _write(self, text: str) -> None:
        self.line += (self.held if self.line else " " * self.indent) + text
        self.held = ""

    def text(self) -> str:
        self.new_line(0)
        return "".join(f"{line}\n" for line in self.lines)

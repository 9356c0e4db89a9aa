"""YAML text with the position of every key and value.

In: a `Source`. Out: plain Python data (mappings with string keys, lists, strings, numbers, booleans, None)
and, for each path into it, the span of the key and of the value; for a string also where each of its
characters stands. It knows the syntax of YAML 1.2 and nothing about what the files mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span

Path = tuple[str | int, ...]
"""Keys and positions that lead from the document to a value."""

MOST_VALUES = 100_000
"""Aliases can make a short text stand for an endless document: expansion stops here."""

MOST_CHARACTERS = 100_000
"""Of a file: many times what a person writes, and read within two seconds."""

MOST_DIGITS = 100
"""Of an integer: far beyond what anything here is, and what a float holds."""

_TAG = "tag:yaml.org,2002:"
_KINDS = frozenset(("map", "seq", "str", "int", "float", "bool", "null", "timestamp"))


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A string and the offset in the source of each of its characters, and of its end."""

    source: Source
    text: str
    offsets: tuple[int, ...]

    def span(self, start: int, end: int) -> Span:
        """The source span of the characters `start` to `end` (exclusive) of the string."""
        if start >= len(self.text):
            return Span(self.source, self.offsets[-1], self.offsets[-1])
        last = self.offsets[end - 1] + 1 if end > start else self.offsets[start]
        return Span(self.source, self.offsets[start], last)


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data and where it stands. The spans of a path are there for all parts of `data`."""

    source: Source
    data: object
    keys: Mapping[Path, Span]
    values: Mapping[Path, Span]
    nodes: Mapping[Path, ScalarNode] = field(repr=False)

    def key(self, *path: str | int) -> Span:
        """The span of the last key of `path`; of the value where the last part is a position in a list."""
        return self.keys[path] if path in self.keys else self.values[path]

    def value(self, *path: str | int) -> Span:
        return self.values[path]

    def text(self, *path: str | int) -> PlacedText:
        """The string at `path`, character by character."""
        node = self.nodes[path]
        return PlacedText(self.source, node.value, _character_offsets(self.source.text, node))


def parse_document(source: Source, prefix: str) -> Document:
    """The single document of `source`; `prefix` (KF, DV) begins the codes of what it reports.

    Raises `DiagnosticError`: 001 not YAML, 002 empty, 003 a structure that is not accepted, 004 a key twice.
    """
    if len(source.text) > MOST_CHARACTERS:
        raise _error(prefix + "003", f"more than {MOST_CHARACTERS:,} characters", Span(source, 0, 1))
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    try:
        node = yaml.compose(source.text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        offset = min(mark.index, len(source.text)) if mark is not None else 0
        hint = _SPACE_HINT if prefix == "KF" and source.name.endswith(".space") else None
        message = f"this is not YAML: {_words(error)}"
        raise _error(prefix + "001", message, Span(source, offset, offset + 1), hint) from None
    except ReaderError as error:
        span = Span(source, error.position, error.position + 1)
        message = "this is not YAML: a control character"
        raise _error(prefix + "001", message, span) from None
    except YAMLError as error:
        raise _error(prefix + "001", f"this is not YAML: {error}", Span(source, 0, 1)) from None
    except RecursionError:
        raise _too_deep(source, prefix) from None
    except (ValueError, OverflowError, AssertionError, KeyError):
        # The reader's own way to refuse a directive, an escape or a tag, without a place.
        message = "this is not YAML: a directive, an escape or a tag that cannot be read"
        raise _error(prefix + "001", message, Span(source, 0, 1)) from None
    if node is None:
        raise _error(prefix + "002", "the file is empty", Span(source, 0, 0))
    try:
        return _Reader(source, prefix).document(node)
    except RecursionError:
        # Aliases, which are nested in each other.
        raise _too_deep(source, prefix) from None


def _too_deep(source: Source, prefix: str) -> DiagnosticError:
    return _error(prefix + "003", "the file is nested too deeply", Span(source, 0, 1))


def _words(error: MarkedYAMLError) -> str:
    """What the parser found, and where that says nothing alone, what it had expected."""
    words = (error.problem or "unreadable").strip()
    if error.context and words.startswith("but "):
        words = f"{error.context.strip()}, {words}"
    return re.sub(r"\('(<[^']+>)',\)", r"'\1'", words)


_SPACE_HINT = "this is a space: name a kernel file, in which `space:` may name this one"


def _error(code: str, message: str, span: Span, hint: str | None = None) -> DiagnosticError:
    return DiagnosticError([Diagnostic(code, message, span, hint)])


class _Reader:
    """Turns composed nodes into data, noting positions on the way."""

    def __init__(self, source: Source, prefix: str) -> None:
        self.source = source
        self.prefix = prefix
        self.keys: dict[Path, Span] = {}
        self.values: dict[Path, Span] = {}
        self.nodes: dict[Path, ScalarNode] = {}
        self.open: set[int] = set()
        self.report: list[Diagnostic] = []

    def document(self, node: Node) -> Document:
        data = self.read(node, ())
        if self.report:
            raise DiagnosticError(self.report)
        return Document(self.source, data, self.keys, self.values, self.nodes)

    def span(self, node: Node) -> Span:
        start, end = node.start_mark.index, node.end_mark.index
        text = self.source.text[start:end].rstrip()
        return Span(self.source, start, start + len(text))

    def read(self, node: Node, path: Path) -> object:
        self.values[path] = self.span(node)
        if len(self.values) > MOST_VALUES:
            raise _error(self.prefix + "003", f"more than {MOST_VALUES} values", self.span(node))
        if str(node.tag).removeprefix(_TAG) not in _KINDS:
            self.report.append(
                Diagnostic(self.prefix + "003", f"the tag `{node.tag}` is not supported", self.span(node))
            )
            return None
        if isinstance(node, ScalarNode):
            self.nodes[path] = node
            return self.scalar(node)
        if id(node) in self.open:
            self.report.append(
                Diagnostic(self.prefix + "003", "this alias refers to itself", self.span(node))
            )
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, SequenceNode):
                return [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
            assert isinstance(node, MappingNode)
            return self.mapping(node, path)
        finally:
            self.open.discard(id(node))

    def mapping(self, node: MappingNode, path: Path) -> dict[str, object]:
        data: dict[str, object] = {}
        for key_node, value_node in node.value:
            span = self.span(key_node)
            if not isinstance(key_node, ScalarNode) or key_node.tag != _TAG + "str":
                message = f"a key must be a name, not {span.text!r}" if span.text else "a key must be a name"
                self.report.append(Diagnostic(self.prefix + "003", message, span))
                continue
            key = key_node.value
            if key in data:
                first = self.keys[(*path, key)]
                message = f"`{key}` is given twice"
                self.report.append(
                    Diagnostic(self.prefix + "004", message, span, related=((first, "given here first"),))
                )
                continue
            self.keys[(*path, key)] = span
            data[key] = self.read(value_node, (*path, key))
        return data

    def scalar(self, node: ScalarNode) -> object:
        kind = str(node.tag).removeprefix(_TAG)
        text: str = node.value
        try:
            if kind == "int":
                return _integer(text)
            if kind == "float":
                return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            self.report.append(Diagnostic(self.prefix + "003", "this number cannot be read", self.span(node)))
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind == "null":
            return None
        return text


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if len(digits) > MOST_DIGITS:
        raise ValueError
    for lead, base in (("0x", 16), ("0o", 8), ("0b", 2)):
        if digits.startswith(lead):
            return sign * int(digits[2:], base)
    return sign * int(digits, 10)


_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)+")
"""An anchor and a tag, which stand in front of a value and are no part of it."""

_ESCAPE_DIGITS = {"x": 2, "u": 4, "U": 8}


def _character_offsets(source: str, node: ScalarNode) -> tuple[int, ...]:
    """Where each character of a scalar's value stands in the text.

    The characters other than white space come in the same order in both; white space is folded by YAML, so a
    blank of the value stands for one or more blanks of the text. Quotes and escapes are stepped over.
    """
    at, end, style = node.start_mark.index, node.end_mark.index, node.style
    properties = _PROPERTIES.match(source, at, end)
    at = at if properties is None else properties.end()
    if style in ("|", ">"):
        at = source.find("\n", at) + 1
    elif style in ("'", '"'):
        at, end = at + 1, end - 1
    offsets: list[int] = []
    for character in node.value:
        if character.isspace():
            offsets.append(min(at, end))
            if at < end and source[at].isspace():
                at += 1
            elif at < end and style == '"' and source[at] == "\\":
                at += _escape_length(source, at)
            continue
        while at < end and source[at].isspace():
            at += 1
        offsets.append(min(at, end))
        if style == '"' and source[at : at + 1] == "\\":
            # A backslash at the end of a line only joins the lines.
            while source[at + 1 : at + 2] in ("\n", "\r"):
                at += 2
                while at < end and source[at].isspace():
                    at += 1
                offsets[-1] = at
                if source[at : at + 1] != "\\":
                    break
            at += _escape_length(source, at) if source[at : at + 1] == "\\" else 1
        elif style == "'" and character == "'":
            at += 2
        else:
            at += 1
    offsets.append(min(at, end))
    return tuple(offsets)


def _escape_length(source: str, at: int) -> int:
    return 2 + _ESCAPE_DIGITS.get(source[at + 1 : at + 2], 0)

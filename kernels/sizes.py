"""Names and sizes, as kernel files of any backbone have them.

In: a document, and its sizes. Out: what an extent amounts to, or diagnostics: names that cannot be used,
sizes that are not positive or not known.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Container, Iterable, Mapping

from spacedsl.diagnostics import DiagnosticError, Span
from spacedsl.kernels.expression import Binary, Constant, Expression, Name, Negation
from spacedsl.kernels.line_parser import parse_size
from spacedsl.kernels.located_yaml import Document
from spacedsl.kernels.validation import closest
from spacedsl.language.report import Report

MOST_ELEMENTS = 2**40
"""Of a tensor, the gaps of strides included; and of a size."""

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
IDENTIFIER_HINT = "letters, digits and `_`, beginning with a letter"

_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}


class SizeOverrideError(ValueError):
    """A size from the command line that the file does not have, or that is out of range."""


def whole_number(text: str) -> int | None:
    """The number that a person has typed; None where it is none, or has more digits than Python reads."""
    try:
        return int(text)
    except ValueError:
        return None


def overridden(kernel: str, own: Mapping[str, int], given: Mapping[str, int]) -> Mapping[str, int]:
    """The sizes of a file, with those from outside in their place; raises `SizeOverrideError`."""
    for name, size in given.items():
        if name not in own:
            hint = closest(name, own)
            raise SizeOverrideError(f"`{kernel}` has no size `{name}`" + (f"; {hint}" if hint else ""))
        if not hasattr(size, "__index__"):
            raise SizeOverrideError(f"size `{name}` is a whole number, not {size!r}")
        if not 1 <= size <= MOST_ELEMENTS:
            raise SizeOverrideError(f"size `{name}` must lie between 1 and 2**40; {size} does not")
    return {**own, **{name: operator.index(size) for name, size in given.items()}}


class SizeReader:
    """Collects what is wrong; `reserved` are names that mean something else in the language of the file."""

    def __init__(self, document: Document, sizes: Mapping[str, int], reserved: Container[str]) -> None:
        self.document = document
        self.known_sizes = sizes
        self.reserved = reserved
        self.report = Report()

    def names(self, kernel: str, groups: Mapping[str, Iterable[str]]) -> None:
        """Every name is an identifier, and means one thing."""
        self.identifier(kernel, self.document.value("kernel"))
        seen: dict[str, Span] = {}
        for key, names in groups.items():
            for name in names:
                span = self.document.key(key, name)
                self.identifier(name, span)
                if name in seen:
                    related = (seen[name], "declared here first")
                    self.report.error("KF011", f"`{name}` is declared twice", span, None, related)
                seen.setdefault(name, span)

    def identifier(self, name: str, span: Span) -> None:
        if not IDENTIFIER.fullmatch(name):
            self.report.error("KF010", f"{name!r} cannot be a name", span, IDENTIFIER_HINT)
        elif name in self.reserved:
            self.report.error("KF010", f"`{name}` is a reserved word", span, "choose another name")

    def sizes(self, given: Mapping[str, int]) -> None:
        """Each is positive; what replaces it from outside has been checked."""
        for name, size in given.items():
            if self.known_sizes[name] != size:
                continue
            span = self.document.value("sizes", name)
            if size < 1:
                self.report.error("KF012", f"size `{name}` must be at least 1, not {size}", span)
            elif size > MOST_ELEMENTS:
                self.report.error("KF013", f"size `{name}` is larger than 2**40", span)

    def positive(self, given: int | str, *place: str | int) -> int | None:
        """An extent; None with an error reported. A size below 1, which has been reported, is as it is."""
        extent = self.extent(given, *place)
        if extent is not None and extent < 1 and given not in self.known_sizes:
            message = f"an extent must be at least 1, not {extent}"
            self.report.error("KF012", message, self.document.value(*place))
            return None
        return extent

    def extent(self, entry: int | str, *place: str | int) -> int | None:
        """A number, a size, or arithmetic with them, quotients rounded down; None with an error reported."""
        if isinstance(entry, int):
            return entry
        try:
            node = parse_size(self.document.text(*place))
        except DiagnosticError as error:
            self.report.problems += error.diagnostics
            return None
        return self.evaluate(node)

    def evaluate(self, node: Expression) -> int | None:
        match node:
            case Constant(value=int(value)):
                return value
            case Name(name=name, span=span):
                if name not in self.known_sizes:
                    hint = closest(name, self.known_sizes) or "sizes are declared under `sizes:`"
                    self.report.error("KF014", f"unknown size `{name}`", span, hint)
                return self.known_sizes.get(name)
            case Negation(operand=operand):
                negated = self.evaluate(operand)
                return None if negated is None else -negated
            case Binary(operator="+" | "-" | "*" | "/" as sign, left=left, right=right):
                a, b = self.evaluate(left), self.evaluate(right)
                if a is None or b is None:
                    return None
                if sign == "/" and b == 0:
                    self.report.error("KF015", "this is divided by 0", node.span)
                    return None
                return _ARITHMETIC[sign](a, b)
            case _:
                what = "a size is made of whole numbers, size names, `+`, `-`, `*` and `/`"
                self.report.error("KF015", what, node.span)
                return None

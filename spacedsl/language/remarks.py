"""What is right by the rules and hardly meant.

In: formulas of the typed space. Out: whether one is always true or always false for what stands in it alone;
host expressions and comparisons of integers count as open. In: a text. Out: divisions that became comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from spacedsl.diagnostics import Diagnostic, Severity, Source, Span
from spacedsl.language import space

_SPOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|/\*(?:[^*]|\*(?!/))*\*/|(?P<comment>//[^\r\n]*)', re.DOTALL)
"""Strings and comments, so that neither is looked for in the other."""

_DIVISOR = re.compile(r'//\s*(?:\d+|"[^"]*"|[a-z_]\w*\(\$[^)]*\))\s*(?:[-+*/<>=&|?:,)}].*)?')

_NEAR = 20
"""Blanks, at most, between a dividend and the comment."""


def commented_divisions(source: Source) -> Iterator[Diagnostic]:
    """Comments behind a value that hold a divisor, as in Python, and maybe the rest of a formula."""
    for match in _SPOKEN.finditer(source.text):
        start, end = match.span()
        comment = match["comment"]
        dividend = source.text[max(0, start - _NEAR) : start].rstrip(" \t")[-1:]
        if comment is None or not (dividend.isdigit() or dividend in (")", '"')):
            continue
        if _DIVISOR.fullmatch(comment.rstrip()):
            hint = "write `floor(a, b)` or `ceil(a, b)`, in a quantity; Python's `//` stands in double quotes"
            span = Span(source, start, end)
            yield Diagnostic("SP106", "`//` begins a comment", span, hint, Severity.WARNING)


def truth(formula: space.Formula, full: Mapping[str, int]) -> bool | None:
    """Its value where that is certain; `full` gives the mask of all values of each enum."""
    match formula:
        case space.Constant(value):
            return value
        case space.Is(use, mask):
            return _whole(mask, full[use.choice])
        case space.Not(operand):
            inner = truth(operand, full)
            return None if inner is None else not inner
        case space.Or(operands):
            return _any_of(operands, full)
        case space.And(operands):
            # By De Morgan: a conjunction fails where the disjunction of the negations holds.
            negated = _any_of([_negation(o, full) for o in operands], full)
            return None if negated is None else not negated
        case _:
            return None


def _any_of(operands: Iterable[space.Formula], full: Mapping[str, int]) -> bool | None:
    """Whether one of them holds; tests of one choice are looked at together."""
    masks: dict[space.Use, int] = {}
    values: list[bool | None] = []
    for operand in operands:
        if isinstance(operand, space.Is):
            masks[operand.use] = masks.get(operand.use, 0) | operand.mask
        else:
            values.append(truth(operand, full))
    values += [_whole(mask, full[use.choice]) for use, mask in masks.items()]
    if True in values:
        return True
    return None if None in values else False


def _negation(formula: space.Formula, full: Mapping[str, int]) -> space.Formula:
    if isinstance(formula, space.Is):
        return space.Is(formula.use, full[formula.use.choice] & ~formula.mask, formula.span)
    return space.Not(formula)


def _whole(mask: int, full: int) -> bool | None:
    if mask == full:
        return True
    return None if mask else False

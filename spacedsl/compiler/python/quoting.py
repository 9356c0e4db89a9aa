"""What a propagator's docstring quotes: the lines of a `.space` file that it comes from.

In: the span of a condition, or of the name that a declaration gives. Out: its lines; in front of them those
that they are indented under (`require forall ..:`), behind them what is indented under the declaration.
Indentation is believed: of a file that is laid out otherwise, fewer lines are quoted.
"""

from __future__ import annotations

from collections.abc import Iterable

from spacedsl.diagnostics import Span

FARTHEST = 100
"""Lines that are looked at above and below."""


def quoted(span: Span) -> list[str]:
    """Without empty lines and documentation, and with no indentation in common."""
    source = span.source
    first, last = span.line, source.location(max(span.start, span.end - 1))[0]

    def lines(start: int, stop: int, step: int = 1) -> Iterable[str]:
        return (source.line(number).expandtabs() for number in range(start, stop, step))

    here = list(lines(first, last + 1))
    above = _above(here[0], lines(first - 1, max(first - FARTHEST, 1) - 1, -1))
    is_closed = "end" in here[-1].split()
    below = _below(here[0], lines(last + 1, min(last + FARTHEST, len(source.line_starts)) + 1))
    found = [line for line in (*above, *here, *(() if is_closed else below)) if _is_said(line)]
    least = min(map(_indentation, found))
    return [line[least:].rstrip() for line in found]


def _above(line: str, before: Iterable[str]) -> list[str]:
    """Of the lines before, the nearest first: those that this one is indented under, outermost first."""
    found: list[str] = []
    depth = _indentation(line)
    for candidate in before:
        if depth == 0:
            break
        if _is_said(candidate) and _indentation(candidate) < depth:
            found.insert(0, candidate)
            depth = _indentation(candidate)
    return found


def _below(line: str, behind: Iterable[str]) -> list[str]:
    """What is indented under a line, with the `end` that closes it."""
    found: list[str] = []
    for candidate in behind:
        if candidate.strip() and _indentation(candidate) <= _indentation(line):
            is_end = candidate.strip() == "end" and _indentation(candidate) == _indentation(line)
            return [*found, candidate] if is_end else found
        found.append(candidate)
    return found


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_said(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("//")

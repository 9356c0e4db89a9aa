"""The outline of a file: its declarations, and the values inside them.

In: an analysis and one of its files. Out: a tree of entries with their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spacedsl.diagnostics import Span
from spacedsl.language import syntax
from spacedsl.lsp.analysis import Analysis
from spacedsl.lsp.symbols import Symbol, SymbolKind


@dataclass(frozen=True, slots=True)
class Entry:
    kind: SymbolKind | None
    """None: a rule without a name."""
    name: str
    place: Span
    """What is highlighted."""
    extent: Span
    """All of it."""
    children: tuple[Entry, ...] = ()


def outline(analysis: Analysis, path: Path) -> tuple[Entry, ...]:
    """The entries of a file, in order; a quotient is a set, requirements and triggers go by their text."""
    source = analysis.files[path]
    symbols = [s for s in analysis.index.symbols if s.place.source is source]
    inside: dict[int, list[Symbol]] = {}
    for symbol in symbols:
        if symbol.kind is SymbolKind.VALUE:
            inside.setdefault(id(symbol.owner), []).append(symbol)
    entries = [
        Entry(s.kind, s.name, s.place, s.declaration, tuple(_leaf(v) for v in inside.get(id(s), ())))
        for s in symbols
        if s.owner is None and s.kind is not SymbolKind.VARIABLE
    ]
    entries += [
        Entry(None, _title(rule), rule.span, rule.span)
        for rule in analysis.checked.declarations
        if isinstance(rule, syntax.Require | syntax.Trigger) and rule.span.source is source
    ]
    return tuple(sorted(entries, key=lambda entry: entry.extent.start))


def _leaf(symbol: Symbol) -> Entry:
    return Entry(symbol.kind, symbol.name, symbol.place, symbol.declaration)


def _title(rule: syntax.Require | syntax.Trigger) -> str:
    shown = rule.conditions[0] if isinstance(rule, syntax.Require) else rule.callback
    keyword = "require" if isinstance(rule, syntax.Require) else "trigger"
    text = " ".join(shown.span.text.split())
    return f"{keyword} {text if len(text) <= 60 else text[:57] + '...'}"

"""What is shown about a name that the pointer rests on, and where names lead.

In: a workspace, a path and an offset. Out: Markdown with the declaration and its documentation; spans.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from spacedsl.diagnostics import LINE_END, Span
from spacedsl.language import syntax
from spacedsl.lsp.analysis import Analysis, Workspace
from spacedsl.lsp.symbols import Symbol, SymbolKind

LONGEST_DECLARATION = 16
"""Lines of a declaration that are shown."""

_WORD = re.compile(r"\$?[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Hover:
    markdown: str
    span: Span | None
    """The name in the present text, where that is the one that was analysed."""


def hover(workspace: Workspace, path: Path, offset: int) -> Hover | None:
    """What a name stands for; None where there is none."""
    analysis = workspace.around(path)
    if analysis.parses(path):
        occurrence = analysis.at(path, offset)
        if occurrence is None:
            return None
        return Hover(describe(analysis, occurrence.symbol), occurrence.span)
    last = workspace.meaning(path)
    symbol = named(last, workspace.texts[path], offset)
    return None if symbol is None else Hover(describe(last, symbol), None)


def named(analysis: Analysis, text: str, offset: int) -> Symbol | None:
    """What the word at an offset of a text that does not parse stood for in the last one that did."""
    word = next((m for m in _WORD.finditer(text) if m.start() <= offset <= m.end()), None)
    if word is None:
        return None
    name = word.group()
    if name.startswith("$"):
        bound = [s for s in analysis.index.symbols if s.kind is SymbolKind.VARIABLE and s.name == name[1:]]
        return min(bound, key=lambda s: abs(s.place.start - offset), default=None)
    values = [s for values in analysis.index.values.values() for v, s in values.items() if v == name]
    return (
        analysis.index.sets.get(name)
        or analysis.index.choices.get(name)
        or (values[0] if len(values) == 1 else None)
    )


def definition(workspace: Workspace, path: Path, offset: int) -> tuple[Span | Path, ...]:
    """Where the name is declared; of an `include`, the file."""
    analysis = workspace.around(path)
    for span, included in analysis.checked.includes:
        if Path(span.source.name).resolve() == path and span.start - 1 <= offset <= span.end + 1:
            return (included,) if included.is_file() or included in workspace.texts else ()
    if analysis.parses(path):
        occurrence = analysis.at(path, offset)
        return () if occurrence is None else (occurrence.symbol.place,)
    symbol = named(workspace.meaning(path), workspace.texts[path], offset)
    return () if symbol is None else (symbol.place,)


def describe(analysis: Analysis, symbol: Symbol) -> str:
    """The declaration as code, then what documents it."""
    parts = [f"```space\n{_code(symbol)}\n```"]
    doc = symbol.doc
    if symbol.kind is SymbolKind.VARIABLE:
        of = analysis.index.sets.get(symbol.ranges_over)
        doc = of.doc if of is not None else ""
    if symbol.kind is SymbolKind.VALUE and symbol.owner is not None:
        parts.append(f"A value of `{symbol.owner.name}`.")
    if doc:
        parts.append(doc)
    return "\n\n".join(parts)


def _code(symbol: Symbol) -> str:
    if symbol.kind is SymbolKind.VARIABLE:
        return symbol.declaration.text
    if symbol.kind is SymbolKind.VALUE and symbol.owner is not None and symbol.place is symbol.owner.place:
        return f"{symbol.owner.name} is {symbol.name}"
    if isinstance(symbol.node, syntax.EnumChoice | syntax.OrderedChoice):
        return _enum(symbol.node)
    lines = undocumented(symbol.declaration).splitlines()
    lines = [line for line in lines if not line.lstrip().startswith("///")]
    return "\n".join([*lines[:LONGEST_DECLARATION], *(["..."] if len(lines) > LONGEST_DECLARATION else [])])


def undocumented(declaration: Span) -> str:
    """A declaration without the `///` lines in front of it, moved to the left margin."""
    text = declaration.text
    while text.startswith("///"):
        _, *further = LINE_END.split(text, maxsplit=1)
        text = "".join(further).lstrip()
    start = declaration.source.text[: declaration.end].rfind(text)
    column = declaration.source.location(max(start, 0))[1] - 1
    return re.sub(rf"\n[ \t]{{1,{column}}}", "\n", text) if column else text


def _enum(node: syntax.EnumChoice | syntax.OrderedChoice) -> str:
    """The header, and the values on one line each."""
    params = ", ".join(" ".join(p.span.text.split()) for p in node.params)
    is_ordered = isinstance(node, syntax.OrderedChoice)
    lines = [f"choice {'ordered ' if is_ordered else ''}enum {node.name.text}({params}):"]
    if isinstance(node, syntax.OrderedChoice):
        lines.append("  " + " < ".join(name.text for name in node.chain))
    for item in node.items:
        match item:
            case syntax.Symmetric():
                lines.append("  symmetric")
            case syntax.Antisymmetric(pairs):
                lines += ["  antisymmetric:", *(f"    {a.text} -> {b.text}" for a, b in pairs)]
            case syntax.Value(name):
                lines.append(f"  value {name.text}:")
            case syntax.Alias(name, values):
                lines.append(f"  alias {name.text} = {' | '.join(v.text for v in values)}:")
    return "\n".join([*lines, "end"])

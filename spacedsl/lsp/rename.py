"""Every place of a name, and what changes where it gets another one.

In: a workspace, a path, an offset and a new name. Out: spans, or the edits of each file; a `RenameError` in
words where the name cannot be had. All files of the workspace that include the declaration take part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spacedsl.diagnostics import Severity, Source, Span
from spacedsl.language.loader import check_text, read_file
from spacedsl.language.names import RESERVED_VARIABLES
from spacedsl.language.parser import grammar
from spacedsl.lsp.analysis import Analysis, Workspace
from spacedsl.lsp.symbols import Occurrence, Symbol, SymbolKind

_FORMS: Mapping[SymbolKind, tuple[str, str]] = {
    SymbolKind.SET: (r"[A-Z][A-Za-z0-9_]*", "sets are written in CamelCase"),
    SymbolKind.VALUE: (r"[A-Z][A-Z0-9_]*", "values are written in UPPER_CASE"),
    SymbolKind.VARIABLE: (r"[A-Za-z_][A-Za-z0-9_]*", "variables are written as `$name`"),
}
_SNAKE_CASE = (r"[a-z][a-z0-9_]*", "choices, orderings and views are written in snake_case")


class RenameError(Exception):
    """The name cannot be changed to this one; the message says why."""


@dataclass(frozen=True, slots=True)
class Edit:
    span: Span
    text: str


def references(workspace: Workspace, path: Path, offset: int) -> tuple[Span, ...]:
    """Every place of what is named at an offset, its declaration first."""
    found: dict[tuple[Path, int], Span] = {}
    for analysis, symbol in _symbols(workspace, path, offset):
        for span in analysis.index.of(symbol):
            found.setdefault((Path(span.source.name).resolve(), span.start), span)
    return tuple(found.values())


def renameable(workspace: Workspace, path: Path, offset: int) -> Occurrence:
    """The name at an offset; raises `RenameError` where it cannot be changed."""
    analysis = workspace.around(path)
    if not analysis.parses(path):
        raise RenameError("the file has a syntax error")
    occurrence = analysis.at(path, offset)
    if occurrence is None:
        raise RenameError("there is no name here that this file or one that it includes declares")
    symbol = occurrence.symbol
    if symbol.owner is not None and symbol.place is symbol.owner.place:
        raise RenameError(f"`{symbol.name}` is a word of the language here")
    return occurrence


def rename(workspace: Workspace, path: Path, offset: int, new: str) -> Mapping[Path, tuple[Edit, ...]]:
    """The edits of each file; raises `RenameError`."""
    symbol = renameable(workspace, path, offset).symbol
    name = new.removeprefix("$") if symbol.kind is SymbolKind.VARIABLE else new
    _check_form(symbol.kind, name)
    if name == symbol.name:
        return {}
    for analysis, renamed in _symbols(workspace, path, offset):
        _check_clash(analysis, renamed, name)
    written = f"${name}" if symbol.kind is SymbolKind.VARIABLE else name
    edits: dict[Path, list[Edit]] = {}
    for span in references(workspace, path, offset):
        edits.setdefault(Path(span.source.name).resolve(), []).append(Edit(span, written))
    result = {file: tuple(sorted(e, key=lambda edit: edit.span.start)) for file, e in edits.items()}
    _check_meaning(workspace, symbol, result)
    return result


def _symbols(workspace: Workspace, path: Path, offset: int) -> Iterable[tuple[Analysis, Symbol]]:
    """What is named, in each analysis of which the file of its declaration is a part."""
    here = workspace.around(path).at(path, offset)
    if here is None:
        return
    place = here.symbol.place
    declaring = Path(place.source.name).resolve()
    for analysis in workspace.roots(declaring):
        occurrence = analysis.at(declaring, place.start)
        if occurrence is not None:
            yield analysis, occurrence.symbol


def _check_form(kind: SymbolKind, name: str) -> None:
    form, words = _FORMS.get(kind, _SNAKE_CASE)
    if not re.fullmatch(form, name):
        raise RenameError(f"`{name}` is no name here: {words}")
    if name in {terminal.pattern.value for terminal in grammar().terminals}:
        raise RenameError(f"`{name}` is a word of the language")
    if kind is SymbolKind.VARIABLE and name in RESERVED_VARIABLES:
        raise RenameError(f"`${name}` is always in scope")


def _check_clash(analysis: Analysis, symbol: Symbol, name: str) -> None:
    index = analysis.index
    match symbol.kind:
        case SymbolKind.SET:
            other = index.sets.get(name)
        case SymbolKind.VALUE:
            assert symbol.owner is not None
            other = index.values[symbol.owner.name].get(name)
        case SymbolKind.VARIABLE:
            other = _variable_nearby(analysis, symbol, name)
        case SymbolKind.ORDERING | SymbolKind.VIEW:
            same = [s for s in index.symbols if s.kind is symbol.kind and s.name == name]
            other = same[0] if same else None
        case _:
            other = index.choices.get(name)
    if other is not None:
        sign = "$" if symbol.kind is SymbolKind.VARIABLE else ""
        raise RenameError(f"there is already a {other.kind} `{sign}{name}`, at {other.place}")


def _variable_nearby(analysis: Analysis, symbol: Symbol, name: str) -> Symbol | None:
    """A variable of this name in the same declaration, where one could be taken for the other."""
    place = symbol.place
    around = next(
        d.span
        for d in analysis.checked.declarations
        if d.span.source is place.source and d.span.start <= place.start < d.span.end
    )
    for other in analysis.index.symbols:
        is_inside = other.place.source is place.source and around.start <= other.place.start < around.end
        if other.kind is SymbolKind.VARIABLE and other.name == name and is_inside:
            return other
    return None


def _check_meaning(workspace: Workspace, symbol: Symbol, edits: Mapping[Path, tuple[Edit, ...]]) -> None:
    """Whether the files that were right still are; what no index shows would be found here."""
    texts = dict(workspace.texts)
    for file, changes in edits.items():
        texts[file] = applied(changes[0].span.source.text, changes)

    def read(included: Path) -> Source:
        resolved = included.resolve()
        return Source(str(resolved), texts[resolved]) if resolved in texts else read_file(included)

    for analysis in workspace.roots(Path(symbol.place.source.name).resolve()):
        if analysis.checked.space is None:
            continue
        found = check_text(read(analysis.path), read).diagnostics
        error = next((d for d in found if d.severity is Severity.ERROR), None)
        if error is not None:
            raise RenameError(f"{error.span}: {error.message} would be an error then")


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits, which do not overlap."""
    for edit in sorted(edits, key=lambda e: e.span.start, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text

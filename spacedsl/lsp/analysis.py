"""What is known of the `.space` files that are open, kept up to date as they change.

In: texts of open files, by path; all others are read from the disk. Out: an `Analysis` of each file as the
root of what it includes. While a text does not parse, the last one that did still answers what names mean.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from spacedsl.compiler import refusals
from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source
from spacedsl.language.loader import SUFFIX, Checked, check_text, read_file
from spacedsl.lsp.indexing import index
from spacedsl.lsp.symbols import Index, Occurrence

MOST_FILES = 1000
"""Of a workspace that are looked through for files that include another one."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """One file and all that it includes."""

    path: Path
    checked: Checked
    index: Index

    @property
    def files(self) -> Mapping[Path, Source]:
        """The sources by their resolved paths."""
        return {Path(source.name).resolve(): source for source in self.checked.sources}

    def diagnostics(self) -> Mapping[Path, tuple[Diagnostic, ...]]:
        """By file; one without any has an empty entry."""
        found: dict[Path, list[Diagnostic]] = {path: [] for path in self.files}
        for diagnostic in self.checked.diagnostics:
            found.setdefault(Path(diagnostic.span.source.name).resolve(), []).append(diagnostic)
        return {path: tuple(diagnostics) for path, diagnostics in found.items()}

    def parses(self, path: Path) -> bool:
        """Whether a file, which it or an included one may be, parses."""
        return any(source is self.files.get(path) for source in self.checked.parsed)

    def at(self, path: Path, offset: int) -> Occurrence | None:
        source = self.files.get(path)
        return None if source is None else self.index.at(source, offset)


def analyse(path: Path, text: str, open_texts: Mapping[Path, str]) -> Analysis:
    """The analysis of a text at a path; what it includes is open or lies on the disk."""

    def read(included: Path) -> Source:
        resolved = included.resolve()
        if resolved in open_texts:
            return Source(str(resolved), open_texts[resolved])
        return read_file(included)

    checked = check_text(Source(str(path), text), read)
    if checked.space is not None:
        refused = refusals(checked.space)
        checked = replace(checked, diagnostics=(*checked.diagnostics, *refused))
    return Analysis(path, checked, index(checked.declarations))


@dataclass(slots=True)
class Workspace:
    """The open files and their analyses: the one place of the server where something changes."""

    folders: tuple[Path, ...] = ()
    texts: dict[Path, str] = field(default_factory=dict)
    """Of open files, by resolved path."""
    current: dict[Path, Analysis] = field(default_factory=dict)
    """Of each open file as a root."""
    good: dict[Path, Analysis] = field(default_factory=dict)
    """The last analysis in which the text of an open file did parse."""

    def update(self, path: Path, text: str) -> None:
        """Takes in a new text; every open file that includes it is analysed again."""
        self.texts[path] = text
        self._analyse([path, *self._including(path)])

    def close(self, path: Path) -> None:
        """From now on the file is what lies on the disk."""
        self.texts.pop(path, None)
        self.good.pop(path, None)
        self.current.pop(path, None)
        self._analyse(self._including(path))

    def refresh(self) -> None:
        """Reads again what is not open and may have changed on the disk."""
        self._analyse(list(self.texts))

    def _including(self, path: Path) -> list[Path]:
        """The other open files that include this one."""
        return [other for other in self.texts if other != path and path in self.current[other].files]

    def _analyse(self, paths: list[Path]) -> None:
        for path in paths:
            self.current[path] = analyse(path, self.texts[path], self.texts)
        for path in self.texts:
            analysis = self.around(path)
            if analysis.parses(path):
                self.good[path] = analysis

    def around(self, path: Path) -> Analysis:
        """The analysis that knows most of an open file: that of an open one that includes it, or its own."""
        return next((self.current[other] for other in self._including(path)), self.current[path])

    def meaning(self, path: Path) -> Analysis:
        """The analysis to ask for meanings: the last one in which the file did parse, if there was one."""
        return self.good.get(path, self.current[path])

    def roots(self, path: Path) -> Iterator[Analysis]:
        """The analyses of which a file is a part: its own, and those of all files that include it."""
        for other in dict.fromkeys((path, *self._known_files())):
            analysis = self.current.get(other)
            if analysis is None:
                try:
                    analysis = analyse(other, read_file(other).text, self.texts)
                except (OSError, DiagnosticError):
                    continue  # not a file that anything could include
            if path in analysis.files:
                yield analysis

    def diagnostics(self) -> Mapping[Path, tuple[Diagnostic, ...]]:
        """Of all open files and what they include.

        A file that another open one includes is shown as a part of that one: by itself it may lack what
        stands in front of the `include`.
        """
        found: dict[Path, tuple[Diagnostic, ...]] = {}
        for path in self.texts:
            # Of files that include each other, each is shown.
            if all(other in self.current[path].files for other in self._including(path)):
                for file, diagnostics in self.current[path].diagnostics().items():
                    found[file] = tuple(dict.fromkeys((*found.get(file, ()), *diagnostics)))
        return found

    def _known_files(self) -> list[Path]:
        """The open files, then those of the workspace's folders, in order of their paths."""
        files = dict.fromkeys(self.texts)
        for top in self.folders:
            for folder, folders, names in os.walk(top):
                folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "node_modules")
                files |= dict.fromkeys(Path(folder, n).resolve() for n in sorted(names) if n.endswith(SUFFIX))
                if len(files) > MOST_FILES:
                    break
        return list(files)

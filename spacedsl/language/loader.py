"""Files to a typed space: reading, includes, parsing, checking.

In: the path of a `.space` file. Out: the space and its diagnostics. A file is read once, however often it is
included; what it declares stands where it is included first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from spacedsl.files import resolved
from spacedsl.language import space, syntax
from spacedsl.language.checker import check
from spacedsl.language.parser import parse
from spacedsl.language.remarks import commented_divisions

SUFFIX = ".space"
MOST_OPEN_FILES = 60
"""Files that include each other in a row: more than a person writes, few enough to read recursively."""

MOST_CHARACTERS = 100_000
"""Of a file and all that it includes: many times what a person writes, and checked within two seconds."""


def load_space(path: Path | str) -> space.Space:
    """The space of a file and all that it includes.

    Raises `DiagnosticError` with all diagnostics where one of them is an error, and `OSError` where the file
    itself cannot be read.
    """
    loaded, diagnostics = check_file(Path(path))
    if loaded is None:
        raise DiagnosticError(diagnostics)
    return loaded


def check_file(path: Path) -> tuple[space.Space | None, tuple[Diagnostic, ...]]:
    """The space, or None where there are errors, and all diagnostics: errors, warnings and notes.

    Raises `OSError` where the file itself cannot be read.
    """
    reader = _Reader()
    try:
        source = read_file(path)
    except DiagnosticError as error:
        return None, error.diagnostics
    reader.read(source, path)
    return reader.check(path.stem)


def check_source(source: Source) -> tuple[space.Space | None, tuple[Diagnostic, ...]]:
    """The same for a text; what it includes is looked for beside `source.name`."""
    checked = check_text(source)
    return checked.space, checked.diagnostics


@dataclass(frozen=True, slots=True)
class Checked:
    """All that can be said of a text that may be wrong."""

    space: space.Space | None
    """None where there are errors."""
    diagnostics: tuple[Diagnostic, ...]
    declarations: tuple[syntax.Declaration, ...]
    """Of the text and all that it includes, as far as they parse."""
    sources: tuple[Source, ...]
    """The text, then what it includes, in the order of reading."""
    parsed: tuple[Source, ...]
    """Those of them that parse."""
    includes: tuple[tuple[Span, Path], ...]
    """Each path of an `include`, and the file that is meant."""


def check_text(source: Source, read: Callable[[Path], Source] | None = None) -> Checked:
    """Reads what a text includes by `read`, which raises as `read_file`, and checks all of it."""
    reader = _Reader(read or read_file)
    path = Path(source.name)
    reader.read(source, path)
    checked, diagnostics = reader.check(path.stem)
    return Checked(
        checked,
        diagnostics,
        tuple(reader.declarations),
        tuple(reader.sources),
        tuple(reader.parsed),
        tuple(reader.includes),
    )


def read_file(path: Path) -> Source:
    """The text of a file, which is not read where it is too large; raises as `Source.read`, and SP009."""
    # A character has at most four bytes.
    if path.stat().st_size > 4 * MOST_CHARACTERS:
        raise too_large(Source(str(path), ""))
    return Source.read(path)


def too_large(source: Source) -> DiagnosticError:
    """What is said of a text with more than `MOST_CHARACTERS`."""
    message = f"this file has more than {MOST_CHARACTERS:,} characters"
    return DiagnosticError([Diagnostic("SP009", message, Span(source, 0, 0))])


@dataclass(slots=True)
class _Reader:
    read_file: Callable[[Path], Source] = read_file
    declarations: list[syntax.Declaration] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    parsed: list[Source] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    includes: list[tuple[Span, Path]] = field(default_factory=list)
    open_files: list[Path] = field(default_factory=list)
    """Files whose includes are being read, outermost first, resolved."""
    seen: set[Path] = field(default_factory=set)

    def check(self, name: str) -> tuple[space.Space | None, tuple[Diagnostic, ...]]:
        if any(p.severity is Severity.ERROR for p in self.problems):
            return None, tuple(self.problems)
        digest = hashlib.sha256()
        for source in self.sources:
            # The length in front keeps the border between two files part of what is hashed.
            text = source.text.encode("utf-8", "surrogatepass")
            digest.update(f"{len(text)}\n".encode() + text)
        names = tuple(s.name for s in self.sources)
        checked, problems = check(name, self.declarations, digest.hexdigest(), names)
        return checked, (*self.problems, *problems)

    def read(self, source: Source, path: Path) -> None:
        """Adds the declarations of a file, with those of the files that it includes in their place."""
        place = resolved(path)
        self.seen.add(place)
        self.sources.append(source)
        try:
            if len(source.text) > MOST_CHARACTERS:
                raise too_large(source)
            file = parse(source)
        except DiagnosticError as error:
            self.problems.extend(error.diagnostics)
            return
        self.parsed.append(source)
        self.problems.extend(commented_divisions(source))
        self.open_files.append(place)
        for declaration in file.declarations:
            if isinstance(declaration, syntax.Include):
                self._include(declaration.path, path)
            else:
                self.declarations.append(declaration)
        self.open_files.pop()

    def _include(self, written: syntax.Host, including: Path) -> None:
        path = including.parent / written.text
        try:
            place = resolved(path)
            self.includes.append((written.span, place))
            if place.suffix != SUFFIX:
                # A diagnostic shows lines of a file; those of other files are not for whoever wrote this one.
                raise ValueError(f"only {SUFFIX} files can be included")
            if place in self.open_files:
                cycle = [p.name for p in self.open_files[self.open_files.index(place) :]]
                hint = " -> ".join([*cycle, place.name])
                self.problems.append(Diagnostic("SP008", "this file includes itself", written.span, hint))
                return
            if place in self.seen:
                return
            if len(self.open_files) == MOST_OPEN_FILES:
                raise ValueError(f"it is included through more than {MOST_OPEN_FILES} files")
            if path.exists() and not path.is_file():
                raise ValueError("it is not a file")
            source = self.read_file(path)
            if sum(len(s.text) for s in self.sources) + len(source.text) > MOST_CHARACTERS:
                raise ValueError(f"with it, this space has more than {MOST_CHARACTERS:,} characters")
        except DiagnosticError as error:
            self.problems.extend(error.diagnostics)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            message = f"cannot read `{written.text}`: {reason}"
            hint = f"the path is relative to {including.parent}"
            self.problems.append(Diagnostic("SP007", message, written.span, hint))
        else:
            self.read(source, path)

"""The diagnostics of one check, collected in the order in which they are found.

In: mistakes and remarks of the checker's parts. Out: `problems`, which may be shown in order of place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from spacedsl.diagnostics import Diagnostic, Severity, Span

MOST_COMPARED = 100
"""Names that a wrong one is compared with: a long list of wrong names and of known ones takes minutes."""


@dataclass(slots=True)
class Report:
    problems: list[Diagnostic] = field(default_factory=list)

    def error(
        self, code: str, message: str, span: Span, hint: str | None = None, *related: tuple[Span, str]
    ) -> None:
        self.problems.append(Diagnostic(code, message, span, hint, Severity.ERROR, related))

    def warning(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.problems.append(Diagnostic(code, message, span, hint, Severity.WARNING))

    def note(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.problems.append(Diagnostic(code, message, span, hint, Severity.NOTE))

    @property
    def has_errors(self) -> bool:
        return any(p.severity is Severity.ERROR for p in self.problems)


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint with the known name that looks most alike; none where there are too many to compare with."""
    names = list(known)
    matches = get_close_matches(name, names, n=1, cutoff=0.6) if len(names) <= MOST_COMPARED else []
    return f"did you mean `{matches[0]}`?" if matches else otherwise

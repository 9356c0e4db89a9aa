"""Small spaces as text, and what checking them says."""

from __future__ import annotations

from spacedsl.diagnostics import Diagnostic, Severity, Source, render
from spacedsl.language.loader import check_source
from spacedsl.language.space import Space

PREAMBLE = """\
set Items: iterator = "$kernel.items" end
set Loops subsetof Items: iterator = "$kernel.loops" end
set Inner($x in Loops) subsetof Items: iterator = "$x.inner" end
choice enum kind($x in Items): value A: value B: value C: alias AB = A | B: end
choice enum order($a in Items, $b in Items):
  antisymmetric:
    BEFORE -> AFTER
  value BEFORE: value AFTER: value MERGED:
end
choice integer size($x in Loops): "$x.sizes" end
"""
"""Declarations that a snippet may use; nine lines."""


def check(text: str) -> tuple[Space | None, tuple[Diagnostic, ...]]:
    """The space of a text by itself and its diagnostics."""
    return check_source(Source("test.space", text))


def errors(text: str) -> tuple[Diagnostic, ...]:
    """The errors of a text that follows the preamble."""
    return tuple(d for d in check(PREAMBLE + text)[1] if d.severity is Severity.ERROR)


def load(text: str) -> Space:
    """The space of a text that follows the preamble and must be right."""
    space, diagnostics = check(PREAMBLE + text)
    assert space is not None, "\n".join(render(d) for d in diagnostics)
    return space

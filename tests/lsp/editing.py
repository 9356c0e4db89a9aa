"""Files of an editor in which `¦` marks the cursor."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from spacedsl.diagnostics import Span
from spacedsl.lsp.analysis import Workspace
from spacedsl.lsp.completion import Proposal, complete

CURSOR = "¦"

SPACE = """\
/// Whatever has a place.
set Statements: iterator = "$kernel.statements" end

/// Counted loops.
set Dimensions subsetof Statements:
  type = "Dimension"
  iterator = "$kernel.dimensions"
end
set Nest($outer in Dimensions) subsetof Dimensions: iterator = "$outer.inner_levels" end

/// How a loop is written.
choice enum kind($dim in Dimensions):
  /// A regular loop.
  value LOOP:
  value VECTOR:
    requires forall $other in Dimensions where "$other.id > $dim.id": order($dim, $other) is not SAME
  alias ANY = LOOP | VECTOR:
end
choice enum order($lhs in Statements, $rhs in Statements):
  symmetric
  value SAME:
  value APART:
end
choice ordered enum site($dim in Dimensions): ROOT < LEAF end
choice integer size($dim in Dimensions): "$dim.possible_sizes" end
choice counter total($s in Statements):
  forall $dim in Dimensions: mul size($dim) when: kind($dim) is LOOP
end
map next($dim in Dimensions) in Dimensions = "$dim.instruction"
quantity area($dim in Dimensions) = size($dim) * size(next($dim))
quotient Classes of $d in Dimensions: is_first = kind($d) is ANY / order is SAME end
require forall $dim in Dimensions: site($dim) < LEAF || is_first($dim) is TRUE
require forall $dim in Dimensions: area($dim) <= "$device.threads"
ordering default: kind by VECTOR, LOOP order end
"""


@dataclass(slots=True)
class Editor:
    """A workspace whose first file is the one that is looked at."""

    folder: Path
    workspace: Workspace = field(default_factory=Workspace)

    def path(self, name: str = "main.space") -> Path:
        return (self.folder / name).resolve()

    def type(self, text: str, name: str = "main.space") -> int:
        """Makes this the text of a file; returns where the cursor is, or its end."""
        before, _, after = text.partition(CURSOR)
        self.workspace.update(self.path(name), before + after)
        return len(before)

    def save(self, text: str, name: str) -> None:
        self.path(name).write_text(text, encoding="utf-8")

    def proposals(self, text: str) -> tuple[Proposal, ...]:
        offset = self.type(text)
        return complete(self.workspace, self.path(), offset).proposals

    def typed(self, text: str) -> list[str]:
        """What would be typed by each proposal that fits, at the cursor."""
        return [p.inserted for p in self.proposals(text) if p.fits]


def cursor(needle: str, text: str = SPACE) -> str:
    """The text with a cursor where the needle, in which it is marked, stands."""
    plain = needle.replace(CURSOR, "")
    assert text.count(plain) == 1, plain
    return text.replace(plain, needle)


def shown(span: Span) -> str:
    """`line: text` of a span."""
    return f"{span.line}: {span.text}"

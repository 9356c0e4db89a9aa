"""Places in a text as the protocol counts them: lines from 0, and code units in a line.

In: a text and what a code unit is (`utf-8`, `utf-16`, `utf-32`). Out: offsets into the text, and back. Lines
end as in diagnostics.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from spacedsl.diagnostics import LINE_END

_UNITS: Mapping[str, Callable[[str], int]] = {
    "utf-8": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "utf-16": lambda text: len(text.encode("utf-16-le", "surrogatepass")) // 2,
    "utf-32": len,
}


@dataclass(frozen=True, slots=True)
class Positions:
    text: str
    encoding: str = "utf-16"
    _starts: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts = (0, *(m.end() for m in LINE_END.finditer(self.text)))
        object.__setattr__(self, "_starts", starts)

    def offset(self, line: int, character: int) -> int:
        """The offset of a position; one behind the end of its line or of the text is taken as that end."""
        if line >= len(self._starts):
            return len(self.text)
        start = self._starts[line]
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        row = self.text[start:end].rstrip("\r\n")
        units = _UNITS[self.encoding]
        taken = 0
        for i, c in enumerate(row):
            taken += units(c)
            if taken > character:
                return start + i
        return start + len(row)

    def position(self, offset: int) -> tuple[int, int]:
        """(line, character) of an offset."""
        line = bisect_right(self._starts, offset) - 1
        return line, _UNITS[self.encoding](self.text[self._starts[line] : offset])


@lru_cache(maxsize=16)
def positions(text: str, encoding: str) -> Positions:
    """Of a text; those of the last ones are remembered, since each place in a file is asked for by itself."""
    return Positions(text, encoding)

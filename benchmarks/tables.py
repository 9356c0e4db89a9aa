"""Tables of measurements, as all benchmarks show them.

In: headings. Out: a `rich` table; numbers stand to the right, words to the left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

LEAST_WIDTH = 160
"""Where the output is no terminal, whose width would be taken for 80 columns."""


def headed(title: str, headings: Iterable[str], words: Sequence[str]) -> Table:
    """An empty table; the columns named in `words` hold words."""
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right")
    return table


def console() -> Console:
    """Stdout, wide enough for a table where it is a file."""
    here = Console()
    return here if here.is_terminal else Console(width=LEAST_WIDTH)

"""The text of a space, with what it includes in its place: for tests that change rules.

In: a path. Out: text that lies anywhere.
"""

from __future__ import annotations

import re
from pathlib import Path

LINALG_SPACE = Path(__file__).parents[1] / "kernels" / "spaces" / "linalg.space"


def rules_of(path: Path = LINALG_SPACE) -> str:
    """All rules of a space, in the order in which they are read; each file is included once."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r'^include "(.*)"$', lambda line: rules_of(path.parent / line[1]), text, flags=re.MULTILINE)

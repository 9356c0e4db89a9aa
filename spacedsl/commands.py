"""Commands that are suggested to the user, in a form that the user's shell finds.

In: what follows the name of the program. Out: a line for a shell. Nothing is run here.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

NAME = "spacedsl"


def command(*words: str | Path) -> str:
    """`spacedsl WORDS`, or the path of the program where its name alone would find nothing or another one."""
    return " ".join([_program(), *(path(w) if isinstance(w, Path) else shlex.quote(w) for w in words)])


def shown(place: Path) -> str:
    """The path from the working folder where it lies below it."""
    here = Path.cwd()
    return str(place.relative_to(here) if place.is_relative_to(here) else place)


def path(place: Path) -> str:
    """The same, quoted for a shell."""
    return shlex.quote(shown(place))


def _program() -> str:
    started = Path(sys.argv[0])
    if started.name != NAME or not started.is_file():
        return NAME  # Called from Python: how the command line is called is not known.
    found = shutil.which(NAME)
    return NAME if found is not None and started.samefile(found) else path(started.absolute())

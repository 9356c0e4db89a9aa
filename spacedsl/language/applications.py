"""Names of the variables that stand for map applications: the applications as they are written.

In: a map and the names of its arguments. Out: a name such as `buffer($access)`, which no variable in a file
can have, and what it is called where a name has to be an identifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_AMBIGUOUS = re.compile(r"_(?=_|u|and|end|$)")
"""Underscores that could be part of what stands between names in an identifier, or mark one that could."""


def application(mapped: str, args: Iterable[str]) -> str:
    """The name of a map on variables, some of which may be applications themselves."""
    return f"{mapped}({', '.join(map(written, args))})"


def is_application(name: str) -> bool:
    return "(" in name


def written(name: str) -> str:
    """A variable as it stands in a file."""
    return name if is_application(name) else f"${name}"


def renamed(name: str, renaming: Mapping[str, str]) -> str:
    """The name with other names for the variables that are its arguments."""
    return re.sub(r"\$(\w+)", lambda match: written(renaming.get(match[1], match[1])), name)


def identifier(name: str) -> str:
    """Different applications have different ones, which all begin with `map_`; a variable has its name."""
    if not is_application(name):
        return name
    text = re.sub(r"\w+", lambda match: _AMBIGUOUS.sub("_u", match[0]), name)
    for sign, word in (("$", ""), ("(", "__"), (", ", "_and_"), (")", "_end")):
        text = text.replace(sign, word)
    # Where all of them end needs no word.
    return f"map_{re.sub(r'(_end)+$', '', text)}"

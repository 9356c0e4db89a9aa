"""Names and layout of generated Python.

In: names of variables and choices, lines. Out: their spelling in generated code, where no name of a `.space`
file may mean anything but itself.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from spacedsl.language.applications import identifier, is_application
from spacedsl.language.space import Use

RUNTIME = frozenset(
    {
        *("v", "later", "lo", "hi", "mask", "min", "max", "translate", "too_small"),
        *("Contradiction", "SATURATED"),
        *("narrow", "settle", "raise_low", "lower_high", "make_same", "make_other", "make_ordered"),
        *("least", "greatest", "drop_below", "drop_above", "cap_integer", "cap_counter", "follow"),
        *("possible", "require", "without"),
        *("may_be_equal", "may_differ", "make_equal", "make_different"),
    }
)
"""Names that generated code gives a meaning: no variable is printed as one of them, and none begins as those
of tables and functions do, whatever choices are called."""
TABLES = re.compile(
    r"(of_)*((map|at|set|in|union|owners|rank|present|host|mask|table|keep|count|fired|trigger|limit)_|__)"
)
"""Beginnings of the names of tables, functions, map applications, and Python's own; what else begins so is
printed with `of_` before it."""


def variable_name(name: str) -> str:
    """The name, changed where it means something else in generated code; different ones stay different."""
    if is_application(name):
        return identifier(name)
    if TABLES.match(name):
        return f"of_{name}"
    plain = name.rstrip("_")
    return f"{name}_" if keyword.iskeyword(plain) or plain in RUNTIME else name


def indexed(variables: Iterable[str]) -> str:
    names = [variable_name(v) for v in variables]
    return f"[{', '.join(names)}]" if names else ""


def cell_of(use: Use) -> str:
    name = f"at_{use.choice}"
    if len(use.args) > 2:
        return f"{name}{indexed(use.args)}"
    return name + "".join(f"[{variable_name(a)}]" for a in use.args)


def is_atom(text: str) -> bool:
    return " " not in text or (text.count("(") == 1 and text.startswith("(") and text.endswith(")"))


def bracketed(text: str) -> str:
    return f"({text})" if " " in text or text.startswith("-") else text


def indent(lines: Iterable[str], levels: int = 1) -> list[str]:
    return [f"{'    ' * levels}{line}" if line else "" for line in lines]

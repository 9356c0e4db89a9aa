"""How names and numbers are spelled in generated C.

In: names of variables and functions, integers. Out: their spelling, which means nothing else to the runtime.
What is called by these names is for the other modules.
"""

from __future__ import annotations

from collections.abc import Iterable

from spacedsl.compiler.ir import SATURATED
from spacedsl.language.applications import identifier, is_application

WIDEST_BITS = 126
"""Of the exact integers of the runtime; what is beyond stands for itself and everything beyond."""


def variable_name(name: str) -> str:
    # Nothing else begins with x_, or with map_ as map applications do.
    return identifier(name) if is_application(name) else f"x_{name}"


def function_name(name: str) -> str:
    return f"run_{name}"


def integer_literal(value: int) -> str:
    """An exact integer of any size, saturated where the runtime saturates."""
    if value == SATURATED:
        return "SATURATED"
    limit = (1 << WIDEST_BITS) - 1
    value = max(-limit, min(limit, value))
    if abs(value) < 1 << 31:
        return str(value)
    if abs(value) < 1 << 63:
        return f"(Wide){value}LL" if value >= 0 else f"-(Wide){-value}LL"
    text = f"((Wide){abs(value) >> 64:#x}ULL << 64 | {abs(value) & (1 << 64) - 1:#x}ULL)"
    return text if value >= 0 else f"-{text}"


def word_literal(value: int) -> str:
    return f"{value:#x}" if value < 1 << 31 else f"{value:#x}ULL"


def indent(lines: Iterable[str], levels: int = 1) -> list[str]:
    return [f"{'    ' * levels}{line}" if line and not line.startswith("#") else line for line in lines]


def array(declaration: str, entries: Iterable[int]) -> str:
    """A constant array; `declaration` is its type and name."""
    words = [word_literal(entry) for entry in entries]
    rows = [", ".join(words[start : start + 16]) for start in range(0, len(words), 16)]
    return f"static const {declaration}[{len(words)}] = {{\n    " + ",\n    ".join(rows) + "\n};"

"""Positions as C: expressions of 64 bits that are positive or negative.

In: positions of a verified program. Out: C expressions, and the functions that they call. Where variables are
declared is for `c/printer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.tree.expressions import Position
from spacedsl.codegen.tree.parts import positions, statements
from spacedsl.codegen.tree.program import Statement, Take
from spacedsl.kernels.pipeline.affine import Atom, Extreme, Opaque, Quotient, Remainder
from spacedsl.kernels.pipeline.algorithm import Variable

_FUNCTIONS = Path(__file__).parent / "runtime" / "positions.h"


def print_position(position: Position) -> str:
    """A sum; as an operand of something else it may need parentheses."""
    text = ""
    for atom, number in position.terms:
        factor = _atom(atom) if abs(number) == 1 else f"{_atom(atom)} * {abs(number)}"
        sign = ("" if number > 0 else "-") if not text else (" + " if number > 0 else " - ")
        text += f"{sign}{factor}"
    if not text:
        return str(position.constant)
    if position.constant == 0:
        return text
    return f"{text} {'+' if position.constant > 0 else '-'} {abs(position.constant)}"


def _atom(atom: Atom) -> str:
    """Without parentheses: a name, or a call."""
    match atom:
        case Variable(name):
            return c_name(name)
        case Quotient(dividend, divisor):
            return f"position_quotient({print_position(dividend)}, {divisor})"
        case Remainder(dividend, divisor):
            return f"position_remainder({print_position(dividend)}, {divisor})"
        case Extreme(operator, left, right):
            return f"position_{operator}({print_position(left)}, {print_position(right)})"
        case Opaque():
            raise AssertionError(f"{atom} is no part of a verified program")


def position_functions() -> str:
    """What positions call."""
    return _FUNCTIONS.read_text(encoding="utf-8").rstrip()


def is_called(body: Sequence[Statement]) -> bool:
    """Whether these statements call functions on positions."""
    has_taken = any(isinstance(s, Take) for s in statements(body))
    return has_taken or any(_has_calls(position) for position in positions(body))


def _has_calls(position: Position) -> bool:
    return any(not isinstance(atom, Variable) for atom, _ in position.terms)

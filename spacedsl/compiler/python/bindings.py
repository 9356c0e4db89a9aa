"""Printing of what enumerates and tests bindings: loops, sets and static tests.

In: loops over sets with their tests. Out: lines of Python, with the innermost ones inside.
"""

from __future__ import annotations

from collections.abc import Iterable

from spacedsl.compiler.ir import Ascending, Distinct, HostTest, Loop, Lower, Member, StaticCompare, StaticTest
from spacedsl.compiler.python.names import indent, indexed, variable_name
from spacedsl.compiler.python.tables import Tables
from spacedsl.language.space import SetRef


def print_loops(loops: Iterable[Loop], innermost: list[str], tables: Tables) -> list[str]:
    lines: list[str] = []
    depth = 0
    for loop in loops:
        source = (
            print_set(loop.source, tables)
            if loop.member is None
            else f"owners_{loop.source.name}[{variable_name(loop.member)}]"
        )
        lines.append(f"{'    ' * depth}for {variable_name(loop.variable)} in {source}:")
        depth += 1
        if loop.tests:
            tests = " and ".join(print_static_test(test, tables) for test in loop.tests)
            lines.append(f"{'    ' * depth}if {tests}:")
            depth += 1
    return [*lines, *indent(innermost, depth)]


def print_static_test(test: StaticTest, tables: Tables) -> str:
    match test:
        case HostTest(call, negated):
            text = tables.host(call, is_integer=False)
            return f"not {text}" if negated else text
        case StaticCompare():
            return tables.static(test)
        case Member(variable, ref):
            return f"{variable_name(variable)} in {print_set(ref, tables, 'in')}"
        case Distinct(left, right):
            return f"{variable_name(left)} != {variable_name(right)}"
        case Ascending(left, right):
            return f"{variable_name(left)} < {variable_name(right)}"
        case Lower(left, right, ref):
            rank = print_set(ref, tables, "rank")
            return f"{rank}[{variable_name(left)}] < {rank}[{variable_name(right)}]"


def print_set(ref: SetRef, tables: Tables, prefix: str = "") -> str:
    """The members; prefix `in_` asks for them as a set. A parametric set without arguments is a union."""
    is_union = not ref.args and bool(tables.space.sets[ref.name].params)
    kind = "union" if is_union else "" if prefix else "set"
    return "_".join(part for part in (prefix, kind, ref.name) if part) + indexed(ref.args)

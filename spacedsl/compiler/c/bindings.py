"""Printing of what enumerates and tests bindings, in C: loops over objects, and static tests.

In: loops over sets with their tests. Out: lines of C, with the innermost ones inside. Loops that take a
word of objects at a time are for `filtered.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from spacedsl.compiler.c.names import indent, variable_name
from spacedsl.compiler.c.tables import StaticTables
from spacedsl.compiler.ir import Ascending, Distinct, HostTest, Loop, Lower, Member, StaticCompare, StaticTest


def print_loops(loops: Iterable[Loop], innermost: list[str], tables: StaticTables) -> list[str]:
    lines = innermost
    for loop in reversed(tuple(loops)):
        if loop.tests:
            tests = " && ".join(print_static_test(test, tables) for test in loop.tests)
            lines = [f"if ({tests}) {{", *indent(lines), "}"]
        if loop.member is None:
            source = tables.members(loop.source)
        else:
            source = tables.owners(loop.source.name, loop.member)
        name = variable_name(loop.variable)
        lines = [
            f"FOR_MEMBERS({name}, {source}) {{",
            f"    const int32_t {name} = *at_{name};",
            *indent(lines),
            "}",
        ]
    return lines


def print_static_test(test: StaticTest, tables: StaticTables) -> str:
    match test:
        case HostTest(call, negated):
            return f"{'!' if negated else ''}{tables.host(call, is_integer=False)}"
        case StaticCompare():
            return tables.comparison(test)
        case Member(variable, ref):
            return f"has({tables.member_set(ref)}, {variable_name(variable)})"
        case Distinct(left, right):
            return f"{variable_name(left)} != {variable_name(right)}"
        case Ascending(left, right):
            return f"{variable_name(left)} < {variable_name(right)}"
        case Lower(left, right, ref):
            return f"{tables.rank(ref, left)} < {tables.rank(ref, right)}"

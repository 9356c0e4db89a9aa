"""Printing of the propagator IR as a Python module: the reference engine.

In: a `Module`. Out: `PythonModule`, its text and the static tables that the text asks for. One function for
each propagator's body, one that runs it on every binding (`.._everywhere`), one for each wake that loops.
An instance executes the module in a namespace that holds its tables:

    v                 the vector: a domain is the word at its cell; a counter is two words, low and high
    at_CHOICE         cells by object ids
    set_, in_, rank_SET   members, the same as a set, their positions; in_union_, union_SET: of all instances
    owners_SET        by member: the arguments of the instances that hold it
    present_SET       what says whether a member is one, by ids of arguments and member
    fired_N           what says whether trigger N fires, by object ids
    limit_N           nodes of comparisons with quantities, by object ids
    host_N, mask_N    values of host expressions, and masks of what satisfies a comparison, by object ids
    later             counters to be computed once no other change is waiting
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from spacedsl.compiler.ir import SATURATED, Check, Limit, Loop, Module, Propagator, Table
from spacedsl.compiler.python.bindings import print_loops
from spacedsl.compiler.python.legend import entry_words, legend, wake_words
from spacedsl.compiler.python.names import indent, variable_name
from spacedsl.compiler.python.quoting import quoted
from spacedsl.compiler.python.statements import Body
from spacedsl.compiler.python.tables import HostTable, StaticTable, Tables
from spacedsl.diagnostics import printable
from spacedsl.language.space import Space


@dataclass(frozen=True, slots=True)
class PythonModule:
    """The text, and what `host_N`, `mask_N` and check number N in it stand for."""

    source: str
    hosts: tuple[HostTable, ...]
    masks: tuple[StaticTable, ...]
    checks: tuple[Check, ...]
    limits: tuple[Limit, ...]
    """Those of `limit_N`, with `names` for `args`."""


def print_python(module: Module, space: Space) -> PythonModule:
    """The module's text; the space is the one that `lower` returned with it."""
    tables = Tables(space)
    lines: list[str] = []
    for propagator in module.propagators:
        lines += ["", "", *_propagator(propagator, space, tables)]
    if module.tables:
        lines += ["", ""]
    for number, table in enumerate(module.tables):
        lines += _table(number, table)
    head = [
        *_string([f"Propagators of the space {space.name}; spacedsl.compiler.python says how to read them."]),
        "",
        *legend(space, tables),
        "",
        f"SATURATED = {SATURATED}",
    ]
    return PythonModule(
        "\n".join(map(printable, [*head, *lines])) + "\n",
        tuple(tables.hosts),
        tuple(tables.masks.values()),
        tuple(tables.checks),
        tuple(tables.limits),
    )


def _propagator(propagator: Propagator, space: Space, tables: Tables) -> list[str]:
    arguments = ", ".join(variable_name(a) for a in propagator.arguments)
    body = Body(space, tables, {}, set(propagator.arguments))
    lines = [
        f"def {propagator.name}({arguments}):",
        *_docstring(propagator),
        *indent(body.block(propagator.body)),
    ]
    if propagator.deferred:
        call = f"later[{propagator.name}, {arguments}] = None"
    else:
        call = f"{propagator.name}({arguments})"
    runs: list[tuple[str, tuple[str, ...], tuple[Loop, ...], str]] = [
        (f"{propagator.name}_everywhere", (), propagator.loops, "On every binding, at the root."),
        *((w.name, w.use.args, w.loops, wake_words(w, space)) for w in propagator.wakes if w.loops),
        *((e.name, (e.variable,), e.loops, entry_words(e)) for e in propagator.entries if e.loops),
    ]
    for name, bound, loops, words in runs:
        parameters = ", ".join(variable_name(v) for v in bound)
        lines += ["", "", f"def {name}({parameters}):"]
        lines += indent([*_string([words]), *print_loops(loops, [call], tables)])
    return lines


def _table(number: int, table: Table) -> list[str]:
    """Which values of one use occur with the values that are left of the others."""
    rows = textwrap.wrap("".join(f"{entry}, " for entry in table.entries), 100)
    return [f"table_{number} = (", *indent(rows), ")"]


def _docstring(propagator: Propagator) -> list[str]:
    text: list[str] = []
    for span in propagator.spans:
        text += [
            f"{Path(span.source.name).name}:{span.line}",
            *(f"    {line}" for line in quoted(span)),
        ]
    text += ["", *textwrap.wrap(propagator.doc, 100)]
    return indent(_string([*text, ""]))


def _string(text: list[str]) -> list[str]:
    """Lines as a string that is documentation, whatever stands in them."""
    escaped = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in text]
    first, *others = escaped
    lines = [f'"""{first}', *others]
    return [*lines[:-1], f'{lines[-1]}"""']

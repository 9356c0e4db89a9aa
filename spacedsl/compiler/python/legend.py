"""The legend of a printed module: what its bits, tables, sides and wakes stand for, in words of the space.

In: the space, the tables that the bodies have asked for, and the wakes. Out: comments for the head of the
module, with the definition of each quantity, and one sentence for each function that a wake runs.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from spacedsl.compiler.ir import Entry, HostCall, InMask, Linear, Named, Satisfies, StaticCompare, Wake
from spacedsl.compiler.python.names import indexed
from spacedsl.compiler.python.quoting import quoted
from spacedsl.compiler.python.tables import StaticLiteral, Tables
from spacedsl.diagnostics import Span
from spacedsl.language.applications import application, renamed, written
from spacedsl.language.reading import formula_uses, term_uses
from spacedsl.language.space import EnumChoice, IntegerChoice, Quantity, SetRef, Space, Use

_LONGEST_ROW = 200
_WIDTH = 110


def legend(space: Space, tables: Tables) -> list[str]:
    """Comments: a row for each name, then how sides of equalities are written, then the quantities."""
    rows = [*_bits(space), *_hosts(tables), *_masks(tables), *_limits(tables)]
    width = max((len(name) for name, _ in rows), default=0)
    lines = (f"# {name:<{width}}  {' '.join(text.split())}" for name, text in rows)
    cut = [line if len(line) <= _LONGEST_ROW else f"{line[: _LONGEST_ROW - 3]}..." for line in lines]
    return [*cut, *_sides(tables), *_quantities(space, tables)]


def wake_words(wake: Wake, space: Space) -> str:
    """What has happened when the function runs."""
    use = _use(wake.use)
    match wake.gate:
        case None:
            text = f"When the domain of {use} has changed"
        case InMask(_, mask):
            text = f"When {use} can no longer be {' | '.join(space.enum(wake.use).names(mask))}"
        case _:
            text = f"When it can no longer be that {_comparison(wake.gate)}"
    return text + (", or that of the pair the other way round." if wake.mirrored else ".")


def entry_words(entry: Entry) -> str:
    what = f"{written(entry.variable)} in {_set(entry.set)}"
    return (
        f"When {what} has become certain."
        if entry.certain
        else f"When {what} has become certain or impossible."
    )


# ---- Rows: a name, and what it stands for ------------------------------------------------------------------

Row = tuple[str, str]


def _bits(space: Space) -> Iterator[Row]:
    for choice in space.choices.values():
        if isinstance(choice, EnumChoice):
            yield choice.name, ", ".join(f"{v} {1 << bit:#b}" for bit, v in enumerate(choice.values))
        elif isinstance(choice, IntegerChoice):
            yield choice.name, f'a bit for each integer of "{choice.universe.text}", the least one 0b1'


def _hosts(tables: Tables) -> Iterator[Row]:
    for number, table in enumerate(tables.hosts):
        yield f"host_{number}{indexed(table.call.args)}", table.call.text


def _masks(tables: Tables) -> Iterator[Row]:
    """In the variables of the place that asks first."""
    for number, (test, variables) in enumerate(tables.asked.values()):
        text = _comparison(test)
        if not isinstance(test, StaticCompare):
            use = test.use if isinstance(test, Named) else test.value.use
            assert use is not None
            text = f"bits of {_use(use)} for which {text}"
        yield f"mask_{number}{indexed(variables)}", text


def _limits(tables: Tables) -> Iterator[Row]:
    for number, limit in enumerate(tables.limits):
        span = limit.formula.span
        yield f"limit_{number}{indexed(limit.names)}", f"{_place(span)}: {span.text}"


def _sides(tables: Tables) -> list[str]:
    if not tables.has_sides:
        return []
    text = (
        "A side of an equality of integers is written (kind, cell, factor, offset): ('integer', c, 2, 1) is "
        "twice the integer at cell c plus 1, ('counter', c, 1, 0) the counter at c and c + 1, "
        "(None, 0, 0, n) the number n."
    )
    return ["#", *_comment(text)]


# ---- Quantities --------------------------------------------------------------------------------------------


def _quantities(space: Space, tables: Tables) -> list[str]:
    """The definition of each quantity, and what is computed of it."""
    if not space.quantities:
        return []
    text = (
        "Quantities are in no function: an instance makes one graph of them, and computes of each on each "
        "objects the interval that its definition gives for the values that are left of what it reads. "
        "`possible(limit_N)`: some values in the intervals of both sides compare so. `require(limit_N)`: a "
        "contradiction where none do; else removes each value of a choice with which none would. What a "
        "limit reads, directly or through quantities, wakes the functions that ask about it."
    )
    lines = ["#", *_comment(text)]
    for quantity in space.quantities.values():
        lines += ["#", *_comment(f"{_place(quantity.span)}: {_computed(quantity, space, tables)}")]
        lines += [f"#     {line}" for line in quoted(quantity.span)]
    return lines


def _computed(quantity: Quantity, space: Space, tables: Tables) -> str:
    """The interval, what it is computed from, and the limits on it."""
    shown = _use(Use(quantity.name, tuple(p.name for p in quantity.params)))
    kind = "integers" if quantity.values is None else f"positions in {' < '.join(quantity.values)}"
    text = f"{shown} is an interval of {kind}"
    reads = dict.fromkeys(use.choice for use in term_uses(quantity.body))
    stored = [name for name in reads if name in space.choices]
    computed = [name for name in reads if name in space.quantities]
    if stored:
        text += f", from the domains of {_listed(stored)}"
    if computed:
        text += f"{' and' if stored else ', from'} the intervals of {_listed(computed)}"
    limits = [
        f"limit_{number}"
        for number, limit in enumerate(tables.limits)
        if quantity.name in (use.choice for use in formula_uses(limit.formula))
    ]
    return f"{text}; compared in {_listed(limits)}" if limits else text


# ---- Words -------------------------------------------------------------------------------------------------


def _comparison(test: StaticLiteral) -> str:
    match test:
        case Named(use, op, value):
            return f'{_use(use)} {op.value} "{_host(value)}"'
        case Satisfies(left, op, right) | StaticCompare(left, op, right):
            return f"{_linear(left)} {op.value} {_linear(right)}"


def _linear(linear: Linear) -> str:
    text = ""
    if linear.use is not None:
        text = _use(linear.use)
        text = text if linear.factor == 1 else f"{_term(linear.factor)} * {text}"
    for sign, value in linear.offsets:
        if value != 0:
            between = (" + " if sign > 0 else " - ") if text else ("" if sign > 0 else "-")
            text += between + _term(value)
    return text or "0"


def _term(value: int | HostCall) -> str:
    return f'"{_host(value)}"' if isinstance(value, HostCall) else str(value)


def _host(call: HostCall) -> str:
    """The expression about the arguments of the call."""
    renaming = dict(zip(call.expression.free_variables, call.args, strict=True))
    return renamed(call.text, renaming)


def _use(use: Use) -> str:
    return application(use.choice, use.args)


def _set(ref: SetRef) -> str:
    return application(ref.name, ref.args) if ref.args else ref.name


def _place(span: Span) -> str:
    return f"{Path(span.source.name).name}:{span.line}"


def _listed(names: list[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]

"""The static tables that generated C reads: what an instance has to supply, in which form.

In: what the printers ask for. Out: `Table` requests in order of their numbers, and the C text of an access.
A table of one object is dense over object ids, and so is one of two where there are few objects; where there
are many, it is a relation of sorted rows. A table of more is dense over their ranks at each position.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from spacedsl.compiler.c.names import variable_name
from spacedsl.compiler.ir import Check, HostCall, Limit, Named, Satisfies, StaticCompare
from spacedsl.compiler.python import HostTable, StaticTable, host_table, static_table
from spacedsl.language.space import SetRef, Space

PAIR = 2
DENSE_WORDS = 16
"""Tables of two objects are dense where a set of objects takes so many words or fewer."""


class TableKind(enum.Enum):
    """The prefix of the name, and what an entry is."""

    CELL = "at"  # a word of the vector
    LIST = "members"  # where the members begin in `lists`
    SET = "in"  # where the set begins in `sets`
    RANK = "rank"  # where ranks by object begin in `lists`
    OWNERS = "owners"  # by member: where the arguments of the instances that hold it begin in `lists`
    OWNER_SET = "owned"  # the same as a set: where it begins in `sets`
    ROWS = "rows"  # where the bit rows of an enum choice begin, by its first object if it has two
    LACKING = "lacking"  # where the bit row begins of objects that may not be members of a set
    PRESENCE = "present"  # the word that says whether the last object is a member of the set of the others
    FIRING = "fired"  # the word that says whether a trigger fires
    INTEGER = "host"  # the value of a host expression
    TRUTH = "truth"  # of a host expression
    MASK = "mask"  # where the mask of satisfying values begins in `masks`
    COMPARISON = "holds"  # the truth of a static comparison
    CONTRIBUTION = "contribution"  # the place of what a binding contributes to a counter, 0: none
    LIMIT = "limit"  # the node of a comparison with a quantity, -1: none
    RANKS = "ranks"  # of the objects of another table of many
    PAIRS = "pairs"  # where the entries of another table of two objects are, if it is not dense


ENTRY_TYPES = {TableKind.INTEGER: "int64_t", TableKind.TRUTH: "uint8_t", TableKind.COMPARISON: "uint8_t"}

Subject = str | int | HostTable | StaticTable | Limit
"""A choice, a set, a trigger's number, a host expression, a static test, a comparison with a quantity on its
own variables, or the name of another table."""


@dataclass(frozen=True, slots=True)
class Table:
    """One pointer that an instance supplies, to entries by the objects of `arity` variables."""

    name: str
    kind: TableKind
    subject: Subject
    arity: int
    is_union: bool = False
    """Of a parametric set: of all instances together."""

    @property
    def entry_type(self) -> str:
        return ENTRY_TYPES.get(self.kind, "int32_t")


@dataclass(slots=True)
class StaticTables:
    """The tables asked for so far, in order, and the checks."""

    space: Space
    requested: dict[tuple[TableKind, Subject, bool], Table] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    def cell(self, choice: str, args: Sequence[str]) -> str:
        return self._entry(TableKind.CELL, choice, args)

    def host(self, call: HostCall, is_integer: bool) -> str:
        kind = TableKind.INTEGER if is_integer else TableKind.TRUTH
        return self._entry(kind, host_table(call, is_integer), call.args)

    def mask(self, test: Satisfies | Named) -> str:
        template, variables = static_table(test)
        return f"masks_at(s, {self._entry(TableKind.MASK, template, variables)})"

    def comparison(self, test: StaticCompare) -> str:
        template, variables = static_table(test)
        return self._entry(TableKind.COMPARISON, template, variables)

    def members(self, ref: SetRef) -> str:
        return f"list_at(s, {self._of_set(TableKind.LIST, ref)})"

    def owners(self, name: str, member: str) -> str:
        return f"list_at(s, {self._entry(TableKind.OWNERS, name, (member,))})"

    def owner_set(self, name: str, member: str) -> str:
        return f"set_at(s, {self._entry(TableKind.OWNER_SET, name, (member,))})"

    def rows(self, choice: str, other: str | None) -> str:
        return self._entry(TableKind.ROWS, choice, () if other is None else (other,))

    def lacking(self, ref: SetRef) -> str:
        return self._of_set(TableKind.LACKING, ref)

    def member_set(self, ref: SetRef) -> str:
        return f"set_at(s, {self._of_set(TableKind.SET, ref)})"

    def rank(self, ref: SetRef, variable: str) -> str:
        return f"list_at(s, {self._of_set(TableKind.RANK, ref)})[{variable_name(variable)}]"

    def presence(self, ref: SetRef, variable: str) -> str:
        return self._entry(TableKind.PRESENCE, ref.name, (*ref.args, variable), self.is_union(ref))

    def firing(self, trigger: int, args: Sequence[str]) -> str:
        return self._entry(TableKind.FIRING, trigger, args)

    def contribution(self, counter: str, args: Sequence[str]) -> str:
        return self._entry(TableKind.CONTRIBUTION, counter, args)

    def limit(self, limit: Limit) -> str:
        template = Limit(limit.formula, limit.names, limit.names)
        return self._entry(TableKind.LIMIT, template, limit.args)

    def check(self, check: Check) -> int:
        self.checks.append(check)
        return len(self.checks) - 1

    def is_union(self, ref: SetRef) -> bool:
        """Whether this is a parametric set without its arguments: the union of its instances."""
        return not ref.args and bool(self.space.sets[ref.name].params)

    def _of_set(self, kind: TableKind, ref: SetRef) -> str:
        return self._entry(kind, ref.name, ref.args, self.is_union(ref))

    def _entry(self, kind: TableKind, subject: Subject, args: Sequence[str], is_union: bool = False) -> str:
        table = self._table(kind, subject, len(args), is_union)
        return f"{table.name}[{self._index(table, [variable_name(a) for a in args])}]"

    def _table(self, kind: TableKind, subject: Subject, arity: int, is_union: bool = False) -> Table:
        key = (kind, subject, is_union)
        if key not in self.requested:
            label = subject if isinstance(subject, str) else str(len(self.requested))
            name = f"T_{'union_' if is_union else ''}{kind.value}_{label}"
            self.requested[key] = Table(name, kind, subject, arity, is_union)
        return self.requested[key]

    def _index(self, table: Table, names: Sequence[str]) -> str:
        if not names:
            return "0"
        if len(names) == 1:
            return names[0]
        if len(names) == PAIR:
            pairs = self._table(TableKind.PAIRS, table.name, PAIR)
            return f"PAIR({pairs.name}, {', '.join(names)})"
        ranks = self._table(TableKind.RANKS, table.name, table.arity)
        return f"place({ranks.name}, {table.arity}, (const int32_t[]){{{', '.join(names)}}})"

    def definitions(self) -> list[str]:
        """Where generated code finds each table, in a function whose state is `s`."""
        return [
            f"#define {table.name} ((const {table.entry_type} *)s->of->tables[{number}])"
            for number, table in enumerate(self.requested.values())
        ]

"""Printing of counters whose contributions are followed one by one: see totals.h.

In: a counter's propagator. Out: the lines of the function that computes it, from its totals where they are
known, and of the one that brings a contribution up to date. Which counters have totals, an instance says.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.compiler.c.bindings import print_loops, print_static_test
from spacedsl.compiler.c.names import function_name, indent, variable_name
from spacedsl.compiler.c.statements import Body
from spacedsl.compiler.c.tables import StaticTables
from spacedsl.compiler.ir import Contribution, HostTest, Propagator, Settle, StaticCompare


def counter_of(propagator: Propagator) -> str:
    """The counter that a deferred propagator computes: its arguments are the propagator's."""
    return next(s.use.choice for s in propagator.body if isinstance(s, Settle))


@dataclass(frozen=True, slots=True)
class CountPrinter:
    propagator: Propagator
    tables: StaticTables

    @property
    def contribution(self) -> Contribution:
        assert self.propagator.contribution is not None
        return self.propagator.contribution

    @property
    def name(self) -> str:
        """Of the function of one contribution."""
        return f"contribution_of_{self.propagator.name}"

    def changed(self) -> list[str]:
        """What is done for a binding of which a domain has changed."""
        if self.propagator.contribution is None:
            return [self.later()]
        return ["if (s->keeps_totals) {", *indent(self._call()), "}", self.later()]

    def later(self) -> str:
        return f"compute_later(s, {self._cell()});"

    def one(self, body: Body) -> list[str]:
        """The contribution of a binding into the totals, where they are known."""
        neutral = int(self.contribution.product)
        place = self.tables.contribution(counter_of(self.propagator), self.contribution.arguments)
        return [
            f"const int32_t counter = {self._cell()}, at = {place};",
            "if (!at || !is_known(totals_of(s, counter)))",
            "    return true;",
            f"Wide local_lo = {neutral}, local_hi = {neutral};",
            *body.inner(self.contribution.arguments).block(self.contribution.body),
            "if (!contribute(s, counter, at, local_lo, local_hi))",
            "    return false;",
        ]

    def all(self, body: Body) -> list[str]:
        """The counter from its totals or from all contributions, and what its limits exclude."""
        statements = self.propagator.body
        at, settle = next((place, s) for place, s in enumerate(statements) if isinstance(s, Settle))
        inner, cells = body.named(statements)
        counter = inner.cell(settle.use)
        base = inner.integer(self.contribution.base)
        return [
            *cells,
            f"Totals *const totals = totals_of(s, {counter});",
            "if (is_known(totals)) {",
            "    local_lo = totals->low;",
            "    local_hi = totals->high;",
            "} else {",
            *indent(line for statement in statements[:at] for line in inner.statement(statement)),
            "    if (totals) {",
            f"        if (!start_totals(s, {counter}, {base}))",
            "            return false;",
            *indent(self._each(), 2),
            "    }",
            "}",
            *inner.statement(settle),
            f"if (may_exclude(s, {counter})) {{",
            *indent(line for statement in statements[at + 1 :] for line in inner.statement(statement)),
            "}",
        ]

    def _each(self) -> list[str]:
        """Brings every contribution up to date."""
        lines = print_loops(self.contribution.loops, self._call(), self.tables)
        tests = [t for t in self.contribution.tests if isinstance(t, HostTest | StaticCompare)]
        if not tests:
            return lines
        condition = " && ".join(print_static_test(test, self.tables) for test in tests)
        return [f"if ({condition}) {{", *indent(lines), "}"]

    def _call(self) -> list[str]:
        arguments = "".join(f", {variable_name(a)}" for a in self.contribution.arguments)
        return [f"if (!{function_name(self.name)}(s{arguments}))", "    return false;"]

    def _cell(self) -> str:
        return self.tables.cell(counter_of(self.propagator), self.propagator.arguments)

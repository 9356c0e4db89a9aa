"""Static values of an instance: host expressions, masks of integers, and tests on bindings.

In: the tables that a compiled space asks for, and the objects. Out: mappings from object ids to values, each
evaluated at its first use and kept, so that a value is computed once for the variables that it depends on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spacedsl.compiler.ir import (
    Ascending,
    Distinct,
    HostCall,
    HostTest,
    Linear,
    Lower,
    Member,
    Named,
    Satisfies,
    StaticCompare,
    StaticTest,
    Term,
)
from spacedsl.compiler.python import HostTable, StaticTable, host_table, static_table
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.layout import Layout
from spacedsl.engine.objects import Key, Objects
from spacedsl.language.host_runtime import describe
from spacedsl.language.space import Comparison, SetRef

COMPARE: Mapping[Comparison, Callable[[int, int], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}


class Lazy(dict[Any, Any]):
    """Values by object id, or by a tuple of ids; computed where missing."""

    def __init__(self, compute: Callable[[Key], object]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: int | Key) -> object:
        value = self[key] = self._compute(key if isinstance(key, tuple) else (key,))
        return value


@dataclass(slots=True, eq=False)
class Statics:
    """The tables that generated code reads, and the same values for whoever interprets a static test."""

    objects: Objects
    layout: Layout
    _tables: dict[HostTable | StaticTable, Any] = field(default_factory=dict)

    def table(self, template: HostTable | StaticTable) -> Any:
        """Values by id, or by a tuple of ids; the one value itself where it depends on no object."""
        if template not in self._tables:
            if isinstance(template, HostTable):
                variables, compute = template.call.args, self._host(template)
            else:
                variables, compute = template.variables, partial(self._static, template)
            self._tables[template] = Lazy(compute) if variables else compute(())
        return self._tables[template]

    def values(self, template: HostTable | StaticTable, keys: Iterable[Key]) -> Iterator[Any]:
        """The same of each of these bindings of its variables."""
        values = self.table(template)
        if not isinstance(values, Lazy):
            return (values for _ in keys)
        return (values[key[0] if len(key) == 1 else key] for key in keys)

    def holds(self, test: StaticTest, environment: Mapping[str, int]) -> bool:
        match test:
            case HostTest(call, negated):
                return bool(self.host(call, environment, is_integer=False)) is not negated
            case Member(variable, ref):
                return environment[variable] in self.members(ref, environment)
            case Distinct(left, right):
                return environment[left] != environment[right]
            case Ascending(left, right):
                return environment[left] < environment[right]
            case Lower(left, right, ref):
                members = list(self.members(ref, environment))
                return members.index(environment[left]) < members.index(environment[right])
            case StaticCompare():
                return bool(self.mask(test, environment))

    def members(self, ref: SetRef, environment: Mapping[str, int]) -> Sequence[int] | Mapping[int, None]:
        params = self.objects.space.sets[ref.name].params
        if len(ref.args) == len(params):
            return self.objects.members[ref.name].get(tuple(environment[a] for a in ref.args), {})
        return self.objects.of(ref, {})

    def host(self, call: HostCall, environment: Mapping[str, int], is_integer: bool) -> Any:
        return next(self.values(host_table(call, is_integer), [tuple(environment[a] for a in call.args)]))

    def mask(self, test: Satisfies | Named | StaticCompare, environment: Mapping[str, int]) -> int:
        template, variables = static_table(test)
        return int(next(self.values(template, [tuple(environment[v] for v in variables)])))

    def _host(self, host: HostTable) -> Callable[[Key], object]:
        """What computes the values of a host expression."""
        expression = host.call.expression
        evaluate = self.objects.evaluator(expression, host.call.args)

        def integer(key: Key) -> object:
            value = evaluate(key)
            if not isinstance(value, int):
                message = f"an integer is needed here, and this is {describe(value)}"
                raise DiagnosticError([Diagnostic("SP412", message, expression.span)])
            return value

        return integer if host.is_integer else evaluate

    def _static(self, table: StaticTable, key: tuple[int, ...]) -> int:
        environment = dict(zip(table.variables, key, strict=True))
        test = table.test
        if isinstance(test, StaticCompare):
            left, right = (self._linear(side, environment) for side in (test.left, test.right))
            return int(COMPARE[test.op](left, right))
        if isinstance(test, Named):
            place, compare = self.place(test.value, test.values, environment), COMPARE[test.op]
            return sum(1 << number for number in range(len(test.values)) if compare(number, place))
        use = test.value.use
        assert use is not None
        cell = self.layout.cells[use.choice][tuple(environment[a] for a in use.args)]
        factor, offset = self._term(test.value.factor, environment), self.offset(test.value, environment)
        limit, compare = self._linear(test.limit, environment), COMPARE[test.op]
        universe = self.layout.universes[cell]
        return sum(1 << bit for bit, value in enumerate(universe) if compare(factor * value + offset, limit))

    def place(self, call: HostCall, values: Sequence[str], environment: Mapping[str, int]) -> int:
        """The position of the value that a host expression names; a located error where it names none."""
        name = self.host(call, environment, is_integer=False)
        if name not in values:
            message = (
                f"this is {name if isinstance(name, str) else describe(name)}, not one of {', '.join(values)}"
            )
            raise DiagnosticError([Diagnostic("SP414", message, call.expression.span)])
        return values.index(name)

    def _linear(self, linear: Linear, environment: Mapping[str, int]) -> int:
        assert linear.use is None
        return self.offset(linear, environment)

    def offset(self, linear: Linear, environment: Mapping[str, int]) -> int:
        return sum(sign * self._term(value, environment) for sign, value in linear.offsets)

    def _term(self, term: Term, environment: Mapping[str, int]) -> int:
        return term if isinstance(term, int) else int(self.host(term, environment, is_integer=True))


def set_tables(objects: Objects, name: str) -> dict[str, object]:
    """The members of a set as generated code asks for them, by ids of its arguments."""
    instances, count = objects.members[name], len(objects.objects)
    params = len(objects.space.sets[name].params)

    def by_arguments(of: Callable[[Mapping[int, None]], object]) -> object:
        if params == 0:
            return of(instances.get((), {}))
        if params > 1:
            return {key: of(members) for key, members in instances.items()}
        rows = [of({})] * count
        for (number,), members in instances.items():
            rows[number] = of(members)
        return rows

    found: dict[str, object] = {
        f"set_{name}": by_arguments(tuple),
        f"in_{name}": by_arguments(frozenset),
        f"rank_{name}": by_arguments(lambda members: {member: rank for rank, member in enumerate(members)}),
    }
    if params == 1:
        owners: list[list[int]] = [[] for _ in range(count)]
        for (owner,), members in instances.items():
            for member in members:
                owners[member].append(owner)
        found[f"owners_{name}"] = owners
    if params:
        union = tuple(dict.fromkeys(member for members in instances.values() for member in members))
        found[f"union_{name}"] = union
        found[f"in_union_{name}"] = frozenset(union)
        found[f"rank_union_{name}"] = {member: rank for rank, member in enumerate(union)}
    return found

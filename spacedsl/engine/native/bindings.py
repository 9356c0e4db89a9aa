"""Bindings of variables to objects as arrays: which keys static tables are asked for, which tests cells pass.

In: loops and static tests of the IR, the sets of an instance. Out: arrays of object ids, one for each
variable, with a row for each binding. Tests that no array answers are asked of `Statics`, row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spacedsl.compiler.ir import (
    Ascending,
    Distinct,
    HostTest,
    Loop,
    Lower,
    Member,
    StaticCompare,
    StaticTest,
)
from spacedsl.compiler.python import static_table
from spacedsl.engine.static import Statics
from spacedsl.language.space import SetRef

Ids = NDArray[np.int64]
Truths = NDArray[np.bool_]
Bindings = dict[str, Ids]
"""Arrays of equal length by variable; without variables there is one binding."""


@dataclass(slots=True, eq=False)
class Relations:
    """The sets of an instance as arrays over object ids, made as they are asked for."""

    statics: Statics
    _truths: dict[object, Truths] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.statics.objects.objects)

    def instances(self, ref: SetRef) -> Mapping[tuple[int, ...], Mapping[int, None]]:
        """The members of each instance of the set; for a union, all of them at the key ()."""
        objects = self.statics.objects
        if len(ref.args) == len(objects.space.sets[ref.name].params):
            return objects.members[ref.name]
        return {(): dict.fromkeys(objects.of(SetRef(ref.name), {}))}

    def members(self, ref: SetRef) -> Truths:
        """Whether the last object is a member of the set of the others: a dimension for each."""
        key = (ref.name, len(ref.args))
        if key not in self._truths:
            truths = np.zeros((self.count,) * (len(ref.args) + 1), np.bool_)
            for owner, members in self.instances(ref).items():
                truths[owner][list(members)] = True
            self._truths[key] = truths
        return self._truths[key]

    def enumerate(self, loops: Iterable[Loop], bindings: Bindings) -> Bindings:
        """All bindings that extend these."""
        for loop in loops:
            bindings = self._extended(loop, bindings)
            bindings = self.filtered(loop.tests, bindings)
        return bindings

    def _extended(self, loop: Loop, bindings: Bindings) -> Bindings:
        rows = len(next(iter(bindings.values()))) if bindings else 1
        if loop.member is not None:
            source = SetRef(loop.source.name, ("owner",))
            truths = self.members(source).T[bindings[loop.member]]
        elif len(loop.source.args) > 1:
            truths = self.members(loop.source)[tuple(bindings[a] for a in loop.source.args)]
        elif loop.source.args:
            truths = self.members(loop.source)[bindings[loop.source.args[0]]]
        else:
            truths = np.broadcast_to(self.members(loop.source), (rows, self.count))
        places, objects = np.nonzero(truths)
        found = {name: ids[places] for name, ids in bindings.items()}
        found[loop.variable] = objects
        return found

    def filtered(self, tests: Iterable[StaticTest], bindings: Bindings) -> Bindings:
        """Those that pass; an order among equals is not asked for."""
        for test in tests:
            if not isinstance(test, Ascending):
                kept = self.holds(test, bindings)
                bindings = {name: ids[kept] for name, ids in bindings.items()}
        return bindings

    def holds(self, test: StaticTest, bindings: Bindings) -> Truths:
        """Of each binding."""
        match test:
            case Member(variable, ref):
                found: Truths = self.members(ref)[*(bindings[a] for a in ref.args), bindings[variable]]
                return found
            case Distinct(left, right):
                return np.not_equal(bindings[left], bindings[right])
            case Ascending(left, right):
                return np.less(bindings[left], bindings[right])
        variables = _variables(test)
        keys, places = unique([bindings[v] for v in variables], len(next(iter(bindings.values()), (0,))))
        truths = [self.statics.holds(test, dict(zip(variables, key, strict=True))) for key in keys]
        return np.array(truths, np.bool_)[places]


def unique(columns: Sequence[Ids], rows: int) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """The distinct keys, and for each row the place of its key among them."""
    if not columns:
        return [()], np.zeros(rows, np.int64)
    table = np.stack(columns, axis=1)
    keys, places = np.unique(table, axis=0, return_inverse=True)
    return [tuple(key) for key in keys.tolist()], places.reshape(-1)


def _variables(test: StaticTest) -> tuple[str, ...]:
    match test:
        case HostTest(call, _):
            return tuple(dict.fromkeys(call.args))
        case StaticCompare():
            return static_table(test)[1]
        case Lower(left, right, ref):
            return tuple(dict.fromkeys((left, right, *ref.args)))
    raise TypeError(f"no static test: {test!r}")

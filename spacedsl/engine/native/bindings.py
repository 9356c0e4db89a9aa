"""Bindings of variables to objects as arrays: which keys static tables are asked for, which tests cells pass.

In: loops and static tests of the IR, the sets of an instance. Out: arrays of object ids, one for each
variable, with a row for each binding. Tests that no array answers are asked of `Statics`, row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spacedsl.compiler.ir import (
    Ascending,
    Distinct,
    HostTest,
    Loop,
    Member,
    StaticTest,
)
from spacedsl.compiler.loops import variables_of
from spacedsl.compiler.python import host_table
from spacedsl.engine.arrays import MOST_CODES, MOST_DENSE, Ids, distinct
from spacedsl.engine.static import Statics
from spacedsl.language.space import SetRef

Truths = NDArray[np.bool_]
Bindings = dict[str, Ids]
"""Arrays of equal length by variable; without variables there is one binding."""
TABULAR = (Member, Distinct, Ascending)
"""Tests that arrays answer, of any objects."""


class NativeLimitError(Exception):
    """This instance does not fit the tables of the native engine; the Python engine has no such limits."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A sparse relation: for each of `codes`, in order, the objects from one of `starts` to the next."""

    codes: Ids
    starts: Ids
    objects: Ids

    def of(self, codes: Ids) -> tuple[Ids, Ids]:
        """All pairs of a place in `codes` and an object of its row."""
        if not len(self.codes):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        at, known = self._find(codes)
        lengths = np.where(known, self.starts[at + 1] - self.starts[at], 0)
        places = np.repeat(np.arange(len(codes)), lengths)
        first = np.cumsum(lengths) - lengths
        within = np.arange(len(places)) - first[places]
        return places, self.objects[self.starts[at][places] + within]

    def holds(self, codes: Ids, objects: Ids) -> Truths:
        """Whether each object lies in the row of the code beside it."""
        if not len(self.codes):
            return np.zeros(len(codes), np.bool_)
        span, width = int(self.codes[-1]) + 1, self._width
        inside = (codes < span) & (objects < width)
        if span * width > MOST_DENSE:
            at, known = self._find(codes)
            return known & inside & np.isin(at * width + objects, self._pairs)
        if not inside.all():
            codes, objects = np.where(inside, codes, 0), np.where(inside, objects, 0)
        return np.asarray(self._dense[codes * width + objects]) & inside

    @property
    def inverted(self) -> Rows:
        return rows(self.objects, np.repeat(self.codes, np.diff(self.starts)))

    @cached_property
    def _width(self) -> int:
        return int(self.objects.max(initial=0)) + 1

    @cached_property
    def _pairs(self) -> Ids:
        """By place of the code, which with its objects makes one number each."""
        return np.repeat(np.arange(len(self.codes)), np.diff(self.starts)) * self._width + self.objects

    @cached_property
    def _dense(self) -> Truths:
        """By code and object."""
        found = np.zeros((int(self.codes[-1]) + 1) * self._width, np.bool_)
        found[np.repeat(self.codes, np.diff(self.starts)) * self._width + self.objects] = True
        return found

    def _find(self, codes: Ids) -> tuple[Ids, Truths]:
        """The place of each code, and whether it is there; where it is not, some place."""
        if not len(self.codes):
            return np.zeros(len(codes), np.int64), np.zeros(len(codes), np.bool_)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return at, self.codes[at] == codes


def rows(codes: Ids, objects: Ids) -> Rows:
    """The relation of these pairs."""
    order = np.lexsort((objects, codes))
    found, starts = np.unique(codes[order], return_index=True)
    return Rows(found, np.append(starts, len(codes)), objects[order])


@dataclass(slots=True, eq=False)
class Relations:
    """The sets of an instance as arrays over object ids, made as they are asked for."""

    statics: Statics
    _rows: dict[object, Rows] = field(default_factory=dict)
    _members: dict[str, Truths] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.statics.objects.objects)

    def instances(self, ref: SetRef) -> Mapping[tuple[int, ...], Mapping[int, None]]:
        """The members of each instance of the set; for a union, all of them at the key ()."""
        objects = self.statics.objects
        if len(ref.args) == len(objects.space.sets[ref.name].params):
            return objects.members[ref.name]
        return {(): dict.fromkeys(objects.of(SetRef(ref.name), {}))}

    def members(self, ref: SetRef) -> Rows:
        """By code of the arguments, the members in order of their ids."""
        key = (ref.name, len(ref.args))
        if key not in self._rows:
            instances = self.instances(ref)
            owners = np.array(list(instances), np.int64).reshape(len(instances), len(ref.args))
            sizes = [len(members) for members in instances.values()]
            flat = (member for members in instances.values() for member in members)
            self._rows[key] = rows(
                np.repeat(self.codes(list(owners.T), len(owners)), sizes), np.fromiter(flat, np.int64)
            )
        return self._rows[key]

    def _among(self, ref: SetRef) -> Truths:
        """By object: whether it is a member of the set, or of one of its instances."""
        if ref.name not in self._members:
            members = np.zeros(self.count, np.bool_)
            for instance in self.statics.objects.members[ref.name].values():
                members[list(instance)] = True
            self._members[ref.name] = members
        return self._members[ref.name]

    def owners(self, name: str) -> Rows:
        """By member of a set of one argument, the arguments in order of their ids."""
        key = (name, None)
        if key not in self._rows:
            self._rows[key] = self.members(SetRef(name, ("owner",))).inverted
        return self._rows[key]

    def codes(self, columns: Sequence[Ids], length: int) -> Ids:
        """Of tuples of objects, one number each; a column for each position."""
        if self.count ** len(columns) > MOST_CODES:
            raise NativeLimitError(f"sets with {len(columns)} arguments, over {self.count} objects")
        codes = np.zeros(length, np.int64)
        for column in columns:
            codes = codes * self.count + column
        return codes

    def enumerate(self, loops: Iterable[Loop], bindings: Bindings) -> Bindings:
        """All bindings that extend these."""
        for loop in loops:
            bindings = self._extended(loop, bindings)
            bindings = self.filtered(loop.tests, bindings)
        return bindings

    def _extended(self, loop: Loop, bindings: Bindings) -> Bindings:
        length = len(next(iter(bindings.values()))) if bindings else 1
        if loop.member is not None:
            places, objects = self.owners(loop.source.name).of(bindings[loop.member])
        else:
            codes = self.codes([bindings[a] for a in loop.source.args], length)
            places, objects = self.members(loop.source).of(codes)
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
            case Member(variable, ref) if not ref.args:
                return np.asarray(self._among(ref)[bindings[variable]])
            case Member(variable, ref):
                members = bindings[variable]
                codes = self.codes([bindings[a] for a in ref.args], len(members))
                return self.members(ref).holds(codes, members)
            case Distinct(left, right):
                return np.not_equal(bindings[left], bindings[right])
            case Ascending(left, right):
                return np.less(bindings[left], bindings[right])
        variables = test.call.args if isinstance(test, HostTest) else tuple(sorted(variables_of(test)))
        keys, places = distinct([bindings[v] for v in variables], len(next(iter(bindings.values()), (0,))))
        if isinstance(test, HostTest):
            values = self.statics.values(host_table(test.call, is_integer=False), keys)
            return np.array([bool(value) is not test.negated for value in values], np.bool_)[places]
        truths = [self.statics.holds(test, dict(zip(variables, key, strict=True))) for key in keys]
        return np.array(truths, np.bool_)[places]

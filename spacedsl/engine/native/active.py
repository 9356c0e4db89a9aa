"""Which sites a change of a cell wakes: those whose static tests its objects pass.

In: a source of changes, and the objects of its cells. Out: by cell, a bit for each site. What a site does,
and which changes it notices, is in the compiled code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spacedsl.compiler.c.wakes import WORD_BITS, Site, Source
from spacedsl.compiler.ir import StaticTest
from spacedsl.compiler.loops import variables_of
from spacedsl.engine.arrays import Ids, distinct
from spacedsl.engine.native.bindings import TABULAR, Relations, Truths


def active_sites(source: Source, bound: Ids, relations: Relations) -> NDArray[np.uint64]:
    """By row of `bound`, the objects of a cell: words with the bits of the sites."""
    tests = _tests(bound, relations)
    everywhere = np.zeros(source.words, np.uint64)
    by_object = [np.zeros((len(objects), source.words), np.uint64) for objects in tests.objects]
    by_row = np.zeros((len(bound), source.words), np.uint64)
    for number, site in enumerate(source.sites):
        word, bit = number // WORD_BITS, np.uint64(1 << number % WORD_BITS)
        passed = tests.passed(site)
        for words, truths in zip(by_object, passed.objects, strict=True):
            words[truths, word] |= bit
        if passed.rows is None:
            everywhere[word] |= bit
        else:
            by_row[:, word] |= passed.rows * bit
    active = by_row | everywhere
    for words, places in zip(by_object, tests.places, strict=True):
        active &= words[places]
    return active


@dataclass(slots=True, eq=False)
class _Passed:
    """What passes the tests of a site that have been asked."""

    objects: list[Truths]
    """By column: of each object that occurs there, whether it passes those tests that read it alone."""
    rows: Truths | None = None
    """Of each row, whether it passes those that read several objects; None: there are none."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tests:
    """The tests of a source's sites: each is asked once, and most of objects, of which there are few."""

    bound: Ids
    objects: tuple[Ids, ...]
    """By column: those that occur."""
    places: tuple[Ids, ...]
    """By column: which of them each row has."""
    relations: Relations
    _known: dict[object, Truths] = field(default_factory=dict)

    def passed(self, site: Site) -> _Passed:
        """Python is asked only about what passes those before: of others it may have no answer."""
        passed = _Passed([np.ones(len(objects), np.bool_) for objects in self.objects])
        for number, test in enumerate(site.wake.tests):
            key: object = (test, site.variables)
            if not isinstance(test, TABULAR):
                key = (site.wake.tests[: number + 1], site.variables)
            read = tuple(variables_of(test))
            if len(read) == 1:
                place = site.variables.index(read[0])
                if key not in self._known:
                    self._known[key] = self._of_objects(test, read[0], place, passed)
                passed.objects[place] = passed.objects[place] & self._known[key]
                continue
            if key not in self._known:
                self._known[key] = self._of_rows(test, site.variables, passed)
            passed.rows = self._known[key] if passed.rows is None else passed.rows & self._known[key]
        return passed

    def _of_objects(self, test: StaticTest, variable: str, place: int, passed: _Passed) -> Truths:
        objects = self.objects[place]
        if isinstance(test, TABULAR):
            return self.relations.holds(test, {variable: objects})
        asked = np.zeros(len(objects), np.bool_)
        asked[self.places[place][self._whole(passed)]] = True
        truths = np.zeros(len(objects), np.bool_)
        truths[asked] = self.relations.holds(test, {variable: objects[asked]})
        return truths

    def _of_rows(self, test: StaticTest, variables: tuple[str, ...], passed: _Passed) -> Truths:
        bindings = {variable: self.bound[:, place] for place, variable in enumerate(variables)}
        if isinstance(test, TABULAR):
            return self.relations.holds(test, bindings)
        asked = self._whole(passed)
        truths = np.zeros(len(self.bound), np.bool_)
        truths[asked] = self.relations.holds(test, {v: ids[asked] for v, ids in bindings.items()})
        return truths

    def _whole(self, passed: _Passed) -> Truths:
        """The rows that pass everything asked so far."""
        rows = np.ones(len(self.bound), np.bool_) if passed.rows is None else passed.rows.copy()
        for truths, places in zip(passed.objects, self.places, strict=True):
            rows &= truths[places]
        return rows


def _tests(bound: Ids, relations: Relations) -> _Tests:
    columns = [distinct([column], len(bound)) for column in bound.T]
    objects = tuple(np.array(found, np.int64).reshape(-1) for found, _ in columns)
    return _Tests(bound, objects, tuple(places for _, places in columns), relations)

"""Filters of bit rows, judged by the tables of the propagators that they stand before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from pathlib import Path

import pytest

from spacedsl.compiler import compile_space
from spacedsl.compiler.c.filters import Filter, filter_of
from spacedsl.compiler.c.words import And, Not, Or, Row, Word, text
from spacedsl.compiler.ir import AllOf, If, Module, Present, Project, Propagator
from spacedsl.language.loader import load_space
from spacedsl.language.space import Space, Use

SPACES = [Path(__file__).parent / "small.space", Path("kernels/spaces/linalg.space")]

EVERY = 5
"""Of all combinations of masks, one in so many is tried."""


def holds(word: Word, rows: Mapping[int, int]) -> bool:
    """For one object: `rows` has the mask that is left of each row's domain."""
    match word:
        case bool():
            return word
        case Row(number, value):
            return bool(rows[number] >> value & 1)
        case Not(inner):
            return not holds(inner, rows)
        case And(words):
            return all(holds(part, rows) for part in words)
        case Or(words):
            return any(holds(part, rows) for part in words)


def projections_of(propagator: Propagator) -> tuple[Project, ...]:
    """All that a relation does with objects that are present; of any other propagator, nothing."""
    match propagator.body:
        case (If(AllOf(tests), body, ()),) if all(isinstance(test, Present) for test in tests):
            pass
        case body:
            pass
    found = tuple(statement for statement in body if isinstance(statement, Project))
    return found if len(found) == len(body) else ()


def filters_of_relations(module: Module, space: Space) -> Iterator[tuple[tuple[Project, ...], Filter]]:
    for propagator in module.propagators:
        projections = projections_of(propagator)
        for wake in propagator.wakes if projections else ():
            if wake.loops:
                found = filter_of(propagator, wake.loops[-1].variable, module.tables, space)
                if found is not None:
                    yield projections, found


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_a_filter_lets_through_the_objects_that_a_relation_changes_and_no_others(path: Path) -> None:
    compiled = compile_space(load_space(path))
    module, space = compiled.module, compiled.complete
    tried = 0
    for projections, found in filters_of_relations(module, space):
        full = {row.use: space.enum(row.use).full for row in found.rows}
        if sum(mask.bit_length() for mask in full.values()) > 10:
            continue
        combinations = product(found.cases, product(*(range(1, mask + 1) for mask in full.values())))
        for (fixed, word), masks in islice(combinations, 0, None, EVERY):
            domains: dict[Use, int] = {
                **dict(zip(found.fixed, fixed, strict=True)),
                **dict(zip(full, masks, strict=True)),
            }
            changes = False
            for statement in projections:
                table, index = module.tables[statement.table], 0
                for use, width in zip(statement.inputs, table.widths, strict=True):
                    index = index << width | domains[use]
                changes |= bool(domains[statement.target] & ~table.entries[index])
            rows = {
                number: space.enum(row.use).invert(domains[row.use]) if row.is_inverted else domains[row.use]
                for number, row in enumerate(found.rows)
            }
            assert holds(word, rows) == changes, (projections, domains)
            tried += 1
    assert tried > 50


def test_words_are_printed_with_their_brackets() -> None:
    a, b, c = Row(0, 0), Row(0, 1), Row(1, 2)
    assert text(And(frozenset((a, Not(Or(frozenset((b, c)))))))) == "ROW(0, 0) & ~(ROW(0, 1) | ROW(1, 2))"
    assert (text(True), text(False)) == ("~(Word)0", "(Word)0")

"""Mistakes in grids of pipelines are seen: by the verifier, or by a twin that is watched for races.

What survives changes nothing: a barrier between what one thread has stored and what it loads itself, an
iteration in which the loops inside end before they begin, a load whose value does not matter.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.tree.expressions import Index, Load, PartialLoad
from spacedsl.codegen.tree.parts import map_loads, statements
from spacedsl.codegen.tree.program import Assign, Barrier, Grid, Let, PerThread, Statement, Store, Sweep, When
from spacedsl.kernels.pipeline.affine import Extreme, Linear
from tests.codegen.pipeline.on_gpus import built, drawn, grids_of, schedule, twin_difference
from tests.codegen.pipeline.test_cases import cases_of
from tests.codegen.tree.mutants import unrefused

Body = tuple[Statement, ...]


def mistakes(statement: Statement) -> Iterator[tuple[str, Body]]:
    match statement:
        case Barrier():
            yield "a barrier left out", ()
        case Sweep(variable, first, last, step, inner):
            if any(isinstance(atom, Extreme) and first in (atom.left, atom.right) for atom, _ in last.terms):
                # Along rows, and where there are loops over it inside, these end where the predicate does.
                loops = (s.variable for s in statements(inner) if isinstance(s, Sweep))
                if "_y" in variable and not any("_y" in loop for loop in loops):
                    yield "a predicate left out", (Let(variable, first), *inner)
            else:
                yield "an iteration too many", (replace(statement, last=last + Linear(step)),)
                yield "an iteration too few", (replace(statement, last=last + Linear(-step)),)
        case PerThread((outermost, *others), _) if outermost.extent > 1:
            fewer = replace(outermost, extent=outermost.extent - 1)
            yield "threads too few", (replace(statement, coordinates=(fewer, *others)),)
        case Store(_, index):
            yield "a store beside its element", (replace(statement, index=_beside(index)),)
        case Assign(_, value) if (moved := map_loads(value, _moved)) != value:
            yield "a load beside its element", (replace(statement, value=moved),)


def _moved(load: Load | PartialLoad) -> Load | PartialLoad:
    return replace(load, index=_beside(load.index))


def _beside(index: Index) -> Index:
    return replace(index, constant=index.constant + 1)


def edited(body: Sequence[Statement]) -> Iterator[tuple[str, Body]]:
    """The body with one mistake, wherever one can be made."""
    for n, statement in enumerate(body):
        before, after = tuple(body[:n]), tuple(body[n + 1 :])
        yield from ((kind, (*before, *made, *after)) for kind, made in mistakes(statement))
        match statement:
            case Grid(shared=(array, *arrays)) if array.elements > 1:
                small = replace(array, shape=(array.elements // 2,), strides=(1,))
                less = replace(statement, shared=(small, *arrays))
                yield "a shared array too small", (*before, less, *after)
        for name in ("body", "otherwise") if isinstance(statement, When) else ("body",):
            for kind, made in edited(getattr(statement, name, ())):
                changed: dict[str, Any] = {name: made}
                yield kind, (*before, replace(statement, **changed), *after)


TILES = {
    "blur_y.x.TASK": 16, "blur_y.y.TASK": 8, "blur_y.x.LANE": 1, "blur_y.y.LANE": 1, "blur_x.x.LANE": 1,
    "blur_x.y.LANE": 1,
}  # fmt: skip
"""A row for each thread: without a loop inside, predicates alone end the last tiles."""

TRIED = 2
"""Of each kind, of each implementation."""

LEAST_SEEN = {
    "a barrier left out": 0.7, "a predicate left out": 1.0, "an iteration too many": 0.6,
    "an iteration too few": 0.9, "threads too few": 1.0, "a store beside its element": 1.0,
    "a load beside its element": 0.9, "a shared array too small": 1.0,
}  # fmt: skip


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
def test_mistakes_are_seen(tmp_path: Path) -> None:
    file, (case, *_) = cases_of("blur")
    made, seen = Counter[str](), Counter[str]()
    chance, picked = random.Random(4), 0
    plain = schedule(file, {"blur_x": "TASK"}, TILES)
    for candidate in (plain, *drawn(file, 60, 9)):
        program = grids_of(file, candidate)
        if picked == 3 or not any(isinstance(s, Barrier) for s in statements(program.body)):
            continue
        picked += 1
        left = unrefused(program, edited(program.body), TRIED, chance, made, seen)
        own = tmp_path / str(picked)
        own.mkdir()
        library = built([m for _, m in left], own)
        for number, (kind, _) in enumerate(left):
            seen[kind] += twin_difference(file, library, f"program_{number}", case) != ""
    assert picked == 3
    assert set(LEAST_SEEN) <= set(made)
    for kind, least in LEAST_SEEN.items():
        assert seen[kind] >= least * made[kind], f"{kind}: {seen[kind]} of {made[kind]}"

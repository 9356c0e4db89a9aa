"""Mistakes in implementations for GPUs are seen: by the verifier, or by a twin that is watched for races.

What survives changes nothing: a barrier between accesses to different elements, since barriers are laid for
whole arrays; a predicate without which more threads compute what only some of them use; a load whose value
is not used.
"""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.cuda.checking import executed
from spacedsl.codegen.cuda.corners import PARTS_OF_TILES, on_corner
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.running.cases import Case
from spacedsl.codegen.tree.expressions import Index, Load, PartialLoad
from spacedsl.codegen.tree.parts import map_loads, stored
from spacedsl.codegen.tree.program import (
    Assign,
    AtomicCombine,
    Barrier,
    Branch,
    Grid,
    Loop,
    PartialStore,
    Statement,
    Store,
    Where,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from tests.codegen.apart import ENDED, said_apart
from tests.codegen.cuda.grids import orders, random_candidates, space_of, twins
from tests.codegen.cuda.sanitized import watched
from tests.codegen.cuda.unread import first_unread
from tests.codegen.runs import brief_case, run_difference
from tests.codegen.tree.mutants import unrefused
from tests.kernels.samples import LIBRARY

Body = tuple[Statement, ...]
"""Mistakes that can be made with a statement, in a block of so many threads."""


def mistakes(statement: Statement, threads: int) -> Iterator[tuple[str, Body]]:
    match statement:
        case Barrier():
            yield "a barrier left out", ()
            yield "a barrier for some threads", (Where(((0, 1, threads),), (statement,)),)
        case Where(((low, high, period), *others), inner):
            what = "stores" if stored(inner) else "registers"
            yield f"a predicate of {what} left out", inner
            if high < period and what == "stores":
                wider = (low, high + 1, period)
                yield "a predicate of one thread more", (Where((wider, *others), inner),)
        case Store(_, index) | PartialStore(_, index) | AtomicCombine(_, index):
            yield "a store beside its element", (replace(statement, index=_beside(index)),)
        case Assign(_, value):
            moved = map_loads(value, _moved)
            if moved != value:
                yield "a load beside its element", (replace(statement, value=moved),)


def _moved(load: Load | PartialLoad) -> Load | PartialLoad:
    return replace(load, index=_beside(load.index))


def _beside(index: Index) -> Index:
    return replace(index, constant=index.constant + 1)


def edited(body: Sequence[Statement], threads: int) -> Iterator[tuple[str, Body]]:
    """The body with one mistake, wherever one can be made."""
    for n, statement in enumerate(body):
        before, after = tuple(body[:n]), tuple(body[n + 1 :])
        yield from ((kind, (*before, *made, *after)) for kind, made in mistakes(statement, threads))
        match statement:
            case Grid():
                most = max(statement.shared, key=lambda t: t.elements, default=None)
                if most is not None and most.elements > 1:
                    half = replace(most, shape=(most.elements // 2,))
                    arrays = tuple(half if t is most else t for t in statement.shared)
                    yield "a shared array too small", (*before, replace(statement, shared=arrays), *after)
                for kind, made in edited(statement.body, statement.threads):
                    yield kind, (*before, replace(statement, body=made), *after)
            case Loop() | Where():
                for kind, made in edited(statement.body, threads):
                    yield kind, (*before, replace(statement, body=made), *after)
            case Branch():
                for kind, made in edited(statement.body, threads):
                    yield kind, (*before, replace(statement, body=made), *after)
                for kind, made in edited(statement.otherwise, threads):
                    yield kind, (*before, replace(statement, otherwise=made), *after)


def is_seen(kernel: KernelFile, library: Path, case: Case, name: str) -> bool:
    """Whether a run differs in some order, has a race, or ends its process."""

    def differences() -> Iterator[str]:
        loaded = ctypes.CDLL(str(library))
        for _ in orders(loaded):
            yield run_difference(kernel, loaded, case, name) + first_unread(kernel, loaded, case)

    return said_apart(differences) != ENDED


TRIED = 3
"""Of each kind, of each implementation."""


def caught(name: str, sizes: dict[str, int], count: int, folder: Path) -> tuple[Counter[str], Counter[str]]:
    """How many mutants there were of each kind, and how many of these were seen."""
    kernel = load_kernel(LIBRARY / f"{name}.yaml", sizes, "gpu")
    made, seen = Counter[str](), Counter[str]()
    chance, picked = random.Random(4), 0
    for candidate in random_candidates(space_of(kernel), 10 * count, seed=21):
        smaller, implementation = on_corner(kernel, candidate, PARTS_OF_TILES)
        program = verify(lower_grids(smaller.backbone, implementation))
        has_barriers = any(kind == "a barrier left out" for kind, _ in edited(program.body, 1))
        if picked == count or executed(program.body) > 1 << 20 or not has_barriers:
            continue
        picked += 1
        left = unrefused(program, edited(program.body, 1), TRIED, chance, made, seen)
        own = folder / str(picked)
        own.mkdir()
        library, case = twins([m for _, m in left], own, *watched()), brief_case(smaller)
        for number, (kind, _) in enumerate(left):
            seen[kind] += is_seen(smaller, library, case, f"program_{number}")
    assert picked == count
    return made, seen


LEAST_SEEN = {
    "a barrier left out": 0.9, "a barrier for some threads": 1.0, "a predicate of stores left out": 1.0,
    "a predicate of one thread more": 1.0, "a store beside its element": 1.0,
    "a load beside its element": 0.9, "a shared array too small": 0.8,
}  # fmt: skip
"""Of a loop that has fewer iterations than there are tiles, not all room is needed."""


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize(
    ("name", "sizes", "count"),
    [("matmul", {"m": 64, "n": 64, "k": 64}, 6), ("column_max", {"m": 40, "n": 12}, 4)],
)
def test_mistakes_are_seen(name: str, sizes: dict[str, int], count: int, tmp_path: Path) -> None:
    made, seen = caught(name, sizes, count, tmp_path)
    assert set(LEAST_SEEN) <= set(made)
    for kind, least in LEAST_SEEN.items():
        assert seen[kind] >= least * made[kind], f"{kind}: {seen[kind]} of {made[kind]}"

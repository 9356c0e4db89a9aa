"""What runs side by side touches nothing that others store: by enumeration, by hand, and by mutants."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacedsl.codegen.pipeline.lower import lower
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import Gather, Index, Load, Number, Type, type_of
from spacedsl.codegen.tree.parts import expressions, statements, with_blocks
from spacedsl.codegen.tree.program import ParallelLoop, Program, Statement, Store, Sweep, When
from spacedsl.codegen.tree.races import Access, contested
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Extreme, Linear, extreme, variable
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.tensors import Scratch, Tensor
from tests.codegen.interpreter import Interpreter, position
from tests.kernels.pipeline.cases import PIPELINES, drawn, named

ROWS, COLUMNS = 6, 10
ARRAY = Tensor("a", DType.I32, (ROWS, COLUMNS), (COLUMNS, 1), is_output=True)


# ---- All iterations of random loops ------------------------------------------------------------------------


@dataclass(frozen=True)
class Nest:
    """Parallel loops t and u, in which x and y go along tiles; accesses as (constant, strides, more)."""

    extents: Mapping[str, int]
    tile: int
    accesses: tuple[tuple[int, Mapping[str, int], int], ...]

    @property
    def ranges(self) -> Ranges:
        ranges = Ranges()
        for name, extent in self.extents.items():
            ranges = ranges.with_loop(name, Linear(0), Linear(extent - 1))
        first = variable("t") * self.tile
        last = extreme("min", first + Linear(self.tile - 1), Linear(COLUMNS - 1))
        return ranges.with_loop("x", first, last)

    def iterations(self) -> Iterator[dict[str, int]]:
        for values in itertools.product(*map(range, self.extents.values())):
            at = dict(zip(self.extents, values, strict=True))
            first = at["t"] * self.tile
            for x in range(first, min(first + self.tile, COLUMNS)):
                yield {**at, "x": x}


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    extents = {"t": draw(st.integers(2, 3)), "u": draw(st.integers(1, 3)), "y": draw(st.integers(1, 3))}
    tile = draw(st.integers(1, 5))
    along = draw(st.sampled_from([{"x": 1}, {"t": 1}, {"t": 20}, {"t": tile}, {"t": 2 * tile, "x": -1}]))
    numbers = st.sampled_from([0, 1, 2, 3, 10, 20, 30, -10])
    shared = {**along, "u": draw(numbers), "y": draw(numbers)}
    accesses = []
    for _ in range(draw(st.integers(1, 3))):
        strides = {**shared, "y": draw(st.sampled_from([shared["y"], 0]))}
        if draw(st.integers(0, 3)) == 0:
            strides["u"] = draw(numbers)
        constant = draw(st.sampled_from([0, 0, 1, 10, COLUMNS - 1, -1, 30]))
        accesses.append((constant, strides, draw(st.sampled_from([0, 0, 1, 3]))))
    return Nest(extents, tile, tuple(accesses))


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nests())
def test_what_is_never_contested_is_touched_by_one_iteration_alone(nest: Nest) -> None:
    """All accesses count as stores here: what is found has to hold of any of them."""
    ranges = nest.ranges
    forms = []
    for constant, strides, more in nest.accesses:
        terms = [variable(name) * number for name, number in strides.items()]
        forms.append((sum(terms, Linear(constant)), more))
    found = contested(
        {name: nest.extents[name] for name in ("t", "u")},
        ARRAY,
        [Access(form, more, ranges) for form, more in forms],
    )
    if found is not None:
        return
    owners: dict[int, tuple[int, int]] = {}
    for at in nest.iterations():
        for form, more in forms:
            first = position(form, at)
            for element in range(first, first + more + 1):
                owner = at["t"], at["u"]
                assert owners.setdefault(element, owner) == owner


# ---- By hand ----------------------------------------------------------------------------------------------

I32 = Type(DType.I32)
T = variable("t")


def at(form: Linear) -> Index:
    return Index(form.constant, (), atoms=form.terms)


def store(form: Linear) -> Store:
    return Store("a", at(form), Number(7, I32))


def copy(to: Linear, source: Linear) -> Store:
    return Store("a", at(to), Load("a", at(source), I32))


def program(*body: Statement, extent: int = 9) -> Program:
    whole = Tensor("out", DType.I32, (1,), (1,), is_output=True)
    loop = ParallelLoop("t", extent, body)
    return Program("k", (whole,), (), (loop, Store("out", Index(0), Number(7, I32))), (Scratch(ARRAY, True),))


def over(name: str, first: int, last: int, *body: Statement) -> Sweep:
    return Sweep(name, Linear(first), Linear(last), 1, body)


RIGHT = {
    "rows from the last element on": program(
        over("x", 0, 9, store(T * 10 + Linear(9) + variable("x") * -1)), extent=6
    ),
    "columns of a row whose numbers lie on both sides of one": program(
        over("x", 2, 2, store(T * 4 + variable("x") + Linear(-2)), store(T * 4 + variable("x") + Linear(-1))),
        over("x", 12, 12, store(T * 4 + variable("x") + Linear(-11))),
        extent=3,
    ),
    "a column upwards, in each two rows": program(
        store(T * 20),
        over("y", 1, 2, copy(T * 20 + variable("y") * -10 + Linear(20), T * 20 + Linear(1))),
        over("y", 0, 1, store(T * 20 + variable("y") * -10 + Linear(19))),
        extent=3,
    ),
    "rows, in part": program(over("x", 1, 9, store(T * 10 + variable("x"))), extent=6),
    "rows that begin one later": program(over("x", 1, 10, store(T * 10 + variable("x"))), extent=5),
    "two stores of a part of two": program(store(T * 2), store(T * 2 + Linear(1))),
    "a part that goes down": program(store(T * -2 + Linear(20)), store(T * -2 + Linear(21))),
    "what an iteration has stored itself": program(store(T * 2), copy(T * 2 + Linear(1), T * 2)),
    "columns of several rows": program(store(T), store(T + Linear(10)), copy(T + Linear(20), T)),
    "one iteration": program(store(T), store(T + Linear(1)), extent=1),
}
WRONG = {
    "the next element as well": program(store(T), store(T + Linear(1))),
    "the next element of the next row": program(store(T), store(T + Linear(11))),
    "what the next one stores": program(store(T * 2), copy(T * 2, T * 2 + Linear(2))),
    "a row that goes on in the next one": program(over("x", 1, 11, store(T * 10 + variable("x"))), extent=5),
    "what all store in turn": program(store(T), copy(T + Linear(10), Linear(3))),
    "parts that differ in size": program(store(T), store(T * 2 + Linear(20)), store(T * 3)),
    "what another one stores in the same row": program(store(T * 2), copy(T * 2 + Linear(20), T * 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_has_a_partition_is_accepted(name: str) -> None:
    verify(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_what_has_none_is_refused(name: str) -> None:
    with pytest.raises(VerificationError, match=r"parallel loop t may store to the same a, or read it"):
        verify(WRONG[name])


# ---- Mutants of programs of pipelines ---------------------------------------------------------------------


def lowered(file: PipelineFile, count: int, seed: int, vector_bytes: int = 16) -> Iterator[Program]:
    for candidate in drawn(file, count, seed, DescentCounts()):
        yield lower(file.backbone, CandidateDecisions(candidate), vector_bytes)


Iteration = tuple[tuple[str, int], ...]
"""The variables of parallel loops, and their values."""


class _Watched(list[Any]):
    """An array that knows which iterations touch its elements, and which of them store there."""

    def __init__(self, span: int, watching: _Watching) -> None:
        super().__init__([1] * span)
        self.watching = watching
        self.touched: dict[int, dict[Iteration, bool]] = {}

    def __getitem__(self, at: Any) -> Any:
        for element in range(at.start, at.stop):
            self.touched.setdefault(element, {}).setdefault(self.watching.iteration, False)
        return super().__getitem__(at)

    def __setitem__(self, at: Any, number: Any) -> None:
        self.touched.setdefault(at, {})[self.watching.iteration] = True
        super().__setitem__(at, number)

    def has_race(self) -> bool:
        """Whether an iteration stores to what another one of the same loops touches."""
        return any(
            is_stored and any(other != at and dict(other).keys() == dict(at).keys() for other in touched)
            for touched in self.touched.values()
            for at, is_stored in touched.items()
        )


class _Watching(Interpreter):
    """Runs a program, one iteration after the other, on elements that are all 1."""

    def __init__(self, made: Program) -> None:
        super().__init__({}, {p.name: 1 for p in made.parameters})
        self.iteration: Iteration = ()
        self.names = {s.variable for s in statements(made.body) if isinstance(s, ParallelLoop)}
        self.arrays = [_Watched(t.span, self) for t in tensors(made)]
        self.memory |= {t.name: a for t, a in zip(tensors(made), self.arrays, strict=True)}

    def block(self, body: Any, loops: Mapping[str, int], registers: Any) -> None:
        self.iteration = tuple((name, i) for name, i in loops.items() if name in self.names)
        super().block(body, loops, registers)


def has_race(made: Program) -> bool:
    watching = _Watching(made)
    watching.block(made.body, {}, {})
    return any(array.has_race() for array in watching.arrays)


def tensors(made: Program) -> tuple[Tensor, ...]:
    return (*made.tensors, *(s.tensor for s in made.scratch))


Edit = Callable[[Statement], Statement]


def edited(body: Sequence[Statement], edit: Edit) -> tuple[Statement, ...]:
    return tuple(edit(with_blocks(s, lambda inner: edited(inner, edit))) for s in body)


def at_one(made: Program, kind: type, edit: Edit) -> Iterator[Program]:
    """With each statement of a kind changed, one at a time."""
    for chosen in range(sum(isinstance(s, kind) for s in statements(made.body))):
        seen = itertools.count()

        def once(s: Statement, chosen: int = chosen, seen: Iterator[int] = seen) -> Statement:
            return edit(s) if isinstance(s, kind) and next(seen) == chosen else s

        yield replace(made, body=edited(made.body, once))


def moved(by: int) -> Edit:
    """A store, a few elements on."""

    def edit(s: Statement) -> Statement:
        assert isinstance(s, Store)
        return replace(s, index=replace(s.index, constant=s.index.constant + by))

    return edit


def of_neighbour(by: int) -> Edit:
    """A store, and then one of what lies a few elements on in the same array."""

    def edit(s: Statement) -> Statement:
        assert isinstance(s, Store)
        there = replace(s.index, constant=s.index.constant + by)
        return When((Linear(0),), (s, replace(s, value=Load(s.tensor, there, type_of(s.value)))))

    return edit


def unshifted(s: Statement) -> Statement:
    """Vectors that go beyond the end of a row, or of a box, in place of beginning earlier."""
    if isinstance(s, Sweep) and s.step > 1 and any(isinstance(a, Extreme) for a, _ in s.first.terms):
        return replace(s, last=s.last + Linear(s.step - 1))
    return s


def shared(made: Program) -> Program:
    """The arrays of each thread as arrays of the program."""

    def edit(s: Statement) -> Statement:
        return replace(s, private=()) if isinstance(s, ParallelLoop) else s

    own = [t for s in made.body if isinstance(s, ParallelLoop) for t in s.private]
    return replace(
        made, body=edited(made.body, edit), scratch=(*made.scratch, *(Scratch(t, False) for t in own))
    )


MOST_OF_ONE = 6
"""Mutants of one program."""


@cache
def originals() -> tuple[Program, ...]:
    """Programs with parallel loops."""
    made = [p for name in PIPELINES for p in lowered(named(name), 2, 6)]
    return tuple(roomy(p) for p in made if any(isinstance(s, ParallelLoop) for s in p.body))


def roomy(made: Program) -> Program:
    """With arrays that go on behind their end, so that what moves is not outside of them: all but those of
    gathers, which say how long they are.
    """
    gathered = {e.tensor for e in expressions(made.body) if isinstance(e, Gather)}

    def longer(tensor: Tensor) -> Tensor:
        if not tensor.shape or tensor.name in gathered:
            return tensor
        return replace(tensor, shape=(tensor.shape[0] + 2, *tensor.shape[1:]))

    outputs = tuple(longer(t) if t.is_output else t for t in made.tensors)
    scratch = tuple(replace(s, tensor=longer(s.tensor)) for s in made.scratch)
    return replace(made, tensors=outputs, scratch=scratch)


def test_what_is_lowered_has_no_race() -> None:
    for made in originals():
        assert not has_race(verify(made))


MUTANTS: Mapping[str, Callable[[Program], Iterable[Program]]] = {
    "a store one on": lambda made: at_one(made, Store, moved(1)),
    "a store one back": lambda made: at_one(made, Store, moved(-1)),
    "the next element": lambda made: at_one(made, Store, of_neighbour(1)),
    "the element before": lambda made: at_one(made, Store, of_neighbour(-1)),
    "no shift": lambda made: at_one(made, Sweep, unshifted),
    "shared memory": lambda made: [shared(made)],
}


@pytest.mark.parametrize("mutation", MUTANTS)
def test_mutants_with_races_are_refused(mutation: str) -> None:
    """Also those whose mistake is something else are; what is accepted has no race."""
    races = tried = 0
    for made in originals():
        mutants = [mutant for mutant in MUTANTS[mutation](made) if mutant != made]
        for mutant in Random(1).sample(mutants, min(len(mutants), MOST_OF_ONE)):
            tried += 1
            try:
                verify(mutant)
            except VerificationError as error:
                races += "to the same" in str(error)
                continue
            assert not has_race(mutant), mutant
    assert tried > 9
    assert races > 4 or mutation == "no shift"

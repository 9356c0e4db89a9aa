"""A space on a kernel and a device: objects, the layout of the vector, and propagation.

In: a compiled space, a kernel and a device. Out: `Instance`, which gives the root candidate and makes
candidates from candidates. It decides nothing: which decision comes next is the business of searches.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, count, groupby, repeat
from operator import attrgetter, itemgetter

import numpy as np

from spacedsl.compiler import CompiledSpace
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.collection import collection_paused
from spacedsl.engine.cycles import refuse_cycles
from spacedsl.engine.decision import Decision
from spacedsl.engine.differences import contradictory_circle
from spacedsl.engine.domain_table import DomainTable, Numbers
from spacedsl.engine.layout import ABSENT, PRESENT, Layout, decided, lay_out, presence_cells
from spacedsl.engine.maps import verify_maps
from spacedsl.engine.native.propagation import NativePropagation, mask_words, native_or_reason
from spacedsl.engine.objects import Key, Objects, collect, verify
from spacedsl.engine.propagation import Propagation
from spacedsl.engine.static import Statics
from spacedsl.engine.triggers import Expansion, expand
from spacedsl.language.space import EnumChoice, Quantity, Space, Symmetry


class Engine(enum.Enum):
    """What propagates. Both give the same vectors, word for word."""

    PYTHON = "python"  # the reference: simple, slow, needs no compiler
    NATIVE = "native"  # compiled C; where that cannot be had, Python, and `Instance.no_native` says why


@dataclass(slots=True, eq=False)
class Variable:
    """One decision variable: a choice on objects. Of a symmetric pair only one orientation is a variable.

    Nothing changes one. It is not frozen since there are thousands: those take four times as long to make.
    """

    index: int
    """Position in `Instance.variables`."""
    choice: str
    objects: tuple[object, ...]
    offset: int
    """First word in the candidate's vector."""
    universe: tuple[str, ...] | tuple[int, ...]
    """Bit b of its mask stands for universe[b]."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the objects."""
        return tuple(item.name for item in self.objects)  # type: ignore[attr-defined]

    def values(self, mask: int) -> tuple[str | int, ...]:
        """The values of a mask, in order."""
        universe: tuple[str | int, ...] = self.universe
        return tuple(value for bit, value in enumerate(universe) if mask >> bit & 1)


class Instance:
    """Built by `instantiate(compiled, kernel, device)`: objects, layout of the vector, host tables."""

    native: NativePropagation | None = None
    no_native: str | None = None
    """Why the native engine, which was asked for, does not run."""

    def __init__(
        self,
        compiled: CompiledSpace,
        objects: Objects,
        expansion: Expansion,
        engine: Engine = Engine.PYTHON,
    ) -> None:
        self.compiled = compiled
        self.space: Space = compiled.space
        self.kernel, self.device = objects.kernel, objects.device
        self.objects = objects
        self.layout: Layout = lay_out(compiled.complete, objects, expansion)
        self.expansion = expansion
        if engine is Engine.NATIVE:
            self.native, self.no_native = native_or_reason(compiled, objects, expansion, self.layout)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """All decision variables (not counters, not representatives), by declaration, then by objects."""
        return _variables(self.space, self.objects, self.layout)

    @cached_property
    def presence(self) -> Mapping[int, tuple[int, ...]]:
        """By cell of a decision: words that all say PRESENT once its objects are; no entry: always."""
        return _presence(self.space, self.objects, self.layout)

    @property
    def engine(self) -> Engine:
        """The one that runs."""
        return Engine.PYTHON if self.native is None else Engine.NATIVE

    @cached_property
    def propagation(self) -> Propagation:
        """The reference engine, whichever runs."""
        return Propagation(self.compiled, self.objects, self.expansion, self.layout)

    @cached_property
    def _by_offset(self) -> Mapping[int, Variable]:
        return {variable.offset: variable for variable in self.variables}

    @cached_property
    def _by_choice(self) -> Mapping[str, tuple[Variable, ...]]:
        return {name: tuple(of) for name, of in groupby(self.variables, key=attrgetter("choice"))}

    @cached_property
    def _by_names(self) -> Mapping[tuple[str, tuple[str, ...]], Variable]:
        return {(variable.choice, variable.names): variable for variable in self.variables}

    def root(self) -> Candidate | None:
        """The candidate before any decision, propagated; None where the space is empty."""
        return self._root_candidate

    @cached_property
    def _root_candidate(self) -> Candidate | None:
        if contradictory_circle(self.compiled, Statics(self.objects, self.layout)):
            return None
        return self._candidate((self.native or self.propagation).root())

    def variables_of(self, choice: str) -> tuple[Variable, ...]:
        return self._by_choice.get(choice, ())

    def variable(self, choice: str, *objects: object) -> Variable:
        """The variable of a choice on objects, in the orientation that is stored as a decision."""
        cell = self.offset(choice, *objects)
        return self._by_offset[min(cell, self.layout.twins.get(cell, cell))]

    def offset(self, choice: str, *objects: object) -> int:
        """First word of the domain (or counter) in the orientation asked for. For fast readers."""
        return self.layout.cells[choice][self._key(objects)]

    def quantities(self, vector: array[int]) -> Iterator[tuple[Quantity, tuple[str, ...], tuple[int, int]]]:
        """Every quantity with the names of its objects and its interval, where they are present for certain.

        In the order of declaration.
        """
        if not self.space.quantities:
            return
        names, declared = self.objects.names, list(self.space.quantities)
        propagation = self.native or self.propagation
        found = sorted(propagation.quantities(vector), key=lambda each: (declared.index(each[0]), each[1]))
        for name, group in groupby(found, key=itemgetter(0)):
            quantity, rows = self.space.quantities[name], list(group)
            keys = np.array([key for _, key, _ in rows], np.int64)
            relied = presence_cells(self.layout, self.objects, quantity.params, keys)
            for (_, key, interval), cells in zip(rows, relied, strict=True):
                if all(vector[cell] == PRESENT for cell in cells):
                    yield quantity, tuple(names[k] for k in key), interval

    def quantity(self, vector: array[int], name: str, *objects: object) -> tuple[int, int]:
        """Least and greatest value of a quantity in a candidate with this vector."""
        return (self.native or self.propagation).quantity(vector, name, self._key(objects))

    def quantity_node(self, name: str, *objects: object) -> int:
        """Of a quantity in what `highs` gives. For fast readers."""
        return (self.native or self.propagation).node(name, self._key(objects))

    def highs(self, vector: array[int]) -> Sequence[int]:
        """The greatest values of all quantities in a vector, until something is propagated."""
        return self.propagation.evaluated(vector).high if self.native is None else self.native.highs(vector)

    def universe(self, choice: str, *objects: object) -> tuple[str, ...] | tuple[int, ...]:
        definition = self.space.choices[choice]
        if isinstance(definition, EnumChoice):
            return definition.values
        return self.layout.universes[self.offset(choice, *objects)]

    def is_present(self, vector: Sequence[int], variable: Variable) -> bool:
        """Whether the variable's objects are present for certain in a candidate with this vector."""
        cells = self.presence.get(variable.offset)
        return cells is None or all(vector[cell] == PRESENT for cell in cells)

    def is_absent(self, vector: Sequence[int], variable: Variable) -> bool:
        """Whether one of the variable's objects is absent for certain."""
        return any(vector[cell] == ABSENT for cell in self.presence.get(variable.offset, ()))

    def absent(self, vector: Sequence[int], variables: Iterable[Variable]) -> list[Variable]:
        """Those whose objects are not present for certain."""
        return [v for v in variables if not self.is_present(vector, v)]

    def restrict(self, candidate: Candidate, variable: Variable, mask: int) -> Candidate | None:
        """A candidate in which the variable keeps only `mask`'s values, propagated; None: contradiction."""
        propagation = self.native or self.propagation
        return self._candidate(propagation.restrict(candidate.vector, variable.offset, mask))

    def restrict_all(
        self, candidate: Candidate, restrictions: Sequence[tuple[Variable, int]]
    ) -> Candidate | None:
        """The same for several variables and their masks, in any order."""
        if self.native is not None:
            cells, masks = [v.offset for v, _ in restrictions], [mask for _, mask in restrictions]
            return self._candidate(self.native.restrict_all(candidate.vector, cells, masks))
        current: Candidate | None = candidate
        for variable, mask in restrictions:
            if current is not None:
                current = self.restrict(current, variable, mask)
        return current

    def restrict_allowed(
        self, candidate: Candidate, restrictions: Sequence[tuple[Variable, int]]
    ) -> Candidate:
        """As if each variable of objects that are present were restricted by itself, in this order, but for
        what is refused then.
        """
        if self.presence:
            restrictions = [each for each in restrictions if candidate.is_present(each[0])]
        if self.native is not None:
            cells = np.array([v.offset for v, _ in restrictions], np.intp)
            masks = mask_words([mask for _, mask in restrictions])
            return Candidate(self, self.native.restrict_allowed(candidate.vector, cells, masks))
        for variable, mask in restrictions:
            if candidate.is_open(variable):
                candidate = self.restrict(candidate, variable, mask) or candidate
        return candidate

    def like(self, candidate: Candidate, known: Candidate, variables: Sequence[Variable]) -> Candidate:
        """As `known` in these variables, one after the other, but for what the constraints then refuse.

        Decisions on objects that are not yet present wait for those that make them so.
        """
        if self.native is not None:
            numbers = np.fromiter((v.index for v in variables), np.intp, len(variables))
            return Candidate(self, self._like(self.native, candidate.vector, known.vector, numbers))
        waiting = list(variables)
        while True:
            before, kept = candidate, zip(waiting, known.masks_of(waiting), strict=True)
            waiting = self.absent(candidate.vector, waiting)
            candidate = self.restrict_allowed(candidate, [*kept])
            if not waiting or candidate.vector == before.vector:
                return candidate

    def _like(
        self, native: NativePropagation, vector: array[int], known: array[int], waiting: Numbers
    ) -> array[int]:
        """The same of thousands of variables, by their numbers."""
        table = self.domain_table
        while True:
            before, is_present = vector, table.present(vector, waiting)
            present, waiting = waiting[is_present], waiting[~is_present]
            cells, masks = table.domains[present, 0], table.masks(known, present)
            vector = native.restrict_allowed(vector, cells, masks)
            if not waiting.size or vector == before:
                return vector

    @cached_property
    def domain_table(self) -> DomainTable:
        domains = ((variable.offset, len(variable.universe)) for variable in self.variables)
        return DomainTable.of(domains, self.presence, len(self.layout.initial))

    def decide(self, candidate: Candidate, decision: Decision) -> Candidate | None:
        """The same by names; raises `KeyError` for a choice, object or value that does not exist here."""
        variable = self._by_names.get((decision.choice, decision.objects))
        values: tuple[str | int, ...] = decision.values
        if variable is None:
            variable = self._by_names[decision.choice, decision.objects[::-1]]
            choice = self.space.choices[decision.choice]
            if not isinstance(choice, EnumChoice) or choice.symmetry is Symmetry.NONE:
                raise KeyError(decision.objects)
            inverted = dict(zip(choice.values, (choice.values[i] for i in choice.inverse), strict=True))
            values = tuple(inverted[str(value)] for value in values)
        places = {value: bit for bit, value in enumerate(variable.universe)}
        return self.restrict(candidate, variable, sum(1 << places[value] for value in dict.fromkeys(values)))

    def _candidate(self, vector: array[int] | None) -> Candidate | None:
        return None if vector is None else Candidate(self, vector)

    def _key(self, objects: Sequence[object]) -> Key:
        ids = self.objects.ids
        return tuple(ids[id(item)] for item in objects)


@collection_paused()
def instantiate(
    compiled: CompiledSpace, kernel: object, device: object, engine: Engine = Engine.PYTHON
) -> Instance:
    """Evaluates sets and universes, verifies every claim, lays out the vector and propagates the root.

    Raises `DiagnosticError` for what is wrong with the kernel as this space sees it.
    """
    objects = collect(compiled.complete, kernel, device)
    verify(objects, reverse=True)
    expansion = expand(objects)
    verify_maps(compiled.space, objects)
    if expansion.firings:
        verify(objects, reverse=False)
        refuse_cycles(compiled.complete, objects, expansion)
    instance = Instance(compiled, objects, expansion, engine)
    instance.root()
    return instance


def _variables(space: Space, objects: Objects, layout: Layout) -> tuple[Variable, ...]:
    found: list[Variable] = []
    for choice in decided(space):
        if space.is_derived(choice.name):
            continue
        entries = layout.first_orientations(choice.name)
        cells, columns = entries.values.tolist(), entries.keys.T.tolist()
        items: Iterable[tuple[object, ...]] = (
            zip(*(map(objects.objects.__getitem__, ids) for ids in columns), strict=True) if columns else [()]
        )
        universes = (
            repeat(choice.values)
            if isinstance(choice, EnumChoice)
            else map(layout.universes.__getitem__, cells)
        )
        found += map(Variable, count(len(found)), repeat(choice.name), items, cells, universes)
    return tuple(found)


def _presence(space: Space, objects: Objects, layout: Layout) -> dict[int, tuple[int, ...]]:
    """By cell: the words that say whether a decision's objects are present; none where they always are."""
    found: dict[int, tuple[int, ...]] = {}
    if not space.triggers and not space.quotients:
        return found
    for choice in decided(space):
        entries = layout.first_orientations(choice.name)
        relied = presence_cells(layout, objects, choice.params, entries.keys)
        found.update(zip(compress(entries.values.tolist(), relied), filter(None, relied), strict=True))
    return found

"""An instance as the native engine reads it: all tables in memory, and the library that works on them.

In: a compiled space, its objects, layout and static values. Out: `NativeInstance`. Raises
`NativeLimitError` for an instance that does not fit, `UnprintableError` or `NoCompilerError` for a space
that cannot be compiled here.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.compiler import CompiledSpace
from spacedsl.compiler.c.interface import Interface
from spacedsl.compiler.c.kept import library_of
from spacedsl.compiler.c.wakes import Source
from spacedsl.compiler.ir import Check, Limit
from spacedsl.engine.arrays import Entries, entries_of
from spacedsl.engine.layout import INTEGER_WORDS, Layout, decided_cells
from spacedsl.engine.native.active import active_sites
from spacedsl.engine.native.bindings import NativeLimitError, Relations
from spacedsl.engine.native.bit_rows import BitRows, values_of
from spacedsl.engine.native.keys import keys_of
from spacedsl.engine.native.library import CELL_FIELDS, TALLY_FIELDS, InstanceTables, Library, load
from spacedsl.engine.native.quantities import ground
from spacedsl.engine.native.tables import WORD_BITS, Family, Pool, TableBuilder, words
from spacedsl.engine.native.tallies import tallied
from spacedsl.engine.objects import Key, Objects
from spacedsl.engine.presence import reason_cells
from spacedsl.engine.quantities.sites import askings
from spacedsl.engine.static import Statics
from spacedsl.engine.triggers import Expansion
from spacedsl.language.space import Space

MOST_OBJECTS = 1 << 20
Array = NDArray[Any]
Quantity = tuple[str, Key]
"""Its name, and the ids of objects."""


@dataclass(frozen=True, slots=True, eq=False)
class NativeInstance:
    library: Library
    tables: InstanceTables
    checks: tuple[Check, ...]
    words: int
    """Of a vector."""
    bytes: int
    """Of all tables."""
    has_limits: bool
    """Whether `ground` is to be called with the root that all but quantities has made."""
    ground: Callable[[array[int]], Mapping[Quantity, int]]
    """Gives the nodes of quantities on objects."""
    _kept: list[Array]
    """What the tables point to."""


def build_native(
    compiled: CompiledSpace, objects: Objects, expansion: Expansion, layout: Layout
) -> NativeInstance:
    count = len(objects.objects)
    if count > MOST_OBJECTS:
        raise NativeLimitError(f"{count} objects are more than {MOST_OBJECTS}")
    object_words, mask_words = _words_for(count), INTEGER_WORDS if layout.wide else 1

    def constants(interface: Interface) -> dict[str, int]:
        row_words = _words_for(int(_row_objects(interface, layout, count).sum()))
        return {"OBJECT_WORDS": object_words, "ROW_WORDS": row_words, "MASK_WORDS": mask_words}

    interface, path = library_of(compiled, constants)
    library, first = load(path), _row_objects(interface, layout, count)
    numbers = np.empty(count, np.int32)
    numbers[np.argsort(~first, kind="stable")] = np.arange(count, dtype=np.int32)
    families: dict[Family, Entries] = {(name, None): layout.entries[name] for name in interface.rows}
    for lacking in interface.lacking:
        # No row has room for other objects, and no loop with a filter comes to them.
        doubtful = layout.doubtful.get(lacking, {})
        arity = 1 + (0 if lacking[1] else len(compiled.complete.sets[lacking[0]].params))
        families[lacking] = entries_of({k: cell for k, cell in doubtful.items() if first[k[-1]]}, arity)
    values = {family: values_of(compiled.complete, family) for family in families}
    rows = BitRows(families, numbers, constants(interface)["ROW_WORDS"], values)
    filler = _Filler(
        compiled.complete, interface, objects, expansion, layout, object_words, mask_words, numbers, rows
    )
    return filler.fill(compiled, library)


def _words_for(count: int) -> int:
    """Words for a set of so many objects: a power of two, so that few libraries serve all instances."""
    return 1 << max(0, -(-count // WORD_BITS) - 1).bit_length()


def _row_objects(interface: Interface, layout: Layout, count: int) -> NDArray[np.bool_]:
    """By object: whether it is one of a choice that is kept as bit rows."""
    found = np.zeros(count, np.bool_)
    for name in interface.rows:
        found[layout.entries[name].keys] = True
    return found


@dataclass(slots=True, eq=False)
class _Filler:
    space: Space
    interface: Interface
    objects: Objects
    expansion: Expansion
    layout: Layout
    object_words: int
    mask_words: int
    numbers: NDArray[np.int32]
    rows: BitRows

    def fill(self, compiled: CompiledSpace, library: Library) -> NativeInstance:
        statics = Statics(self.objects, self.layout)
        relations = Relations(statics)
        tallies = tallied(compiled.module.propagators, relations)
        asked = [
            (number, asking)
            for number, propagator in enumerate(compiled.module.propagators)
            for asking in askings(propagator, statics)
        ]
        keys_of_limits: dict[Limit, list[Key]] = {}
        for _, asking in asked:
            keys_of_limits.setdefault(asking.template, []).extend(key for key, _ in asking.sites)
        builder = TableBuilder(
            self.objects,
            self.layout,
            statics,
            relations,
            keys_of(self.interface.questions, relations),
            self.numbers,
            self.object_words,
            self.mask_words,
            self.rows.offsets,
            keys_of_limits,
            tallies.places,
        )
        tables = builder.build(self.interface.tables)
        cells, cell_pools = self._cells(relations, builder)
        cells[tallies.cells, CELL_FIELDS.index("tally")] = np.arange(1, len(tallies.cells) + 1)
        pointers = np.array([table.ctypes.data for table in tables] or [0], np.uint64)
        initial = np.array(self._initial(), np.uint64)
        pools = {
            "initial": initial,
            "initial_rows": self.rows.initial(),
            "cells": cells,
            "lists": np.array(builder.lists.items, np.int32),
            "sets": np.array(builder.sets.items, np.uint64),
            "masks": np.array(builder.masks.items, np.uint64),
            "tables": pointers,
            "tallies": np.array(tallies.rows, np.int32).reshape(-1, len(TALLY_FIELDS)),
            "tallied": np.array(tallies.cells, np.int32),
            **cell_pools,
        }
        addresses = {name: pool.ctypes.data for name, pool in pools.items()}
        structure = InstanceTables(
            words=len(initial),
            row_words=self.rows.words,
            tally_count=len(tallies.cells),
            contribution_count=tallies.count,
            **addresses,
        )
        kept = [*tables, *pools.values()]
        size = sum(array.nbytes for array in kept)

        def ground_graph(root: array[int]) -> Mapping[Quantity, int]:
            graph = ground(asked, statics, root, self.numbers)
            for template, nodes in graph.nodes.items():
                builder.limit_tables[template](nodes)
            cells[list(graph.leaves), CELL_FIELDS.index("leaves")] = list(graph.leaves.values())
            for name, pool in graph.arrays.items():
                setattr(structure, name, pool.ctypes.data)
            kept.extend(graph.arrays.values())
            structure.node_count, structure.call_count = len(graph.arrays["nodes"]), graph.calls
            return graph.instances

        cells[decided_cells(self.space, self.layout), CELL_FIELDS.index("is_decision")] = 1
        has_limits = bool(self.space.quantities)
        return NativeInstance(
            library, structure, self.interface.checks, len(initial), size, has_limits, ground_graph, kept
        )

    def _initial(self) -> list[int]:
        vector = list(self.layout.initial)
        for cell in self.layout.wide:
            vector[cell : cell + self.mask_words] = words(vector[cell], self.mask_words)
        return vector

    def _cells(self, relations: Relations, builder: TableBuilder) -> tuple[Array, dict[str, Array]]:
        """What is known of each cell, and the pools that this points into."""
        layout = self.layout
        cells = np.zeros((len(layout.initial), len(CELL_FIELDS)), np.int32)
        column = {name: cells[:, place] for place, name in enumerate(CELL_FIELDS)}
        for name in ("twin", "row", "universe"):
            column[name][:] = -1
        for pairs in layout.twin_cells():
            column["twin"][pairs[:, 0]] = pairs[:, 1]
        self.rows.place(column["row"], column["bit"])
        keys: list[Array] = [np.zeros(1, np.int32)]
        active: list[Array] = [np.zeros(1, np.uint64)]
        key_at = active_at = 1
        for source in self.interface.sources:
            offsets, bound = self._cells_of(source)
            if not len(offsets):
                continue
            column["source"][offsets] = source.number
            rows = np.arange(len(offsets), dtype=np.int32)
            column["key"][offsets] = key_at + rows * bound.shape[1]
            column["active"][offsets] = active_at + rows * source.words
            keys.append(builder.numbers[bound].reshape(-1))
            active.append(active_sites(source, bound, relations).reshape(-1))
            key_at += bound.size
            active_at += len(offsets) * source.words
        universes = Pool([0])
        for cell, universe in layout.universes.items():
            column["universe"][cell] = universes.add((len(universe), *universe))
        pools = {
            "keys": np.concatenate(keys).astype(np.int32),
            "active": np.concatenate(active),
            "universes": np.array(universes.items, np.int64),
            "reasons": self._reasons(column["updates"]),
        }
        return cells, pools

    def _cells_of(self, source: Source) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cells of a source, and the objects that they bind, by row."""
        if not source.is_set:
            entries = self.layout.entries[source.name]
            return entries.values, entries.keys
        doubtful = self.layout.doubtful.get((source.name, source.is_union), {})
        found = [(cell, key[-1]) for key, cell in doubtful.items()]
        pairs = np.array(found, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1:]

    def _reasons(self, updates: Array) -> Array:
        """The memberships, then for each cell those that it is a reason for; see `update_presence`."""
        items: list[int] = [0]
        readers: dict[int, list[int]] = {}
        for cell, reasons in reason_cells(self.layout, self.expansion):
            at = len(items)
            items += [cell, len(reasons), *(word for reason in reasons for word in (len(reason), *reason))]
            for reads in dict.fromkeys(c for reason in reasons for c in reason):
                readers.setdefault(reads, []).append(at)
        for cell, found in readers.items():
            updates[cell] = len(items)
            items += [len(found), *found]
        return np.array(items, np.int32)

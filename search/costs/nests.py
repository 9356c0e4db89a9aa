"""The loops of complete candidates of linear algebra, what lies in them, and what memory they come to.

In: an instance, then complete candidates. Out: of each, its loops as they were decided, what lies in which of
them and how often it is done, the registers that it keeps values in, and its accesses by strides. Nothing is
lowered, and no time is known here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.linalg import backbone
from spacedsl.kernels.linalg.backbone import Dimension, Index, Instruction, Kernel, LogicalDim, Value
from spacedsl.kernels.linalg.operations import Op
from spacedsl.language.space import EnumChoice
from spacedsl.search.bounds.domains import Place
from spacedsl.search.costs.touched import Access, Loop, counted

_READ = ("storage", "copying", "caching", "accumulation", "remainder", "prefetch", "prefetch_distance")
"""Choices, beside those of loops."""


class Reader:
    """Of candidates of one instance: `reader(candidate)`. `threads`: that a parallel loop is shared among."""

    def __init__(self, instance: Instance, threads: int) -> None:
        kernel = instance.kernel
        assert isinstance(kernel, Kernel)
        self.kernel, self.threads = kernel, threads
        order = instance.space.choices["order"]
        assert isinstance(order, EnumChoice)
        self.inner, self.merged = (
            order.mask(name) if name in order.values else 0 for name in ("INNER", "MERGED")
        )
        cells, ids = instance.layout.cells["order"], instance.objects.ids
        # A space need not store anything.
        statements = (*kernel.instructions, *(load for load in kernel.reloads if id(load) in ids))
        dims = [dim for statement in statements for dim in statement.dims]
        self.cells = {
            statement: {dim: cells[ids[id(statement)], ids[id(dim)]] for dim in dims if dim is not statement}
            for statement in (*statements, *dims)
        }
        """Where `order` of two statements lies in a vector."""
        self.places = {dim: Place.of(instance, dim) for dim in dims}
        self.kinds = {dim: [str(kind) for kind in instance.universe("dim_kind", dim)] for dim in dims}
        self._decided = {
            name: {v.objects for v in instance.variables_of(name)}
            for name in _READ
            if name in instance.space.choices
        }

    def __call__(self, candidate: Candidate) -> Nests:
        return Nests(self, candidate)

    def decided(self, candidate: Candidate, choice: str, about: Instruction | Dimension) -> str | None:
        """None where the space leaves nothing to decide."""
        if (about,) not in self._decided.get(choice, ()):
            return None
        return str(candidate.value(choice, about))


class Nests:
    """Those of one candidate. What is fused is one loop, known by the first of its dimensions."""

    def __init__(self, reader: Reader, candidate: Candidate) -> None:
        self.reader, self.candidate = reader, candidate
        self.stored = [
            maker for maker in reader.kernel.storable if self.decided("storage", maker) == "TEMPORARY"
        ]
        self.present = [*reader.kernel.instructions, *(load for m in self.stored for load in m.reloads)]
        dims = [d for instruction in self.present for d in instruction.dims]
        self.vector = vector = candidate.vector
        places = {d: reader.places[d] for d in dims}
        self.sizes = {d: place.size.left(vector)[0] for d, place in places.items()}
        self.kinds = {
            d: reader.kinds[d][vector[place.kind_offset].bit_length() - 1] for d, place in places.items()
        }
        self.heads = self._merge(dims)
        self.loops = self._loops()
        self.around = {instruction: self._around(instruction, dims) for instruction in self.present}
        self.inside = {instruction: counted(around) for instruction, around in self.around.items()}
        """The loops around the straight code that each instruction is part of."""
        self.is_parallel = any(loop.kind == "PARALLEL" for loop in self.loops.values())

    def decided(self, choice: str, about: Instruction | Dimension) -> str | None:
        return self.reader.decided(self.candidate, choice, about)

    def count(self, instruction: Instruction) -> float:
        """How often one thread executes it."""
        around = self.around[instruction]
        by_index: defaultdict[Index, list[Loop]] = defaultdict(list)
        for loop in around:
            by_index[loop.head.group.index].append(loop)
        return math.prod(loop.trips for loop in around) * math.prod(map(self._share, by_index.values()))

    def lanes(self, instruction: Instruction) -> int:
        return max((self.sizes[d] for d in instruction.dims if self.kinds[d] == "VECTOR"), default=1)

    def is_padded(self, index: LogicalDim) -> bool:
        return self.decided("remainder", index.dims[0]) == "PADDED"

    def is_tested(self, instruction: Instruction) -> bool:
        """Whether it ends with an index whose tiles do not."""
        return instruction.access is not None and any(map(self.is_padded, instruction.logical_dims))

    def _share(self, loops: Sequence[Loop]) -> float:
        """Of the iterations of levels of an index that are around something, those that there are: the last
        tile may end early, but for padded ones.
        """
        logical, around = loops[0].head.logical, {loop.head.group for loop in loops}
        _, *others = logical.dims
        extent = logical.extent
        if self.is_padded(logical):
            tile = math.prod(self.sizes[dim] for dim in others)
            extent = tile * math.ceil(extent / tile)
        inside = math.prod(self.sizes[dim] for dim in logical.dims if dim.group not in around)
        return min(1.0, math.ceil(extent / inside) / math.prod(loop.size for loop in loops))

    def _merge(self, dims: Sequence[Dimension]) -> dict[Dimension, Dimension]:
        """The first of the dimensions that each one is fused with: only the same level of an index is."""
        heads: dict[Dimension, Dimension] = {}
        by_level: defaultdict[object, list[Dimension]] = defaultdict(list)
        for dim in dims:
            known = by_level[dim.group]
            merged = (h for h in known if self.vector[self.reader.cells[h][dim]] == self.reader.merged)
            heads[dim] = next(merged, dim)
            if heads[dim] is dim:
                known.append(dim)
        return heads

    def _loops(self) -> dict[Dimension, Loop]:
        """By their heads."""
        threads = self.reader.threads
        loops = {}
        for head in dict.fromkeys(self.heads.values()):
            size, kind = self.sizes[head], self.kinds[head]
            trips = math.ceil(size / threads) if kind == "PARALLEL" else 1 if kind == "VECTOR" else size
            loops[head] = Loop(head, kind, size, float(trips))
        return loops

    def _around(self, instruction: Instruction, dims: Sequence[Dimension]) -> tuple[Loop, ...]:
        """The outermost one first."""
        vector, inner, cells = self.vector, self.reader.inner, self.reader.cells[instruction]
        found = {self.heads[d]: None for d in dims if vector[cells[d]] == inner}
        return tuple(self.loops[head] for head in self._outermost_first([*found]))

    def _outermost_first(self, nested: Sequence[Dimension]) -> list[Dimension]:
        """Dimensions that are nested in each other."""
        vector, inner, cells = self.vector, self.reader.inner, self.reader.cells
        around = {a: sum(vector[cells[a][b]] == inner for b in nested if b is not a) for a in nested}
        return sorted(nested, key=lambda dim: around[dim])

    # ---- Registers -------------------------------------------------------------------------------------

    def accumulators(self, instruction: Instruction) -> int:
        """Registers that sums are kept in."""
        is_split = self.decided("accumulation", instruction) == "SPLIT"
        apart = instruction.dims if is_split else instruction.free_dims
        return math.prod(self.sizes[d] for d in apart if self.kinds[d] == "UNROLL")

    def sources(
        self, user: Instruction
    ) -> Iterator[tuple[Instruction, Sequence[tuple[Dimension, Dimension]]]]:
        """What makes or loads what an instruction reads: pairs of its dimensions and the user's."""
        for value in user.operands:
            if not isinstance(value, Value):
                continue
            if value.instruction not in self.stored:
                yield value.instruction, value.mapping
            for load in value.instruction.reloads if value.instruction in self.stored else ():
                pairs = [(dim, used) for dim in load.dims for used in dim.mapped_to if used in user.dims]
                if user in load.consumers:
                    yield load, pairs

    def live(
        self, source: Instruction, pairs: Sequence[tuple[Dimension, Dimension]], user: Instruction
    ) -> int:
        """Values of a source that are kept at once for copies of a user.

        Those that copies further out read again are; what is made outside of the loops is kept for all of
        them. Copies of a source that all come before those of the user are kept as well, but for single
        elements: a compiler loads them where they are read.
        """
        made = {self.heads[used]: self.heads[dim] for dim, used in pairs}
        copies = [loop for loop in self.around[user] if loop.kind == "UNROLL" and loop.size > 1]
        own = [loop for loop in copies if loop.head in made]
        if self.inside[source] != self.inside[user]:
            return math.prod(loop.size for loop in own)
        first = next((place for place, loop in enumerate(copies) if loop not in own), len(copies))
        again = math.prod(loop.size for loop in copies[first:] if loop in own)
        if source.op is Op.LOAD and self.lanes(source) == 1:
            return again
        return max(again, math.prod(loop.size for loop in own if made[loop.head] is not loop.head))

    # ---- Memory ----------------------------------------------------------------------------------------

    def accesses(self) -> Iterator[Access]:
        for instruction in self.present:
            if instruction.access is not None:
                yield self.to_tensor(instruction, instruction.access)
        for maker in self.stored:
            for load in maker.reloads:
                item, array = load.dtype.nbytes, f"what {maker.name} makes"
                loaded, made = self._laid_out(load, item)
                yield self._access(load, array, item, loaded)
                yield self._access(maker, array, item, made, is_store=True)

    def to_tensor(self, instruction: Instruction, access: backbone.Access) -> Access:
        item = access.tensor.dtype.nbytes
        strides: dict[Dimension, int] = {}
        for logical, stride in access.strides:
            below = item
            for dim in reversed(logical.dims):
                strides[self.heads[dim]] = abs(stride) * below
                below *= self.sizes[dim]
        is_store = instruction.op is Op.STORE
        is_streamed = is_store and self.decided("caching", instruction) == "STREAMED"
        return self._access(
            instruction, access.tensor.name, item, strides, is_store=is_store, is_streamed=is_streamed
        )

    def _access(
        self,
        instruction: Instruction,
        array: str,
        item: int,
        strides: Mapping[Dimension, int],
        *,
        is_store: bool = False,
        is_streamed: bool = False,
    ) -> Access:
        loops = self.around[instruction]
        vector = [d for d in instruction.dims if self.kinds[d] == "VECTOR" and strides.get(self.heads[d])]
        lanes = math.prod(self.sizes[d] for d in vector)
        along = tuple(strides.get(loop.head, 0) for loop in loops)
        return Access(array, loops, along, lanes * item, is_store, is_streamed)

    def _laid_out(self, load: Instruction, item: int) -> tuple[dict[Dimension, int], dict[Dimension, int]]:
        """Strides of a temporary in the loops that load it again, and in those that make it: its elements lie
        in the order of the former. What surrounds both takes no room.
        """
        loaded: dict[Dimension, int] = {}
        made: dict[Dimension, int] = {}
        for dim in reversed(self._outermost_first(load.dims)):
            maker = dim.maker_dim
            assert maker is not None
            if self.heads[dim] is not self.heads[maker]:
                loaded[self.heads[dim]] = made[self.heads[maker]] = item
                item *= self.sizes[dim]
        return loaded, made

"""What implementations of linear algebra do on a CPU: instructions, and lines that caches are asked for.

In: an instance, a measured device, then complete candidates. Out: nanoseconds for each resource, always in
the same order. Unlike a bound, which has what no compiler can save, this takes the loops as they were
decided, and excludes nothing: it says which of several implementations are worth a measurement. Resources
are used one after the other here, none beside another.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.linalg import backbone
from spacedsl.kernels.linalg.backbone import Dimension, Index, Instruction, Kernel, LogicalDim, Value
from spacedsl.kernels.linalg.operations import Op
from spacedsl.language.space import EnumChoice
from spacedsl.search.bounds.arithmetic import occupied
from spacedsl.search.bounds.domains import Place
from spacedsl.search.bounds.rates import Rates, Use
from spacedsl.search.costs.touched import Access, Loop, Touched, contracted

LINE_BYTES, PAGE_BYTES = 64, 4096

USABLE = 0.75
"""Of a cache: others lie in it, too, and not all of its sets are as full."""

TRANSLATIONS = ((64, 2.0), (1536, 8.0))
"""Pages whose places a core knows, by level, and nanoseconds that each other one takes, about."""

ITERATION_NS = 0.7
"""Of an innermost loop: what counts and jumps."""

TESTED_NS = 0.5
"""Of an access to a tensor that ends inside a padded tile: a test, and a value in its place."""

COMBINED, PART_NS = 7, 13.0
"""Lines that a core puts together at once before they get around the caches, and what the store of a part of
one takes beyond that: of a processor that has room for eight.
"""

SPILLED_NS, FORWARDED_NS = 0.5, 2.5
"""Of a value that is kept in memory because there are no more registers: its store and its load, and how
long a sum waits for what has just been stored.
"""

RETURNED_NS = 100.0
"""What a load waits for a line that was stored around the caches in the same loop: it has to get to memory
and back, and nothing fetches it before. Measured were 25 where a row had been stored meanwhile, and 1300 of
what had just been stored.
"""


class LinalgNeeds:
    """Of implementations of one instance: `needs(candidate)`."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        kernel = instance.kernel
        assert isinstance(kernel, Kernel)
        self.kernel, self.device, self.rates = kernel, device, Rates.of(device)
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
        self.occupied = {instruction: occupied(instruction) for instruction in kernel.instructions}
        self.own = {scratch.tensor.name for scratch in kernel.scratch if not scratch.is_zeroed}
        self.places = {dim: Place.of(instance, dim) for dim in dims}
        self.kinds = {dim: [str(kind) for kind in instance.universe("dim_kind", dim)] for dim in dims}
        self._decided = {
            name: {v.objects for v in instance.variables_of(name)}
            for name in ("storage", "caching", "accumulation", "remainder", "prefetch", "prefetch_distance")
            if name in instance.space.choices
        }
        self.levels = _levels(device.memory)

    def __call__(self, candidate: Candidate) -> list[float]:
        """Instructions of each kind, then what caches lack, from the inner to the outer ones."""
        return _Implementation(self, candidate).needs_ns()

    def decided(self, candidate: Candidate, choice: str, about: Instruction | Dimension) -> str | None:
        """None where the space leaves nothing to decide."""
        if (about,) not in self._decided.get(choice, ()):
            return None
        return str(candidate.value(choice, about))


def _levels(memory: Sequence[MemoryLevel]) -> tuple[tuple[MemoryLevel, MemoryLevel], ...]:
    """Caches, each with the level that feeds it."""
    return tuple((a, b) for a, b in pairwise(memory) if a.capacity_bytes is not None)


class _Implementation:
    def __init__(self, model: LinalgNeeds, candidate: Candidate) -> None:
        self.model, self.candidate = model, candidate
        self.stored = [
            maker for maker in model.kernel.storable if self._decided("storage", maker) == "TEMPORARY"
        ]
        self.present = [*model.kernel.instructions, *(load for m in self.stored for load in m.reloads)]
        dims = [d for instruction in self.present for d in instruction.dims]
        self.vector = vector = candidate.vector
        places = {d: model.places[d] for d in dims}
        self.sizes = {d: place.size.left(vector)[0] for d, place in places.items()}
        self.kinds = {
            d: model.kinds[d][vector[place.kind_offset].bit_length() - 1] for d, place in places.items()
        }
        self.heads = self._merge(dims)
        self.loops = self._loops()
        self.around = {instruction: self._around(instruction, dims) for instruction in self.present}
        self.is_parallel = any(loop.kind == "PARALLEL" for loop in self.loops.values())

    def _decided(self, choice: str, about: Instruction | Dimension) -> str | None:
        return self.model.decided(self.candidate, choice, about)

    def _merge(self, dims: Sequence[Dimension]) -> dict[Dimension, Dimension]:
        """The first of the dimensions that each one is fused with: only the same level of an index is."""
        heads: dict[Dimension, Dimension] = {}
        by_level: defaultdict[object, list[Dimension]] = defaultdict(list)
        for dim in dims:
            known = by_level[dim.group]
            merged = (h for h in known if self.vector[self.model.cells[h][dim]] == self.model.merged)
            heads[dim] = next(merged, dim)
            if heads[dim] is dim:
                known.append(dim)
        return heads

    def _loops(self) -> dict[Dimension, Loop]:
        """By their heads."""
        threads = self.model.device.threads
        loops = {}
        for head in dict.fromkeys(self.heads.values()):
            size, kind = self.sizes[head], self.kinds[head]
            trips = math.ceil(size / threads) if kind == "PARALLEL" else 1 if kind == "VECTOR" else size
            loops[head] = Loop(head, kind, size, float(trips))
        return loops

    def _around(self, instruction: Instruction, dims: Sequence[Dimension]) -> tuple[Loop, ...]:
        """The outermost one first."""
        vector, inner, cells = self.vector, self.model.inner, self.model.cells[instruction]
        found = {self.heads[d]: None for d in dims if vector[cells[d]] == inner}
        return tuple(self.loops[head] for head in self._outermost_first([*found]))

    def _outermost_first(self, nested: Sequence[Dimension]) -> list[Dimension]:
        """Dimensions that are nested in each other."""
        vector, inner, cells = self.vector, self.model.inner, self.model.cells
        around = {a: sum(vector[cells[a][b]] == inner for b in nested if b is not a) for a in nested}
        return sorted(nested, key=lambda dim: around[dim])

    # ---- Instructions ----------------------------------------------------------------------------------

    def needs_ns(self) -> list[float]:
        loads, stores, waits, tests = 0.0, 0.0, 0.0, 0.0
        computed: dict[Instruction, float] = {}
        for instruction in self.present:
            count = self._count(instruction)
            tests += TESTED_NS * count if self._is_tested(instruction) else 0.0
            if instruction.op is Op.LOAD:
                loads += self._moved_ns(instruction, count, "load") + self._asked_ns(instruction, count)
            elif instruction.op is Op.STORE:
                stores += self._moved_ns(instruction, count, "store")
            else:
                computed[instruction] = self._computed_ns(instruction, count)
                waits += self._waited_ns(instruction, count)
            if instruction in self.stored:
                stores += self._moved_ns(instruction, count, "store")
        accesses = list(self._accesses())
        waits += sum(self._spilled_ns()) + sum(_returned_ns(accesses)) + sum(map(_flushed_ns, accesses))
        missed = self._missed_ns(accesses, self._meanwhile_ns(computed))
        return [loads, stores, sum(computed.values()), waits, self._counted_ns() + tests, *missed]

    def _count(self, instruction: Instruction) -> float:
        """How often one thread executes it."""
        around = self.around[instruction]
        by_index: defaultdict[Index, list[Loop]] = defaultdict(list)
        for loop in around:
            by_index[loop.head.group.index].append(loop)
        return math.prod(loop.trips for loop in around) * math.prod(map(self._share, by_index.values()))

    def _share(self, loops: Sequence[Loop]) -> float:
        """Of the iterations of levels of an index that are around something, those that there are: the last
        tile may end early, but for padded ones.
        """
        logical, around = loops[0].head.logical, {loop.head.group for loop in loops}
        _, *others = logical.dims
        extent = logical.extent
        if self._is_padded(logical):
            tile = math.prod(self.sizes[dim] for dim in others)
            extent = tile * math.ceil(extent / tile)
        inside = math.prod(self.sizes[dim] for dim in logical.dims if dim.group not in around)
        return min(1.0, math.ceil(extent / inside) / math.prod(loop.size for loop in loops))

    def _is_padded(self, index: LogicalDim) -> bool:
        return self._decided("remainder", index.dims[0]) == "PADDED"

    def _is_tested(self, instruction: Instruction) -> bool:
        """Whether it ends with an index whose tiles do not."""
        return instruction.access is not None and any(map(self._is_padded, instruction.logical_dims))

    def _lanes(self, instruction: Instruction) -> int:
        return max((self.sizes[d] for d in instruction.dims if self.kinds[d] == "VECTOR"), default=1)

    def _moved_ns(self, instruction: Instruction, count: float, use: Use) -> float:
        lanes = self._lanes(instruction)
        return count * lanes / self.model.rates.used_elements(instruction, use, lanes)

    def _asked_ns(self, load: Instruction, count: float) -> float:
        """Of what asks for lines before they are loaded."""
        if self._decided("prefetch", load) in (None, "NONE"):
            return 0.0
        lines = count * self._lanes(load) * load.dtype.nbytes / LINE_BYTES
        return lines / self.model.rates.used_elements(load, "load", 1)

    def _asked_in_vain(self) -> float:
        """Lines beyond the end of the loop that asks for what it loads some iterations later: others come
        next.
        """
        found = 0.0
        for load in self.present:
            if load.access is None or self._decided("prefetch", load) != "AHEAD":
                continue
            access = self._to_tensor(load, load.access)
            inside = zip(reversed(access.loops), reversed(access.strides), strict=True)
            moving = ((loop, s) for loop, s in inside if s and loop.is_counted and loop.size > 1)
            loop, stride = next(moving)
            distance = int(self._decided("prefetch_distance", load) or 0)
            ahead = math.ceil(distance / max(access.nbytes, min(stride, LINE_BYTES)))
            found += min(1.0, ahead / loop.trips) * self._count(load) * access.nbytes / LINE_BYTES
        return found

    def _meanwhile_ns(self, computed: Mapping[Instruction, float]) -> dict[str, float]:
        """What is computed in the loops that ask for all that the next iteration outside of them loads: by
        array.
        """
        meanwhile: defaultdict[str, float] = defaultdict(float)
        for load in self.present:
            if load.access is not None and self._decided("prefetch", load) == "NEXT":
                inside = _counted(self.around[load])
                meanwhile[load.access.tensor.name] += sum(
                    time_ns for each, time_ns in computed.items() if _counted(self.around[each]) == inside
                )
        return meanwhile

    def _computed_ns(self, instruction: Instruction, count: float) -> float:
        lanes = self._lanes(instruction)
        rates = self.model.rates
        return max(
            (
                count * times * lanes / rates.used_elements(instruction, unit, lanes)
                for unit, times in self.model.occupied[instruction].items()
            ),
            default=0.0,
        )

    def _waited_ns(self, instruction: Instruction, count: float) -> float:
        """Of accumulations for those before them in the same register."""
        if not instruction.reduced_dims:
            return 0.0
        latency_ns = self.model.rates.latency_ns(instruction.dtype, is_fused=instruction.op is Op.FMA)
        return count / self._accumulators(instruction) * latency_ns

    def _accumulators(self, instruction: Instruction) -> int:
        """Registers that sums are kept in."""
        is_split = self._decided("accumulation", instruction) == "SPLIT"
        apart = instruction.dims if is_split else instruction.free_dims
        return math.prod(self.sizes[d] for d in apart if self.kinds[d] == "UNROLL")

    # ---- Registers -------------------------------------------------------------------------------------

    def inside(self, instruction: Instruction) -> tuple[Loop, ...]:
        """The loops around the straight code that it is part of."""
        return _counted(self.around[instruction])

    def _spilled_ns(self) -> Iterator[float]:
        """Of straight code that needs more registers than there are, for sums and what is read at once."""
        kept: defaultdict[tuple[Loop, ...], int] = defaultdict(int)
        read: defaultdict[tuple[Loop, ...], int] = defaultdict(int)
        for user in self.present:
            if user.op not in (Op.LOAD, Op.STORE):
                inside = self.inside(user)
                kept[inside] += self._accumulators(user) if user.reduced_dims else 0
                live = sum(self._live(source, pairs, user) for source, pairs in self._sources(user))
                read[inside] = max(read[inside], live)
        for inside, count in read.items():
            lacking = max(0, kept[inside] + count - self.model.device.vector_registers)
            each_ns = lacking * SPILLED_NS + (FORWARDED_NS if lacking and kept[inside] else 0.0)
            yield each_ns * math.prod(loop.trips for loop in inside)

    def _sources(
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

    def _live(
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
        if self.inside(source) != self.inside(user):
            return math.prod(loop.size for loop in own)
        first = next((place for place, loop in enumerate(copies) if loop not in own), len(copies))
        again = math.prod(loop.size for loop in copies[first:] if loop in own)
        if source.op is Op.LOAD and self._lanes(source) == 1:
            return again
        return max(again, math.prod(loop.size for loop in own if made[loop.head] is not loop.head))

    def _counted_ns(self) -> float:
        """Loops themselves: iterations of the innermost ones, and threads that begin."""
        counted = dict.fromkeys(loops for path in self.around.values() if (loops := _counted(path)))
        around = {path[:depth] for path in counted for depth in range(1, len(path))}
        innermost = [path for path in counted if path not in around]
        iterations = sum(math.prod(loop.trips for loop in path) for path in innermost)
        begun = dict.fromkeys(
            path[:depth] for path in counted for depth, loop in enumerate(path) if loop.kind == "PARALLEL"
        )
        starts = sum(math.prod(loop.trips for loop in path) for path in begun)
        return iterations * ITERATION_NS + starts * (self.model.device.start_ns or 0.0)

    # ---- Memory ----------------------------------------------------------------------------------------

    def _missed_ns(self, accesses: Sequence[Access], meanwhile_ns: Mapping[str, float]) -> Iterator[float]:
        """`meanwhile_ns`: of what an array lacks in the last cache, so much takes no time of its own."""
        device, accesses = self.model.device, self._contracted(accesses)
        streamed = sum(
            each.nbytes * math.prod(loop.trips for loop in each.loops)
            for each in accesses
            if each.is_streamed
        )
        through = [each for each in accesses if not each.is_streamed]
        threads = device.threads if self.is_parallel else 1
        touched = Touched(through, LINE_BYTES)
        for cache, source in self.model.levels:
            assert cache.capacity_bytes is not None
            own = min(cache.core_bytes or cache.capacity_bytes, cache.capacity_bytes / threads)
            rate = min(source.bytes_per_ns, source.bytes_per_ns_all / threads)
            lines = touched.fetched(USABLE * own / LINE_BYTES)
            missed_ns = {array: LINE_BYTES * count / rate for array, count in lines.items()}
            if source.capacity_bytes is None:
                missed_ns = {a: max(0.0, t - meanwhile_ns.get(a, 0.0)) for a, t in missed_ns.items()}
                missed_ns[""] = (streamed + LINE_BYTES * self._asked_in_vain()) / rate
            yield sum(missed_ns.values())
        touched = Touched(through, PAGE_BYTES)
        for pages, each_ns in TRANSLATIONS:
            yield each_ns * sum(touched.fetched(pages).values())

    def _contracted(self, accesses: Sequence[Access]) -> list[Access]:
        """Arrays of the program's own are as small as its loops allow. What is stored around the caches,
        though, is in memory when it is loaded, each time.
        """
        by_array: defaultdict[str, list[Access]] = defaultdict(list)
        for access in accesses:
            by_array[access.array].append(access)
        found: list[Access] = []
        for array, all_of_it in by_array.items():
            is_cached = not any(access.is_streamed for access in all_of_it)
            found += contracted(all_of_it) if is_cached and array in self.model.own else all_of_it
        return found

    def _accesses(self) -> Iterator[Access]:
        for instruction in self.present:
            if instruction.access is not None:
                yield self._to_tensor(instruction, instruction.access)
        for maker in self.stored:
            for load in maker.reloads:
                item, array = load.dtype.nbytes, f"what {maker.name} makes"
                loaded, made = self._laid_out(load, item)
                yield self._access(load, array, item, loaded)
                yield self._access(maker, array, item, made, is_store=True)

    def _to_tensor(self, instruction: Instruction, access: backbone.Access) -> Access:
        item = access.tensor.dtype.nbytes
        strides: dict[Dimension, int] = {}
        for logical, stride in access.strides:
            below = item
            for dim in reversed(logical.dims):
                strides[self.heads[dim]] = abs(stride) * below
                below *= self.sizes[dim]
        is_store = instruction.op is Op.STORE
        is_streamed = is_store and self._decided("caching", instruction) == "STREAMED"
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


def _counted(path: Sequence[Loop]) -> tuple[Loop, ...]:
    return tuple(loop for loop in path if loop.is_counted)


def _returned_ns(accesses: Sequence[Access]) -> Iterator[float]:
    """Of each load of what was stored around the caches in the same loop."""
    for store in accesses:
        for load in accesses if store.is_streamed else ():
            loops = {loop for loop in store.loops if loop.is_counted and loop in load.loops}
            if load.array == store.array and not load.is_store and loops:
                yield RETURNED_NS * math.prod(loop.trips for loop in load.loops) * load.nbytes / LINE_BYTES


def _flushed_ns(access: Access) -> float:
    """Of a store around the caches, of parts of too many lines at once."""
    if not access.is_streamed or access.is_whole(LINE_BYTES, COMBINED):
        return 0.0
    return PART_NS * math.prod(loop.trips for loop in access.loops)

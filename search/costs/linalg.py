"""What implementations of linear algebra do on a CPU: instructions, and lines that caches are asked for.

In: an instance, a measured device, then complete candidates. Out: nanoseconds for each resource, always in
the same order. Unlike a bound, which has what no compiler can save, this takes the loops as they were
decided, and excludes nothing: it says which of several implementations are worth a measurement. Resources
are used one after the other here, none beside another, but for lines of the second cache: a core loads and
computes with others while they come.
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
from spacedsl.kernels.linalg.backbone import Instruction
from spacedsl.kernels.linalg.operations import Op
from spacedsl.search.bounds.arithmetic import occupied
from spacedsl.search.bounds.rates import Rates, Use
from spacedsl.search.bounds.traffic import costs
from spacedsl.search.costs.nests import Nests, Reader
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

ALONE_NS = 8.0
"""What a load waits for a line of which the neighbours are not asked for, beyond what its bytes take: nothing
sees it coming. Measured were 10 for elements that lie two lines apart, in a third cache.
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
    """Of implementations of one instance: `needs(candidate)`. `is_cold`: caches hold nothing of what a call
    comes to; else, as much as they can of what the call before has left.
    """

    def __init__(self, instance: Instance, device: CpuDevice, *, is_cold: bool = False) -> None:
        self.reader = Reader(instance, device.threads)
        self.device, self.rates, self.is_cold = device, Rates.of(device), is_cold
        kernel = self.reader.kernel
        self.occupied = {instruction: occupied(instruction) for instruction in kernel.instructions}
        self.own = {scratch.tensor.name for scratch in kernel.scratch if not scratch.is_zeroed}
        self.levels = _levels(device.memory)

    def __call__(self, candidate: Candidate) -> list[float]:
        """Instructions of each kind, then what caches lack, from the inner to the outer ones."""
        return _Needs(self, self.reader(candidate)).needs_ns()


def _levels(memory: Sequence[MemoryLevel]) -> tuple[tuple[MemoryLevel, MemoryLevel], ...]:
    """Caches, each with the level that feeds it."""
    return tuple((a, b) for a, b in pairwise(memory) if a.capacity_bytes is not None)


class _Needs:
    def __init__(self, model: LinalgNeeds, nests: Nests) -> None:
        self.model, self.nests = model, nests

    # ---- Instructions ----------------------------------------------------------------------------------

    def needs_ns(self) -> list[float]:
        loads, stores, waits, tests = 0.0, 0.0, 0.0, 0.0
        computed: dict[Instruction, float] = {}
        for instruction in self.nests.present:
            count = self.nests.count(instruction)
            tests += TESTED_NS * count if self.nests.is_tested(instruction) else 0.0
            if instruction.op is Op.LOAD:
                loads += self._moved_ns(instruction, count, "load") + self._asked_ns(instruction, count)
            elif instruction.op is Op.STORE:
                stores += self._moved_ns(instruction, count, "store")
            else:
                computed[instruction] = self._computed_ns(instruction, count)
                waits += self._waited_ns(instruction, count)
            if instruction in self.nests.stored:
                stores += self._moved_ns(instruction, count, "store")
        accesses = list(self.nests.accesses())
        waits += sum(self._spilled_ns()) + sum(_returned_ns(accesses)) + sum(map(_flushed_ns, accesses))
        near, *far = self._missed_ns(accesses, self._meanwhile_ns(computed))
        # A core loads and computes with others while lines of the second cache come.
        near = max(0.0, near - loads - sum(computed.values()))
        return [loads, stores, sum(computed.values()), waits, self._counted_ns() + tests, near, *far]

    def _moved_ns(self, instruction: Instruction, count: float, use: Use) -> float:
        lanes = self.nests.lanes(instruction)
        if use == "load" and lanes == 1:
            # To all lanes of what reads it.
            lanes = max(map(self.nests.lanes, instruction.consumers), default=1)
        return count * lanes / self.model.rates.used_elements(instruction, use, lanes)

    def _asked_ns(self, load: Instruction, count: float) -> float:
        """Of what asks for lines before they are loaded."""
        if self.nests.decided("prefetch", load) in (None, "NONE"):
            return 0.0
        lines = count * self.nests.lanes(load) * load.dtype.nbytes / LINE_BYTES
        return lines / self.model.rates.used_elements(load, "load", 1)

    def _asked_in_vain(self) -> float:
        """Lines beyond the end of the loop that asks for what it loads some iterations later: others come
        next.
        """
        nests = self.nests
        loads = (load for load in nests.present if nests.decided("prefetch", load) == "AHEAD")
        return sum(self._lines_in_vain(load, load.access) for load in loads if load.access is not None)

    def _lines_in_vain(self, load: Instruction, to: backbone.Access) -> float:
        access = self.nests.to_tensor(load, to)
        for depth, loop in reversed([*enumerate(access.loops)]):
            if access.strides[depth] and loop.is_counted and loop.size > 1:
                run, _ = access.runs(depth + 1, LINE_BYTES)
                distance = int(self.nests.decided("prefetch_distance", load) or 0)
                ahead = math.ceil(distance / max(run, min(access.strides[depth], LINE_BYTES)))
                lines = self.nests.count(load) * access.nbytes / LINE_BYTES
                return min(1.0, ahead / loop.trips) * lines
        return 0.0

    def _meanwhile_ns(self, computed: Mapping[Instruction, float]) -> dict[str, float]:
        """What is computed in the loops that ask for, or copy, what the next iteration around them loads: by
        array.
        """
        meanwhile: defaultdict[str, float] = defaultdict(float)
        for load in self.nests.present:
            if load.access is not None and self.nests.decided("prefetch", load) == "NEXT":
                inside = self.nests.inside[load]
                meanwhile[load.access.tensor.name] += sum(
                    time_ns for each, time_ns in computed.items() if self.nests.inside[each] == inside
                )
        for maker in self.nests.stored:
            for copy in maker.reloads:
                if maker.access is not None and self.nests.decided("copying", copy) == "UNDER":
                    meanwhile[maker.access.tensor.name] += sum(computed[user] for user in copy.consumers)
        return meanwhile

    def _computed_ns(self, instruction: Instruction, count: float) -> float:
        lanes = self.nests.lanes(instruction)
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
        return count / self.nests.accumulators(instruction) * latency_ns

    def _spilled_ns(self) -> Iterator[float]:
        """Of straight code that needs more registers than there are, for sums and what is read at once."""
        kept: defaultdict[tuple[Loop, ...], int] = defaultdict(int)
        read: defaultdict[tuple[Loop, ...], int] = defaultdict(int)
        for user in self.nests.present:
            if user.op not in (Op.LOAD, Op.STORE):
                inside = self.nests.inside[user]
                kept[inside] += self.nests.accumulators(user) if user.reduced_dims else 0
                live = sum(self.nests.live(source, pairs, user) for source, pairs in self.nests.sources(user))
                read[inside] = max(read[inside], live)
        for inside, count in read.items():
            lacking = max(0, kept[inside] + count - self.model.device.vector_registers)
            each_ns = lacking * SPILLED_NS + (FORWARDED_NS if lacking and kept[inside] else 0.0)
            yield each_ns * math.prod(loop.trips for loop in inside)

    def _counted_ns(self) -> float:
        """Loops themselves: iterations of the innermost ones, and threads that begin."""
        paths = dict.fromkeys(path for path in self.nests.inside.values() if path)
        around = {path[:depth] for path in paths for depth in range(1, len(path))}
        innermost = [path for path in paths if path not in around]
        iterations = sum(math.prod(loop.trips for loop in path) for path in innermost)
        begun = dict.fromkeys(
            path[:depth] for path in paths for depth, loop in enumerate(path) if loop.kind == "PARALLEL"
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
        threads = device.threads if self.nests.is_parallel else 1
        alone = {each.array for each in through if each.runs(0, LINE_BYTES)[0] < LINE_BYTES}
        touched = Touched(through, LINE_BYTES)
        moved = [(source, self._moved(touched, cache, threads)) for cache, source in self.model.levels]
        home = max((place for place, (_, nbytes) in enumerate(moved) if nbytes), default=0)
        for place, (source, nbytes) in enumerate(moved):
            rate = min(source.bytes_per_ns, source.bytes_per_ns_all / threads)
            stored = sum(count for array, count in nbytes.items() if array in touched.stored)
            loaded = {array: count for array, count in nbytes.items() if array not in touched.stored}
            if place == home:
                for array, count in loaded.items():
                    alone_ns = ALONE_NS * count / LINE_BYTES if array in alone else 0.0
                    loaded[array] = max(0.0, count + rate * (alone_ns - meanwhile_ns.get(array, 0.0)))
                loaded[""] = LINE_BYTES * self._asked_in_vain()
            edges = costs(source, threads, device.threads, is_plain=True)
            through_ns = max(edge.time_ns(threads * sum(loaded.values()), threads * stored) for edge in edges)
            yield through_ns + (streamed / rate if source.capacity_bytes is None else 0.0)
        touched = Touched(through, PAGE_BYTES)
        for pages, each_ns in TRANSLATIONS:
            yield each_ns * sum(touched.fetched(pages, is_cold=self.model.is_cold).values())

    def _moved(self, touched: Touched, cache: MemoryLevel, threads: int) -> dict[str, float]:
        """Bytes of each array that a cache lacks."""
        assert cache.capacity_bytes is not None
        own = min(cache.core_bytes or cache.capacity_bytes, cache.capacity_bytes / threads)
        lines = touched.fetched(USABLE * own / LINE_BYTES, is_cold=self.model.is_cold)
        return {array: LINE_BYTES * count for array, count in lines.items()}

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

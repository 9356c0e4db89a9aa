"""What memory adds to the time of implementations of linear algebra: lines that caches lack, and what waits.

In: a measured device, then the loops of a candidate and how long its instructions compute. Out: nanoseconds
of lines, by the level that lacks them, and of stores around the caches. How often what is executed is for
`linalg.py`; which lines loops come to, for `touched.py`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise

from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.linalg import backbone
from spacedsl.kernels.linalg.backbone import Instruction, Kernel
from spacedsl.search.bounds.rates import byte_rate
from spacedsl.search.bounds.traffic import costs
from spacedsl.search.costs.nests import Nests
from spacedsl.search.costs.touched import Access, Loop, Piece, Touched, contracted

LINE_BYTES, PAGE_BYTES = 64, 4096

USABLE = 0.75
"""Of a cache: others lie in it, too, and not all of its sets are as full."""

TRANSLATIONS = ((64, 2.0), (1536, 8.0))
"""Pages whose places a core knows, by level, and nanoseconds that each other one takes, about."""

ALONE_NS = 8.0
"""What a load waits for a line of which the neighbours are not asked for, beyond what its bytes take: nothing
sees it coming. Measured were 10 for elements that lie two lines apart, in a third cache.
"""

COMBINED, PART_NS = 7, 13.0
"""Lines that a core puts together at once before they get around the caches, and what the store of a part of
one takes beyond that: of a processor that has room for eight.
"""

AT_ONCE = 16
"""Lines that a core can wait for while it goes on. What straight code asks for beyond that comes no earlier
than if nobody had asked: measured on a Zen 4 were half of it for 32 lines, and all of it for 64 and 128.
"""

RETURNED_NS = 100.0
"""What a load waits for a line that was stored around the caches in the same loop: it has to get to memory
and back, and nothing fetches it before. Measured were 25 where a row had been stored meanwhile, and 1300 of
what had just been stored.
"""


class Caches:
    """Those of a device, for implementations of one kernel. `is_cold`: they hold nothing of what a call comes
    to; else, as much as they can of what the call before has left.
    """

    def __init__(self, kernel: Kernel, device: CpuDevice, *, is_cold: bool) -> None:
        self.device, self.is_cold = device, is_cold
        self.own = {scratch.tensor.name for scratch in kernel.scratch if not scratch.is_zeroed}
        self.levels = tuple((a, b) for a, b in pairwise(device.memory) if a.capacity_bytes is not None)
        """Each with the level that feeds it."""


class Traffic:
    """Of one candidate, and one of its threads."""

    def __init__(self, caches: Caches, nests: Nests, computed_ns: Mapping[Instruction, float]) -> None:
        self.caches, self.nests, self.computed_ns = caches, nests, computed_ns
        self.accesses = list(nests.accesses())
        self.threads = caches.device.threads if nests.is_parallel else 1

    # ---- Stores around the caches ----------------------------------------------------------------------

    def waited_ns(self) -> float:
        """For what was stored around the caches, and for parts of lines to get there."""
        return sum(self._returned_ns()) + sum(map(_flushed_ns, self.accesses))

    def _returned_ns(self) -> Iterator[float]:
        """Of each load of what was stored around the caches in the same loop."""
        for store in self.accesses:
            for load in self.accesses if store.is_streamed else ():
                loops = {loop for loop in store.loops if loop.is_counted and loop in load.loops}
                if load.array == store.array and not load.is_store and loops:
                    trips = math.prod(loop.trips for loop in load.loops)
                    yield RETURNED_NS * trips * load.nbytes / LINE_BYTES

    # ---- Lines -----------------------------------------------------------------------------------------

    def lacking_ns(self, busy_ns: Mapping[tuple[Loop, ...], float]) -> Iterator[float]:
        """Of what each cache lacks, from the inner to the outer ones, then of places of pages. While lines
        come from the second cache to the first one, a core computes for so long: by the loops around straight
        code.
        """
        accesses = self._contracted()
        through = [each for each in accesses if not each.is_streamed]
        around = sum(each.moved for each in accesses if each.is_streamed)
        touched = Touched(through, LINE_BYTES)
        lacking = [self._lacking(touched, cache) for cache, _ in self.caches.levels]
        home = max((place for place, pieces in enumerate(lacking) if pieces), default=0)
        for place, (pieces, (_, source)) in enumerate(zip(lacking, self.caches.levels, strict=True)):
            fed = self._at_once(pieces, touched.stored, through, source) if place == home else pieces
            if source.capacity_bytes is None:
                yield self._fed_ns(fed, touched.stored, source) + around / self._rate(source)
            elif place == 0:
                yield self._unhidden_ns(fed, touched.stored, source, busy_ns)
            else:
                yield self._fed_ns(fed, touched.stored, source)
        touched = Touched(through, PAGE_BYTES)
        for pages, each_ns in TRANSLATIONS:
            yield each_ns * sum(touched.fetched(pages, is_cold=self.caches.is_cold).values())

    def _unhidden_ns(
        self,
        pieces: Mapping[Piece, float],
        stored: Set[str],
        source: MemoryLevel,
        busy_ns: Mapping[tuple[Loop, ...], float],
    ) -> float:
        """Of bytes that a level feeds, beyond what a core computes meanwhile."""
        by_code: defaultdict[tuple[Loop, ...], dict[Piece, float]] = defaultdict(dict)
        for piece, nbytes in pieces.items():
            by_code[piece.inside][piece] = nbytes
        return sum(
            max(0.0, self._fed_ns(each, stored, source) - busy_ns.get(inside, 0.0))
            for inside, each in by_code.items()
        )

    def _fed_ns(self, pieces: Mapping[Piece, float], stored: Set[str], source: MemoryLevel) -> float:
        """Of bytes that a level feeds."""
        edges = costs(source, self.threads, self.caches.device.threads, is_plain=True)
        written = sum(nbytes for piece, nbytes in pieces.items() if piece.array in stored)
        read = sum(nbytes for piece, nbytes in pieces.items() if piece.array not in stored)
        return self.threads * max(edge.time_ns(read, written) for edge in edges)

    def _lacking(self, touched: Touched, cache: MemoryLevel) -> dict[Piece, float]:
        """Bytes of each array that a cache lacks, by the straight code that comes to them."""
        assert cache.capacity_bytes is not None
        own = min(cache.core_bytes or cache.capacity_bytes, cache.capacity_bytes / self.threads)
        lines = touched.fetched(USABLE * own / LINE_BYTES, is_cold=self.caches.is_cold)
        return {piece: LINE_BYTES * count for piece, count in lines.items()}

    def _rate(self, source: MemoryLevel) -> float:
        """Bytes per ns that each thread can load."""
        return byte_rate(source, self.threads, self.caches.device.threads) / self.threads

    def _at_once(
        self, pieces: Mapping[Piece, float], stored: Set[str], through: Sequence[Access], home: MemoryLevel
    ) -> dict[Piece, float]:
        """Bytes that take as long at once as those that come from where arrays lie: of those that are loaded,
        lines by themselves take longer, what comes meanwhile no time, and some come from memory in vain.
        """
        alone = {each.array for each in through if each.has_gaps(LINE_BYTES)}
        meanwhile_ns, rate = self._meanwhile_ns(), self._rate(home)
        loaded: defaultdict[str, float] = defaultdict(float)
        for piece, nbytes in pieces.items():
            loaded[piece.array] += 0.0 if piece.array in stored else nbytes
        times = dict.fromkeys(stored, 1.0)
        for array, nbytes in loaded.items():
            if nbytes:
                alone_ns = ALONE_NS * nbytes / LINE_BYTES if array in alone else 0.0
                times[array] = max(0.0, 1.0 + rate * (alone_ns - meanwhile_ns.get(array, 0.0)) / nbytes)
        found = {piece: times.get(piece.array, 1.0) * nbytes for piece, nbytes in pieces.items()}
        if home.capacity_bytes is None:
            found[Piece("", ())] = LINE_BYTES * self._asked_in_vain()
        return found

    def _meanwhile_ns(self) -> Mapping[str, float]:
        """What is computed in the loops that ask for, or copy, what the next iteration around them loads: by
        array. Of what straight code asks for at once, a core waits for a few lines only.
        """
        meanwhile: defaultdict[str, float] = defaultdict(float)
        for load in self.nests.present:
            if load.access is not None and self.nests.decided("prefetch", load) == "NEXT":
                inside = self.nests.inside[load]
                share = min(1.0, AT_ONCE / max(1.0, self._asked_at_once(load, load.access)))
                meanwhile[load.access.tensor.name] += share * sum(
                    time_ns for each, time_ns in self.computed_ns.items() if self.nests.inside[each] == inside
                )
        for maker in self.nests.stored:
            for copy in maker.reloads:
                if maker.access is not None and self.nests.decided("copying", copy) == "UNDER":
                    of_users = sum(self.computed_ns.get(user, 0.0) for user in copy.consumers)
                    meanwhile[maker.access.tensor.name] += of_users
        return meanwhile

    def _asked_at_once(self, load: Instruction, to: backbone.Access) -> float:
        """Lines that straight code asks for, all copies of a load together."""
        access = self.nests.to_tensor(load, to)
        around = zip(access.loops, access.strides, strict=True)
        copies = math.prod(loop.size for loop, stride in around if loop.kind == "UNROLL" and stride)
        return copies * access.nbytes / LINE_BYTES

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

    def _contracted(self) -> list[Access]:
        """Arrays of the program's own are as small as its loops allow. What is stored around the caches,
        though, is in memory when it is loaded, each time.
        """
        by_array: defaultdict[str, list[Access]] = defaultdict(list)
        for access in self.accesses:
            by_array[access.array].append(access)
        found: list[Access] = []
        for array, all_of_it in by_array.items():
            is_cached = not any(access.is_streamed for access in all_of_it)
            found += contracted(all_of_it) if is_cached and array in self.caches.own else all_of_it
        return found


def _flushed_ns(access: Access) -> float:
    """Of a store around the caches, of parts of too many lines at once."""
    if not access.is_streamed or access.is_whole(LINE_BYTES, COMBINED):
        return 0.0
    return PART_NS * math.prod(loop.trips for loop in access.loops)

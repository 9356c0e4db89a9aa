"""What implementations of linear algebra need on a CPU: instructions, loops, and what memory adds.

In: an instance, a measured device, then complete candidates. Out: nanoseconds for each resource, always in
the same order. Unlike a bound, which has what no compiler can save, this takes the loops as they were
decided, and excludes nothing: it says which of several implementations are worth a measurement. Resources
are used one after the other here, none beside another, but for lines of the second cache: a core loads and
computes with others while they come. What memory adds is for `caches.py`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.linalg.backbone import Instruction
from spacedsl.kernels.linalg.operations import Op
from spacedsl.search.bounds.arithmetic import occupied
from spacedsl.search.bounds.rates import Rates, Use
from spacedsl.search.costs.caches import LINE_BYTES, Caches, Traffic
from spacedsl.search.costs.nests import Nests, Reader
from spacedsl.search.costs.touched import Loop

ITERATION_NS = 0.7
"""Of an innermost loop: what counts and jumps."""

TESTED_NS = 0.5
"""Of an access to a tensor that ends inside a padded tile: a test, and a value in its place."""

SPILLED_NS, FORWARDED_NS = 0.5, 2.5
"""Of a value that is kept in memory because there are no more registers: its store and its load, and how
long a sum waits for what has just been stored.
"""


class LinalgNeeds:
    """Of implementations of one instance: `needs(candidate)`. `is_cold`: caches hold nothing of what a call
    comes to; else, as much as they can of what the call before has left.
    """

    def __init__(self, instance: Instance, device: CpuDevice, *, is_cold: bool = False) -> None:
        self.reader = Reader(instance, device.threads)
        device = device.usual
        self.device, self.rates = device, Rates.of(device)
        kernel = self.reader.kernel
        self.occupied = {instruction: occupied(instruction) for instruction in kernel.instructions}
        self.caches = Caches(kernel, device, is_cold=is_cold)

    def __call__(self, candidate: Candidate) -> list[float]:
        """Instructions of each kind, then what caches lack, from the inner to the outer ones."""
        return _Needs(self, self.reader(candidate)).needs_ns()


class _Needs:
    def __init__(self, model: LinalgNeeds, nests: Nests) -> None:
        self.model, self.nests = model, nests

    def needs_ns(self) -> list[float]:
        loads, stores, waits, tests = 0.0, 0.0, 0.0, 0.0
        busy: defaultdict[tuple[Loop, ...], float] = defaultdict(float)
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
                busy[self.nests.inside[instruction]] += computed[instruction]
                waits += self._waited_ns(instruction, count)
            if instruction in self.nests.stored:
                stores += self._moved_ns(instruction, count, "store")
        traffic = Traffic(self.model.caches, self.nests, computed)
        waits += sum(self._spilled_ns()) + traffic.waited_ns()
        lacking = traffic.lacking_ns(busy)
        return [loads, stores, sum(computed.values()), waits, self._counted_ns() + tests, *lacking]

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

"""What caches and memory can move at most, and what they usually do, for one thread and for all.

In: a compiler, CPUs, the caches that they are said to have. Out: `MemoryLevel`s, made of the rates that
`memory_peaks.c` prints for working sets of each level: the best, with margins, and the usual ones; caches
turn out smaller where others take part of them. What a core does alone is for `core_peaks.py`.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from spacedsl.codegen.c.build import Compiler
from spacedsl.codegen.machine.peaks import CORE_MARGIN, SHARED_MARGIN, output, raised
from spacedsl.codegen.machine.processor import Cache, Vectors
from spacedsl.kernels.device import MemoryLevel, Mixture

MEMORY_SOURCE = Path(__file__).with_suffix(".c")

_LEAST_ROUNDS = 1
"""Of one pass, so that one disturbance does not spoil them all; more while a round is better by _RISE."""

_MOST_ROUNDS = 2
_MOST_S = 3.0
_RISE = 1.05

_LARGEST_BYTES = 1 << 30
_STEP = 0.7
"""A cache is full where a working set has less than this of the best rate of smaller ones."""

_SMALL_SETS = (2, 4, 8)
"""Times the caches inside a level."""


@dataclass(frozen=True, slots=True, order=True)
class Traffic:
    """Loads and stores in one mixture."""

    stored: float
    """Share of the bytes that are stored."""
    is_streamed: bool = False
    """Stores go around the caches."""


Bandwidth = Mapping[Traffic, float]
"""Bytes per ns that threads move, by mixture."""


class Memory(NamedTuple):
    """The same levels twice, from the inner to the outer ones."""

    best: tuple[MemoryLevel, ...]
    """With margins."""
    usual: tuple[MemoryLevel, ...]


def read_rate(bandwidth: Bandwidth) -> float:
    """Bytes per ns that are loaded, at best: alone or beside stores."""
    return max((1 - traffic.stored) * rate for traffic, rate in bandwidth.items())


def measure_memory(
    compiler: Compiler, vectors: Vectors, cpus: Sequence[int], caches: Sequence[Cache], folder: Path
) -> Memory:
    """Builds and runs `memory_peaks.c` for one thread and for all; raises `EnvironmentLack`."""
    single = working_sets([c.one_cpu_bytes for c in caches])
    together = working_sets([c.all_cpus_bytes for c in caches])
    best: list[Bandwidth] = []
    usual: list[Bandwidth] = []
    deadline = time.monotonic() + _MOST_S
    for number in range(1, _MOST_ROUNDS + 1):
        found = _rates(compiler, vectors, cpus[:1], single, folder)
        if len(cpus) > 1:
            found += _rates(compiler, vectors, cpus, together, folder)
        before, best = best, better(best, [rates.best for rates in found])
        usual = better(usual, [rates.usual for rates in found])
        is_settled = number >= _LEAST_ROUNDS and not has_risen(before, best)
        if is_settled or time.monotonic() > deadline:
            break

    def described(rates: Sequence[Bandwidth], *, is_usual: bool) -> tuple[MemoryLevel, ...]:
        of_one, of_all = rates[: sum(map(len, single))], rates[-sum(map(len, together)) :]
        one = shared_out(single, of_one, is_usual=is_usual)
        every = shared_out(together, of_all, is_usual=is_usual)
        return levels(shortened(caches, one, every), one.best, every.best, is_raised=not is_usual)

    return Memory(described(best, is_usual=False), described(usual, is_usual=True))


@dataclass(frozen=True, slots=True)
class Sharing:
    """The best rates of the levels, and the size at which the outermost cache turned out to be full.

    None: it is as large as the system says.
    """

    best: tuple[Bandwidth, ...]
    full_bytes: int | None


def shared_out(
    sets: Sequence[Sequence[int]], rates: Sequence[Bandwidth], *, is_usual: bool = False
) -> Sharing:
    """From the rates of all sets, in order. Sets that the outermost cache does not keep belong to memory; but
    what memory usually gives, those do not say of which the cache keeps a part.
    """
    of_size = dict(zip((nbytes for group in sets for nbytes in group), rates, strict=True))
    groups = [list(group) for group in sets]
    full_bytes: int | None = None
    if len(groups) > 1:
        *_, outermost, memory = groups
        fit = fitting([read_rate(of_size[nbytes]) for nbytes in outermost])
        if fit < len(outermost):
            full_bytes = outermost[fit]
            memory += [] if is_usual else outermost[fit + 1 :]  # What is larger is not kept.
            del outermost[fit:]
    best = (functools.reduce(best_of, (of_size[nbytes] for nbytes in group)) for group in groups)
    return Sharing(tuple(best), full_bytes)


def fitting(rates: Sequence[float]) -> int:
    """How many of the rates of growing sets there are up to the last that is not clearly slower.

    One that is slower than a larger set was disturbed.
    """
    pairs = zip(rates, accumulate(rates, max), strict=True)
    return max(count for count, (rate, best) in enumerate(pairs, 1) if rate >= _STEP * best)


def shortened(caches: Sequence[Cache], one: Sharing, every: Sharing) -> tuple[Cache, ...]:
    """The caches, the outermost of them as large as it turned out to be for one thread and for all."""
    if not caches:
        return ()
    *inner, outermost = caches
    of_all = every.full_bytes or outermost.all_cpus_bytes
    of_one = one.full_bytes or outermost.one_cpu_bytes
    if outermost.one_cpu_bytes == outermost.all_cpus_bytes:
        of_one = of_all = max(of_one, of_all)  # It stays one that is shared.
    return (*inner, Cache(outermost.name, of_one, of_all))


def better(a: Sequence[Bandwidth], b: Sequence[Bandwidth]) -> list[Bandwidth]:
    """The better of each two; `a` may still be empty."""
    pairs = zip(a or b, b, strict=True)
    return [best_of(x, y) for x, y in pairs]


def best_of(x: Bandwidth, y: Bandwidth) -> Bandwidth:
    return {traffic: max(rate, y.get(traffic, rate)) for traffic, rate in x.items()}


def has_risen(before: Sequence[Bandwidth], after: Sequence[Bandwidth]) -> bool:
    """Whether some rate is clearly better than it was: then the machine was, or is, disturbed."""
    return not before or any(
        rate > _RISE * a[traffic] for a, b in zip(before, after, strict=True) for traffic, rate in b.items()
    )


def working_sets(capacities: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """For each cache, and for memory behind them, the sizes in bytes to measure there.

    A set does not fit into the caches inside. Where they keep part of it all the same, they make the level
    faster, never slower. Small sets belong to it: a virtual machine may be said to have more of a cache than
    others leave it, and then only they fit.
    """
    sets: list[tuple[int, ...]] = []
    inner = 0
    for capacity in capacities:
        small = (times * inner for times in _SMALL_SETS if inner and times * inner < 0.25 * capacity)
        large = (1.2 * inner + share * capacity for share in (0.25, 0.5, 0.75))
        sets.append(tuple(int(nbytes) for nbytes in (*small, *large)))
        inner += capacity
    most = max(min(_LARGEST_BYTES, _memory_bytes() // 4), 1 << 20)
    return (*sets, (min(4 * inner, most),))


def levels(
    caches: Sequence[Cache],
    one: Sequence[Bandwidth],
    every: Sequence[Bandwidth],
    *,
    is_raised: bool = True,
) -> tuple[MemoryLevel, ...]:
    """The records, raised by margins or as they are; no level is slower than the one outside it."""
    found: list[MemoryLevel] = []
    outer_one: Bandwidth = {}
    outer_all: Bandwidth = {}
    for position in reversed(range(len(one))):
        is_memory = position == len(caches)
        cache = None if is_memory else caches[position]
        is_shared = cache is None or cache.one_cpu_bytes == cache.all_cpus_bytes
        margin = (SHARED_MARGIN if is_shared else CORE_MARGIN) if is_raised else 1.0
        of_one, of_all = (
            {traffic: raised(rate, margin) for traffic, rate in rates[position].items()}
            for rates in (one, every)
        )
        outer_one = best_of(of_one, outer_one)
        # All threads can do what one can.
        outer_all = best_of(best_of(of_all, outer_all), outer_one)
        found.append(
            MemoryLevel(
                name="DRAM" if cache is None else cache.name,
                capacity_bytes=None if cache is None else cache.all_cpus_bytes,
                core_bytes=None if cache is None else cache.one_cpu_bytes,
                bytes_per_ns=read_rate(outer_one),
                bytes_per_ns_all=read_rate(outer_all),
                mixtures=tuple(
                    Mixture(
                        stored=traffic.stored,
                        is_streamed=traffic.is_streamed,
                        bytes_per_ns=rate,
                        bytes_per_ns_all=outer_all[traffic],
                    )
                    for traffic, rate in sorted(outer_one.items())
                    if traffic.stored
                ),
            )
        )
    return tuple(reversed(found))


class _Rates(NamedTuple):
    """Of one working set."""

    best: Bandwidth
    usual: Bandwidth


def _rates(
    compiler: Compiler,
    vectors: Vectors,
    cpus: Sequence[int],
    sets: Sequence[Sequence[int]],
    folder: Path,
) -> list[_Rates]:
    """For each working set of each group, in order."""
    sizes = [nbytes for group in sets for nbytes in group]
    arguments = [",".join(map(str, cpus)), *map(str, sizes)]
    measured: dict[int, tuple[dict[Traffic, float], ...]] = {nbytes: ({}, {}) for nbytes in sizes}
    for line in output(MEMORY_SOURCE, compiler, vectors, folder, arguments):
        _, _, nbytes, stored, way, *rates = line.split()
        traffic = Traffic(float(stored), way == "streamed")
        for of_size, rate in zip(measured[int(nbytes)], rates, strict=True):
            of_size[traffic] = max(float(rate), of_size.get(traffic, 0.0))
    return [_Rates(*measured[nbytes]) for nbytes in sizes]


def probed_caches(
    compiler: Compiler, vectors: Vectors, cpus: Sequence[int], folder: Path
) -> tuple[Cache, ...]:
    """The caches as seen from outside, where the operating system says nothing: steps in the bandwidth.

    Too large a capacity makes a bound weaker, too small a one makes it wrong; so a level reaches up to
    the first size that is clearly slower.
    """
    most = min(_LARGEST_BYTES, _memory_bytes() // 4)
    sizes = [1 << n for n in range(14, most.bit_length())]
    found = _rates(compiler, vectors, cpus[:1], [(n,) for n in sizes], folder)
    rates = [read_rate(of_size.best) for of_size in found]
    return steps(sizes, rates, len(cpus))


def steps(sizes: Sequence[int], rates: Sequence[float], cpus: int) -> tuple[Cache, ...]:
    """A level ends where less than _STEP of its best rate is left."""
    found: list[Cache] = []
    best = 0.0
    for nbytes, rate in zip(sizes, rates, strict=True):
        if best and rate < _STEP * best:
            found.append(Cache(f"L{len(found) + 1}", nbytes, nbytes * cpus))
            best = rate
        best = max(best, rate)
    return tuple(found)


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")

"""Micro-benchmarks: what this machine's cores and memory can do at most.

In: a compiler, CPUs, the caches that they have. Out: measured rates as the records of a `CpuDevice`. Two C
programs measure, each in a process of its own; their lines are read here. A rate is the best of many
samples and raised by a margin: a bound must hold for runs at moments that nobody measured.
"""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spacedsl.codegen.build import BuildError, Compiler, build_library
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.processor import Cache, Vectors
from spacedsl.kernels.device import AccessRate, ArithmeticRate, ChainLatency, MemoryLevel

CORE_SOURCE = Path(__file__).parent / "runtime" / "peaks_core.c"
MEMORY_SOURCE = Path(__file__).parent / "runtime" / "peaks_memory.c"
START_SOURCE = Path(__file__).parent / "runtime" / "peaks_start.c"
POOL_SOURCE = Path(__file__).parent / "runtime" / "pool.h"

CORE_MARGIN = 1.1
"""Of all that belongs to one core: the clock may rise above what was seen."""

SHARED_MARGIN = 1.3
"""Of caches and memory that other cores, of other processes or other tenants, take part of."""

WINDOW_MARGIN = 1.5
"""Of what a core looks beyond, which was measured with one kind of instruction."""

_TIMEOUT_S = 60.0
_CORE_ROUNDS = 3
_MEMORY_ROUNDS = 1
"""Of one pass, so that one disturbance does not spoil them all; more while a round is better by _RISE."""

_MOST_MEMORY_ROUNDS = 2
_MEMORY_S = 3.0
_RISE = 1.05

_LARGEST_BYTES = 1 << 30
_STEP = 0.7
"""A cache is full where a working set has less than this of the best rate of smaller ones."""

_SMALL_SETS = (2, 4, 8)
"""Times the caches inside a level."""

_RUN = """
import ctypes, sys
arguments = [text.encode() for text in sys.argv[1:]]
sys.exit(ctypes.CDLL(sys.argv[1]).main(len(arguments), (ctypes.c_char_p * (len(arguments) + 1))(*arguments)))
"""


@dataclass(frozen=True, slots=True)
class Core:
    """Rates of one core."""

    arithmetic: tuple[ArithmeticRate, ...]
    accesses: tuple[AccessRate, ...]
    latencies: tuple[ChainLatency, ...]
    window: int | None


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bytes per ns that threads move: loads alone, loads and stores together, the same through the caches."""

    read: float
    mixed: float
    plain: float


# ---- One core ------------------------------------------------------------------------------------------


def measure_core(compiler: Compiler, vectors: Vectors, cpu: int, folder: Path) -> Core:
    """Builds and runs `peaks_core.c` in `folder`; raises `EnvironmentLack`."""
    rounds = range(_CORE_ROUNDS)
    return read_core(
        line for _ in rounds for line in _output(CORE_SOURCE, compiler, vectors, folder, [str(cpu)])
    )


def read_core(lines: Iterable[str]) -> Core:
    """The records that the lines of `peaks_core.c` make."""
    rates: dict[tuple[str, int, str], float] = {}
    accesses: dict[tuple[str, str, int], float] = {}
    latencies: dict[tuple[str, str], float] = {}
    window: float | None = None
    for line in lines:
        kind, dtype, width, unit, value = line.split()
        figure = float(value)
        match kind:
            case "arithmetic":
                rates[dtype, int(width), unit] = max(figure, rates.get((dtype, int(width), unit), 0.0))
            case "load" | "store":
                key = kind, dtype, int(width)
                accesses[key] = max(figure, accesses.get(key, 0.0))
            case "chain":
                latencies[dtype, unit] = min(figure, latencies.get((dtype, unit), figure))
            case "window":
                window = max(figure, window or 1.0)
    return Core(
        tuple(
            ArithmeticRate(
                dtype=dtype, lanes=lanes, unit=unit, instructions_per_ns=_raised(rate, CORE_MARGIN)
            )
            for (dtype, lanes), of_units in sorted(_by_width(rates).items())
            for unit, rate in {**of_units, "any": _any_rate(of_units)}.items()
        ),
        tuple(
            AccessRate(
                kind="load" if kind == "load" else "store",
                dtype=dtype,
                nbytes=nbytes,
                instructions_per_ns=_raised(rate, CORE_MARGIN),
            )
            for (kind, dtype, nbytes), rate in sorted(accesses.items())
        ),
        tuple(
            ChainLatency(
                dtype=dtype, op="fma" if op == "fma" else "add", latency_ns=round(latency / CORE_MARGIN, 4)
            )
            for (dtype, op), latency in sorted(latencies.items())
        ),
        None if window is None else math.ceil(WINDOW_MARGIN * window),
    )


def _by_width(rates: Mapping[tuple[str, int, str], float]) -> dict[tuple[str, int], dict[str, float]]:
    grouped: dict[tuple[str, int], dict[str, float]] = {}
    for (dtype, lanes, unit), rate in rates.items():
        grouped.setdefault((dtype, lanes), {})[unit] = rate
    return grouped


def _any_rate(rates: Mapping[str, float]) -> float:
    """The best rate of any mixture.

    Where a mixture was faster than either alone, there are separate units. Which mixture suits them best was
    not measured; none is faster than both together.
    """
    alone = max(rates["multiply"], rates["add"])
    return rates["multiply"] + rates["add"] if rates["any"] > 1.1 * alone else max(alone, rates["any"])


# ---- Memory --------------------------------------------------------------------------------------------


def measure_memory(
    compiler: Compiler, vectors: Vectors, cpus: Sequence[int], caches: Sequence[Cache], folder: Path
) -> tuple[MemoryLevel, ...]:
    """Builds and runs `peaks_memory.c` for one thread and for all; raises `EnvironmentLack`."""
    single = working_sets([c.one_cpu_bytes for c in caches])
    together = working_sets([c.all_cpus_bytes for c in caches])
    best: list[Bandwidth] = []
    deadline = time.monotonic() + _MEMORY_S
    for number in range(1, _MOST_MEMORY_ROUNDS + 1):
        found = _bandwidths(compiler, vectors, cpus[:1], single, folder)
        if len(cpus) > 1:
            found += _bandwidths(compiler, vectors, cpus, together, folder)
        before, best = best, better(best, found)
        is_settled = number >= _MEMORY_ROUNDS and not has_risen(before, best)
        if is_settled or time.monotonic() > deadline:
            break
    count = sum(map(len, single))
    one, every = shared_out(single, best[:count]), shared_out(together, best[-sum(map(len, together)) :])
    return levels(shortened(caches, one, every), one.best, every.best)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The best rates of the levels, and the size at which the outermost cache turned out to be full.

    None: it is as large as the system says.
    """

    best: tuple[Bandwidth, ...]
    full_bytes: int | None


def shared_out(sets: Sequence[Sequence[int]], rates: Sequence[Bandwidth]) -> Sharing:
    """From the rates of all sets, in order. Sets that the outermost cache does not keep belong to memory."""
    of_size = dict(zip((nbytes for group in sets for nbytes in group), rates, strict=True))
    groups = [list(group) for group in sets]
    full_bytes: int | None = None
    if len(groups) > 1:
        *_, outermost, memory = groups
        fit = fitting([of_size[nbytes].read for nbytes in outermost])
        if fit < len(outermost):
            full_bytes = outermost[fit]
            memory += outermost[fit + 1 :]  # What is larger is not kept.
            del outermost[fit:]
    best = (functools.reduce(best_of, (of_size[nbytes] for nbytes in group)) for group in groups)
    return Sharing(tuple(best), full_bytes)


def fitting(rates: Sequence[float]) -> int:
    """How many of the rates of growing sets come before the first that is clearly slower."""
    for position in range(1, len(rates)):
        if rates[position] < _STEP * max(rates[:position]):
            return position
    return len(rates)


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
    return Bandwidth(max(x.read, y.read), max(x.mixed, y.mixed), max(x.plain, y.plain))


def has_risen(before: Sequence[Bandwidth], after: Sequence[Bandwidth]) -> bool:
    """Whether some rate is clearly better than it was: then the machine was, or is, disturbed."""
    return not before or any(
        b.read > _RISE * a.read or b.mixed > _RISE * a.mixed for a, b in zip(before, after, strict=True)
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
    caches: Sequence[Cache], one: Sequence[Bandwidth], every: Sequence[Bandwidth]
) -> tuple[MemoryLevel, ...]:
    """The records, with margins; no level is slower than the one outside it."""
    found: list[MemoryLevel] = []
    outer = [0.0] * 6
    for position in reversed(range(len(one))):
        is_memory = position == len(caches)
        cache = None if is_memory else caches[position]
        is_shared = cache is None or cache.one_cpu_bytes == cache.all_cpus_bytes
        margin = SHARED_MARGIN if is_shared else CORE_MARGIN
        threads = one[position], every[position]
        rates = [_raised(rate, margin) for b in threads for rate in (b.read, b.mixed, b.plain)]
        # All threads can do what one can.
        rates[3:] = [max(pair) for pair in zip(rates[:3], rates[3:], strict=True)]
        outer = [max(pair) for pair in zip(rates, outer, strict=True)]
        found.append(
            MemoryLevel(
                name="DRAM" if cache is None else cache.name,
                capacity_bytes=None if cache is None else cache.all_cpus_bytes,
                core_bytes=None if cache is None else cache.one_cpu_bytes,
                bytes_per_ns=outer[0],
                mixed_per_ns=outer[1],
                plain_per_ns=outer[2],
                bytes_per_ns_all=outer[3],
                mixed_per_ns_all=outer[4],
                plain_per_ns_all=outer[5],
            )
        )
    return tuple(reversed(found))


def _bandwidths(
    compiler: Compiler,
    vectors: Vectors,
    cpus: Sequence[int],
    sets: Sequence[Sequence[int]],
    folder: Path,
) -> list[Bandwidth]:
    """For each working set of each group, in order."""
    sizes = [nbytes for group in sets for nbytes in group]
    arguments = [",".join(map(str, cpus)), *map(str, sizes)]
    measured: dict[tuple[str, int], float] = {}
    for line in _output(MEMORY_SOURCE, compiler, vectors, folder, arguments):
        kind, _, nbytes, rate = line.split()
        measured[kind, int(nbytes)] = float(rate)
    return [
        Bandwidth(*(measured[kind, nbytes] for kind in ("read", "mixed", "plain")))
        for group in sets
        for nbytes in group
    ]


def measure_start(compiler: Compiler, vectors: Vectors, cpus: Sequence[int], folder: Path) -> float | None:
    """Builds and runs `peaks_start.c`: the least ns of a parallel loop; None on one CPU."""
    if len(cpus) < 2:
        return None
    best = min(
        float(line.split()[1])
        for line in _output(START_SOURCE, compiler, vectors, folder, [], _with_pool(len(cpus)))
    )
    return round(best / SHARED_MARGIN, 1)


def _with_pool(threads: int) -> str:
    """What stands before a program that runs parallel loops, as in candidates."""
    pool = POOL_SOURCE.read_text(encoding="utf-8")
    return f"#define _GNU_SOURCE\n#define POOL_THREADS {threads}\n#include <stdint.h>\n{pool}\n"


def probed_caches(
    compiler: Compiler, vectors: Vectors, cpus: Sequence[int], folder: Path
) -> tuple[Cache, ...]:
    """The caches as seen from outside, where the operating system says nothing: steps in the bandwidth.

    Too large a capacity makes a bound weaker, too small a one makes it wrong; so a level reaches up to
    the first size that is clearly slower.
    """
    most = min(_LARGEST_BYTES, _memory_bytes() // 4)
    sizes = [1 << n for n in range(14, most.bit_length())]
    rates = [b.read for b in _bandwidths(compiler, vectors, cpus[:1], [(n,) for n in sizes], folder)]
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


# ---- Running -------------------------------------------------------------------------------------------


def _output(
    source: Path,
    compiler: Compiler,
    vectors: Vectors,
    folder: Path,
    arguments: Sequence[str],
    head: str = "",
) -> list[str]:
    """The lines that a program of `runtime/` prints, built with the flags of candidates, behind `head`."""
    library = folder / f"{source.stem}.so"
    try:
        if not library.exists():
            flags = (f"-DVECTOR_BYTES={vectors.nbytes}",)
            build_library(head + source.read_text(encoding="utf-8"), library, compiler, extra_flags=flags)
        answer = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _RUN, str(library), *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except BuildError as error:
        raise EnvironmentLack(f"the C compiler cannot build {source.name}: {error}") from None
    except (subprocess.SubprocessError, OSError) as error:
        raise EnvironmentLack(f"{source.name} does not run here: {error}") from None
    return answer.stdout.splitlines()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _raised(rate: float, margin: float) -> float:
    return round(rate * margin, 3)

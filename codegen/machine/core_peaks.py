"""What one core can do at most: its arithmetic, its loads and stores, and how long dependent ones take.

In: a compiler and a CPU. Out: a `Core`, made of what `core_peaks.c` prints, with margins. What cores
share is for `memory_peaks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spacedsl.codegen.c.build import Compiler
from spacedsl.codegen.machine.peaks import CORE_MARGIN, output, raised
from spacedsl.codegen.machine.processor import Vectors
from spacedsl.kernels.device import AccessRate, ArithmeticRate, ChainLatency

CORE_SOURCE = Path(__file__).with_suffix(".c")

WINDOW_MARGIN = 1.5
"""Of what a core looks beyond, which was measured with one kind of instruction."""

_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Core:
    """Rates of one core."""

    arithmetic: tuple[ArithmeticRate, ...]
    accesses: tuple[AccessRate, ...]
    latencies: tuple[ChainLatency, ...]
    window: int | None


def measure_core(compiler: Compiler, vectors: Vectors, cpu: int, folder: Path) -> Core:
    """Builds and runs `core_peaks.c` in `folder`; raises `EnvironmentLack`."""
    rounds = range(_ROUNDS)
    return read_core(
        line for _ in rounds for line in output(CORE_SOURCE, compiler, vectors, folder, [str(cpu)])
    )


def read_core(lines: Iterable[str]) -> Core:
    """The records that the lines of `core_peaks.c` make."""
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
            ArithmeticRate(dtype=dtype, lanes=lanes, unit=unit, instructions_per_ns=raised(rate, CORE_MARGIN))
            for (dtype, lanes), of_units in sorted(_by_width(rates).items())
            for unit, rate in {**of_units, "any": _any_rate(of_units)}.items()
        ),
        tuple(
            AccessRate(
                kind="load" if kind == "load" else "store",
                dtype=dtype,
                nbytes=nbytes,
                instructions_per_ns=raised(rate, CORE_MARGIN),
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

"""A GPU measured where there is one: what files cannot know, and what they say may be beaten.

In: a device that is here, and its description. Out: `Figure`s, latencies in cycles of an SM, rates of the
levels of memory, the cost of a launch; and the description with the better one of each. A description says
the best that a device can do, so that no kernel undercuts a bound: only a better figure replaces another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spacedsl.codegen.cuda.batches.driver import Device, DeviceError, Stopwatch
from spacedsl.codegen.cuda.batches.writing import PROBES
from spacedsl.codegen.cuda.nvrtc import compile_cubin, is_target, version
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.kernels.gpu_device import GpuDevice

LATENCIES = Path(__file__).parent / "latencies.cu"
STEPS = 256
"""Operations that a kernel of `latencies.cu` times."""
REPEATS = 16
"""Of a latency; the least counts."""
LINE_WORDS = 32
"""Of 4 bytes: no two places of a ring share a cache line."""
THREADS = 1024
"""Of a block that loads as fast as it can."""
DRAM_BYTES = 1 << 30

Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a description: of latencies and costs the least, of rates the greatest one counts."""

    name: str
    """Of the field: `latency.l2`, `dram_bytes_per_ns`."""
    described: float
    measured: float
    is_rate: bool

    @property
    def is_better(self) -> bool:
        """Whether the device is better than its description, whose bounds are then too high."""
        return self.measured > self.described if self.is_rate else self.measured < self.described


def open_device() -> Device:
    """Raises `EnvironmentLack` where there is no GPU, or the compiler does not know it."""
    try:
        device = Device()
    except DeviceError as error:
        raise EnvironmentLack(f"there is no GPU to measure here: {error}") from None
    if not is_target(device.compute_capability):
        raise EnvironmentLack(
            f"{version()} makes no code for {device.name}, of compute capability {device.compute_capability}"
        )
    return device


def measure(device: Device, described: GpuDevice, progress: Callable[[str], None]) -> tuple[Figure, ...]:
    """All figures, in some seconds. Raises `DeviceError`."""
    bench = _Bench(device)
    found: list[Figure] = []
    for name, measured in bench.figures():
        is_rate = "bytes_per" in name
        found.append(Figure(name, _described(described, name), measured, is_rate))
        progress(f"{name}: {measured:.4g}")
    return tuple(found)


def improved(described: GpuDevice, figures: Sequence[Figure]) -> GpuDevice:
    """The description with what was better."""
    better = {figure.name: figure.measured for figure in figures if figure.is_better}
    latency = {n.removeprefix("latency."): v for n, v in better.items() if n.startswith("latency.")}
    other = {name: value for name, value in better.items() if not name.startswith("latency.")}
    return described.model_copy(update={**other, "latency": described.latency.model_copy(update=latency)})


def _described(device: GpuDevice, name: str) -> float:
    value: object = device
    for part in name.split("."):
        value = getattr(value, part)
    assert isinstance(value, (int, float))
    return float(value)


def ring(places: int, spacing: int, random: np.random.Generator) -> Words:
    """Words of which every `spacing`-th holds the position of another one, all of them in one circle."""
    order = np.concatenate([[0], 1 + random.permutation(places - 1)]) * spacing
    words = np.zeros(places * spacing, np.uint32)
    words[order] = np.roll(order, -1)
    return words


class _Bench:
    """The kernels and the memory that they need."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.watch = Stopwatch(device)
        self.modules = [
            device.load(compile_cubin(path.read_text(encoding="utf-8"), device.compute_capability).code)
            for path in (LATENCIES, PROBES)
        ]
        sizes = (8, 1 << 24, DRAM_BYTES)
        self.cycles, self.out, self.memory = (np.uint64(device.allocate(nbytes)) for nbytes in sizes)

    def figures(self) -> Iterator[tuple[str, float]]:
        """The name of a field of a description, and what was measured of it."""
        yield "latency.f32", self._chain("chain_f32", np.float32(0.5))
        yield "latency.f64", self._chain("chain_f64", np.float64(0.5))
        yield "latency.shared", self._chase("chase_shared", ring(1024, 1, _random()), 1024, shared=4096)
        yield "latency.l1", self._chase("chase_l1", ring(64, LINE_WORDS, _random()), 64)
        spread = ring(8192, LINE_WORDS, _random())
        yield "latency.l2", self._chase("chase_l2", spread, len(spread) // LINE_WORDS)
        yield "latency.dram", self._chase("chase_l2", spread, 0, is_flushed=True)
        yield "latency.barrier", self._least("barriers", 128, [], 0) / STEPS
        moved = THREADS * 16 * STEPS
        yield (
            "shared_bytes_per_cycle",
            moved / self._least("stream_shared", THREADS, [self.out], THREADS * 16),
        )
        yield "l1_bytes_per_cycle", moved / self._least("stream_l1", THREADS, [self.out, self.memory], 0)
        yield "l2_bytes_per_ns", self._rate(self.device.l2_bytes // 4, 32)
        yield "dram_bytes_per_ns", self._rate(DRAM_BYTES, 1)
        empty = self.device.prepare(self._function("empty", 1), 1, 32, 0, [])
        yield "launch_ns", min(self.watch.samples_ns(partial(self.device.launch, empty), is_cold=False))

    def _function(self, name: str, module: int = 0, shared: int = 0) -> ctypes.c_void_p:
        return self.device.function(self.modules[module], name, shared)

    def _least(
        self,
        name: str,
        threads: int,
        arguments: Sequence[np.generic],
        shared: int,
        *,
        is_flushed: bool = False,
    ) -> float:
        """Cycles of one block, the least of several times."""
        launch = self.device.prepare(
            self._function(name, 0, shared), 1, threads, shared, [self.cycles, *arguments]
        )
        found = np.zeros(1, np.int64)
        least = float("inf")
        for _ in range(REPEATS):
            if is_flushed:
                self.device.fill(self.watch.flush, 0, self.watch.flush_bytes)
            self.device.launch(launch)
            self.device.download(found, int(self.cycles))
            least = min(least, float(found[0]))
        return least

    def _chain(self, name: str, factor: np.generic) -> float:
        return self._least(name, 1, [self.out, factor], 0) / STEPS

    def _chase(
        self,
        name: str,
        words: Words,
        warm: int,
        *,
        shared: int = 0,
        is_flushed: bool = False,
    ) -> float:
        self.device.upload(int(self.memory), words)
        arguments: list[np.generic] = [self.out, self.memory, np.int32(warm)]
        return self._least(name, 1, arguments, shared, is_flushed=is_flushed) / STEPS

    def _rate(self, nbytes: int, rounds: int) -> float:
        """Bytes per nanosecond that all SMs read together, the most of several launches."""
        count = nbytes // 16
        rates = []
        for per_sm in (2, 4, 8):
            launch = self.device.prepare(
                self._function("stream"), per_sm * self.device.sms, 256, 0,
                [self.out, self.memory, np.int64(count), np.int32(rounds)],
            )  # fmt: skip
            times_ns = self.watch.samples_ns(partial(self.device.launch, launch), is_cold=False)
            rates.append(16 * count * rounds / min(times_ns))
        return max(rates)


def _random() -> np.random.Generator:
    return np.random.default_rng(0)

"""Descriptions of the machines that kernels run on.

In: a YAML file (shipped in `devices/`, or measured here and kept in the user's data folder), checked against
the models below, or that of `gpu_device.py`. Out: a frozen `CpuDevice` or `GpuDevice`, read by spaces
(`$device`), bounds and code generation.
Rates are per nanosecond, so that a time in ns is a count divided by a rate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, in_order
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.located_yaml import Document, parse_document
from spacedsl.kernels.validation import Frozen, closest, read_model
from spacedsl.language.host import exposed

DEVICES = Path(__file__).resolve().parent / "devices"
"""The descriptions that are shipped."""

_DTYPES = ("f32", "f64", "i32")


class Mixture(Frozen):
    """Most bytes that are loaded and stored together, in one mixture of both."""

    stored: float = Field(gt=0, le=1)
    """Share of the bytes that are stored."""
    is_streamed: bool = False
    """Stores go around the caches."""
    bytes_per_ns: float = Field(gt=0)
    """Most that one thread can move."""
    bytes_per_ns_all: float = Field(gt=0)
    """Most that all threads together can move."""


class MemoryLevel(Frozen):
    """One level of the memory hierarchy and the traffic *into the cores* that it can feed."""

    name: str
    """L1, L2, L3, DRAM: inner to outer."""
    capacity_bytes: int | None = Field(ge=1)
    """Bytes that all cores in use keep at this level together; None for DRAM."""
    core_bytes: int | None = Field(default=None, ge=1)
    """Bytes that one core keeps here, all of a cache that cores share; None: not known, or memory."""
    bytes_per_ns: float = Field(gt=0)
    """Most that one thread can read from here."""
    bytes_per_ns_all: float = Field(gt=0)
    """Most that all threads together can read from here."""
    mixtures: tuple[Mixture, ...] = ()
    """Loads and stores together; none: not known, and stores count as if they were as fast as loads, beside
    them."""


class ArithmeticRate(Frozen):
    """Most independent arithmetic instructions that one thread completes in a nanosecond."""

    dtype: str
    lanes: int = Field(ge=1)
    """Elements of one instruction: 1 for scalar code."""
    instructions_per_ns: float = Field(gt=0)
    unit: Literal["multiply", "add", "any", "divide", "root", "extreme"] = "any"
    """Multiplications and fused multiply-adds; additions and subtractions; any mixture of these; divisions;
    square roots; the greater or smaller of two vectors. Some processors add and multiply in different units,
    so that a mixture is faster than either."""


class AccessRate(Frozen):
    """Most loads or stores of one width that one thread completes in a nanosecond, all in the L1 cache."""

    kind: Literal["load", "store"]
    nbytes: int = Field(ge=1)
    dtype: str | None = None
    """Elements in the kind of register that their arithmetic uses; None: whatever they are."""
    instructions_per_ns: float = Field(gt=0)


class ChainLatency(Frozen):
    """Least time from one accumulation to the next that needs its result."""

    dtype: str
    op: Literal["add", "fma", "any"] = "any"
    """Of a term, or of a product that is built as candidates are: fused with the sum or not."""
    latency_ns: float = Field(gt=0)


@exposed("name", "threads", "vector_bytes", "vector_registers")
class CpuDevice(Frozen):
    kind: Literal["cpu"] = "cpu"
    name: str
    threads: int = Field(ge=1)
    """Cores that this process may use, from its affinity and cgroup."""
    vector_bytes: int = Field(ge=1)
    vector_registers: int = Field(ge=1)
    arithmetic: tuple[ArithmeticRate, ...] = Field(min_length=1)
    memory: tuple[MemoryLevel, ...] = Field(min_length=1)
    """Inner to outer."""
    usual_memory: tuple[MemoryLevel, ...] = ()
    """The same with what is usual in place of the most: others take part of what cores share. None: not
    known."""
    accesses: tuple[AccessRate, ...] = ()
    latencies: tuple[ChainLatency, ...] = ()
    window: int | None = Field(default=None, ge=1)
    """Accumulations that wait for each other and that a core looks beyond, at most; None: not known."""
    start_ns: float | None = Field(default=None, gt=0)
    """Least time of a parallel loop that does nothing; None: not known."""
    compiler: str = ""
    """Version line of the compiler that the rates hold for."""

    @property
    def usual(self) -> CpuDevice:
        """With the memory that code usually finds, for who says what it takes, not what it takes at least."""
        return self.model_copy(update={"memory": self.usual_memory or self.memory})


Device = CpuDevice | GpuDevice


def load_any_device(path: Path) -> Device:
    """Reads and checks a description, of a GPU where its `kind` says so.

    Raises `OSError` where the file cannot be read, `DiagnosticError` (DV..) with all that is wrong in it.
    """
    document = parse_document(Source.read(path), "DV")
    is_gpu = isinstance(document.data, dict) and document.data.get("kind") == "gpu"
    return _checked(GpuDevice, document) if is_gpu else _checked(CpuDevice, document)


def load_device(path: Path) -> CpuDevice:
    """The same, of a CPU alone."""
    return _checked(CpuDevice, parse_document(Source.read(path), "DV"))


def load_gpu(path: Path) -> GpuDevice:
    """The same, of a GPU alone."""
    return _checked(GpuDevice, parse_document(Source.read(path), "DV"))


def gpus() -> dict[str, Path]:
    """The descriptions of GPUs that are shipped, by what they are called on a command line."""
    return {p.stem: p for p in sorted(DEVICES.glob("*.yaml")) if load_any_device(p).kind == "gpu"}


D = TypeVar("D", bound=CpuDevice | GpuDevice)


def _checked(model: type[D], document: Document) -> D:
    device, found = read_model(model, document, "DV")
    report = (*found, *(_inconsistencies(device, document) if isinstance(device, CpuDevice) else ()))
    if device is None or report:
        raise DiagnosticError(in_order(report))
    return device


def _inconsistencies(device: CpuDevice, document: Document) -> list[Diagnostic]:
    """Memory that is not listed from inner to outer, rates of element types that there are not."""
    report: list[Diagnostic] = []
    for key, levels in (("memory", device.memory), ("usual_memory", device.usual_memory)):
        inner: int | None = 0
        for position, level in enumerate(levels):
            span = document.value(key, position, "capacity_bytes")
            if inner is None:
                message = f"{level.name} lies outside a level without a capacity: only the outermost has none"
                report.append(Diagnostic("DV010", message, span))
            elif level.capacity_bytes is not None and level.capacity_bytes < inner:
                message = f"{level.name} is smaller than the level inside it: levels go from inner to outer"
                report.append(Diagnostic("DV010", message, span))
            inner = level.capacity_bytes
    rates = [("arithmetic", n, rate.dtype) for n, rate in enumerate(device.arithmetic)]
    rates += [("latencies", n, latency.dtype) for n, latency in enumerate(device.latencies)]
    for key, position, dtype in rates:
        if dtype not in _DTYPES:
            span = document.value(key, position, "dtype")
            report.append(
                Diagnostic("DV011", f"unknown element type `{dtype}`", span, closest(dtype, _DTYPES))
            )
    return report

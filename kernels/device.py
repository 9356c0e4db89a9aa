"""Descriptions of the machines that kernels run on.

In: a YAML file (shipped in `devices/`, or measured here and kept in the user's data folder), checked against
the models below. Out: a frozen `CpuDevice`, read by spaces (`$device`), bounds and code generation.
Rates are per nanosecond, so that a time in ns is a count divided by a rate.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from spacedsl.language.host import exposed


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MemoryLevel(_Frozen):
    """One level of the memory hierarchy and the traffic *into the cores* that it can feed."""

    name: str
    """L1, L2, L3, DRAM: inner to outer."""
    capacity_bytes: int | None
    """Bytes that all cores in use keep at this level together; None for DRAM."""
    bytes_per_ns: float = Field(gt=0)
    """Most that one thread can read from here."""
    bytes_per_ns_all: float = Field(gt=0)
    """Most that all threads together can read from here."""
    mixed_per_ns: float | None = Field(default=None, gt=0)
    """Most that one thread can move, loads and stores together, in any mixture; None: not known."""
    mixed_per_ns_all: float | None = Field(default=None, gt=0)
    """The same for all threads together."""


class ArithmeticRate(_Frozen):
    """Most independent arithmetic instructions that one thread completes in a nanosecond."""

    dtype: str
    lanes: int
    """Elements of one instruction: 1 for scalar code."""
    instructions_per_ns: float = Field(gt=0)
    unit: Literal["multiply", "add", "any"] = "any"
    """Multiplications and fused multiply-adds; additions and subtractions; any mixture of them all. Some
    processors add and multiply in different units, so that a mixture is faster than either."""


class AccessRate(_Frozen):
    """Most loads or stores of one width that one thread completes in a nanosecond, all in the L1 cache."""

    kind: Literal["load", "store"]
    nbytes: int
    instructions_per_ns: float = Field(gt=0)


class ChainLatency(_Frozen):
    """Least time from one accumulation (addition or fused multiply-add) to the next that needs its result."""

    dtype: str
    latency_ns: float = Field(gt=0)


@exposed("name", "threads", "vector_bytes", "vector_registers")
class CpuDevice(_Frozen):
    kind: Literal["cpu"] = "cpu"
    name: str
    threads: int = Field(ge=1)
    """Cores that this process may use, from its affinity and cgroup."""
    vector_bytes: int
    vector_registers: int
    arithmetic: tuple[ArithmeticRate, ...]
    memory: tuple[MemoryLevel, ...]
    """Inner to outer."""
    accesses: tuple[AccessRate, ...] = ()
    latencies: tuple[ChainLatency, ...] = ()
    compiler: str = ""
    """Version line of the compiler that the rates hold for."""

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


class ArithmeticRate(_Frozen):
    """Most fused multiply-adds (or additions, or multiplications) that one thread completes in a nanosecond."""

    dtype: str
    lanes: int
    """Elements of one instruction: 1 for scalar code."""
    instructions_per_ns: float = Field(gt=0)


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
    compiler: str = ""
    """Version line of the compiler that the rates hold for."""

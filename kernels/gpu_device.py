"""Descriptions of NVIDIA GPUs that kernels run on, or are predicted for.

In: the data of a YAML file, checked against the model below. Out: a frozen `GpuDevice`, read by spaces
(`$device`), bounds and code generation. Rates are per clock cycle of one multiprocessor (SM), or bytes per
nanosecond where all share a unit; latencies are in cycles. All of them are the best that the device can do.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from spacedsl.kernels.validation import Frozen
from spacedsl.language.host import exposed

SECTOR_BYTES = 32
"""Of a cache line, what is fetched at least."""

VECTOR_BYTES = 16
"""That one instruction of a thread loads or stores, at most."""


class Throughput(Frozen):
    """Most threads whose instruction of a kind one SM completes in a cycle."""

    f32: float = Field(gt=0)
    """Multiplications, additions and both fused, of 32 bits."""
    f64: float = Field(gt=0)
    """The same of 64 bits."""
    i32: float = Field(gt=0)
    """Additions and multiplications of integers of 32 bits."""
    special: float = Field(gt=0)
    """Approximations of `exp2`, `1/x`, `1/sqrt` and the like."""
    memory: float = Field(gt=0)
    """Addresses of loads and stores."""
    tensor: float = Field(default=0, ge=0)
    """Multiplications with an addition, of 16 bits, that tensor cores do; half of that of tf32. 0 where they
    lack the shapes that code is made for (below compute capability 8.0)."""


class Latency(Frozen):
    """Least cycles from an instruction to the next one that needs its result."""

    f32: float = Field(gt=0)
    f64: float = Field(gt=0)
    shared: float = Field(gt=0)
    """A load from shared memory."""
    l1: float = Field(gt=0)
    l2: float = Field(gt=0)
    dram: float = Field(gt=0)
    """Beyond the L2 cache."""
    barrier: float = Field(gt=0)
    """Of all threads of a block that arrive together."""


@exposed(
    "name", "threads_per_block", "registers_per_thread", "shared_bytes_per_block", "vector_bytes", "warp",
    "copies_ahead", "adds_f64", "has_tensor_cores", "blocks_per_grid", "sms",
)  # fmt: skip
class GpuDevice(Frozen):
    kind: Literal["gpu"]
    name: str
    compute_capability: str = Field(pattern=r"^\d+\.\d$")
    """What its instructions are: `9.0`."""
    sms: int = Field(ge=1)
    clock_ghz: float = Field(gt=0)
    """The highest that its maker names."""
    warp: int = Field(default=32, ge=1)
    """Threads that run an instruction together."""
    vector_bytes: int = Field(default=16, ge=1)
    """Most that one thread loads or stores with an instruction."""
    threads_per_block: int = Field(default=1024, ge=1, le=1024)
    threads_per_sm: int = Field(ge=1)
    blocks_per_sm: int = Field(ge=1)
    registers_per_sm: int = Field(default=65536, ge=1)
    """Of 32 bits."""
    registers_per_thread: int = Field(default=255, ge=1)
    shared_bytes_per_block: int = Field(ge=1, le=256 << 10)
    """Most that one block may have, asked for where that is more than 48 KiB."""
    shared_bytes_per_sm: int = Field(ge=1)
    instructions_per_cycle: float = Field(gt=0)
    """Of warps, that one SM issues."""
    throughput: Throughput
    latency: Latency
    shared_bytes_per_cycle: float = Field(gt=0)
    """That one SM moves from and to shared memory."""
    l1_bytes_per_cycle: float = Field(gt=0)
    """That one SM reads from its L1 cache."""
    l2_bytes: int = Field(ge=1)
    l2_bytes_per_ns: float = Field(gt=0)
    """That all SMs together read from the L2 cache."""
    dram_bytes: int = Field(ge=1)
    dram_bytes_per_ns: float = Field(gt=0)
    launch_ns: float = Field(ge=0)
    """Least time of a kernel that does nothing."""

    @property
    def blocks_per_grid(self) -> int:
        """Most that a launch takes, counted along one axis."""
        return 2**31 - 1

    @property
    def has_tensor_cores(self) -> bool:
        """For which code can be made."""
        return self.throughput.tensor > 0

    @property
    def copies_ahead(self) -> bool:
        """Whether its threads go on while what they copy to shared memory is under way."""
        return float(self.compute_capability) >= 8

    @property
    def adds_f64(self) -> bool:
        """Whether several threads may add numbers of 64 bits to the same one in memory."""
        return float(self.compute_capability) >= 6

    @property
    def reserved_shared_bytes(self) -> int:
        """That the system keeps of the shared memory of each block that an SM has."""
        return 1024 if float(self.compute_capability) >= 8 else 0

    def rooms(self, threads: int, registers: int, shared_bytes: float) -> int:
        """Blocks that an SM has room for at the same time; 0 where it has none for one.

        `registers`: of a thread. `shared_bytes`: of a block.
        """
        held = -(-threads // self.warp) * self.warp
        rooms = [
            self.blocks_per_sm,
            self.threads_per_sm // held,
            self.registers_per_sm // (held * min(self.registers_per_thread, registers)),
        ]
        if shared_bytes:
            rooms.append(int(self.shared_bytes_per_sm // (shared_bytes + self.reserved_shared_bytes)))
        return min(rooms)

    @property
    def caches_loads(self) -> bool:
        """Whether an SM keeps what it loads from memory: those of 3.0 keep only what their threads spill."""
        return self.compute_capability != "3.0"

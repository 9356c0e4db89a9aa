"""A device's rates as a bound asks for them.

In: a `CpuDevice`. Out: rates that are never less than what the device can do; infinite where nothing
is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from spacedsl.kernels.device import CpuDevice, MemoryLevel, Mixture
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.backbone import Instruction, Value
from spacedsl.kernels.linalg.operations import ELEMENT_TYPES
from spacedsl.search.bounds.arithmetic import UNITS, Unit

Use = Unit | Literal["load", "store"]
"""What an instruction occupies."""


def used_dtypes(instruction: Instruction, use: Use) -> tuple[DType, ...]:
    """Of the elements that a use handles.

    What moves is as wide as it is in memory; for what computes, that is a tensor that it reads or that its
    result is stored in, or a copy, which holds what it computes in.
    """
    if instruction.access is not None and use in ("load", "store"):
        return (instruction.access_dtype,)
    others: Iterable[Instruction] = ()
    if use == "load":
        others = (o.instruction for o in instruction.operands if isinstance(o, Value))
    elif use == "store":
        others = instruction.consumers
    return tuple(dict.fromkeys((instruction.dtype, *(other.access_dtype for other in others))))


@dataclass(frozen=True, slots=True)
class Rates:
    """Instructions per ns of one thread, by use, element type and lanes."""

    device: CpuDevice
    tables: Mapping[tuple[Use, DType], Mapping[int, float]]

    @classmethod
    def of(cls, device: CpuDevice) -> Rates:
        tables: dict[tuple[Use, DType], Mapping[int, float]] = {}
        for dtype in ELEMENT_TYPES:
            for unit in UNITS:
                tables[unit, dtype] = _unit_table(device, dtype, unit)
            tables["load", dtype] = _access_table(device, dtype, "load")
            tables["store", dtype] = _access_table(device, dtype, "store")
        return cls(device, tables)

    def instructions(self, use: Use, dtype: DType, lanes: int) -> float:
        """For a number of lanes between two measured ones, the better of these two."""
        table = self.tables[use, dtype]
        if lanes in table:
            return table[lanes]
        below = max((n for n in table if n < lanes), default=None)
        above = min((n for n in table if n > lanes), default=None)
        return max((table[n] for n in (below, above) if n is not None), default=math.inf)

    def elements(self, use: Use, dtype: DType, lanes: int) -> float:
        """Elements per ns in vectors of so many lanes; wider ones than the device has come in pieces."""
        widest = max(1, self.device.vector_bytes // dtype.nbytes)
        if lanes <= widest:
            return lanes * self.instructions(use, dtype, lanes)
        pieces = (widest, *self.tables[use, dtype])
        return max(piece * self.instructions(use, dtype, piece) for piece in pieces)

    def used_instructions(self, instruction: Instruction, use: Use, lanes: int) -> float:
        """For the best of the types of elements that the use can handle."""
        return max(self.instructions(use, dtype, lanes) for dtype in used_dtypes(instruction, use))

    def most_instructions(self, instruction: Instruction, use: Use) -> float:
        """At the best width."""
        return max(self.tables[use, instruction.dtype].values(), default=math.inf)

    def used_elements(self, instruction: Instruction, use: Use, lanes: int) -> float:
        return max(self.elements(use, dtype, lanes) for dtype in used_dtypes(instruction, use))

    def most_loads(self, loads: Iterable[Instruction]) -> float:
        """Load instructions per ns, at the best width, of the best of these: of tensors or of copies."""
        dtypes = {dtype for load in loads for dtype in (load.access_dtype, load.dtype)}
        return max(max(self.tables["load", dtype].values(), default=math.inf) for dtype in dtypes)

    def latency_ns(self, dtype: DType, *, is_fused: bool) -> float:
        """From one accumulation to the next; 0 where it is not known. `is_fused`: it adds products."""
        known = [c for c in self.device.latencies if c.dtype == dtype.label]
        fused = [c for c in known if c.op != "add"]
        return min((c.latency_ns for c in (fused if is_fused else known)), default=0.0)


def _unit_table(device: CpuDevice, dtype: DType, unit: Unit) -> dict[int, float]:
    measured = [r for r in device.arithmetic if r.dtype == dtype.label]
    table: dict[int, float] = {}
    for lanes in sorted({r.lanes for r in measured}):
        of_unit = {r.unit: r.instructions_per_ns for r in measured if r.lanes == lanes}
        # Without a figure for mixtures, both units may work side by side. Extremes may have units of their
        # own; single ones, a compiler may find out by jumps.
        mixed = of_unit.get("any", of_unit.get("multiply", math.inf) + of_unit.get("add", math.inf))
        table[lanes] = of_unit.get(unit, math.inf if unit == "extreme" else mixed)
    return table


def _access_table(device: CpuDevice, dtype: DType, kind: Literal["load", "store"]) -> dict[int, float]:
    """Of a type that is only loaded and stored, and was not measured: what others do with as many bytes."""
    of_kind = [access for access in device.accesses if access.kind == kind]
    labels = {access.dtype for access in of_kind}
    if dtype.label in labels:
        labels = {None, dtype.label}
    table: dict[int, float] = {}
    for access in of_kind:
        if access.dtype in labels and access.nbytes >= dtype.nbytes:
            lanes = access.nbytes // dtype.nbytes
            table[lanes] = max(table.get(lanes, 0.0), access.instructions_per_ns)
    return table


def byte_rate(measured: MemoryLevel | Mixture, threads: int, all_threads: int) -> float:
    """Bytes per ns that so many threads can load from a level, or move in a mixture."""
    if threads >= all_threads:
        return measured.bytes_per_ns_all
    return min(threads * measured.bytes_per_ns, measured.bytes_per_ns_all)

"""What arithmetic of a pipeline takes at least, of the share of a machine that is left for it.

In: products and sums that nobody can do without, step by step (`kernels/pipeline/distinct.py`); how many
tasks and lanes a step at ROOT can still have, which are quantities of its space. Out: nanoseconds. Which
steps are at ROOT is for `pipeline.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.engine.instance import Instance
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.pipeline.backbone import Step
from spacedsl.kernels.pipeline.distinct import Kind
from spacedsl.search.bounds.arithmetic import Unit
from spacedsl.search.bounds.rates import Rates


@dataclass(frozen=True, slots=True)
class Share:
    """Of a machine, what a step at ROOT may use at most."""

    tasks: int
    """Threads of a CPU, SMs of a GPU."""
    lanes: int
    """Of vectors on a CPU, of a warp on a GPU."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a step at ROOT: quantities, by their numbers among all, that limit its share of a machine."""

    tasks: tuple[int, ...]
    """That one, in a space that has it."""
    lanes: tuple[int, ...]
    """As many as the largest of them."""

    @classmethod
    def of(cls, instance: Instance, step: Step, lanes: Iterable[tuple[str, object]]) -> Limits:
        return cls(_nodes(instance, [("tasks", step)]), _nodes(instance, lanes))

    def share(self, highs: Sequence[int], most: Share) -> Share:
        """What its greatest values leave."""
        tasks = max([highs[node] for node in self.tasks], default=most.tasks)
        lanes = max([highs[node] for node in self.lanes], default=most.lanes)
        return Share(min(most.tasks, max(1, tasks)), min(most.lanes, max(1, lanes)))


def _nodes(instance: Instance, quantities: Iterable[tuple[str, object]]) -> tuple[int, ...]:
    known = instance.space.quantities
    return tuple(instance.quantity_node(name, about) for name, about in quantities if name in known)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What nobody can do without, by type: products, and sums, of which one instruction does one of each.

    Also of a product and a sum in different stages, if one is inlined in the other.
    """

    counts: Mapping[DType, tuple[int, int]]

    @classmethod
    def of(cls, kinds: Mapping[Kind, int]) -> Arithmetic:
        dtypes = dict.fromkeys(dtype for _, dtype in kinds)
        return cls({dtype: (kinds.get(("*", dtype), 0), kinds.get(("+", dtype), 0)) for dtype in dtypes})

    @property
    def products(self) -> int:
        return sum(products for products, _ in self.counts.values())

    @property
    def sums(self) -> int:
        return sum(sums for _, sums in self.counts.values())


def on_cpu_ns(needed: Sequence[tuple[Arithmetic, Share]], rates: Rates) -> float:
    """Products are for units that multiply; sums alone, for any."""

    def per_ns(unit: Unit, dtype: DType, share: Share) -> float:
        """Elements, in the best vectors of powers of two."""
        widths = (1 << n for n in range(share.lanes.bit_length()))
        return share.tasks * max(rates.elements(unit, dtype, lanes) for lanes in widths)

    multiplied_ns = sum(
        (
            products / per_ns("multiply", dtype, share)
            for arithmetic, share in needed
            for dtype, (products, _) in arithmetic.counts.items()
        ),
        0.0,
    )
    return max(multiplied_ns, _together_ns(needed, lambda dtype, share: per_ns("any", dtype, share)))


def on_gpu_ns(needed: Sequence[tuple[Arithmetic, Share]], device: GpuDevice) -> float:
    """Of 16 bits, an instruction could do two at once."""

    def per_ns(dtype: DType, share: Share) -> float:
        rate = device.throughput.f64 if dtype is DType.F64 else device.throughput.f32 * 4 / dtype.nbytes
        return share.tasks * rate * share.lanes / device.warp * device.clock_ghz

    return _together_ns(needed, per_ns)


def _together_ns(
    needed: Iterable[tuple[Arithmetic, Share]], per_ns: Callable[[DType, Share], float]
) -> float:
    """Of each type the products or the sums, whichever take longer: an instruction may do one of each."""
    products_ns, sums_ns = (defaultdict[DType, float](float) for _ in range(2))
    for arithmetic, share in needed:
        for dtype, (products, sums) in arithmetic.counts.items():
            instructions = per_ns(dtype, share)
            products_ns[dtype] += products / instructions
            sums_ns[dtype] += sums / instructions
    return sum((max(products_ns[dtype], sums_ns[dtype]) for dtype in products_ns), 0.0)

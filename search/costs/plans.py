"""Schedules of pipelines to begin with: stages in groups, the points of each group shared out among threads.

In: the instance of a pipeline, the work of its steps, a generator. Out: a plan. Of the stages that compute
little, some are inlined. All others are parted into groups of about as many as is drawn, often of one: what
is in a group is computed for each tile of the one that is read from outside. By itself, a stage is computed
in rows as long as images are on a CPU, or in parts of what few points sum up, in small tiles of a point for
each thread on a GPU. That is never far from good, where a random schedule of many stages mostly is; what is
better is for a walk to find.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import numpy as np

from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.pipeline.backbone import FULL, MOST_PARTIAL_BYTES, Box, Kernel, Slot, SlotName, Step
from spacedsl.search.costs.model import Plan
from spacedsl.search.costs.work import CALL, Work

INLINED = 0.8
"""The probability for what computes little, and for all accumulations over few points together."""

LITTLE = (0.0, 2.0, 6.0, 12.0)
"""Instructions of a point: of stages with no more, many are inlined; how many count as few is drawn."""

COPIED = 0.3
"""The probability, on a GPU, for an input that may be copied for each tile. Caches of CPUs need it seldom."""

MOST_TASKS = 16
"""For each thread of a CPU, so many parts of a stage at most."""

GROUPS = (1, 1, 2, 3, 4, 6, 8, 16)
"""Stages that are computed together on a CPU, about; how many is drawn."""

WIDTHS = (FULL, FULL, 512, 256, 128, 64)
HEIGHTS = (4, 8, 16, 32, 64, 128)
"""Of the tiles of a group: along rows, and along all other dimensions together; which ones is drawn."""

BLOCKS = ((0, 0), (0, 0), (1, 2), (1, 4), (2, 2), (2, 4))
"""What is unrolled: vectors along rows, and rows; nothing for half of all plans."""

SLIDING = 0.3
"""The share of plans in which what is in a group is computed row by row, and slides from one to the next."""

STRIPS = (1, 2, 4, 8)
"""Rows, or what else there is of the outermost dimension, that are computed before the next ones."""

FEW = 8
"""Points along a dimension that is never cut for a group: as of colours, which often need the same."""

TILES = ((32, 4), (32, 8), (64, 4), (128, 1), (128, 2))
"""Of blocks of a GPU: points along rows, and rows. There is a thread for each of them."""

SUMMED = (1, 4, 16)
"""Points of a range that a thread of a GPU goes through by itself; how many is drawn."""

EXCHANGED = 0.4
"""The share of plans for a GPU in which a warp goes through the range of a reduction's point."""

WARPS = 8
"""Of a block, then."""

BUSY = 1 << 14
"""Threads of a GPU: where a reduction has fewer points, threads have parts of its ranges."""


Role = Literal["alone", "group", "member"]
"""Of a step: by itself; with the loops of a group; computed in these."""


def cpu_plan(
    instance: Instance, work: Mapping[Step, Work], device: CpuDevice, rng: np.random.Generator
) -> Plan:
    tasks = device.threads * int(rng.integers(1, MOST_TASKS + 1))
    tile = int(rng.choice(WIDTHS)), int(rng.choice(HEIGHTS))
    vectors, rows = BLOCKS[int(rng.integers(len(BLOCKS)))]
    across = float(rng.random())
    strip = int(rng.choice(STRIPS)) if float(rng.random()) < SLIDING else 0

    def tiles(step: Step, role: Role) -> Mapping[Box, int]:
        widest = max((work[each].widest for each in (step, *step.sources)), default=1)
        block = _block(step, vectors * device.vector_bytes // widest, rows, across) if rows else {}
        if role == "member":
            return block
        if role == "group" and strip:
            return {**block, **_rows(step, tasks), **_strip(step, strip)}
        return {**block, **(_tiles(step, tile, tasks) if role == "group" else _rows(step, tasks))}

    return _plan(instance, work, tiles, int(rng.choice(GROUPS)), "CHUNK" if strip else "TASK", 0.0, rng)


def gpu_plan(
    instance: Instance, work: Mapping[Step, Work], device: GpuDevice, rng: np.random.Generator
) -> Plan:
    tile = TILES[int(rng.integers(len(TILES)))]
    own = int(rng.choice(SUMMED))
    are_exchanged = float(rng.random()) < EXCHANGED

    def tiles(step: Step, role: Role) -> Mapping[Box, int]:
        if role == "member":
            return {}
        if are_exchanged and step.exchanged and step.is_accumulation:
            return dict(_warps(step, device.warp, own))
        return dict(_threads(step, tile, own))

    return _plan(instance, work, tiles, 1, "TASK", COPIED, rng)


def _plan(
    instance: Instance,
    work: Mapping[Step, Work],
    tiles: Callable[[Step, Role], Mapping[Box, int]],
    size: int,
    within: SlotName,
    copied: float,
    rng: np.random.Generator,
) -> Plan:
    kernel = instance.kernel
    assert isinstance(kernel, Kernel)
    few = float(rng.choice(LITTLE))
    are_sums_inlined = float(rng.random()) < INLINED
    alone = {step.stage.name for step in kernel.inner if float(rng.random()) < 1 / size}
    # Of what values say where, all may be needed for each tile.
    alone |= {read.source for step in kernel.inner for read in work[step].reads if read.is_looked_up}
    sums = {step.stage.name for step in kernel.inner if step.stage.updates and step.is_inlinable}
    sites: dict[Step, str] = {}
    for step in kernel.inner:
        is_little = work[step].vector + CALL * work[step].scalar <= few and float(rng.random()) < INLINED
        # What adds up for each point is computed once, where the sum goes.
        is_little &= not are_sums_inlined or sums.isdisjoint(read.source for read in work[step].reads)
        is_inlined = step.is_inlinable and (are_sums_inlined if step.stage.updates else is_little)
        # All that is between it and its host would be in the group, too.
        is_alone = step.stage.name in alone or step.cap == "ROOT" or len(step.between) > size
        if step.is_copy:
            is_inlined, is_alone = float(rng.random()) >= copied, False
        sites[step] = "INLINE" if is_inlined else "ROOT" if is_alone else within
    groups = {_owner(step, sites) for step, site in sites.items() if site == within}
    found: list[tuple[str, Box | Slot | Step, str | int]] = [
        ("site", step, site) for step, site in sites.items()
    ]
    for step in kernel.inner:
        role: Role = "group" if step in groups else "member" if sites[step] == within else "alone"
        own_tiles = tiles(step, role) if sites[step] != "INLINE" else {}
        if step.parted is not None and "reduce" in instance.space.choices:
            is_shared = any(box.is_range and size != FULL for box, size in own_tiles.items())
            found.append(("reduce", step, _way(instance, step, own_tiles, rng) if is_shared else "SERIAL"))
        found += [("tile", box, own_tiles.get(box, FULL)) for box in step.loops]
    if "innermost" in instance.space.choices:
        found += [("innermost", slot, 0) for slot in kernel.orderable]
    if "layout" in instance.space.choices:
        found += [("layout", step, 0) for step in kernel.arrangeable]
    if within == "CHUNK" and "window" in instance.space.choices:
        found += [("window", step, "SLIDING") for step in kernel.slidable]
    variables = [instance.variable(choice, item) for choice, item, _ in found]
    return [(v, 1 << v.universe.index(value)) for v, (_, _, value) in zip(variables, found, strict=True)]


def _way(instance: Instance, step: Step, tiles: Mapping[Box, int], rng: np.random.Generator) -> str:
    """How the points of its ranges are shared out."""
    is_exchanged = step.is_accumulation and not any(b.is_range and b.slot == "TASK" for b in tiles)
    ways = [str(way) for way in instance.variable("reduce", step).universe if way != "SERIAL"]
    if is_exchanged and "SHUFFLE" in ways:
        return "SHUFFLE"
    possible = [way for way in ways if way != "SHUFFLE" and (way != "ATOMIC" or step.is_sum)]
    return possible[int(rng.integers(len(possible)))]


def _rows(step: Step, tasks: int) -> Mapping[Box, int]:
    """The tiles of the outermost dimension that has as many points, or else of the longest: about so many.

    Where a reduction has not as many points, tasks have parts of its range.
    """
    points = {dim: step.points(dim) for dim in step.variables}
    if step.parted is not None and math.prod(points.values()) < tasks:
        length = step.points(step.parted.dim)
        parts = min(tasks, length, max(1, MOST_PARTIAL_BYTES // step.part_bytes))
        box, size = _tile(step.parted, -(-length // parts))
        return {} if size == FULL else {box: size}
    if not points:
        return {}
    longest = max(points, key=points.__getitem__)
    chosen = next((dim for dim in reversed(step.variables) if points[dim] >= tasks), longest)
    return dict([_tile(step.box(chosen, "TASK"), points[chosen] // tasks)])


def _owner(step: Step, sites: Mapping[Step, str]) -> Step:
    """The step of the group that has its loops."""
    while step.host is not None and sites.get(step) != "ROOT":
        step = step.host
    return step


def _tiles(step: Step, tile: tuple[int, int], tasks: int) -> Mapping[Box, int]:
    """Not so high that there are fewer than so many."""
    width, height = tile
    found: dict[Box, int] = {}
    for place, dim in enumerate(step.variables):
        points = step.points(dim)
        if points <= FEW:
            continue
        wanted = width if place == 0 else min(height, max(1, points // tasks))
        box, size = _tile(step.box(dim, "TASK"), wanted)
        found[box] = size
        if place:
            height = max(1, height // max(1, size))
    return found


def _strip(step: Step, count: int) -> Mapping[Box, int]:
    """Of the outermost dimension that is not cut otherwise: the second one."""
    return dict([_tile(step.box(step.variables[1], "CHUNK"), count)]) if len(step.variables) > 1 else {}


def _block(step: Step, width: int, rows: int, across: float) -> Mapping[Box, int]:
    """Along rows, and along one of the other dimensions: the one at that place from 0 to 1 among them."""
    along, *others = step.variables or ("",)
    if not others:
        return {}
    other = others[int(across * len(others))]
    return dict([_tile(step.box(along, "REG"), width), _tile(step.box(other, "REG"), rows)])


def _threads(step: Step, tile: tuple[int, int], own: int) -> Iterator[tuple[Box, int]]:
    """Blocks of so many threads; along further dimensions, a block for each point.

    Of a reduction with few points they are along its ranges, `own` points of the innermost one for each.
    """
    if step.exchanged and math.prod(step.points(dim) for dim in step.variables) < BUSY:
        ranges = [dim for dim in step.dims if dim not in step.variables]
        parts = math.prod(step.points(dim) for dim in ranges) // own
        # Tiles that do not divide what they are of give more of them.
        most = max(1, MOST_PARTIAL_BYTES // (2 * step.part_bytes))
        own *= max(1, -(-parts // most))
        for place, dim in enumerate(ranges):
            each = own if place == 0 else 1
            yield _tile(step.box(dim, "TASK"), each * tile[place] if place < len(tile) else 1)
            yield _tile(step.box(dim, "LANE"), each)
        return
    for place, dim in enumerate(step.variables):
        yield _tile(step.box(dim, "TASK"), tile[place] if place < len(tile) else 1)
        yield _tile(step.box(dim, "LANE"), 1)


def _warps(step: Step, warp: int, own: int) -> Iterator[tuple[Box, int]]:
    """A warp for each point, of which each thread goes through `own` neighbours along the innermost range."""
    (threads,) = step.exchanged
    length = step.points(threads.dim)
    while own * warp > length and own > 1:
        own //= 2
    wide = min(warp, 1 << (length // own).bit_length() - 1)
    if own * wide < length:
        yield _tile(step.box(threads.dim, "CHUNK"), own * wide)
    yield _tile(threads, own)
    for place, dim in enumerate(step.variables):
        yield _tile(step.box(dim, "TASK"), WARPS if place == 0 else 1)
        yield _tile(step.box(dim, "LANE"), 1)


def _tile(box: Box, wanted: int) -> tuple[Box, int]:
    """The largest tile on offer with no more points; all of the box where there is none."""
    return box, max((size for size in box.sizes if size <= max(1, wanted)), default=FULL)

"""Pipelines of every kind, so small that schedules of them can be carried out, and random schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np

from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.backbone import FULL, Kernel
from spacedsl.kernels.pipeline.kernel_file import PIPELINE_SPACE, PipelineFile
from spacedsl.language.loader import load_space
from spacedsl.search.costs.estimates import Estimate
from spacedsl.search.orderings import branches_of, select_ordering
from spacedsl.search.run import decided
from tests.codegen.devices import DEVICE
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.pointwise import Point, held

IMAGE = "{image: {dtype: i32, rank: 2}}"

ONE_THREAD, FOUR_THREADS = (DEVICE.model_copy(update={"threads": count}) for count in (1, 4))
"""One has something to do, whatever a schedule says."""

PIPELINES = {
    "blur": (
        "bx(x, y) = image(x, y) + image(x + 1, y); by(x, y) = bx(x, y) + bx(x, y + 2)",
        "{by: {x: 9, y: 7}}",
    ),
    "a chain": (
        "a(x) = image(x, 0); b(x) = a(x - 1) + a(x + 1); c(x) = b(x - 1) * b(x + 1); d(x) = c(x) + c(x + 2)",
        "{d: {x: 13}}",
    ),
    "a stage called exit": ("exit(x) = image(x, 0); b(x) = exit(x) + exit(x + 1)", "{b: {x: 7}}"),
    "rows": (
        "a(x, y) = image(x, y); b(x, y) = a(x, y - 1) + a(x, y + 1); c(x, y) = b(x, y - 1) * b(x + 1, y + 1)",
        "{c: {x: 5, y: 11}}",
    ),
    "rows at two paces": (
        "a(x, y) = image(x, y); d(x, y) = a(x, 2 * y) - a(x, 2 * y + 1); "
        "u(x, y) = d(x, y / 2) + 3 * d(x + 1, (y + 1) / 2); o(x, y) = u(x, y) + u(x, y + 1) + a(x, y)",
        "{o: {x: 4, y: 9}}",
    ),
    "a fork": (
        "a(x) = image(x, 0); b(x) = a(x - 2); c(x) = a(x + 3) * 2; d(x) = b(x) + c(x)", "{d: {x: 11}}"
    ),
    "a host that may be inlined": (
        "a(x) = image(x, 0); b(x) = a(x) + a(x + 1); c(x) = b(x); d(x) = b(x + 1); e(x) = c(x) + d(x + 1)",
        "{e: {x: 7}}",
    ),
    "two outputs": (
        "a(x) = image(x, 1); b(x) = a(x) + 1; c(x) = a(x + 1) * b(x)", "{b: {x: 6}, c: {x: 5}}"
    ),
    "downsampling": (
        "a(x) = image(x, 0); b(x) = a(2 * x) + a(2 * x + 1); c(x) = b(x) - b(x + 1)", "{c: {x: 7}}"
    ),
    "upsampling": (
        "a(x) = image(x, 0); b(x) = a(x / 2 - 1 + 2 * (x % 2)) + 3 * a(x / 2); c(x) = b(x) + b(x + 1)",
        "{c: {x: 13}}",
    ),
    "updates along rows and across": (
        "a(x, y) = image(x, y); f(x, y) = a(x, y); f(r, y) = f(r - 1, y) + f(r, y) for r in 1:7; "
        "f(x, y) = f(x, y) * 2 + x; h(x) = 0; h(clamp(f(r, 0), 0, 6)) += 1 for r in 0:8; "
        "h(x) += f(x, r) for r in 0:3; o(x) = f(x, 1) + h(x)",
        "{o: {x: 8}}",
    ),
    "a pyramid": (
        "a(x) = image(x, 0); d(x) = a(2 * x - 1) + a(2 * x + 1); u(x) = d(x / 2) + d((x + 1) / 2); "
        "l(x) = a(x) - u(x); o(x) = l(x) + l(x + 1)",
        "{o: {x: 12}}",
    ),
    "two phases": ("a(x) = image(x, 0); b(x) = a(2 * x); c(x) = a(x) + b(x / 2)", "{c: {x: 11}}"),
    "a slow and a fast reader": ("a(x) = image(x, 0); b(x) = a(3 * x); c(x) = a(x) + b(x)", "{c: {x: 9}}"),
    "mirrored": ("a(x) = image(x, 0); b(x) = a(-x); c(x) = b(x) + b(x + 1)", "{c: {x: 9}}"),
    "transposed": (
        "a(x, y) = image(x, y); b(x, y) = a(y, x + 1); c(x, y) = b(x, y) + b(x + 1, y)", "{c: {x: 6, y: 5}}"
    ),
    "clamped": (
        "a(x) = image(x, 0); b(x) = a(clamp(x - 2, 0, 5)) + a(clamp(x + 2, 0, 5)); c(x) = b(x) + b(x + 1)",
        "{c: {x: 12}}",
    ),
    "clamped and not": (
        "a(x) = image(x, 0); b(x) = a(clamp(x, 2, 5)) + a(x); c(x) = b(x) - b(x + 1)", "{c: {x: 12}}"
    ),
    "clamped above": (
        "z(x) = image(x, 0); a(x) = z(x) + 1; b(x) = a(clamp(x, 2, 5)); c(x) = b(x) + z(x)", "{c: {x: 12}}"
    ),
    "a table": (
        "t(i) = i * i; a(x) = image(x, 0); b(x) = t(clamp(a(x), 0, 22)) + a(x + 1)", "{b: {x: 8}}"
    ),
    "padded and pooled": (
        "g(x) = image(x, 0) * 2; p(x) = select(x >= 0 && x < 4, g(clamp(x, 0, 3)), 0); s(x) = 0; "
        "s(x) += p(x + i - 1) for i in 0:3; l(x) = max(s(x), 0); f(x) = max(l(2 * x), l(2 * x + 1))",
        "{f: {x: 2}}",
    ),
    "colours": (
        "a(x, y) = image(x, y) * 3; b(x, c) = mux(c, a(x, 0), a(x + 1, 1) - 2, image(2 * x, 2)); "
        "f(x, c) = b(x, c) + select(c != 1, b(x + 1, c), 0)",
        "{f: {x: 9, c: 3}}",
    ),
    "a slice": (
        "t(x, i) = image(x, i) + i; a(x) = image(x, 0); b(x) = t(x / 2, clamp(a(x), 0, 5)); "
        "c(x) = t(clamp(a(x + 1), 0, 4), x % 3) + b(x) + b(x + 1)",
        "{c: {x: 21}}",
    ),
    "a sum": (
        "f(x, y) = sum[r in 0:5](image(x + r, y)); g(x, y) = f(x, y) - f(x, y + 1)", "{g: {x: 7, y: 3}}"
    ),
    "a product": (
        "a(x, k) = image(x, k) + 1; f(x, y) = sum[k in 0:6](a(x, k) * image(k, y)); "
        "g(x, y) = max(f(x, y), 0)",
        "{g: {x: 5, y: 4}}",
    ),
    "a histogram": (
        "a(x, y) = image(x, y); rows(i, y) = 0; rows(clamp(a(r, y), 0, 22), y) += 1 for r in 0:6; "
        "h(i) = 0; h(i) += rows(i, r) for r in 0:5; g(i) = h(i) * 2",
        "{g: {i: 23}}",
    ),
    "a histogram of each column": (
        "a(x, y) = image(x, y); h(x, i) = 0; h(x, clamp(a(x, r), 0, 5)) += r + 1 for r in 0:5; "
        "g(x, i) = h(x, i) - h(x + 1, i)",
        "{g: {x: 9, i: 6}}",
    ),
    "a scan": (
        "a(x, y) = image(x, y); f(x, y) = a(x, y); f(x, r) = f(x, r - 1) * 2 + f(x, r) for r in 1:6; "
        "f(x, 4 - r) += f(x, 5 - r) for r in 0:5; g(x, y) = f(x, y) + f(x + 1, y)",
        "{g: {x: 6, y: 6}}",
    ),
    "a scan over two ranges": (
        "f(x) = x; f(x) = f(x) * 3 + image(r * x, s) for r in 0:5, s in 0:4; g(x) = f(x) - f(x + 1)",
        "{g: {x: 3}}",
    ),
    "two updates": (
        "f(x) = image(x, 0); f(x) += image(x, r) for r in 1:4; "
        "f(x) max= image(r, x) for r in 0:3 where r != x; g(x) = f(x) - f(x + 1)",
        "{g: {x: 9}}",
    ),
    "two values": ("f(x) = argmin[r in 0:7](image(x, r)); g(x) = f(x) + f(x + 1)", "{g: {x: 8}}"),
    "values that change places": (
        "f(x) = (image(x, 0), x); f(x) = (f(x).1 + image(x, r), f(x).0) for r in 0:3; "
        "g(x, y) = (image(x, y), x + y); "
        "g(x, r) = (g(x, r).1 + f(x).1, g(x, r).0) for r in 0:4 where r != x; "
        "h(x, y) = f(x).0 - g(x + 1, y).1 + g(x, y).0",
        "{h: {x: 7, y: 4}}",
    ),
    "the best of many": (
        "a(x, y) = image(x, y) % 3; f(x) = (9, f32(1), x); "
        "f(x) = (q, f32(a(r + x, q)), r) for r in 0:3, q in 0:7 where r != x && f32(a(r + x, q)) > f(x).1; "
        "f(x) = (select(a(x, r) + 5 >= f(x).0, a(x, r) + 5, f(x).0), "
        "select(a(x, r) + 5 >= f(x).0, f32(r), f(x).1), select(a(x, r) + 5 >= f(x).0, r + x, f(x).2)) "
        "for r in 0:6; "
        "l(i) = (20, 3); l(a(r, 1) + 1) = (r, a(r, 0)) for r in 0:9 where a(r, 0) < l(a(r, 1) + 1).1; "
        "g(x) = f(x).0 * 10000 + i32(f(x).1) * 100 + f(x).2 - 7 * l(x % 4).0 + l(x % 4).1",
        "{g: {x: 9}}",
    ),
    "reductions of every kind": (
        "a(x, y) = u8(image(x, y)); s(i) = (i, u8(250), f32(0.5)); "
        "s(clamp(i32(a(r, q)) - 9, 0, 4)) = (s(clamp(i32(a(r, q)) - 9, 0, 4)).0 * (r + q + 1), "
        "min(s(clamp(i32(a(r, q)) - 9, 0, 4)).1, a(q, r)), "
        "s(clamp(i32(a(r, q)) - 9, 0, 4)).2 + f32(a(q, r))) for r in 0:6, q in 0:7 where a(r, q) != 3; "
        "b(x) = (u8(x), u8(255), x > 3); "
        "b(x) = (b(x).0 | a(x, r), b(x).1 & a(r, x), b(x).2 ^ (a(x, r) > 9)) for r in 0:9; m(x) = f32(x); "
        "m(x) max= f32(a(r, x)) for r in 2:8; m(x) min= f32(20 - a(x, r)) for r in 0:5; "
        "g(x) = s(x % 5).0 - i32(s(x % 5).1) + i32(s(x % 5).2) + i32(b(x).0) * i32(b(x).1) "
        "+ select(b(x).2, 5, 7) + i32(m(x))",
        "{g: {x: 12}}",
    ),
    "sums of rows": (
        "w(k) = image(k, 2) + 1; f(y) = image(y, 0); f(y) += image(k + 1, y) * w(k + r) "
        "for k in 0:37, r in 0:2 where k != y; f(y) max= image(k, y) - y for k in 3:27; "
        "g(y) = f(y) - f(y + 1)",
        "{g: {y: 5}}",
    ),
    "one value": (
        "t() = 5; t() += image(r, q) * r for r in 0:9, q in 0:5; g(x) = image(x, 0) - t()",
        "{g: {x: 5}}",
    ),
    "updates of an output": ("f(x) = image(x, 0); f(x) += image(x, r) for r in 1:4", "{f: {x: 9}}"),
}  # fmt: skip


@cache
def rules() -> CompiledSpace:
    return compile_space(load_space(PIPELINE_SPACE))


@lru_cache(maxsize=4)
def instance(kernel: Kernel, device: CpuDevice = ONE_THREAD) -> Instance:
    return instantiate(rules(), kernel, device, Engine.NATIVE)


def scheduled(
    here: Instance,
    sites: Mapping[str, str],
    tiles: Mapping[str, int],
    sliding: Collection[str] = (),
    innermost: Mapping[str, int] | None = None,
    reduce: str | None = None,
    layouts: Mapping[str, int] | None = None,
) -> Candidate:
    """The complete candidate with these sites and tiles; what is not named is at ROOT, without loops.

    Inputs are not copied unless they are named, nothing slides; loops, and dimensions of what is kept, are in
    their usual order.
    `reduce` says of reductions that have parts how these are shared out.
    """
    root, kernel = here.root(), here.kernel
    assert root is not None
    assert isinstance(kernel, Kernel)
    usual = {s.name: "INLINE" if s.is_copy else "ROOT" for s in kernel.inner}
    decisions = [Decision("site", (name,), (sites.get(name, site),)) for name, site in usual.items()]
    decisions += [Decision("tile", (b.name,), (tiles.get(b.name, FULL),)) for b in kernel.loops]
    if "window" in root.instance.space.choices:
        windows = {s.name: "SLIDING" if s.name in sliding else "FRESH" for s in kernel.slidable}
        decisions += [Decision("window", (name,), (window,)) for name, window in windows.items()]
    places = {slot.name: (innermost or {}).get(slot.name, 0) for slot in kernel.orderable}
    decisions += [Decision("innermost", (name,), (place,)) for name, place in places.items()]
    ways_to_lie = {step.name: (layouts or {}).get(step.name, 0) for step in kernel.arrangeable}
    decisions += [Decision("layout", (name,), (place,)) for name, place in ways_to_lie.items()]
    chosen = decided(here, root, decisions)
    if reduce is None:
        return chosen
    ways = [v for v in here.variables if v.choice == "reduce"]
    return here.restrict_allowed(chosen, [(v, 1 << v.universe.index(reduce)) for v in ways])


def inputs_of(file: PipelineFile) -> dict[str, Callable[[Point], Any]]:
    """Small numbers, everywhere."""

    def element(number: int, dtype: DType, point: Point) -> Any:
        mixed = 7 * sum((axis + 3) * at for axis, at in enumerate(point)) + 11 * number
        return held(mixed % 23, dtype)

    return {i.name: partial(element, n, i.dtype) for n, i in enumerate(file.algorithm.inputs)}


def drawn(
    file: PipelineFile,
    count: int,
    seed: int,
    counts: DescentCounts,
    apart: float = 0.0,
    device: CpuDevice = ONE_THREAD,
) -> Iterator[Candidate]:
    """Random complete candidates with the decisions of the file, without those of descents that end before.

    `apart`: the share of steps that are at ROOT whatever is drawn.
    """
    here = instance(file.backbone, device)
    root = here.root()
    assert root is not None
    root = decided(here, root, file.decisions)
    branches = branches_of(select_ordering(here, rules().space, None))
    generator = np.random.default_rng(seed)
    for _ in range(count):
        start = put_apart(root, apart, generator)
        candidate = random_descent(here, start, branches, generator, counts)
        if candidate is not None:
            yield candidate


def put_apart(root: Candidate, share: float, generator: np.random.Generator) -> Candidate:
    """With such a share of all steps at ROOT, as far as they can be there: what is inlined or computed where
    it is needed, step after step of a chain, is computed millions of times.
    """
    if not share:
        return root
    kernel = root.instance.kernel
    assert isinstance(kernel, Kernel)
    for step in kernel.inner:
        if generator.random() < share:
            decided_root = root.instance.decide(root, Decision("site", (step.name,), ("ROOT",)))
            root = root if decided_root is None else decided_root
    return root


def moderate(
    draw: Callable[[int, float], Iterator[Candidate]],
    size: Callable[[Candidate], float],
    count: int,
    most: float,
) -> Iterator[Candidate]:
    """At most so many random candidates that compute no more points: of any, then of those with more and more
    steps apart. `draw`: some, with such a share of steps apart. `size`: the points of one.
    """
    tried = (c for apart in (0.0, 0.5, 0.75, 0.9) for c in draw(2 * count, apart))
    return islice((c for c in tried if size(c) <= most), count)


def points(estimate: Estimate) -> float:
    """Of all steps that are not inlined, with those that are computed again."""
    steps = [step for steps in estimate.nests().values() for step in steps]
    boxes = ((estimate.iterations(step, "REG"), estimate.extents(step, "REG").values()) for step in steps)
    return sum(times * math.prod(extents) for times, extents in boxes)


def named(case: str) -> PipelineFile:
    stages, outputs = PIPELINES[case]
    return pipeline(stages.replace("; ", "\n"), outputs, IMAGE)

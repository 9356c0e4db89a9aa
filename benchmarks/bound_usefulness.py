"""How much of a space the bound cuts before it is explored: nodes that are left, level by level.

    python -m benchmarks.bound_usefulness [KERNEL.yaml ..] [--cut matmul=6.1ms ..] [--time 60s] [--samples 0]

The cut is the best time of a kernel: given, or what an exploration of `--time` finds. A level is one decision
with more than one valid group of values. The table shows the first level with more than --nodes nodes, in the
default order of the space and in the reverse one: its nodes, and the share that no bound has cut (as in
sections 5.4 and 5.5 of "On the Representation of Partially Specified Implementations").
Levels up to --nodes nodes are counted; of a larger one, the children of a random part of the level before,
and the share is an estimate with a standard error.

`--samples N` asks what a perfect bound would leave: below N random nodes that are left at that level, the
search looks for a while (--search) for an implementation that is faster than the cut, or as fast within
--tolerance. Such a node no true bound can cut. Their share of all nodes is a least one, since searching ends;
beside it stands of how many nodes that is so, and for how many the search found no implementation at all.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import LIBRARY
from benchmarks.arguments import duration_s, existing_file, positive, run
from spacedsl import api
from spacedsl.api.problem import Problem, pose
from spacedsl.cli.options import parse_sizes
from spacedsl.codegen.characterize import local_device
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.engine.candidate import Candidate, Decision
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.descent import Bounded, Descent
from spacedsl.search.events import Event, NewBest
from spacedsl.search.orderings import select_ordering
from spacedsl.search.policies import POLICIES
from spacedsl.search.results import Stop
from spacedsl.search.run import Options, Search

_DEFAULT = ("axpy", "matmul_small", "matmul", "matmul_strided")
_ORDERS = {"default": None, "reverse": "order, dim_kind, size"}
_EXPANDED = 20_000
"""Nodes whose children are looked at where a level is estimated."""


@dataclass(frozen=True, slots=True)
class Level:
    """The nodes at one depth. `left`: those that are not cut, and none of whose ancestors is."""

    depth: int
    nodes: float
    left: float
    error: float
    """Standard error of the share; 0 where all was counted."""

    @property
    def share(self) -> float:
        return self.left / self.nodes


@dataclass(slots=True)
class Walk:
    """Depth first through the upper levels of a tree."""

    descent: Descent
    cut_ns: float
    random: np.random.Generator

    def levels(self, root: Bounded, most: int) -> Iterator[Level]:
        """Level by level, up to the first with more than `most` nodes."""
        yield Level(0, 1, float(root.bound_ns < self.cut_ns), 0.0)
        before, depth = 1.0, 0
        while True:
            depth += 1
            part = min(1.0, _EXPANDED / before)
            counts = np.array(
                [
                    (len(children), sum(is_left for _, is_left in children))
                    for children in self.families(root, depth - 1, part)
                ],
                float,
            )
            nodes, left = counts.sum(axis=0) if len(counts) else (0.0, 0.0)
            if not nodes:
                return
            level = Level(depth, nodes / part, left / part, _error(counts) if part < 1 else 0.0)
            yield level
            if level.nodes > most:
                return
            before = level.nodes

    def families(self, root: Bounded, depth: int, part: float) -> Iterator[list[tuple[Bounded, bool]]]:
        """The children of each node at a depth, or of a random part of these; whether they are left."""

        def below(node: Bounded, is_left: bool, more: int) -> Iterator[list[tuple[Bounded, bool]]]:
            if more == 0 and part < 1 and self.random.random() >= part:
                return
            children = [
                (child, is_left and child.bound_ns < self.cut_ns)
                for child in self.descent.expand(node).children
            ]
            if more == 0:
                yield children
                return
            for child, stays in children:
                yield from below(child, stays, more - 1)

        yield from below(root, root.bound_ns < self.cut_ns, depth)


def _error(counts: np.ndarray) -> float:
    """Standard error of the ratio of the sums of two columns, over a random sample of rows."""
    ratio = counts[:, 1].sum() / counts[:, 0].sum()
    residuals = counts[:, 1] - ratio * counts[:, 0]
    return (
        float(residuals.std(ddof=1) / counts[:, 0].mean() / math.sqrt(len(counts)))
        if len(counts) > 1
        else 0.0
    )


@dataclass(frozen=True, slots=True)
class Perfect:
    """What the search found below sampled nodes that are left."""

    sampled: int
    fast: int
    """Nodes with an implementation as fast as the cut."""
    empty: int
    """Nodes without any, as far as the search came."""


def perfect(
    walk: Walk, problem: Problem, root: Bounded, level: Level, options: argparse.Namespace
) -> Perfect:
    part = min(1.0, 20 * options.samples / max(1.0, level.left))
    families = walk.families(root, level.depth - 1, part)
    left = [child.candidate for family in families for child, is_left in family if is_left]
    chosen = [left[i] for i in walk.random.permutation(len(left))[: options.samples]]
    found = [_fastest_ns(walk, problem, node, options.tolerance, options.search) for node in chosen]
    enough_ns = options.tolerance * walk.cut_ns
    return Perfect(
        len(found),
        sum(ns is not None and ns <= enough_ns for ns in found),
        sum(ns is None for ns in found),
    )


def _fastest_ns(
    walk: Walk, problem: Problem, node: Candidate, tolerance: float, seconds: float
) -> float | None:
    """The least time that a search below a node meets; it ends where one is low enough."""
    best: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, NewBest):
            best.append(event.timing.time_ns)
            if event.timing.time_ns <= tolerance * walk.cut_ns:
                search.interrupt()

    decisions = [
        Decision(variable.choice, variable.names, variable.values(node.mask(variable)))
        for variable in problem.instance.variables
        if node.mask(variable) != problem.root.mask(variable)
    ]
    search = Search(
        problem.instance,
        bound=walk.descent.bound,
        evaluator=CpuEvaluator(problem.kernel, problem.device),
        ordering=walk.descent.ordering,
        policy=POLICIES["near"](),
        options=Options(seconds=seconds),
        decisions=decisions,
        listener=listen,
    )
    assert search.run().stop is not Stop.CONTRADICTION
    return min(best, default=None)


def best_ns(kernel: KernelFile, time_s: float, seed: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        result = api.explore(kernel.path, time_s=time_s, seed=seed, runs=Path(folder))
    if result.best is None:
        raise SystemExit(f"{kernel.name}: nothing was found in {time_s:g} s; give its best time by --cut")
    return result.best.time_ns


def report(kernel: KernelFile, cut_ns: float, options: argparse.Namespace) -> None:
    device = local_device(progress=lambda activity: print(activity, file=sys.stderr))
    problem = pose(kernel, kernel.space, device, lambda event: None)
    bound = CpuBound(problem.instance, device)
    root = Bounded(problem.root, bound(problem.root))
    for name, spec in _ORDERS.items():
        ordering = select_ordering(problem.instance, problem.space, spec)
        descent = Descent(problem.instance, ordering, bound)
        walk = Walk(descent, cut_ns, np.random.default_rng(options.seed))
        *_, level = walk.levels(root, options.nodes)
        shown = ""
        if options.samples:
            found = perfect(walk, problem, root, level, options)
            share = level.share * found.fast / found.sampled
            shown = f"{share:.1%} ({found.fast}/{found.sampled}, {found.empty})"
        error = f" +- {level.error:.2%}" if level.error else ""
        print(
            f"{kernel.name:16} {name:8} {cut_ns / 1e6:10.4f} {root.bound_ns / cut_ns:10.2f} {level.depth:5} "
            f"{level.nodes:10,.0f} {level.left:10,.0f} {f'{level.share:.2%}{error}':>18} "
            f"{level.nodes / level.left if level.left else math.inf:7.1f} {shown:>18}",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bound_usefulness", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "kernels", nargs="*", type=existing_file, default=[LIBRARY / f"{n}.yaml" for n in _DEFAULT]
    )
    parser.add_argument(
        "--cut", action="append", type=_cut, default=[], metavar="NAME=TIME", help="6.1ms, 13us"
    )
    parser.add_argument("--time", type=duration_s, default="60s")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--nodes", type=positive, default=100_000)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--search", type=duration_s, default=20.0, metavar="TIME")
    parser.add_argument("--tolerance", type=float, default=1.05)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    cuts = dict(options.cut)
    unknown = sorted(cuts.keys() - {path.stem for path in options.kernels})
    if unknown:
        parser.error(f"--cut is of no kernel here: {', '.join(unknown)}")
    print(
        f"{'kernel':16} {'order':8} {'cut, ms':>10} {'root / cut':>10} {'level':>5} {'nodes':>10} "
        f"{'left':>10} {'share':>18} {'factor':>7} {'perfect':>18}"
    )
    for path in options.kernels:
        kernel = load_kernel(path, parse_sizes(options.size))
        cut_ns = cuts.get(path.stem)
        report(kernel, cut_ns or best_ns(kernel, options.time, options.seed), options)
    return 0


def _cut(text: str) -> tuple[str, float]:
    """A kernel, and ns; `ValueError` for another text."""
    name, _, time = text.partition("=")
    for unit, factor in (("us", 1e3), ("ms", 1e6), ("ns", 1.0)):
        if time.endswith(unit):
            return name, float(time.removesuffix(unit)) * factor
    return name, duration_s(time) * 1e9


if __name__ == "__main__":
    run(main)

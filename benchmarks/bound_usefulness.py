"""How much of a space the bound cuts before it is explored: nodes that are left, level by level.

    python -m benchmarks.bound_usefulness [KERNEL.yaml ..] [--record best.json ..] [--cut matmul=6.1ms ..]
                                          [--time 60s] [--samples 0] [--ordering ORDERING ..] [--device k4000]

The cut is the best time of a kernel: given, that of a record, or what an exploration of `--time` finds. A
level is one decision with more than one valid group of values. The table shows the first level with more
than --nodes nodes (of a smaller tree, the one with most), in the default order of the space and in the
reverse one, or in the orders that are given: its nodes, and the share that no bound has cut (as in sections
5.4 and 5.5 of "On the Representation of Partially Specified Implementations"). Levels up to --nodes nodes are
counted; of a larger one, the children of a random part of the level before, and the share is an estimate with
a standard error.

`--device` names a GPU instead of this machine, or its file. Nothing is measured there: cuts are given.

`--samples N` asks what a perfect bound would leave: below N random nodes that are left at that level, an
implementation is looked for (`below.py`) that is as fast as the cut, within --tolerance. Such a node no true
bound can cut. Their share of all nodes is a least one, since looking ends; beside it stands of how many nodes
that is so, and what the fastest programs below the others take, over the cut: quartiles.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import LIBRARY
from benchmarks.arguments import duration_s, existing_file, positive, run, short_ordering
from benchmarks.below import Below
from spacedsl import api, record
from spacedsl.api.problem import Problem, pose
from spacedsl.api.targets import TARGETS
from spacedsl.cli.options import parse_sizes
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.engine.decision import Decision, UnknownDecisionError
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.search.descent import Descent
from spacedsl.search.orderings import select_ordering, select_rollouts
from spacedsl.search.rollouts import Bounded
from spacedsl.search.run import ContradictionError, decided

_DEFAULT = ("axpy", "matmul_small", "matmul", "matmul_strided")
_ORDERS: dict[str, str | None] = {"default": None, "reverse": "order, dim_kind, size"}
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


def asked(levels: Iterable[Level], most: int) -> Level:
    """The first with more than `most` nodes; where there is none, the one with most."""
    widest = Level(0, 0.0, 0.0, 0.0)
    for level in levels:
        if level.nodes > most:
            return level
        widest = max(widest, level, key=lambda level: level.nodes)
    return widest


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
class Best:
    """The best implementation that is known, and its time, which is the cut. It may be all that is known."""

    time_ns: float
    decisions: tuple[Decision, ...] | None


def fastest_below(
    walk: Walk, problem: Problem, best: Best, root: Bounded, level: Level, options: argparse.Namespace
) -> list[float]:
    """What is found below sampled nodes that are left, over the cut."""
    assert best.decisions is not None
    part = min(1.0, 20 * options.samples / max(1.0, level.left))
    families = walk.families(root, level.depth - 1, part)
    left = [child.candidate for family in families for child, is_left in family if is_left]
    known = decided(problem.instance, problem.root, best.decisions)
    assert isinstance(problem.device, CpuDevice)
    with CpuEvaluator(problem.kernel, problem.device) as evaluator:
        enough_ns = options.tolerance * walk.cut_ns
        looking = Below(walk.descent, evaluator, known, enough_ns, options.tries, walk.random)
        return [
            looking.fastest_ns(left[place]) / walk.cut_ns
            for place in walk.random.permutation(len(left))[: options.samples]
        ]


def explored(kernel: KernelFile, time_s: float, seed: int) -> Best:
    with tempfile.TemporaryDirectory() as folder:
        result = api.explore(kernel.path, time=time_s, seed=seed, runs=Path(folder))
        if result.best is None:
            raise SystemExit(f"{kernel.name}: nothing was found in {time_s:g} s; give its best time by --cut")
        return recorded(result.best.decisions)[1]


def recorded(path: Path) -> tuple[str, Best]:
    """The kernel of a record, and what it says."""
    known = record.read(path)
    if not isinstance(known, record.MeasuredRecord):
        raise SystemExit(f"{path}: this implementation is wrong, and has no time")
    return Path(known.kernel.path).stem, Best(known.time_ns, known.as_decisions())


def report(kernel: KernelFile, best: Best, options: argparse.Namespace) -> None:
    target = TARGETS["cuda" if options.device else "cpu"]
    device = target.device(options.device, lambda event: None)
    problem = pose(kernel, kernel.space_for(target.kind), device, lambda event: None)
    bound = target.bound(problem.instance, device)
    root = Bounded(problem.root, bound(problem.root))
    for name, spec in _orders(options).items():
        ordering = select_ordering(problem.instance, problem.space, spec)
        rollouts = select_rollouts(problem.instance, problem.space, spec)
        descent = Descent(problem.instance, ordering, bound, rollouts=rollouts)
        walk = Walk(descent, best.time_ns, np.random.default_rng(options.seed))
        level = asked(walk.levels(root, options.nodes), options.nodes)
        shown = ""
        if options.samples:
            times = fastest_below(walk, problem, best, root, level, options)
            shown = _perfect(level, times, options.tolerance)
        error = f" +- {level.error:.2%}" if level.error else ""
        print(
            f"{kernel.name:16} {name:8} {best.time_ns / 1e6:10.4f} {root.bound_ns / best.time_ns:10.2f} "
            f"{level.depth:5} {level.nodes:10,.0f} {level.left:10,.0f} {f'{level.share:.2%}{error}':>18} "
            f"{level.nodes / level.left if level.left else math.inf:7.1f} {shown}",
            flush=True,
        )


def _orders(options: argparse.Namespace) -> dict[str, str | None]:
    """What `--ordering` takes, by what the table calls it."""
    return {short_ordering(spec): spec for spec in options.ordering} or _ORDERS


def _perfect(level: Level, times: Sequence[float], tolerance: float) -> str:
    """The least share that a perfect bound leaves, of how many nodes, and the fastest below the others."""
    if not times:
        return "no node is left"
    slow = [time for time in times if time > tolerance]
    fast = len(times) - len(slow)
    quartiles = np.quantile(slow, (0.25, 0.5, 0.75), method="nearest") if slow else ()
    return " ".join(
        [
            f"{level.share * fast / len(times):.1%} ({fast}/{len(times)})",
            *(f"{time:.2f}" for time in quartiles),
        ]
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
    parser.add_argument(
        "--record", action="append", type=existing_file, default=[], metavar="best.json", help="of a kernel"
    )
    parser.add_argument(
        "--ordering",
        action="append",
        default=[],
        help="a name, or items; repeatable, instead of the default and the reverse one",
    )
    parser.add_argument("--device", metavar="NAME|FILE", help="a GPU: h100")
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--tries", type=positive, default=40)
    parser.add_argument("--tolerance", type=float, default=1.05)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    known = {name: Best(time_ns, None) for name, time_ns in options.cut}
    known |= dict(map(recorded, options.record))
    unknown = sorted(known.keys() - {path.stem for path in options.kernels})
    if unknown:
        parser.error(f"there is no kernel here whose time this is: {', '.join(unknown)}")
    missing = [path.stem for path in options.kernels if options.device and path.stem not in known]
    if missing or (options.device and options.samples):
        parser.error("on a GPU nothing is measured here: give --cut for each kernel, and no --samples")
    if options.samples and any(best.decisions is None for best in known.values()):
        parser.error("--samples begins with what is known: instead of --cut, give --record")
    print(
        f"{'kernel':16} {'order':8} {'cut, ms':>10} {'root / cut':>10} {'level':>5} {'nodes':>10} "
        f"{'left':>10} {'share':>18} {'factor':>7} perfect"
    )
    for path in options.kernels:
        kernel = load_kernel(path, parse_sizes(options.size), "gpu" if options.device else "cpu")
        best = known.get(path.stem) or explored(kernel, options.time, options.seed)
        try:
            report(kernel, best, options)
        except (UnknownDecisionError, ContradictionError) as error:
            raise SystemExit(f"{kernel.name}: its record does not fit: {error}") from None
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

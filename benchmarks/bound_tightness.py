"""How tight each term of the bound is: micro-kernels that wait for one resource, beside their bounds.

    python -m benchmarks.bound_tightness [CASE ..] [--leaves 6] [--seed 0] [--device h100] [--json FILE]

A case is a kernel and decisions that leave one resource scarce. Some of its implementations are drawn, those
with low bounds more often, and measured; the fastest is shown: its time, its bound and the term that is the
bound, the time of the term that the case is about, and the bound of the root, before any decision. A ratio
below 1 would be a violation: exit status 1. A term that is no bound of its case is marked.

`--device` names a GPU instead of this machine, or its file. Nothing is measured there: times are predicted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.arguments import new_file, positive, run, write_document
from benchmarks.gpu_micro_kernels import CASES as GPU_CASES
from spacedsl.api.problem import Problem, pose
from spacedsl.api.targets import TARGETS, Target
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.prediction import predict
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.running.measurement import Options
from spacedsl.engine.decision import Decision
from spacedsl.kernels.device import Device
from spacedsl.kernels.evaluation import Outcome
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.descent import Descent
from spacedsl.search.orderings import select_ordering, select_rollouts
from spacedsl.search.rollouts import Bounded, Cut, Implementation
from spacedsl.search.run import decided
from spacedsl.search.state import is_violation

PRODUCT = """
kernel: product
backbone: linalg
sizes: {{m: {m}, n: {n}, k: {k}}}
tensors:
  A: {{dtype: {dtype}, shape: [m, k]{strides}}}
  B: {{dtype: {dtype}, shape: [k, n]}}
  C: {{dtype: {dtype}, shape: [m, n], output: true}}
compute:
  - C[i, j] = sum[p](A[i, p] * B[p, j])
tiling: {{i: {i}, j: {j}, p: []}}
"""
VECTOR = """
kernel: vector
backbone: linalg
sizes: {{n: {n}}}
tensors:
  x: {{dtype: f32, shape: [n]}}
  y: {{dtype: f32, shape: [n]}}
  z: {{dtype: f32, shape: [n], output: true}}
params: {{alpha: f32}}
compute:
  - z[i] = {body}
tiling: {{i: [[{unrolled}], [16]]}}
"""
ROWS = """
kernel: rows
backbone: linalg
sizes: {{m: {m}, k: {k}}}
tensors:
  A: {{dtype: f32, shape: [m, k]}}
  x: {{dtype: f32, shape: [k]}}
  y: {{dtype: f32, shape: [m], output: true}}
compute:
  - y[i] = sum[p]({body})
tiling: {{i: [[{unrolled}]], p: [{lanes}]}}
"""
OUTER = """
kernel: outer
backbone: linalg
sizes: {{m: {m}, n: {n}}}
tensors:
  a: {{dtype: f32, shape: [m]}}
  b: {{dtype: f32, shape: [n]}}
  C: {{dtype: f32, shape: [m, n], output: true}}
compute:
  - C[i, j] = a[i] * b[j]
tiling: {{i: [], j: [[4], [16]]}}
"""
TWICE = """
kernel: twice
backbone: linalg
sizes: {m: 8192, k: 4096}
tensors:
  A: {dtype: f32, shape: [m, k]}
  x: {dtype: f32, shape: [k]}
  y: {dtype: f32, shape: [m], output: true}
  z: {dtype: f32, shape: [m], output: true}
compute:
  - y[i] = sum[p](A[i, p] * x[p])
  - z[i] = sum[p](A[i, p] * A[i, p])
tiling: {i: [[8]], p: [[16]]}
"""
TRANSPOSED = """
kernel: transposed
backbone: linalg
sizes: {m: 32, n: 64, k: 32}
tensors:
  A: {dtype: f32, shape: [m, k]}
  B: {dtype: f32, shape: [n, k]}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - C[i, j] = sum[p](A[i, p] * B[j, p])
tiling: {i: [[4]], j: [[4]], p: [[16]]}
"""


def product(
    m: int, n: int, k: int, *, rows: int = 8, vectors: int = 2, strides: str = "", dtype: str = "f32"
) -> str:
    tiles = [f"[[{rows}]]" if rows > 1 else "[]", f"[[{vectors}], [16]]" if vectors > 1 else "[[16]]"]
    return PRODUCT.format(m=m, n=n, k=k, i=tiles[0], j=tiles[1], strides=strides, dtype=dtype)


def axpy(n: int) -> str:
    return VECTOR.format(n=n, unrolled=4, body="alpha * x[i] + y[i]")


@dataclass(frozen=True, slots=True)
class Case:
    """Kinds of dimensions are decided by name, orders by pairs of names of which the first lies outside."""

    name: str
    term: str
    kernel: str
    kinds: Mapping[str, str]
    orders: tuple[tuple[str, str], ...] = ()
    direct: tuple[str, ...] = ()
    """Loads whose values are not copied."""
    further: tuple[Decision, ...] = ()

    def decisions(self) -> tuple[Decision, ...]:
        kinds = [Decision("dim_kind", (dim,), (kind,)) for dim, kind in self.kinds.items()]
        direct = [Decision("storage", (load,), ("REGISTERS",)) for load in self.direct]
        orders = [Decision("order", pair, ("OUTER",)) for pair in self.orders]
        return (*direct, *kinds, *orders, *self.further)


def kinds(instruction: str, **of: str) -> dict[str, str]:
    full = {"L": "LOOP", "U": "UNROLL", "V": "VECTOR", "P": "PARALLEL"}
    return {f"{instruction}.{dim}": full[kind] for dim, kind in of.items()}


PASS = {"i0": "PARALLEL", "i1": "UNROLL", "p0": "LOOP", "p1": "VECTOR"}
TILE = {"i1": "U", "j1": "U", "j2": "V"}
ONE = {"i0": "L", "j0": "L", "p0": "L"}
CASES = (
    Case("fma, vectors", "floating-point multipliers", product(32, 64, 64), kinds("fma", **ONE, **TILE)),
    Case(
        *("fma, single elements", "floating-point multipliers", product(32, 64, 64, rows=4)),
        kinds("fma", **ONE, i1="U", j1="L", j2="L"),
    ),
    Case(
        *("fma, two threads", "floating-point multipliers", product(256, 256, 256)),
        kinds("fma", **{**ONE, "i0": "P"}, **TILE),
    ),
    Case(
        *("integers", "integer arithmetic", product(32, 64, 64, dtype="i32")),
        kinds("fma", **ONE, **TILE),
    ),
    Case(
        *("one accumulator", "latency of fma", product(16, 32, 1024, rows=1, vectors=1)),
        kinds("fma", i0="L", j0="L", j1="V", p0="L"),
    ),
    Case(
        *(
            "one sum",
            "latency of fma",
            ROWS.format(m=16, k=2048, unrolled=4, lanes="", body="A[i, p] * x[p]"),
        ),
        kinds("fma", i0="L", i1="L", p0="L"),
    ),
    Case(
        *(
            "one sum of terms",
            "latency of add_2",
            ROWS.format(m=16, k=2048, unrolled=4, lanes="", body="A[i, p] + x[p]"),
        ),
        kinds("add_2", i0="L", i1="L", p0="L"),
    ),
    Case(
        *("one sum in four parts", "latency of fma"),
        ROWS.format(m=16, k=2048, unrolled=4, lanes="[4]", body="A[i, p] * x[p]"),
        kinds("fma", i0="L", i1="L", p0="L", p1="U"),
        further=(Decision("accumulation", ("fma",), ("SPLIT",)),),
    ),
    Case(
        *("four accumulators", "latency of fma", product(16, 32, 1024, rows=4, vectors=1)),
        kinds("fma", i0="L", i1="U", j0="L", j1="V", p0="L"),
    ),
    Case(
        *("eight rows, one column", "load instructions", product(64, 32, 1024, rows=8, vectors=1)),
        kinds("fma", i0="L", i1="U", j0="L", j1="V", p0="L"),
        direct=("load_A", "load_B"),
    ),
    Case(
        *("stores", "store instructions", OUTER.format(m=8, n=512)),
        kinds("mul", i0="L", j0="L", j1="U", j2="V"),
    ),
    Case(
        *("start of threads", "load instructions", axpy(4096)),
        kinds("fma", i0="P", i1="U", i2="V"),
    ),
    *(
        Case(
            *(name, f"floating-point {term}", VECTOR.format(n=4096, unrolled=4, body=body)),
            kinds(instruction, i0="L", i1="U", i2="V"),
        )
        for name, term, instruction, body in (
            ("sums", "adders", "add", "((((x[i] + y[i]) + alpha) + x[i]) + y[i]) + alpha"),
            ("divisions", "divisions", "div", "x[i] / y[i] + alpha"),
            ("square roots", "square roots", "sqrt", "sqrt(x[i]) + alpha * y[i]"),
            ("extremes", "extremes", "max", "min(max(min(max(x[i], y[i]), -alpha), alpha), x[i] * y[i])"),
            ("exponentials", "arithmetic", "exp", "exp(x[i]) + alpha * y[i]"),
            ("hyperbolic tangents", "divisions", "tanh", "tanh(x[i]) + alpha * y[i]"),
        )
    ),
    Case(
        *("lanes of sums", "floating-point arithmetic", TRANSPOSED),
        kinds("fma", i0="L", i1="U", j0="L", j1="U", p0="L", p1="V"),
    ),
    Case(
        *("L1, loads and stores", "L1 bandwidth", axpy(1 << 10)),
        kinds("fma", i0="L", i1="U", i2="V"),
    ),
    Case(
        *("L2, loads", "L2 bandwidth"),
        ROWS.format(m=64, k=4096, unrolled=8, lanes="[16]", body="A[i, p] * x[p]"),
        kinds("fma", i0="L", i1="U", p0="L", p1="V"),
    ),
    Case(
        *("L3, one thread", "L3 bandwidth", axpy(1 << 22)),
        kinds("fma", i0="L", i1="U", i2="V"),
    ),
    Case(
        *("L3, all threads", "L3 bandwidth", axpy(1 << 22)),
        kinds("fma", i0="P", i1="U", i2="V"),
    ),
    Case(
        *("memory, one thread", "DRAM bandwidth", axpy(1 << 26)),
        kinds("fma", i0="L", i1="U", i2="V"),
    ),
    Case(
        *("memory, all threads", "DRAM bandwidth", axpy(1 << 26)),
        kinds("fma", i0="P", i1="U", i2="V"),
    ),
    Case(
        *("two passes, all threads", "DRAM bandwidth", TWICE),
        {f"fma{n}.{dim}": kind for n in ("", "_2") for dim, kind in PASS.items()},
        further=(Decision("order", ("load_A.i0", "load_A_2.i0"), ("BEFORE",)),),
    ),
    Case(
        *("rows first, all columns inside", "loop order of fma", product(64, 1024, 1024, rows=2)),
        kinds("fma", **ONE, **TILE),
        (("fma.i0", "fma.j0"),),
        ("load_A", "load_B"),
    ),
    Case(
        *("elements of their own lines", "loop order of fma"),
        product(128, 256, 1024, rows=2, strides=", strides: [32 * k, 32]"),
        kinds("fma", **ONE, **TILE),
        (("fma.j0", "fma.i0"),),
        ("load_A", "load_B"),
    ),
)


@dataclass(frozen=True, slots=True)
class Tightness:
    case: str
    term: str
    time_ns: float
    bound_ns: float
    bottleneck: str
    """The term that is the bound."""
    term_ns: float
    root_ns: float
    is_violated: bool

    @property
    def ratio(self) -> float:
        return self.time_ns / self.bound_ns


class AnyCase(Protocol):
    """A `Case`, or a `GpuCase`."""

    @property
    def name(self) -> str: ...

    @property
    def term(self) -> str: ...

    @property
    def kernel(self) -> str: ...

    def decisions(self) -> tuple[Decision, ...]: ...


Timer = Callable[[Bounded], tuple[float, bool] | None]
"""Of an implementation: what it takes, in ns, and whether that is a violation; None where it is not valid."""


def timer(kernel: KernelFile, device: Device, opened: ExitStack) -> Timer:
    """`opened`: what it needs until it ends."""
    if isinstance(device, GpuDevice):

        def predicted(leaf: Bounded) -> tuple[float, bool]:
            program = lower_grids(kernel.backbone, CandidateImplementation(leaf.candidate))
            time_ns = predict(program, device).time_ns
            return time_ns, time_ns < leaf.bound_ns

        return predicted
    evaluator = opened.enter_context(CpuEvaluator(kernel, device, Options(budget_s=0.3)))

    def measured(leaf: Bounded) -> tuple[float, bool] | None:
        lowered = evaluator.lower(leaf.candidate)
        timing = (lowered if isinstance(lowered, Outcome) else evaluator.run(lowered, None)).timing
        return None if timing is None else (timing.time_ns, is_violation(timing, leaf.bound_ns))

    return measured


def examine(
    case: AnyCase, target: Target, device: Device, leaves: int, random: np.random.Generator, folder: Path
) -> Tightness | None:
    """The fastest of some implementations; None where none was valid."""
    path = folder / "case.yaml"
    path.write_text(case.kernel, encoding="utf-8")
    kernel = load_kernel(path, {}, target.kind)
    problem = pose(kernel, kernel.space_for(target.kind), device, lambda event: None)
    bound = target.bound(problem.instance, device)
    start = decided(problem.instance, problem.root, case.decisions())
    found: list[Tightness] = []
    with ExitStack() as opened:
        time = timer(kernel, device, opened)
        for leaf in _leaves(problem, bound, Bounded(start, bound(start)), leaves, random):
            timed = time(leaf)
            if timed is None:
                continue
            terms = {t.resource: t.bound_ns for t in bound.explain(leaf.candidate)}
            found.append(
                Tightness(
                    case=case.name,
                    term=case.term,
                    time_ns=timed[0],
                    bound_ns=leaf.bound_ns,
                    bottleneck=max(terms, key=lambda name: terms[name]),
                    term_ns=terms.get(case.term, 0.0),
                    root_ns=bound(problem.root),
                    is_violated=timed[1],
                )
            )
    return min(found, key=lambda t: t.time_ns, default=None)


def _leaves(
    problem: Problem, bound: Bound, start: Bounded, count: int, random: np.random.Generator
) -> list[Bounded]:
    ordering = select_ordering(problem.instance, problem.space)
    rollouts = select_rollouts(problem.instance, problem.space)
    descent = Descent(problem.instance, ordering, bound, rollouts=rollouts)
    ends = (descent.rollout(descent.expand(start), Cut(None, 1.0), random) for _ in range(count))
    found = {end.end.candidate.vector.tobytes(): end.end for end in ends if isinstance(end, Implementation)}
    return list(found.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bound_tightness", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="by name; without any, all of them")
    parser.add_argument("--device", metavar="NAME|FILE", help="a GPU: h100")
    parser.add_argument("--leaves", type=positive, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=new_file)
    options = parser.parse_args(arguments)
    cases: dict[str, AnyCase] = {case.name: case for case in (GPU_CASES if options.device else CASES)}
    names = options.cases or list(cases)
    unknown = sorted(set(names) - cases.keys())
    if unknown:
        parser.error(f"there is no case {', '.join(map(repr, unknown))}: cases are {', '.join(cases)}")
    random = np.random.default_rng(options.seed)
    target = TARGETS["cuda" if options.device else "cpu"]
    device = target.device(options.device, lambda event: print(event, file=sys.stderr))
    time = "predicted" if options.device else "measured"
    print(f"{'case':37} {time:>10} {'bound':>10} {'ratio':>6} {'of root':>7}  the bound is")
    rows: list[Tightness] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            row = examine(cases[name], target, device, options.leaves, random, Path(folder))
            if row is None:
                print(f"{name:37} no implementation was valid")
                continue
            rows.append(row)
            other = "" if row.bottleneck == row.term else f", not {row.term} ({row.term_ns:.0f})"
            print(
                f"{row.case:37} {row.time_ns:10.0f} {row.bound_ns:10.0f} {row.ratio:6.2f} "
                f"{row.time_ns / row.root_ns:7.2f}  {row.bottleneck}{other}",
                flush=True,
            )
    if options.json is not None:
        write_document([asdict(row) for row in rows], options.json)
    return 1 if any(row.is_violated for row in rows) or len(rows) < len(names) else 0


if __name__ == "__main__":
    run(main)

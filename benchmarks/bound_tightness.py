"""How tight each term of the bound is: micro-kernels that wait for one resource, beside their bounds.

    python -m benchmarks.bound_tightness [CASE ..] [--leaves 6] [--seed 0] [--json FILE]

A case is a kernel and decisions that leave one resource scarce. Some of its implementations are drawn, those
with low bounds more often, and measured; the fastest is shown: its time, its bound and the term that is the
bound, the time of the term that the case is about, and the bound of the root, before any decision. A ratio
below 1 would be a violation: exit status 1. A term that is no bound of its case is marked.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.arguments import new_file, positive, run
from spacedsl.api.problem import Problem, pose
from spacedsl.codegen.characterize import local_device
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.measurement import Options
from spacedsl.engine.candidate import Decision
from spacedsl.kernels.evaluation import Outcome
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.descent import Bounded, Cut, Descent, Implementation
from spacedsl.search.orderings import select_ordering, select_rollouts
from spacedsl.search.run import decided
from spacedsl.search.state import is_violation

PRODUCT = """
kernel: product
backbone: linalg
sizes: {{m: {m}, n: {n}, k: {k}}}
tensors:
  A: {{dtype: f32, shape: [m, k]{strides}}}
  B: {{dtype: f32, shape: [k, n]}}
  C: {{dtype: f32, shape: [m, n], output: true}}
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


def product(m: int, n: int, k: int, *, rows: int = 8, vectors: int = 2, strides: str = "") -> str:
    tiles = [f"[[{rows}]]" if rows > 1 else "[]", f"[[{vectors}], [16]]" if vectors > 1 else "[[16]]"]
    return PRODUCT.format(m=m, n=n, k=k, i=tiles[0], j=tiles[1], strides=strides)


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

    def decisions(self) -> tuple[Decision, ...]:
        kinds = [Decision("dim_kind", (dim,), (kind,)) for dim, kind in self.kinds.items()]
        direct = [Decision("storage", (load,), ("REGISTERS",)) for load in self.direct]
        return (*direct, *kinds, *(Decision("order", pair, ("OUTER",)) for pair in self.orders))


def kinds(instruction: str, **of: str) -> dict[str, str]:
    full = {"L": "LOOP", "U": "UNROLL", "V": "VECTOR", "P": "PARALLEL"}
    return {f"{instruction}.{dim}": full[kind] for dim, kind in of.items()}


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
        *(
            "start of threads",
            "load instructions",
            VECTOR.format(n=4096, unrolled=4, body="alpha * x[i] + y[i]"),
        ),
        kinds("fma", i0="P", i1="U", i2="V"),
    ),
    *(
        Case(
            *(name, f"floating-point {term}", VECTOR.format(n=4096, unrolled=4, body=body)),
            kinds(instruction, i0="L", i1="U", i2="V"),
        )
        for name, term, instruction, body in (
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
        *("L2, loads", "L2 bandwidth"),
        ROWS.format(m=64, k=4096, unrolled=8, lanes="[16]", body="A[i, p] * x[p]"),
        kinds("fma", i0="L", i1="U", p0="L", p1="V"),
    ),
    Case(
        *("L3, one thread", "L3 bandwidth", VECTOR.format(n=1 << 22, unrolled=4, body="alpha * x[i] + y[i]")),
        kinds("fma", i0="L", i1="U", i2="V"),
    ),
    Case(
        *(
            "L3, all threads",
            "L3 bandwidth",
            VECTOR.format(n=1 << 22, unrolled=4, body="alpha * x[i] + y[i]"),
        ),
        kinds("fma", i0="P", i1="U", i2="V"),
    ),
    Case(
        *(
            "memory, all threads",
            "L3 bandwidth",
            VECTOR.format(n=1 << 26, unrolled=4, body="alpha * x[i] + y[i]"),
        ),
        kinds("fma", i0="P", i1="U", i2="V"),
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


def examine(case: Case, leaves: int, random: np.random.Generator, folder: Path) -> Tightness | None:
    """The fastest of some implementations; None where none was valid."""
    device = local_device(progress=lambda activity: print(activity, file=sys.stderr))
    path = folder / "case.yaml"
    path.write_text(case.kernel, encoding="utf-8")
    kernel = load_kernel(path, {})
    problem = pose(kernel, kernel.space, device, lambda event: None)
    bound = CpuBound(problem.instance, device)
    start = decided(problem.instance, problem.root, case.decisions())
    found: list[Tightness] = []
    with CpuEvaluator(kernel, device, Options(budget_s=0.3)) as evaluator:
        for leaf in _leaves(problem, bound, Bounded(start, bound(start)), leaves, random):
            lowered = evaluator.lower(leaf.candidate)
            outcome = lowered if isinstance(lowered, Outcome) else evaluator.run(lowered, None)
            if outcome.timing is None:
                continue
            terms = {t.resource: t.bound_ns for t in bound.explain(leaf.candidate)}
            found.append(
                Tightness(
                    case=case.name,
                    term=case.term,
                    time_ns=outcome.timing.time_ns,
                    bound_ns=leaf.bound_ns,
                    bottleneck=max(terms, key=lambda name: terms[name]),
                    term_ns=terms[case.term],
                    root_ns=bound(problem.root),
                    is_violated=is_violation(outcome.timing, leaf.bound_ns),
                )
            )
    return min(found, key=lambda t: t.time_ns, default=None)


def _leaves(
    problem: Problem, bound: CpuBound, start: Bounded, count: int, random: np.random.Generator
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
    names = [case.name for case in CASES]
    parser.add_argument("cases", nargs="*", default=names, metavar="CASE", help=", ".join(names))
    parser.add_argument("--leaves", type=positive, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=new_file)
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.cases) - set(names))
    if unknown:
        parser.error(f"there is no case {', '.join(map(repr, unknown))}: cases are {', '.join(names)}")
    random = np.random.default_rng(options.seed)
    print(f"{'case':31} {'measured':>10} {'bound':>10} {'ratio':>6} {'of root':>7}  the bound is")
    rows: list[Tightness] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if case.name not in options.cases:
                continue
            row = examine(case, options.leaves, random, Path(folder))
            if row is None:
                print(f"{case.name:31} no implementation was valid")
                continue
            rows.append(row)
            other = "" if row.bottleneck == row.term else f", not {row.term} ({row.term_ns:.0f})"
            print(
                f"{row.case:31} {row.time_ns:10.0f} {row.bound_ns:10.0f} {row.ratio:6.2f} "
                f"{row.time_ns / row.root_ns:7.2f}  {row.bottleneck}{other}",
                flush=True,
            )
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    return 1 if any(row.is_violated for row in rows) or len(rows) < len(options.cases) else 0


if __name__ == "__main__":
    run(main)

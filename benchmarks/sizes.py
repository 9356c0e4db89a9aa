"""How many implementations spaces have, and how often random walks meet dead ends.

    python -m benchmarks.sizes [KERNEL.yaml ..] [--device k4000] [--time 1m] [--seed 0] [--json FILE]

The first columns of table 2 of the paper (Beaugnon et al., section 5.2), for our spaces. Prints a table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks import LIBRARY
from benchmarks.arguments import duration_s, existing_file, new_file, run, write_document
from benchmarks.tables import console, headed
from spacedsl.api.solving import Unmeasured, pose_unmeasured
from spacedsl.api.space_size import SpaceSize, measure_size
from spacedsl.cli.options import a_device
from spacedsl.cli.stats import document_of, estimated, percent
from spacedsl.engine.instance import Engine
from spacedsl.search.orderings import select_ordering

KERNELS = tuple(LIBRARY / f"{name}.yaml" for name in ("axpy", "matmul_small", "matmul", "matmul_strided"))
"""Those of the paper."""


def measure(problem: Unmeasured, seconds: float, seed: int) -> SpaceSize:
    assert problem.root is not None
    return measure_size(problem.root, select_ordering(problem.instance, problem.space), seed, seconds)


def table(rows: Sequence[tuple[Unmeasured, SpaceSize]]) -> Table:
    headings = ("kernel", "open decisions", "counted", "estimated (95 %)", "by", "dead ends (95 %)")
    found = headed("How many implementations there are", headings, words=("kernel", "by"))
    for problem, size in rows:
        assert problem.root is not None
        low, high = size.dead_end_ci
        found.add_row(
            f"{problem.kernel.name} {', '.join(f'{k}={v}' for k, v in problem.kernel.sizes.items())}",
            f"{sum(problem.root.is_open(v) for v in problem.instance.variables):,}",
            "" if size.exact is None else f"{size.exact:,}",
            estimated(size.best),
            size.best.method,
            f"{percent(size.dead_end_rate)} ({percent(low)} to {percent(high)})",
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizes", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="*", type=existing_file, default=KERNELS)
    parser.add_argument("--device", type=Path, metavar="NAME|FILE", help="a GPU; default: a shipped CPU")
    parser.add_argument("--time", type=duration_s, default="1m", help="processor time for each kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=new_file, metavar="FILE")
    options = parser.parse_args()
    rows = []
    for path in options.kernels:
        problem = pose_unmeasured(path, device=a_device(options.device), engine=Engine.NATIVE)
        if problem.root is None:
            raise SystemExit(f"{path}: the space is empty")
        rows.append((problem, measure(problem, options.time, options.seed)))
    console().print(table(rows))
    if options.json is not None:
        cases = [{"kernel": problem.kernel.name, **document_of(size)} for problem, size in rows]
        write_document({"schema": 1, "cases": cases}, options.json)


if __name__ == "__main__":
    run(main)

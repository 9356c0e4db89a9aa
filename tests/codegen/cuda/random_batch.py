"""Random implementations as a batch for a machine with a GPU: `make random-batch ARGS="-o FOLDER"`.

Of each kernel of the library, and of each application at a small size, some are drawn, verified, compiled,
and put into a folder with test cases; `python run_batch.py` in it, over there, says what is wrong with which.
What twins cannot show is seen there: when memory becomes visible, and what the hardware makes of an
instruction. Out: the folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.arguments import positive
from spacedsl.codegen.cuda.batches.writing import Batched, BatchedProblem, write_batch
from spacedsl.codegen.cuda.prediction import predict
from spacedsl.codegen.generation import generation
from spacedsl.codegen.tree.verify import verify
from spacedsl.diagnostics import counted
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.backbones import MeasurableKernel
from tests.codegen.cuda.grids import device, random_from
from tests.codegen.cuda.soak_batch import drawn_from
from tests.codegen.pipeline import on_gpus
from tests.codegen.pipeline.test_cases import cases_of
from tests.codegen.soaks import Batch
from tests.kernels.library_formulas import DIRECT
from tests.kernels.pipeline.test_library import NAMES

MOST_NS = 1e7
"""Predicted, of one launch: a GPU is there for a short time."""


def batched(kernel: MeasurableKernel, candidates: Iterator[Candidate]) -> Iterator[Batched]:
    for candidate in candidates:
        program = verify(generation(kernel).lower_grids(kernel, candidate))
        predicted_ns = predict(program, device()).time_ns
        if predicted_ns <= MOST_NS:
            yield Batched(program, predicted_ns, 0.0, candidate.decisions())


def of_kernel(name: str, count: int, seed: int) -> BatchedProblem:
    """In small sizes, or, of every fourth seed, in its own; of every other one on tensor cores."""
    kernel, root = drawn_from(Batch(name, seed, count))
    return BatchedProblem(kernel, tuple(batched(kernel, random_from(root, count, seed))), ())


def of_application(name: str, count: int, seed: int) -> BatchedProblem:
    file, _ = cases_of(name)
    candidates = on_gpus.drawn(file, count, seed)
    return BatchedProblem(file, tuple(batched(file, candidates)), ())


def main() -> int:
    asked = argparse.ArgumentParser(prog="make random-batch", description="random implementations")
    asked.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    asked.add_argument("--names", help="of kernels and applications, with commas (all)")
    asked.add_argument("--count", type=positive, default=10, help="implementations of each (10)")
    asked.add_argument("--seed", type=int, default=1)
    options = asked.parse_args()
    known = {*DIRECT, *NAMES}
    names = set(options.names.split(",")) if options.names else known
    if names - known:
        asked.error(f"no kernel and no application is called {', '.join(sorted(names - known))}")
    problems = []
    for make, name in [*((of_kernel, n) for n in DIRECT), *((of_application, n) for n in NAMES)]:
        if name not in names:
            continue
        made = make(name, options.count, options.seed)
        print(f"\r{name:<30}", end="", file=sys.stderr, flush=True)
        if made.implementations:
            problems.append(made)
    written = write_batch(options.output, device(), problems, options.seed)
    print(
        f"\r{options.output}: {counted(written.implementations, 'implementation')}; the compiler refused "
        f"{written.refused} and took too long for {written.given_up}; there, `python run_batch.py` runs them"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

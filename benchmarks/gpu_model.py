"""How well the performance model of GPUs says what was measured: batches that a GPU has run, predicted anew.

    python -m benchmarks.gpu_model FOLDER .. [--device h200] [--worst 3]

Each implementation that was right is made again of its decisions, compiled, and predicted by the model as it
is today. Shown are, of each kernel, the rank correlation, how far predictions are off (predicted over
measured: the median, and the scatter of its logarithm), and how much slower than the best that was measured
the one is that is predicted to be the fastest, and the best of ten such. `--worst` lists the implementations
that the model misjudges most, with what it thinks they take.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from benchmarks.arguments import existing_folder, positive, run
from benchmarks.ratios import duration
from benchmarks.tables import console, headed
from spacedsl.api.problem import pose
from spacedsl.api.targets import TARGETS
from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.cuda.batches.cases import kernel_of
from spacedsl.codegen.cuda.batches.folders import RESULTS
from spacedsl.codegen.cuda.batches.results import ProblemResults, read_results
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.prediction import Prediction, predict
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.generation import generation
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.decision import UnknownDecisionError
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.search.run import ContradictionError, decided

FEW = 10
"""Of those that are predicted to be the fastest."""


@dataclass(frozen=True, slots=True)
class Judged:
    digest: str
    measured_ns: float
    prediction: Prediction

    @property
    def off(self) -> float:
        """Predicted over measured."""
        return self.prediction.time_ns / self.measured_ns


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_model", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folders", nargs="+", type=existing_folder, metavar="FOLDER")
    parser.add_argument("--device", default="h200", help="the GPU that measured; default: h200")
    parser.add_argument("--worst", type=positive, default=0, metavar="N", help="list so many of each kernel")
    options = parser.parse_args(arguments)
    device = TARGETS["cuda"].device(options.device, lambda event: None)
    assert isinstance(device, GpuDevice)
    table = headed(
        "The model beside what was measured",
        ("kernel", "measured", "rank", "predicted", "scatter", "first over best", f"best of {FEW}"),
        words=("kernel",),
    )
    for folder in options.folders:
        for problem in read_results(folder / RESULTS).problems:
            judged = list(judged_of(problem, device))
            if len(judged) > 1:
                table.add_row(f"{folder.name}: {problem.name}", *row(judged))
                for each in sorted(judged, key=lambda j: -abs(np.log(j.off)))[: options.worst]:
                    console().print(_line(problem.name, each), highlight=False)
    console().print(table)
    return 0


def judged_of(problem: ProblemResults, device: GpuDevice) -> Iterator[Judged]:
    """Those that were right, and that can still be made of their decisions."""
    about = json.loads((problem.folder / "problem.json").read_text(encoding="utf-8"))
    kernel = kernel_of(about)
    posed = pose(kernel, kernel.space_for("gpu"), device, lambda event: None)
    for measured in problem.measured:
        timing = problem.outcome(measured).timing
        made_of = problem.decisions.get(measured.entry.digest, ())
        if timing is None or not made_of:
            continue
        try:
            candidate = decided(posed.instance, posed.root, made_of)
            program = verify(generation(kernel).lower_grids(kernel, candidate))
            resources = compile_cubin(print_cuda(program), device.compute_capability).resources
        except (BuildError, ContradictionError, UnknownDecisionError):
            continue  # no code of today's space, or none that the compiler takes
        yield Judged(measured.entry.digest, timing.time_ns, predict(program, device, resources))


def row(judged: Sequence[Judged]) -> tuple[str, ...]:
    measured = np.array([each.measured_ns for each in judged])
    predicted = np.array([each.prediction.time_ns for each in judged])
    off = np.log(predicted / measured)
    first = np.argsort(predicted)
    return (
        str(len(judged)),
        f"{spearmanr(measured, predicted).statistic:.2f}",
        f"{np.exp(np.median(off)):.2f}",
        f"{off.std():.2f}",
        f"{measured[first[0]] / measured.min():.2f}",
        f"{measured[first[:FEW]].min() / measured.min():.2f}",
    )


def _line(name: str, judged: Judged) -> str:
    terms = "; ".join(
        ", ".join(f"{term.resource} {duration(term.time_ns)}" for term in of_grid[:4])
        for _, of_grid in judged.prediction.terms
    )
    times = f"measured {duration(judged.measured_ns)}, predicted {duration(judged.prediction.time_ns)}"
    return f"{name} {judged.digest[:8]}: {times}: {terms}"


if __name__ == "__main__":
    run(main)

"""Tries random schedules of applications for long: `python -m tests.codegen.pipeline.soak [--kernels A] ..`.

Each is lowered, verified, built as it is for users, and compared with the reference on a case at a small
size, until of each application `--count` have passed. With `--target cuda` it is code for a GPU, whose twin
is watched for races where that is little; every fifth is compiled as for users, and runs under sanitizers.
What is too long for its compiler, and what computes too much for a twin, is counted, and is not run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.pipeline.grids import lower_grids
from spacedsl.codegen.pipeline.lower import lower
from spacedsl.codegen.pipeline.schedule import CandidateDecisions, schedule, text
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from tests.codegen.apart import ENDED, said_apart
from tests.codegen.cuda.grids import ORDERS, device, twins
from tests.codegen.cuda.sanitized import FLAGS, Call, complaints, preloaded
from tests.codegen.cuda.thorough import compiler_options, is_thorough
from tests.codegen.pipeline import on_gpus
from tests.codegen.pipeline.running import compiled_difference
from tests.codegen.pipeline.test_cases import cases_of
from tests.codegen.soaks import Batch, Failed, Found, parser, soak
from tests.kernels.pipeline.cases import drawn
from tests.kernels.pipeline.test_library import NAMES

TOGETHER = {"cpu": 5, "cuda": 20}
"""Schedules of a batch. The instance of a space is made for each, and is larger on GPUs."""

VECTOR_BYTES = (16, 32, 64)
MOST_STATEMENTS = 5_000
"""Of a program; what is longer takes its compiler minutes, and is left out."""

COLUMNS = ("drawn", "dead ends", "too long", "not run", "passed", "sanitized", "failed")


def examined(target: str, batch: Batch) -> Found:
    """All schedules of a batch."""
    found = Found()
    for place in range(batch.count):
        number = batch.seed * batch.count + place
        found.counts["drawn"] += 1
        became = ON[target](batch.kernel, number)
        if isinstance(became, Failed):
            found.failed.append(became)
            became = "failed"
        found.counts[became] += 1
        if became == "sanitized":
            found.counts["passed"] += 1
    return found


def on_cpu(name: str, number: int) -> str | Failed:
    """What became of a schedule, as a column of the table says it, or what is wrong with it."""
    file, (case, *_) = cases_of(name)
    candidate = next(drawn(file, 1, number, DescentCounts()), None)
    if candidate is None:
        return "dead ends"

    def lowered() -> Program:
        return lower(file.backbone, CandidateDecisions(candidate), VECTOR_BYTES[number % 3])

    def run(program: Program, folder: Path) -> str:
        said = said_apart(lambda: [compiled_difference(file, program, case, folder / "program.so")])
        if said == ENDED:
            return "passed"
        raise WrongError(said.removesuffix(ENDED), print_c(program, 2))

    return tried(file, candidate, number, lowered, run)


def on_gpu(name: str, number: int) -> str | Failed:
    """The same for a GPU."""
    file, (case, *_) = cases_of(name)
    candidate = next(on_gpus.drawn(file, 1, number), None)
    if candidate is None:
        return "dead ends"

    def run(program: Program, folder: Path) -> str:
        code = print_cuda(program)
        try:
            compile_cubin(code, device().compute_capability, *compiler_options(number))
        except BuildError as error:
            raise WrongError(str(error), code) from None
        if on_gpus.computed(candidate) > on_gpus.MOST_COMPUTED:
            return "not run"
        ((_, said),) = on_gpus.twin_differences(file, case, [(candidate, program)], folder)
        if said:
            raise WrongError(said, code)
        is_sanitized = is_thorough(number) and on_gpus.computed(candidate) <= on_gpus.MOST_WATCHED
        if not is_sanitized or preloaded() is None:
            return "passed"
        call = Call.of_pipeline("program_0", file, case)
        if said := complaints(twins([program], folder, *FLAGS), [call], ORDERS):
            raise WrongError(said, code)
        return "sanitized"

    def lowered() -> Program:
        return lower_grids(file.backbone, CandidateDecisions(candidate))

    return tried(file, candidate, number, lowered, run)


ON = {"cpu": on_cpu, "cuda": on_gpu}


class WrongError(Exception):
    """What is wrong with a program that ran, or that its compiler refuses."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def tried(
    file: PipelineFile,
    candidate: Candidate,
    number: int,
    lowered: Callable[[], Program],
    run: Callable[[Program, Path], str],
) -> str | Failed:
    """What became of a candidate."""
    code = ""
    try:
        program = lowered()
        if sum(1 for _ in statements(program.body)) > MOST_STATEMENTS:
            return "too long"
        program = verify(program)
        with tempfile.TemporaryDirectory() as folder:
            return run(program, Path(folder))
    except (LoweringError, VerificationError) as error:
        cause, message = "lowering", str(error)
    except WrongError as error:
        cause, message, code = "wrong", str(error), error.code
    loops = text(schedule(file.backbone.steps, CandidateDecisions(candidate)))
    return Failed(number, cause, f"{message}\n{loops}", code)


def main() -> int:
    asked = parser("make soak-pipelines", "random schedules of applications", NAMES, wanted=200)
    asked.add_argument("--target", choices=ON, default="cpu", help="of the code (cpu)")
    options = asked.parse_args()
    return soak(
        *(options, partial(examined, options.target)),
        record=f"build/soak-pipelines-{options.target}/record.jsonl",
        columns=COLUMNS,
        together=TOGETHER[options.target],
    )


if __name__ == "__main__":
    sys.exit(main())

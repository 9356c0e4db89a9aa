"""A batch of the soak for GPUs: random implementations of one kernel, compiled, and run on their corners.

In: the name of a kernel of the library and a seed, which say all. Out: how many implementations there were,
by what became of them, and what is wrong with each that failed. Every fourth seed takes the kernel in its own
sizes, the others in small ones, whose corners a CPU runs more often. Twins are watched for races; those of
every fifth seed run under sanitizers, too.
Each implementation is compiled alone, as NVRTC takes no longer for that, every fifth one as for users, the
others fast; their twins are one library. Which batches there are, and what they are counted for, is for
`soak.py`.
"""

from __future__ import annotations

import ctypes
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.cuda.checking import EASILY_EXECUTED, executed
from spacedsl.codegen.cuda.corners import PARTS_OF_TILES, WHOLE_TILES, corner_program
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.nvrtc import Resources, compile_cubin
from spacedsl.codegen.cuda.prediction import resident_blocks
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.running.cases import Case
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.program import Grid, Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from tests.codegen.apart import ENDED, said_apart
from tests.codegen.cuda.grids import device, on_tensor_cores, random_from, space_of, twins
from tests.codegen.cuda.sanitized import FLAGS, Call, complaints, preloaded, watched
from tests.codegen.cuda.thorough import compiler_options, is_thorough
from tests.codegen.cuda.unread import first_unread
from tests.codegen.runs import brief_case, run_difference
from tests.codegen.soaks import Batch, Failed, Found
from tests.kernels.library_formulas import FIXED
from tests.kernels.samples import LIBRARY

ORDERS = (0, 1, 3)
SANITIZED_EVERY = 5
OWN_SIZES_EVERY = 4
SMALL, TINY = (6, 13, 16, 24, 32, 45, 64), (3, 4, 6, 7, 8, 12)
"""Sizes, of kernels of few and of many. Some have divisors that powers of two do not have, some have none."""

MANY = 4
"""Sizes of a kernel."""

WHOLE_FRAGMENTS = (16, 32, 48, 64)


@dataclass(frozen=True, slots=True)
class Corner:
    """An implementation of a corner that a CPU runs easily."""

    number: int
    kernel: KernelFile
    program: Program
    case: Case


class FailedError(Exception):
    """What is wrong with one implementation, before it runs."""

    def __init__(self, cause: str, message: str, code: str = "") -> None:
        super().__init__(message)
        self.cause, self.message, self.code = cause, message, code


def drawn_from(batch: Batch) -> tuple[KernelFile, Candidate]:
    """The kernel, and a candidate that all implementations of the batch are of.

    Where there may be fragments, those of every other batch have them, and sizes that do.
    """
    path = LIBRARY / f"{batch.kernel}.yaml"
    kernel = load_kernel(path, {}, "gpu")
    has_fragments = batch.seed % 2 == 1 and kernel.backbone.fragment_dims != ()
    if batch.seed % OWN_SIZES_EVERY:
        chance = random.Random(batch.seed)
        names = [name for name in kernel.sizes if name not in FIXED]
        offered = WHOLE_FRAGMENTS if has_fragments else TINY if len(names) > MANY else SMALL
        kernel = load_kernel(path, {name: chance.choice(offered) for name in names}, "gpu")
    root = on_tensor_cores(kernel) if has_fragments else space_of(kernel).root()
    assert root is not None
    return kernel, root


def examined(batch: Batch) -> Found:
    """All implementations of a batch."""
    kernel, root = drawn_from(batch)
    found, descents = Found(), DescentCounts()
    corners: list[Corner] = []
    for number, candidate in enumerate(random_from(root, batch.count, batch.seed, descents)):
        try:
            if (corner := _compiled(kernel, candidate, number, found.counts)) is not None:
                corners.append(corner)
        except FailedError as error:
            found.failed.append(Failed(number, error.cause, error.message, error.code))
    found.counts["drawn"] = batch.count
    found.counts["dead ends"] = descents.dead_ends
    if corners:
        is_sanitized = batch.seed % SANITIZED_EVERY == 0 and preloaded() is not None
        wrong = _wrong(corners, is_sanitized=is_sanitized)
        found.failed += wrong
        found.counts["passed"] = len(corners) - len(wrong)
        found.counts["sanitized"] = is_sanitized * found.counts["passed"]
    found.counts["failed"] = len(found.failed)
    return found


# ---- Compiled ------------------------------------------------------------------------------------------


def _compiled(kernel: KernelFile, candidate: Candidate, number: int, counts: Counter[str]) -> Corner | None:
    """The corner of a candidate that the compiler takes; None where it has none to be run."""
    try:
        whole = verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))
    except (LoweringError, VerificationError) as error:
        raise FailedError("lowering", str(error)) from None
    code = print_cuda(whole)
    try:
        resources = compile_cubin(code, device().compute_capability, *compiler_options(number)).resources
    except BuildError as error:
        if "uses too much shared data" not in str(error):
            raise FailedError("compiler", str(error), code) from None
        counts["over limits"] += 1
        return None
    if any(_is_over_limits(grid, resources) for grid in whole.body):
        counts["over limits"] += 1
        return None
    counts["compiled"] += 1
    # Registers of what is compiled fast are others.
    counts["spilled"] += is_thorough(number) and any(r.spilled_bytes for r in resources.values())
    try:
        smaller = next(_easy_corners(kernel, candidate), None)
    except (LoweringError, VerificationError) as error:
        raise FailedError("lowering", f"on a corner: {error}", code) from None
    if smaller is None:
        counts["not run"] += 1
        return None
    return Corner(number, *smaller, brief_case(smaller[0]))


def _is_over_limits(grid: object, resources: Mapping[str, Resources]) -> bool:
    assert isinstance(grid, Grid)
    return resident_blocks(grid, device(), resources[c_name(grid.name)].registers) == 0


def _easy_corners(kernel: KernelFile, candidate: Candidate) -> Iterator[tuple[KernelFile, Program]]:
    """Those that a CPU runs easily, the larger one first."""
    for kept in (WHOLE_TILES, PARTS_OF_TILES):
        smaller, program = corner_program(kernel, candidate, kept)
        if executed(program.body) <= EASILY_EXECUTED:
            yield smaller, program


# ---- Run -----------------------------------------------------------------------------------------------

Run = Callable[[Sequence[Corner], Path], str]
"""Runs twins, in a library of theirs where the n-th is `program_n`; what was said on the way."""


def _wrong(corners: Sequence[Corner], *, is_sanitized: bool) -> list[Failed]:
    """Those that are wrong, or have races, or of which sanitizers have something to say."""
    wrong = [
        replace(failed, cause="race") if "\nrace: " in failed.message else failed
        for failed in _guilty(corners, "wrong", run_watched)
    ]
    if is_sanitized:
        known = {failed.number for failed in wrong}
        wrong += _guilty([c for c in corners if c.number not in known], "sanitizers", _run_sanitized)
    return wrong


def _guilty(corners: Sequence[Corner], cause: str, run: Run) -> list[Failed]:
    """What is wrong with each: the others run again without the one that ended their process."""
    wrong: list[Failed] = []
    left = list(corners)
    while left:
        with tempfile.TemporaryDirectory() as folder:
            said = run(left, Path(folder))
        if not said:
            break
        names = NAMED.findall(said)
        if not names:
            message = f"a library of these twins: {said[-2000:]}"
            return wrong + [Failed(corner.number, "twin", message) for corner in left]
        guilty = left.pop(int(names[-1]))
        wrong.append(Failed(guilty.number, cause, said[-2000:], print_cuda(guilty.program)))
    return wrong


NAMED = re.compile(r"program_(\d+) in order \d+")


def run_watched(corners: Sequence[Corner], folder: Path) -> str:
    """What is wrong with twins of one library: the first difference, race, or element that nobody reads."""
    library = _library(corners, folder, watched())
    if isinstance(library, str):
        return library
    said = said_apart(lambda: _differences(corners, library))
    return "" if said.endswith(f"{_ALL_RIGHT}{ENDED}") else said


def _differences(corners: Sequence[Corner], library: Path) -> Iterator[str]:
    """Before each run its name, and behind the first that differs nothing else."""
    loaded = ctypes.CDLL(str(library))
    order = ctypes.c_uint.in_dll(loaded, "twin_order")
    for order.value in ORDERS:
        loaded.twin_forget()
        for number, corner in enumerate(corners):
            yield f"program_{number} in order {order.value}\n"
            wrong = run_difference(corner.kernel, loaded, corner.case, f"program_{number}")
            if wrong := wrong or first_unread(corner.kernel, loaded, corner.case):
                yield wrong
                return
    yield _ALL_RIGHT


_ALL_RIGHT = "all are right"


def _run_sanitized(corners: Sequence[Corner], folder: Path) -> str:
    library = _library(corners, folder, FLAGS)
    calls = [Call.of(f"program_{number}", c.kernel, c.case) for number, c in enumerate(corners)]
    return library if isinstance(library, str) else complaints(library, calls, ORDERS)


def _library(corners: Sequence[Corner], folder: Path, flags: Sequence[str]) -> Path | str:
    """It, or what the compiler says of it."""
    try:
        return twins([corner.program for corner in corners], folder, *flags)
    except BuildError as error:
        return str(error)

"""What a CPU checks of code for a large kernel is that code, and faults in it are seen."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.codegen.cuda import checking
from spacedsl.codegen.cuda.checking import Checker
from spacedsl.codegen.cuda.corners import PARTS_OF_TILES, WHOLE_TILES, Cut, cut_down, on_corner
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.linalg.implementation import CandidateImplementation, GridImplementation
from spacedsl.codegen.linalg.nest import present
from spacedsl.codegen.running.measurement import Options
from spacedsl.codegen.tree.parts import loaded
from spacedsl.codegen.tree.program import Grid, Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.evaluation import Failure
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from tests.codegen.cuda.grids import random_candidates, space_of, twin
from tests.codegen.golden import FOLDER, LIBRARY, read
from tests.codegen.runs import brief_case, run_difference
from tests.codegen.scripts import decide, script

LIST = read(FOLDER / "cuda" / "matmul-128x128.txt")
LARGE = LIST.kernel_file({"m": 4090, "n": 4096, "k": 4096}).made_for("gpu")
"""The last of its tiles has 122 rows of 128."""


@pytest.fixture(scope="module")
def candidate() -> Candidate:
    instance = space_of(LARGE)
    root = instance.root()
    assert root is not None
    return decide(instance, root, script(LARGE.backbone, LIST.text))


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    opened = Checker(LARGE, Options())
    opened.open()
    yield opened
    opened.close()


def texts(kernel: KernelFile, made: Candidate) -> tuple[list[str], list[str]]:
    """Lines of an implementation, and of its corner; without what puts zeros into the rows of an output."""
    whole = verify(lower_grids(kernel.backbone, CandidateImplementation(made)))
    cut, smaller = on_corner(kernel, made)
    programs = (whole, verify(lower_grids(cut.backbone, smaller)))
    computing = (tuple(g for g in p.body if isinstance(g, Grid) and loaded(g.body)) for p in programs)
    cut_programs = (replace(p, body=body) for p, body in zip(programs, computing, strict=True))
    first, second = (print_cuda(p).splitlines() for p in cut_programs)
    return first, second


def test_the_text_differs_in_counts_alone(candidate: Candidate) -> None:
    changes = [
        line[1:].strip()
        for line in difflib.unified_diff(*texts(LARGE, candidate), lineterm="", n=0)
        if line[0] in "+-" and not line.startswith(("+++", "---"))
    ]
    assert [c for c in changes if not c.startswith("*")] == [
        "const int i0 = blockIdx.x / 32;", "const int j0 = blockIdx.x % 32;",
        "const int i0 = blockIdx.x / 2;", "const int j0 = blockIdx.x % 2;",
        "if (i0 < 31) {", "if (i0 < 2) {",
        "for (int p0 = 0; p0 < 256; ++p0) {", "for (int p0 = 0; p0 < 3; ++p0) {",
        "for (int p0_2 = 0; p0_2 < 256; ++p0_2) {", "for (int p0_2 = 0; p0_2 < 3; ++p0_2) {",
        "if (!error) error = LAUNCH(matmul_0, 1024, 256, 16384, stream, A, B, C);",
        "if (!error) error = LAUNCH(matmul_0, 6, 256, 16384, stream, A, B, C);",
    ]  # fmt: skip


_COUNTS = re.compile(r"for \(|blockIdx|LAUNCH|cudaM|cudaF|if \(\w+ < \d+\) \{|temporary_|shared_memory|^ \*")


def test_random_implementations_have_the_same_text_on_a_corner() -> None:
    kernel = load_kernel(LIBRARY / "matmul.yaml", {}, "gpu")

    def without_counts(line: str) -> str:
        return re.sub(r"\d+", "n", line) if _COUNTS.search(line) else line

    def same(lines: list[str]) -> list[str]:
        """What a block shares may be so much more that it has to be asked for, and loops so much shorter that
        they are to be unrolled.
        """
        asked = ("cudaFuncSetAttribute", "#pragma unroll")
        return [without_counts(line) for line in lines if not any(word in line for word in asked)]

    smaller = 0
    for made in random_candidates(space_of(kernel), 12, seed=1):
        whole, cut = texts(kernel, made)
        assert same(cut) == same(whole)
        smaller += cut != whole
    assert smaller > 8


def test_tiles_end_on_a_corner_as_they_do_on_the_whole(candidate: Candidate) -> None:
    made = CandidateImplementation(candidate)
    cut = cut_down(LARGE, made, WHOLE_TILES)
    assert cut == Cut({"i": 2 * 128 + 122, "j": 2 * 128, "p": 3 * 16}, {})
    # Of 16 threads, 2 copies and 4 lanes in a tile, 4 threads are left; those along p are a loop as well.
    # In the last tile of rows, 15 threads had 8 of these each, and one had 2.
    cut = cut_down(LARGE, made, PARTS_OF_TILES)
    inner = {("i", 1, 16): 4, ("j", 1, 16): 4, ("p", 2, 8): 4}
    assert cut == Cut({"i": 4 * 8 + 2 * 8 + 2, "j": 2 * 32, "p": 2 * 8}, inner)


def in_last_tiles(kernel: KernelFile, made: GridImplementation) -> dict[tuple[str, str], list[str]]:
    """Of each nest: how often each of its inner levels goes around in the last tile, if that ends early."""
    found = {}
    for instruction in present(kernel.backbone, made):
        for nest in instruction.logical_dims:
            sizes, turns = [made.size(dim) for dim in nest.dims[1:]], []
            rest = nest.extent % math.prod(sizes)
            for place, dim in enumerate(nest.dims[1:], 1):
                turn, rest = divmod(rest, math.prod(sizes[place:]))
                is_copied = made.kind(dim) in ("VECTOR", "UNROLL")
                turns.append(str(turn) if is_copied or turn < 2 else "several")
            found[instruction.name, nest.index] = turns
    return found


@pytest.mark.parametrize(("name", "sizes"), [("matmul", "m=197,n=131,k=61"), ("softmax", "m=321,n=77")])
def test_parts_of_tiles_end_as_tiles_do(name: str, sizes: str) -> None:
    extents = {size: int(n) for size, n in (each.split("=") for each in sizes.split(","))}
    kernel = load_kernel(LIBRARY / f"{name}.yaml", extents, "gpu")
    smaller = 0
    for made in random_candidates(space_of(kernel), 12, seed=3):
        implementation = CandidateImplementation(made)
        cut, on_cut = on_corner(kernel, made, PARTS_OF_TILES)
        assert in_last_tiles(cut, on_cut) == in_last_tiles(kernel, implementation)
        whole = cut_down(kernel, implementation, WHOLE_TILES)
        verify(lower_grids(cut.backbone, on_cut))
        smaller += math.prod(cut.computation.extents.values()) < math.prod(whole.extents.values())
    assert smaller > 6


@pytest.mark.parametrize("name", ["softmax", "conv2d_nhwc", "axpy"])
def test_a_random_implementation_is_right_on_its_corner(name: str, tmp_path: Path) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", {}, "gpu")
    for made in random_candidates(space_of(kernel), 20, seed=2):
        cut, smaller = on_corner(kernel, made, PARTS_OF_TILES)
        program = verify(lower_grids(cut.backbone, smaller))
        if checking.executed(program.body) < checking.EASILY_EXECUTED:
            assert run_difference(cut, twin(program, tmp_path, 3), brief_case(cut)) == ""
            return
    pytest.fail("all of them compute much")


def test_a_sound_implementation_of_a_large_kernel_is_right(checker: Checker, candidate: Candidate) -> None:
    assert checker.check(candidate) is None


def _last(text: str, pattern: str, replacement: str) -> str:
    """With the last place replaced that a pattern has."""
    place = list(re.finditer(pattern, text))[-1]
    return text[: place.start()] + place.expand(replacement) + text[place.end() :]


FAULTS: dict[str, Callable[[str], str]] = {
    "a row too far, in the last tile alone": lambda t: _last(t, r"&C\[(.*?)\]", r"&C[\1 + 4096]"),
    "a column too far, in the last tile alone": lambda t: _last(t, r"&C\[(.*?)\]", r"&C[\1 + 1]"),
    "a stride that is too short": lambda t: t.replace("i1 * 32768", "i1 * 28672", 1),
    "a row of the operand that is another": lambda t: _last(t, r"= A\[(.*?)\]", r"= A[\1 + 4096]"),
    "no barrier before what is read": lambda t: _last(t, r"__syncthreads\(\);", ""),
    "no barrier before what is written again": lambda t: t.replace("__syncthreads();", "", 1),
    "an iteration too few": lambda t: t.replace("p0 < 3", "p0 < 2"),
    "threads that have no row": lambda t: _last(t, r"threadIdx\.x < 240", "true"),
    "a block too few": lambda t: t.replace("LAUNCH(matmul_0, 6,", "LAUNCH(matmul_0, 5,"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_large_kernel_is_seen_on_its_corner(
    fault: str, checker: Checker, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(program: Program) -> str:
        text = print_cuda(program)
        changed = FAULTS[fault](text)
        assert changed != text
        return changed

    monkeypatch.setattr(checking, "print_cuda", faulty)
    outcome = checker.check(candidate)
    assert outcome is not None
    assert outcome.failure in (Failure.WRONG_RESULT, Failure.CRASH), outcome.message


def test_races_are_seen_where_watching_takes_long(
    checker: Checker, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "EASILY_WATCHED", 1000)
    assert checker.check(candidate, is_watched=True) is None
    fault = FAULTS["no barrier before what is written again"]
    monkeypatch.setattr(checking, "print_cuda", lambda program: fault(print_cuda(program)))
    outcome = checker.check(candidate, is_watched=True)
    assert outcome is not None and outcome.failure is Failure.CRASH
    assert "race" in outcome.message


def test_what_takes_a_cpu_too_long_is_refused(
    checker: Checker, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "MOST_EXECUTED", 1000)
    outcome = checker.check(candidate)
    assert outcome is not None and outcome.failure is Failure.RUN_TIMEOUT
    assert "a CPU cannot check it in time" in outcome.message

"""What is asked for before it is read is what is read then; asking elsewhere does no harm."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.linalg.implementation import USUAL_DISTANCE, CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Expression, Load, PartialLoad
from spacedsl.codegen.tree.parts import blocks, operands
from spacedsl.codegen.tree.program import (
    Assign,
    Branch,
    Loop,
    ParallelLoop,
    PartialStore,
    Prefetch,
    Program,
    Statement,
    Store,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import LINALG_SPACE, KernelFile
from spacedsl.kernels.linalg.backbone import Instruction
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.interpreter import element
from tests.codegen.kernels import matmul, parse
from tests.codegen.listings import MATMUL_COPIED, MATMUL_TILED
from tests.codegen.runs import compiled_difference, integer_case, interpreted_difference
from tests.codegen.scripts import RefusedError, Script, decide, script
from tests.codegen.zoo import zoo
from tests.rules import rules_of

LINE = 64

BATCHED = """
kernel: batched
backbone: linalg
sizes: {{b: {b}, m: {m}, n: {n}, k: {k}}}
tensors:
  A: {{dtype: {dtype}, shape: [b, m, k]}}
  B: {{dtype: {dtype}, shape: [b, k, n], strides: [k * {row}, {row}, 1]}}
  C: {{dtype: {dtype}, shape: [b, m, n], output: true}}
compute:
  - C[h, i, j] = sum[p](A[h, i, p] * B[h, p, j])
tiling: {{h: [], i: [[{rows}]], j: [[{lanes}]], p: [[{terms}]]}}
"""

BATCHED_LIST = """
    h0 P *
      i0 L *
        j0 L *
          i1 U {rows}
            j1 V {lanes}
              init
          p0 L *
            p1 U {terms}
              i1 U {rows}
                load_A next
              j1 V {lanes}
                load_B {wanted}
              i1 U {rows}
                j1 V {lanes}
                  fma
          i1 U {rows}
            j1 V {lanes}
              store_C
"""


@dataclass(frozen=True)
class Shape:
    b: int = 4
    m: int = 8
    n: int = 32
    k: int = 16
    row: int = 32
    rows: int = 4
    lanes: int = 16
    terms: int = 2
    dtype: str = "f32"
    wanted: str = "next"

    def lowered(self, without: str = "") -> Program:
        """`without`: a load that nothing is asked for."""
        kernel = parse(BATCHED.format(**vars(self)))
        text = BATCHED_LIST.format(**vars(self))
        if without:
            text = text.replace(f"{without} next", without)
        return verify(lower(kernel.backbone, script(kernel.backbone, text)))


SHAPES = {
    "whole rows": Shape(),
    "rows apart": Shape(row=100),
    "more iterations than lines": Shape(m=32, rows=1, terms=1),
    "nothing divides anything": Shape(m=15, n=48, k=21, row=48, rows=3, terms=3),
    "doubles": Shape(lanes=8, dtype="f64"),
    "the tile beside it": Shape(b=2, n=64, row=64),
}


@dataclass(frozen=True)
class Event:
    at: Mapping[str, int]
    """Where all loops around it stand."""
    tensor: str
    lines: tuple[int, ...]
    is_prefetch: bool


def events(program: Program) -> Iterator[Event]:
    """Of one run on tensors that begin with a line, from the meaning of the tree."""
    nbytes = {t.name: t.dtype.nbytes for t in program.tensors}

    def block(body: tuple[Statement, ...], at: Mapping[str, int]) -> Iterator[Event]:
        for statement in body:
            match statement:
                case Loop(variable, extent, inner) | ParallelLoop(variable, extent, inner):
                    for i in range(extent):
                        yield from block(inner, {**at, variable: i})
                case Branch(variable, limit, inner, otherwise):
                    yield from block(inner if at[variable] < limit else otherwise, at)
                case Prefetch(tensor, index):
                    yield Event(at, tensor, (line(tensor, element(index, at)),), True)
                case Assign(_, value) | Store(_, _, value) | PartialStore(_, _, value):
                    yield from loads(value, at)

    def loads(value: Expression, at: Mapping[str, int]) -> Iterator[Event]:
        if isinstance(value, Load | PartialLoad) and value.tensor in nbytes:
            last = (value.type.lanes if isinstance(value, Load) else value.count) - 1
            first = element(value.index, at)
            ends = (line(value.tensor, end) for end in (first, first + last))
            yield Event(at, value.tensor, tuple(ends), False)
        for part in operands(value):
            yield from loads(part, at)

    def line(tensor: str, at: int) -> int:
        return at * nbytes[tensor] // LINE

    return block(program.body, {})


def by_iteration(program: Program, tensor: str, loop: str) -> dict[tuple[tuple[str, int], ...], list[Event]]:
    """Events by where the loops around stand, down to one loop."""
    found: dict[tuple[tuple[str, int], ...], list[Event]] = defaultdict(list)
    for event in events(program):
        if event.tensor == tensor:
            names = list(event.at)
            found[tuple((name, event.at[name]) for name in names[: names.index(loop) + 1])].append(event)
    return found


def asked(found: list[Event]) -> list[int]:
    return [line for event in found if event.is_prefetch for line in event.lines]


def read(found: list[Event]) -> set[int]:
    return {line for event in found if not event.is_prefetch for line in event.lines}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("tensor", ["A", "B"])
def test_an_iteration_asks_for_all_that_the_next_one_reads_and_for_little_else(
    name: str, tensor: str
) -> None:
    program = SHAPES[name].lowered()
    # The loop j0, which repeats what is read of A, lies inside the one that leads to the next rows.
    loop = "i0" if tensor == "A" else "j0"
    iterations, compared = by_iteration(program, tensor, loop), 0
    for place, found in iterations.items():
        (variable, at), outer = place[-1], place[:-1]
        following = iterations.get((*outer, (variable, at + 1)))
        if following is not None:
            compared += 1
            assert read(following) <= set(asked(found))
            assert len(set(asked(found)) - read(following)) <= len(read(following))
    assert compared


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("tensor", ["A", "B"])
def test_no_iteration_asks_for_more_lines_than_others(name: str, tensor: str) -> None:
    program = SHAPES[name].lowered()
    counts = {len(asked(found)) for found in by_iteration(program, tensor, "p0").values()}
    tile = max(len(set(asked(found))) for found in by_iteration(program, tensor, "j0").values())
    assert len(counts) == 1
    assert counts.pop() <= max(4, tile)


@pytest.mark.parametrize(("wanted", "iterations"), [("ahead 256", 4), ("ahead", 8), ("ahead 2048", 32)])
def test_what_lies_ahead_is_read_some_iterations_later(wanted: str, iterations: int) -> None:
    program = Shape(k=256, wanted=wanted).lowered("load_A")
    reads = {(event.at["p0"], event.lines[0]) for event in events(program) if event.tensor == "B"}
    ahead = [(event.at["p0"], event.lines[0]) for event in events(program) if event.is_prefetch]
    # Of B's rows, 128 bytes each, two vectors are read in an iteration: one line after another.
    inside = [(at + iterations, line) for at, line in ahead if at + iterations < 128]
    assert len(inside) > 1000
    assert reads.issuperset(inside)


def test_of_a_tile_that_ends_early_nothing_is_asked() -> None:
    kernel = matmul(10, 32, 24, "{i: [[4]], j: [[16]], p: [[8]]}")
    text = BATCHED_LIST.format(rows=4, lanes=16, terms=8, wanted="ahead").replace("    h0 P *\n", "")
    for kind in ("L", "G"):
        program = lower(kernel.backbone, script(kernel.backbone, text.replace("i0 L", f"i0 {kind}")))
        places = [dict(event.at) for event in events(verify(program)) if event.is_prefetch]
        assert places and all(at["i0"] < 2 for at in places)


def test_an_unknown_value_has_no_code() -> None:
    kernel = parse(BATCHED.format(**vars(Shape())))
    decided = script(kernel.backbone, BATCHED_LIST.format(**vars(Shape())))
    decided.prefetched[kernel.backbone.loads[0]] = "SOON"
    with pytest.raises(LoweringError, match="SOON"):
        lower(kernel.backbone, decided)


# ---- In the space ----------------------------------------------------------------------------------------


@cache
def unlimited(folder: Path) -> Path:
    """The space, in which small tensors can be prefetched as well."""
    text = rules_of()
    assert text.count(" if load.is_large]") == 1
    path = folder / "unlimited.space"
    path.write_text(text.replace(" if load.is_large]", "]"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unlimited(tmp_path_factory.mktemp("spaces"))


def prefetches(program: Program) -> int:
    def count(body: tuple[Statement, ...]) -> int:
        return sum(isinstance(s, Prefetch) + sum(map(count, blocks(s))) for s in body)

    return count(program.body)


@pytest.mark.parametrize("name", ["gemm", "copied operands", "ragged lines", "dot", "outer"])
def test_random_candidates_with_prefetches_are_right(name: str, space: Path, tmp_path: Path) -> None:
    kernel = zoo()[name]
    instance, case = space_of(kernel, space), integer_case(kernel)
    random, made = np.random.default_rng(3), 0
    for number in range(12):
        candidate = random_candidate(instance, random, {"prefetch": ("NEXT", "AHEAD")[number % 2]})
        assert candidate is not None
        program = verify(lower(kernel.backbone, CandidateImplementation(candidate)))
        made += prefetches(program)
        assert interpreted_difference(kernel, program, case) == ""
        if number < 2:
            assert compiled_difference(kernel, program, case, tmp_path) == ""
    assert made


def test_values_that_are_allowed_differ_and_those_that_are_not_would_change_nothing(space: Path) -> None:
    kernel = matmul(8, 32, 12, "{i: [[2, 4]], j: [[8, 16]], p: [[2, 3]]}")
    instance, random = space_of(kernel, space), np.random.default_rng(5)
    refused = allowed = 0
    for _ in range(60):
        candidate = random_candidate(instance, random)
        assert candidate is not None
        for variable in instance.variables_of("prefetch"):
            (load,) = variable.objects
            assert isinstance(load, Instruction)
            if candidate.value("storage", load) == "TEMPORARY":
                continue
            texts = {
                value: print_c(lower(kernel.backbone, _Changed(candidate, load, str(value))), 2)
                for value in variable.universe
            }
            loops = [d for d in load.dims if candidate.value("dim_kind", d) in ("LOOP", "PARALLEL")]
            loops = [d for d in loops if int(candidate.value("size", d)) > 1]
            others = {"NONE": 0, "AHEAD": 1, "NEXT": 2}
            possible = [value for value, needed in others.items() if needed <= len(loops)]
            assert len({texts[value] for value in possible}) == len(possible)
            assert all(texts[value] == texts["NONE"] for value in others if value not in possible)
            assert candidate.value("prefetch", load) in possible
            allowed, refused = allowed + len(possible), refused + len(others) - len(possible)
    assert refused and allowed


class _Changed(CandidateImplementation):
    """The same decisions but for one prefetch."""

    def __init__(self, candidate: object, load: Instruction, value: str) -> None:
        super().__init__(candidate)  # type: ignore[arg-type]
        object.__setattr__(self, "changed", (load, value))

    def prefetch(self, load: Instruction) -> str:
        changed, value = self.changed  # type: ignore[attr-defined]
        return str(value) if load is changed else super().prefetch(load)

    def prefetch_distance(self, load: Instruction) -> int:
        """Longer than any of the tiles: nothing that lies so far ahead is in the next one."""
        return USUAL_DISTANCE


def test_the_next_tile_of_a_copied_operand_is_not_asked_for(space: Path) -> None:
    kernel = matmul(8, 96, 12, "{i: [[4]], j: [[2], [16]], p: [[4]]}")
    text = MATMUL_COPIED.format(j0=3, i0=2, p0=3, p1=4)
    assert _decided(kernel, text, space).prefetched == {}
    copied = re.sub(r"(\s)load_B\n", r"\1load_B ahead\n", text)
    assert list(_decided(kernel, copied, space).prefetched.values()) == ["AHEAD"]
    with pytest.raises(RefusedError, match=r"storage\(\$load\) is REGISTERS"):
        _decided(kernel, copied.replace("ahead", "next"), space)


def _decided(kernel: KernelFile, text: str, space: Path) -> Script:
    instance = space_of(kernel, space)
    root, decided = instance.root(), script(kernel.backbone, text)
    assert root is not None
    assert decide(instance, root, decided).is_complete
    return decided


def test_what_stays_in_a_cache_is_never_asked_for() -> None:
    tiling = "{i: [[2], [8]], j: [[2], [16]], p: []}"
    text = MATMUL_TILED.format(i0="*", i1=2, j0="*", k="*").replace("load_B", "load_B next")
    small, large = matmul(32, 64, 4096, tiling), matmul(32, 64, 4097, tiling)
    assert _decided(large, text, LINALG_SPACE).prefetched
    with pytest.raises(RefusedError, match=r"the space has no prefetch\(load_B\) that could be NEXT"):
        _decided(small, text, LINALG_SPACE)


# ---- As C ------------------------------------------------------------------------------------------------

_MAIN = """
#include <stdlib.h>
int main(void) {
  float *A = malloc(sizeof(float) * %(b)d * %(m)d * %(k)d);
  float *B = malloc(sizeof(float) * %(b)d * %(k)d * %(row)d);
  float *C = malloc(sizeof(float) * %(b)d * %(m)d * %(n)d);
  for (int i = 0; i < %(b)d * %(m)d * %(k)d; ++i) A[i] = 1;
  for (int i = 0; i < %(b)d * %(k)d * %(row)d; ++i) B[i] = 2;
  batched(A, B, C);
  for (int i = 0; i < %(b)d * %(m)d * %(n)d; ++i)
    if (C[i] != 2 * %(k)d) return 1;
  free(A), free(B), free(C);
  return 0;
}
"""


@pytest.mark.parametrize("name", [n for n in SHAPES if n != "doubles"])
def test_what_is_asked_for_beyond_a_tensor_does_no_harm(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    program = shape.lowered()
    spans = {t.name: t.span * t.dtype.nbytes for t in program.tensors}
    assert any(e.is_prefetch and e.lines[0] * LINE >= spans[e.tensor] for e in events(program))
    (tmp_path / "main.c").write_text(print_c(program, 2) + _MAIN % vars(shape), encoding="utf-8")
    compiler = find_compiler()
    flags = [f for f in compiler.flags if f not in ("-shared", "-fPIC", "-fno-sanitize=all")]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = [*compiler.command, *flags, "-o", str(tmp_path / "main"), str(tmp_path / "main.c")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        pytest.skip(f"{compiler.version} has no sanitizers: {built.stderr[-200:]}")
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

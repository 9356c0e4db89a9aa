"""Copying under the arithmetic of the tile before gives the same results, whatever ends early."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.expressions import Load
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import Ahead, Assign, Branch, Loop, Prefetch, Program, Statement
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.interpreter import element, interpret
from tests.codegen.kernels import parse
from tests.codegen.runs import compiled_difference, integer_case, interpreted_difference
from tests.codegen.scripts import RefusedError, decide, script

STRIDED = """
kernel: strided
backbone: linalg
sizes: {{m: {m}, n: {n}, k: {k}}}
tensors:
  A: {{dtype: f32, shape: [m, k], strides: [{stride} * k, {stride}]}}
  B: {{dtype: f32, shape: [k, n]}}
  C: {{dtype: f32, shape: [m, n], output: true}}
compute:
  - C[i, j] = sum[p](A[i, p] * B[p, j])
tiling: {{i: [[{tiles}], [{rows}]], j: [[{lanes}]], p: [[{terms}]]}}
"""

COPIED = """
    i0 {kind} *
      i1 L {tiles}
        p0 L *
          p1 L {terms}
            i2 U {rows}
              load_A
      j0 {columns} *
        i1 L {tiles}
          i2 U {rows}
            j1 V {lanes}
              init
          p0 L *
            p1 U {terms}
              i2 U {rows}
                reload_A under
              j1 V {lanes}
                load_B
              i2 U {rows}
                j1 V {lanes}
                  fma
          i2 U {rows}
            j1 V {lanes}
              store_C
"""


@dataclass(frozen=True)
class Shape:
    m: int = 48
    n: int = 64
    k: int = 16
    tiles: int = 2
    rows: int = 4
    lanes: int = 16
    terms: int = 2
    kind: str = "P"
    columns: str = "L"
    stride: int = 3

    @property
    def kernel(self) -> KernelFile:
        return parse(STRIDED.format(**vars(self)))

    @property
    def program(self) -> Program:
        kernel = self.kernel
        return verify(lower(kernel.backbone, script(kernel.backbone, COPIED.format(**vars(self)))))


SHAPES = {
    "threads": Shape(),
    "one after the other": Shape(kind="L"),
    "an odd number of tiles": Shape(m=40),
    "a last tile that ends early": Shape(m=45, rows=6),
    "a last tile that ends early, behind the loop": Shape(m=45, rows=6, kind="L"),
    "a last tile that ends early, in the loop": Shape(m=45, rows=6, kind="G"),
    "a last tile of less than a row of registers": Shape(m=50, rows=6),
    "a single tile": Shape(m=8),
    "a single tile and a rest": Shape(m=11),
    "a single tile, one after the other": Shape(m=8, kind="L"),
    "two tiles": Shape(m=16),
    "more columns than terms": Shape(n=128, k=4),
    "columns that end early": Shape(n=77),
    "columns that end early in the loop": Shape(n=77, columns="G"),
    "terms that end early": Shape(k=19),
    "terms that the columns do not divide": Shape(n=48, k=26),
    "a tile of one row of registers": Shape(tiles=1),
    "nothing divides anything": Shape(m=53, n=91, k=37, tiles=3, rows=5, terms=3),
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_copied_ahead_is_what_the_next_tile_reads(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    kernel, program = shape.kernel, shape.program
    case = integer_case(kernel)
    assert interpreted_difference(kernel, program, case) == ""
    assert compiled_difference(kernel, program, case, tmp_path) == ""


def counted(body: tuple[Statement, ...], kind: type[Statement]) -> int:
    return sum(isinstance(statement, kind) for statement in statements(body))


def test_a_single_tile_is_copied_before_and_has_no_second_half() -> None:
    single, two = SHAPES["a single tile, one after the other"], replace(Shape(m=16), kind="L")
    assert counted(single.program.body, Ahead) == 0
    assert counted(two.program.body, Ahead) > 0
    assert two.program.scratch[0].tensor.elements == 2 * single.program.scratch[0].tensor.elements


def test_each_element_is_copied_once() -> None:
    stored: Counter[int] = Counter()

    class Memory(list[float]):
        def __setitem__(self, at: Any, value: Any) -> None:
            stored[at] += 1
            super().__setitem__(at, value)

    shape = Shape(m=64, kind="L", n=48, k=26)
    (scratch,) = shape.program.scratch
    tensors = {t.name: [0.0] * t.span for t in shape.kernel.backbone.tensors}
    interpret(shape.program, {**tensors, scratch.tensor.name: Memory([0.0] * scratch.tensor.span)}, {})
    assert sum(stored.values()) == shape.m * shape.k
    assert set(stored.values()) == {shape.m * shape.k // scratch.tensor.span}


def test_a_share_is_asked_for_before_it_is_copied() -> None:
    """In whole tiles, where lines are elements: asked for by then are all but those of the first shares."""
    shape = Shape(m=64, n=64, k=32, kind="L", stride=16)
    asked, late, copied = set[int](), 0, 0

    def block(body: tuple[Statement, ...], at: dict[str, int]) -> None:
        nonlocal late, copied
        for statement in body:
            match statement:
                case Loop(variable, extent, inner):
                    for i in range(extent):
                        block(inner, {**at, variable: i})
                case Ahead(variable, limit, inner):
                    if at[variable] + 1 < limit:
                        block(inner, at)
                case Branch(variable, limit, inner, otherwise):
                    block(inner if at[variable] < limit else otherwise, at)
                case Prefetch("A", index):
                    asked.add(element(index, at))
                case Assign(_, Load("A", index)):
                    late, copied = late + (element(index, at) not in asked), copied + 1

    block(shape.program.body, {})
    tile = shape.tiles * shape.rows * shape.k
    assert copied == shape.m * shape.k
    assert tile <= late <= 2 * tile


# ---- In the space ----------------------------------------------------------------------------------------

SPARSE = Shape(m=24, n=32, k=6, stride=4096)
"""So that 1 MiB lies between the first element and the last."""


def test_random_candidates_that_copy_ahead_are_right(tmp_path: Path) -> None:
    kernel = parse(STRIDED.format(**vars(replace(SPARSE, m=23))))
    instance, case = space_of(kernel), integer_case(kernel)
    random, ahead = np.random.default_rng(11), 0
    for number in range(24):
        candidate = random_candidate(instance, random, {"storage": "TEMPORARY", "copying": "UNDER"})
        if candidate is None:
            continue
        program = verify(lower(kernel.backbone, CandidateImplementation(candidate)))
        ahead += bool(counted(program.body, Ahead))
        assert interpreted_difference(kernel, program, case) == ""
        if number < 3:
            assert compiled_difference(kernel, program, case, tmp_path) == ""
    assert ahead


def decided(shape: Shape, text: str) -> None:
    kernel = shape.kernel
    instance = space_of(kernel)
    root = instance.root()
    assert root is not None
    listed = text.format(**vars(shape))
    assert decide(instance, root, script(kernel.backbone, listed)).is_complete


def test_only_copies_of_large_tensors_have_the_choice() -> None:
    with pytest.raises(RefusedError, match="no copying"):
        decided(Shape(), COPIED)


@pytest.mark.parametrize("kind", ["P", "L"])
def test_the_space_takes_a_list_that_copies_ahead(kind: str) -> None:
    decided(replace(SPARSE, kind=kind), COPIED)


def test_a_prefetched_load_is_not_copied_ahead() -> None:
    with pytest.raises(RefusedError, match="prefetch"):
        decided(SPARSE, re.sub(r"(\s)load_A\n", r"\1load_A ahead\n", COPIED))

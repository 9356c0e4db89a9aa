"""Vectors that several sums share are loaded once, where there are registers for them."""

from __future__ import annotations

import platform
import re
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.codegen.c.build import build_library, find_compiler
from spacedsl.codegen.c.kept import FEW, MANY, NOTHING, Kept, kept
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.tree.expressions import Broadcast, Fma, Index, Load, Number, Register, Type
from spacedsl.codegen.tree.program import Assign, Loop, Program, Statement, Store
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.tensors import Tensor

DEEP = 64
SCALAR, VECTOR = Type(DType.F32), Type(DType.F32, 16)
TENSORS = (
    Tensor("a", DType.F32, (4, DEEP), (DEEP, 1), is_output=False),
    Tensor("b", DType.F32, (DEEP, 32), (32, 1), is_output=False),
    Tensor("c", DType.F32, (4, 32), (32, 1), is_output=True),
)
TUNED = {16: ("-march=skylake-avx512", "-mtune=znver3"), 8: ("-march=znver3",)}
"""By the lanes of vectors. As GCC 12 is for AMD processors, also for those of which it does not know yet that
they have the larger ones."""


def sums(rows: int, columns: int, lanes: int = 16, dtype: DType = DType.F32) -> list[Register]:
    return [Register(f"sum_{n}", Type(dtype, lanes)) for n in range(rows * columns)]


def product(rows: int, columns: int, lanes: int = 16, dtype: DType = DType.F32) -> Loop:
    """Of `rows` scalars and so many vectors, each added to a sum, and loaded where it is needed first."""
    kind, across = Type(dtype, lanes), columns * lanes
    a = [Register(f"a_{n}", Type(dtype)) for n in range(rows)]
    b = [Register(f"b_{n}", kind) for n in range(columns)]
    body: list[Statement] = []
    for place, total in enumerate(sums(rows, columns, lanes, dtype)):
        row, column = divmod(place, columns)
        if not column:
            body.append(Assign(a[row], Load("a", Index(row * DEEP, (("k", 1),)), a[row].type)))
        if not row:
            body.append(Assign(b[column], Load("b", Index(column * lanes, (("k", across),)), kind)))
        body.append(Assign(total, Fma(Broadcast(a[row], lanes), b[column], total)))
    return Loop("k", DEEP, tuple(body))


def found(loop: Loop) -> Kept:
    around = {
        s.register.name for s in loop.body if isinstance(s, Assign) and s.register.name.startswith("sum")
    }
    return kept(loop, around)


def vectors(count: int) -> frozenset[str]:
    return frozenset(f"b_{n}" for n in range(count))


def test_vectors_that_several_sums_need_are_kept() -> None:
    assert found(product(4, 2)) == Kept(vectors(2), MANY.call)
    assert found(product(2, 3, 4, DType.F64)) == Kept(vectors(3), FEW.call)
    assert found(product(4, 2, 4)) == Kept(vectors(2), FEW.call)


def test_a_vector_that_one_sum_needs_is_part_of_its_product() -> None:
    assert found(product(1, 4)) == NOTHING


def test_nothing_is_kept_where_registers_are_too_few() -> None:
    assert found(product(14, 2)) == Kept(vectors(2), MANY.call)
    assert found(product(6, 4)) == Kept(vectors(4), MANY.call)
    assert found(product(15, 2)) == found(product(8, 4)) == NOTHING


def test_16_registers_hold_half_as_much() -> None:
    assert found(product(6, 2, 8)) == Kept(vectors(2), FEW.call)
    assert found(product(7, 2, 8)) == Kept(vectors(2), MANY.call)
    assert found(product(14, 2, 8)) == Kept(vectors(2), MANY.call)
    assert found(product(15, 2, 8)) == NOTHING


def test_what_has_elements_of_other_sizes_is_left_alone() -> None:
    assert found(product(4, 2, 32, DType.F16)) == found(product(4, 2, 32)) == NOTHING


def test_only_innermost_loops_that_add_to_something_keep_their_loads() -> None:
    inner = product(4, 2)
    assert kept(inner, ()) == NOTHING
    assert kept(Loop("i", 2, (inner, *inner.body)), {r.name for r in sums(4, 2)}) == NOTHING


def test_a_value_from_outside_that_is_taken_in_between_hides_nothing(tmp_path: Path) -> None:
    """A loop that keeps what it loads is followed by statements that do not."""
    loop = product(4, 2)
    totals = sums(4, 2)
    again = Assign(Register("b_0", VECTOR), Load("b", Index(0), VECTOR))
    body: list[Statement] = [Assign(r, Broadcast(Number(0.0, SCALAR), 16)) for r in totals]
    body += [loop, again, *(Store("c", Index(16 * n), r) for n, r in enumerate(totals))]
    text = print_c(verify(Program("product", TENSORS, (), tuple(body))), 1)
    assert text.count(f"{MANY.call}(b_0)") == 1
    build_library(text, tmp_path / "product.so", extra_flags=("-O0",))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86")
@pytest.mark.parametrize("lanes", TUNED)
def test_gcc_takes_no_vector_from_memory_twice(lanes: int, tmp_path: Path) -> None:
    """GCC 12 does, without being told."""
    compiler = find_compiler()
    if compiler.is_clang:
        pytest.skip("another compiler")
    rows, columns = 4, 2
    totals = sums(rows, columns, lanes)
    body: list[Statement] = [Assign(r, Broadcast(Number(0.0, SCALAR), lanes)) for r in totals]
    body += [product(rows, columns, lanes), *(Store("c", Index(n * lanes), r) for n, r in enumerate(totals))]
    a, b, c = TENSORS
    c = replace(c, shape=(rows, columns * lanes), strides=(columns * lanes, 1))
    text = print_c(verify(Program("product", (a, b, c), (), tuple(body))), 1)
    call = FEW.call if lanes <= 8 else MANY.call
    assert text.count(f" {call}(b_") == columns

    def repeated(code: str) -> int:
        """Loads from places of memory that another product loads from, too."""
        listing = tmp_path / "product.s"
        build_library(code, listing, extra_flags=("-S", *TUNED[lanes]))
        products = [line for line in listing.read_text(encoding="utf-8").splitlines() if "vfmadd" in line]
        assert len(products) >= rows * columns
        places = [m[0] for line in products if (m := re.search(r"-?\w*\([^)]*\)(?!\{)", line))]
        return len(places) - len(set(places))

    assert repeated(text) == 0
    if ") 12." in compiler.version:
        assert repeated(text.replace(f" {call}(b_", " (void)(b_")) > 0

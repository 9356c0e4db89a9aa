"""Sums of products on tensor cores: random implementations are right, and what cannot be one is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.cuda.checking import Checker
from spacedsl.codegen.cuda.fragments import joined
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.running.cases import make_cases
from spacedsl.codegen.running.measurement import Options
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import Bits, Index, Load, LoadMatrix, Number, Register, Type
from spacedsl.codegen.tree.parts import expressions, statements, with_blocks
from spacedsl.codegen.tree.program import Assign, Coordinate, Grid, Multiply, Program, Statement, Store, Where
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.backbone import Axis
from spacedsl.kernels.tensors import Tensor
from tests.codegen.cuda.grids import compiled, device, on_tensor_cores, orders, random_from, twin
from tests.codegen.cuda.test_golden import program as golden_program
from tests.codegen.golden import FOLDER, read
from tests.codegen.kernels import parse
from tests.codegen.runs import integer_case, run_difference


def product(tensors: str, line: str, precision: str = "tensor") -> KernelFile:
    lines = "".join(f"  {tensor.strip()}\n" for tensor in tensors.split(";"))
    head = "kernel: product\nbackbone: linalg\nsizes: {m: 64, n: 32, k: 64, b: 4}\n"
    return parse(f"{head}precision: {precision}\ntensors:\n{lines}compute:\n  - {line}\n").made_for("gpu")


def plain(dtype: str, precision: str = "tensor") -> KernelFile:
    return product(
        f"A: {{dtype: {dtype}, shape: [m, k]}}; B: {{dtype: {dtype}, shape: [k, n]}}; "
        "C: {dtype: f32, shape: [m, n], output: true}",
        "C[i, j] = sum[p](A[i, p] * B[p, j])",
        precision,
    )


KERNELS = {
    "bf16": plain("bf16"),
    "tf32": plain("f32", "tf32"),
    "columns of B": product(
        "A: {dtype: f16, shape: [m, k]}; B: {dtype: f16, shape: [n, k]}; "
        "C: {dtype: f16, shape: [m, n], output: true}",
        "C[i, j] = sum[p](A[i, p] * B[j, p])",
    ),
    "columns of C": product(
        "A: {dtype: bf16, shape: [k, m]}; B: {dtype: bf16, shape: [k, n]}; "
        "C: {dtype: bf16, shape: [n, m], output: true}",
        "C[j, i] = sum[p](A[p, i] * B[p, j])",
    ),
    "batched": product(
        "A: {dtype: bf16, shape: [b, m, k]}; B: {dtype: bf16, shape: [b, k, n]}; "
        "C: {dtype: f32, shape: [b, m, n], output: true}",
        "C[l, i, j] = sum[p](A[l, i, p] * B[l, p, j])",
    ),
    "epilogue": product(
        "A: {dtype: bf16, shape: [m, k]}; B: {dtype: bf16, shape: [k, n]}; v: {dtype: f32, shape: [n]}; "
        "w: {dtype: bf16, shape: [m]}; D: {dtype: f32, shape: [m, n]}; "
        "C: {dtype: f32, shape: [m, n], output: true}",
        "C[i, j] = max(0, sum[p](A[i, p] * B[p, j]) + v[j] * w[i] + D[i, j])",
    ),
}


def lowered(kernel: KernelFile, candidate: Candidate) -> Program:
    return verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))


@pytest.mark.parametrize("name", KERNELS)
def test_random_implementations_are_right(name: str, tmp_path: Path) -> None:
    kernel = KERNELS[name]
    case = integer_case(kernel)
    for number, candidate in enumerate(random_from(on_tensor_cores(kernel), 4, seed=3)):
        program = lowered(kernel, candidate)
        assert any(isinstance(s, Multiply) for s in statements(program.body))
        library = twin(program, tmp_path)
        for _ in orders(library, (number % 2, 2 + number)):
            assert run_difference(kernel, library, case) == ""
        if number == 0:
            assert compile_cubin(print_cuda(program), device().compute_capability).resources


def test_every_way_to_load_and_to_multiply_is_met() -> None:
    met = Counter[object]()
    for kernel in KERNELS.values():
        for candidate in random_from(on_tensor_cores(kernel), 12, seed=4):
            program = lowered(kernel, candidate)
            met.update((len(s.result), len(s.b)) for s in statements(program.body) if isinstance(s, Multiply))
            met.update(type(e) for e in expressions(program.body))
            met.update(e.is_transposed for e in expressions(program.body) if isinstance(e, LoadMatrix))
    assert all(met[each] for each in ((2, 1), (2, 2), (4, 1), (4, 2), Bits, True, False))


def test_rows_of_the_result_are_not_those_that_neighbours_lie_along() -> None:
    for name, rows in (("columns of C", "j"), ("bf16", "i")):
        (store,) = KERNELS[name].backbone.stores
        sides = {d.fragment.axis: d.index for d in store.dims if d.fragment is not None}
        assert sides[Axis.ROWS] == rows


@pytest.mark.parametrize(
    "kernel",
    [
        plain("bf16", "full"),
        plain("f32"),
        product(
            "A: {dtype: bf16, shape: [m, k]}; C: {dtype: f32, shape: [m], output: true}",
            "C[i] = sum[p](A[i, p] * A[i, p])",
        ),
        product(
            "A: {dtype: bf16, shape: [m, k]}; B: {dtype: f16, shape: [k, n]}; "
            "C: {dtype: f32, shape: [m, n], output: true}",
            "C[i, j] = sum[p](A[i, p] * B[p, j])",
        ),
        product(
            "A: {dtype: bf16, shape: [m, k]}; B: {dtype: bf16, shape: [k, n]}; "
            "C: {dtype: f32, shape: [m, n], output: true}",
            "C[i, j] = sum[p](exp(A[i, p]) * B[p, j])",
        ),
    ],
)
def test_other_sums_are_not_for_tensor_cores(kernel: KernelFile) -> None:
    assert kernel.backbone.fragment_dims == ()


def test_a_device_without_them_multiplies_without_them() -> None:
    kernel = KERNELS["bf16"]
    for name, is_possible in (("k4000", False), ("h100", True)):
        instance = instantiate(compiled(), kernel.backbone, load_gpu(DEVICES / f"{name}.yaml"), Engine.NATIVE)
        root = instance.root()
        assert root is not None
        kinds = {kind for d in kernel.backbone.fragment_dims for kind in root.possible("dim_kind", d)}
        assert ("FRAGMENT" in kinds) == is_possible


def test_what_tensor_cores_cut_off_is_no_fault() -> None:
    """Factors of tf32 have 11 bits, and a twin is compared with the reference all the same."""
    kernel = KERNELS["tf32"]
    random, *_ = make_cases(kernel, np.random.default_rng(5))
    a, b = (random.inputs[name].reshape(shape) for name, shape in (("A", (64, 64)), ("B", (64, 32))))
    cut = [(x.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32).astype(float) for x in (a, b)]
    off = np.abs(cut[0] @ cut[1] - a.astype(float) @ b.astype(float)).max()
    assert off < random.tolerances["C"] < 30 * off
    (full, *_) = make_cases(plain("f32", "full"), np.random.default_rng(5))
    assert full.tolerances["C"] < off
    checker = Checker(kernel, Options())
    checker.open()
    try:
        for candidate in random_from(on_tensor_cores(kernel), 2, seed=8):
            assert checker.check(candidate) is None
    finally:
        checker.close()


# ---- Joining -------------------------------------------------------------------------------------------

F32, BITS = Type(DType.F32), Type(DType.I32)


def single(row: int, column: int, term: int) -> Multiply:
    result = (Register(f"c{row}{column}0", F32), Register(f"c{row}{column}1", F32))
    a, b = Register(f"a{row}{term}", BITS), Register(f"b{term}{column}", BITS)
    return Multiply(result, (a,), (b,), DType.BF16)


def test_products_are_joined_to_what_the_machine_has() -> None:
    every = [single(r, c, t) for t in (0, 1) for r in (0, 1) for c in (0, 1)]
    first, second = joined(every)
    assert first == Multiply(
        (*single(0, 0, 0).result, *single(1, 0, 0).result),
        tuple(Register(f"a{r}{t}", BITS) for t in (0, 1) for r in (0, 1)),
        (Register("b00", BITS), Register("b10", BITS)),
        DType.BF16,
    )
    assert isinstance(second, Multiply)
    assert second.b == (Register("b01", BITS), Register("b11", BITS))
    # Three rows: one of them is left alone.
    rows = joined([single(r, 0, 0) for r in range(3)])
    assert [len(s.result) for s in rows if isinstance(s, Multiply)] == [4, 2]


@pytest.mark.parametrize(
    "between",
    [
        Assign(Register("a00", BITS), Number(0, BITS)),
        Assign(Register("b00", BITS), Number(0, BITS)),
        Store("C", Index(0), Register("c000", F32)),
        Where(((0, 1, 2),), (Store("C", Index(0), Number(0.0, F32)),)),
    ],
)
def test_what_comes_in_between_keeps_products_apart(between: Statement) -> None:
    body = (single(0, 0, 0), between, single(1, 0, 0))
    assert joined(body) == body
    harmless = Assign(Register("other", BITS), Number(0, BITS))
    assert len(joined((body[0], harmless, body[2]))) == 2


# ---- Faults --------------------------------------------------------------------------------------------

TILE = Tensor("tile", DType.BF16, (64,), (1,), is_output=True)
OUT = Tensor("C", DType.F32, (64,), (1,), is_output=True)


def refused(*body: Statement, threads: int = 32) -> str:
    zeros = Store("tile", Index(0, (("t", 1),)), Number(0.0, Type(DType.BF16)))
    coordinates = (Coordinate("t", False, 1, threads), Coordinate("row", False, 1, 8))
    one = single(0, 0, 0)
    given = [Assign(r, Number(0.0, r.type)) for r in (*one.result, *one.a, *one.b)]
    grid = Grid("k_0", 1, threads, coordinates, (TILE,), (zeros, *given, *body))
    with pytest.raises(VerificationError) as caught:
        verify(Program("k", (OUT,), (), (grid,)))
    return str(caught.value)


def matrix(constant: int = 0, stride: int = 8) -> Statement:
    index = Index(constant, (("row", stride),))
    return Assign(Register("m", BITS), LoadMatrix("tile", index, DType.BF16, is_transposed=False))


def test_faults_of_products_are_refused() -> None:
    one = single(0, 0, 0)
    assert "not all threads of a warp come" in refused(one, threads=16)
    assert "not all threads of a warp come" in refused(Where(((0, 8, 32),), (one,)))
    assert "adds to a register twice" in refused(replace(one, result=(one.result[0],) * 2))
    assert "a product of bf16" in refused(replace(one, a=(one.result[0],)))
    assert "a product of f64" in refused(replace(one, dtype=DType.F64))
    assert "1 fragments of rows and 2 of terms" in refused(replace(one, b=one.b * 2))
    assert "register a10 has no value" in refused(replace(one, a=single(1, 0, 0).a))


def test_faults_of_matrices_are_refused() -> None:
    assert "that not all threads of a warp load" in refused(matrix(), threads=16)
    assert "begins where none may" in refused(matrix(constant=4))
    assert "begins where none may" in refused(matrix(stride=4))
    assert "tile has elements 0 to 63, 8 to 71" in refused(matrix(constant=8))
    whole = Load("tile", Index(0), Type(DType.BF16))
    assert "has not four bytes" in refused(Assign(Register("m", BITS), Bits(whole)))


def test_exchanged_operands_are_seen_by_the_twin(tmp_path: Path) -> None:
    golden = read(FOLDER / "cuda" / "matmul-tensor.txt")
    kernel = golden.kernel_file(golden.test_sizes).made_for("gpu")
    right = golden_program(golden, kernel)

    def exchanged(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(
            replace(s, a=(*s.a[2:], *s.a[:2])) if isinstance(s, Multiply) else with_blocks(s, exchanged)
            for s in body
        )

    wrong = replace(right, body=exchanged(right.body))
    assert run_difference(kernel, twin(verify(wrong), tmp_path), integer_case(kernel)) != ""

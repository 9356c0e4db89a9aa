"""What every implementation must compute: where something can be merged, and against compiled functions."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.c.functions import functions
from spacedsl.codegen.c.types import vector_type
from spacedsl.codegen.tree.expressions import Add, LaneReduction, Type
from spacedsl.codegen.tree.parts import own_expressions
from spacedsl.codegen.tree.program import Loop, Statement
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.search.bounds.arithmetic import UNITS, operations
from spacedsl.search.bounds.certain import footprints
from tests.codegen import kernels
from tests.codegen.scripts import scripted
from tests.search.linalg import ELEMENTWISE, MATMUL, elementwise, parse


def work(kernel: Kernel) -> dict[str, int]:
    """Certain iterations by unit, without units that need do nothing."""
    sums = {
        unit: sum(min(o.iterations for o in members) for members in classes)
        for unit, classes in operations(kernel).items()
    }
    return {unit: count for unit, count in sums.items() if count}


# ---- Operations ----------------------------------------------------------------------------------------


def test_a_matrix_product_needs_all_its_multiply_adds() -> None:
    assert work(parse(MATMUL).backbone) == {"multiply": 64 * 64 * 2048, "any": 64 * 64 * 2048}


@pytest.mark.parametrize(
    ("y", "z", "expected"),
    [
        pytest.param("a[i] + b[i]", "c[i]", {"add": 1, "any": 1}, id="addition"),
        pytest.param("a[i] * b[i]", "c[i]", {"multiply": 1, "any": 1}, id="multiplication"),
        pytest.param("a[i] / b[i]", "c[i]", {"divide": 1}, id="division"),
        pytest.param("a[i] / 3", "c[i]", {}, id="a number may have an inverse"),
        pytest.param("-a[i]", "c[i]", {}, id="a sign is flipped for nothing"),
        pytest.param("a[i] * 1", "c[i]", {}, id="a factor of one is folded"),
        pytest.param("a[i] * 2", "c[i]", {"any": 1}, id="twice is a sum"),
        pytest.param("a[i] - 0", "c[i]", {}, id="nothing is not subtracted"),
        pytest.param("c[i] - a[i] * b[i]", "c[i]", {"multiply": 1, "any": 1}, id="a product is fused"),
        pytest.param("a[i] + b[i]", "b[i] + a[i]", {"add": 1, "any": 1}, id="equal sums are one"),
        pytest.param(
            *("a[i] * b[i]", "b[i] * a[i] + c[i]", {"multiply": 1, "any": 2}), id="equal products are one"
        ),
        pytest.param("sqrt(a[i])", "c[i]", {"root": 1}, id="square root"),
        pytest.param("max(a[i], b[i])", "c[i]", {"extreme": 1}, id="the greater"),
        pytest.param("exp(a[i])", "c[i]", {"multiply": 9, "any": 10}, id="exponential"),
        pytest.param("exp(-a[i])", "exp(-a[i])", {"multiply": 9, "any": 10}, id="equal functions are one"),
        pytest.param("exp(a[i]) + b[i]", "c[i]", {"multiply": 9, "any": 11}, id="its last product is fused"),
        pytest.param(
            *("sigmoid(a[i])", "exp(-a[i])", {"multiply": 9, "any": 10}),
            id="sigmoid shares exp",
        ),
        pytest.param("sigmoid(a[i])", "c[i]", {"multiply": 9, "any": 11, "divide": 1}, id="sigmoid"),
    ],
)
def test_only_what_no_compiler_saves_is_counted(y: str, z: str, expected: dict[str, int]) -> None:
    assert work(elementwise(y, z)) == {unit: 100 * count for unit, count in expected.items()}


@pytest.mark.parametrize("terms", [2, 3, 4, 16])
@pytest.mark.parametrize("kind", ["U", "V"])
def test_a_sum_needs_no_addition_for_its_first_term(terms: int, kind: str) -> None:
    """Written out, and in lanes, the last two of which are added up as scalars."""
    kernel = kernels.parse(
        f"kernel: total\nbackbone: linalg\ntensors:\n  A: {{dtype: f32, shape: [3, {terms}]}}\n"
        "  y: {dtype: f32, shape: [3], output: true}\ncompute:\n  - y[i] = sum[p](A[i, p])\n"
        f"tiling: {{i: [], p: [[{min(terms, 2)}]]}}\n"
    )
    text = f"""
        i0 L 3
          init merged
          p0 L *
            p1 {kind} 2
              load_A
              add
          store_y
    """
    program = scripted(kernel, text)
    (loop,) = program.body
    assert isinstance(loop, Loop)
    added = sum(_additions(statement) for statement in loop.body)
    assert 3 * added >= work(kernel.backbone).get("add", 0) / (2 if kind == "V" else 1)
    assert added == (terms - 1 if kind == "U" else -(-terms // 2))


def _additions(statement: Statement) -> int:
    """In as many lanes as there are, at a time."""
    if isinstance(statement, Loop):
        return (statement.extent - statement.first) * sum(map(_additions, statement.body))
    return sum(isinstance(e, Add | LaneReduction) for e in own_expressions(statement))


def test_all_but_one_of_many_values_are_compared() -> None:
    """Also of integers, whose least value may be found out in any order."""
    for dtype in ("f32", "i32"):
        text = ELEMENTWISE.format(y="max[j](a[i, j])", z="c[i]", dtype=dtype, inputs="")
        inputs = f"a: {{dtype: {dtype}, shape: [n, n]}}\n  c: {{dtype: {dtype}, shape: [n]}}"
        kernel = parse(text.replace("tensors:\n", f"tensors:\n  {inputs}")).backbone
        assert work(kernel) == {"extreme": 100 * 99}
    assert work(elementwise("max(a[i], b[i])", dtype="i32")) == {}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions are read by their names")
@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "gelu", "sqrt"])
@pytest.mark.parametrize(
    "kind", [Type(DType.F32), Type(DType.F32, 4), Type(DType.F64), Type(DType.F64, 2)], ids=str
)
def test_no_function_is_compiled_to_fewer_instructions(name: str, kind: Type, tmp_path: Path) -> None:
    counted = work(elementwise(f"{name}(a[i])", dtype=kind.dtype.label))
    executed = instructions(name, kind, tmp_path)
    for unit in UNITS:
        assert counted.get(unit, 0) <= 100 * executed[unit], unit


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions are read by their names")
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_each_addition_at_most_halves_the_lanes_that_are_added_up(lanes: int, tmp_path: Path) -> None:
    assert instructions("lanes_sum", Type(DType.F32, lanes), tmp_path)["add"] >= lanes.bit_length() - 1


def instructions(name: str, kind: Type, folder: Path) -> dict[str, int]:
    """Those of one call of a function, by unit, from the assembler text that candidates' flags give."""
    text = ["#include <stdint.h>", *([vector_type(kind)] if kind.lanes > 1 else [])]
    text += functions([(kind, name)])
    call = f"{kind}_{name}(*x)"
    text.append(f"void run({kind} *x, void *y) {{ *(__typeof__({call}) *)y = {call}; }}")
    source, result = folder / "function.c", folder / "function.s"
    source.write_text("\n".join(text))
    compiler = find_compiler()
    flags = [flag for flag in compiler.flags if flag != "-shared"]
    subprocess.run([*compiler.command, *flags, "-S", "-o", str(result), str(source)], check=True)
    words = re.findall(r"^\tv?([a-z]+)", result.read_text(), re.MULTILINE)
    found = {
        "multiply": sum(word.startswith(("mul", "fm", "fnm")) for word in words),
        "add": sum(word.startswith(("add", "sub")) and word.endswith(("s", "d")) for word in words),
        "divide": sum(word.startswith("div") for word in words),
        "root": sum(word.startswith("sqrt") for word in words),
        "extreme": sum(word.startswith(("max", "min")) for word in words),
    }
    return {**found, "any": found["multiply"] + found["add"]}


def test_a_convolution_needs_all_its_multiply_adds() -> None:
    text = """
kernel: convolution
backbone: linalg
sizes: {y: 5, f: 4, c: 3, taps: 3}
tensors:
  I: {dtype: f32, shape: [2 * y + taps, c]}
  W: {dtype: f32, shape: [taps, c, f]}
  R: {dtype: f32, shape: [y, f], output: true}
compute:
  - R[i, o] = sum[r, p](I[2 * i + r, p] * W[r, p, o])
"""
    assert work(parse(text).backbone)["multiply"] == 5 * 4 * 3 * 3


def test_integers_may_be_regrouped_so_that_only_accumulations_are_certain() -> None:
    assert work(elementwise("a[i] * b[i] + c[i]", dtype="i32")) == {}
    found = work(parse(MATMUL.replace("f32", "i32")).backbone)
    assert found == {"any": 64 * 64 * 2047}


def test_bytes_are_those_of_memory_and_arithmetic_that_of_what_is_computed_in() -> None:
    halves = parse(MATMUL.replace("dtype: f32", "dtype: bf16")).backbone
    assert work(halves) == work(parse(MATMUL).backbone)
    assert {f.tensor.name: f.nbytes for f in footprints(halves)} == {
        "A": 64 * 2048 * 2, "B": 64 * 2048 * 2, "C": 64 * 64 * 2
    }  # fmt: skip


def test_one_operation_of_f32_in_f64_may_be_done_in_f32() -> None:
    assert narrow("a[i] + b[i]") == {}
    assert narrow("a[i] + b[i] - c[i]")["any"] == 200
    assert work(parse(MATMUL + "accumulate: f64\n").backbone) == work(parse(MATMUL).backbone)


def narrow(y: str) -> dict[str, int]:
    """What is certain of a line of f32 that computes in f64."""
    inputs = "\n  ".join(f"{name}: {{dtype: f32, shape: [n]}}" for name in "abc" if f"{name}[" in y)
    text = ELEMENTWISE.format(y=y, z="a[i]", dtype="f32", inputs=inputs)
    return work(parse(text + "accumulate: f64\n").backbone)


def test_what_does_not_vary_along_a_loop_is_hoisted_out_of_it() -> None:
    text = MATMUL.replace("sum[p](A[i, p] * B[p, j])", "sum[p]((A[i, p] * 3) * B[p, j])")
    multiplications = work(parse(text).backbone)["multiply"]
    assert multiplications == 64 * 64 * 2048 + 64 * 2048


def test_a_product_is_hoisted_out_of_a_multiply_add() -> None:
    text = """
kernel: shifted
backbone: linalg
sizes: {m: 100, n: 200}
tensors:
  a: {dtype: f32, shape: [n]}
  u: {dtype: f32, shape: [m]}
  v: {dtype: f32, shape: [m]}
  s: {dtype: f32, shape: [m], output: true}
compute:
  - s[i] = sum[j]((a[j] + u[i] * v[i]) * a[j])
"""
    of_units = work(parse(text).backbone)
    assert of_units["multiply"] == 100 * 200 + 100
    assert of_units["any"] == 2 * 100 * 200

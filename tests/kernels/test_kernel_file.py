"""Kernel files: what they mean, and where each mistake is reported."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spacedsl
from spacedsl.diagnostics import DiagnosticError, Source
from spacedsl.engine.decision import Decision
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.kernel_file import (
    LINALG_SPACE,
    check_kernel,
    load_kernel,
)
from spacedsl.kernels.search_options import duration_s
from spacedsl.kernels.sizes import SizeOverrideError
from tests.kernels.samples import LIBRARY, MATMUL, changed, check

COMPUTE = "C[i, j] = sum[p](A[i, p] * B[p, j])"
I32 = ("f32", "i32")

# name: text, then (code, line, column, a part of the message) of every diagnostic in order
BROKEN: dict[str, tuple[str, list[tuple[str, int, int, str]]]] = {
    "no YAML": ("kernel: [a, b\nfoo: }", [("KF001", 2, 4, "expected ',' or ']'")]),
    "a tab": ("kernel: x\n\tfoo: 1\n", [("KF001", 2, 1, "cannot start any token")]),
    "a control character": ("kernel: \x01\n", [("KF001", 1, 9, "control character")]),
    "a version that nobody knows": ("%YAML 1.3\n---\nkernel: x\n", [("KF001", 1, 1, "directive")]),
    "an escape of no character": ('kernel: "\\U00110000"\n', [("KF001", 1, 1, "an escape")]),
    "a tag that is no UTF-8": ("kernel: !a%25zz x\n", [("KF001", 1, 1, "a tag")]),
    "an undefined alias": ("kernel: *zz\n", [("KF001", 1, 9, "undefined alias")]),
    "two documents": (
        MATMUL + "---\n" + MATMUL,
        [("KF001", 10, 1, "expected a single document in the stream, but found another document")],
    ),
    "text behind a value": ('"a" b: c\n', [("KF001", 1, 5, "but found '<scalar>'")]),
    "nothing": ("", [("KF002", 1, 1, "empty")]),
    "only a comment": ("# later\n", [("KF002", 1, 1, "empty")]),
    "a list": ("- a\n", [("KF003", 1, 1, "expected a mapping")]),
    "a word": ("hello", [("KF003", 1, 1, "expected a mapping")]),
    "an alias of itself": ("kernel: &a [*a]\n", [("KF003", 1, 9, "refers to itself")]),
    "deep nesting by an alias": (
        f"a: &a {'[' * 300}{']' * 300}\nb: {'[' * 300}*a{']' * 300}\n",
        [("KF003", 1, 1, "nested too deeply")],
    ),
    "deep nesting": ("a: " + "[" * 2000, [("KF003", 1, 1, "nested too deeply")]),
    "a key that is no name": (changed(("sizes: {", "sizes: {1: 3, ")), [("KF003", 3, 9, "must be a name")]),
    "a tag": (changed((": matmul", ": !mine matmul")), [("KF003", 1, 9, "`!mine`")]),
    "a number of 5000 digits": (changed(("m: 64", "m: " + "9" * 5000)), [("KF003", 3, 12, "number")]),
    "a key twice": (MATMUL + "kernel: b\n", [("KF004", 10, 1, "given twice")]),
    "a tensor twice": (changed(("  B: {", "  A: {")), [("KF004", 6, 3, "`A` is given twice")]),
    "an unknown key": (MATMUL + "tilling: {i: [[2]]}\n", [("KF005", 10, 1, "unknown key `tilling`")]),
    "an unknown key within": (
        changed(("[m, n],", "[m, n], ouput: false,")),
        [("KF005", 7, 34, "unknown key `ouput`")],
    ),
    "a missing key": (changed(("kernel: matmul\n", "")), [("KF006", 1, 1, "`kernel` is missing")]),
    "a missing key within": (
        changed(("f32, shape: [m, k]", "f32")),
        [("KF006", 5, 3, "`shape` of `A` is missing")],
    ),
    "a size that is text": (changed(("m: 64", 'm: "64"')), [("KF007", 3, 12, "an integer")]),
    "a size that is a fraction": (changed(("m: 64", "m: 6.5")), [("KF007", 3, 12, "an integer")]),
    "a size that is true": (changed(("m: 64", "m: true")), [("KF007", 3, 12, "an integer")]),
    "a size without a value": (changed(("m: 64", "m: ")), [("KF007", 3, 9, "an integer")]),
    "a shape that is no list": (changed(("shape: [m, k]", "shape: 64")), [("KF007", 5, 26, "a list")]),
    "an unknown dtype": (changed(("A: {dtype: f32", "A: {dtype: f8")), [("KF007", 5, 14, "'f32'")]),
    "a parameter of 16 bits": (
        changed((COMPUTE, COMPUTE + "\nparams: {alpha: bf16}")),
        [("KF007", 10, 17, "'f32'")],
    ),
    "an unknown backbone": (changed(("linalg", "linalgg")), [("KF007", 2, 11, "unknown backbone")]),
    "compute that is no list": (changed(("\n  - C", " C")), [("KF007", 8, 10, "a list")]),
    "no line of compute": (changed(("\n  - " + COMPUTE, " []")), [("KF007", 8, 10, "at least 1")]),
    "a fraction among integers": (
        changed(I32, ("sum[p]", "1.5 * sum[p]")),
        [("KF007", 9, 15, "1.5 is no i32")],
    ),
    "an infinite constant": (changed(("sum[p]", "1e99 * sum[p]")), [("KF007", 9, 15, "is no f32")]),
    "a division by zero": (changed(("* B[p, j]", "/ 0.0")), [("KF007", 9, 32, "division by zero")]),
    "a negative tolerance": (MATMUL + "tolerance: -1\n", [("KF007", 10, 12, "at least 0")]),
    "a tolerance of anything": (MATMUL + "tolerance: .inf\n", [("KF007", 10, 12, "a finite number")]),
    "an unknown cache": (MATMUL + "cache: hot\n", [("KF007", 10, 8, "'warm' or 'cold'")]),
    "a pipeline": ("kernel: blur\nbackbone: pipeline\nstages: 1\n", [("KF007", 2, 11, "this is a pipeline")]),
    "an unknown function": (
        changed(("sum[p](A[i, p]", "sum[p](expp(A[i, p])")),
        [("KF021", 9, 22, "unknown function `expp`")],
    ),
    "too many arguments": (
        changed(("sum[p](A[i, p]", "sum[p](exp(A[i, p], 2)")),
        [("KF022", 9, 22, "`exp` takes 1 argument, not 2")],
    ),
    "a function of integers": (
        changed(I32, ("sum[p](A[i, p]", "sum[p](exp(A[i, p])")),
        [("KF007", 9, 22, "`exp` is a function of floating-point numbers, not of i32")],
    ),
    "a maximum without indices": (
        changed(("sum[p](", "max(")),
        [("KF020", 9, 15, "`max` without indices")],
    ),
    "a shifted subscript": (changed(("A[i, p]", "A[i + 1, p]")), [("KF035", 9, 24, "from 1 to 64")]),
    "a subscript that is not affine": (
        changed(("A[i, p]", "A[i * p, p]")),
        [("KF033", 9, 24, "a sum of indices")],
    ),
    "a subscript with a tensor": (changed(("A[i, p]", "A[A[i, p], p]")), [("KF033", 9, 24, "a sum of")]),
    "a subscript that leaves the tensor": (
        changed(("A[i, p]", "A[2 * i - 1, p]")),
        [("KF035", 9, 24, "dimension 1 of `A` is read from -1 to 125, and goes from 0 to 63")],
    ),
    "an index without an extent": (
        changed(("B[p, j]", "sum[q](B[p + q, j])")),
        [("KF034", 9, 41, "`q` cannot be inferred")],
    ),
    "an extent that another one contradicts": (
        changed(("compute:", "extents: {p: 3}\ncompute:")),
        [("KF023", 10, 27, "index `p` runs to 3 elsewhere"), ("KF023", 10, 34, "index `p` runs to 3")],
    ),
    "an extent of a tensor": (
        changed(("compute:", "extents: {A: 3}\ncompute:")),
        [("KF011", 8, 11, "`A` is declared twice")],
    ),
    "an extent of nothing": (
        changed(("compute:", "extents: {q: k}\ncompute:")),
        [("KF028", 8, 11, "no index is called `q`")],
    ),
    "an extent of zero": (
        changed(("compute:", "extents: {p: k - k}\ncompute:")),
        [("KF012", 8, 14, "an extent must be at least 1, not 0")],
    ),
    "an extent that is too large": (
        changed(("compute:", "extents: {q: 2199023255552}\ncompute:")),
        [("KF013", 8, 14, "the extent of `q` is larger than 2**40")],
    ),
    "an intermediate without extents": (
        changed((COMPUTE, "T[h] = 2\n  - " + COMPUTE)),
        [("KF034", 9, 7, "index `h` of `T`")],
    ),
    "an intermediate without extents that is read": (
        changed((COMPUTE, "T[h] = 2\n  - " + COMPUTE.replace("sum[p](", "T[i] * sum[p]("))),
        [("KF034", 9, 7, "index `h` of `T`")],
    ),
    "an intermediate that is not read": (
        changed((COMPUTE, "T[i] = sum[p](A[i, p])\n  - " + COMPUTE)),
        [("KF028", 9, 5, "intermediate `T` is never read")],
    ),
    "an intermediate read too early": (
        changed((COMPUTE, COMPUTE.replace("A[i, p]", "T[i, p]") + "\n  - T[i, p] = A[i, p]")),
        [("KF027", 9, 22, "`T` is read before it is written")],
    ),
    "a size that is assigned to": (
        changed((COMPUTE, "n = 2\n  - " + COMPUTE)),
        [("KF011", 9, 5, "`n` is a size and cannot be assigned to as well")],
    ),
    "a padded output": (
        changed(("output: true", "output: true, pad: [1, 1]")),
        [("KF017", 7, 53, "`C` is an output")],
    ),
    "too few paddings": (
        changed(("[m, k]}", "[m, k], pad: [1]}")),
        [("KF017", 5, 39, "2 dimensions but 1 padding")],
    ),
    "a negative padding": (
        changed(("[m, k]}", "[m, k], pad: [0, -1]}")),
        [("KF017", 5, 43, "at least 0, not -1")],
    ),
    "division of integers": (changed(I32, ("] * B", "] / B")), [("KF008", 9, 22, "division of i32")]),
    "an index as a value": (changed(("sum[p]", "i * sum[p]")), [("KF008", 9, 15, "`i` as a value")]),
    "integers among other numbers": (
        changed(("A: {dtype: f32", "A: {dtype: i32")),
        [("KF008", 9, 22, "`A` is i32")],
    ),
    "sums that are too narrow": (
        changed(("B: {dtype: f32", "B: {dtype: f64")) + "accumulate: f32\n",
        [("KF018", 10, 13, "`B` is f64, which f32 cannot accumulate")],
    ),
    "sums of integers alone": (MATMUL + "accumulate: i32\n", [("KF018", 10, 13, "`A` is f32")]),
    "integers that are no integers": (
        changed(I32) + "accumulate: f64\n",
        [("KF018", 10, 13, "`A` is i32, which f64 cannot accumulate")],
    ),
    "a second assignment": (
        MATMUL + "  - C[i, j] = sum[q](A[i, q])\n",
        [("KF008", 10, 5, "assigned to twice")],
    ),
    **{
        f"a triangular loop: {line}": (changed((COMPUTE, line)), [("KF036", 9, column, "triangular")])
        for line, column in {
            "C[i, j] = sum[p <= i](A[i, p] * B[p, j])": 21,
            "C[i, j] = sum[p < j](A[i, p] * B[p, j])": 21,
            "C[i, j ≤ i] = sum[p](A[i, p] * B[p, j])": 12,
            "C[i, j] = sum[p=0:i](A[i, p] * B[p, j])": 20,
            "C[i, j] = sum[p in range(i)](A[i, p] * B[p, j])": 21,
            "C[i, j] = sum[range(i)](A[i, p] * B[p, j])": 24,
            "C[i, j] = sum[p](A[i, p] * B[p, j]) if j <= i else 0": 41,
            "C[i, j] = sum[p](where(p, A[i, p]) * B[p, j])": 22,
            "C[i, j] = sum[p](tril(A[i, p]) * B[p, j])": 22,
        }.items()
    },
    "a diagonal on the left": (
        changed(("n: 48", "n: 64"), ("C[i, j]", "C[i, i]"), ("B[p, j]", "B[p, i]")),
        [("KF008", 9, 10, "diagonal")],
    ),
    "a deep expression": (changed((COMPUTE, "C[i, j] = " + "-" * 500 + "1")), [("KF008", 9, 5, "100")]),
    "a name with a dash": (changed(("kernel: matmul", "kernel: my-kernel")), [("KF010", 1, 9, "my-kernel")]),
    "a word of the language": (changed(("kernel: matmul", "kernel: sum")), [("KF010", 1, 9, "reserved")]),
    "a name for two things": (MATMUL + "params: {A: f32}\n", [("KF011", 10, 10, "declared twice")]),
    "an index named as a size": (
        changed(("C[i,", "C[m,"), ("A[i,", "A[m,")),
        [("KF011", 9, 7, "`m` is a size"), ("KF011", 9, 24, "`m` is a size")],
    ),
    "a size of 0": (changed(("m: 64", "m: 0")), [("KF012", 3, 12, "at least 1, not 0")]),
    "a negative size": (changed(("m: 64", "m: -4")), [("KF012", 3, 12, "at least 1, not -4")]),
    "a size of 0 that is tiled": (
        changed(("m: 64", "m: 0")) + "tiling: {i: [[3]]}\n",
        [("KF012", 3, 12, "at least 1, not 0")],
    ),
    "a negative extent": (changed(("shape: [m, k]", "shape: [m, k - 40]")), [("KF012", 5, 30, "not -8")]),
    "a large tensor": (
        changed(("m: 64", "m: 1000000"), ("k: 32", "k: 2000000")),
        [("KF013", 5, 3, "`A` has more than 2**40 elements")],
    ),
    "a tensor with large gaps": (
        changed(("[m, k]}", "[m, k], strides: [1, 1099511627776]}")),
        [("KF013", 5, 3, "`A` has more than 2**40 elements")],
    ),
    "an unknown size": (changed(("shape: [m, k]", "shape: [m, q]")), [("KF014", 5, 30, "`q`")]),
    "half a size": (changed(("shape: [m, k]", "shape: [m, 0.5 * k]")), [("KF015", 5, 30, "whole numbers")]),
    "a size divided by 0": (
        changed(("shape: [m, k]", "shape: [m, k/0]")),
        [("KF015", 5, 30, "divided by 0")],
    ),
    "a wrong number of strides": (
        changed(("[m, k]}", "[m, k], strides: [32]}")),
        [("KF016", 5, 43, "2 dimensions but 1 stride")],
    ),
    "a negative stride": (
        changed(("[m, k]}", "[m, k], strides: [-32, 1]}")),
        [("KF016", 5, 44, "at least 1, not -32")],
    ),
    "a short stride": (
        changed(("[m, k]}", "[m, k], strides: [31, 1]}")),
        [("KF016", 5, 44, "overlap")],
    ),
    "an open parenthesis": (changed(("j])", "j]")), [("KF020", 9, 38, "too early")]),
    "two equals signs": (changed(("] = ", "] == ")), [("KF020", 9, 14, "unexpected `=`")]),
    "a power": (changed((COMPUTE, "C[i, j] = A[i, j] ^ 2")), [("KF020", 9, 23, "'^'")]),
    "no operator": (changed(("] * B", "] B")), [("KF020", 9, 30, "unexpected `B`")]),
    "an empty line": (changed((COMPUTE, '""')), [("KF020", 9, 6, "too early")]),
    "a sum without indices": (changed(("sum[p](", "sum(")), [("KF020", 9, 15, "`sum` without indices")]),
    "parentheses for brackets": (changed(("A[i, p]", "A(i, p)")), [("KF020", 9, 22, "`A` is a tensor")]),
    "an unknown tensor": (changed(("* B[p", "* D[p")), [("KF021", 9, 32, "unknown tensor `D`")]),
    "an unknown scalar": (changed(("sum[p]", "alpha * sum[p]")), [("KF021", 9, 15, "`alpha`")]),
    "a wrong rank": (changed(("A[i, p]", "A[p]")), [("KF022", 9, 22, "2 dimensions, not 1")]),
    "an index with two extents": (
        changed(("B[p, j]", "B[j, p]")),
        [("KF023", 9, 34, "`j` runs to 48"), ("KF023", 9, 37, "`p` runs to 32")],
    ),
    "an index without a scope": (
        changed(("sum[p](A[i, p] * B[p, j])", "A[i, p]"), ("  B: {dtype: f32, shape: [k, n]}\n", "")),
        [("KF024", 8, 20, "`p` is neither")],
    ),
    "an index bound twice": (
        changed(("k: 32", "k: 48"), (COMPUTE, "C[i, j] = sum[j](A[i, j] * B[j, j])")),
        [("KF025", 9, 19, "`j` already has a meaning")],
    ),
    "an assignment to an input": (changed((", output: true", "")), [("KF026", 9, 5, "no output")]),
    "an output read too early": (changed(("sum[p]", "C[i, j] + sum[p]")), [("KF027", 9, 15, "before it")]),
    "an output never written": (
        changed(("compute:", "  D: {dtype: f32, shape: [m], output: true}\ncompute:")),
        [("KF027", 8, 3, "`D` is never written")],
    ),
    "a tensor never read": (changed((" * B[p, j]", "")), [("KF028", 6, 3, "`B` is never read")]),
    "a parameter never used": (MATMUL + "params: {alpha: f32}\n", [("KF028", 10, 10, "never used")]),
    "a sum over nothing": (changed(("sum[p](", "sum[p, q](")), [("KF029", 9, 22, "index `q`")]),
    "a sum over what cancels out": (
        changed(("sum[p](A[i, p]", "sum[p, q](A[i, p + q - q]")),
        [("KF029", 9, 22, "index `q`")],
    ),
    "a tiling of no index": (MATMUL + "tiling: {ii: [[2]]}\n", [("KF030", 10, 10, "`ii`")]),
    "a level without factors": (MATMUL + "tiling: {i: [[]]}\n", [("KF031", 10, 14, "no factor is given")]),
    "a negative factor": (MATMUL + "tiling: {i: [[-2]]}\n", [("KF032", 10, 15, "at least 1, not -2")]),
    "a factor of 0": (MATMUL + "tiling: {i: [[0]]}\n", [("KF032", 10, 15, "at least 1, not 0")]),
    "a factor that is no size": (
        MATMUL + f"tiling: {{i: [[4, {2**40}], [{2**40 + 1}]]}}\n",
        [("KF032", 10, 35, "at most 2**40")],
    ),
    "too many levels": (MATMUL + f"tiling: {{i: {[[2]] * 7}}}\n", [("KF032", 10, 13, "at most 6")]),
    "half a decision": (
        MATMUL + "decisions: [{choice: size}]\n",
        [("KF006", 10, 13, "`objects` of entry 1 of `decisions`"), ("KF006", 10, 13, "`values`")],
    ),
    "a space that is not there": (MATMUL + "space: nowhere.space\n", [("KF041", 10, 8, "no file")]),
    "a space that is another file": (
        MATMUL + "space: /etc/passwd\n",
        [("KF041", 10, 8, "is no .space file")],
    ),
    "no span of time": (MATMUL + "search: {time: soon}\n", [("KF042", 10, 16, "span of time")]),
    "several mistakes": (
        changed(("m: 64", "m: 0"), ("[k, n]}", "[k, z]}"), ("j])", "j]"), ("[m, n],", "[m, n], x: 1,")),
        [
            ("KF012", 3, 12, "`m`"),
            ("KF014", 6, 30, "`z`"),
            ("KF005", 7, 34, "`x`"),
            ("KF020", 9, 38, "too early"),
        ],
    ),
    "several mistakes of one block": (
        MATMUL + "search: {policy: 1, evaluations: 0, x: 1, seed: -1, ordering: []}\n",
        [
            ("KF007", 10, 18, "`policy`: expected text"),
            ("KF007", 10, 34, "`evaluations`: expected at least 1"),
            ("KF005", 10, 37, "`x`"),
            ("KF007", 10, 49, "`seed`: expected at least 0"),
            ("KF007", 10, 63, "`ordering`: expected text"),
        ],
    ),
}


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("C[i, j] = A[i, j] ** 2", "powers are written as products: `x * x`"),
        ("C[i, j] = A[i, j] ^ 2", "powers are written as products: `x * x`"),
        ("C(i, j) = A[i, j]", "indices stand in brackets: `A[i, j]`"),
        ("C{i, j} = A[i, j]", "indices stand in brackets: `A[i, j]`"),
        ("C[i, j] += A[i, j]", "every tensor is written once: what is added up is `sum[p](..)`"),
        ("C[i, j] = np.exp(A[i, j])", "functions are written without a module: `exp(x)`"),
        (
            "C[i, j] = argmax[p](A[i, p])",
            "reductions are `sum`, `prod`, `max` and `min`; `argmax` and `argmin` are of pipelines "
            "(`backbone: pipeline`)",
        ),
        ("C[i, j] = mean[p](A[i, p])", "`mean[..](..)`: reductions are `sum`, `prod`, `max` and `min`"),
        (
            "C[i, j] = select(A[i, j] == B[i, j], 1, 0)",
            "lines of linear algebra compare nothing; pipelines do (`backbone: pipeline`)",
        ),
    ],
)
def test_what_other_languages_write_is_answered_with_its_repair(line: str, hint: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        check(changed((COMPUTE, line)))
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.hint) == ("KF020", hint)


def test_a_folder_is_no_space(tmp_path: Path) -> None:
    (tmp_path / "own.space").mkdir()
    with pytest.raises(DiagnosticError) as raised:
        check_kernel(Source("test.yaml", MATMUL + "space: own.space\n"), tmp_path / "test.yaml")
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("KF041", f"{tmp_path / 'own.space'} is a folder")


@pytest.mark.parametrize("name", BROKEN)
def test_every_mistake_is_reported_at_its_place(name: str) -> None:
    text, expected = BROKEN[name]
    with pytest.raises(DiagnosticError) as raised:
        check(text)
    found = [(d.code, d.span.line, d.span.column) for d in raised.value.diagnostics]
    assert found == [e[:3] for e in expected]
    for diagnostic, (_, _, _, words) in zip(raised.value.diagnostics, expected, strict=True):
        assert words in diagnostic.message


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("- |\n      C[i, j] =\n        sum[p](A[i, p]\n          * D[p, j])", (12, 13)),
        ("- >-\n      C[i, j] =\n      sum[p](A[i, p] * D[p, j])", (11, 24)),
        ('- "C[i, j] = \\\n      sum[p](A[i, p]   * D[p, j])"', (10, 26)),
        ('- "C[i, j]\\t= \\x73um[p](A[i, p]\\u0020* D[p, j])"', (9, 42)),
        ("- 'C[i, j] = sum[p](A[i, p] * D[p, j])'", (9, 33)),
        ("- C[i, j] =\n       sum[p](A[i, p] * D[p, j])", (10, 25)),
        ("- |2 # with an indicator\n      C[i, j] = sum[p](A[i, p] * D[p, j])", (10, 34)),
        ("- &line C[i, j] = sum[p](A[i, p] * D[p, j])", (9, 38)),
        ("- !!str 'C[i, j] = sum[p](A[i, p] * D[p, j])'", (9, 39)),
        ("- !!str &line\n      C[i, j] = sum[p](A[i, p] * D[p, j])", (10, 34)),
    ],
    ids=["literal", "folded", "joined", "escaped", "quoted", "plain", "indicator", "anchor", "tag", "both"],
)
def test_positions_are_right_in_every_style_of_text(line: str, place: tuple[int, int]) -> None:
    with pytest.raises(DiagnosticError) as raised:
        check(changed(("- " + COMPUTE, line)))
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.span.line, diagnostic.span.column) == place
    assert diagnostic.span.text == "D"


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_both_line_endings_give_the_same_place(ending: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        check(changed(("* B[p", "* D[p")).replace("\n", ending))
    assert str(raised.value.diagnostics[0].span) == "test.yaml:9:32"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (MATMUL.replace("compute:\n  - ", "compute: "), (8, 10)),
        (MATMUL + "tiling: {i: [4]}\n", (10, 14)),
    ],
)
def test_one_entry_in_place_of_a_list_is_answered_with_how_lists_are_written(
    text: str, place: tuple[int, int]
) -> None:
    with pytest.raises(DiagnosticError) as raised:
        check(text)
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.span.line, diagnostic.span.column) == place
    assert diagnostic.hint == "begin each entry with `- ` on a line of its own, or write `[..]`"


def test_close_matches_are_suggested() -> None:
    with pytest.raises(DiagnosticError) as raised:
        check(changed(("[m, n],", "[m, n], ouput: true,"), (", output: true", "")))
    assert raised.value.diagnostics[0].hint == "did you mean `output`?"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_file_never_raises_anything_else(data: st.DataObject) -> None:
    text = MATMUL + "tiling: {i: [[2, 4], [2]]}\nsearch: {time: 1m}\n"
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    characters = st.sampled_from("ABUij0129[]{}()=+-*/:,&!|>'\"\\ \n\t#%@ä\x00")
    words = st.sampled_from(["%YAML 1.3\n---\n", '"\\U00110000"', "!a%25zz "])
    new = data.draw(st.text(characters, max_size=6) | words)
    try:
        check(text[:start] + new + text[end:])
    except DiagnosticError as error:
        assert error.diagnostics
        for diagnostic in error.diagnostics:
            assert 0 <= diagnostic.span.start <= len(text) + len(new)


def test_sizes_from_outside_replace_those_of_the_file() -> None:
    kernel = check(MATMUL, {"m": 97})
    assert dict(kernel.sizes) == {"m": 97, "n": 48, "k": 32}
    assert kernel.backbone.tensors[0].shape == (97, 32)


def test_a_size_from_outside_can_mend_one_of_the_file() -> None:
    assert check(changed(("m: 64", "m: 0")), {"m": 5}).sizes["m"] == 5


def test_a_tile_that_is_never_full_at_these_sizes_is_remarked_upon() -> None:
    text = MATMUL + "tiling: {i: [[64, 65], [1]], j: [[2]]}\n"
    (remark,) = check(text).remarks
    assert (remark.code, remark.span.line, remark.span.column) == ("KF037", 10, 19)
    assert remark.message == "a tile of 65 is never full: `i` has 64 values"
    assert check(text, {"m": 65}).remarks == ()


@pytest.mark.parametrize("sizes", [{"mm": 3}, {"m": 0}, {"m": -1}, {"m": 2**41}, {"m": 8.0}, {"m": "8"}])
def test_a_wrong_size_from_outside_is_no_fault_of_the_file(sizes: dict[str, int]) -> None:
    with pytest.raises(SizeOverrideError):
        check(MATMUL, sizes)


def test_a_size_from_outside_may_be_a_number_of_numpy() -> None:
    five: Any = np.int64(5)
    assert type(check(MATMUL, {"m": five}).sizes["m"]) is int


def test_files_may_be_named_by_text(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(MATMUL, encoding="utf-8")
    assert spacedsl.load_kernel(str(path)).path == path
    assert spacedsl.load_kernel(f"{path}", {"m": 5}).sizes["m"] == 5
    space = tmp_path / "own.space"
    space.write_text('set Statements: iterator = "$kernel.statements" end\n', encoding="utf-8")
    assert spacedsl.load_space(str(space)).name == "own"


def test_all_keys_reach_the_kernel_file(tmp_path: Path) -> None:
    (tmp_path / "own.space").write_text("")
    path = tmp_path / "k.yaml"
    path.write_text(
        MATMUL
        + "tolerance: 0.001\ncache: cold\nspace: own.space\naccumulate: f32\n"
        + "search: {target: cpu, device: h100, time: 1h30m, evaluations: 7, ordering: default, policy: tag,\n"
        + "  seed: 3}\n"
        + "decisions:\n  - {choice: dim_kind, objects: [fma.j1], values: [UNROLL, VECTOR]}\n"
        + "  - {choice: size, objects: [fma.j1], values: [8]}\n"
    )
    kernel = load_kernel(path)
    assert (kernel.tolerance, kernel.cache, kernel.space) == (0.001, "cold", tmp_path / "own.space")
    assert dataclasses.astuple(kernel.search) == ("cpu", "h100", 5400.0, 7, "default", "tag", 3)
    assert kernel.decisions == (
        Decision("dim_kind", ("fma.j1",), ("UNROLL", "VECTOR")),
        Decision("size", ("fma.j1",), (8,)),
    )
    assert kernel.text == path.read_text()


def test_a_file_that_says_nothing_leaves_everything_open() -> None:
    kernel = check(MATMUL)
    assert (kernel.tolerance, kernel.cache, kernel.space) == (None, "warm", LINALG_SPACE)
    assert set(dataclasses.astuple(kernel.search)) == {None}
    assert kernel.decisions == ()


@pytest.mark.parametrize("tensor", ["A", "C"])
def test_zeros_are_offered_around_inputs_alone(tensor: str) -> None:
    declared = "  D: {dtype: f32, shape: [m, n], output: true}\ncompute:"
    line = f"\n  - D[i, j] = {tensor}[i + 1, j]\n"
    with pytest.raises(DiagnosticError) as caught:
        check(changed(("compute:", declared)).rstrip() + line)
    (found,) = (each for each in caught.value.diagnostics if each.code == "KF035")
    assert ("pad" in (found.hint or "")) is (tensor == "A")


def test_quotients_of_sizes_are_rounded_down() -> None:
    changed_text = MATMUL.replace("shape: [m, k]", "shape: [m, (2 * k + 1) / 2]")
    assert check(changed_text).tensors == check(MATMUL).tensors


def test_strides_follow_the_sizes() -> None:
    kernel = load_kernel(LIBRARY / "matmul_strided.yaml", {"m": 3, "k": 5})
    tensor = kernel.backbone.tensors[0]
    assert (tensor.strides, tensor.span) == ((160, 32), 1 + 2 * 160 + 4 * 32)
    assert tensor.dtype is DType.F32


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_kernel(tmp_path / "none.yaml")


def test_a_file_that_is_not_utf8_has_a_place(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("kernel: ä".encode("latin-1"))
    with pytest.raises(DiagnosticError) as raised:
        load_kernel(path)
    assert raised.value.diagnostics[0].span.column == 9


def test_names_that_older_yaml_takes_for_booleans_are_names() -> None:
    text = changed(("n: 48", "y: 48"), ("k, n]", "k, y]"), ("m, n]", "m, y]"))
    assert check(text).sizes["y"] == 48


def test_a_billion_laughs_are_cut_short() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(DiagnosticError, match="more than 100000 values"):
        check_kernel(Source("laughs", "\n".join(lines)), Path("laughs"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("90s", 90), ("1h30m", 5400), ("1.5s", 1.5), (30, 30), ("2h 1s", 7201)],
)
def test_spans_of_time_are_read(text: str | int, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10", "m", "0s", 0, -1, "1m1h", float("inf"), float("nan")])
def test_what_is_no_span_of_time_is_refused(text: str | float) -> None:
    assert duration_s(text) is None


def test_a_space_in_the_place_of_a_kernel_file_is_told_from_broken_yaml() -> None:
    text = "// what is decided\nset Things:\n  iterator = '$kernel.things'\nend\n"
    with pytest.raises(DiagnosticError) as caught:
        check_kernel(Source("rules.space", text), Path("rules.space"))
    (problem,) = caught.value.diagnostics
    assert problem.code == "KF001"
    assert problem.hint == "this is a space: name a kernel file, in which `space:` may name this one"

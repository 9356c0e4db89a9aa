"""Values of all types in generated C, against the NumPy evaluator of algorithms.

All operations of all types, on edge values, are one program for each number of lanes.
"""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from spacedsl.codegen.c import functions as c_functions
from spacedsl.codegen.c import operations as c_operations
from spacedsl.codegen.c.build import Compiler, build_library, find_compiler
from spacedsl.codegen.c.operations import operand
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.tree import expressions as c
from spacedsl.codegen.tree.expressions import Expression, Index, Number, Type
from spacedsl.codegen.tree.program import Loop, Program, Store
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMPY_TYPE
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.pipeline import algorithm as p
from spacedsl.kernels.pipeline.reference import evaluate
from spacedsl.kernels.pipeline.typing import ARGUMENTS
from spacedsl.kernels.tensors import Tensor

Array = NDArray[Any]

INTEGERS = [dtype for dtype in DType if dtype.is_integer]
FLOATS = [DType.F32, DType.F64]
TYPES = [*INTEGERS, *FLOATS]
POINTS = 640
PATIENT_S = 600.0
"""All operations in one file take a compiler half a minute where others work beside it."""
COMPARATORS: tuple[p.Comparator, ...] = get_args(p.Comparator)

ZIG = Compiler((sys.executable, "-m", "ziglang", "cc"), "clang of zig", is_clang=True)
COMPILERS = [
    pytest.param(None, id="gcc"),
    pytest.param(
        ZIG,
        id="clang",
        marks=pytest.mark.skipif(not importlib.util.find_spec("ziglang"), reason="ziglang is not installed"),
    ),
]


@dataclass(frozen=True, slots=True)
class Case:
    """What an operation means, and how it is said in a program."""

    name: str
    meaning: p.Expression
    value: Expression
    ulps: int = 0

    @property
    def dtype(self) -> DType:
        return self.meaning.dtype


@dataclass(frozen=True, slots=True)
class Operand:
    """An element of an array, in both languages."""

    name: str
    dtype: DType
    lanes: int

    @property
    def meaning(self) -> p.Expression:
        return p.Read(self.name, (p.Variable("x"),), self.dtype)

    @property
    def value(self) -> Expression:
        return c.Load(self.name, Index(0, (("i", self.lanes),)), Type(self.dtype, self.lanes))


def inputs() -> dict[str, tuple[DType, Array]]:
    """Of each type: every pair of edge values, and random ones; floats that integers hold."""
    random = np.random.default_rng(5)
    found: dict[str, tuple[DType, Array]] = {}
    for dtype in (*TYPES, DType.BOOL, DType.F16):
        if dtype is DType.BOOL:
            edges = np.array([False, True])
        elif dtype.is_integer:
            whole = [0, 1, 2, 3, 7, 5, dtype.greatest, dtype.greatest - 1, dtype.least, dtype.least + 1]
            whole += [-1, -2, -7, 8 * dtype.nbytes - 1] if dtype.is_signed else [8 * dtype.nbytes]
            edges = np.array(whole, NUMPY_TYPE[dtype])
        else:
            real = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 1e4, np.inf, -np.inf, np.nan]
            edges = np.array(real, NUMPY_TYPE[dtype])
        rest = POINTS - edges.size**2
        a, b = (np.concatenate([pairs, _random(dtype, random, rest)])
                for pairs in (np.repeat(edges, edges.size), np.tile(edges, edges.size)))  # fmt: skip
        found |= {f"a_{dtype.label}": (dtype, a), f"b_{dtype.label}": (dtype, b)}
    for dtype in FLOATS:
        for name, low, high in (
            ("i32", -(2.0**31), 2.0**31),
            ("i64", -(2.0**63), 2.0**63),
            ("u64", 0, 2.0**64),
        ):
            scaled = random.uniform(low, high, POINTS) * 2.0 ** -random.integers(0, 60, POINTS)
            scaled[:8] = [0, 0.99, 127.5, 255.99, 128, 65535.5, 32768.5, 2147483000.0]
            if low < 0:
                scaled[8:16] = [-0.99, -1, -128.5, -32769, -0.0, -255.5, -65536.5, -2147483000.0]
            found[f"{name}_{dtype.label}"] = dtype, scaled.astype(NUMPY_TYPE[dtype])
        found[f"unit_{dtype.label}"] = dtype, random.uniform(0, 1, POINTS).astype(NUMPY_TYPE[dtype])
    return found


def _random(dtype: DType, random: np.random.Generator, count: int) -> Array:
    if dtype is DType.BOOL:
        return random.integers(0, 2, count).astype(np.bool_)
    if dtype.is_float:
        return (random.standard_normal(count) * 100).astype(NUMPY_TYPE[dtype])
    whole: Array = random.integers(dtype.least, dtype.greatest, count, NUMPY_TYPE[dtype], endpoint=True)
    whole[::3] >>= NUMPY_TYPE[dtype](4 * dtype.nbytes)
    return whole


def cases(lanes: int) -> Iterator[Case]:
    for dtype in TYPES:
        a, b = (Operand(f"{name}_{dtype.label}", dtype, lanes) for name in "ab")
        yield from _arithmetic(a, b)
        yield from _choices(a, b, Operand("a_bool", DType.BOOL, lanes))
        yield from _integers(a, b) if dtype.is_integer else _functions(a, lanes)
        for other in (*TYPES, DType.BOOL):
            if other is not dtype:
                yield _conversion(a, other)
    yield from _truths(*(Operand(f"{name}_bool", DType.BOOL, lanes) for name in "ab"))
    half = [Operand(f"{name}_f16", DType.F16, lanes) for name in "ab"]
    yield _select(Operand("a_bool", DType.BOOL, lanes), *half)
    yield _conversion(half[0], DType.F32)
    yield _conversion(Operand("a_f32", DType.F32, lanes), DType.F16)


def _arithmetic(a: Operand, b: Operand) -> Iterator[Case]:
    x, y = a.value, b.value
    nodes: dict[p.Operator, Expression] = {"+": c.Add(x, y), "-": c.Sub(x, y), "*": c.Mul(x, y)}
    if a.dtype.is_float:
        nodes["/"] = c.Div(x, y)
    for operator, node in nodes.items():
        yield from _then(Case(f"{a.dtype.label} {operator}", p.Binary(operator, a.meaning, b.meaning), node))
    yield from _then(Case(f"{a.dtype.label} neg", p.Unary("-", a.meaning), c.Neg(x)))
    if a.dtype.is_integer:
        product = p.Binary("*", a.meaning, b.meaning)
        yield from _then(Case(f"{a.dtype.label} fma", p.Binary("+", product, b.meaning), c.Fma(x, y, y)))


def _then(case: Case) -> Iterator[Case]:
    """A result by itself, and as an operand, which sees what does not get into memory."""
    yield case
    kind = c.type_of(case.value)
    one = p.Constant(1, kind.dtype), _spread(1, kind)
    if kind.dtype.is_integer:
        half = p.Binary(">>", case.meaning, one[0]), c.Bitwise(">>", case.value, one[1])
        yield Case(f"{case.name} then >>", *half)


def _choices(a: Operand, b: Operand, condition: Operand) -> Iterator[Case]:
    x, y, kind = a.value, b.value, a.dtype.label
    for comparator in COMPARATORS:
        holds = p.Compare(comparator, a.meaning, b.meaning)
        node = c.Compare(comparator, x, y)
        yield Case(f"{kind} {comparator}", holds, node)
        yield Case(f"{kind} if {comparator}", p.Select(holds, b.meaning, a.meaning), c.Select(node, y, x))
    greater, smaller = (p.Compare(s, a.meaning, b.meaning) for s in (">", "<"))
    yield Case(f"{kind} max", p.Select(greater, a.meaning, b.meaning), c.Max(x, y))
    yield Case(f"{kind} min", p.Select(smaller, a.meaning, b.meaning), c.Min(x, y))
    yield _select(condition, a, b)
    # Of conditions on values of another size, and of bytes.
    other = DType.I16 if a.dtype.nbytes == 4 else DType.F32
    u, v = (Operand(f"{name}_{other.label}", other, condition.lanes) for name in "ab")
    wide = p.Compare("<=", u.meaning, v.meaning), c.Compare("<=", u.value, v.value)
    mixed = p.Binary("&&", wide[0], p.Unary("!", p.Binary("||", greater, condition.meaning)))
    said = c.Bitwise("&", wide[1], c.Not(c.Bitwise("|", c.Compare(">", x, y), condition.value)))
    yield Case(f"{kind} if mixed", p.Select(mixed, a.meaning, b.meaning), c.Select(said, x, y))
    yield Case(f"{kind} mixed", mixed, said)
    yield Case(f"{kind} if wide", p.Select(wide[0], a.meaning, b.meaning), c.Select(wide[1], x, y))


def _select(condition: Operand, yes: Operand, no: Operand) -> Case:
    return Case(
        f"{yes.dtype.label} select",
        p.Select(condition.meaning, yes.meaning, no.meaning),
        c.Select(condition.value, yes.value, no.value),
    )


def _integers(a: Operand, b: Operand) -> Iterator[Case]:
    x, kind = a.value, a.dtype
    named: dict[p.Operator, Callable[[Expression, Expression], Expression]] = {
        "/": c.FloorDiv, "%": c.FloorMod,
        "&": lambda u, v: c.Bitwise("&", u, v), "|": lambda u, v: c.Bitwise("|", u, v),
        "^": lambda u, v: c.Bitwise("^", u, v), "<<": lambda u, v: c.Bitwise("<<", u, v),
        ">>": lambda u, v: c.Bitwise(">>", u, v),
    }  # fmt: skip
    bits = 8 * kind.nbytes
    constants = [0, 1, 2, 3, 7, 8, 10, 64, 100, bits - 1, bits, kind.greatest]
    constants += [-1, -3, -8, kind.least] if kind.is_signed else [kind.greatest // 2 + 1]
    small = (
        p.Binary("&", b.meaning, p.Constant(bits - 1, kind)),
        c.Bitwise("&", b.value, _number(bits - 1, a)),
    )
    for operator, node in named.items():
        name = f"{kind.label} {operator}"
        yield Case(name, p.Binary(operator, a.meaning, b.meaning), node(x, b.value))
        yield Case(f"{name} small", p.Binary(operator, a.meaning, small[0]), node(x, small[1]))
        for number in constants:
            constant = p.Constant(number, kind)
            yield Case(
                f"{name} {number}", p.Binary(operator, a.meaning, constant), node(x, _number(number, a))
            )
        if operator == "<<":
            yield from _then(Case(name, p.Binary(operator, a.meaning, small[0]), node(x, small[1])))
    yield from _then(Case(f"{kind.label} ~", p.Unary("~", a.meaning), c.Not(x)))
    if kind.is_signed:
        held = DType.of(f"u{bits}")
        absolute = c.Convert(c.Apply(Op.ABS, x), held)
        yield from _then(Case(f"{kind.label} abs", p.Apply("abs", (a.meaning,), held), absolute))


def _number(value: int, like: Operand) -> Expression:
    return _spread(value, Type(like.dtype, like.lanes))


def _spread(value: int, kind: Type) -> Expression:
    number = Number(value, Type(kind.dtype))
    return number if kind.lanes == 1 else c.Broadcast(number, kind.lanes)


def _functions(a: Operand, lanes: int) -> Iterator[Case]:
    """Those of the C library are compared where they are far from their poles."""
    unit = Operand(f"unit_{a.dtype.label}", a.dtype, lanes)
    for function in get_args(p.Function):
        if function in ("exp", "log", "tanh"):
            continue
        is_exact = function in ("floor", "ceil", "trunc", "round", "abs", "sqrt")
        given = (a,) if is_exact else (unit,) * ARGUMENTS[function]
        said = c.Call(function, tuple(g.value for g in given))
        called = p.Apply(function, tuple(g.meaning for g in given), a.dtype)
        yield Case(f"{a.dtype.label} {function}", called, said, 0 if is_exact else 5)
    applied: tuple[tuple[Op, p.Function], ...] = ((Op.ABS, "abs"), (Op.SQRT, "sqrt"))
    for op, function in applied:
        meaning = p.Apply(function, (a.meaning,), a.dtype)
        yield Case(f"{a.dtype.label} apply {function}", meaning, c.Apply(op, a.value))


def _conversion(a: Operand, dtype: DType) -> Case:
    """Floats are such that integers of the way hold them."""
    if a.dtype in FLOATS and dtype.is_integer:
        held = "u64" if dtype is DType.U64 else "i64" if dtype in (DType.I64, DType.U32) else "i32"
        a = Operand(f"{held}_{a.dtype.label}", a.dtype, a.lanes)
    return Case(f"{dtype.label}({a.name})", p.Cast(dtype, a.meaning), c.Convert(a.value, dtype))


def _truths(a: Operand, b: Operand) -> Iterator[Case]:
    named: tuple[tuple[p.Operator, c.BitOperator], ...] = (("&&", "&"), ("||", "|"), ("^", "^"))
    for operator, bit in named:
        yield Case(f"bool {bit}", p.Binary(operator, a.meaning, b.meaning), c.Bitwise(bit, a.value, b.value))
    for comparator in COMPARATORS[:2]:
        holds, said = p.Compare(comparator, a.meaning, b.meaning), c.Compare(comparator, a.value, b.value)
        yield Case(f"bool {comparator}", holds, said)
        yield Case(
            f"bool if {comparator}", p.Select(holds, a.meaning, b.meaning), c.Select(said, a.value, b.value)
        )
        again = p.Compare(comparator, holds, a.meaning), c.Compare(comparator, said, a.value)
        yield Case(f"bool {comparator} again", *again)
    yield Case("!bool", p.Unary("!", a.meaning), c.Not(a.value))
    for dtype in TYPES:
        yield _conversion(a, dtype)


def program(lanes: int, asked: list[Case]) -> Program:
    """One loop that computes all of them, those of one type side by side."""
    arrays = [Tensor(name, dtype, (POINTS,), (1,), False) for name, (dtype, _) in inputs().items()]
    body, counts = [], dict.fromkeys(DType, 0)
    for case in asked:
        at = Index(counts[case.dtype] * POINTS, (("i", lanes),))
        body.append(Store(f"out_{case.dtype.label}", at, case.value))
        counts[case.dtype] += 1
    arrays += [
        Tensor(f"out_{dtype.label}", dtype, (count, POINTS), (POINTS, 1), True)
        for dtype, count in counts.items() if count
    ]  # fmt: skip
    return Program("values", tuple(arrays), (), (Loop("i", POINTS // lanes, tuple(body)),))


def results(asked: list[Case], library: Path) -> list[Array]:
    """What the built program makes of the inputs; memory is full of ones before."""
    rows = {dtype: sum(case.dtype is dtype for case in asked) for dtype in DType}
    made = {
        dtype: np.full((count, POINTS * dtype.nbytes), 0xFF, np.uint8)
        for dtype, count in rows.items() if count
    }  # fmt: skip
    given = [array for _, array in inputs().values()]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*given, *made.values())]
    ctypes.CDLL(str(library)).values(*pointers)
    taken = dict.fromkeys(DType, 0)
    found = []
    for case in asked:
        row = made[case.dtype][taken[case.dtype]]
        taken[case.dtype] += 1
        found.append(row.view(np.uint8 if case.dtype is DType.BOOL else NUMPY_TYPE[case.dtype]))
    return found


def expected(asked: list[Case]) -> list[Array]:
    stages = tuple(p.Stage(f"s{n}", ("x",), (case.meaning,)) for n, case in enumerate(asked))
    box = (p.Extent(0, POINTS),)
    given = inputs()
    declared = tuple(p.Input(name, dtype, 1) for name, (dtype, _) in given.items())
    whole = p.Algorithm("values", declared, (), stages, {s.name: box for s in stages})
    boxes = dict.fromkeys([*given, *(s.name for s in stages)], box)
    made = evaluate(whole, boxes, {name: array for name, (_, array) in given.items()})
    return [made[s.name][0] for s in stages]


def wrong(asked: list[Case], found: list[Array]) -> list[str]:
    """The names of the operations whose results are not those of the evaluator."""
    names = []
    for case, wanted, got in zip(asked, expected(asked), found, strict=True):
        if case.dtype is DType.BOOL:
            is_equal = np.array_equal(wanted.view(np.uint8), got)
        elif not case.dtype.is_float:
            is_equal = np.array_equal(wanted, got)
        else:
            with np.errstate(all="ignore"):
                distance = np.abs(wanted - got) / np.spacing(np.abs(wanted))
            same = (wanted == got) & (np.signbit(wanted) == np.signbit(got)) | np.isnan(wanted) & np.isnan(
                got
            )
            is_equal = bool(np.all(same | (distance <= case.ulps)))
        if not is_equal:
            names.append(case.name)
    return names


FEWER = ("-mno-avx512f", "-mno-avx", "-mno-sse4.1")
"""What every x86 has is left."""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_every_operation_is_that_of_numpy(lanes: int, compiler: Compiler | None, tmp_path: Path) -> None:
    asked = list(cases(lanes))
    code = print_c(verify(program(lanes, asked)), 1)
    library = build_library(code, tmp_path / "values.so", compiler, timeout_s=PATIENT_S)
    assert wrong(asked, results(asked, library)) == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86")
def test_every_operation_does_without_instructions_that_not_all_machines_have(tmp_path: Path) -> None:
    asked = list(cases(8))
    code = print_c(verify(program(8, asked)), 1)
    library = build_library(code, tmp_path / "values.so", timeout_s=PATIENT_S, extra_flags=("-O1", *FEWER))
    assert wrong(asked, results(asked, library)) == []


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_no_operation_gives_a_warning(lanes: int, compiler: Compiler | None, tmp_path: Path) -> None:
    code = print_c(verify(program(lanes, list(cases(lanes)))), 1)
    (tmp_path / "values.c").write_text(code, encoding="utf-8")
    flags = ("-std=c11", "-ffp-contract=fast", "-Wno-psabi", "-Wall", "-Wextra", "-Werror", "-c")
    command = (compiler or find_compiler()).command
    done = subprocess.run(
        [*command, *flags, "values.c"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def _as_it_is(_: Type, text: str) -> str:
    return operand(text)


MISTAKES: dict[str, tuple[object, str, object]] = {
    "narrow results are not cut": (c_operations, "_cut", _as_it_is),
    "signed integers are compared as unsigned ones": (c_operations, "signed", _as_it_is),
    "every divisor counts as 1": (c_operations, "_constant", lambda _: 1),
    "every array counts as 1": (
        c_operations, "_constant", lambda node: 1 if isinstance(node, c.Load) else _known(node)
    ),
    "a float becomes every integer by way of 32 bits": (DType, "by_way_of", property(lambda _: DType.I32)),
}  # fmt: skip


def _known(node: Expression) -> int | None:
    return int(node.value) if isinstance(node, Number) else None


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_the_printer_is_seen(
    mistake: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    owner, name, replacement = MISTAKES[mistake]
    asked = [case for case in cases(1) if case.name.startswith(("i16 ", "u8 ", "u64("))]
    library = build_library(print_c(verify(program(1, asked)), 1), tmp_path / "right.so")
    assert wrong(asked, results(asked, library)) == []
    monkeypatch.setattr(owner, name, replacement)
    library = build_library(print_c(verify(program(1, asked)), 1), tmp_path / "wrong.so")
    assert wrong(asked, results(asked, library)) != []


SLIPS = {
    "signed integers are compared as unsigned ones": ("(($I)a > ($I)b)", "(a > b)"),
    "rounded up": ("& ((rest ^ divisor) < 0)", "& ((rest ^ divisor) > 0)"),
    "divided by 0, something is left": ("& ~zero", ""),
    "the shift is too long": ("(n < $bits)", "(n <= $bits)"),
    "a negative number is shifted as another": (
        "($I)x >> ($I)((n | ~inside) & $last)",
        "x >> ((n | ~inside) & $last)",
    ),
    "a quotient of what is negative": ("((x ^ sign) / $divisor) ^ sign", "x / $divisor"),
    "masks the other way round": ("a & mask) + (($I)b & ~mask", "a & ~mask) + (($I)b & mask"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_mistake_in_a_function_is_seen(slip: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right, mistaken = SLIPS[slip]
    sections = {
        key: replace(section, text=section.text.replace(right, mistaken))
        for key, section in c_functions._sections().items()
    }
    assert sections != c_functions._sections()
    monkeypatch.setattr(c_functions, "_sections", lambda: sections)
    asked = [case for case in cases(4) if case.name.startswith(("i16 ", "u8 "))]
    library = build_library(print_c(verify(program(4, asked)), 1), tmp_path / "wrong.so")
    assert wrong(asked, results(asked, library)) != []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86")
@pytest.mark.parametrize("lanes", [8, 16])
def test_a_selection_is_a_comparison_and_a_blend(lanes: int, tmp_path: Path) -> None:
    """Between loads and a store: with masks of one bit for each lane, or with vectors of them."""
    x, y = (Operand(f"{name}_f32", DType.F32, lanes) for name in "ab")
    chosen = c.Select(c.Compare("<", x.value, y.value), y.value, x.value)
    case = Case("selection", p.Select(p.Compare("<", x.meaning, y.meaning), y.meaning, x.meaning), chosen)
    code = print_c(verify(program(lanes, [case])), 1)
    (tmp_path / "selection.c").write_text(code, encoding="utf-8")
    compiler = find_compiler()
    flags = [f for f in compiler.flags if f not in ("-shared", "-march=native")]
    march = "-march=haswell" if lanes == 8 else "-march=skylake-avx512"
    command = [*compiler.command, *flags, march, "-S", "-o", "selection.s", "selection.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    listing = (tmp_path / "selection.s").read_text(encoding="utf-8")
    executed = [words[0] for line in listing.splitlines() if (words := line.split())]
    vector = [w for w in executed if w.startswith("v") and not w.endswith(":")]
    moves = ("vmov", "vblend", "vpblend", "vzeroupper")
    assert len([w for w in vector if w.startswith("vcmp")]) == 1
    assert all(w.startswith((*moves, "vcmp")) for w in vector), vector

"""The C functions that expressions of a program tree call: vectors from scalars, lanes into one, mathematics.

In: the functions that a program needs, each for a type. Out: their C text, every function after those that it
calls. The text comes from `runtime/functions.c.in`, where one template serves scalars and vectors of every
width: a comparison becomes a mask and a choice becomes arithmetic on masks, since C has no `?:` on vectors.
Square roots and conversions of f16 are instructions where the compiler has them. Elsewhere the C library is
called for square roots, and for nothing else, and f16 is converted by arithmetic on its bits. So is bf16
everywhere: the instructions for it flush small numbers to zero.

Accuracy, by comparison with NumPy in 80 bits, in units in the last place: `exp` is off by less than 1.5,
`log`, `tanh` and `sigmoid` by at most 3, and all give what they should at zeros, infinities and NaN.
`exp` underflows gradually, and is infinite where the nearest number is; `sigmoid` is 0 where its exact value
is below the least normal number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from spacedsl.codegen.c_builtins import (
    EXTREMES,
    NARROWED,
    ROOTS,
    SCALINGS,
    UNPACKED,
    WIDENED,
    instruction,
    masked,
    stream,
)
from spacedsl.codegen.program import Type
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine, neutral

_TEMPLATES = Path(__file__).parent / "runtime" / "functions.c.in"

_INLINE = "static inline __attribute__((always_inline))"


def arithmetic_type(dtype: DType) -> str:
    """Integers wrap around, as NumPy's do: in C that is so for unsigned ones alone."""
    return "uint32_t" if dtype is DType.I32 else dtype.c_name


def c_number(value: float, dtype: DType) -> str:
    """A literal of the type that arithmetic is done in."""
    if dtype is DType.I32:
        return f"{int(value)}u" if value >= 0 else f"(uint32_t)({int(value)})"
    suffix = "f" if dtype is DType.F32 else ""
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    return f"{float(value)!r}{suffix}"


def vector_type(vector: Type) -> str:
    """The declarations of a vector type, and of one that lies anywhere in memory."""
    element, size = arithmetic_type(vector.dtype), vector.dtype.nbytes * vector.lanes
    unaligned = f"aligned({vector.dtype.nbytes}), may_alias"
    return (
        f"typedef {element} {vector} __attribute__((vector_size({size})));\n"
        f"typedef {element} {vector}_unaligned __attribute__((vector_size({size}), {unaligned}));"
    )


def functions(needed: Iterable[tuple[Type, str]]) -> list[str]:
    """Declarations of functions on values of a type, and of those that they call, each once."""
    known: dict[tuple[Type, str], str] = {}
    integers: dict[Type, str] = {}

    def add(kind: Type, name: str) -> None:
        if (kind, name) in known:
            return
        section = _section(kind, name)
        for called in section.calls:
            is_of_element = called.startswith("element ")
            add(Type(kind.dtype) if is_of_element else kind, called.removeprefix("element "))
        if kind not in integers and (re.search(r"\$I|\$lanes", section.text) or kind.lanes == 1):
            integers[kind] = _shorthands(kind)
        known[kind, name] = section.text_for(kind)

    for kind, name in needed:
        add(kind, name)
    return [*integers.values(), *known.values()]


# ---- Templates -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Section:
    """One function as a template, and the functions that it calls."""

    calls: tuple[str, ...]
    text: str

    def text_for(self, kind: Type) -> str:
        return Template(self.text).substitute(_Words(kind))


def _section(kind: Type, name: str) -> _Section:
    sections = _sections()
    shape = "scalar" if kind.lanes == 1 else "vector"
    special = f"{name} [integer]" if kind.dtype is DType.I32 else ""
    return next(sections[key] for key in (special, f"{name} [{shape}]", name) if key in sections)


@cache
def _sections() -> dict[str, _Section]:
    found: dict[str, _Section] = {}
    parts = re.split(r"^//// (.*):(.*)\n", _TEMPLATES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for name, calls, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        found[name] = _Section(tuple(c.strip() for c in calls.split(",") if c.strip()), text.strip())
    return found


def _shorthands(kind: Type) -> str:
    """The type of masks and bits; of a scalar, a name that looks like those of vectors."""
    width, size = 8 * kind.dtype.nbytes, kind.lanes * kind.dtype.nbytes
    if kind.lanes == 1:
        return f"typedef {arithmetic_type(kind.dtype)} {kind};"
    return f"typedef int{width}_t {_integers(kind)} __attribute__((vector_size({size})));"


def _integers(kind: Type) -> str:
    """The signed integers of the same shape."""
    return f"int{8 * kind.dtype.nbytes}_t" if kind.lanes == 1 else f"{kind}_integers"


_CONSTANTS: dict[DType, dict[str, str]] = {
    DType.F32: {
        "f": "f", "mantissa": "23", "bias": "127", "shift_bits": "0x4b400000", "magnitude_bits": "0x7fffffff",
        "ln2_high": "0x1.62e4p-1f", "ln2_low": "0x1.7f7d1cp-20f", "most": "89.0f", "least": "-104.0f",
        "least_normal": "0x1p-126f", "scaled": "24", "root_half_bits": "0x3f3504f3",
    },
    DType.F64: {
        "f": "", "mantissa": "52", "bias": "1023", "shift_bits": "0x4338000000000000",
        "magnitude_bits": "0x7fffffffffffffff", "ln2_high": "0x1.62e42feep-1",
        "ln2_low": "0x1.a39ef35793c76p-33", "most": "710.0", "least": "-746.0",
        "least_normal": "0x1p-1022", "scaled": "53", "root_half_bits": "0x3fe6a09e667f3bcd",
    },
    DType.I32: {}, DType.BF16: {}, DType.F16: {},
}  # fmt: skip
"""Of the formats. `ln2_high` has so few digits that its products with exponents are exact."""

_EXP_DEGREE = {DType.F32: 7, DType.F64: 13}
"""Of the Taylor polynomial: the next term is below a tenth of the last place at log(2) / 2."""

_LOG_TERMS = {DType.F32: 4, DType.F64: 10}
"""Of the series of the inverse hyperbolic tangent at (sqrt(2) - 1) / (sqrt(2) + 1), after the first."""


_SHIFTED = "shifted - 0x1.8p$mantissa$f"
"""The exponent that `reduced` found."""


class _Words(dict[str, str]):
    """What the placeholders of a template stand for, made when it is asked for."""

    def __init__(self, kind: Type) -> None:
        super().__init__(_CONSTANTS[kind.dtype])
        self.kind = kind

    def __missing__(self, word: str) -> str:
        dtype, lanes = self.kind.dtype, self.kind.lanes
        name, _, operator = word.partition("_")
        match name:
            case "T":
                return str(self.kind)
            case "E":
                return arithmetic_type(dtype)
            case "I":
                return _integers(self.kind)
            case "inline":
                return _INLINE
            case "copies":
                return ", ".join(["x"] * lanes)
            case "N":
                return f"int{8 * dtype.nbytes}_t"
            case "numbers":
                return ", ".join(map(str, range(lanes)))
            case "masked":
                return masked(self.kind, operator)
            case "stream":
                return stream(lanes * dtype.nbytes)
            case "x":
                return "" if lanes == 1 else f"x{lanes}"
            case "root":
                return instruction(ROOTS.get((dtype, lanes)), "x")
            case "greater":
                return Template(instruction(EXTREMES.get((dtype, lanes)), "max")).substitute(self)
            case "smaller":
                return Template(instruction(EXTREMES.get((dtype, lanes)), "min")).substitute(self)
            case "scaling":
                return Template(instruction(SCALINGS.get((dtype, lanes)), _SHIFTED)).substitute(self)
            case "square":
                return ", ".join(f"{Type(dtype)}_sqrt(x[{lane}])" for lane in range(lanes))
            case "unpacked":
                return Template(instruction(UNPACKED.get(lanes), "(halves)x")).substitute(self)
            case "widened":
                return instruction(WIDENED.get(lanes), f"(halves){'{x}' if lanes == 1 else 'x'}")
            case "narrowed":
                return instruction(NARROWED.get(lanes), f"(singles){'{x}' if lanes == 1 else 'x'}")
            case "exp":
                return _horner("r", [1 / math.factorial(n) for n in range(2, _EXP_DEGREE[dtype] + 1)], dtype)
            case "log":
                return _horner("z", [1 / (2 * n + 1) for n in range(1, _LOG_TERMS[dtype] + 1)], dtype)
            case "lanes":
                return _folds(self.kind, _PAIRS[operator])
            case "others":
                return f", {c_number(neutral(Combine(operator), dtype), dtype)}" * (lanes - 1)
        raise KeyError(word)


_PAIRS = {
    "sum": "{a} + {b}", "prod": "{a} * {b}", "max": "{type}_max({a}, {b})", "min": "{type}_min({a}, {b})"
}  # fmt: skip


def _folds(kind: Type, pair: str) -> str:
    """Statements that combine one half of the lanes with the other, until the first lane holds all."""
    halves = [1 << n for n in reversed(range((kind.lanes - 1).bit_length()))]
    orders = [", ".join(str((lane + half) % kind.lanes) for lane in range(kind.lanes)) for half in halves]
    clang = [f"__builtin_shufflevector(x, x, {order})" for order in orders]
    gcc = [f"__builtin_shuffle(x, ({_integers(kind)}){{{order}}})" for order in orders]
    return "\n".join([
        "#ifdef __clang__", *(f"  x = {pair.format(type=kind, a='x', b=moved)};" for moved in clang),
        "#else", *(f"  x = {pair.format(type=kind, a='x', b=moved)};" for moved in gcc), "#endif\n",
    ])  # fmt: skip


def _horner(variable: str, coefficients: list[float], dtype: DType) -> str:
    """The polynomial, the constant term first."""
    text = c_number(coefficients[-1], dtype)
    for coefficient in reversed(coefficients[:-1]):
        text = f"({text} * {variable} + {c_number(coefficient, dtype)})"
    return text.removeprefix("(").removesuffix(")") if len(coefficients) > 1 else text

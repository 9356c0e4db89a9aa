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

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from spacedsl.codegen.c.builtins import (
    EXTREMES,
    NARROWED,
    ROOTS,
    ROUNDING_MODES,
    ROUNDINGS,
    SCALINGS,
    UNPACKED,
    WIDENED,
    gathered,
    instruction,
    library_name,
    masked,
    stream,
)
from spacedsl.codegen.c.conversions import converted
from spacedsl.codegen.c.polynomials import exponential_rest, logarithm_rest
from spacedsl.codegen.c.types import arithmetic_type, c_number, integers
from spacedsl.codegen.tree.expressions import Type
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine, neutral

_TEMPLATES = Path(__file__).parent / "runtime" / "functions.c.in"

_INLINE = "static inline __attribute__((always_inline))"


def functions(needed: Iterable[tuple[Type, str]]) -> list[str]:
    """Declarations of functions on values of a type, and of those that they call, each once."""
    known: dict[tuple[Type, str], str] = {}
    shorthands: dict[Type, str] = {}

    def add(kind: Type, name: str) -> None:
        if (kind, name) in known:
            return
        section, argument = _section(kind, name)
        for called in section.calls:
            is_of_element = called.startswith("element ")
            add(
                Type(kind.dtype) if is_of_element else kind,
                called.removeprefix("element ").replace("*", argument),
            )
        text = Template(section.text).substitute(_Words(kind, argument))
        if kind.lanes == 1 or integers(kind) in text:
            shorthands.setdefault(kind, _shorthands(kind))
        known[kind, name] = text

    for kind, name in needed:
        if name == INTEGERS:
            shorthands.setdefault(kind, _shorthands(kind))
        else:
            add(kind, name)
    return [*shorthands.values(), *known.values()]


INTEGERS = "integers"
"""No function, but the type of integers that looks like another one."""


# ---- Templates -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Section:
    """One function as a template, and the functions that it calls."""

    calls: tuple[str, ...]
    text: str


def _section(kind: Type, name: str) -> tuple[_Section, str]:
    """The section that fits best, and its argument."""
    family = "float" if kind.dtype.is_float else "signed" if kind.dtype.is_signed else "unsigned"
    shape = "scalar" if kind.lanes == 1 else "vector"
    stem, _, argument = name.rpartition("_")
    for begin in (name, f"{stem}_*"):
        for key in (f"{begin} [{family} {shape}]", f"{begin} [{family}]", f"{begin} [{shape}]", begin):
            if (found := _sections().get(key)) is not None:
                return found, argument
    raise KeyError(f"{name} of {kind}")


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
    return f"typedef int{width}_t {integers(kind)} __attribute__((vector_size({size})));"


_CONSTANTS: dict[DType, dict[str, str]] = {
    DType.F32: {
        "f": "f", "mantissa": "23", "bias": "127", "shift": "12583166.0f", "shift_bits": "0x4b400000",
        "magnitude_bits": "0x7fffffff",
        "ln2_high": "0x1.62e4p-1f", "ln2_low": "0x1.7f7d1cp-20f", "most": "89.0f", "least": "-104.0f",
        "least_normal": "0x1p-126f", "scaled": "24", "root_half_bits": "0x3f3504f3",
    },
    DType.F64: {
        "f": "", "mantissa": "52", "bias": "1023", "shift": "6755399441057790.0",
        "shift_bits": "0x4338000000000000", "magnitude_bits": "0x7fffffffffffffff",
        "ln2_high": "0x1.62e42feep-1", "ln2_low": "0x1.a39ef35793c76p-33", "most": "710.0", "least": "-746.0",
        "least_normal": "0x1p-1022", "scaled": "53", "root_half_bits": "0x3fe6a09e667f3bcd",
    },
}  # fmt: skip
"""Of the formats. `ln2_high` has so few digits that its products with exponents are exact. A sum with
`shift`, 1.5 2^mantissa + 2 bias, is rounded to an integer, whose lowest bits follow those of `shift_bits`."""

_SHIFTED = "shifted - $shift"
"""The exponent that `reduced` found."""


class _Words(dict[str, str]):
    """What the placeholders of a template stand for, made when it is asked for."""

    def __init__(self, kind: Type, argument: str) -> None:
        super().__init__(_CONSTANTS.get(kind.dtype, {}))
        self.kind = kind
        self.argument = argument

    def __missing__(self, word: str) -> str:
        dtype, lanes = self.kind.dtype, self.kind.lanes
        name, _, operator = word.partition("_")
        match name:
            case "T":
                return str(self.kind)
            case "argument":
                return self.argument
            case "bits":
                return str(8 * dtype.nbytes)
            case "last":
                return str(8 * dtype.nbytes - 1)
            case "divisor":
                return c_number(int(self.argument), dtype)
            case "R":
                return str(Type(DType.of(self.argument), lanes))
            case "converted":
                return converted(self.kind, DType.of(self.argument))
            case "rounding":
                return instruction(ROUNDINGS.get((dtype, lanes)), ROUNDING_MODES.get(self.argument, ""))
            case "elementwise":
                return library_name(f"elementwise_{self.argument}", DType.F64)
            case "each":
                called, operands = library_name(self.argument, dtype), "xy" if operator == "two" else "x"
                each = (", ".join(f"{o}[{lane}]" for o in operands) for lane in range(lanes))
                return ", ".join(f"{called}({arguments})" for arguments in each)
            case "E":
                return arithmetic_type(dtype)
            case "I":
                return integers(self.kind)
            case "inline":
                return _INLINE
            case "copies":
                return ", ".join(["x"] * lanes)
            case "N":
                return f"int{8 * dtype.nbytes}_t"
            case "H":
                return str(Type(dtype, lanes // 2))
            case "interleaved":
                return _shuffled(self.kind, [lane // 2 + lane % 2 * (lanes // 2) for lane in range(lanes)])
            case "every":
                # The second vector begins with what the first one ends with.
                return _shuffled(self.kind, [n if n < lanes else n + 1 for n in range(0, 2 * lanes, 2)])
            case "places":
                return str(Type(DType.I32, lanes))
            case "gathered":
                return gathered(self.kind)
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
                return _horner("r", exponential_rest(dtype), dtype)
            case "log":
                return _horner("z", logarithm_rest(dtype), dtype)
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
    gcc = [f"__builtin_shuffle(x, ({integers(kind)}){{{order}}})" for order in orders]
    return "\n".join([
        "#ifdef __clang__", *(f"  x = {pair.format(type=kind, a='x', b=moved)};" for moved in clang),
        "#else", *(f"  x = {pair.format(type=kind, a='x', b=moved)};" for moved in gcc), "#endif\n",
    ])  # fmt: skip


def _shuffled(kind: Type, order: list[int]) -> str:
    """Statements that return these lanes of two vectors, counted through both."""
    half = max(order) // 2 + 1
    each = ", ".join(f"{'ab'[lane // half]}[{lane % half}]" for lane in order)
    return "\n".join([
        "#if defined __clang__ || __GNUC__ >= 12",
        f"  return __builtin_shufflevector(a, b, {', '.join(map(str, order))});",
        "#else", f"  return ({kind}){{{each}}};", "#endif\n",
    ])  # fmt: skip


def _horner(variable: str, coefficients: Sequence[float], dtype: DType) -> str:
    """The polynomial, the constant term first."""
    text = c_number(coefficients[-1], dtype)
    for coefficient in reversed(coefficients[:-1]):
        text = f"({text} * {variable} + {c_number(coefficient, dtype)})"
    return text.removeprefix("(").removesuffix(")") if len(coefficients) > 1 else text

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

from spacedsl.codegen.program import Type
from spacedsl.kernels.linalg.operations import Combine, neutral
from spacedsl.kernels.linalg.tensors import DType

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
                return _masked(self.kind, operator)
            case "stream":
                return _stream(lanes * dtype.nbytes)
            case "x":
                return "" if lanes == 1 else f"x{lanes}"
            case "root":
                return _instruction(_ROOTS.get((dtype, lanes)), "x")
            case "greater":
                return Template(_instruction(_EXTREMES.get((dtype, lanes)), "max")).substitute(self)
            case "smaller":
                return Template(_instruction(_EXTREMES.get((dtype, lanes)), "min")).substitute(self)
            case "scaling":
                return Template(_instruction(_SCALINGS.get((dtype, lanes)), _SHIFTED)).substitute(self)
            case "square":
                return ", ".join(f"{Type(dtype)}_sqrt(x[{lane}])" for lane in range(lanes))
            case "unpacked":
                return Template(_instruction(_UNPACKED.get(lanes), "(halves)x")).substitute(self)
            case "widened":
                return _instruction(_WIDENED.get(lanes), f"(halves){'{x}' if lanes == 1 else 'x'}")
            case "narrowed":
                return _instruction(_NARROWED.get(lanes), f"(singles){'{x}' if lanes == 1 else 'x'}")
            case "exp":
                return _horner("r", [1 / math.factorial(n) for n in range(2, _EXP_DEGREE[dtype] + 1)], dtype)
            case "log":
                return _horner("z", [1 / (2 * n + 1) for n in range(1, _LOG_TERMS[dtype] + 1)], dtype)
            case "lanes":
                return _folds(self.kind, _PAIRS[operator])
            case "others":
                return f", {c_number(neutral(Combine(operator), dtype), dtype)}" * (lanes - 1)
        raise KeyError(word)


_Instruction = tuple[str, str]
"""What the compiler defines where it has it, and a call of its function, with a place for a word."""

_ROOTS: dict[tuple[DType, int], _Instruction] = {
    (DType.F32, 1): ("__SSE__", "__builtin_ia32_sqrtss((float __attribute__((vector_size(16)))){{{x}}})[0]"),
    (DType.F64, 1): (
        "__SSE2__",
        "__builtin_ia32_sqrtsd((double __attribute__((vector_size(16)))){{{x}}})[0]",
    ),
    (DType.F32, 4): ("__SSE__", "__builtin_ia32_sqrtps({x})"),
    (DType.F32, 8): ("__AVX__", "__builtin_ia32_sqrtps256({x})"),
    (DType.F32, 16): ("__AVX512F__", "__builtin_ia32_sqrtps512_mask({x}, {x}, -1, 4)"),
    (DType.F64, 2): ("__SSE2__", "__builtin_ia32_sqrtpd({x})"),
    (DType.F64, 4): ("__AVX__", "__builtin_ia32_sqrtpd256({x})"),
    (DType.F64, 8): ("__AVX512F__", "__builtin_ia32_sqrtpd512_mask({x}, {x}, -1, 4)"),
}

_EXTREMES: dict[tuple[DType, int], _Instruction] = {
    (DType.F32, 4): ("__SSE__", "__builtin_ia32_{x}ps(a, b)"),
    (DType.F32, 8): ("__AVX__", "__builtin_ia32_{x}ps256(a, b)"),
    (DType.F32, 16): ("__AVX512F__", "__builtin_ia32_{x}ps512_mask(a, b, a, -1, 4)"),
    (DType.F64, 2): ("__SSE2__", "__builtin_ia32_{x}pd(a, b)"),
    (DType.F64, 4): ("__AVX__", "__builtin_ia32_{x}pd256(a, b)"),
    (DType.F64, 8): ("__AVX512F__", "__builtin_ia32_{x}pd512_mask(a, b, a, -1, 4)"),
    (DType.I32, 4): ("__SSE4_1__", "($T)__builtin_ia32_p{x}sd128(($I)a, ($I)b)"),
    (DType.I32, 8): ("__AVX2__", "($T)__builtin_ia32_p{x}sd256(($I)a, ($I)b)"),
    (DType.I32, 16): ("__AVX512F__", "($T)__builtin_ia32_p{x}sd512_mask(($I)a, ($I)b, ($I)a, -1)"),
}
"""The greater, or the smaller, of two vectors: of two that are equal or no numbers, the second one."""

_SHIFTED = "shifted - 0x1.8p$mantissa$f"
"""The exponent that `reduced` found."""

_SCALINGS: dict[tuple[DType, int], _Instruction] = {
    (DType.F32, 16): ("__AVX512F__", "__builtin_ia32_scalefps512_mask(x, {x}, x, -1, 4)"),
    (DType.F64, 8): ("__AVX512F__", "__builtin_ia32_scalefpd512_mask(x, {x}, x, -1, 4)"),
}
"""A vector times powers of two, with whole exponents."""

_UNPACKED: dict[int, _Instruction] = {
    8: ("__AVX2__", "${{T}}_of_bits(__builtin_ia32_pmovzxwd256({x}) << 16)"),
    16: ("__AVX512F__", "${{T}}_of_bits(__builtin_ia32_pmovzxwd512_mask({x}, ($I){{0}}, -1) << 16)"),
}
"""By lanes: f32 from bf16, which gcc makes of halves of a vector."""

_WIDENED: dict[int, _Instruction] = {
    1: ("__F16C__", "__builtin_ia32_vcvtph2ps({x})[0]"),
    8: ("__F16C__", "__builtin_ia32_vcvtph2ps256({x})"),
    16: ("__AVX512F__", "__builtin_ia32_vcvtph2ps512_mask({x}, (singles){{0}}, -1, 4)"),
}
"""By lanes: f32 from f16."""

_NARROWED: dict[int, _Instruction] = {
    1: ("__F16C__", "(uint16_t)__builtin_ia32_vcvtps2ph({x}, 0)[0]"),
    8: ("__F16C__", "(f16x8)__builtin_ia32_vcvtps2ph256({x}, 0)"),
    16: ("__AVX512F__", "(f16x16)__builtin_ia32_vcvtps2ph512_mask({x}, 0, (halves){{0}}, -1)"),
}
"""By lanes: f16 from f32, to the nearest."""


def _instruction(known: _Instruction | None, word: str) -> str:
    """The condition under which gcc has it, and the statement; one that never holds where it is unknown."""
    if known is None:
        return "0\n"
    feature, call = known
    return f"defined({feature}) && !defined(__clang__)\n  return {call.format(x=word)};"


_STREAMS = {
    16: ("__SSE__", "__builtin_ia32_movntps"),
    32: ("__AVX__", "__builtin_ia32_movntps256"),
    64: ("__AVX512F__", "__builtin_ia32_movntps512"),
}
"""By bytes of a vector: what gcc defines where it has the instruction, and its function."""


def _stream(nbytes: int) -> str:
    if nbytes not in _STREAMS:
        return ""
    feature, function = _STREAMS[nbytes]
    floats = f"typedef float floats __attribute__((vector_size({nbytes})));"
    return f"#elif defined({feature})\n  {floats}\n  {function}((float *)to, (floats)x);\n"


def _masked(kind: Type, access: str) -> str:
    """The lines of a masked `load` or `store` where the compiler has one; the `end` of what is there else."""
    nbytes, is_double = kind.dtype.nbytes * kind.lanes, kind.dtype.nbytes == 8
    if nbytes not in (16, 32, 64) or kind.dtype.nbytes < 4:
        return ""
    real, integer, letter = ("double", "long long", "d") if is_double else ("float", "int", "s")
    mask = f"(integers){kind}_below(count)"
    if nbytes == 64:
        # Of gcc alone: clang names it otherwise.
        feature, mask = "__AVX512F__) && !defined(__clang__", f"(uint{kind.lanes}_t)((1u << count) - 1)"
        load = f"__builtin_ia32_loadup{letter}512_mask((const {real} *)from, (reals){{0}}, {mask})"
        store = f"__builtin_ia32_storeup{letter}512_mask(({real} *)to, (reals)x, {mask})"
    else:
        feature, width = "__AVX__", "256" if nbytes == 32 else ""
        load = f"__builtin_ia32_maskloadp{letter}{width}((const reals *)from, {mask})"
        store = f"__builtin_ia32_maskstorep{letter}{width}((reals *)to, {mask}, (reals)x)"
    types = [f"  typedef {real} reals __attribute__((vector_size({nbytes})));"]
    if nbytes < 64:
        types.append(f"  typedef {integer} integers __attribute__((vector_size({nbytes})));")
    call = {"load": f"  return ({kind}){load};", "store": f"  {store};", "end": ""}[access]
    return "\n".join([f"#if defined({feature})", *types, call, "#else", ""]) if call else "#endif\n"


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

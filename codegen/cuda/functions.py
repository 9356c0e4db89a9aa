"""The functions that expressions of a program tree call, in CUDA C++.

In: the functions that a program needs, each for a type. Out: their text, every function after those that it
calls. Mathematics is that of CUDA's own library, and of the C library in the twin of the program on a
CPU; formats of 16 bits are computed with as f32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spacedsl.codegen.c.types import arithmetic_type, signed_type
from spacedsl.codegen.cuda.expressions import cuda_number, cuda_type
from spacedsl.codegen.tree.expressions import Type, type_of
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import AtomicCombine, Statement
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine

INLINE = "static __device__ __forceinline__"

COPIES = f"""\
#ifndef CUDA_TWIN
template <int bytes> {INLINE} void copy_ahead(void *to, const void *from) {{
  unsigned place = (unsigned)__cvta_generic_to_shared(to);
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(bytes) : "memory");
}}
{INLINE} void commit_copies() {{ asm volatile("cp.async.commit_group;" ::: "memory"); }}
template <int groups> {INLINE} void wait_for_copies() {{
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}}
#endif"""
"""Of `CopyAhead`, `CommitCopies` and `WaitForCopies`."""

_EXTREMES = {
    DType.I32: "  atomic{Extreme}((int *)place, (int)value);",
    DType.F32: """\
  if (__float_as_int(value) >= 0) atomic{Extreme}((int *)place, __float_as_int(value));
  else atomic{Other}((unsigned *)place, __float_as_uint(value));""",
    DType.F64: """\
  long long bits = __double_as_longlong(value);
  if (bits >= 0) atomic{Extreme}((long long *)place, bits);
  else atomic{Other}((unsigned long long *)place, (unsigned long long)bits);""",
}
"""The greater or smaller of what is in memory and a value. Bits of floating-point numbers are ordered as
integers are: positive ones among all that are signed, negative ones the other way round."""

_PRODUCT = """\
  {Word} before, held = {one};
  do {{
    before = held;
    held = atomicCAS(({Word} *)place, before, {product});
  }} while (held != before);"""
_PRODUCTS = {
    DType.I32: ("unsigned", "1", "before * (unsigned)value"),
    DType.F32: ("unsigned", "__float_as_uint(1.0f)", "__float_as_uint(__uint_as_float(before) * value)"),
    DType.F64: (
        "unsigned long long",
        "(unsigned long long)__double_as_longlong(1.0)",
        "(unsigned long long)__double_as_longlong(__longlong_as_double((long long)before) * value)",
    ),
}
"""The product of what is in memory and a value: put there where memory still is what was multiplied, at first
what nothing has been multiplied with yet. What memory was then is tried next."""

_REAL = {
    "max": "a > b ? a : b",
    "min": "a < b ? a : b",
    "abs": "fabs{f}(a)",
    "sqrt": "sqrt{f}(a)",
    "exp": "exp{f}(a)",
    "log": "log{f}(a)",
    "tanh": "tanh{f}(a)",
    "sigmoid": "1 / (1 + exp{f}(-a))",
    "gelu": "a / (1 + exp{f}({c1} * (a + {c2} * a * a * a)))",
}
"""Of floating-point numbers. Where one of both is not a number, the greater or smaller one is b."""

_SIGNED = {
    "max": "({I})a > ({I})b ? a : b",
    "min": "({I})a < ({I})b ? a : b",
    "abs": "({I})a < 0 ? ({T})(0u - a) : a",
}
_UNSIGNED = {"max": "a > b ? a : b", "min": "a < b ? a : b"}
"""Of integers, which wrap around."""

_DIVISIONS = {
    "floor_div": "if (b == 0) return 0; if (b == ({T})-1) return ({T})(0u - a); "
    "{I} q = ({I})a / ({I})b, r = ({I})a % ({I})b; return ({T})(q - (r != 0 && (r < 0) != (({I})b < 0)));",
    "floor_mod": "if (b == 0 || b == ({T})-1) return 0; "
    "{I} r = ({I})a % ({I})b; return ({T})(r + (r != 0 && (r < 0) != (({I})b < 0) ? ({I})b : 0));",
}
_UNSIGNED_DIVISIONS = {
    "floor_div": "return b == 0 ? 0 : a / b;",
    "floor_mod": "return b == 0 ? 0 : a % b;",
}
"""Rounded down; by 0 they give 0. The least integer divided by -1 is itself."""

_SHIFTS = {
    "shift_left": "return n < {bits} ? ({T})(a << n) : 0;",
    "shift_right": "return n < {bits} ? ({T})(a >> n) : 0;",
}
_SIGNED_SHIFTS = _SHIFTS | {"shift_right": "return ({T})(({I})a >> (n < {bits} ? n : {bits} - 1));"}
"""By more bits than there are, which is what a negative number of them is."""

_BY = {
    "floor_div_by": "{T} sign = ({T})(({I})a >> ({bits} - 1)); "
    "return ({T})(((a ^ sign) / {divisor}) ^ sign);",
    "floor_mod_by": "{I} r = ({I})a % ({I}){divisor}; return ({T})(r < 0 ? r + ({I}){divisor} : r);",
}
"""Of signed integers, by a positive number that is known."""

_CONVERSIONS = {
    "to_f64": "return a;",
    "from_f64": "return (float)a;",
    "from_bf16": "return __uint_as_float((uint32_t)a << 16);",
    # Ties go to even; what is not a number stays so.
    "to_bf16": "uint32_t x = __float_as_uint(a); "
    "return a != a ? 0x7fff : (x + 0x7fff + (x >> 16 & 1)) >> 16;",
    "from_f16": 'float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(a)); return x;',
    "to_f16": 'uint16_t x; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x) : "f"(a)); return x;',
}
"""Of f32, from and to other types."""

_TWIN_CONVERSIONS = {"from_f16": "return twin_from_f16(a);", "to_f16": "return twin_to_f16(a);"}
"""What the instructions above are on a CPU."""


def combining(combine: Combine, kind: Type) -> str:
    """The name of the function that combines a value with an element of memory."""
    return "atomicAdd" if combine is Combine.SUM else f"atomic_{combine.value}_{kind}"


def combinations(body: Sequence[Statement]) -> list[str]:
    """Declarations of those that statements need and CUDA does not have, each once."""
    found: dict[str, str] = {}
    for statement in statements(body):
        if isinstance(statement, AtomicCombine) and statement.combine is not Combine.SUM:
            kind = type_of(statement.value)
            name = combining(statement.combine, kind)
            if statement.combine is Combine.PROD:
                word, one, product = _PRODUCTS[kind.dtype]
                text = _PRODUCT.format(Word=word, one=one, product=product)
            else:
                words = ("Max", "Min") if statement.combine is Combine.MAX else ("Min", "Max")
                text = _EXTREMES[kind.dtype].format(Extreme=words[0], Other=words[1])
            place, value = f"{kind.dtype.c_name} *place", f"{cuda_type(kind)} value"
            found[name] = f"{INLINE} void {name}({place}, {value}) {{\n{text}\n}}"
    return list(found.values())


def functions(needed: Iterable[tuple[Type, str]]) -> list[str]:
    """Declarations of functions on values of a type, each once."""
    known: dict[tuple[Type, str], str] = {}
    for kind, name in needed:
        for each in (Type(kind.dtype), kind):
            known.setdefault((each, name), _function(each, name))
    return list(known.values())


def _function(kind: Type, name: str) -> str:
    if kind.dtype.is_integer:
        return _of_integers(kind, name)
    is_binary, dtype = name in ("max", "min"), kind.dtype
    result = given = kind
    if name in _CONVERSIONS:
        direction, other = name.split("_")
        there = Type(DType.of(other), kind.lanes)
        given, result = (there, kind) if direction == "from" else (kind, there)
    parameters = ", ".join(f"{cuda_type(given)} {p}" for p in ("ab" if is_binary else "a"))
    head = f"{INLINE} {cuda_type(result)} {kind}_{name}({parameters})"
    if kind.lanes > 1:
        return _of_lanes(head, kind, result, name, "ab" if is_binary else "a")
    if name in _TWIN_CONVERSIONS:
        twin = f"{head} {{ {_TWIN_CONVERSIONS[name]} }}"
        return f"#ifdef CUDA_TWIN\n{twin}\n#else\n{head} {{ {_CONVERSIONS[name]} }}\n#endif"
    if name in _CONVERSIONS:
        return f"{head} {{ {_CONVERSIONS[name]} }}"
    suffix = "f" if dtype is DType.F32 else ""
    numbers = {"f": suffix, "c1": f"-1.5957691216057308{suffix}", "c2": f"0.044715{suffix}"}
    return f"{head} {{ return {_REAL[name].format(**numbers)}; }}"


def _of_lanes(head: str, kind: Type, result: Type, name: str, parameters: str) -> str:
    """Of vectors, lane by lane."""
    each = (f"{Type(kind.dtype)}_{name}({', '.join(f'{p}.{lane}' for p in parameters)})"
            for lane in "xyzw"[: kind.lanes])  # fmt: skip
    return f"{head} {{ return make_{cuda_type(result)}({', '.join(each)}); }}"


def _of_integers(kind: Type, name: str) -> str:
    stem, _, divisor = name.rpartition("_")
    is_signed = kind.dtype.is_signed
    words = {
        "T": arithmetic_type(kind.dtype),
        "I": signed_type(kind.dtype),
        "bits": 8 * kind.dtype.nbytes,
        "divisor": divisor and divisor.isdigit() and cuda_number(int(divisor), kind.dtype),
    }
    if name in (extremes := _SIGNED if is_signed else _UNSIGNED):
        parameters, body = "a" if name == "abs" else "ab", f"return {extremes[name]};"
    elif name in (divisions := _DIVISIONS if is_signed else _UNSIGNED_DIVISIONS):
        parameters, body = "ab", divisions[name]
    elif stem in _BY:
        parameters, body = "a", _BY[stem]
    else:
        parameters, body = "an", (_SIGNED_SHIFTS if is_signed else _SHIFTS)[name]
    head = (
        f"{INLINE} {cuda_type(kind)} {kind}_{name}({', '.join(f'{cuda_type(kind)} {p}' for p in parameters)})"
    )
    if kind.lanes > 1:
        return _of_lanes(head, kind, kind, name, parameters)
    return f"{head} {{ {body.format(**words)} }}"

"""The functions that expressions of a program tree call, in CUDA C++.

In: the functions that a program needs, each for a type. Out: their text, every function after those that it
calls. Mathematics is that of CUDA's own library, and of the C library in the twin of the program on a
CPU; formats of 16 bits are computed with as f32.
"""

from __future__ import annotations

from collections.abc import Iterable

from spacedsl.codegen.cuda.expressions import cuda_type
from spacedsl.codegen.program import Type
from spacedsl.kernels.dtypes import DType

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

_INTEGER = {
    "max": "(int32_t)a > (int32_t)b ? a : b",
    "min": "(int32_t)a < (int32_t)b ? a : b",
    "abs": "(int32_t)a < 0 ? 0u - a : a",
}
"""Of integers, which wrap around."""

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


def functions(needed: Iterable[tuple[Type, str]]) -> list[str]:
    """Declarations of functions on values of a type, each once."""
    known: dict[tuple[Type, str], str] = {}
    for kind, name in needed:
        for each in (Type(kind.dtype), kind):
            known.setdefault((each, name), _function(each, name))
    return list(known.values())


def _function(kind: Type, name: str) -> str:
    is_binary, dtype = name in ("max", "min"), kind.dtype
    result = given = kind
    if name in _CONVERSIONS:
        direction, other = name.split("_")
        there = Type(DType.of(other), kind.lanes)
        given, result = (there, kind) if direction == "from" else (kind, there)
    parameters = ", ".join(f"{cuda_type(given)} {p}" for p in ("ab" if is_binary else "a"))
    head = f"{INLINE} {cuda_type(result)} {kind}_{name}({parameters})"
    if kind.lanes > 1:
        each = (f"{Type(dtype)}_{name}({', '.join(f'{p}.{lane}' for p in ('ab' if is_binary else 'a'))})"
                for lane in "xyzw"[: kind.lanes])  # fmt: skip
        return f"{head} {{ return make_{cuda_type(result)}({', '.join(each)}); }}"
    if name in _TWIN_CONVERSIONS:
        twin = f"{head} {{ {_TWIN_CONVERSIONS[name]} }}"
        return f"#ifdef CUDA_TWIN\n{twin}\n#else\n{head} {{ {_CONVERSIONS[name]} }}\n#endif"
    if name in _CONVERSIONS:
        return f"{head} {{ {_CONVERSIONS[name]} }}"
    if dtype is DType.I32:
        return f"{head} {{ return {_INTEGER[name]}; }}"
    suffix = "f" if dtype is DType.F32 else ""
    numbers = {"f": suffix, "c1": f"-1.5957691216057308{suffix}", "c2": f"0.044715{suffix}"}
    return f"{head} {{ return {_REAL[name].format(**numbers)}; }}"

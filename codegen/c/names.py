"""The names that a kernel's parts bear in C.

In: names of a kernel file or of the generator. Out: identifiers that mean nothing else in the generated file
and its header, in C or in C++. Different names stay different: what is changed gets a prefix, and so does
what has that prefix already.
"""

from __future__ import annotations

import re
from functools import lru_cache

from spacedsl.codegen.c.library import C_LIBRARY, FUNCTIONS
from spacedsl.kernels.dtypes import DType

_PREFIX = "k_"

_RESERVED = """
    auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile
    while

    alignas alignof bool constexpr false nullptr static_assert thread_local true typeof typeof_unqual asm
    linux unix main

    and and_eq bitand bitor catch char8_t char16_t char32_t class compl concept co_await co_return co_yield
    consteval constinit const_cast decltype delete dynamic_cast explicit export friend mutable namespace new
    noexcept not not_eq operator or or_eq private protected public reinterpret_cast requires static_cast
    template this throw try typeid typename using virtual wchar_t xor xor_eq

    threadIdx blockIdx blockDim gridDim warpSize shared_memory stream error first_error LAUNCH CUDA_TWIN dim3

    in begin end arguments pool thread threads element partial kill_dependency NULL CSIGNAL
    copy_ahead commit_copies wait_for_copies load_matrices

    BUFSIZ EOF FILE INFINITY MAXFLOAT NAN NFDBITS stdin stdout stderr math_errhandling offsetof alloca
    strdupa strndupa issubnormal uint ushort ulong
"""
"""Of C11; of later ones, and of GNU C; of C++; of CUDA; of the generated file and its headers; of systems."""

_WORDS = frozenset(_RESERVED.split())

_FAMILIES = (
    _PREFIX,
    "pool_",
    "position_",
    *(dtype.label for dtype in DType),
    "scratch_",
    "atomic",
    "pthread_",
    "sched_",
    "cuda",
    "twin_",
    "make_",
    "multiply_",
)
"""Beginnings of names that the generated file and its headers declare."""

_MACRO = re.compile("[A-Z][A-Z0-9]*_")
"""As macros of headers begin: `CPU_ZERO`, `SYS_write`. The others are words of the list."""


_OTHER = re.compile(
    r"SNAN[FL]?|W(IF)?(CONTINUED|EXIT|SIGNALED|STOP|TERM|NO|UNTRACED)|(be|le|hto)[bl]?e?(16|32|64)|.*_t$"
)
"""Macros and types of the system's headers that are many."""

_VECTOR = re.compile("(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]")
"""As vectors of CUDA begin: `float4`, `ulonglong4_16a`."""


def _means_something(name: str) -> bool:
    is_word = name in _WORDS or name in FUNCTIONS
    return is_word or name.startswith(_FAMILIES) or any(p.match(name) for p in (_MACRO, _OTHER, _VECTOR))


@lru_cache(maxsize=1 << 14)
def c_name(name: str) -> str:
    """The identifier of a tensor, parameter, loop or register: a local name, or one of an argument."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    if not plain[:1].isalpha() or _means_something(plain):
        return _PREFIX + plain
    return plain


def entry_name(kernel: str) -> str:
    """The function that a kernel becomes: also no name of the C library, whose place it would take."""
    return _PREFIX + kernel if kernel in C_LIBRARY else c_name(kernel)

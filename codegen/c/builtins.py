"""Instructions that C reaches through functions of the compiler: which there are, and how they are called.

In: the type that an instruction works on. Out: text for the templates of `c/functions.py`: under which
condition the compiler has it, and the call. Most are of gcc alone: clang names some otherwise, and finds
others by itself. What is done without them stands in the templates.
"""

from __future__ import annotations

from spacedsl.codegen.c.types import arithmetic_type
from spacedsl.codegen.tree.expressions import Type
from spacedsl.kernels.dtypes import DType

Instruction = tuple[str, str]
"""What the compiler defines where it has it, and a call of its function, with a place for a word."""

ROOTS: dict[tuple[DType, int], Instruction] = {
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

EXTREMES: dict[tuple[DType, int], Instruction] = {
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

SCALINGS: dict[tuple[DType, int], Instruction] = {
    (DType.F32, 4): ("__AVX512VL__", "__builtin_ia32_scalefps128_mask(x, {x}, x, -1)"),
    (DType.F32, 8): ("__AVX512VL__", "__builtin_ia32_scalefps256_mask(x, {x}, x, -1)"),
    (DType.F64, 2): ("__AVX512VL__", "__builtin_ia32_scalefpd128_mask(x, {x}, x, -1)"),
    (DType.F64, 4): ("__AVX512VL__", "__builtin_ia32_scalefpd256_mask(x, {x}, x, -1)"),
    (DType.F32, 16): ("__AVX512F__", "__builtin_ia32_scalefps512_mask(x, {x}, x, -1, 4)"),
    (DType.F64, 8): ("__AVX512F__", "__builtin_ia32_scalefpd512_mask(x, {x}, x, -1, 4)"),
}
"""A vector times powers of two, with whole exponents."""

ROUNDINGS: dict[tuple[DType, int], Instruction] = {
    (DType.F32, 4): ("__SSE4_1__", "__builtin_ia32_roundps(x, {x})"),
    (DType.F32, 8): ("__AVX__", "__builtin_ia32_roundps256(x, {x})"),
    (DType.F32, 16): ("__AVX512F__", "__builtin_ia32_rndscaleps_mask(x, {x}, x, -1, 4)"),
    (DType.F64, 2): ("__SSE4_1__", "__builtin_ia32_roundpd(x, {x})"),
    (DType.F64, 4): ("__AVX__", "__builtin_ia32_roundpd256(x, {x})"),
    (DType.F64, 8): ("__AVX512F__", "__builtin_ia32_rndscalepd_mask(x, {x}, x, -1, 4)"),
}
"""Numbers without what is behind the point."""

ROUNDING_MODES = {"round": "8", "floor": "9", "ceil": "10", "trunc": "11"}
"""To even, down, up and to zero: what the instructions above call them, without exceptions."""

UNPACKED: dict[int, Instruction] = {
    8: ("__AVX2__", "${{T}}_of_bits(__builtin_ia32_pmovzxwd256({x}) << 16)"),
    16: ("__AVX512F__", "${{T}}_of_bits(__builtin_ia32_pmovzxwd512_mask({x}, ($I){{0}}, -1) << 16)"),
}
"""By lanes: f32 from bf16, which gcc makes of halves of a vector."""

WIDENED: dict[int, Instruction] = {
    1: ("__F16C__", "__builtin_ia32_vcvtph2ps({x})[0]"),
    8: ("__F16C__", "__builtin_ia32_vcvtph2ps256({x})"),
    16: ("__AVX512F__", "__builtin_ia32_vcvtph2ps512_mask({x}, (singles){{0}}, -1, 4)"),
}
"""By lanes: f32 from f16."""

NARROWED: dict[int, Instruction] = {
    1: ("__F16C__", "(uint16_t)__builtin_ia32_vcvtps2ph({x}, 0)[0]"),
    8: ("__F16C__", "(f16x8)__builtin_ia32_vcvtps2ph256({x}, 0)"),
    16: ("__AVX512F__", "(f16x16)__builtin_ia32_vcvtps2ph512_mask({x}, 0, (halves){{0}}, -1)"),
}
"""By lanes: f16 from f32, to the nearest."""


def instruction(known: Instruction | None, word: str) -> str:
    """The condition under which gcc has it, and the statement; one that never holds where it is unknown."""
    if known is None:
        return "0\n"
    feature, call = known
    return f"defined({feature}) && !defined(__clang__)\n  return {call.format(x=word)};"


_LETTERS = {1: "b", 2: "w", 4: "d", 8: "q"}
_ELEMENTS = {1: "char", 2: "short", 4: "int", 8: "long long"}
"""By bytes: what instructions and functions call integers."""

_REGISTER = 16
"""Bytes of the smallest vector that functions take and give."""


def resizing(given: DType, dtype: DType, lanes: int, value: str, n: int) -> tuple[str, str] | None:
    """Integers of another size with one instruction: what gcc defines where it has it, and statements.

    They make `y` of the vector type `step`, with the number n, of `value`.
    """
    source, target = given.nbytes * lanes, dtype.nbytes * lanes
    letters = _LETTERS[given.nbytes] + _LETTERS[dtype.nbytes]
    widest = max(source, target)
    # Of eight bytes from memory, gcc finds no registers for the instruction in large functions.
    if widest not in (16, 32, 64) or (letters == "bq" and widest == 64):
        return None
    if target > source:
        names = {
            16: ("__SSE4_1__", "128"),
            32: ("__AVX2__", "256"),
            64: ("__AVX512BW__" if letters == "bw" else "__AVX512F__", "512_mask"),
        }
        function = f"pmov{'s' if given.is_signed else 'z'}x{letters}"
    else:
        feature = "__AVX512BW__" if letters == "wb" else "__AVX512F__"
        shorter = f"{feature}) && defined(__AVX512VL__"
        names = {16: (shorter, "128_mask"), 32: (shorter, "256_mask"), 64: (feature, "512_mask")}
        function = f"pmov{letters}"
    feature, width = names[widest]
    types = _vector(f"taken{n}", given, max(source, _REGISTER))
    others = ""
    if width.endswith("mask"):
        types += _vector(f"others{n}", dtype, max(target, _REGISTER))
        others = f", (others{n}){{0}}, -1"
    call = f"__builtin_ia32_{function}{width}((taken{n}){_filled(value, source)}{others})"
    return feature, f"{types}  step{n} y{n} = (step{n}){_first(call, target)};\n"


def _vector(name: str, dtype: DType, nbytes: int) -> str:
    return f"  typedef {_ELEMENTS[dtype.nbytes]} {name} __attribute__((vector_size({nbytes})));\n"


def _filled(value: str, nbytes: int) -> str:
    """At the beginning of a whole vector, where it is less."""
    if nbytes >= _REGISTER:
        return value
    part = f"int{8 * nbytes}_t"
    return f"({part} __attribute__((vector_size({_REGISTER})))){{({part}){value}}}"


def _first(call: str, nbytes: int) -> str:
    """The lanes that are wanted of a whole vector."""
    if nbytes >= _REGISTER:
        return call
    part = f"int{8 * nbytes}_t"
    return f"((({part} __attribute__((vector_size({_REGISTER})))){call})[0])"


_LIBRARY = {"round": "rint", "abs": "fabs", "elementwise_round": "elementwise_rint"}
"""Functions that the C library calls otherwise than a pipeline."""


def library_name(function: str, dtype: DType) -> str:
    """Of a function of the C library, as the compiler knows it without a header."""
    return f"__builtin_{_LIBRARY.get(function, function)}{'f' if dtype is DType.F32 else ''}"


_STREAMS = {
    16: ("__SSE__", "__builtin_ia32_movntps"),
    32: ("__AVX__", "__builtin_ia32_movntps256"),
    64: ("__AVX512F__", "__builtin_ia32_movntps512"),
}
"""By bytes of a vector: what gcc defines where it has the instruction, and its function."""


def stream(nbytes: int) -> str:
    """The lines of a store around the caches, of so many bytes, behind those for clang."""
    if nbytes not in _STREAMS:
        return ""
    feature, function = _STREAMS[nbytes]
    floats = f"typedef float floats __attribute__((vector_size({nbytes})));"
    return f"#elif defined({feature})\n  {floats}\n  {function}((float *)to, (floats)x);\n"


def masked(kind: Type, access: str) -> str:
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


_GATHERS = {
    ("__AVX512F__", 4, 16): "__builtin_ia32_gathersiv16si((units){{0}}, {array}, {at}, (short)-1, {scale})",
    ("__AVX512F__", 8, 8): "__builtin_ia32_gathersiv8di((units){{0}}, {array}, {at}, (char)-1, {scale})",
    ("__AVX2__", 4, 8): "__builtin_ia32_gathersiv8si((units){{0}}, {array}, {at}, ~(units){{0}}, {scale})",
    ("__AVX2__", 8, 4): "__builtin_ia32_gathersiv4di((units){{0}}, {array}, {at}, ~(units){{0}}, {scale})",
    ("__AVX2__", 4, 4): "__builtin_ia32_gathersiv4si((units){{0}}, {array}, {at}, ~(units){{0}}, {scale})",
}
"""What gcc defines where it has them, bytes of a unit, and how many of them are read by one instruction."""


def gathered(kind: Type) -> str:
    """The statements that return elements of an `array` of so many, `at` places that each lane has."""
    lanes, size = kind.lanes, kind.dtype.nbytes
    text = ""
    for (feature, unit, each), call in _GATHERS.items():
        if unit == max(4, size) and lanes % each == 0:
            text += f"#elif defined({feature}) && __GNUC__ >= 12 && !defined(__clang__)\n"
            text += _gathered_by(kind, unit, each, call)
    if text:
        text = f"#if {_SLOW_GATHERS}\n{_gathered_singly(kind)}{text}"
    apart = ", ".join(f"((const {arithmetic_type(kind.dtype)} *)array)[each[{n}]]" for n in range(lanes))
    alone = f"""  uint32_t each[{lanes}];
  *({Type(DType.I32, lanes)}_unaligned *)each = at;
  __asm__("" : "+m"(each)); /* loads of single lanes take less than taking a vector apart */
  return ({kind}){{{apart}}};
"""
    return f"{text}#else\n{alone}#endif\n" if text else alone


_SLOW_GATHERS = " || ".join(f"defined(__znver{generation}__)" for generation in range(1, 6))
"""Where loads of single lanes take less."""


def _gathered_singly(kind: Type) -> str:
    """Narrow lanes are put into a register one by one, wide ones by two and two."""
    array = f"((const {arithmetic_type(kind.dtype)} *)array)"
    if kind.dtype.nbytes >= 4:
        return (
            f"  return ({kind}){{{', '.join(f'{array}[(uint32_t)at[{n}]]' for n in range(kind.lanes))}}};\n"
        )
    lines = [f"{kind} found = {{0}};"]
    lines += [f"found[{n}] = {array}[(uint32_t)at[{n}]];" for n in range(kind.lanes)]
    return "".join(f"  {line}\n" for line in [*lines, "return found;"])


def _gathered_by(kind: Type, unit: int, each: int, call: str) -> str:
    lanes, size = kind.lanes, kind.dtype.nbytes
    element = _ELEMENTS[unit]
    lines = [
        f"typedef int numbers __attribute__((vector_size({4 * each})));",
        f"typedef {element} units __attribute__((vector_size({unit * each})));",
        f"typedef {_ELEMENTS[size]} parts __attribute__((vector_size({size * each})));",
    ]
    parts = []
    for n in range(lanes // each):
        order = ", ".join(str(lane) for lane in range(n * each, (n + 1) * each))
        at = "at" if lanes == each else f"__builtin_shufflevector(at, at, {order})"
        lines.append(f"numbers at{n} = (numbers){at};")
        found = call.format(array=f"(const {element} *)array", at=f"at{n}", scale=size)
        if size < unit:
            last = f"extent - {unit // size}"
            lines.append(f"numbers behind{n} = at{n} > {last};")
            lines.append(f"numbers from{n} = (at{n} & ~behind{n}) | (({last}) & behind{n});")
            found = call.format(array=f"(const {element} *)array", at=f"from{n}", scale=size)
            found = f"__builtin_convertvector({found} >> (at{n} - from{n}) * {8 * size}, parts)"
        lines.append(f"parts part{n} = (parts){found};")
        parts.append(f"part{n}")
    while len(parts) > 1:
        each *= 2
        numbers = ", ".join(map(str, range(each)))
        parts = [
            f"__builtin_shufflevector({a}, {b}, {numbers})"
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return "".join(f"  {line}\n" for line in [*lines, f"return ({kind}){parts[0]};"])

"""The functions by which a warp loads and multiplies small matrices, in CUDA C++.

In: the products of a program. Out: the text of the functions that they call: an instruction of tensor cores,
and its twin on a CPU (`twin.h`). What the threads hold of a matrix is said in `fragments.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spacedsl.codegen.cuda.functions import INLINE
from spacedsl.codegen.program import Multiply
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.fragments import ROW_BYTES

MATRICES = f"""\
#ifndef CUDA_TWIN
template <int is_transposed> {INLINE} uint32_t load_matrix(const void *row) {{
  uint32_t bits;
  unsigned place = (unsigned)__cvta_generic_to_shared(row);
  if (is_transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {{%0}}, [%1];"
                 : "=r"(bits) : "r"(place) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%0}}, [%1];"
                 : "=r"(bits) : "r"(place) : "memory");
  return bits;
}}
#endif"""
"""Of `LoadMatrix`."""

_OPERANDS = {DType.BF16: "bf16", DType.F16: "f16", DType.F32: "tf32"}

_RESULTS = 4
"""Of an instruction, in a thread: of 16 rows."""


def product_name(product: Multiply) -> str:
    """Of the function that a product calls: what is multiplied, rows, columns and terms."""
    rows = len(product.result) * 4
    return f"multiply_{_OPERANDS[product.dtype]}_{rows}x8x{_terms(product)}"


def _terms(product: Multiply) -> int:
    return len(product.b) * ROW_BYTES // product.dtype.nbytes


def products(needed: Iterable[Multiply]) -> list[str]:
    """The functions of products, each once."""
    return list({product_name(product): _function(product) for product in needed}.values())


def _function(product: Multiply) -> str:
    """Where there are 8 rows, the instruction multiplies others of nothing, which nobody reads."""
    kind = _OPERANDS[product.dtype]
    c, a, b = _numbered("c", product.result), _numbered("a", product.a), _numbered("b", product.b)
    parameters = [*(f"float &{name}" for name in c), *(f"uint32_t {name}" for name in (*a, *b))]
    unused = _numbered("c", range(_RESULTS))[len(c) :]
    rows = [name for each in a for name in ((each, "0") if unused else (each,))]
    outputs = ", ".join(f'"+f"({name})' for name in (*c, *unused))
    inputs = ", ".join(f'"r"({name})' for name in (*rows, *b))
    first, last = _RESULTS, _RESULTS + len(rows)
    result, left, right = _operands(0, first), _operands(first, last), _operands(last, last + len(b))
    return f"""\
{INLINE} void {product_name(product)}({", ".join(parameters)}) {{
#ifdef CUDA_TWIN
  float *const c[] = {{{", ".join(f"&{name}" for name in c)}}};
  const uint32_t a[] = {{{", ".join(a)}}}, b[] = {{{", ".join(b)}}};
  twin_multiply<twin_{kind}, {len(c) // 2}, {len(b)}>(c, a, b);
#else
{"".join(f"  float {name} = 0;{chr(10)}" for name in unused)}\
  asm("mma.sync.aligned.m16n8k{_terms(product)}.row.col.f32.{kind}.{kind}.f32 "
      "{result}, {left}, {right}, {result};"
      : {outputs} : {inputs});
#endif
}}"""


def _numbered(letter: str, each: Sequence[object]) -> list[str]:
    return [f"{letter}{number}" for number in range(len(each))]


def _operands(first: int, last: int) -> str:
    """Of an instruction: arguments of the `asm` by number."""
    return "{" + ", ".join(f"%{number}" for number in range(first, last)) + "}"

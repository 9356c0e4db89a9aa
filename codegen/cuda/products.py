"""The functions by which a warp loads and multiplies small matrices, in CUDA C++.

In: the products of a program. Out: the text of the functions that they call: an instruction of tensor cores,
and its twin on a CPU (`twin.h`). What the threads hold of a matrix is said in `fragments.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from spacedsl.codegen.c.expressions import distance
from spacedsl.codegen.cuda.functions import INLINE
from spacedsl.codegen.tree.expressions import LoadMatrix, Register
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import Assign, Multiply, Statement
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.fragments import FRAGMENT_ROWS, ROW_BYTES

MOST_MATRICES = 4
"""That one instruction loads."""


def _load_matrices(count: int) -> str:
    bits = [f"bits{number}" for number in range(count)]
    results = ", ".join(f'"=r"({name})' for name in bits)
    which = f"ldmatrix.sync.aligned.m8n8.x{count}"
    loads = "\n".join(
        f"""\
  {head}
    asm volatile("{which}{transposed}.shared.b16 {_operands(0, count)}, [%{count}];"
                 : {results} : "r"(place) : "memory");"""
        for head, transposed in (("if (is_transposed)", ".trans"), ("else", ""))
    )
    parameters = ", ".join(f"uint32_t &{name}" for name in bits)
    return f"""\
template <int is_transposed> {INLINE} void load_matrices(const void *row, {parameters}) {{
  unsigned place = (unsigned)__cvta_generic_to_shared(row);
{loads}
}}"""


def matrices() -> str:
    """The functions of `LoadMatrix`: for 1, 2 or 4 of them. In the twin of a program, there are others."""
    return "\n".join(["#ifndef CUDA_TWIN", *map(_load_matrices, (1, 2, MOST_MATRICES)), "#endif"])


@dataclass(frozen=True, slots=True)
class Together:
    """Matrices that one instruction loads: where rows of the first one begin, and how far it is to others."""

    first: LoadMatrix
    registers: tuple[Register, ...]
    distances: tuple[int, ...]
    """From one to the next; where there are four, from the first two to the others as well."""

    @property
    def row(self) -> str:
        """Where the row begins that a thread says: eight threads for each matrix."""
        ahead = (
            f"threadIdx.x / {FRAGMENT_ROWS << bit} % 2 * {count}" for bit, count in enumerate(self.distances)
        )
        return " + ".join([distance(self.first.index), *ahead])


def loaded_together(body: Sequence[Statement]) -> Iterator[Statement | Together]:
    """A block in which matrices that are loaded one after the other are loaded 1, 2 or 4 at a time.

    Registers of an operand of a product come from one instruction, since they have to be neighbours.
    """
    for is_matrix, run in groupby(body, lambda s: isinstance(s, Assign) and isinstance(s.value, LoadMatrix)):
        if not is_matrix:
            yield from run
            continue
        loads = dict(_loads(run))
        wanted = [o for s in statements(body) if isinstance(s, Multiply) for o in (s.a, s.b)]
        operands = [o for o in dict.fromkeys(wanted) if all(register in loads for register in o)]
        taken = set().union(*operands)
        rest = [(register,) for register in loads if register not in taken]
        yield from _instructions([*operands, *rest], loads)


def _loads(run: Iterable[Statement]) -> Iterator[tuple[Register, LoadMatrix]]:
    """None of them loads into the register of another one."""
    for statement in run:
        assert isinstance(statement, Assign) and isinstance(statement.value, LoadMatrix)
        yield statement.register, statement.value


def _instructions(
    groups: Sequence[tuple[Register, ...]], loads: Mapping[Register, LoadMatrix]
) -> Iterator[Together]:
    """For registers that are to be neighbours: as many groups at a time as an instruction takes."""
    left = list(groups)
    while left:
        for count in (4, 2, 1):
            registers = tuple(register for group in left[:count] for register in group)
            made = _together(registers, loads) if count <= len(left) else None
            if made is not None:
                yield made
                del left[:count]
                break
        else:
            left[:1] = [(register,) for register in left[0]]


def _together(registers: tuple[Register, ...], loads: Mapping[Register, LoadMatrix]) -> Together | None:
    """Where one instruction loads them."""
    first = loads[registers[0]]
    at = [loads[register].index.constant - first.index.constant for register in registers]
    alike = (replace(first, index=replace(first.index, constant=first.index.constant + n)) for n in at)
    if any(loads[register] != other for register, other in zip(registers, alike, strict=True)):
        return None
    match at:
        case [_]:
            return Together(first, registers, ())
        case [_, one]:
            return Together(first, registers, (one,))
        case [_, one, two, both] if both == one + two:
            return Together(first, registers, (one, two))
    return None


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

"""The CUDA printer: a verified program of grids becomes one self-contained file of CUDA C++.

In: a verified `Program` whose body are grids. Out: text; equal programs give equal text. Each grid is a
`__global__` function, in which a coordinate is a variable that is found from the number of the block or of
the thread. A host function with the interface of the C printer launches them one after the other, on arrays
of the device; NVRTC does not see it. The same text is C++ behind `twin.h`, which runs it on a CPU. Nothing is
compiled here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spacedsl.codegen.c_interface import banner, pointer, prototype
from spacedsl.codegen.cuda.expressions import called, cuda_type, element, moved, place, print_expression
from spacedsl.codegen.cuda.functions import COPIES, functions
from spacedsl.codegen.cuda.products import MATRICES, product_name, products
from spacedsl.codegen.names import c_name
from spacedsl.codegen.parts import expressions, index_bits, loaded, statements, stored, used_parameters
from spacedsl.codegen.program import (
    Assign,
    AtomicAdd,
    Barrier,
    Branch,
    CommitCopies,
    Coordinate,
    CopyAhead,
    Expression,
    Grid,
    Index,
    Lane,
    LoadMatrix,
    Loop,
    Multiply,
    PartialStore,
    Program,
    Register,
    Span,
    Statement,
    Store,
    Type,
    WaitForCopies,
    Where,
    type_of,
)
from spacedsl.kernels.tensors import Tensor

_TYPES = """\
#ifdef __CUDACC_RTC__
typedef int int32_t;
typedef unsigned int uint32_t;
typedef unsigned short uint16_t;
#else
#include <stdint.h>
#endif"""

STATIC_SHARED_BYTES = 48 << 10
"""More has to be asked for."""


def print_cuda(program: Program) -> str:
    """The file's text."""
    grids = [s for s in program.body if isinstance(s, Grid)]
    needed = dict.fromkeys(f for e in expressions(program.body) if (f := called(e)) is not None)
    parts = [
        banner(program.name, program.tensors, program.parameters, has_threads=False, is_for_gpu=True),
        _TYPES,
    ]
    parts += functions(needed)
    if any(isinstance(s, CopyAhead) for s in statements(program.body)):
        parts.append(COPIES)
    if any(isinstance(e, LoadMatrix) for e in expressions(program.body)):
        parts.append(MATRICES)
    parts += products(s for s in statements(program.body) if isinstance(s, Multiply))
    parts += [_kernel(program, grid) for grid in grids]
    parts.append("#ifndef __CUDACC_RTC__\n" + _host(program, grids) + "\n#endif")
    return "\n\n".join(parts) + "\n"


# ---- Kernels -------------------------------------------------------------------------------------------


def _kernel(program: Program, grid: Grid) -> str:
    arguments = ", ".join(_parameters(program, grid))
    head = f'extern "C" __global__ void __launch_bounds__({grid.threads}) {c_name(grid.name)}({arguments}) {{'
    lines = [_shared(grid)] if grid.shared else []
    index = _index_type(program)
    lines += [f"  const {index} {c_name(c.variable)} = {_number(c, grid)};" for c in grid.coordinates]
    return "\n".join([head, *lines, *_block(grid.body, {}, 1, index), "}"])


def _index_type(program: Program) -> str:
    """Of coordinates and loops: wide enough for any element."""
    return "int" if index_bits(program) == 32 else "long long"


def _parameters(program: Program, grid: Grid) -> Iterator[str]:
    """The declarations of what a kernel is passed: what it uses."""
    for tensor in _used(program, grid):
        yield pointer(tensor).replace("*restrict ", "*__restrict__ ")
    names = used_parameters(grid.body)
    yield from (f"{p.dtype.c_name} {c_name(p.name)}" for p in program.parameters if p.name in names)


def arguments(program: Program, grid: Grid) -> list[str]:
    """The names of the arrays and parameters that a kernel is passed, in order."""
    names = used_parameters(grid.body)
    parameters = (p.name for p in program.parameters if p.name in names)
    return [*(t.name for t in _used(program, grid)), *parameters]


def _used(program: Program, grid: Grid) -> list[Tensor]:
    """Arrays of the device that a grid accesses."""
    names = loaded(grid.body) | stored(grid.body)
    return [t for t in (*program.tensors, *(s.tensor for s in program.scratch)) if t.name in names]


def _shared(grid: Grid) -> str:
    """The arrays of a block, one behind the other in the memory that it is launched with."""
    lines = ["  extern __shared__ float4 shared_memory[];"]
    offset = 0
    for tensor in grid.shared:
        at = f"(shared_memory + {offset // 16})" if offset else "shared_memory"
        dtype = tensor.dtype.c_name
        lines.append(f"  {dtype} *const {c_name(tensor.name)} = ({dtype} *){at};  // {tensor.elements}")
        offset += _padded(tensor)
    return "\n".join(lines)


def _padded(tensor: Tensor) -> int:
    """Bytes from one array to the next: arrays begin where vectors may."""
    return -(-tensor.nbytes // 16) * 16


def shared_bytes(grid: Grid) -> int:
    return sum(map(_padded, grid.shared))


def _number(coordinate: Coordinate, grid: Grid) -> str:
    text = "blockIdx.x" if coordinate.is_block else "threadIdx.x"
    count = grid.blocks if coordinate.is_block else grid.threads
    if coordinate.extent == 1:
        return "0"
    if coordinate.stride > 1:
        text += f" / {coordinate.stride}"
    if coordinate.stride * coordinate.extent < count:
        text += f" % {coordinate.extent}"
    return text


def _block(body: Sequence[Statement], visible: dict[str, Type], depth: int, index: str) -> list[str]:
    """The lines of a block; `visible` are the registers declared around it and, by and by, in it."""
    lines: list[str] = []
    margin = "  " * depth
    for statement in body:
        match statement:
            case Assign(register, value):
                declare = "" if register.name in visible else f"{cuda_type(register.type)} "
                visible[register.name] = register.type
                lines.append(f"{margin}{declare}{c_name(register.name)} = {print_expression(value)};")
            case Store(tensor, at, value, is_streamed):
                lines.append(margin + _store(tensor, at, value, is_streamed=is_streamed))
            case PartialStore(tensor, at, value, count):
                lines += [f"{margin}{line}" for line in _partial_store(tensor, at, value, count)]
            case AtomicAdd(tensor, at, value):
                lines.append(
                    f"{margin}atomicAdd({place(tensor, at, type_of(value))}, {print_expression(value)});"
                )
            case Barrier():
                lines.append(f"{margin}__syncthreads();")
            case CopyAhead(tensor, at, source):
                scalar, nbytes = Type(source.type.dtype), source.type.lanes * source.type.dtype.nbytes
                there, here = element(source.tensor, source.index, scalar), element(tensor, at, scalar)
                lines.append(f"{margin}copy_ahead<{nbytes}>(&{here}, &{there});")
            case CommitCopies():
                lines.append(f"{margin}commit_copies();")
            case WaitForCopies(groups):
                lines.append(f"{margin}wait_for_copies<{groups}>();")
            case Multiply(result, a, b):
                values = ", ".join(c_name(register.name) for register in (*result, *a, *b))
                lines.append(f"{margin}{product_name(statement)}({values});")
            case Where(spans, inner):
                for register in _assigned(inner):
                    if register.name not in visible:
                        lines.append(f"{margin}{cuda_type(register.type)} {c_name(register.name)}{{}};")
                        visible[register.name] = register.type
                lines.append(f"{margin}if ({' && '.join(map(_condition, spans))}) {{")
                lines += _block(inner, dict(visible), depth + 1, index)
                lines.append(f"{margin}}}")
            case Branch(variable, limit, inner, otherwise):
                lines.append(f"{margin}if ({c_name(variable)} < {limit}) {{")
                lines += _block(inner, dict(visible), depth + 1, index)
                if otherwise:
                    lines.append(f"{margin}}} else {{")
                    lines += _block(otherwise, dict(visible), depth + 1, index)
                lines.append(f"{margin}}}")
            case Loop(variable, extent, inner):
                v = c_name(variable)
                lines.append(f"{margin}for ({index} {v} = 0; {v} < {extent}; ++{v}) {{")
                lines += _block(inner, dict(visible), depth + 1, index)
                lines.append(f"{margin}}}")
            case _:
                raise AssertionError(statement)
    return lines


def _assigned(body: Sequence[Statement]) -> Iterator[Register]:
    """What some threads assign, for the block around."""
    for statement in body:
        match statement:
            case Assign(register, _):
                yield register
            case Where(_, inner):
                yield from _assigned(inner)


def _condition(span: Span) -> str:
    low, high, period = span
    number = f"threadIdx.x % {period}"
    if low and high < period:
        return (
            f"{number} / {high - low} == {low // (high - low)}"
            if low % (high - low) == 0
            else (f"{number} >= {low} && {number} < {high}")
        )
    return f"{number} < {high}" if not low else f"{number} >= {low}"


def _store(tensor: str, index: Index, value: Expression, *, is_streamed: bool) -> str:
    kind, text = type_of(value), print_expression(value)
    if is_streamed:
        return f"__stcs({place(tensor, index, kind)}, {text});"
    return f"{element(tensor, index, kind)} = {text};"


def _partial_store(tensor: str, index: Index, value: Expression, count: int) -> Iterator[str]:
    """The first lanes of a vector, one by one."""
    for number in range(count):
        lane, place = Lane(value, number), moved(index, number)
        yield f"{element(tensor, place, type_of(lane))} = {print_expression(lane)};"


# ---- The host ------------------------------------------------------------------------------------------


def _host(program: Program, grids: Sequence[Grid]) -> str:
    lines = [
        f'extern "C" {prototype(program.name, program.tensors, program.parameters)} {{'.replace(
            "restrict ", "__restrict__ "
        )
    ]
    for scratch in program.scratch:
        tensor = scratch.tensor
        dtype, name = tensor.dtype.c_name, c_name(tensor.name)
        lines.append(f"  static {dtype} *{name};")
        lines.append(f"  if (!{name}) {{")
        lines.append(f"    check(cudaMalloc((void **)&{name}, {tensor.nbytes}));")
        if scratch.is_zeroed:
            lines.append(f"    check(cudaMemset({name}, 0, {tensor.nbytes}));")
        lines.append("  }")
    for grid in grids:
        names = map(c_name, arguments(program, grid))
        nbytes = shared_bytes(grid)
        if nbytes > STATIC_SHARED_BYTES:
            attribute = "cudaFuncAttributeMaxDynamicSharedMemorySize"
            lines.append(f"  check(cudaFuncSetAttribute({c_name(grid.name)}, {attribute}, {nbytes}));")
        lines.append(
            f"  LAUNCH({c_name(grid.name)}, {grid.blocks}, {grid.threads}, {nbytes}, {', '.join(names)});"
        )
    lines.append("  check(cudaGetLastError());")
    return "\n".join([_LAUNCH, *lines, "}"])


_LAUNCH = """\
#ifndef LAUNCH
#include <stdio.h>
#include <stdlib.h>
#define LAUNCH(kernel, blocks, threads, shared, ...) kernel<<<blocks, threads, shared>>>(__VA_ARGS__)
#endif

static void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\\n", cudaGetErrorString(error));
  abort();
}
"""

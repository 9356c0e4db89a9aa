"""The CUDA printer: a verified program of grids becomes one self-contained file of CUDA C++.

In: a verified `Program` whose body are grids. Out: text; equal programs give equal text. Each grid is a
`__global__` function, in which a coordinate is a variable that is found from the number of the block or of
the thread. A host function with the interface of the C printer launches them one after the other, on arrays
of the device; NVRTC does not see it. The same text is C++ behind `twin.h`, which runs it on a CPU. Nothing is
compiled here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spacedsl.codegen.c.interface import banner, pointer, prototype
from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.c.positions import print_position
from spacedsl.codegen.cuda.expressions import called, cuda_type, element, moved, place, print_expression
from spacedsl.codegen.cuda.functions import COPIES, combinations, combining, functions
from spacedsl.codegen.cuda.positions import index_type, position_functions
from spacedsl.codegen.cuda.products import Together, loaded_together, matrices, product_name, products
from spacedsl.codegen.tree.expressions import (
    Apply,
    Expression,
    Index,
    Lane,
    Load,
    LoadMatrix,
    PartialLoad,
    Register,
    Type,
    type_of,
)
from spacedsl.codegen.tree.parts import (
    blocks,
    expressions,
    loaded,
    own_expressions,
    statements,
    stored,
    used_parameters,
)
from spacedsl.codegen.tree.program import (
    Assign,
    AtomicCombine,
    Barrier,
    Branch,
    CommitCopies,
    Coordinate,
    CopyAhead,
    Grid,
    Let,
    Loop,
    Multiply,
    PartialStore,
    PerThread,
    Program,
    Span,
    Statement,
    Store,
    Sweep,
    Take,
    WaitForCopies,
    When,
    Where,
)
from spacedsl.kernels.tensors import Tensor

_TYPES = """\
#ifdef __CUDACC_RTC__
typedef int int32_t;
typedef unsigned int uint32_t;
typedef unsigned short uint16_t;{others}
#else
#include <stdint.h>
#endif"""

_OTHER_TYPES = """
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define UINT64_C(number) number##ull"""
"""Those of pipelines alone."""

UNROLLED, CALLED = 1100, 16
"""Statements, at most, of a loop that the compiler is told to unroll: it then loads ahead of computing.

A call of a function counts as so many, which is what it takes the compiler.
"""

LOADED_AHEAD = 128
"""Words of registers, at most, that iterations of an unrolled loop load from memory of the device: the
compiler loads all of them before it computes, and beyond that has to put registers into memory.
"""

STATIC_SHARED_BYTES = 48 << 10
"""More has to be asked for."""


def print_cuda(program: Program) -> str:
    """The file's text."""
    grids = [s for s in program.body if isinstance(s, Grid)]
    kinds = {type(s) for s in statements(program.body)}
    met = {type(e) for e in expressions(program.body)}
    needed = dict.fromkeys(f for e in expressions(program.body) if (f := called(e)) is not None)
    parts = [
        banner(program.name, program.tensors, program.parameters, has_threads=False, is_for_gpu=True),
        _TYPES.format(others=_OTHER_TYPES if PerThread in kinds else ""),
    ]
    parts += functions(needed)
    parts += combinations(program.body)
    index = index_type(program)
    if called_positions := position_functions(program.body, index):
        parts.append(called_positions)
    if CopyAhead in kinds:
        parts.append(COPIES)
    if LoadMatrix in met:
        parts.append(matrices())
    if Multiply in kinds:
        parts += products(s for s in statements(program.body) if isinstance(s, Multiply))
    parts += [_kernel(program, grid, index) for grid in grids]
    parts.append("#ifndef __CUDACC_RTC__\n" + _host(program, grids) + "\n#endif")
    return "\n\n".join(parts) + "\n"


# ---- Kernels -------------------------------------------------------------------------------------------


def _kernel(program: Program, grid: Grid, index: str) -> str:
    arguments = ", ".join(_parameters(program, grid))
    head = f'extern "C" __global__ void __launch_bounds__({grid.threads}) {c_name(grid.name)}({arguments}) {{'
    lines = [_shared(grid)] if grid.shared else []
    lines += [f"  {t.dtype.c_name} {c_name(t.name)}[{t.span}];" for t in grid.private]
    lines += _coordinates([c for c in grid.coordinates if c.is_block], grid.blocks, index, 1)
    lines += _coordinates([c for c in grid.coordinates if not c.is_block], grid.threads, index, 1)
    near = frozenset(t.name for t in grid.shared)
    return "\n".join([head, *lines, *_block(grid.body, {}, 1, _Setting(index, near, grid.threads)), "}"])


def _coordinates(coordinates: Sequence[Coordinate], count: int, index: str, depth: int) -> list[str]:
    """`count`: of what they count."""
    return [f"{'  ' * depth}const {index} {c_name(c.variable)} = {_number(c, count)};" for c in coordinates]


def _parameters(program: Program, grid: Grid) -> Iterator[str]:
    """The declarations of what a kernel is passed: what it uses.

    Of what is stored and loaded, nothing is promised: a compiler may load what nobody else changes before the
    barrier behind which others have stored it.
    """
    changing = loaded(grid.body) & stored(grid.body)
    for tensor in _used(program, grid):
        promise = "" if tensor.name in changing else "__restrict__ "
        yield pointer(tensor).replace("*restrict ", f"*{promise}")
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


def _number(coordinate: Coordinate, count: int) -> str:
    text = "blockIdx.x" if coordinate.is_block else "threadIdx.x"
    if coordinate.extent == 1:
        return "0"
    if coordinate.stride > 1:
        text += f" / {coordinate.stride}"
    if coordinate.stride * coordinate.extent < count:
        text += f" % {coordinate.extent}"
    return text


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the lines of a kernel are printed in."""

    index: str
    """The type of positions."""
    near: frozenset[str]
    """Arrays that a block shares."""
    threads: int
    """Of a block."""


def _block(body: Sequence[Statement], visible: dict[str, Type], depth: int, setting: _Setting) -> list[str]:
    """The lines of a block; `visible` are the registers declared around it and, by and by, in it."""
    lines: list[str] = []
    margin = "  " * depth
    for statement in loaded_together(body):
        match statement:
            case Together(first, registers):
                new = [register for register in registers if register.name not in visible]
                lines += [f"{margin}{cuda_type(r.type)} {c_name(r.name)};" for r in new]
                visible |= {register.name: register.type for register in new}
                names = ", ".join(c_name(register.name) for register in registers)
                row = f"&{c_name(first.tensor)}[{statement.row}]"
                lines.append(f"{margin}load_matrices<{int(first.is_transposed)}>({row}, {names});")
            case Assign(register, value):
                declare = "" if register.name in visible else f"{cuda_type(register.type)} "
                visible[register.name] = register.type
                lines.append(f"{margin}{declare}{c_name(register.name)} = {print_expression(value)};")
            case Store(tensor, at, value, is_streamed):
                lines.append(margin + _store(tensor, at, value, is_streamed=is_streamed))
            case PartialStore(tensor, at, value, count):
                lines += [f"{margin}{line}" for line in _partial_store(tensor, at, value, count)]
            case AtomicCombine(tensor, at, value, combine):
                operands = f"{place(tensor, at, type_of(value))}, {print_expression(value)}"
                lines.append(f"{margin}{combining(combine, type_of(value))}({operands});")
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
            case Let() | Take():
                lines.append(f"{margin}{_declared(statement, setting.index)}")
            case _:
                if isinstance(statement, Where):
                    for register in _assigned(statement.body):
                        if register.name not in visible:
                            lines.append(f"{margin}{cuda_type(register.type)} {c_name(register.name)}{{}};")
                            visible[register.name] = register.type
                for head, begin, inner in _inside(statement, depth + 1, setting):
                    lines += [f"{margin}{head} {{" if head else f"{margin}{{", *begin]
                    lines += _block(inner, dict(visible), depth + 1, setting)
                lines.append(f"{margin}}}")
    return lines


def _inside(
    statement: Statement, depth: int, setting: _Setting
) -> Iterator[tuple[str, list[str], tuple[Statement, ...]]]:
    """The blocks of a statement: when each is done, if not always, and the lines that it begins with."""
    match statement:
        case Where(spans, body):
            holds = " && ".join(_condition(span, setting.threads) for span in spans)
            yield f"if ({holds})", [], body
        case PerThread(coordinates, body):
            first = _coordinates(coordinates, statement.threads, setting.index, depth)
            span = (0, statement.threads, setting.threads)
            is_whole = statement.threads == setting.threads
            yield "" if is_whole else f"if ({_condition(span, setting.threads)})", first, body
        case Loop(variable, extent, body, first):
            v = c_name(variable)
            told = _unrolled(statement, setting.near, "  " * (depth - 1))
            yield f"{told}for ({setting.index} {v} = {first}; {v} < {extent}; ++{v})", [], body
        case Sweep():
            yield _turns(statement, setting.index), [], statement.body
        case Branch(variable, limit, body, otherwise):
            yield f"if ({c_name(variable)} < {limit})", [], body
            if otherwise:
                yield "} else", [], otherwise
        case When(least, body, otherwise):
            holds = " && ".join(f"{print_position(position)} >= 0" for position in least)
            yield f"if ({holds})", [], body
            if otherwise:
                yield "} else", [], otherwise
        case _:
            raise AssertionError(statement)


def _unrolled(loop: Loop, near: frozenset[str], margin: str) -> str:
    """What the compiler is told of a loop, in a line before it."""
    if _executed(loop) > UNROLLED:
        return ""
    each = sum(_loaded_words(statement, near) for statement in loop.body)
    if each * loop.extent <= LOADED_AHEAD:
        return f"#pragma unroll\n{margin}"
    times = max(1, LOADED_AHEAD // each)
    return f"#pragma unroll {1 << times.bit_length() - 1}\n{margin}"


def _loaded_words(statement: Statement, near: frozenset[str]) -> int:
    """Of registers, for what comes from memory of the device, each as often as loops repeat it."""
    if isinstance(statement, CopyAhead):
        return 0
    if inside := blocks(statement):
        times = statement.extent if isinstance(statement, Loop) else 1
        return times * sum(_loaded_words(each, near) for block in inside for each in block)
    loads = (e for e in own_expressions(statement) if isinstance(e, Load | PartialLoad))
    return sum(e.type.words for e in loads if e.tensor not in near)


def _executed(statement: Statement) -> int:
    """Statements, each as often as loops repeat it."""
    inside = blocks(statement)
    if not inside:
        return 1 + CALLED * sum(isinstance(e, Apply) for e in expressions((statement,)))
    times = statement.extent if isinstance(statement, Loop) else 1
    return times * sum(_executed(each) for block in inside for each in block)


def _declared(statement: Let | Take, index: str) -> str:
    v = c_name(statement.variable)
    if isinstance(statement, Let):
        return f"const {index} {v} = {print_position(statement.position)};"
    given = type_of(statement.value).dtype.c_name
    held = f"({given})({print_expression(statement.value)}), {statement.low}, {statement.high}"
    return f"const {index} {v} = position_held({held});"


def _turns(sweep: Sweep, index: str) -> str:
    """A loop; one that has at most one iteration is a condition."""
    v, begin = c_name(sweep.variable), print_position(sweep.first)
    if sweep.limit is not None:
        return f"if (const {index} {v} = {begin}; {v} <= {print_position(sweep.limit)})"
    turn = f"++{v}" if sweep.step == 1 else f"{v} += {sweep.step}"
    return f"for ({index} {v} = {begin}; {v} <= {print_position(sweep.last)}; {turn})"


def _assigned(body: Sequence[Statement]) -> Iterator[Register]:
    """What some threads assign, for the block around."""
    for statement in body:
        match statement:
            case Assign(register, _):
                yield register
            case Where(_, inner):
                yield from _assigned(inner)


def _condition(span: Span, threads: int) -> str:
    """Whether a thread is one of these. Of a block that is no longer than their period, its number is."""
    low, high, period = span
    number = "threadIdx.x" if threads <= period else f"threadIdx.x % {period}"
    if high - low == 1:
        return f"{number} == {low}"
    if not low or high >= min(period, threads):
        return f"{number} >= {low}" if low else f"{number} < {high}"
    if low % (high - low) == 0:
        return f"{number} / {high - low} == {low // (high - low)}"
    return f"{number} >= {low} && {number} < {high}"


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
    """Everything is put in the caller's stream, memory between kernels as well: calls share nothing.

    What fails first is returned, and nothing is begun behind it.
    """
    head = prototype(program.name, program.tensors, program.parameters, is_for_gpu=True)
    lines = [
        f'extern "C" {head.replace("restrict ", "__restrict__ ")} {{',
        "  cudaError_t error = cudaGetLastError();  // of what was done before: nothing is done beside it",
    ]
    scratch = [(c_name(s.tensor.name), s) for s in program.scratch]
    lines += [f"  {s.tensor.dtype.c_name} *{name} = nullptr;" for name, s in scratch]
    calls: list[str] = []
    for name, s in scratch:
        calls.append(f"cudaMallocAsync((void **)&{name}, {s.tensor.nbytes}, stream)")
        if s.is_zeroed:
            calls.append(f"cudaMemsetAsync({name}, 0, {s.tensor.nbytes}, stream)")
    calls += (call for grid in grids for call in _launching(program, grid))
    lines += [f"  if (!error) error = {call};" for call in calls]
    for name, _ in reversed(scratch):
        lines.append(f"  if ({name}) error = first_error(error, cudaFreeAsync({name}, stream));")
    return "\n".join([_LAUNCH, *([_FIRST] if scratch else []), *lines, "  return error;", "}"])


def _launching(program: Program, grid: Grid) -> Iterator[str]:
    name, nbytes = c_name(grid.name), shared_bytes(grid)
    if nbytes > STATIC_SHARED_BYTES:
        yield f"cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {nbytes})"
    passed = ", ".join(map(c_name, arguments(program, grid)))
    yield f"LAUNCH({name}, {grid.blocks}, {grid.threads}, {nbytes}, stream, {passed})"


_LAUNCH = """\
#ifndef LAUNCH
#define LAUNCH(kernel, blocks, threads, shared, stream, ...) \\
  (kernel<<<blocks, threads, shared, stream>>>(__VA_ARGS__), cudaGetLastError())
#endif
"""

_FIRST = """\
static cudaError_t first_error(cudaError_t first, cudaError_t second) { return first ? first : second; }
"""

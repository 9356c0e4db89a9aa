"""The C printer: a verified program tree becomes one self-contained C11 file (GNU dialect: gcc and clang).

In: a verified `Program`. Out: text; equal programs give equal text. The entry point is a plain function:
a pointer for each tensor and a value for each parameter, in the order of the kernel. Vectors are
`vector_size` types that go through element-aligned pointers, registers are named local variables, and
parallel loops are functions that a small pinned thread pool, part of the file, runs in chunks. Nothing
is compiled here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spacedsl.codegen.c_functions import arithmetic_type, c_number, functions, vector_type
from spacedsl.codegen.names import c_name, entry_name
from spacedsl.codegen.program import (
    Add,
    Apply,
    Assign,
    Broadcast,
    Div,
    Expression,
    FirstLane,
    Fma,
    Index,
    LaneReduction,
    Load,
    Loop,
    Max,
    Min,
    Mul,
    Neg,
    Number,
    ParallelLoop,
    ParameterValue,
    Program,
    Register,
    Statement,
    Store,
    Sub,
    Type,
    operands,
    type_of,
)
from spacedsl.kernels.linalg.backbone import DType, Parameter, Tensor

_POOL = Path(__file__).parent / "runtime" / "pool.h"


def prototype(name: str, tensors: Sequence[Tensor], parameters: Sequence[Parameter]) -> str:
    """The entry point's declaration, without the semicolon."""
    arguments = [_pointer(t) for t in tensors] + [f"{p.dtype.c_name} {c_name(p.name)}" for p in parameters]
    return f"void {entry_name(name)}({', '.join(arguments)})"


def print_header(name: str, tensors: Sequence[Tensor], parameters: Sequence[Parameter]) -> str:
    """The header that goes with every implementation of a kernel, for C and for C++."""
    guard = f"SPACEDSL_{entry_name(name).upper()}_H"
    declaration = prototype(name, tensors, parameters)
    return "\n".join([
        _banner(name, tensors, parameters, has_threads=True),
        f"#ifndef {guard}", f"#define {guard}", "#include <stdint.h>",
        "#ifdef __cplusplus", 'extern "C" {', "#define restrict __restrict", "#endif",
        f"{declaration};",
        "#ifdef __cplusplus", "#undef restrict", "}", "#endif", "#endif", "",
    ])  # fmt: skip


def print_c(program: Program, threads: int) -> str:
    """The file's text. `threads`: the most threads that its pool uses, the calling one included."""
    features = _Features.of(program)
    has_threads = bool(features.parallel_loops)
    parts = [_banner(program.name, program.tensors, program.parameters, has_threads=has_threads)]
    if features.parallel_loops:
        parts.append(f"#define _GNU_SOURCE\n#define POOL_THREADS {threads}\n#include <stdint.h>")
        parts.append(_POOL.read_text(encoding="utf-8").rstrip())
    else:
        parts.append("#include <stdint.h>")
    if features.vectors:
        parts.append(_INLINED)
    parts += [vector_type(t) for t in features.vectors]
    parts += functions(features.functions)
    if features.parallel_loops:
        parts.append(_arguments_type(program))
    parts += [_chunk_function(program, loop) for loop in features.parallel_loops]
    parts.append(_entry(program))
    return "\n\n".join(parts) + "\n"


# ---- What the file needs -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Features:
    """Declarations that the statements of a program depend on, in order of first use."""

    vectors: tuple[Type, ...]
    functions: tuple[tuple[Type, str], ...]
    parallel_loops: tuple[ParallelLoop, ...]

    @classmethod
    def of(cls, program: Program) -> _Features:
        vectors: dict[Type, None] = {}
        functions: dict[tuple[Type, str], None] = {}
        for expression in _expressions(program.body):
            kind = type_of(expression)
            if kind.lanes > 1:
                vectors[kind] = None
            called = _function(expression)
            if called is not None:
                functions[called] = None
        loops = tuple(s for s in _statements(program.body) if isinstance(s, ParallelLoop))
        return cls(tuple(vectors), tuple(functions), loops)


def _function(expression: Expression) -> tuple[Type, str] | None:
    """The function that an expression calls, and the type that it is for."""
    match expression:
        case Broadcast():
            return type_of(expression), "broadcast"
        case FirstLane(_, _, combine):
            return type_of(expression), f"first_{combine}"
        case LaneReduction(value, combine):
            return type_of(value), f"lanes_{combine}"
        case Max():
            return type_of(expression), "max"
        case Min():
            return type_of(expression), "min"
        case Apply(function, _):
            return type_of(expression), function.value
        case _:
            return None


def _statements(body: Sequence[Statement]) -> Iterator[Statement]:
    for statement in body:
        yield statement
        if isinstance(statement, Loop | ParallelLoop):
            yield from _statements(statement.body)


def _expressions(body: Sequence[Statement]) -> Iterator[Expression]:
    """All expressions below the statements, parts before wholes."""

    def parts(expression: Expression) -> Iterator[Expression]:
        for part in operands(expression):
            yield from parts(part)
        yield expression

    for statement in _statements(body):
        if isinstance(statement, Assign | Store):
            yield from parts(statement.value)


# ---- Declarations --------------------------------------------------------------------------------------


def _banner(
    name: str, tensors: Sequence[Tensor], parameters: Sequence[Parameter], *, has_threads: bool
) -> str:
    lines = [f"Kernel {name}, generated by spacedsl.", ""]
    for tensor in tensors:
        role = "output" if tensor.is_output else "input"
        strides = f"strides {list(tensor.strides)} elements"
        lines.append(
            f"  {c_name(tensor.name)}: {role}, {tensor.dtype.label}, shape {list(tensor.shape)}, {strides}"
        )
    lines += [f"  {c_name(p.name)}: parameter, {p.dtype.label}" for p in parameters]
    lines += ["", *textwrap.wrap(_ASSUMPTIONS, 96)]
    if has_threads:
        lines += ["", *textwrap.wrap(_THREADS, 96)]
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in lines), " */"])


_ASSUMPTIONS = (
    "Every pointer is aligned to its element type; nothing more is assumed. No output overlaps another "
    "tensor. Build with -O2 -march=native -std=c11 -ffp-contract=fast -pthread."
)

_THREADS = (
    "Parallel loops, where there are any, are shared out among the calling thread and threads of the "
    "implementation's own: together at most one for each CPU that the calling thread may use at the first "
    "call. While such a loop runs, the calling thread is pinned to the first of these CPUs, unless it may "
    "not run there; then it may run wherever it could before. Calls from several threads follow each other. "
    "A child process made by fork must not call it."
)

_INLINED = """\
/* Functions on vectors are always inlined: it does not matter how vectors are passed elsewhere. */
#pragma GCC diagnostic ignored "-Wpsabi\""""


def _pointer(tensor: Tensor) -> str:
    const = "" if tensor.is_output else "const "
    return f"{const}{tensor.dtype.c_name} *restrict {c_name(tensor.name)}"


def _arguments_type(program: Program) -> str:
    fields = [f"  {_pointer(t).replace('*restrict ', '*')};" for t in program.tensors]
    fields += [f"  {p.dtype.c_name} {c_name(p.name)};" for p in program.parameters]
    return "\n".join(["struct arguments {", *fields, "};"])


# ---- Functions -----------------------------------------------------------------------------------------


def _chunk_function(program: Program, loop: ParallelLoop) -> str:
    """The iterations `begin` to `end` - 1 of a parallel loop."""
    used = {e.tensor for e in _expressions(loop.body) if isinstance(e, Load)}
    used |= {s.tensor for s in _statements(loop.body) if isinstance(s, Store)}
    used |= {e.name for e in _expressions(loop.body) if isinstance(e, ParameterValue)}
    fetch = [f"  {_pointer(t)} = in->{c_name(t.name)};" for t in program.tensors if t.name in used]
    fetch += [
        f"  {p.dtype.c_name} {c_name(p.name)} = in->{c_name(p.name)};"
        for p in program.parameters
        if p.name in used
    ]
    variable = c_name(loop.variable)
    return "\n".join([
        f"static void {_chunk_name(loop)}(const void *arguments, int64_t begin, int64_t end) {{",
        "  const struct arguments *in = arguments;",
        *fetch,
        f"  for (int64_t {variable} = begin; {variable} < end; ++{variable}) {{",
        *_block(program, loop.body, {}, 2),
        "  }",
        "}",
    ])  # fmt: skip


def _chunk_name(loop: ParallelLoop) -> str:
    """With a beginning that no name of a kernel has in C."""
    return f"pool_loop_{loop.variable}"


def _entry(program: Program) -> str:
    return "\n".join([
        f"{prototype(program.name, program.tensors, program.parameters)} {{",
        *_block(program, program.body, {}, 1),
        "}",
    ])  # fmt: skip


def _block(program: Program, body: Sequence[Statement], visible: dict[str, Type], depth: int) -> list[str]:
    """The lines of a block; `visible` are the registers declared around it and, by and by, in it."""
    lines: list[str] = []
    margin = "  " * depth
    for statement in body:
        match statement:
            case Assign(register, value):
                declare = "" if register.name in visible else f"{_c_type(register.type)} "
                visible[register.name] = register.type
                lines.append(f"{margin}{declare}{c_name(register.name)} = {_print(value)};")
            case Store(tensor, index, value):
                lines.append(f"{margin}{_element(tensor, index, type_of(value), 'store')} = {_print(value)};")
            case Loop(variable, extent, inner):
                v = c_name(variable)
                lines.append(f"{margin}for (int64_t {v} = 0; {v} < {extent}; ++{v}) {{")
                lines += _block(program, inner, dict(visible), depth + 1)
                lines.append(f"{margin}}}")
            case ParallelLoop(_, extent, _):
                names = [c_name(t.name) for t in program.tensors] + [
                    c_name(p.name) for p in program.parameters
                ]
                lines += [
                    f"{margin}{{",
                    f"{margin}  struct arguments in = {{{', '.join(names)}}};",
                    f"{margin}  pool_run({_chunk_name(statement)}, &in, {extent});",
                    f"{margin}}}",
                ]
    return lines


# ---- Expressions ---------------------------------------------------------------------------------------


def _print(expression: Expression) -> str:
    called = _function(expression)
    if called is not None:
        kind, function = called
        return f"{kind}_{function}({', '.join(map(_print, operands(expression)))})"
    match expression:
        case Register(name):
            return c_name(name)
        case ParameterValue(name, kind):
            return _cast(c_name(name), kind)
        case Load(tensor, index, kind):
            return _cast(_element(tensor, index, kind, "load"), kind)
        case Number(value, kind):
            return c_number(value, kind.dtype)
        case Fma(a, b, c):
            return f"{_operand(a)} * {_operand(b)} + {_operand(c)}"
        case Add(a, b):
            return f"{_operand(a)} + {_operand(b)}"
        case Sub(a, b):
            return f"{_operand(a)} - {_operand(b)}"
        case Mul(a, b):
            return f"{_operand(a)} * {_operand(b)}"
        case Div(a, b):
            return f"{_operand(a)} / {_operand(b)}"
        case Neg(a):
            return f"-{_operand(a)}"
    raise AssertionError(expression)


def _operand(expression: Expression) -> str:
    text = _print(expression)
    compound = isinstance(expression, Fma | Add | Sub | Mul | Div | Neg) or text.startswith("-")
    return f"({text})" if compound else text


def _element(tensor: str, index: Index, kind: Type, access: str) -> str:
    terms = [c_name(v) if stride == 1 else f"{c_name(v)} * {stride}" for v, stride in index.terms]
    if index.constant or not terms:
        terms.append(str(index.constant))
    element = f"{c_name(tensor)}[{' + '.join(terms)}]"
    if kind.lanes == 1:
        return element
    const = "const " if access == "load" else ""
    return f"*({const}{kind}_unaligned *)&{element}"


def _cast(element: str, kind: Type) -> str:
    """An element of memory, or an argument, in the type that arithmetic is done in."""
    return f"(uint32_t){element}" if kind == Type(DType.I32) else element


def _c_type(kind: Type) -> str:
    return arithmetic_type(kind.dtype) if kind.lanes == 1 else str(kind)

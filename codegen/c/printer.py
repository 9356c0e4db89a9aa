"""The C printer: a verified program tree becomes one self-contained C11 file (GNU dialect: gcc and clang).

In: a verified `Program`. Out: text; equal programs give equal text. The entry point is a plain function:
a pointer for each tensor and a value for each parameter, in the order of the kernel. Vectors are
`vector_size` types that go through element-aligned pointers, registers are named local variables, and
parallel loops are functions that a small pinned thread pool, part of the file, runs in chunks. Nothing
is compiled here. `print_units` gives the same in parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from spacedsl.codegen.c.expressions import (
    address,
    c_type,
    declarations,
    distance,
    element,
    one_file,
    print_expression,
)
from spacedsl.codegen.c.functions import functions
from spacedsl.codegen.c.interface import banner, pointer, prototype
from spacedsl.codegen.c.kept import FEW, MACROS, MANY, NOTHING, Kept, kept
from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.c.positions import is_called, position_functions, print_position
from spacedsl.codegen.c.types import arithmetic_type, c_number, vector_type
from spacedsl.codegen.tree.expressions import Call, Type, type_of
from spacedsl.codegen.tree.parts import (
    expressions,
    loaded,
    own_memory,
    shared_loops,
    statements,
    stored,
    used_parameters,
    values,
)
from spacedsl.codegen.tree.program import (
    Ahead,
    Assign,
    Branch,
    Let,
    Loop,
    ParallelLoop,
    Partial,
    PartialStore,
    Phase,
    Prefetch,
    Program,
    Statement,
    Store,
    Summed,
    Sweep,
    Take,
    TakeEach,
    When,
)
from spacedsl.kernels.linalg.operations import Combine, neutral
from spacedsl.kernels.tensors import Parameter, Tensor

_SCRATCH = Path(__file__).parent / "runtime" / "scratch.h"
POOL = Path(__file__).parent / "runtime" / "pool.h"
_PREFETCH = Path(__file__).parent / "runtime" / "prefetch.h"


@one_file()
def print_c(program: Program, threads: int) -> str:
    """The file's text. `threads`: the most threads that its pool uses, the calling one included."""
    parts, rest, entry = _parts_of(program)
    needs = _Needs.together([*(part.needs for part in parts), rest])
    texts = [*_runtime(program, threads, needs), *needs.declared]
    texts += [text for part in parts for text in part.types]
    texts += [f"static {part.function}" for part in parts]
    return _joined([*texts, entry])


@one_file()
def print_units(program: Program, threads: int) -> tuple[str, ...]:
    """The same program in files that are built by themselves and then linked: one for each parallel loop,
    whose text depends on nothing else, and before them one for all the rest.
    """
    parts, rest, entry = _parts_of(program)
    texts = [*_runtime(program, threads, rest), *rest.declared]
    texts += [text for part in parts for text in part.types]
    texts += [f"{_chunk_head(loop)};" for loop in _parallel_loops(program)]
    units = [[*texts, entry]]
    units += [["#include <stdint.h>", *part.needs.declared, *part.types, part.function] for part in parts]
    return tuple(map(_joined, units))


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(texts) + "\n"


# ---- Parts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Needs:
    """What statements depend on, in order of first use."""

    vectors: tuple[Type, ...]
    functions: tuple[tuple[Type, str], ...]
    has_positions: bool
    has_streams: bool
    has_prefetches: bool
    is_linked: bool
    has_kept: bool

    @classmethod
    def of(cls, body: Sequence[Statement], text: str, combined: Sequence[Partial] = ()) -> _Needs:
        """`text`: what has become of these statements."""
        vectors: dict[Type, None] = {}
        called: dict[tuple[Type, str], None] = {}
        for statement in statements(body):
            if isinstance(statement, Store) and statement.is_streamed:
                called[type_of(statement.value), "stream"] = None
            if isinstance(statement, PartialStore):
                called[type_of(statement.value), "store_first"] = None
        for value in values(body):
            needed = declarations(value)
            vectors |= dict.fromkeys(needed.vectors)
            called |= dict.fromkeys(needed.functions)
        for partial in combined:
            if partial.combine in (Combine.MAX, Combine.MIN):
                called[partial.register.type, partial.combine.value] = None
        return cls(
            tuple(vectors),
            tuple(called),
            is_called(body),
            _streams(body),
            any(isinstance(s, Prefetch) for s in statements(body)),
            any(isinstance(e, Call) for e in expressions(body)),
            any(f"{told.call}(" in text for told in (FEW, MANY)),
        )

    @classmethod
    def together(cls, needs: Sequence[_Needs]) -> _Needs:
        return cls(
            tuple(dict.fromkeys(vector for each in needs for vector in each.vectors)),
            tuple(dict.fromkeys(function for each in needs for function in each.functions)),
            any(each.has_positions for each in needs),
            any(each.has_streams for each in needs),
            any(each.has_prefetches for each in needs),
            any(each.is_linked for each in needs),
            any(each.has_kept for each in needs),
        )

    @property
    def declared(self) -> Iterator[str]:
        if self.vectors:
            yield _INLINED
        yield from map(vector_type, self.vectors)
        if self.has_kept:
            yield MACROS
        yield from functions(self.functions)
        if self.has_positions:
            yield position_functions()
        if self.has_streams:
            yield _FENCE
        if self.has_prefetches:
            yield _PREFETCH.read_text(encoding="utf-8").rstrip()


@dataclass(frozen=True, slots=True)
class _Part:
    """Of a file: a parallel loop."""

    needs: _Needs
    types: tuple[str, ...]
    function: str

    @classmethod
    def of(cls, program: Program, loop: ParallelLoop) -> _Part:
        function = _chunk_function(program, loop)
        return cls(_Needs.of([loop], function, loop.combined), tuple(_loop_types(program, loop)), function)


_KNOWN: WeakKeyDictionary[Phase, tuple[_Part, ...]] = WeakKeyDictionary()
"""Of phases that several programs may have."""


def _parts_of(program: Program) -> tuple[list[_Part], _Needs, str]:
    """Of its parallel loops; what all the rest needs, and the function that is called."""
    found: list[_Part] = []
    for phase in program.phases:
        if phase not in _KNOWN:
            loops = (s for s in phase.statements if isinstance(s, ParallelLoop))
            _KNOWN[phase] = tuple(_Part.of(program, loop) for loop in loops)
        found += _KNOWN[phase]
    found += [_Part.of(program, loop) for loop in _parallel_loops(program)[len(found) :]]
    rest = [statement for statement in program.body if not isinstance(statement, ParallelLoop)]
    entry = _entry(program)
    return found, _Needs.of(rest, entry), entry


# ---- Declarations --------------------------------------------------------------------------------------


def _runtime(program: Program, threads: int, needs: _Needs) -> Iterator[str]:
    """What the file says of itself, and what runs its threads and gives it memory."""
    has_threads, memory = bool(_parallel_loops(program)), own_memory(program)
    arguments = program.name, program.tensors, program.parameters
    yield banner(*arguments, has_threads=has_threads, is_linked=needs.is_linked)
    yield "#define _GNU_SOURCE\n#include <stdint.h>" if has_threads or memory else "#include <stdint.h>"
    if has_threads:
        yield f"#define POOL_THREADS {threads}\n{POOL.read_text(encoding='utf-8').rstrip()}"
    if memory:
        text = _SCRATCH.read_text(encoding="utf-8").rstrip()
        yield f"#define SCRATCH_ARRAYS {len(memory)}\n{text}"


_INLINED = """\
/* Functions on vectors are always inlined: it does not matter how vectors are passed elsewhere. */
#pragma GCC diagnostic ignored "-Wpsabi\""""


def _loop_types(program: Program, loop: ParallelLoop) -> Iterator[str]:
    """What threads are given, and what they leave."""
    tensors, parameters = _used(program, loop)
    fields = [f"  {pointer(t).replace('*restrict ', '*')};" for t in tensors]
    fields += [f"  {p.dtype.c_name} {c_name(p.name)};" for p in parameters]
    if loop.combined:
        fields.append("  void *partial;")
    yield "\n".join([f"struct {_arguments_name(loop)} {{", *fields, "};"])
    if loop.combined:
        yield _partial_type(loop)


def _used(program: Program, loop: ParallelLoop) -> tuple[list[Tensor], list[Parameter]]:
    """By the iterations of a loop, and by what comes before them."""
    body = (*loop.first, *loop.body)
    used = loaded(body) | stored(body) | used_parameters(body)
    used |= {s.tensor for s in statements(body) if isinstance(s, Prefetch)}
    own = sorted(own_memory(program), key=lambda tensor: tensor.name)
    tensors = [t for t in (*program.tensors, *own) if t.name in used]
    return tensors, [p for p in program.parameters if p.name in used]


def _arguments_name(loop: ParallelLoop) -> str:
    return f"pool_arguments_{loop.variable}"


def _parallel_loops(program: Program) -> tuple[ParallelLoop, ...]:
    """Without those that are shared out with the loop around them."""
    return tuple(s for s in program.body if isinstance(s, ParallelLoop))


def _partial_type(loop: ParallelLoop) -> str:
    """The partial results of one thread, on cache lines of their own."""
    fields = [f"  {c_type(p.register.type)} {c_name(p.register.name)};" for p in loop.combined]
    return "\n".join([f"struct {_partial_name(loop)} {{", *fields, "} __attribute__((aligned(64)));"])


def _partial_name(loop: ParallelLoop) -> str:
    return f"pool_partial_{loop.variable}"


_FENCE = """\
/* What went around the caches is seen by other threads once the thread that stored it has passed this. */
static inline void pool_fence(void) {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}"""


def _streams(body: Sequence[Statement]) -> bool:
    return any(isinstance(s, Store) and s.is_streamed for s in statements(body))


# ---- Functions -----------------------------------------------------------------------------------------


def _chunk_head(loop: ParallelLoop) -> str:
    return f"void {_chunk_name(loop)}(const void *arguments, int thread, int64_t begin, int64_t end)"


def _chunk_function(program: Program, loop: ParallelLoop) -> str:
    """The iterations `begin` to `end` - 1 of a parallel loop, and of all that are shared out with it."""
    tensors, parameters = _used(program, loop)
    own = {t.name: f" + thread * {_apart(t)}" for t in loop.own}
    fetch = [f"  {pointer(t)} = in->{c_name(t.name)}{own.get(t.name, '')};" for t in tensors]
    fetch += [f"  {p.dtype.c_name} {c_name(p.name)} = in->{c_name(p.name)};" for p in parameters]
    for partial in loop.combined:
        register, kind = c_name(partial.register.name), partial.register.type
        first = c_number(neutral(partial.combine, kind.dtype), kind.dtype)
        value = first if kind.lanes == 1 else f"{{{', '.join([first] * kind.lanes)}}}"
        fetch.append(f"  {c_type(kind)} {register} = {value};")
    for each in loop.summed:
        fetch.append(f"  {_each_element(each)} {c_name(each.part.name)}[element] = 0;")
    loops, partials = shared_loops(loop), _partial_name(loop)
    variable = c_name(loop.variable) if len(loops) == 1 else _ITERATION
    return "\n".join([
        f"{_chunk_head(loop)} {{",
        f"  const struct {_arguments_name(loop)} *in = arguments;",
        *fetch,
        *_first(program, loop),
        f"  for (int64_t {variable} = begin; {variable} < end; ++{variable}) {{",
        *_positions(loops),
        *_block(program, loops[-1].body, {p.register.name: p.register.type for p in loop.combined}, 2),
        "  }",
        *([f"  struct {partials} *partial = (struct {partials} *)in->partial + thread;"]
          if loop.combined else [] if loop.own else ["  (void)thread;"]),
        *(f"  partial->{c_name(p.register.name)} = {c_name(p.register.name)};" for p in loop.combined),
        *(["  pool_fence();"] if _streams(loop.body) else []),
        "}",
    ])  # fmt: skip


def _first(program: Program, loop: ParallelLoop) -> list[str]:
    """What a thread that has iterations does before them."""
    if not loop.first:
        return []
    place = f"    int64_t {c_name(loop.variable)} = begin;"
    return ["  if (begin < end) {", place, *_block(program, loop.first, {}, 2), "  }"]


_ITERATION = "pool_iteration"
"""Counts the iterations of several loops; no name of a kernel begins like this in C."""


def _positions(loops: Sequence[ParallelLoop]) -> Iterator[str]:
    """Where each of several loops stands in one iteration of all."""
    for level, loop in enumerate(loops if len(loops) > 1 else ()):
        inside = math.prod(inner.extent for inner in loops[level + 1 :])
        count = f" % {loop.extent}" if level else ""
        value = f"{_ITERATION} / {inside}" if inside > 1 else _ITERATION
        yield f"    int64_t {c_name(loop.variable)} = {value}{count};"


def _run_chunks(program: Program, loop: ParallelLoop, margin: str) -> list[str]:
    """The call that runs a parallel loop; what its threads have found is combined afterwards."""
    tensors, parameters = _used(program, loop)
    names = [c_name(name) for name in (*(t.name for t in tensors), *(p.name for p in parameters))]
    lines = [f"{margin}{{"]
    if loop.combined:
        lines.append(f"{margin}  struct {_partial_name(loop)} partial[POOL_THREADS];")
        names.append("partial")
    lines.append(f"{margin}  struct {_arguments_name(loop)} in = {{{', '.join(names)}}};")
    run = f"pool_run({_chunk_name(loop)}, &in, {math.prod(each.extent for each in shared_loops(loop))});"
    lines.append(f"{margin}  {'int threads = ' if loop.combined or loop.summed else ''}{run}")
    if loop.combined:
        lines.append(f"{margin}  for (int thread = 0; thread < threads; ++thread) {{")
        lines += [f"{margin}    {_combined(partial)}" for partial in loop.combined]
        lines.append(f"{margin}  }}")
    for each in loop.summed:
        lines += [f"{margin}  {line}" for line in _summed_up(each)]
    return [*lines, f"{margin}}}"]


def _each_element(summed: Summed) -> str:
    return f"for (int64_t element = 0; element < {summed.part.span}; ++element)"


def _summed_up(summed: Summed) -> list[str]:
    """The parts of all threads, one after the other."""
    part = f"{c_name(summed.part.name)}[thread * {_apart(summed.part)} + element]"
    return [
        f"{_each_element(summed)} {{",
        f"  {arithmetic_type(summed.part.dtype)} pool_sum = 0;",
        f"  for (int thread = 0; thread < threads; ++thread) pool_sum += {part};",
        f"  {c_name(summed.tensor)}[element] = pool_sum;",
        "}",
    ]


def _combined(partial: Partial) -> str:
    register = c_name(partial.register.name)
    own = f"partial[thread].{register}"
    match partial.combine:
        case Combine.SUM:
            return f"{register} += {own};"
        case Combine.PROD:
            return f"{register} *= {own};"
        case Combine.MAX | Combine.MIN:
            return f"{register} = {partial.register.type}_{partial.combine}({register}, {own});"


def _chunk_name(loop: ParallelLoop) -> str:
    """With a beginning that no name of a kernel has in C."""
    return f"pool_loop_{loop.variable}"


def _entry(program: Program) -> str:
    return "\n".join([
        f"{prototype(program.name, program.tensors, program.parameters)} {{",
        *_scratch_pointers(program),
        *_block(program, program.body, {}, 1),
        *(["  pool_fence();"] if any(_is_streamed(s) for s in program.body) else []),
        *(["  pthread_mutex_unlock(&scratch_callers);"] if own_memory(program) else []),
        "}",
    ])  # fmt: skip


def _is_streamed(statement: Statement) -> bool:
    """Whether the calling thread itself streams there: threads of parallel loops see to it themselves."""
    return not isinstance(statement, ParallelLoop) and _streams([statement])


def _scratch_pointers(program: Program) -> list[str]:
    """Where the memory of the implementation's own lies, of which one call at a time makes use."""
    if not own_memory(program):
        return []
    lines = ["  pthread_mutex_lock(&scratch_callers);"]
    private = {t.name for loop in _parallel_loops(program) for t in loop.own}
    for number, tensor in enumerate(own_memory(program)):
        elements = f"POOL_THREADS * {_apart(tensor)}" if tensor.name in private else f"{tensor.span}"
        array = f"scratch_array({number}, {elements} * sizeof({tensor.dtype.c_name}))"
        lines.append(f"  {pointer(tensor)} = {array};")
    return lines


_APART_BYTES = 128
"""What threads of their own write is so far apart: two cache lines, which some processors fetch together."""


def _apart(tensor: Tensor) -> int:
    """Elements from one thread's array to the next one's."""
    unit = _APART_BYTES // tensor.dtype.nbytes
    return -(-tensor.span // unit) * unit


def _block(
    program: Program,
    body: Sequence[Statement],
    visible: dict[str, Type],
    depth: int,
    held: Kept = NOTHING,
) -> list[str]:
    """The lines of a block; `visible` are the registers declared around it and, by and by, in it. What is
    `held` stays in registers from where it is loaded.
    """
    lines: list[str] = []
    margin = "  " * depth
    sizes = {t.name: t.dtype.nbytes for t in program.tensors}
    for statement in body:
        match statement:
            case Assign(register, value):
                declare = "" if register.name in visible else f"{c_type(register.type)} "
                visible[register.name] = register.type
                lines.append(f"{margin}{declare}{c_name(register.name)} = {print_expression(value)};")
                if register.name in held.names:
                    lines.append(f"{margin}{held.call}({c_name(register.name)});")
            case Store() | PartialStore():
                lines.append(f"{margin}{_stored(statement)};")
            case Prefetch(tensor, index, is_near):
                call = f"pool_prefetch{'' if is_near else '_far'}"
                lines.append(f"{margin}{call}({c_name(tensor)}, {sizes[tensor]} * ({distance(index)}));")
            case Let(variable, position):
                lines.append(f"{margin}int64_t {c_name(variable)} = {print_position(position)};")
            case Take(variable, value, low, high):
                given = f"({type_of(value).dtype.c_name})({print_expression(value)})"
                bounded = f"position_max(position_min({given}, {high}), {low})"
                lines.append(f"{margin}int64_t {c_name(variable)} = {bounded};")
            case TakeEach(variables):
                lines += (margin + line for line in _taken_each(variables, statement))
            case ParallelLoop():
                lines += _run_chunks(program, statement, margin)
            case _:
                inside = kept(statement, visible) if isinstance(statement, Loop | Sweep) else NOTHING
                for head, inner in _parts(program, statement):
                    lines.append(f"{margin}{head} {{")
                    lines += _block(program, inner, dict(visible), depth + 1, inside)
                lines.append(f"{margin}}}")
    return lines


def _taken_each(variables: Sequence[str], statement: TakeEach) -> Iterator[str]:
    """By way of memory, where loads of single lanes take less than taking a vector apart.

    Compilers think otherwise, so that they are told that nobody knows what the memory holds.
    """
    kind, each = type_of(statement.value), f"{c_name(variables[0])}_each"
    yield f"{kind.dtype.c_name} {each}[{kind.lanes}];"
    yield f"*({kind}_unaligned *){each} = {print_expression(statement.held)};"
    yield f'__asm__("" : "+m"({each}));'
    for lane, variable in enumerate(variables):
        yield f"int64_t {c_name(variable)} = {each}[{lane}];"


def _stored(statement: Store | PartialStore) -> str:
    value = print_expression(statement.value)
    kind = type_of(statement.value)
    match statement:
        case PartialStore(tensor, index, _, count):
            return f"{kind}_store_first({address(tensor, index, kind)}, {value}, {count})"
        case Store(tensor, index, _, True):
            return f"{kind}_stream({address(tensor, index, kind)}, {value})"
        case Store(tensor, index):
            return f"{element(tensor, index, kind, 'store')} = {value}"


def _parts(program: Program, statement: Statement) -> Iterator[tuple[str, tuple[Statement, ...]]]:
    """The blocks of a statement, each behind what says when it is done."""
    match statement:
        case Loop(variable, extent, body, first):
            v = c_name(variable)
            yield f"for (int64_t {v} = {first}; {v} < {extent}; ++{v})", body
        case Sweep(variable, first, last, step, body):
            v = c_name(variable)
            turn = f"++{v}" if step == 1 else f"{v} += {step}"
            begin, end = print_position(first), print_position(last)
            yield f"for (int64_t {v} = {begin}; {v} <= {end}; {turn})", body
        case Ahead(variable, limit, body):
            v, is_shared = c_name(variable), variable in {p.variable for p in _parallel_loops(program)}
            yield f"if ({f'{v} + 1 < end && ' * is_shared}{v} + 1 < {limit})", body
        case Branch(variable, limit, body, otherwise):
            yield f"if ({c_name(variable)} < {limit})", body
            if otherwise:
                yield "} else", otherwise
        case When(least, body, otherwise):
            yield f"if ({' && '.join(f'{print_position(position)} >= 0' for position in least)})", body
            if otherwise:
                yield "} else", otherwise
        case _:
            raise AssertionError(f"{type(statement).__name__} is no statement of a program for CPUs")

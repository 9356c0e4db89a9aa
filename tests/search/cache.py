"""A simulated machine: what the loads of a program tree bring into a private cache of each thread.

What a program stores to arrays of its own is in the cache from then on, without coming from anywhere.

Written from the meaning of the tree: the oracle of what bounds say about loops. A cache is fully associative,
holds lines, and drops the one that was not used for longest.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.expressions import Index, Load, PartialLoad, Register, type_of
from spacedsl.codegen.tree.parts import blocks, own_memory, shared_loops, subexpressions
from spacedsl.codegen.tree.program import (
    Assign,
    Branch,
    Loop,
    ParallelLoop,
    PartialStore,
    Program,
    Statement,
    Store,
)
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.search.bounds.certain import LINE_BYTES
from spacedsl.search.bounds.cpu import CpuBound
from tests.search.executed import positions
from tests.search.linalg import DEVICE, with_caches


class Place(NamedTuple):
    """Of what an access reads or writes in each iteration of the loops around it."""

    address: int
    """Where all variables are 0."""
    strides: tuple[tuple[str, int], ...]
    """Bytes by which the variables move it."""
    nbytes: int
    is_load: bool


Lines = list[tuple[int, bool]]
"""(cache line, whether it is loaded) of what a thread accesses, in its program order. What accesses the line
of the access before it is left out: it finds the line, which remains the last one that was used.
"""


def accesses(program: Program, threads: int) -> list[Lines]:
    """Of one run, by thread. Tensors lie behind each other, not aligned to lines."""
    places: dict[str, tuple[int, int]] = {}
    address = 4
    own = own_memory(program)
    own_names = {t.name for t in own}
    known: dict[int, tuple[Place, ...]] = {}
    found: list[Lines] = [[] for _ in range(threads)]
    for tensor in (*program.tensors, *own):
        places[tensor.name] = address, tensor.dtype.nbytes
        address += tensor.span * tensor.dtype.nbytes + 3 * LINE_BYTES

    def block(body: tuple[Statement, ...], at: dict[str, int], thread: int) -> None:
        for statement in body:
            match statement:
                case Loop(variable, extent, inner, first):
                    for i in range(first, extent):
                        at[variable] = i
                        block(inner, at, thread)
                case ParallelLoop():
                    loops = shared_loops(statement)
                    for t in range(threads):
                        for place in positions(loops, t, threads):
                            block(loops[-1].body, place, t)
                case Branch(variable, limit, inner, otherwise):
                    block(inner if at[variable] < limit else otherwise, at, thread)
                case Assign() | Store() | PartialStore():
                    if (touched := known.get(id(statement))) is None:
                        touched = known[id(statement)] = tuple(touches(statement))
                    access(touched, at, found[thread])

    def access(touched: tuple[Place, ...], at: Mapping[str, int], lines: Lines) -> None:
        for address, strides, nbytes, is_load in touched:
            start = address
            for variable, stride in strides:
                start += at[variable] * stride
            for line in range(start // LINE_BYTES, (start + nbytes - 1) // LINE_BYTES + 1):
                if not lines or lines[-1][0] != line:
                    lines.append((line, is_load))

    def touches(statement: Assign | Store | PartialStore) -> Iterator[Place]:
        for load in subexpressions(statement.value):
            if isinstance(load, Load | PartialLoad):
                lanes = load.type.lanes if isinstance(load, Load) else load.count
                yield elements(load.tensor, load.index, lanes, is_load=True)
        if not isinstance(statement, Assign) and statement.tensor in own_names:
            yield elements(statement.tensor, statement.index, type_of(statement.value).lanes, is_load=False)

    def elements(tensor: str, index: Index, lanes: int, *, is_load: bool) -> Place:
        start, item = places[tensor]
        strides = tuple((variable, stride * item) for variable, stride in index.terms)
        return Place(start + index.constant * item, strides, item * lanes, is_load)

    block(program.body, {}, 0)
    return found


def register_lines(program: Program) -> int:
    """Bytes of the cache lines that the values of all registers lie in: kept without any cache."""

    def registers(body: tuple[Statement, ...]) -> Iterator[Register]:
        for statement in body:
            for inner in blocks(statement):
                yield from registers(inner)
            if isinstance(statement, Assign):
                yield statement.register

    kinds = {register.name: register.type for register in registers(program.body)}
    return sum(kind.dtype.nbytes * kind.lanes + LINE_BYTES for kind in kinds.values())


def bytes_brought_in(program: Program, threads: int, cache_bytes: int) -> int:
    """By the second of two runs, into all caches together."""
    missed = 0
    for lines in accesses(program, threads):
        cache: OrderedDict[int, None] = OrderedDict()
        for run, (line, is_load) in itertools.product((0, 1), lines):
            if line in cache:
                cache.move_to_end(line)
                continue
            missed += run * is_load
            cache[line] = None
            if len(cache) > cache_bytes // LINE_BYTES:
                cache.popitem(last=False)
    return missed * LINE_BYTES


class Simulated(NamedTuple):
    bound: CpuBound
    """Of a machine with the cache that is simulated."""
    kept_bytes: int
    """By the cache of a core and its registers."""
    brought_bytes: int


def beside_a_cache(leaf: Candidate, cache_bytes: int) -> Simulated:
    """What an implementation brings into caches of this size, and the bound of such a machine."""
    kernel = leaf.instance.kernel
    assert isinstance(kernel, Kernel)
    program = lower(kernel, CandidateImplementation(leaf))
    # Two caches inside one border, of which the second adds nothing; registers keep values, too.
    kept_bytes = cache_bytes + register_lines(program)
    bound = CpuBound(leaf.instance, with_caches(kept_bytes - LINE_BYTES, LINE_BYTES))
    return Simulated(bound, kept_bytes, bytes_brought_in(program, DEVICE.threads, cache_bytes))

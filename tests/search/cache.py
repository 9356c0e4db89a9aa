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
from spacedsl.codegen.tree.expressions import Expression, Index, Load, PartialLoad, Register, type_of
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

Accesses = Iterator[tuple[int, int, int, bool]]
"""(thread, address, bytes, whether it loads) of each access, in program order of its thread."""


def accesses(program: Program, threads: int) -> Accesses:
    """Of one run. Tensors lie behind each other, not aligned to lines."""
    places: dict[str, tuple[int, int]] = {}
    address = 4
    own = own_memory(program)
    own_names = {t.name for t in own}
    loads_of: dict[int, list[Load | PartialLoad]] = {}
    for tensor in (*program.tensors, *own):
        places[tensor.name] = address, tensor.dtype.nbytes
        address += tensor.span * tensor.dtype.nbytes + 3 * LINE_BYTES

    def block(body: tuple[Statement, ...], at: Mapping[str, int], thread: int) -> Accesses:
        for statement in body:
            match statement:
                case Loop(variable, extent, inner):
                    for i in range(extent):
                        yield from block(inner, {**at, variable: i}, thread)
                case ParallelLoop():
                    loops = shared_loops(statement)
                    for t in range(threads):
                        for place in positions(loops, t, threads):
                            yield from block(loops[-1].body, place, t)
                case Branch(variable, limit, inner, otherwise):
                    yield from block(inner if at[variable] < limit else otherwise, at, thread)
                case Assign(_, value):
                    yield from loads(value, at, thread)
                case Store(tensor, index, value) | PartialStore(tensor, index, value):
                    yield from loads(value, at, thread)
                    if tensor in own_names:
                        start, nbytes = elements(tensor, index, type_of(value).lanes, at)
                        yield thread, start, nbytes, False

    def loads(value: Expression, at: Mapping[str, int], thread: int) -> Accesses:
        if (found := loads_of.get(id(value))) is None:
            found = loads_of[id(value)] = [
                e for e in subexpressions(value) if isinstance(e, Load | PartialLoad)
            ]
        for load in found:
            lanes = load.type.lanes if isinstance(load, Load) else load.count
            start, nbytes = elements(load.tensor, load.index, lanes, at)
            yield thread, start, nbytes, True

    def elements(tensor: str, index: Index, lanes: int, at: Mapping[str, int]) -> tuple[int, int]:
        start, item = places[tensor]
        element = index.constant + sum(at[v] * stride for v, stride in index.terms)
        return start + element * item, item * lanes

    return block(program.body, {}, 0)


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
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(threads)]
    missed = 0
    once = list(accesses(program, threads))
    for run, (thread, address, nbytes, is_load) in itertools.product((0, 1), once):
        cache = caches[thread]
        for line in range(address // LINE_BYTES, (address + nbytes - 1) // LINE_BYTES + 1):
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

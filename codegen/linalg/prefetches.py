"""Prefetches: which cache lines an iteration asks for before something reads them.

In: the loop structure of an implementation, as `remainder.py` leaves it, and what is decided about loads.
Out: for each loop, the `Request`s of its iterations; then, where loops have variables, `Prefetch` statements.

A request is about a later iteration of one loop, and about all that the load reads in it: a box of elements,
of which those that are neighbours make lines. The loops further inside share these lines out among their
iterations, as evenly as whole numbers allow, so that memory is never asked for many at once:

    for h: for i < 4: for p < 16: B[h, p, ..]    of 128 lines for each h, iteration (i, p) asks for two

A last tile that has been peeled off, or that a loop tests for, asks for nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.codegen.linalg.addresses import Place, iteration_step, loop_variable, tensor_steps
from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.linalg.nest import Fused, Node, present
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Index, Share
from spacedsl.codegen.tree.program import Prefetch
from spacedsl.kernels.linalg.backbone import Instruction, Kernel

LINE_BYTES = 64
"""Of the processors that there is code for; where lines are longer, some are asked for twice."""


@dataclass(frozen=True, slots=True)
class Request:
    """What each iteration of the innermost loop around a load asks for."""

    tensor: str
    start: int
    """The element at which the first line begins where all loops stand at 0."""
    moved: tuple[tuple[Fused, int], ...]
    """Loops that lead to other lines, and how many elements one iteration of each is."""
    shares: tuple[tuple[Fused, Share], ...]
    offsets: tuple[int, ...]
    """Of the lines that one iteration asks for, in elements."""

    def statements(self, place: Place) -> Iterator[Prefetch]:
        """Where each loop has the variable of its place, or stands at its first iteration."""

        def moves(node: Fused) -> bool:
            return place[node.dims[0]] != 0

        terms = [(loop_variable(node, place), step) for node, step in self.moved if moves(node)]
        shares: list[tuple[str, Share]] = []
        for node, share in self.shares:
            if not moves(node):
                continue
            variable = loop_variable(node, place)
            if share.modulus == node.size and share.divisor == 1:
                terms.append((variable, share.stride))
            else:
                shares.append((variable, share))
        terms.sort(key=lambda term: -abs(term[1]))
        for offset in self.offsets:
            yield Prefetch(self.tensor, Index(self.start + offset, tuple(terms), tuple(shares)))


def requests(
    tree: Sequence[Node], kernel: Kernel, implementation: Implementation
) -> Mapping[Fused, tuple[Request, ...]]:
    """By the loop in whose iterations they are made."""
    found: dict[Fused, tuple[Request, ...]] = {}
    loads = {load: implementation.prefetch(load) for load in present(kernel, implementation) if load.access}
    for instruction, around in _whole(tree, ()):
        if loads.get(instruction, "NONE") == "NONE":
            continue
        loops = [node for node in around if node.kind in ("LOOP", "PARALLEL")]
        request = _request(instruction, loads[instruction], around, loops, implementation)
        if request is not None:
            found[loops[-1]] = (*found.get(loops[-1], ()), request)
    return found


def _whole(
    nodes: Sequence[Node], around: tuple[Fused, ...]
) -> Iterator[tuple[Instruction, tuple[Fused, ...]]]:
    """Each instruction with what it is nested in, in whole tiles alone."""
    for node in nodes:
        if isinstance(node, Instruction):
            yield node, around
        elif not (node.kind == "UNROLL" and node.first):
            yield from _whole(node.body, (*around, node))


_LOOPS = {"AHEAD": 1, "NEXT": 2}
"""Whose later iteration it is: of the loops that lead a load to other elements, innermost first."""


def _request(
    load: Instruction,
    wanted: str,
    around: Sequence[Fused],
    loops: Sequence[Fused],
    implementation: Implementation,
) -> Request | None:
    """None where no tile but the last leaves so many loops."""
    if wanted not in _LOOPS or load.access is None:
        raise LoweringError(f"the prefetch of {load!r} is {wanted}, for which there is no code")
    access, steps = load.access, tensor_steps(load.access, implementation.size)
    step = {node: iteration_step(node, steps) for node in around}
    moving = [node for node in loops if node.size > 1 and step[node]]
    if len(moving) < _LOOPS[wanted]:
        return None
    target = moving[-_LOOPS[wanted]]
    inside = around[around.index(target) + 1 :]
    box = [(node.size, step[node]) for node in inside if step[node]]
    item = access.tensor.dtype.nbytes
    line = LINE_BYTES // item
    run, rows = runs(box, line)
    distance = 1
    if wanted == "AHEAD":
        distance = math.ceil(
            implementation.prefetch_distance(load) / (max(run, min(abs(step[target]), line)) * item)
        )
    start = access.offset + distance * step[target] + sum((n - 1) * step for n, step in box if step < 0)
    outside = [step[node] for node in loops if node not in inside]
    # Where runs begin in the middle of lines, each may reach into one more.
    aligned = math.gcd(line, start, *outside, *(stride for _, stride in rows))
    lines = [(math.ceil((line - aligned + run) / line), line), *rows]
    shares, offsets = _shared_out(lines, [node for node in loops if node in inside])
    return Request(
        access.tensor.name,
        start,
        tuple((node, step[node]) for node in loops if node not in inside and step[node]),
        shares,
        offsets,
    )


def runs(box: Sequence[tuple[int, int]], line: int) -> tuple[int, list[tuple[int, int]]]:
    """The elements of a run of neighbours, and pairs (number, stride) that count such runs.

    In: pairs (iterations, elements that one of them is), and the elements of a line.
    """
    run, rows = 1, list[tuple[int, int]]()
    for size, step in sorted(((size, abs(step)) for size, step in box), key=lambda pair: pair[1]):
        if step <= max(run, line) and not rows:
            run += (size - 1) * step
        elif rows and step == rows[-1][0] * rows[-1][1]:
            rows[-1] = size * rows[-1][0], rows[-1][1]
        else:
            rows.append((size, step))
    return run, rows


def _shared_out(
    lines: Sequence[tuple[int, int]], loops: Sequence[Fused]
) -> tuple[tuple[tuple[Fused, Share], ...], tuple[int, ...]]:
    """Which lines an iteration of the loops asks for: how each loop moves them, and those of the first."""
    rest = [number for number, _ in lines]
    taken = list[tuple[Fused, int, int, int, int]]()
    """Loop, modulus, divisor, which of `lines`, and into how many parts its rest was divided before."""
    parts = [1] * len(lines)
    for loop in reversed(loops):
        modulus = loop.size
        while modulus > 1 and max(rest) > 1:
            which = rest.index(max(rest))
            count = min(rest[which], modulus)
            divisor = modulus // count
            taken.append((loop, modulus, divisor, which, parts[which]))
            rest[which], parts[which] = math.ceil(rest[which] / count), parts[which] * count
            modulus = divisor
    shares = tuple(
        (loop, Share(modulus, divisor, lines[which][1] * rest[which] * before))
        for loop, modulus, divisor, which, before in taken
    )
    ranges = (range(0, number * stride, stride) for number, (_, stride) in zip(rest, lines, strict=True))
    return shares, tuple(sorted(map(sum, itertools.product(*ranges))))

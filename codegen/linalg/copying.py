"""Copying under the arithmetic: loops that fill a temporary for their next iteration, a share at a time.

In: the loop structure of an implementation, as `remainder.py` leaves it, and what is decided about reloads.
Out: for each loop that copies ahead, its `Copying`s; then, where loops have variables, program statements.

The nest that copies lies in a loop beside the nest that loads the copy again. Its iterations for the next
tile are shared out among those of the loops around the user's sum, as evenly as whole numbers allow:

    for i: { for r < 8: for q < 64: copy; for j < 16: for s < 8: sum over p }      becomes
    { for r: for q: copy of tile 0 }; for i: for j: for s: { copy a share of tile i + 1; sum over p }

Meanwhile the sum asks for the lines of a later share. The temporary has two halves, which take turns. A last
tile that ends early is copied when its turn comes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spacedsl.codegen.linalg.addresses import Place, Position, iteration_step, loop_variable, tensor_steps
from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.linalg.nest import Fused, Node
from spacedsl.codegen.linalg.prefetches import LINE_BYTES, runs
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Index, Share
from spacedsl.codegen.tree.program import Branch, Loop, Prefetch, Statement
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Kernel

Block = Callable[[tuple[Node, ...], Place], tuple[Statement, ...]]
"""Makes the statements of nodes at a place."""


@dataclass(frozen=True, slots=True, eq=False)
class Copying:
    """What one loop copies ahead."""

    maker: Instruction
    loop: Fused
    nest: tuple[Node, ...]
    """Of the loop's body: what copies one tile."""
    sharing: tuple[Fused, ...]
    """The loops inside it that copy a share in each iteration, outermost first; else the loop itself does."""
    asking: Fused | None
    """The innermost loop of the sum inside those: each iteration asks for lines of a later share."""

    @property
    def tiles(self) -> int:
        """Iterations whose tiles are whole."""
        return whole(self.loop)

    @property
    def host(self) -> Fused:
        """In whose iterations the shares are copied."""
        return self.sharing[-1] if self.sharing else self.loop


@dataclass(frozen=True, slots=True)
class Span:
    """Iterations of a loop of the nest: `length`, from a position that variables of other loops say."""

    loop: Fused
    length: int
    terms: tuple[tuple[str, int], ...] = ()


def turning_loops(
    tree: Sequence[Node], kernel: Kernel, implementation: Implementation
) -> Mapping[Instruction, Fused]:
    """By what makes tiles that are copied ahead: the loop that they are copied and used in."""
    return {
        maker: turning_loop(tree, maker)
        for maker in kernel.storable
        if implementation.is_stored(maker) and implementation.buffers(maker) > 1
    }


def turning_loop(tree: Sequence[Node], maker: Instruction) -> Fused:
    """The innermost loop around an instruction and its one reload: in each iteration the temporary is new."""
    paths = [next(_paths(tree, instruction, ())) for instruction in (maker, *maker.reloads)]
    around = [node for node in paths[0] if all(node in path for path in paths)]
    if len(paths) != 2 or not around or around[-1].kind not in ("LOOP", "PARALLEL"):
        raise LoweringError(f"no loop is around {maker!r} and its one reload, which is copied ahead")
    return around[-1]


def copyings(tree: Sequence[Node], turns: Mapping[Instruction, Fused]) -> Mapping[Fused, tuple[Copying, ...]]:
    """By loop; one with a single whole tile copies nothing ahead. `turns`: by maker, of undivided loops."""
    found: dict[Fused, tuple[Copying, ...]] = {}
    for maker, turning in turns.items():
        for loop in _loops(tree):
            if loop.dims == turning.dims and whole(loop) > 1:
                copying = _copying(loop, maker)
                if copying is not None:
                    found[loop] = (*found.get(loop, ()), copying)
    return found


def whole(loop: Fused) -> int:
    """Its iterations but for a last one that ends early."""
    return loop.size - (loop.last is not None)


def _copying(loop: Fused, maker: Instruction) -> Copying | None:
    (reload,) = maker.reloads
    nest = tuple(node for node in loop.body if any(_paths((node,), maker, ())))
    path = next(_paths(loop.body, reload, ()), None)
    if not nest or path is None:
        return None
    others = {i for node in nest for i in instructions_in((node,))} - {maker}
    if others:
        raise LoweringError(f"{others!r} lie in the nest of {maker!r}, which is copied ahead")
    reduced = {dim for user in reload.consumers for dim in user.reduced_dims}
    inner = [n for n, node in enumerate(path) if not reduced.isdisjoint(node.dims)]
    first = inner[0] if inner else len(path)
    sharing = tuple(node for node in path[:first] if node.kind == "LOOP" and whole(node) > 1)
    sums = [node for node in path[first:] if node.kind == "LOOP" and whole(node) > 1]
    return Copying(maker, loop, nest, sharing, sums[-1] if sums else None)


def _loops(nodes: Sequence[Node]) -> Iterator[Fused]:
    """All loops, also those of last tiles."""
    for node in nodes:
        if isinstance(node, Fused):
            if node.kind in ("LOOP", "PARALLEL"):
                yield node
            yield from _loops((*node.body, *(node.last or ())))


def _paths(
    nodes: Sequence[Node], instruction: Instruction, around: tuple[Fused, ...]
) -> Iterator[tuple[Fused, ...]]:
    """What an instruction is nested in, in whole tiles first."""
    for node in nodes:
        if node is instruction:
            yield around
        elif isinstance(node, Fused):
            yield from _paths(node.body, instruction, (*around, node))


def instructions_in(nodes: Sequence[Node]) -> Iterator[Instruction]:
    """All of them, those of last tiles as well."""
    for node in nodes:
        if isinstance(node, Fused):
            yield from instructions_in((*node.body, *(node.last or ())))
        else:
            yield node


# ---- Shares --------------------------------------------------------------------------------------------


def share(
    copying: Copying, place: Place, fresh: Callable[[Fused], str], block: Block
) -> tuple[Statement, ...]:
    """What one iteration of the host copies of the next tile. `place`: of that iteration."""
    position = Position(1, ((loop_variable(copying.loop, place), 1),))
    ahead = {**place, **dict.fromkeys(copying.loop.dims, position)}
    statements: list[Statement] = []
    for node in copying.nest:
        loops, body = _chain(node)
        spans = tuple(Span(loop, loop.size) for loop in loops)
        statements += _Sharing(body, fresh, block).shared_out(copying.sharing, spans, ahead)
    return tuple(statements)


def _chain(node: Node) -> tuple[tuple[Fused, ...], tuple[Node, ...]]:
    """Loops that consist of each other, outermost first, and what is inside all of them."""
    if not isinstance(node, Fused) or node.kind != "LOOP" or node.last is not None:
        return (), (node,)
    if len(node.body) > 1:
        return (node,), node.body
    loops, body = _chain(node.body[0])
    return (node, *loops), body


@dataclass(frozen=True, slots=True)
class _Sharing:
    """Of one nest that copies: what is inside its loops, and how loops and nodes become statements."""

    body: tuple[Node, ...]
    fresh: Callable[[Fused], str]
    block: Block

    def shared_out(
        self, hosts: tuple[Fused, ...], spans: tuple[Span, ...], place: Place
    ) -> tuple[Statement, ...]:
        """The spans divided among the iterations of the hosts, the outermost of which comes first."""
        if not hosts:
            return self.copied(spans, place)
        host, others = hosts[0], hosts[1:]
        variable, count = loop_variable(host, place), whole(host)
        if not spans:
            return (Branch(variable, 1, self.shared_out(others, (), place), ()),)
        which, length, parts = _chosen(spans, count)
        last = spans[which].length - (parts - 1) * length
        statements = self.shared_out(others, _divided(spans, which, variable, length, length), place)
        if last != length:
            tail = self.shared_out(others, _divided(spans, which, variable, length, last), place)
            statements = (Branch(variable, parts - 1, statements, tail),)
        if parts < count:
            statements = (Branch(variable, parts, statements, ()),)
        return statements

    def copied(self, spans: tuple[Span, ...], place: Place) -> tuple[Statement, ...]:
        """What the iterations of the spans copy, in loops where there are more than one."""
        if not spans:
            return self.block(self.body, place)
        span, others = spans[0], spans[1:]
        if span.length == 1:
            return self.copied(others, _enter(place, span, span.terms))
        variable = self.fresh(span.loop)
        body = self.copied(others, _enter(place, span, (*span.terms, (variable, 1))))
        return (Loop(variable, span.length, body),)


def _enter(place: Place, span: Span, terms: tuple[tuple[str, int], ...]) -> Place:
    return {**place, **dict.fromkeys(span.loop.dims, Position(0, terms))}


def _chosen(spans: Sequence[Span], count: int) -> tuple[int, int, int]:
    """The outermost of those loops that give most of `count` iterations something to do.

    Its position, how much of it an iteration does, and how many iterations have something to do.
    """
    lengths = [math.ceil(span.length / count) for span in spans]
    parts = [math.ceil(span.length / length) for span, length in zip(spans, lengths, strict=True)]
    which = parts.index(max(parts))
    return which, lengths[which], parts[which]


def _divided(spans: tuple[Span, ...], which: int, variable: str, step: int, length: int) -> tuple[Span, ...]:
    span = replace(spans[which], length=length, terms=(*spans[which].terms, (variable, step)))
    return (*spans[:which], span, *spans[which + 1 :])


# ---- Lines that are asked for --------------------------------------------------------------------------


def asked(copying: Copying, place: Place, size: Callable[[Dimension], int]) -> tuple[Statement, ...]:
    """Lines of a later share that one iteration of the asking loop asks for; none where shares differ.

    That share is copied in the next iteration of the second of the loops that share the copying out, or of
    the only one: so soon that lines stay in caches, and so late that they have come.
    """
    access = copying.maker.access
    if access is None or copying.asking is None or len(copying.nest) > 1 or not copying.sharing:
        return ()
    loops, body = _chain(copying.nest[0])
    spans = _even_share(copying.sharing, tuple(Span(loop, loop.size) for loop in loops), place)
    if not spans:
        return ()
    steps = tensor_steps(access, size)
    inside = next(_paths(body, copying.maker, ()))
    box = [(span.length, iteration_step(span.loop, steps)) for span in spans]
    box += [(node.size, iteration_step(node, steps)) for node in inside]
    lines = _lines(box, LINE_BYTES // access.tensor.dtype.nbytes)
    variable, count = loop_variable(copying.asking, place), whole(copying.asking)
    shares, offsets, parts = _shared_lines(lines, count)
    first = _first_element(copying, spans, steps, place)
    start = access.offset + first.constant + sum((number - 1) * step for number, step in box if step < 0)
    moved = (*first.shares, *((variable, each) for each in shares))
    asks: tuple[Statement, ...] = tuple(
        Prefetch(access.tensor.name, Index(start + offset, first.terms, moved), is_near=False)
        for offset in offsets
    )
    return asks if parts == count else (Branch(variable, parts, asks, ()),)


def _even_share(hosts: Sequence[Fused], spans: tuple[Span, ...], place: Place) -> tuple[Span, ...]:
    """What each iteration of the innermost host copies; none where some copy more than others."""
    for host in hosts:
        if not spans:
            return ()
        which, length, _ = _chosen(spans, whole(host))
        if length * whole(host) != spans[which].length:
            return ()
        spans = _divided(spans, which, loop_variable(host, place), length, length)
    return spans


def _lines(box: Sequence[tuple[int, int]], line: int) -> list[tuple[int, int]]:
    """Pairs (number, stride) that count the lines of a box. In: as of `runs`."""
    run, rows = runs([(size, step) for size, step in box if step], line)
    return [(math.ceil(run / line) + (run > 1), line), *rows]


def _shared_lines(lines: Sequence[tuple[int, int]], count: int) -> tuple[list[Share], list[int], int]:
    """Lines shared out among `count` iterations: how these lead to them, those of the first, how many ask."""
    wanted = math.ceil(math.prod(number for number, _ in lines) / count)
    shares, offsets, parts = list[Share](), [0], 1
    for number, stride in reversed(lines):
        taken = next(d for d in range(min(wanted, number), number + 1) if number % d == 0)
        wanted = math.ceil(wanted / taken)
        offsets = [offset + n * stride for n in range(taken) for offset in offsets]
        if number > taken:
            shares.append(Share(parts * number // taken, parts, taken * stride))
        parts *= number // taken
    return shares, offsets, parts


def _first_element(
    copying: Copying, spans: Sequence[Span], steps: Mapping[Dimension, int], place: Place
) -> Index:
    """Of the share that is asked for, in elements from the first one of the tensor."""
    moved = Counter[str]()
    for span in spans:
        step = iteration_step(span.loop, steps)
        moved.update({variable: length * step for variable, length in span.terms})
    start, shares = iteration_step(copying.loop, steps), list[tuple[str, Share]]()
    outer, target = copying.sharing[0], copying.sharing[:2][-1]
    if target is outer:
        start += moved[loop_variable(outer, place)]
    else:
        variable, tiles = loop_variable(target, place), whole(target)
        shares.append((variable, Share(tiles, 1, moved.pop(variable), 1)))
        shares.append((variable, Share(2 * tiles, tiles, moved[loop_variable(outer, place)], 1)))
    for dim in copying.maker.dims:
        # Loops around the nest: the loop itself, and what it lies in.
        if isinstance(at := place.get(dim), str):
            moved[at] += steps.get(dim, 0)
        elif isinstance(at, int):
            start += at * steps.get(dim, 0)
    terms = sorted(moved.items(), key=lambda term: -abs(term[1]))
    return Index(start, tuple(terms), tuple(shares))

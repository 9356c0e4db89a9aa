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

from spacedsl.codegen.addresses import Place, Position, tensor_steps
from spacedsl.codegen.nest import Fused, LoweringError, Node
from spacedsl.codegen.prefetches import LINE_BYTES, runs
from spacedsl.codegen.program import Branch, Index, Loop, Prefetch, Share, Statement
from spacedsl.kernels.linalg.backbone import Dimension, Instruction


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
        for loop in _whole(tree):
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
    others = {i for node in nest for i in _instructions((node,))} - {maker}
    if others:
        raise LoweringError(f"{others!r} lie in the nest of {maker!r}, which is copied ahead")
    reduced = {dim for user in reload.consumers for dim in user.reduced_dims}
    inner = [n for n, node in enumerate(path) if not reduced.isdisjoint(node.dims)]
    first = inner[0] if inner else len(path)
    sharing = tuple(node for node in path[:first] if node.kind == "LOOP" and whole(node) > 1)
    sums = [node for node in path[first:] if node.kind == "LOOP" and whole(node) > 1]
    return Copying(maker, loop, nest, sharing, sums[-1] if sums else None)


def _whole(nodes: Sequence[Node]) -> Iterator[Fused]:
    """All loops, also those of last tiles."""
    for node in nodes:
        if isinstance(node, Fused):
            if node.kind in ("LOOP", "PARALLEL"):
                yield node
            yield from _whole((*node.body, *(node.last or ())))


def _paths(
    nodes: Sequence[Node], instruction: Instruction, around: tuple[Fused, ...]
) -> Iterator[tuple[Fused, ...]]:
    """What an instruction is nested in, in whole tiles first."""
    for node in nodes:
        if node is instruction:
            yield around
        elif isinstance(node, Fused):
            yield from _paths(node.body, instruction, (*around, node))


def _instructions(nodes: Sequence[Node]) -> Iterator[Instruction]:
    for node in nodes:
        if isinstance(node, Fused):
            yield from _instructions((*node.body, *(node.last or ())))
        else:
            yield node


# ---- Shares --------------------------------------------------------------------------------------------


def share(
    copying: Copying,
    place: Place,
    fresh: Callable[[Fused], str],
    block: Callable[[tuple[Node, ...], Place], tuple[Statement, ...]],
) -> tuple[Statement, ...]:
    """What one iteration of the host copies of the next tile. `place`: of the host's iteration."""
    at = place[copying.loop.dims[0]]
    assert isinstance(at, str)
    ahead = {**place, **dict.fromkeys(copying.loop.dims, Position(1, ((at, 1),)))}
    statements: list[Statement] = []
    for node in copying.nest:
        loops, body = _chain(node)
        spans = tuple(Span(loop, loop.size) for loop in loops)
        statements += _shared_out(copying.sharing, spans, body, ahead, fresh, block)
    return tuple(statements)


def _chain(node: Node) -> tuple[tuple[Fused, ...], tuple[Node, ...]]:
    """Loops that consist of each other, outermost first, and what is inside all of them."""
    if not isinstance(node, Fused) or node.kind != "LOOP" or node.last is not None:
        return (), (node,)
    if len(node.body) > 1:
        return (node,), node.body
    loops, body = _chain(node.body[0])
    return (node, *loops), body


def _shared_out(
    hosts: tuple[Fused, ...],
    spans: tuple[Span, ...],
    body: tuple[Node, ...],
    place: Place,
    fresh: Callable[[Fused], str],
    block: Callable[[tuple[Node, ...], Place], tuple[Statement, ...]],
) -> tuple[Statement, ...]:
    """The spans divided among the iterations of the hosts, the outermost of which comes first."""
    if not hosts:
        return _loops(spans, body, place, fresh, block)

    def rest(spans: tuple[Span, ...]) -> tuple[Statement, ...]:
        return _shared_out(others, spans, body, place, fresh, block)

    host, *others_ = hosts
    others, variable, count = tuple(others_), place[host.dims[0]], whole(host)
    assert isinstance(variable, str)
    if not spans:
        first = rest(spans)
        return first if count == 1 else (Branch(variable, 1, first, ()),)
    which, length, parts = _chosen(spans, count)
    last = spans[which].length - (parts - 1) * length
    statements = rest(_divided(spans, which, variable, length, length))
    if last != length:
        tail = rest(_divided(spans, which, variable, length, last))
        statements = (Branch(variable, parts - 1, statements, tail),)
    if parts < count:
        statements = (Branch(variable, parts, statements, ()),)
    return statements


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


def _loops(
    spans: tuple[Span, ...],
    body: tuple[Node, ...],
    place: Place,
    fresh: Callable[[Fused], str],
    block: Callable[[tuple[Node, ...], Place], tuple[Statement, ...]],
) -> tuple[Statement, ...]:
    if not spans:
        return block(body, place)
    span, *others = spans
    if span.length == 1:
        inside = {**place, **dict.fromkeys(span.loop.dims, Position(0, span.terms))}
        return _loops(tuple(others), body, inside, fresh, block)
    variable = fresh(span.loop)
    position = Position(0, (*span.terms, (variable, 1)))
    inside = {**place, **dict.fromkeys(span.loop.dims, position)}
    return (Loop(variable, span.length, _loops(tuple(others), body, inside, fresh, block)),)


# ---- Lines that are asked for --------------------------------------------------------------------------


def asked(copying: Copying, place: Place, size: Callable[[Dimension], int]) -> tuple[Statement, ...]:
    """Lines of a later share that one iteration of the asking loop asks for; none where shares differ.

    That share is copied in the next iteration of the second of the loops that share the copying out, or of
    the only one: so soon that lines stay in caches, and so late that they have come.
    """
    maker, access = copying.maker, copying.maker.access
    if access is None or copying.asking is None or len(copying.nest) > 1 or not copying.sharing:
        return ()
    loops, body = _chain(copying.nest[0])
    spans = tuple(Span(loop, loop.size) for loop in loops)
    for host in copying.sharing:
        if not spans:
            return ()
        which, length, parts = _chosen(spans, whole(host))
        if length * whole(host) != spans[which].length:
            return ()
        spans = _divided(spans, which, _variable(host, place), length, length)
    steps = tensor_steps(access, size)

    def step(node: Fused) -> int:
        return sum(steps.get(dim, 0) for dim in node.dims if dim in maker.dims)

    inside = next(_paths(body, maker, ()))
    box = [(span.length, step(span.loop)) for span in spans] + [(node.size, step(node)) for node in inside]
    line = LINE_BYTES // access.tensor.dtype.nbytes
    run, rows = runs([pair for pair in box if pair[1]], line)
    lines = [(math.ceil(run / line) + (run > 1), line), *rows]
    asking, count = _variable(copying.asking, place), whole(copying.asking)
    shares, offsets, parts = _lines(lines, count)
    moved = Counter[str]()
    for span in spans:
        moved.update({variable: count * step(span.loop) for variable, count in span.terms})
    outer, target = copying.sharing[0], copying.sharing[:2][-1]
    start, found = access.offset + step(copying.loop), list[tuple[str, Share]]()
    if target is outer:
        start += moved[_variable(outer, place)]
    else:
        variable, tiles = _variable(target, place), whole(target)
        found.append((variable, Share(tiles, 1, moved.pop(variable), 1)))
        found.append((variable, Share(2 * tiles, tiles, moved[_variable(outer, place)], 1)))
    start += sum((count - 1) * step for count, step in box if step < 0)
    found += [(asking, each) for each in shares]
    for dim in maker.dims:
        # Loops around the nest: the loop itself, and what it lies in.
        if isinstance(at := place.get(dim), str):
            moved[at] += steps.get(dim, 0)
        elif isinstance(at, int):
            start += at * steps.get(dim, 0)
    terms = tuple(sorted(moved.items(), key=lambda term: -abs(term[1])))
    asks: tuple[Statement, ...] = tuple(
        Prefetch(access.tensor.name, Index(start + offset, terms, tuple(found)), is_near=False)
        for offset in offsets
    )
    return asks if parts == count else (Branch(asking, parts, asks, ()),)


def _lines(lines: Sequence[tuple[int, int]], count: int) -> tuple[list[Share], list[int], int]:
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


def _variable(node: Fused, place: Place) -> str:
    at = place[node.dims[0]]
    assert isinstance(at, str)
    return at

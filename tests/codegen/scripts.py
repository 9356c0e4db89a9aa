"""Decision scripts: a complete implementation written as an indented loop nest.

In: a text. Out: a `Script`, which lowering reads as it reads a candidate, without the engine; or the
candidate that the same decisions make of a space (`decide`).

Each line is an instruction's name, or a dimension and how it is implemented, around the lines indented
below it: `i0 P 4` is level 0 of index i in the nest of every instruction below, as one parallel loop of
4 iterations; L, U, V and P stand for LOOP, UNROLL, VECTOR and PARALLEL, G for a LOOP that tests for a last
tile that is not whole; `i0 P 4 padded` has whole tiles alone, the last of which goes on beyond the index. A
size `*` is what the other levels leave of the extent. `store_C streamed` is a store around the caches, `fma
split` a reduction whose unrolled terms have registers of their own, `init merged` what the first iteration of
a sum's loops takes the place of, `load_A ahead` and `load_A next` are loads whose lines are asked for before,
`load_A ahead 1024` as many bytes before (512 where nothing is said). A line `reload_B` lets the value of
`load_B` go through memory, `reload_B under` has its tile copied under the arithmetic of the tile before. `#`
begins a comment.

For a GPU, T and B stand for THREAD and BLOCK; `i1 T 16 @8` are threads that are 8 apart (1 where nothing is
said). `reload_B shared` and `reload_B global` say through which memory; `reload_B shared vector x3` has room
for a vector between rows (`word` for a word), and for three tiles, two of which are copied ahead; what copies
of a body load lies apart in `reload_B shared spread`.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from spacedsl.api.explaining import Answer
from spacedsl.cli import explain
from spacedsl.codegen.linalg.implementation import USUAL_DISTANCE, Statement
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.linalg.nest import present
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.explanation import explain_loss
from spacedsl.engine.instance import Instance, Variable
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.backbone import Axis, Dimension, Instruction, Kernel, LogicalDim
from spacedsl.kernels.linalg.layout import PADDINGS
from spacedsl.kernels.linalg.operations import Op

_KINDS = {
    "L": "LOOP",
    "U": "UNROLL",
    "V": "VECTOR",
    "P": "PARALLEL",
    "G": "LOOP",
    "T": "THREAD",
    "B": "BLOCK",
    "F": "FRAGMENT",
}
_REST = "*"
Path = tuple[int, ...]


class RefusedError(Exception):
    """A decision of a script that its space does not allow after those before it."""


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    """Counted from 1, over all lines of the text."""
    indent: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"line {self.number}: {' '.join(self.words)}"


@dataclass(frozen=True)
class Script:
    """An `Implementation` that reads a decision script."""

    paths: dict[Statement, Path] = field(default_factory=dict)
    kinds: dict[Dimension, str] = field(default_factory=dict)
    sizes: dict[Dimension, int] = field(default_factory=dict)
    guarded: set[Dimension] = field(default_factory=set)
    padded: set[Dimension] = field(default_factory=set)
    streamed: set[Instruction] = field(default_factory=set)
    split: set[Instruction] = field(default_factory=set)
    merged: set[Instruction] = field(default_factory=set)
    """Initialisers."""
    stored: set[Instruction] = field(default_factory=set)
    prefetched: dict[Instruction, str] = field(default_factory=dict)
    distances: dict[Instruction, int] = field(default_factory=dict)
    """Of prefetches, in bytes."""
    copied_ahead: set[Instruction] = field(default_factory=set)
    memory: dict[Instruction, str] = field(default_factory=dict)
    paddings: dict[Instruction, str] = field(default_factory=dict)
    tiles: dict[Instruction, int] = field(default_factory=dict)
    spread: set[Instruction] = field(default_factory=set)
    """SHARED or GLOBAL, by maker."""
    strides: dict[Dimension, int] = field(default_factory=dict)
    """Of threads."""
    lines: dict[Statement, str] = field(default_factory=dict)
    """Where each statement stands, for messages."""

    def order(self, lhs: Statement, rhs: Statement) -> str:
        a, b = self.paths[lhs], self.paths[rhs]
        if a == b:
            return "MERGED"
        if a == b[: len(a)]:
            return "OUTER"
        if b == a[: len(b)]:
            return "INNER"
        return "BEFORE" if a < b else "AFTER"

    def kind(self, dim: Dimension) -> str:
        return self.kinds[dim]

    def size(self, dim: Dimension) -> int:
        return self.sizes[dim]

    def is_padded(self, dim: Dimension) -> bool:
        return dim in self.padded

    def is_guarded(self, dim: Dimension) -> bool:
        return dim in self.guarded

    def is_added(self, dim: Dimension) -> bool:
        """Where its sums start in each iteration."""
        starts = dim.instruction.initialisers if dim.is_added_up else ()
        return any(self.order(start, dim) == "INNER" for start in starts)

    def is_streamed(self, store: Instruction) -> bool:
        return store in self.streamed

    def is_split(self, reduction: Instruction) -> bool:
        return reduction in self.split

    def is_begun(self, reduction: Instruction) -> bool:
        return not self.merged.isdisjoint(reduction.initialisers)

    def is_stored(self, instruction: Instruction) -> bool:
        return instruction in self.stored

    def prefetch(self, load: Instruction) -> str:
        return self.prefetched.get(load, "NONE")

    def prefetch_distance(self, load: Instruction) -> int:
        return self.distances.get(load, USUAL_DISTANCE)

    def is_copied_ahead(self, reload: Instruction) -> bool:
        return reload in self.copied_ahead

    def buffers(self, maker: Instruction) -> int:
        if not self.copied_ahead.isdisjoint(maker.reloads):
            return 2
        return self.tiles.get(maker, 1)

    def is_spread(self, maker: Instruction) -> bool:
        return maker in self.spread

    def axis(self, dim: Dimension) -> Axis | None:
        return dim.fragment.axis if dim.fragment is not None and self.kind(dim) == "FRAGMENT" else None

    def keeps_type(self, maker: Instruction) -> bool:
        return maker.op is Op.LOAD and maker in self.memory

    def padding(self, maker: Instruction) -> int:
        return PADDINGS[self.paddings.get(maker, "NONE")]

    def is_shared(self, instruction: Instruction) -> bool:
        return self.memory.get(instruction) == "SHARED"

    def thread_stride(self, dim: Dimension) -> int:
        return self.strides.get(dim, 1)

    def value(self, variable: Variable) -> str | int:
        """What the script decides about a choice of `linalg.space` or `linalg_cuda.space`."""
        match variable.choice, variable.objects:
            case "storage", (Instruction() as maker,):
                return self.memory.get(maker, "TEMPORARY" if self.is_stored(maker) else "REGISTERS")
            case "padding", (Instruction() as maker,):
                return self.paddings.get(maker, "NONE")
            case "layout", (Instruction() as maker,):
                return "SPREAD" if self.is_spread(maker) else "NESTED"
            case "buffers", (Instruction(maker=Instruction() as maker),):
                return self.tiles.get(maker, 1)
            case "thread_stride", (Dimension() as dim,):
                return self.thread_stride(dim)
            case "size", (Dimension() as dim,):
                return self.size(dim)
            case "dim_kind", (Dimension() as dim,):
                return self.kind(dim)
            case "order", (Instruction() | Dimension() as lhs, Instruction() | Dimension() as rhs):
                return self.order(lhs, rhs)
            case "remainder", (Dimension() as dim,):
                if math.prod(self.sizes[d] for d in dim.logical.dims) == dim.logical.extent:
                    return "NONE"
                if self.is_padded(dim):
                    return "PADDED"
                is_guarded = dim in self.guarded or self.kind(dim) in ("PARALLEL", "BLOCK")
                return "GUARDED" if is_guarded else "PEELED"
            case "summing", (Dimension() as dim,):
                return "ADDED" if self.is_added(dim) else "KEPT"
            case "accumulation", (Instruction() as reduction,):
                return "SPLIT" if self.is_split(reduction) else "CHAINED"
            case "initialisation", (Instruction() as reduction,):
                return "MERGED" if self.is_begun(reduction) else "BEFORE"
            case "caching", (Instruction() as store,):
                return "STREAMED" if self.is_streamed(store) else "CACHED"
            case "prefetch", (Instruction() as load,):
                return self.prefetch(load)
            case "prefetch_distance", (Instruction() as load,):
                return self.prefetch_distance(load)
            case "copying", (Instruction() as reload,):
                return "UNDER" if self.is_copied_ahead(reload) else "BEFORE"
        raise RefusedError(f"scripts say nothing about {variable.choice}")


# ---- Reading -------------------------------------------------------------------------------------------


def script(kernel: Kernel, text: str) -> Script:
    """The implementation that a script describes; every statement of the kernel must occur in it."""
    lines = [
        _Line(number, len(line) - len(line.lstrip()), tuple(line.split()))
        for number, line in enumerate(_without_comments(text), 1)
        if line.strip()
    ]
    result, rest = Script(), set[Dimension]()
    _block(lines, (), {i.name: i for i in (*kernel.instructions, *kernel.reloads)}, result, rest)
    instructions = present(kernel, result)
    missing = [s for i in instructions for s in (i, *i.dims) if s not in result.paths]
    assert not missing, f"the script lacks {missing}"
    for logical in (g for i in instructions for g in i.logical_dims):
        _fill(logical, [d for d in logical.dims if d in rest], result)
    return result


def _without_comments(text: str) -> list[str]:
    return [line.partition("#")[0].rstrip() for line in textwrap.dedent(text).splitlines()]


def _block(
    lines: list[_Line],
    path: Path,
    instructions: dict[str, Instruction],
    result: Script,
    rest: set[Dimension],
) -> list[Instruction]:
    """Places the statements of one block; returns the instructions in it."""
    inside: list[Instruction] = []
    heads = [n for n, line in enumerate(lines) if line.indent == lines[0].indent]
    for position, (start, end) in enumerate(zip(heads, [*heads[1:], len(lines)], strict=True)):
        here, line = (*path, position), lines[start]
        name, *words = line.words
        if name in instructions:
            instruction = instructions[name]
            match words:
                case ["streamed"]:
                    result.streamed.add(instruction)
                case ["split"]:
                    result.split.add(instruction)
                case ["merged"]:
                    result.merged.add(instruction)
                case ["under"]:
                    result.copied_ahead.add(instruction)
                case ["shared" | "global" as memory, *more] if instruction.maker is not None:
                    result.memory[instruction.maker] = memory.upper()
                    for word in more:
                        if word == "spread":
                            result.spread.add(instruction.maker)
                        elif word.startswith("x"):
                            result.tiles[instruction.maker] = int(word.removeprefix("x"))
                        else:
                            result.paddings[instruction.maker] = word.upper()
                case ["ahead" | "next" as word]:
                    result.prefetched[instruction] = word.upper()
                case ["ahead", distance]:
                    result.prefetched[instruction] = "AHEAD"
                    result.distances[instruction] = int(distance)
                case _:
                    assert not words, f"{line}: what is {' '.join(words)}?"
            if instruction.maker is not None:
                result.stored.add(instruction.maker)
            result.paths[instruction], result.lines[instruction] = here, str(line)
            inside.append(instruction)
            continue
        nested = _block(lines[start + 1 : end], here, instructions, result, rest)
        dims = [d for i in nested for d in i.dims if f"{d.index}{d.level}" == name]
        assert dims, f"{line}: nothing below has this dimension"
        for dim in dims:
            result.paths[dim], result.lines[dim] = here, str(line)
            _dimension(dim, words, result, rest)
        inside += nested
    return inside


def _dimension(dim: Dimension, words: Sequence[str], result: Script, rest: set[Dimension]) -> None:
    """What a line says of a dimension behind its name."""
    kind, size, *more = words
    result.kinds[dim] = _KINDS[kind]
    for word in more:
        if word == "padded":
            result.padded.add(dim)
        else:
            result.strides[dim] = int(word.removeprefix("@"))
    if kind == "G":
        result.guarded.add(dim)
    if size == _REST:
        rest.add(dim)
    else:
        result.sizes[dim] = int(size)


def _fill(logical: LogicalDim, unsized: list[Dimension], result: Script) -> None:
    """Gives the one dimension without a size what the others leave."""
    assert len(unsized) <= 1, f"of {unsized} only one can have the rest"
    for dim in unsized:
        others = math.prod(result.sizes[other] for other in logical.dims if other is not dim)
        may_end_early = logical.is_ragged and dim.level == 0
        assert logical.extent % others == 0 or may_end_early, (
            f"{result.lines[dim]}: {logical.extent} is no multiple of {others}"
        )
        result.sizes[dim] = math.ceil(logical.extent / others)


# ---- Through a space -----------------------------------------------------------------------------------


def scripted(kernel: KernelFile, text: str) -> Program:
    """The verified program of what a script describes."""
    return verify(lower(kernel.backbone, script(kernel.backbone, text)))


def decide(instance: Instance, root: Candidate, decided: Script) -> Candidate:
    """The complete candidate after all decisions of a script; raises `RefusedError` with the reason."""
    candidate, taken = root, list[Decision]()
    # What triggers add depends on where values go; how sums are accumulated, on what loops are.
    first = ("storage", "size", "dim_kind")
    for choice in sorted(instance.space.choices, key=lambda name: first.index(name) if name in first else 3):
        for variable in instance.variables_of(choice):
            if any(item not in decided.paths for item in variable.objects):
                continue
            value = decided.value(variable)
            if value in variable.universe:
                restricted = instance.restrict(candidate, variable, 1 << variable.universe.index(value))
            else:
                restricted = None
            decision = Decision(variable.choice, variable.names, (value,))
            if restricted is None:
                raise RefusedError("\n".join(_reasons(instance, decided, variable, taken, decision)))
            candidate = restricted
            taken.append(decision)
    for reload in decided.copied_ahead:
        if not any(reload in variable.objects for variable in instance.variables_of("copying")):
            raise RefusedError(f"the space has no copying({reload!r}) that could be UNDER")
    for start in decided.merged:
        merging = (v.objects[0] for v in instance.variables_of("initialisation"))
        if not any(start in sum_.initialisers for sum_ in merging if isinstance(sum_, Instruction)):
            raise RefusedError(f"the space has no initialisation that {start!r} could be MERGED by")
    for load, value in decided.prefetched.items():
        if not any(load in variable.objects for variable in instance.variables_of("prefetch")):
            raise RefusedError(f"the space has no prefetch({load!r}) that could be {value}")
    return candidate


def _reasons(
    instance: Instance, decided: Script, variable: Variable, taken: list[Decision], refused: Decision
) -> Iterator[str]:
    spelled = f"{refused.choice}({', '.join(refused.objects)}) = {refused.values[0]}"
    yield f"the space refuses {spelled}"
    for item in variable.objects:
        yield f"  {item!r}: {decided.lines[item]}"  # type: ignore[index]
    if refused.values[0] not in variable.universe:
        yield f"  on offer is {variable.universe}"
        return
    chain = explain_loss(instance, _needed(instance, taken, refused), refused)
    if chain is not None:
        yield explain.text(Answer(f"it cannot be that {spelled}", holds=True, chain=chain))


def _needed(instance: Instance, taken: Sequence[Decision], refused: Decision) -> list[Decision]:
    """Decisions that suffice to refuse one, none of them in vain: explaining all takes minutes."""
    root = instance.root()
    assert root is not None

    def are_refusing(decisions: Sequence[Decision]) -> bool:
        candidate: Candidate | None = root
        for decision in (*decisions, refused):
            candidate = instance.decide(candidate, decision) if candidate is not None else None
        return candidate is None

    needed: list[Decision] = []
    while not are_refusing(needed):
        # The shortest beginning that suffices, with those already found, ends with one that is needed.
        low, high = 1, len(taken)
        while low < high:
            middle = (low + high) // 2
            if are_refusing([*needed, *taken[:middle]]):
                high = middle
            else:
                low = middle + 1
        needed.append(taken[low - 1])
        taken = taken[: low - 1]
    return needed

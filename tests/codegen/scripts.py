"""Decision scripts: a complete implementation written as an indented loop nest, without the engine.

Each line is an instruction's name, or dimensions and how they are implemented, around the lines indented
below it: `i0 P 4` is level 0 of index i in the nest of every instruction below, as one parallel loop of
4 iterations; L, U, V and P stand for LOOP, UNROLL, VECTOR and PARALLEL. `store_C streamed` is a store around
the caches.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from spacedsl.codegen.nest import Statement
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Kernel

_KINDS = {"L": "LOOP", "U": "UNROLL", "V": "VECTOR", "P": "PARALLEL"}
Path = tuple[int, ...]


@dataclass(frozen=True)
class Script:
    """An `Implementation` that reads a decision script."""

    paths: dict[Statement, Path]
    kinds: dict[Dimension, str]
    sizes: dict[Dimension, int]
    streamed: set[Instruction]

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

    def is_streamed(self, store: Instruction) -> bool:
        return store in self.streamed


def script(kernel: Kernel, text: str) -> Script:
    """The implementation that a script describes; every statement of the kernel must occur in it."""
    lines = [line for line in textwrap.dedent(text).splitlines() if line.strip()]
    instructions = {i.name: i for i in kernel.instructions}
    result = Script({}, {}, {}, set())
    _block(lines, (), instructions, result)
    missing = [s for s in kernel.statements if s not in result.paths]
    assert not missing, f"the script lacks {missing}"
    return result


def _block(
    lines: list[str], path: Path, instructions: dict[str, Instruction], result: Script
) -> list[Instruction]:
    """Places the statements of one block; returns the instructions in it."""
    inside: list[Instruction] = []
    heads = [n for n, line in enumerate(lines) if _indent(line) == _indent(lines[0])]
    for position, (start, end) in enumerate(zip(heads, [*heads[1:], len(lines)], strict=True)):
        here = (*path, position)
        words = lines[start].split()
        if len(words) < 3:
            instruction = instructions[words[0]]
            if words[1:] == ["streamed"]:
                result.streamed.add(instruction)
            result.paths[instruction] = here
            inside.append(instruction)
            continue
        nested = _block(lines[start + 1 : end], here, instructions, result)
        name, kind, size = words
        dims = [d for i in nested for d in i.dims if f"{d.index}{d.level}" == name]
        assert dims, f"nothing below has the dimension {name}"
        for dim in dims:
            result.paths[dim], result.kinds[dim], result.sizes[dim] = here, _KINDS[kind], int(size)
        inside += nested
    return inside


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

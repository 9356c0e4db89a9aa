"""A loop structure becomes statements: what is the same whatever runs the loops.

In: the nodes of a loop structure, and where the dimensions around them stand. Out: statements of the program
tree. UNROLL dimensions are expanded, VECTOR dimensions become lanes. What becomes of other dimensions is for
`lower.py` and `cuda/lower.py`, what an instance of an instruction does for `instructions.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from spacedsl.codegen.linalg.addresses import Lanes, Place, Position
from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.linalg.instructions import Instructions
from spacedsl.codegen.linalg.nest import Fused, Node
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.program import Statement
from spacedsl.kernels.linalg.backbone import Instruction
from spacedsl.kernels.unique_names import UniqueNames


class Expansion(ABC):
    implementation: Implementation
    instructions: Instructions
    names: UniqueNames

    @abstractmethod
    def counted(self, node: Fused, place: Place) -> Sequence[Statement]:
        """What a dimension becomes whose iterations one copy of its body goes through."""

    def variable(self, node: Fused) -> str:
        """A new name for what counts its iterations."""
        return self.names.fresh(f"{node.dims[0].index}{node.dims[0].level}")

    def instance(self, instruction: Instruction, place: Place) -> Sequence[Statement]:
        return self.instructions.statements(instruction, place)

    def block(self, nodes: tuple[Node, ...], place: Place) -> tuple[Statement, ...]:
        statements: list[Statement] = []
        for node in nodes:
            if isinstance(node, Instruction):
                statements += self.instance(node, place)
            else:
                statements += self.fused(node, place)
        return tuple(statements)

    def fused(self, node: Fused, place: Place) -> Sequence[Statement]:
        if node.kind == "UNROLL":
            indices = range(node.first, node.first + node.size)
            return tuple(s for index in indices for s in self.block(node.body, enter(place, node, index)))
        if node.kind == "VECTOR":
            for inner in node.body:
                if isinstance(inner, Fused) or not set(node.dims) & set(inner.dims):
                    raise LoweringError(
                        f"{inner!r} cannot be nested in the vector dimension {node.dims[0]!r}"
                    )
            is_whole = node.size == self.implementation.size(node.dims[0])
            return self.block(node.body, place if is_whole else enter(place, node, Lanes(node.size)))
        return self.counted(node, place)


def enter(place: Place, node: Fused, at: str | int | Position | Lanes) -> Place:
    """Inside one iteration of the node's dimensions."""
    return {**place, **dict.fromkeys(node.dims, at)}

"""Packed candidates: what differs from the root, in a few hundred bytes.

In: a root candidate. Out: for any candidate below it, the domains of the decisions that are open at the
root, a bit for each value that is possible there. All else follows by propagation, so that unpacking gives
the same vector again.
"""

from __future__ import annotations

from collections.abc import Iterator

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Variable

BYTE_BITS = 8


class Packing:
    """Of the candidates below a root."""

    def __init__(self, root: Candidate) -> None:
        self._root = root
        self._open = tuple(_open(root))
        self.size_bytes = -(-sum(len(values) for _, values in self._open) // BYTE_BITS)
        """Of each packed candidate."""

    def pack(self, candidate: Candidate) -> bytes:
        bits = (candidate.mask(variable) >> bit & 1 for variable, values in self._open for bit in values)
        return sum(bit << place for place, bit in enumerate(bits)).to_bytes(self.size_bytes, "little")

    def unpack(self, packed: bytes) -> Candidate:
        """Raises `ValueError` for what was packed below another root."""
        if len(packed) != self.size_bytes:
            raise ValueError(f"{len(packed)} bytes are no candidate of {self.size_bytes}")
        narrowed: list[tuple[Variable, int]] = []
        ranks = int.from_bytes(packed, "little")
        for variable, values in self._open:
            mask = sum(1 << bit for rank, bit in enumerate(values) if ranks >> rank & 1)
            ranks >>= len(values)
            if mask != self._root.mask(variable):
                narrowed.append((variable, mask))
        candidate = None if ranks else self._root.instance.restrict_all(self._root, narrowed)
        if candidate is None:
            raise ValueError("these bytes contradict the constraints: they were packed below another root")
        return candidate


def _open(root: Candidate) -> Iterator[tuple[Variable, tuple[int, ...]]]:
    """The undecided variables, present or not, with the bits of their values."""
    for variable in root.instance.variables:
        mask = root.mask(variable)
        if mask & (mask - 1):
            yield variable, tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)

"""Packed candidates: what differs from the root, in a few hundred bytes.

In: a root candidate. Out: for any candidate below it, the domains of the decisions that are open at the
root, over the values that are possible there: one byte for each eight values. All else follows by
propagation, so that unpacking gives the same vector again.
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
        self._open: tuple[tuple[Variable, tuple[int, ...], int], ...] = tuple(_open(root))
        self.size_bytes = sum(size for _, _, size in self._open)
        """Of each packed candidate."""

    def pack(self, candidate: Candidate) -> bytes:
        packed = bytearray()
        for variable, values, size in self._open:
            mask = candidate.mask(variable)
            ranks = sum(1 << rank for rank, bit in enumerate(values) if mask >> bit & 1)
            packed += ranks.to_bytes(size, "little")
        return bytes(packed)

    def unpack(self, packed: bytes) -> Candidate:
        """Raises `ValueError` for what was packed below another root."""
        if len(packed) != self.size_bytes:
            raise ValueError(f"{len(packed)} bytes are no candidate of {self.size_bytes}")
        narrowed: list[tuple[Variable, int]] = []
        at = 0
        for variable, values, size in self._open:
            ranks = int.from_bytes(packed[at : at + size], "little")
            at += size
            mask = sum(1 << bit for rank, bit in enumerate(values) if ranks >> rank & 1)
            if mask != self._root.mask(variable):
                narrowed.append((variable, mask))
        candidate = self._root.instance.restrict_all(self._root, narrowed)
        if candidate is None:
            raise ValueError("these bytes contradict the constraints: they were packed below another root")
        return candidate


def _open(root: Candidate) -> Iterator[tuple[Variable, tuple[int, ...], int]]:
    """The undecided variables, present or not, with the bits of their values and the bytes these take."""
    for variable in root.instance.variables:
        mask = root.mask(variable)
        if mask & (mask - 1):
            values = tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)
            yield variable, values, -(-len(values) // BYTE_BITS)

"""What is left of positions when they are divided by powers of two.

In: variables, each with what is known of it. Out: the same of positions and of indices. A vector of a GPU
begins at a multiple of its size: whether an index is one, whatever blocks, threads and iterations are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from spacedsl.codegen.tree.expressions import Index, Position
from spacedsl.codegen.tree.program import Sweep
from spacedsl.kernels.pipeline.affine import Atom, Extreme, Remainder
from spacedsl.kernels.pipeline.algorithm import Variable

MOST = 16
"""The greatest modulus that anything is asked of."""


@dataclass(frozen=True, slots=True)
class Residue:
    """All integers that leave `rest` when divided by `modulus`, a power of two, `MOST` at most."""

    modulus: int
    rest: int

    def __add__(self, other: Residue) -> Residue:
        modulus = min(self.modulus, other.modulus)
        return Residue(modulus, (self.rest + other.rest) % modulus)

    def __mul__(self, number: int) -> Residue:
        modulus = math.gcd(MOST, self.modulus * number)
        return Residue(modulus, self.rest * number % modulus)

    def __or__(self, other: Residue) -> Residue:
        """What is one or the other."""
        modulus = math.gcd(self.modulus, other.modulus, self.rest - other.rest)
        return Residue(modulus, self.rest % modulus)

    def is_multiple(self, number: int) -> bool:
        """Whether all of them are. `number`: a power of two."""
        return self.modulus % number == 0 and self.rest % number == 0


ANY = Residue(1, 0)

Residues = Mapping[str, Residue]
"""By variable; of others, nothing is known."""


def residue(position: Position, known: Residues) -> Residue:
    found = Residue(MOST, position.constant % MOST)
    for atom, number in position.terms:
        found += _of(atom, known) * number
    return found


def swept(sweep: Sweep, known: Residues) -> Residue:
    """Of its variable."""
    first = residue(sweep.first, known)
    return first + ANY * sweep.step if sweep.limit is None else first


def is_aligned(index: Index, elements: int, known: Residues | None = None) -> bool:
    """Whether it is a multiple of so many elements, a power of two up to `MOST`."""
    known = known or {}
    found = residue(index.position, known)
    for _, share in index.shares:
        found += ANY * share.stride
    return found.is_multiple(elements)


def _of(atom: Atom, known: Residues) -> Residue:
    match atom:
        case Variable(name):
            return known.get(name, ANY)
        case Extreme():
            return residue(atom.left, known) | residue(atom.right, known)
        case Remainder(dividend, divisor):
            # A multiple of the divisor less.
            return residue(dividend, known) + ANY * divisor
        case _:
            return ANY

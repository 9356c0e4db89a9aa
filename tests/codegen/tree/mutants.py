"""Mutants of programs, some of each kind of mistake, and which of them the verifier refuses.

In: a program, and bodies with one mistake each. Out: the mutants that pass. What sees those is for the tests.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.program import Program, Statement
from spacedsl.codegen.tree.verify import verify


def unrefused(
    program: Program,
    edits: Iterable[tuple[str, tuple[Statement, ...]]],
    most: int,
    chance: random.Random,
    made: Counter[str],
    seen: Counter[str],
) -> list[tuple[str, Program]]:
    """Verified ones, of at most so many of each kind; counts those that were made, and those refused."""
    kinds: dict[str, list[Program]] = {}
    for kind, body in edits:
        kinds.setdefault(kind, []).append(replace(program, body=body))
    left: list[tuple[str, Program]] = []
    for kind, mutants in kinds.items():
        for mutant in chance.sample(mutants, min(most, len(mutants))):
            made[kind] += 1
            try:
                left.append((kind, verify(mutant)))
            except VerificationError:
                seen[kind] += 1
    return left

"""Both engines side by side: every vector that one makes is compared with the other's, word for word."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from spacedsl.compiler import compile_space
from spacedsl.compiler.c import build as building
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Instance, Variable, instantiate
from spacedsl.engine.native.descents import Place, random_descents
from spacedsl.engine.native.propagation import NativePropagation, mask_words, native_or_reason
from spacedsl.engine.streams import Stream
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import branches_of, select_ordering
from spacedsl.search.orderings import native_ordering as native_ordering_of
from tests.engine.agreement import random_step
from tests.engine.test_linalg_against_oracles import MATMUL, SmallCpu


def has_compiler() -> bool:
    try:
        building.find_compiler()
    except building.NoCompilerError:
        return False
    return True


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="this machine has no C compiler")


def native_of(instance: Instance) -> NativePropagation:
    native, reason = native_or_reason(
        instance.compiled, instance.objects, instance.expansion, instance.layout
    )
    assert native is not None, reason
    return native


@dataclass(slots=True)
class Both:
    """An instance on the reference engine, and the native engine of the same one."""

    instance: Instance
    native: NativePropagation
    compared: int = 0

    def root(self) -> Candidate | None:
        root = self.instance.root()
        assert self.native.root() == (None if root is None else root.vector)
        return root

    def restrict(self, candidate: Candidate, variable: Variable, mask: int) -> Candidate | None:
        child = self.instance.restrict(candidate, variable, mask)
        found = self.native.restrict(candidate.vector, variable.offset, mask)
        self.compared += 1
        assert found == (None if child is None else child.vector), (variable.choice, variable.names, mask)
        return child

    def restrict_allowed(self, candidate: Candidate, rng: random.Random) -> Candidate:
        """By values drawn for all variables, in an order that is drawn."""
        drawn = [(v, rng.choice(single_values((1 << len(v.universe)) - 1))) for v in self.instance.variables]
        rng.shuffle(drawn)
        child = self.instance.restrict_allowed(candidate, drawn)
        present = [each for each in drawn if candidate.is_present(each[0])]
        cells = np.array([v.offset for v, _ in present], np.intp)
        masks = mask_words([mask for _, mask in present])
        assert self.native.restrict_allowed(candidate.vector, cells, masks) == child.vector
        self.compared += 1
        return child

    def descend(self, rng: random.Random) -> None:
        candidate = self.root()
        while candidate is not None and not candidate.is_complete:
            self.compare_quantities(candidate)
            variable, mask = random_step(candidate, rng)
            child = self.restrict(candidate, variable, mask)
            if child is None:
                child = self.restrict(candidate, variable, candidate.mask(variable) & ~mask)
            candidate = child
        if candidate is not None:
            self.compare_quantities(candidate)

    def compare_quantities(self, candidate: Candidate) -> None:
        """All intervals in a candidate."""
        if self.instance.space.quantities:
            expected = list(self.instance.propagation.quantities(candidate.vector))
            assert sorted(self.native.quantities(candidate.vector)) == sorted(expected)
            name, key, interval = expected[-1]
            assert self.native.quantity(candidate.vector, name, key) == interval


def check_descents(here: Both, seed: int, count: int) -> None:
    """Descents in C end as those of the reference do that draw the same random numbers."""
    root = here.root()
    if root is None:
        return
    rule = select_ordering(here.instance, here.instance.space)
    ordering = native_ordering_of(here.instance, rule)
    assert ordering is not None
    counts = DescentCounts()
    for number in range(count):
        leaf = random_descent(here.instance, root, branches_of(rule), Stream(seed, number), counts)
        found = random_descents(
            here.native, root.vector, ordering, seed=seed, first=number, count=1, wants_leaf=True
        )
        assert found.leaf == (None if leaf is None else leaf.vector), f"descent {number} of seed {seed}"
    # A batch goes back to the root after each descent.
    assert random_descents(here.native, root.vector, ordering, seed=seed, count=count).counts == counts


def both(instance: Instance) -> Both:
    return Both(instance, native_of(instance))


def matmul_in(folder: Path) -> Both:
    """A matrix product tiled once under the rules of linear algebra."""
    path = folder / "matmul.yaml"
    path.write_text(MATMUL)
    space = load_space(Path("kernels/spaces/linalg.space"))
    return both(instantiate(compile_space(space), load_kernel(path).backbone, SmallCpu()))


def single_values(mask: int) -> list[int]:
    return [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def places(instance: Instance) -> list[Place]:
    return [Place(v.offset, len(v.universe)) for v in instance.variables]

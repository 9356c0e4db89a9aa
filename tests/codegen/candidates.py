"""Random complete candidates of a space, by plain descents that refute values which fail."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.language.loader import load_space
from tests.codegen.devices import DEVICE


@cache
def _compiled(path: Path) -> CompiledSpace:
    return compile_space(load_space(path))


def space_of(kernel: KernelFile, path: Path | None = None) -> Instance:
    """The kernel's space, or the one at `path`, on the tests' device."""
    # Compiling other rules takes longer than what Python does with them here.
    engine = Engine.PYTHON if path else Engine.NATIVE
    return instantiate(_compiled(path or kernel.space), kernel.backbone, DEVICE, engine)


def random_candidate(
    instance: Instance, random: np.random.Generator, preferred: Mapping[str, str] | None = None
) -> Candidate | None:
    """A complete candidate; None after a dead end. A `preferred` value of a choice is tried first."""
    candidate = instance.root()
    preferred = preferred or {}
    for choice in (
        "storage",
        "copying",
        "summing",
        "size",
        "dim_kind",
        "remainder",
        "accumulation",
        "order",
        "caching",
        "prefetch",
        "prefetch_distance",
        "initialisation",
    ):
        for variable in instance.variables_of(choice):
            while candidate is not None and candidate.is_open(variable):
                mask = candidate.mask(variable)
                bits = [b for b in range(mask.bit_length()) if mask >> b & 1]
                wanted = [b for b in bits if variable.universe[b] == preferred.get(choice)]
                bit = wanted[0] if wanted else int(random.choice(bits))
                decided = instance.restrict(candidate, variable, 1 << bit)
                candidate = decided or instance.restrict(candidate, variable, mask & ~(1 << bit))
            if candidate is None:
                return None
    return candidate

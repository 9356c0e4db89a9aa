"""The contenders: one module for each, with a function `variants(name, problem, threads)`.

A module is imported in the process that runs it and nowhere else. An `ImportError` there, or `AbsentError`,
means that the peer is not installed; an empty answer, that nobody would use it for this problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cpu.problems import Array

MODULES: Mapping[str, str] = {
    "c": "textbook",
    "numpy": "libraries",
    "torch": "torch_eager",
    "numba": "numba_loops",
    "tvm": "tvm_schedules",
}
"""By the name that tables give a peer."""

LIMITS = "limits"


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """One way to call a peer. `run` is what is timed."""

    run: Callable[[], object]
    out: Array | None = None
    """Where the result lies, if calls write to one place."""
    view: Callable[[Any], Array] = np.asarray
    """Else: the result of a call as an array."""

    def result(self) -> Array:
        """Of a call, checked to have written all of it: what lay there before is overwritten first."""
        if self.out is None:
            return self.view(self.run())
        self.out.fill(np.nan)
        self.run()
        return self.out

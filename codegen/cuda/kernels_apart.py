"""What the compiler says of kernels, each compiled by itself and once: most programs have most of them.

In: programs and a compute capability. Out: `Resources` by kernel. A step of a search changes one or two of
the hundred kernels of a large pipeline. Cubins of whole programs are for those who run them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spacedsl.codegen.cuda.nvrtc import Resources, compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.tree.program import Grid, Program

FEW = 2
"""Kernels of a program that is compiled as a whole."""

KEPT = 4000
"""Texts of kernels; then all of them are forgotten."""


@dataclass(slots=True, eq=False)
class KernelsApart:
    """Threads may ask at the same time."""

    compute_capability: str
    _known: dict[str, Mapping[str, Resources]] = field(default_factory=dict, init=False)
    """By text."""

    def resources(self, program: Program, code: str) -> Mapping[str, Resources]:
        """`code`: the text of the program. Raises `BuildError`."""
        grids = [s for s in program.body if isinstance(s, Grid)]
        if len(grids) <= FEW:
            return compile_cubin(code, self.compute_capability).resources
        found: dict[str, Resources] = {}
        for grid in grids:
            found.update(self._of(print_cuda(replace(program, body=(grid,)))))
        return found

    def _of(self, text: str) -> Mapping[str, Resources]:
        known = self._known.get(text)
        if known is None:
            known = compile_cubin(text, self.compute_capability).resources
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[text] = known
        return known

"""The lower bound of a CPU: how long the scarcest resource takes for what is certain.

In: an instance of a linear-algebra kernel, a measured device; then candidates. Out: nanoseconds that no
implementation of the candidate can undercut, and what they consist of. `resources.py` says what is needed.
Compiled code computes the same where there is a compiler; the reference explains.
"""

from __future__ import annotations

from collections.abc import Sequence

from spacedsl.compiler.c.build import NoCompilerError
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.search.bounds.domains import Domains, Words
from spacedsl.search.bounds.native import NativeBound
from spacedsl.search.bounds.protocol import BoundTerm
from spacedsl.search.bounds.rates import Rates
from spacedsl.search.bounds.resources import LoopOrder, resources

_MOST_KNOWN = 1 << 16
"""Bounds that the reference keeps: most candidates differ in nothing that the bound looks at."""


class CpuBound:
    """Implements `spacedsl.search.bounds.protocol.Bound` for candidates of `linalg.space`."""

    def __init__(self, instance: Instance, device: CpuDevice, *, is_native: bool = True) -> None:
        """Without `is_native`, or without a compiler, the reference computes: the same, slowly."""
        rates = Rates.of(device)
        self.resources = resources(instance, device)
        loops = [r.nest for r in self.resources if isinstance(r, LoopOrder)]
        cells = dict.fromkeys(cell for nest in loops for cell in nest.order_cells.values())
        self._domains = Domains(instance, rates, cells)
        self._known: dict[Words, float] = {}
        self.native: NativeBound | None = None
        self.no_native: str | None = None
        """Why no compiled code computes, although it was asked for."""
        if is_native:
            try:
                self.native = NativeBound(self._domains, rates, self.resources)
            except NoCompilerError as error:
                self.no_native = str(error)

    def __call__(self, candidate: Candidate) -> float:
        return self.of_all((candidate,))[0]

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        if self.native is not None:
            return self.native.bounds(candidates)
        return [self._reference_ns(candidate) for candidate in candidates]

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        view = self._domains.view(candidate)
        terms = (BoundTerm(r.name, r.time_ns(view), r.describe(view)) for r in self.resources)
        return tuple(sorted(terms, key=lambda term: -term.bound_ns))

    def terms_ns(self, candidate: Candidate) -> list[float]:
        """By resource, in their order, as the reference has them."""
        view = self._domains.view(candidate)
        return [r.time_ns(view) for r in self.resources]

    def _reference_ns(self, candidate: Candidate) -> float:
        words = self._domains.words(candidate)
        bound_ns = self._known.get(words)
        if bound_ns is None:
            bound_ns = max(self.terms_ns(candidate), default=0.0)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[words] = bound_ns
        return bound_ns

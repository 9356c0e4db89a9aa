"""The lower bound of a CPU: how long the scarcest resource takes for what is certain.

In: an instance of a linear-algebra kernel, a measured device; then candidates. Out: nanoseconds that no
implementation of the candidate can undercut, and what they consist of. `resources.py` says what is needed.
Compiled code computes the same where there is a compiler; the reference explains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from spacedsl.compiler.c.build import NoCompilerError
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.kernels.device import CpuDevice
from spacedsl.search.bounds.domains import Domains
from spacedsl.search.bounds.native import NativeBound
from spacedsl.search.bounds.protocol import BoundTerm
from spacedsl.search.bounds.rates import Rates
from spacedsl.search.bounds.resources import resources


class CpuBound:
    """Implements `spacedsl.search.bounds.protocol.Bound` for candidates of `linalg.space`."""

    def __init__(self, instance: Instance, device: CpuDevice, *, is_native: bool = True) -> None:
        """Without `is_native`, or without a compiler, the reference computes: the same, slowly."""
        rates = Rates.of(device)
        self.resources = resources(instance, device)
        self._domains = Domains(instance, rates)
        self.native: NativeBound | None = None
        self.no_native: str | None = None
        """Why no compiled code computes, although it was asked for."""
        if is_native:
            try:
                self.native = NativeBound(self._domains, rates, self.resources)
            except NoCompilerError as error:
                self.no_native = str(error)

    @property
    def compiled(self) -> CompiledBound | None:
        return None if self.native is None else self.native.compiled

    def __call__(self, candidate: Candidate) -> float:
        return self.of_all((candidate,))[0]

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        if self.native is not None:
            return self.native.bounds(candidates)
        return [max(self.reference_ns(candidate), default=0.0) for candidate in candidates]

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        view = self._domains.view(candidate)
        if view.overfull is not None:
            reason = f"{view.overfull} has more than are allowed, whichever of its dimensions is the vector"
            return (BoundTerm("unrolled copies", math.inf, reason),)
        terms = (BoundTerm(r.name, r.time_ns(view), r.describe(view)) for r in self.resources)
        return tuple(sorted(terms, key=lambda term: -term.bound_ns))

    def terms_ns(self, candidate: Candidate) -> list[float]:
        if self.native is not None:
            return self.native.terms(candidate)
        return self.reference_ns(candidate)

    def reference_ns(self, candidate: Candidate) -> list[float]:
        """By resource, in their order, as the reference has them; infinite for what nothing implements."""
        view = self._domains.view(candidate)
        if view.overfull is not None:
            return [math.inf] * len(self.resources)
        return [r.time_ns(view) for r in self.resources]

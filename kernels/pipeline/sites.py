"""Whose loops the slots of a pipeline's steps are, once their sites are decided.

In: steps, and the site of each. Out: for a step and a slot, the step that owns its loops. How many iterations
they have is for others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spacedsl.kernels.pipeline.backbone import SLOTS, SlotName, Step


class Sites:
    """Who has the loops of whose slots."""

    def __init__(self, steps: Sequence[Step], site: Callable[[Step], str]) -> None:
        self.steps = [step for step in steps if not step.is_exit]
        """All but the exit."""
        self.of = {step: site(step) for step in steps}
        self._inlined: dict[Step, frozenset[Step]] = {}

    def shares(self, step: Step, slot: SlotName) -> bool:
        """Whether a step has that slot from its host."""
        site = self.of[step]
        return site not in SLOTS or SLOTS.index(site) >= SLOTS.index(slot)

    def owner(self, step: Step, slot: SlotName) -> Step | None:
        """The step whose loops a shared slot has: the first one outwards that does not share it itself."""
        host = step.host
        while host is not None and not host.is_exit and self.shares(host, slot):
            host = host.host
        return None if host is None or host.is_exit else host

    def inlined_in(self, step: Step) -> frozenset[Step]:
        """All that is computed where this step reads it, wherever else."""
        known = self._inlined.get(step)
        if known is None:
            found: set[Step] = set()
            for source in step.sources:
                if self.of[source] == "INLINE":
                    found |= {source, *self.inlined_in(source)}
            known = self._inlined[step] = frozenset(found)
        return known

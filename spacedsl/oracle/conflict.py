"""Why a space has no solution on a kernel: constraints and decisions that conflict, none of them in vain.

In: a space without triggers, a kernel, a device, decisions. Out: a `Conflict`, which CP-SAT has proved to
have no solution, and each part of which has been taken away in turn and found to be needed; or None where
there are solutions. Knows nothing of propagation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.language.space import Requirement, Space
from spacedsl.oracle.cp_sat import Binding, CpSatModel, Narrowed


@dataclass(frozen=True, slots=True)
class Clash:
    """A requirement of the space and the bindings on which it is needed, by the names of its variables."""

    requirement: Requirement
    bindings: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """In order of the space, and of the decisions that were asked about."""

    clashes: tuple[Clash, ...]
    decisions: tuple[Narrowed, ...]


@dataclass(frozen=True, slots=True)
class _Instance:
    """A requirement on a binding: a group of its own."""

    requirement: int
    objects: tuple[int, ...]
    """Identities, in order of the requirement's variables."""


@dataclass(frozen=True, slots=True)
class _Decided:
    position: int


def find_conflict(
    space: Space,
    kernel: object,
    device: object,
    decisions: Sequence[Narrowed] = (),
    *,
    among: Callable[[int, Binding], bool] | None = None,
    timeout_s: float = 60,
) -> Conflict | None:
    """A minimal conflict: first between whole requirements, then between their bindings.

    Where it is known that some requirements, by number, conflict on some bindings, `among` says which: the
    others are left out from the start. Raises `TimeoutError` where one question takes longer,
    `NotTranslatedError`.
    """
    narrowed: dict[Hashable, Narrowed] = {_Decided(n): d for n, d in enumerate(decisions)}

    def line(number: int, binding: Binding) -> Hashable:
        return number if among is None or among(number, binding) else None

    lines = _minimal(CpSatModel(space, kernel, device, line), narrowed, timeout_s)
    if lines is None:
        return None
    bound: dict[_Instance, Binding] = {}

    def instance(number: int, binding: Binding) -> Hashable:
        if number not in lines or (among is not None and not among(number, binding)):
            return None
        key = _Instance(number, tuple(id(item) for item in binding.values()))
        bound.setdefault(key, binding)
        return key

    needed = {name: narrowed[name] for name in narrowed if name in lines}
    parts = _minimal(CpSatModel(space, kernel, device, instance), needed, timeout_s)
    assert parts is not None, "the bindings together are the requirements, which conflict"
    clashes = tuple(
        Clash(requirement, tuple(b for k, b in bound.items() if k.requirement == number and k in parts))
        for number, requirement in enumerate(space.requirements)
        if any(isinstance(p, _Instance) and p.requirement == number for p in parts)
    )
    return Conflict(clashes, tuple(decision for name, decision in narrowed.items() if name in parts))


def _minimal(
    model: CpSatModel,
    narrowed: Mapping[Hashable, Narrowed],
    timeout_s: float,
    without: Iterable[Hashable] = (),
) -> frozenset[Hashable] | None:
    """Groups and decisions that conflict while any part of them does not; None where all together do not."""

    def core(names: Iterable[Hashable]) -> frozenset[Hashable] | None:
        wanted = frozenset(names)
        groups = [g for g in model.groups if g in wanted]
        return model.core({n: d for n, d in narrowed.items() if n in wanted}, groups, timeout_s)

    conflict = core((*model.groups, *narrowed))
    if conflict is None:
        return None
    # In order of the space, so that the result does not depend on the order within a set.
    for name in [n for n in (*model.groups, *narrowed) if n in conflict]:
        if name in conflict:
            smaller = core(conflict - {name})
            conflict = conflict if smaller is None else smaller
    return conflict

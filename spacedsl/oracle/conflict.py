"""Why a space has no solution on a kernel: constraints and decisions that conflict, none of them in vain.

In: a space, a kernel, a device, decisions. Out: a `Conflict`, which CP-SAT has proved to have no solution,
and each part of which has been taken away in turn and found to be needed; or None where there are solutions.
Knows nothing of propagation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spacedsl.language.space import Requirement, Space
from spacedsl.oracle.cp_sat import Binding, CpSatModel, Grouping, Narrowed


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
class _Line:
    """A requirement, by number: a group of all its bindings."""

    number: int


@dataclass(frozen=True, slots=True)
class _Instance:
    """A requirement on a binding: a group of its own."""

    number: int
    objects: tuple[int, ...]
    """Identities, in order of the requirement's variables."""


@dataclass(frozen=True, slots=True)
class _Decided:
    position: int


Applies = Callable[[Binding], bool]
"""Whether a requirement's binding may take part."""


def find_conflict(
    space: Space,
    kernel: object,
    device: object,
    decisions: Sequence[Narrowed] = (),
    *,
    among: Mapping[int, Applies] | None = None,
    timeout_s: float = 60,
) -> Conflict | None:
    """A minimal conflict: first between whole requirements, then between their bindings.

    Where it is known which requirements conflict, by number, and on which bindings, `among` says so, and the
    others are left out from the start. Raises `TimeoutError` where one question takes longer,
    `NotTranslatedError`.
    """
    among = dict.fromkeys(range(len(space.requirements)), lambda _: True) if among is None else among
    narrowed: dict[Hashable, Narrowed] = {_Decided(n): d for n, d in enumerate(decisions)}
    model = _model(space, kernel, device, among, lambda number, binding: _Line(number))
    parts = _minimal(model, narrowed, timeout_s)
    if parts is None:
        return None
    bound: dict[_Instance, Binding] = {}

    def instance(number: int, binding: Binding) -> Hashable:
        key = _Instance(number, tuple(id(item) for item in binding.values()))
        bound.setdefault(key, binding)
        return key

    narrowed = {name: decision for name, decision in narrowed.items() if name in parts}
    lines = {number: applies for number, applies in among.items() if _Line(number) in parts}
    parts = _minimal(_model(space, kernel, device, lines, instance), narrowed, timeout_s)
    assert parts is not None, "the bindings together are the requirements, which conflict"
    clashes = tuple(
        Clash(space.requirements[n], tuple(b for k, b in bound.items() if k.number == n and k in parts))
        for n in sorted(lines)
    )
    return Conflict(clashes, tuple(decision for name, decision in narrowed.items() if name in parts))


def _model(
    space: Space, kernel: object, device: object, among: Mapping[int, Applies], grouping: Grouping
) -> CpSatModel:
    """Of the space with these requirements only; `grouping` has their numbers in the whole space."""
    numbers = sorted(among)
    only = replace(space, requirements=tuple(space.requirements[n] for n in numbers))

    def group(position: int, binding: Binding) -> Hashable:
        number = numbers[position]
        return grouping(number, binding) if among[number](binding) else None

    return CpSatModel(only, kernel, device, group)


def _minimal(
    model: CpSatModel, narrowed: Mapping[Hashable, Narrowed], timeout_s: float
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

"""Which objects of a space belong together, and which choices are between groups of them.

In: an instance. Out: a `Partition` for each set with parameters whose instances part its superset: as the
dimensions of an index, those of an instruction's nest, or those of a level part all dimensions. So a space
says what may change together by what it says of its objects anyway. Nothing is drawn here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spacedsl.engine.instance import Instance
from spacedsl.engine.objects import Objects
from spacedsl.language.space import SetDef


@dataclass(frozen=True, slots=True)
class Partition:
    """The instances of a set, the groups. `freed`: for each of them, the variables of choices that one of its
    objects takes part in, of those whose objects all lie in groups, no two in the same one.

    A choice on two objects of the same group says how the group hangs together, as fused loops do.
    """

    name: str
    """Of the set; of the first one, where several part the same objects in the same way."""
    freed: Sequence[frozenset[int]]


def partitions(instance: Instance) -> tuple[Partition, ...]:
    """Those of two groups or more, in the order of declaration of their sets."""
    found: dict[frozenset[frozenset[int]], str] = {}
    for definition in instance.space.sets.values():
        found.setdefault(_groups(instance.objects, definition), definition.name)
    return tuple(_partition(instance, name, groups) for groups, name in found.items() if len(groups) > 1)


def _groups(objects: Objects, definition: SetDef) -> frozenset[frozenset[int]]:
    """The instances of a set by the ids of their members; none where they do not part a superset."""
    members = [frozenset(each) for each in objects.members[definition.name].values() if each]
    together = frozenset[int]().union(*members)
    is_disjoint = len(together) == sum(map(len, members))
    supersets = [frozenset(objects.of(ref, {})) for ref in definition.supersets if not ref.args]
    return frozenset(members) if definition.params and is_disjoint and together in supersets else frozenset()


def _partition(instance: Instance, name: str, groups: frozenset[frozenset[int]]) -> Partition:
    place = {member: number for number, group in enumerate(sorted(groups, key=min)) for member in group}
    freed: list[set[int]] = [set() for _ in groups]
    for variable in instance.variables:
        touched = [place.get(instance.objects.ids[id(each)]) for each in variable.objects]
        known = {number for number in touched if number is not None}
        if len(known) == len(touched):
            for number in known:
                freed[number].add(variable.index)
    return Partition(name, tuple(map(frozenset, freed)))

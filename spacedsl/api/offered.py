"""What a space offers to decide on a kernel, by names, and what may have been meant by other names.

In: an instance, and a decision or the parts of one as a person wrote them. Out: what is wrong with each part,
and a hint that names what there is. Whether the constraints allow a decision is not asked here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Instance
from spacedsl.kernels.validation import closest
from spacedsl.language.space import Choice, Counter, EnumChoice, Quantity

MOST_VALUES = 16
"""Of one integer choice, that a message lists."""
MOST_NAMES = 6
"""That a message lists."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What a space does not offer of a decision. `place` is where, from the entry of a kernel file on."""

    place: tuple[str | int, ...]
    message: str
    hint: str | None = None
    code: str = "KF043"

    def __str__(self) -> str:
        return self.message + (f"; {self.hint}" if self.hint else "")


def mistakes(instance: Instance, decision: Decision) -> tuple[Mistake, ...]:
    """All that is wrong with one decision; none where `instance.decide` takes it."""
    space, name = instance.space, decision.choice
    choice = space.choices.get(name) or space.quantities.get(name)
    if choice is None:
        decidable = [other for other in space.choices if not space.is_derived(other)]
        found = Mistake(("choice",), f"no choice is called `{name}`", choice_hint(name, decidable))
        return (found, *_unknown_objects(instance, decision.objects))
    if isinstance(choice, Quantity) or space.is_derived(name):
        return (Mistake(("choice",), follows(choice)),)
    wrong = wrong_objects(instance, choice, decision.objects)
    return (*wrong, *_wrong_values(instance, choice, decision, are_objects_known=not wrong))


def choice_hint(name: str, known: Sequence[str]) -> str:
    return closest(name, known) or f"there are {', '.join(known)}"


def follows(choice: Choice | Quantity) -> str:
    """What is said to somebody who decides that."""
    kind = {Quantity: "quantity", Counter: "counter"}.get(type(choice), "choice")
    return f"{choice.name} is a {kind}, which follows from decisions"


def wrong_objects(
    instance: Instance, choice: Choice | Quantity, objects: Sequence[str]
) -> tuple[Mistake, ...]:
    """None where the choice is about these objects."""
    names = instance.objects.names
    numbers = tuple(names.index(name) if name in names else -1 for name in objects)
    keys: Collection[tuple[int, ...]] = (
        instance.objects.keys(choice.params)
        if isinstance(choice, Quantity)
        else instance.layout.cells[choice.name]
    )
    if numbers in keys:
        return ()
    none = f"there is no {choice.name}({', '.join(objects)}): {_why_none(choice, objects)}"
    if len(objects) != len(choice.params):
        return (*_unknown_objects(instance, objects),) or (Mistake(("objects",), none),)
    found: list[Mistake] = []
    for at, (name, number) in enumerate(zip(objects, numbers, strict=True)):
        known = list(dict.fromkeys(names[key[at]] for key in keys))
        if number < 0:
            found.append(_unknown_object(name, at, known))
        elif name not in known:
            found.append(Mistake(("objects", at), none, closest(name, known)))
    return tuple(found) or (Mistake(("objects",), none),)


def _unknown_objects(instance: Instance, objects: Sequence[str]) -> Iterator[Mistake]:
    known = [name for name in instance.objects.names if not name.startswith("*")]
    for at, name in enumerate(objects):
        if name not in known:
            yield _unknown_object(name, at, known)


def _unknown_object(name: str, at: int, known: Sequence[str]) -> Mistake:
    """The last part of several names is not one of them."""
    endings = [each for each in known if each.endswith(f".{name}")]
    if len(endings) < 2:
        return Mistake(("objects", at), f"no object is called `{name}`", closest(name, known), "KF040")
    shown = ", ".join(f"`{each}`" for each in endings[:MOST_NAMES])
    more = "" if len(endings) <= MOST_NAMES else f" and {len(endings) - MOST_NAMES} more"
    message, hint = f"no object is called `{name}` alone", f"there are {shown}{more}"
    return Mistake(("objects", at), message, hint, "KF040")


def _why_none(choice: Choice | Quantity, objects: Sequence[str]) -> str:
    if len(set(objects)) < len(objects):
        return "its objects are different ones"
    return f"it is {choice.name}({', '.join(f'${p.name} in {p.set.name}' for p in choice.params)})"


def _wrong_values(
    instance: Instance, choice: Choice, decision: Decision, *, are_objects_known: bool
) -> Iterator[Mistake]:
    """On the objects depends which values an integer choice has."""
    if isinstance(choice, EnumChoice):
        for at, value in enumerate(decision.values):
            if value not in choice.values:
                hint = closest(str(value), choice.values)
                yield Mistake(("values", at), f"no value of {choice.name} is called `{value}`", hint)
    elif are_objects_known:
        key = tuple(map(instance.objects.names.index, decision.objects))
        universe = instance.layout.universes[instance.layout.cells[choice.name][key]]
        for at, value in enumerate(decision.values):
            if value not in universe:
                use = f"{choice.name}({', '.join(decision.objects)})"
                yield Mistake(("values", at), f"{value} is no value of {use}", f"there are {shown(universe)}")


def shown(universe: Sequence[int]) -> str:
    """The values of an integer choice, or how many there are."""
    if len(universe) <= MOST_VALUES:
        return ", ".join(map(str, universe))
    return f"the {len(universe)} values, {universe[0]} to {universe[-1]}"

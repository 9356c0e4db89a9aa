"""Which sets lie in which, by what a file claims.

In: sets with arguments, as they are written or as the typed space has them. Out: `Meant`s, which can be
compared: two are equal where they say the same, whatever variables stand for map applications in them. Claims
are verified on a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

from spacedsl.language import space, syntax


@dataclass(frozen=True, eq=False)
class Meant:
    """A set with its arguments, or a map on them: variables, and maps on variables.

    What says the same is one object: arguments may stand in it many times over, more than could be compared.
    """

    name: str
    args: tuple[str | Meant, ...] = ()

    def __new__(cls, name: str, args: tuple[str | Meant, ...] = ()) -> Meant:
        return _made.setdefault((name, args), super().__new__(cls))

    def maps(self) -> Iterator[str]:
        """The names of what is applied in the arguments."""
        for arg in self.args:
            if isinstance(arg, Meant):
                yield arg.name
                yield from arg.maps()

    def __str__(self) -> str:
        """As it is written."""
        args = (arg if isinstance(arg, Meant) else f"${arg}" for arg in self.args)
        return f"{self.name}({', '.join(map(str, args))})" if self.args else self.name


_made: WeakValueDictionary[tuple[str, tuple[str | Meant, ...]], Meant] = WeakValueDictionary()

Claims = Callable[[str], tuple[tuple[str, ...], tuple[Meant, ...]]]
"""The parameters of a set, and its supersets over them."""


def as_written(use: syntax.SetUse | syntax.Use) -> Meant:
    """Nothing is looked up."""
    args = (a.name if isinstance(a, syntax.Variable) else as_written(a) for a in use.args)
    return Meant(use.name.text, tuple(args))


def meant(ref: space.SetRef, scope: Mapping[str, space.Binder], images: Mapping[str, space.SetDef]) -> Meant:
    """A set of the typed space, with the maps that its arguments stand for in `scope`."""
    args = tuple(
        meant(scope[a].set, scope, images) if a in scope and scope[a].by_map else a for a in ref.args
    )
    image = images[ref.name].iterator if ref.name in images else None
    if not isinstance(image, space.Image):
        return Meant(ref.name, args)
    inside = meant(image.set, {binder.name: binder for binder in image.maps}, images)
    params = (param.name for param in images[ref.name].params)
    return substituted(inside, dict(zip(params, args, strict=True)))


def substituted(of: Meant, actual: Mapping[str, str | Meant]) -> Meant:
    """With arguments for parameters; where one is not known, what is left is the union of all instances."""
    args: list[str | Meant] = []
    for arg in of.args:
        if isinstance(arg, str) and arg not in actual:
            return Meant(of.name)
        args.append(actual[arg] if isinstance(arg, str) else substituted(arg, actual))
    return Meant(of.name, tuple(args))


def includes(inner: Meant, outer: Meant, claims: Claims) -> bool:
    """Whether every object of `inner` lies in `outer`, by the supersets that are declared."""
    stack, seen = [inner], set[Meant | str]()
    while stack:
        ref = stack.pop()
        if ref.name == outer.name and (not outer.args or ref.args == outer.args):
            return True
        # Of a union it does not matter which instance lies in it.
        asked = ref if outer.args else ref.name
        if asked in seen:
            continue
        seen.add(asked)
        params, supersets = claims(ref.name)
        actual = dict(zip(params, ref.args, strict=False))
        stack += [substituted(superset, actual) for superset in supersets]
    return False


def without(names: Iterable[str], supersets: Iterable[Meant]) -> tuple[Meant, ...]:
    """The supersets with other names."""
    left = frozenset(names)
    return tuple(superset for superset in supersets if superset.name not in left)

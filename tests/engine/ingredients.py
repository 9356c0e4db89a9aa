"""What a space is made of, and how often that has been tried: the coverage of generated spaces.

In: a checked space and its solutions. Out: names of ingredients. One that no solution shows is not counted: a
choice over an empty set, a counter of absent objects, triggers that always or never fire.
"""

from __future__ import annotations

from collections import Counter as Counting
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import combinations

from spacedsl.engine.enumerate import Solution
from spacedsl.language.space import (
    Affine,
    And,
    Binder,
    Choice,
    Counter,
    EnumChoice,
    Image,
    IntegerChoice,
    Not,
    Or,
    Space,
    Symmetry,
    Use,
    Visibility,
)

MAIN = (
    *("symmetric", "antisymmetric", "ordered", "integers", "three parameters"),
    *("sum", "product", "quotient", "quantity", "ordered quantity", "presence"),
    *("parametric set", "map", "image", "affine", "nested conditions"),
)
"""Those of which every two should often meet."""
FURTHER = (
    *("half counter", "internal counter", "counter of a counter", "counter of integers"),
    *("loop over representatives", "representatives for each object", "filter"),
    *("close to 2^63", "more than 128 objects"),
)
LARGE = 1 << 61
MANY = 128


@dataclass(slots=True)
class Coverage:
    """Of spaces with several solutions: how many have each ingredient, and each pair of main ones."""

    spaces: int = 0
    single: Counting[str] = field(default_factory=Counting)
    pairs: Counting[tuple[str, str]] = field(default_factory=Counting)

    def add(self, space: Space, solutions: Sequence[Solution]) -> None:
        if len(solutions) > 1:
            found = ingredients(space, solutions)
            self.spaces += 1
            self.single.update(found)
            self.pairs.update(combinations((name for name in MAIN if name in found), 2))

    def share(self, *names: str) -> float:
        """Of the spaces, those with this ingredient or with these two, in percent."""
        first, *others = sorted(names, key=MAIN.index) if len(names) > 1 else names
        count = self.pairs[first, others[0]] if others else self.single[first]
        return 100 * count / max(1, self.spaces)

    def rarest_pairs(self, count: int) -> list[tuple[str, str]]:
        return sorted(combinations(MAIN, 2), key=lambda pair: self.share(*pair))[:count]

    def __str__(self) -> str:
        single = (f"{name} {self.share(name):.0f}" for name in (*MAIN, *FURTHER))
        pairs = (f"{a} with {b} {self.share(a, b):.0f}" for a, b in self.rarest_pairs(8))
        return (
            f"of {self.spaces} spaces with several solutions, in percent: {', '.join(single)}; "
            f"the rarest pairs: {', '.join(pairs)}"
        )


def ingredients(space: Space, solutions: Sequence[Solution]) -> frozenset[str]:
    keys = {frozenset((*s.decisions, *s.derived)) for s in solutions}
    shown = {name for each in keys for name, _ in each}
    found: set[str] = set()
    for choice in space.choices.values():
        if choice.name in shown:
            found.update(_of_choice(choice, space))
    for quotient in space.quotients.values():
        if quotient.representative in shown:
            found.update({"quotient", "representatives for each object"} if quotient.params else {"quotient"})
    for quantity in space.quantities.values():
        if quantity.name in shown:
            found.add("quantity" if quantity.values is None else "ordered quantity")
    if len(keys) > 1 and space.triggers:
        found.add("presence")
    numbers = (n for s in solutions for n in (*s.decisions.values(), *s.derived.values()))
    if any(isinstance(n, int) and abs(n) >= LARGE for n in numbers):
        found.add("close to 2^63")
    if max((len(each) for each in keys), default=0) > MANY:
        found.add("more than 128 objects")
    stated = (*space.choices.values(), *space.quantities.values(), *space.requirements, *space.triggers)
    found.update(name for node in _nodes(stated) for name in _of_node(node, space))
    return frozenset(found)


def _of_choice(choice: Choice, space: Space) -> Iterator[str]:
    if len(choice.params) == 3:
        yield "three parameters"
    match choice:
        case IntegerChoice():
            yield "integers"
        case EnumChoice():
            if choice.symmetry is not Symmetry.NONE:
                yield choice.symmetry.value
            if choice.ordered:
                yield "ordered"
        case Counter():
            yield "product" if choice.product else "sum"
            if choice.visibility is not Visibility.FULL:
                yield f"{choice.visibility.value} counter"
            if isinstance(choice.value, Use):
                counted = space.choices[choice.value.choice]
                yield "counter of a counter" if isinstance(counted, Counter) else "counter of integers"


def _of_node(node: object, space: Space) -> Iterator[str]:
    match node:
        case Binder():
            if node.by_map:
                yield "map"
            elif node.set.args:
                yield "parametric set"
            if node.where is not None:
                yield "filter"
            if node.set.name in space.sets and isinstance(space.sets[node.set.name].iterator, Image):
                yield "image"
            if node.set.name in space.quotients:
                yield "loop over representatives"
        case Affine(use, factor, offsets):
            if use is not None and (factor != 1 or offsets):
                yield "affine"
        case And(operands) | Or(operands) | Not(And(operands) | Or(operands)):
            if isinstance(node, Not) or any(isinstance(o, And | Or | Not) for o in operands):
                yield "nested conditions"


def _nodes(value: object) -> Iterator[object]:
    """Everything that something is made of."""
    if isinstance(value, tuple):
        for each in value:
            yield from _nodes(each)
    elif is_dataclass(value):
        yield value
        for each in fields(value):
            yield from _nodes(getattr(value, each.name))

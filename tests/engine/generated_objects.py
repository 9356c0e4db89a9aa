"""The objects of generated spaces: a backbone as plain data, and the kernel that it stands for."""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.language.host import Addition, callback, exposed


@exposed("id", "name", "sizes", "weight", "is_odd", "is_live", "near", "next")
@dataclass(slots=True, eq=False, repr=False)
class Item:
    id: int
    name: str
    sizes: tuple[int, ...]
    weight: int
    is_odd: bool
    is_live: bool = True
    """Whether it has a choice to make: those that only fill a set have none."""
    near: tuple[Item, ...] = ()
    copy: Item | None = None
    next: Item | None = None
    """What the map of generated spaces gives; another item, or itself."""

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Backbone:
    """What a kernel consists of, as plain data: its text can be pasted into a test."""

    sizes: tuple[tuple[int, ...], ...]
    """One item for each; the integers that are offered for it."""
    weights: tuple[int, ...]
    reds: tuple[int, ...]
    blues: tuple[int, ...]
    near: tuple[tuple[int, ...], ...]
    fillers: int = 0
    """So many more items, before the last one, that have nothing to decide."""

    def build(self) -> Plain:
        last = len(self.sizes) - 1
        items = tuple(
            Item(i + self.fillers * (i == last), f"item{i}", sizes, weight, i % 2 == 1)
            for i, (sizes, weight) in enumerate(zip(self.sizes, self.weights, strict=True))
        )
        fillers = tuple(
            Item(last + i, f"filler{i}", (1,), 1, False, is_live=False) for i in range(self.fillers)
        )
        everything = (*items[:-1], *fillers, items[-1])
        for item, following in zip(everything, (*everything[1:], items[-1]), strict=True):
            item.next = following
        for item, near in zip(items, self.near, strict=True):
            item.near = tuple(items[i] for i in near)
            number = item.id + len(everything)
            item.copy = Item(number, f"{item.name}copy", item.sizes, 1, False, near=(item,), next=item)
        return Plain(everything, tuple(items[i] for i in self.reds), tuple(items[i] for i in self.blues))


@exposed("items", "reds", "blues", "few", "add_copy", "add_red_copy", "paint_blue", "add_near")
@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """What can be added: a copy of an item (of which there are no copies), or an item to a set."""

    items: tuple[Item, ...]
    reds: tuple[Item, ...]
    blues: tuple[Item, ...]
    few: int = 2

    @callback
    def add_copy(self, item: Item) -> Addition:
        return Addition(() if item.copy is None else (("Items", (), item.copy),))

    @callback
    def add_red_copy(self, item: Item) -> Addition:
        if item.copy is None:
            return Addition(())
        return Addition((("Items", (), item.copy), ("Reds", (), item.copy)))

    @callback
    def paint_blue(self, item: Item) -> Addition:
        return Addition((("Blues", (), item),))

    @callback
    def add_near(self, item: Item, other: Item) -> Addition:
        return Addition((("Near", (item,), other),))


@exposed("limit")
@dataclass(frozen=True, slots=True)
class Machine:
    limit: int = 4

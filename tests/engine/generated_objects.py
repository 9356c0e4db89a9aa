"""The objects of generated spaces: a backbone as plain data, and the kernel that it stands for."""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.language.host import Addition, callback, exposed


@exposed("id", "name", "sizes", "weight", "is_odd", "near", "next")
@dataclass(slots=True, eq=False, repr=False)
class Item:
    id: int
    name: str
    sizes: tuple[int, ...]
    weight: int
    is_odd: bool
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

    def build(self) -> Plain:
        items = tuple(
            Item(i, f"item{i}", sizes, weight, i % 2 == 1)
            for i, (sizes, weight) in enumerate(zip(self.sizes, self.weights, strict=True))
        )
        for number, (item, near) in enumerate(zip(items, self.near, strict=True)):
            item.near = tuple(items[i] for i in near)
            item.next = items[min(number + 1, len(items) - 1)]
            item.copy = Item(item.id + len(items), f"{item.name}copy", item.sizes, 1, False, (item,))
            item.copy.next = item
        return Plain(items, tuple(items[i] for i in self.reds), tuple(items[i] for i in self.blues))


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

"""Random choices of generated spaces, and what triggers add to the sets that they are over.

In: a source of random choices, a backbone. Out: declarations, of which there are as many as there is room
for: the number of assignments of all decisions together is bounded, counting what may be added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.engine.generated_formulas import LOCAL, NEAR, Declared
from tests.engine.generated_objects import Backbone
from tests.engine.generated_terms import Terms

MOST_ASSIGNMENTS = 12_000
"""Of the decisions alone, before any requirement and any trigger."""
ORDER = ("LOW", "MID", "TOP")
LARGE = (1, 3 << 40, (1 << 62) - 1, 1 << 62, (1 << 63) - 1)
"""The greatest integers that a choice may have, and some that add up to those."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What one trigger adds: `forall $t in OVER where "$t.id < BELOW"`."""

    action: str
    over: str
    below: int


@dataclass(slots=True)
class Choices(Terms):
    lines: list[str] = field(default_factory=list)
    room: float = math.log(MOST_ASSIGNMENTS)
    backbone: Backbone = field(init=False)
    favoured: list[str] = field(default_factory=list)
    """Sets that triggers add to, which choices had better range over."""
    added: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By set, what triggers may add; the copy of item i is i and the number of items."""
    added_near: set[tuple[int, int]] = field(default_factory=set)

    # ---- Objects ----

    def _members(self, name: str) -> tuple[int, ...]:
        """All that there may be in a set, without what only fills it."""
        everything = tuple(range(len(self.backbone.sizes)))
        members = {"Reds": self.backbone.reds, "Blues": self.backbone.blues}.get(name, everything)
        return (*members, *(i for i in self.added.get(name, ()) if i not in members))

    def _around(self, item: int, over: str) -> int:
        """How many items a set with a parameter may have for one."""
        return self._near(item if over == NEAR else self._next(item)) if over in LOCAL else 1

    def _next(self, item: int) -> int | None:
        """What the map gives; None for what only fills a set."""
        count = len(self.backbone.sizes)
        if item >= count:
            return item - count
        is_filler = self.backbone.fillers and item == count - 2
        return None if is_filler else min(item + 1, count - 1)

    def _near(self, item: int | None) -> int:
        """How many items there may be near one."""
        count = len(self.backbone.sizes)
        if item is None:
            return 0
        if item >= count:
            return 1
        added = [b for a, b in self.added_near if a == item and b not in self.backbone.near[item]]
        return len(self.backbone.near[item]) + len(added)

    def _bindings(self, sets: tuple[str, ...]) -> int:
        """Of distinct objects, one from each of the sets."""
        first, *others = (self._members(name) for name in sets if name not in LOCAL)
        tuples: list[tuple[tuple[int, ...], int]] = [
            ((item,), math.prod(self._around(item, name) for name in sets)) for item in first
        ]
        for members in others:
            tuples = [((*taken, m), around) for taken, around in tuples for m in members if m not in taken]
        return sum(around for _, around in tuples)

    def _grow(self, growth: Growth) -> None:
        """Notes what the trigger may add."""
        count = len(self.backbone.sizes)
        targets = [i for i in self._members(growth.over) if i < min(growth.below, count)]
        copies = tuple(i + count for i in targets)
        if growth.action == "add_near":
            self.added_near |= {(i, j) for i in targets for j in range(min(growth.below, count)) if j != i}
            self.favoured += LOCAL
            return
        gains = {"add_copy": ["Items"], "add_red_copy": ["Items", "Reds"], "paint_blue": ["Blues"]}
        for name in gains[growth.action]:
            new = tuple(targets) if growth.action == "paint_blue" else copies
            self.added[name] = tuple(dict.fromkeys((*self.added.get(name, ()), *new)))
            self.favoured.append(name)

    def _set(self) -> str:
        if self._chance(50):
            favoured = [name for name in self.favoured if name not in LOCAL]
            if favoured:
                return self._one(favoured)
        return self._one(["Items", "Items", "Items", "Reds", "Blues"])

    # ---- Room ----

    def _fits(self, assignments: float) -> bool:
        """Whether so many times more assignments still fit; takes the room if so."""
        if math.log(assignments) > self.room:
            return False
        self.room -= math.log(assignments)
        return True

    def _fitting(self, sets: tuple[str, ...], values: int, least: int) -> tuple[tuple[str, ...], int] | None:
        """Sets and a number of values for which there is room: those asked for, or fewer."""
        smaller = [sets, *(tuple(s if s in LOCAL else name for s in sets) for name in ("Reds", "Blues"))]
        for over in smaller:
            if self.backbone.fillers and over.count("Items") > 1:
                continue
            for count in range(values, least - 1, -1):
                bindings = self._bindings(over)
                if bindings and self._fits(float(count) ** bindings):
                    return over, count
        return None

    # ---- Choices ----

    def _values(self, count: int) -> tuple[str, ...]:
        return ("P", "Q", "R", "S", "T")[:count]

    def _unary(self, over: str = "") -> None:
        """`over`: a set that there has to be such a choice over."""
        count = self._between(2, 3)
        fitting = ((over,), count) if over else self._fitting((self._set(),), count, 2)
        if over:
            self._fits(float(count) ** len(self._members(over)))
        if fitting is None:
            return
        (over,), count = fitting
        values = self._values(count)
        name = f"kind{len(self.choices)}"
        body = [f"choice enum {name}($x in {over}):"]
        choice = Declared(name, (over,), values)
        for value in values:
            body.append(f"  value {value}:")
            if self.backbone.fillers and value != "P":
                body.append('    requires "$x.is_live"')
            if self._chance(20):
                body.append(f"    requires {self._formula({'x': over}, depth=1)}")
        if len(values) > 2 and self._chance(40):
            body.append("  alias PQ = P | Q:")
            choice = Declared(name, (over,), (*values, "PQ"))
        self.lines.append("\n".join([*body, "end"]))
        self.choices.append(choice)

    def _pair(self, symmetry: str) -> None:
        left = self._set()
        is_local = NEAR in self.favoured and self._chance(70)
        right = left if symmetry else self._one([*([] if is_local else [self._set()]), *LOCAL])
        most = self._between(2, 4 if symmetry == "antisymmetric" else 3)
        fitting = self._fitting_pairs(left, most) if symmetry else self._fitting((left, right), most, 2)
        if fitting is None:
            return
        sets, count = fitting
        values = self._values(count)
        name = f"pair{len(self.choices)}"
        body = [f"choice enum {name}($x in {sets[0]}, $y in {sets[1]}):"]
        if symmetry == "symmetric":
            body.append("  symmetric")
        elif symmetry:
            body += ["  antisymmetric:", "    P -> Q"] + (["    R -> S"] if len(values) > 3 else [])
        body += [f"  value {value}:" for value in values]
        self.lines.append("\n".join([*body, "end"]))
        self.choices.append(Declared(name, sets, values, symmetry=symmetry or "none"))

    def _fitting_pairs(self, over: str, values: int) -> tuple[tuple[str, ...], int] | None:
        """The same for the unordered pairs of one set."""
        for name in (over, "Reds", "Blues"):
            if self.backbone.fillers and name == "Items":
                continue
            for count in range(values, 1, -1):
                pairs = self._bindings((name, name)) // 2
                if pairs and self._fits(float(count) ** pairs):
                    return (name, name), count
        return None

    def _triple(self) -> None:
        """Over three parameters."""
        third = self._one(LOCAL) if self._chance(60) else self._set()
        fitting = self._fitting((self._set(), self._set(), third), 2, 2)
        if fitting is None:
            fitting = self._fitting(("Reds", "Blues", self._one(LOCAL)), 2, 2)
        if fitting is None:
            return
        sets, count = fitting
        values = self._values(count)
        name = f"triple{len(self.choices)}"
        head = f"choice enum {name}($x in {sets[0]}, $y in {sets[1]}, $z in {sets[2]}):"
        self.lines.append("\n".join([head, *(f"  value {value}:" for value in values), "end"]))
        self.choices.append(Declared(name, sets, values, symmetry="none"))

    def _ordered(self) -> None:
        fitting = self._fitting((self._set(),), 3, 3)
        if fitting is None:
            return
        (over,), _ = fitting
        name = f"rank{len(self.choices)}"
        body = [f"choice ordered enum {name}($x in {over}):", "  LOW < MID < TOP"]
        if self.backbone.fillers:
            body += [f'  value {value}: requires "$x.is_live"' for value in ORDER[1:]]
        self.lines.append("\n".join([*body, "end"]))
        self.choices.append(Declared(name, (over,), ORDER, is_ordered=True))

    def _integer(self) -> None:
        universe = self._one(["$x.sizes", "$x.sizes", "$x.sizes", "range(1, $x.weight + 2)", "[1, 2, 3]"])
        if self.backbone.fillers or self._is_large:
            universe = "$x.sizes"
        offered = {
            "$": [len(sizes) for sizes in self.backbone.sizes],
            "r": [weight + 1 for weight in self.backbone.weights],
            "[": [3 for _ in self.backbone.sizes],
        }[universe[0]]
        for over in (self._set(), "Reds", "Blues"):
            members = self._members(over)
            if members and self._fits(math.prod(float(offered[i % len(offered)]) for i in members)):
                name = f"size{len(self.choices)}"
                self.lines.append(f'choice integer {name}($x in {over}): "{universe}" end')
                self.choices.append(Declared(name, (over,)))
                return

    @property
    def _is_large(self) -> bool:
        """Whether the integers come near what there is a word for."""
        return any(size > 1 << 40 for sizes in self.backbone.sizes for size in sizes)

"""Random conditions of generated spaces, over the choices that have been declared.

In: a source of random choices, variables with the sets that they range over. Out: text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

NEAR = "Near($x)"
IMAGE = "Near(next($x))"
LOCAL = (NEAR, IMAGE)
"""Sets for each object of the parameter before; the second for what a map gives of it."""


@dataclass(frozen=True, slots=True)
class Declared:
    name: str
    params: tuple[str, ...]
    """The sets of its parameters."""
    values: tuple[str, ...] = ()
    """Empty: an integer."""
    visible: bool = True
    """False for counters that show only that they stay below something."""
    is_sum: bool = False
    is_product: bool = False
    symmetry: str = ""
    is_ordered: bool = False
    is_quantity: bool = False


@dataclass(slots=True)
class Formulas:
    rng: random.Random
    choices: list[Declared] = field(default_factory=list)
    may_apply_maps: bool = True
    mapping: int = 15
    """How often a map stands in the place of a variable, in percent."""
    affinity: int = 20
    """How often an integer is multiplied, and how often something is added to it."""
    nesting: int = 25
    """How often a formula is something else than a disjunction."""
    numbers: Sequence[int] = tuple(range(7))
    """What integers are compared with."""
    within: dict[str, set[str]] = field(
        default_factory=lambda: {
            "Items": {"Items"},
            "Reds": {"Items", "Reds"},
            "Blues": {"Items", "Blues"},
            "Near": {"Items"},
            "Beyond": {"Items"},
        }
    )
    """The sets that a parameter may range over to take a variable of this set."""

    # ---- Chance ----

    def _between(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def _pick(self, options: Sequence[Callable[..., None]]) -> Callable[..., None]:
        return options[self.rng.randrange(len(options))]

    def _one(self, options: Sequence[str]) -> str:
        return options[self.rng.randrange(len(options))]

    def _chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def _some(self, count: int, percent: int = 60) -> tuple[int, ...]:
        return tuple(i for i in range(count) if self._chance(percent))

    def _local(self, variable: str) -> str:
        """A set that belongs to an object."""
        return self._one([*LOCAL, "Beyond($x)"]).replace("$x", f"${variable}")

    # ---- Conditions ----

    def _formula(self, variables: dict[str, str], depth: int, limits: bool = False) -> str:
        """Mostly disjunctions: many of the others together leave no solution.

        `limits`: whether counters that show only that they stay below something may be used here.
        """
        if depth <= 1 or self._chance(15):
            return self._literal(variables, limits)
        if not self._chance(self.nesting):
            operands = [self._formula(variables, depth - 1, limits) for _ in range(self._between(2, 3))]
            return " || ".join(self._bracketed(o) for o in operands)
        positive = self._formula(variables, depth - 1, limits)
        shape = self.rng.randrange(5)
        if shape == 4:
            return f"!({self._formula(variables, depth - 1)})"
        other = self._formula(variables, depth - 1)
        if shape < 2:
            return f"{self._bracketed(other)} => {self._bracketed(positive)}"
        return f"{self._bracketed(other)} && {self._bracketed(positive)}"

    @staticmethod
    def _bracketed(formula: str) -> str:
        return f"({formula})" if " || " in formula or " && " in formula or " => " in formula else formula

    def _literal(self, variables: dict[str, str], limits: bool) -> str:
        allowed = [c for c in self.choices if c.visible or limits]
        usable = [(c, u) for c in allowed for u in [self._use(c, variables)] if u is not None]
        if not usable or self._chance(4):
            variable = self._one(sorted(variables))
            tests = [
                f'"${variable}.is_odd"',
                f'"${variable}.weight < 3"',
                f'"${variable}.weight != 2"',
                f'"$device.limit {self._one(["<", ">"])} 3"',
                "true",
            ]
            if self.may_apply_maps and len(variables) > 1:
                tests[-1] = f"next(${min(variables)}) != next(${max(variables)})"
            return self._one(tests if usable else tests[1:])
        choice, use = usable[self.rng.randrange(len(usable))]
        if not choice.values:
            return self._comparison(choice, use, variables)
        if choice.is_ordered and (choice.is_quantity or self._chance(60)):
            return self._order(choice, use, variables)
        again = [(c, self._use(c, variables)) for c, _ in usable if c.values == choice.values]
        same = [u for c, u in again if u and not c.is_quantity and self._is_other(u, use)]
        if same and self._chance(40):
            return f"{use} {self._one(['==', '!='])} {self._one(same)}"
        return self._test(choice, use)

    def _order(self, choice: Declared, use: str, variables: dict[str, str]) -> str:
        """Against a value, a string that names one, or something of the same order."""
        others = [
            u
            for c in self.choices
            if c.values == choice.values
            for u in [self._use(c, variables)]
            if u and self._is_other(u, use)
        ]
        value = self._one(choice.values)
        variable = self._one(sorted(variables))
        named = f"\"'{value}' if ${variable}.is_odd else '{self._one(choice.values)}'\""
        operator = self._one(["==", "!=", "<", "<=", ">", ">="])
        return f"{use} {operator} {self._one([value, named, *others])}"

    def _is_other(self, use: str, compared: str) -> bool:
        """Comparing something with itself decides nothing, and is rarely wanted."""
        return use != compared or self._chance(5)

    def _test(self, choice: Declared, use: str) -> str:
        values = self._one(choice.values)
        if self._chance(30):
            values += f" | {self._one(choice.values)}"
        return f"{use} is {'not ' if self._chance(40) else ''}{values}"

    def _comparison(self, choice: Declared, use: str, variables: dict[str, str]) -> str:
        if not choice.visible:
            return f"{use} {self._one(['<', '<='])} {self._between(1, 5)}"
        operator = self._one(["==", "!=", "<", "<=", ">", ">="])
        others = [
            u
            for c in self.choices
            if not c.values and c.visible
            for u in [self._use(c, variables)]
            if u and self._is_other(u, use)
        ]
        left = f"{self._between(2, 3)} * {use}" if self._chance(self.affinity) else use
        if self._chance(self.affinity):
            left += f" + {self._between(1, 2)}"
        right = self._one([str(number) for number in self.numbers])
        if others and self._chance(50):
            right = self._one(others)
            if self._chance(30):
                right += self._one([" + 1", ' + "$kernel.few"', " - 1"])
        elif self._chance(30):
            right = f'"${self._one(sorted(variables))}.weight + 1"'
        return f"{left} {operator} {right}"

    def _use(self, choice: Declared, variables: dict[str, str]) -> str | None:
        """The choice on distinct variables whose sets lie in those of its parameters, if there are such."""
        free = sorted(variables)
        self.rng.shuffle(free)
        args: list[str] = []
        for param in choice.params:
            fitting = [v for v in free if self._may_be(variables[v], param, args)]
            if not fitting:
                return None
            free.remove(fitting[0])
            is_mapped = len(choice.params) == 1 and param == "Items" and self.may_apply_maps
            mapped = is_mapped and self._chance(self.mapping)
            args.append(f"next(${fitting[0]})" if mapped else f"${fitting[0]}")
        return f"{choice.name}({', '.join(args)})"

    def _may_be(self, over: str, param: str, args: Sequence[str]) -> bool:
        """Whether a variable of the set may stand for the parameter, after the arguments before it."""
        if param in LOCAL:
            around = args[0]
            also = [f"Beyond({around})"] if param == IMAGE else []
            return over in (param.replace("$x", around), *also)
        return param in self.within[over.split("(", maxsplit=1)[0]]

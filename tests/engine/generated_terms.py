"""Random terms of quantities, over the choices that have been declared.

In: a source of random choices, variables with the sets that they range over. Out: text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.engine.generated_formulas import Declared, Formulas


@dataclass(slots=True)
class Terms(Formulas):
    quotients: list[str] = field(default_factory=list)
    local_quotients: list[str] = field(default_factory=list)
    """Those of the items near another one."""

    def term(self, variables: dict[str, str], depth: int) -> str:
        """An integer."""
        if depth == 0 or self._chance(15):
            return self._leaf(variables)
        shape = self.rng.randrange(9)
        if shape < 2:
            first, second = self.term(variables, depth - 1), self.term(variables, depth - 1)
            return f"({first} {self._one(['+', '-'])} {second})"
        if shape == 2:
            return f"({self._one(['2', '3', '-1'])} * {self.term(variables, depth - 1)})"
        if shape == 3:
            first, second = self.term(variables, depth - 1), self.term(variables, depth - 1)
            return f"{self._one(['min', 'max'])}({first}, {second})"
        if shape == 4:
            divisor = self._one(["2", "3", f"max(1, {self.term(variables, depth - 1)})"])
            return f"{self._one(['floor', 'ceil'])}({self.term(variables, depth - 1)}, {divisor})"
        if shape == 5 and variables:
            then, otherwise = self.term(variables, depth - 1), self.term(variables, depth - 1)
            return f"(({self._formula(variables, 1)}) ? {then} : {otherwise})"
        enums = self._readable(variables, is_enum=True)
        if shape == 6 and enums:
            choice, use = enums[self.rng.randrange(len(enums))]
            value = self._one([v for v in choice.values if v != "PQ"])
            then, otherwise = self.term(variables, depth - 1), self.term(variables, depth - 1)
            return f"case {use} {{ {value}: {then}, else: {otherwise} }}"
        return self._aggregate(variables, depth)

    def places(self, variables: dict[str, str], order: Sequence[str]) -> str:
        """A place in an order."""
        uses = [u for c in self.choices if c.values == order for u in [self._use(c, variables)] if u]
        first = self._one([*uses, *order])
        shape = self.rng.randrange(4)
        if shape == 0 and variables:
            return f"({self._formula(variables, 1)}) ? {first} : {self._one([*uses, *order])}"
        if shape == 1:
            return f"{self._one(['min', 'max'])}({first}, {self._one([*uses, *order])})"
        over = self._one(["Items", *self.quotients])
        inner = {**variables, f"n{len(variables)}": over}
        added = [u for c in self.choices if c.values == order for u in [self._use(c, inner)] if u]
        if shape == 2 and added:
            name = f"n{len(variables)}"
            return f"max({first}, {self._one(['min', 'max'])} ${name} in {over}: {self._one(added)})"
        return first

    def _aggregate(self, variables: dict[str, str], depth: int) -> str:
        name = f"n{len(variables)}"
        around = [v for v in variables if self._chance(40)]
        everything = ["Items", "Reds", "Blues", "Near", *self.quotients * 2]
        over = self._belonging_to(around[0]) if around else self._one(everything)
        where = f' where "${name}.is_odd"' if self._chance(15) else ""
        body = self.term({**variables, name: over}, depth - 1)
        function = self._one(["sum", "sum", "prod", "min", "max"])
        text = f"{function} ${name} in {over}{where}: ({body})"
        return f"({text})" if function in ("sum", "prod") else f"{self._one(['min', 'max'])}(2, {text})"

    def _belonging_to(self, variable: str) -> str:
        """A set of an object, or the representatives in one."""
        return self._one([self._local(variable), *(f"{q}(${variable})" for q in self.local_quotients)])

    def _leaf(self, variables: dict[str, str]) -> str:
        options = ["0", "1", "2", '"$kernel.few"', *(f'"${v}.weight"' for v in variables)]
        options += [use for _, use in self._readable(variables, is_enum=False)] * 3
        return self._one(options)

    def _readable(self, variables: dict[str, str], is_enum: bool) -> list[tuple[Declared, str]]:
        """What a term may read: counters that show both ends, integers, quantities; or enums."""
        declared = [c for c in self.choices if c.visible and bool(c.values) is is_enum]
        declared = [c for c in declared if not (is_enum and c.is_quantity)]
        return [(c, u) for c in declared for u in [self._use(c, variables)] if u is not None]

"""Updates that keep the best of what they meet: `argmax`, and tuples in which one value decides about all.

In: an update. Out: a `Best`, where nothing but a comparison of one of its values with the old one decides
whether all of them take the place of the old ones; None for all others. The best of several parts of its
points, each by itself, is the best of all, as long as parts come in their order: that decides between equals.
What is no number is never better, and nothing is better than it. When and where points are met is for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Binary,
    Compare,
    Expression,
    Read,
    Select,
    Stage,
    Update,
    walk,
)

Order = Literal["<", "<=", ">", ">="]
_TURNED: Mapping[str, Order] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Best:
    """What a point offers, and when that is taken: nothing here reads the stage."""

    values: tuple[Expression, ...]
    decisive: int
    """Which of the values is compared with the one that there is."""
    comparator: Order
    """How it has to compare, the new one on the left."""
    condition: Expression | None
    """Of points that offer something."""

    @property
    def dtype(self) -> DType:
        """Of what is compared."""
        return self.values[self.decisive].dtype

    @property
    def extreme(self) -> Literal["min", "max"]:
        return "max" if self.comparator in (">", ">=") else "min"

    @property
    def is_first(self) -> bool:
        """Of several that are equal; else the last one is kept."""
        return self.comparator in ("<", ">")


def best(stage: Stage, update: Update) -> Best | None:
    """Written either way: values that are selected, or all of them under a condition."""
    old = [Read(stage.name, update.point, dtype, element) for element, dtype in enumerate(stage.dtypes)]
    terms, values = [*_terms(update.condition)], update.values
    if (selected := _selected(values, old)) is not None:
        terms, values = [*terms, *_terms(selected[0])], selected[1]
    deciding = [term for term in terms if _reads(term, stage.name)]
    if len(deciding) != 1 or any(_reads(part, stage.name) for part in (*values, *update.point)):
        return None
    compared = _compared(deciding[0], values, old)
    if compared is None:
        return None
    others = [term for term in terms if term is not deciding[0]]
    condition = reduce(lambda a, b: Binary("&&", a, b), others) if others else None
    return Best(values, *compared, condition)


def _selected(
    values: tuple[Expression, ...], old: list[Read]
) -> tuple[Expression, tuple[Expression, ...]] | None:
    """Under which condition, the same for all, which new values take the place of the old ones."""
    found: list[Select] = []
    for value, before in zip(values, old, strict=True):
        if not isinstance(value, Select) or value.no != before:
            return None
        found.append(value)
    condition = found[0].condition
    if any(each.condition != condition for each in found):
        return None
    return condition, tuple(each.yes for each in found)


def _compared(term: Expression, values: tuple[Expression, ...], old: list[Read]) -> tuple[int, Order] | None:
    """Which value is compared with the old one, and how."""
    if not isinstance(term, Compare) or term.left.dtype is DType.BOOL:
        return None
    turned = _TURNED.get(term.operator)
    for element, pair in enumerate(zip(values, old, strict=True)):
        if turned is not None and pair == (term.left, term.right):
            return element, _TURNED[turned]
        if turned is not None and pair == (term.right, term.left):
            return element, turned
    return None


def _terms(condition: Expression | None) -> Iterator[Expression]:
    """What has to hold, each by itself."""
    if isinstance(condition, Binary) and condition.operator == "&&":
        yield from _terms(condition.left)
        yield from _terms(condition.right)
    elif condition is not None:
        yield condition


def _reads(node: Expression, stage: str) -> bool:
    return any(isinstance(part, Read) and part.source == stage for part in walk(node))

"""Conditions that say nothing, or cannot hold, whatever the kernel.

In: formulas of the typed space. Out: whether one is always true or always false for what stands in it alone;
host expressions and comparisons of integers count as open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spacedsl.language import space


def truth(formula: space.Formula, full: Mapping[str, int]) -> bool | None:
    """Its value where that is certain; `full` gives the mask of all values of each enum."""
    match formula:
        case space.Constant(value):
            return value
        case space.Is(use, mask):
            return _whole(mask, full[use.choice])
        case space.Not(operand):
            inner = truth(operand, full)
            return None if inner is None else not inner
        case space.Or(operands):
            return _any_of(operands, full)
        case space.And(operands):
            # By De Morgan: a conjunction fails where the disjunction of the negations holds.
            negated = _any_of([_negation(o, full) for o in operands], full)
            return None if negated is None else not negated
        case _:
            return None


def _any_of(operands: Iterable[space.Formula], full: Mapping[str, int]) -> bool | None:
    """Whether one of them holds; tests of one choice are looked at together."""
    masks: dict[space.Use, int] = {}
    values: list[bool | None] = []
    for operand in operands:
        if isinstance(operand, space.Is):
            masks[operand.use] = masks.get(operand.use, 0) | operand.mask
        else:
            values.append(truth(operand, full))
    values += [_whole(mask, full[use.choice]) for use, mask in masks.items()]
    if True in values:
        return True
    return None if None in values else False


def _negation(formula: space.Formula, full: Mapping[str, int]) -> space.Formula:
    if isinstance(formula, space.Is):
        return space.Is(formula.use, full[formula.use.choice] & ~formula.mask, formula.span)
    return space.Not(formula)


def _whole(mask: int, full: int) -> bool | None:
    if mask == full:
        return True
    return None if mask else False

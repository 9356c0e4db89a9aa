"""Declarations of quotients: which objects of a set represent the classes of an equivalence.

In: a declaration and the names in force. Out: the choice that says which object represents its class, and a
`space.Quotient`; what is wrong is reported. Whether quotients depend on each other is for `dependencies.py`.
"""

from __future__ import annotations

from spacedsl.language import sets, space, syntax
from spacedsl.language.conditions import Conditions, Purpose
from spacedsl.language.names import Names


def representative(names: Names, declaration: syntax.Quotient) -> space.EnumChoice | None:
    """The derived choice that says which object represents its class."""
    scope = names.parameters((*declaration.params, declaration.item))
    if scope is None:
        return None
    return space.EnumChoice(
        name=declaration.representative.text,
        params=tuple(scope.values()),
        values=("FALSE", "TRUE"),
        value_docs=("", ""),
        aliases={},
        symmetry=space.Symmetry.NONE,
        inverse=(0, 1),
        doc=declaration.doc,
        span=declaration.representative.span,
    )


def check_quotient(
    names: Names, declaration: syntax.Quotient, representative: space.EnumChoice | None
) -> space.Quotient | None:
    """`representative` is the header; None where it is wrong, or another declaration has its name."""
    ignored = (*sets.IGNORED_KEYS, "iterator")
    sets.check_keys(names, declaration.keys, ("type",), ignored)
    if representative is None:
        return None
    scope = {p.name: p for p in representative.params}
    condition = Conditions(names, scope, Purpose.OBSERVED).formula(declaration.condition)
    mask = _equivalence(names, declaration.equivalence, representative.params[-1])
    if condition is None or mask is None:
        return None
    return space.Quotient(
        set=declaration.name.text,
        params=representative.params[:-1],
        item=representative.params[-1],
        maps=tuple(binder for binder in scope.values() if binder.by_map),
        representative=representative.name,
        condition=condition,
        equivalence=declaration.equivalence.choice.text,
        equivalence_mask=mask,
        doc=declaration.doc,
        span=declaration.name.span,
    )


def _equivalence(names: Names, equivalence: syntax.Equivalence, item: space.Binder) -> int | None:
    """The values for which two objects are equivalent; the relation must be symmetric."""
    choice = names.find_value(equivalence.choice)
    if choice is None:
        return None
    if (
        not isinstance(choice, space.EnumChoice)
        or len(choice.params) != 2
        or not all(names.includes(names.meant(item.set), names.meant(p.set)) for p in choice.params)
    ):
        message = f"`{equivalence.choice.text}` does not relate two objects of {item.set.name}"
        hint = f"an enum with two parameters of {item.set.name} or of a superset"
        names.report.error("SP071", message, equivalence.span, hint)
        return None
    mask = names.value_mask(choice, equivalence.values)
    if mask is None:
        return None
    if choice.symmetry is space.Symmetry.NONE or choice.invert(mask) != mask:
        message = "this equivalence is not symmetric"
        hint = "declare the choice `symmetric`, or `antisymmetric:` with values that are their own inverse"
        names.report.error("SP070", message, equivalence.span, hint, (choice.span, "declared here"))
        return None
    return mask

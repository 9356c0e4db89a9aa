"""The scope of a formula or term of a quantity: what its variables and host expressions stand for.

In: the objects of an instance, and the ids that the variables of a quantity or a requirement are bound to.
Out: ids of objects, and integers. A map application is looked up once it is read, and not before. What has no
value is a located error; whether something may be read at all is decided in `terms.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.engine.objects import Objects
from spacedsl.language.host_runtime import describe
from spacedsl.language.space import Binder, Use


@dataclass(slots=True)
class Scope:
    """Variables: their ids, and the maps by which others are found when they are read."""

    objects: Objects
    ids: dict[str, int]
    maps: Mapping[str, Binder]
    taken: frozenset[int]
    """The objects that aggregated ones are distinct from: those that are not by a map."""
    order: tuple[str, ...]
    """The values, if the quantity has an ordered enum's type."""
    span: Span

    def id(self, variable: str) -> int:
        """The object of a variable; of a map application, once it is read."""
        found = self.ids.get(variable)
        if found is None:
            binder = self.maps[variable]
            key = self.key(binder.set.args)
            members = self.objects.members[binder.set.name].get(key, {})
            if not members:
                shown = ", ".join(self.objects.names[k] for k in key)
                message = f"{binder.set.name}({shown}) has no value"
                raise located("SP432", message, binder.span, "read it in a branch that is impossible there")
            (found,) = members
            self.ids[variable] = found
        return found

    def key(self, variables: tuple[str, ...]) -> tuple[int, ...]:
        if len(variables) == 1:
            return (self.id(variables[0]),)
        ids = self.ids
        return tuple([ids[v] if v in ids else self.id(v) for v in variables])

    def place(self, value: object, order: tuple[str, ...], span: Span) -> int:
        """Of what a host expression names in an order; an integer where there is none."""
        if isinstance(value, str) and value in order:
            return order.index(value)
        if order:
            shown = value if isinstance(value, str) else describe(value)
            message = f"this is {shown}, not one of {', '.join(order)}"
            raise located("SP414", message, span)
        if not isinstance(value, int):
            message = f"an integer is needed here, and this is {describe(value)}"
            raise located("SP412", message, span)
        return int(value)

    def outside(self, use: Use, key: tuple[int, ...], span: Span | None) -> DiagnosticError:
        """What says that there is no such choice or quantity, at the place where it is read."""
        span = span or self.span
        shown = f"{use.choice}({', '.join(self.objects.names[k] for k in key)})"
        if len(set(key)) < len(key):
            return located("SP433", f"{shown} has one object twice", span)
        hint = "read it in a branch that is impossible there"
        return located("SP444", f"there is no {shown}: an object lies outside of its sets", span, hint)


def located(code: str, message: str, span: Span, hint: str | None = None) -> DiagnosticError:
    return DiagnosticError([Diagnostic(code, message, span, hint)])

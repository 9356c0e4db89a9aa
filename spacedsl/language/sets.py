"""Checks the declarations of sets: what they claim of each other, and their keys.

In: the sets of a file and the table of all names. Out: `space.SetDef`s; claims about objects (is each of them
in the superset?) can only be verified on a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from spacedsl.diagnostics import Span
from spacedsl.language import space, syntax
from spacedsl.language.cycles import by_need
from spacedsl.language.headers import SetHeader
from spacedsl.language.host import HostExpression
from spacedsl.language.inclusion import Meant, as_written, without
from spacedsl.language.names import Names, variables
from spacedsl.language.report import did_you_mean

KEYS = ("type", "iterator", "reverse")

IGNORED_KEYS = (
    "item_type",
    "id_type",
    "item_getter",
    "id_getter",
    "var_prefix",
    "new_objs",
    "from_superset",
    "add_to_set",
)
"""Keys of older files, which only a statically typed host needs."""


def header(declaration: syntax.Set | syntax.Quotient) -> SetHeader:
    """The set's name, parameters and supersets as they are written; nothing is looked up."""
    uses = declaration.supersets if isinstance(declaration, syntax.Set) else (declaration.item.set,)
    return SetHeader(
        name=declaration.name,
        params=tuple(p.variable.name for p in declaration.params),
        param_sets=tuple(as_written(p.set) for p in declaration.params),
        supersets=tuple(as_written(use) for use in uses),
    )


def check_cycles(names: Names, declarations: Iterable[syntax.Set | syntax.Quotient]) -> None:
    """Reports sets that lie in themselves, and sets whose parameters need the set itself."""
    declared = {d.name.text: d for d in declarations}
    supersets = {name: [s.name for s in names.sets[name].supersets] for name in declared}
    params = {name: [p.set.name.text for p in d.params] for name, d in declared.items()}
    for edges, words in ((supersets, "is a subset of itself"), (params, "has itself as a parameter")):
        for cycle in by_need(edges)[1]:
            span = declared[cycle[0]].name.span
            names.report.error("SP022", f"`{cycle[0]}` {words}", span, " -> ".join(cycle))
            # What has been reported goes on without end no more.
            for name in cycle if edges is supersets else ():
                left = names.sets[name]
                names.sets[name] = replace(left, supersets=without(cycle, left.supersets))


def check_set(names: Names, declaration: syntax.Set) -> space.SetDef | None:
    """The set; None where something is wrong with it, which has been reported."""
    scope = names.parameters(declaration.params)
    if scope is None:
        check_keys(names, declaration.keys, KEYS)
        return None
    supersets = []
    for use in declaration.supersets:
        ref = names.set_ref(use, scope)
        supersets.append(None if ref is None else names.claimed(ref, scope, use.span))
    _check_disjoint(names, declaration)
    keys = check_keys(names, declaration.keys, KEYS)
    for key in keys.values():
        if key.binding is not None and key.name.text != "reverse":
            names.report.error(
                "SP024", f"`{key.name.text}` takes no `forall`", key.binding.span, "only `reverse` does"
            )
    reverse = _reverse(names, declaration, keys.get("reverse"))
    if "iterator" not in keys:
        if any(key.name.text not in (*KEYS, *IGNORED_KEYS) for key in declaration.keys):
            return None  # most likely the key that was meant, and reported
        hint = 'add `iterator = "$kernel.objects"`, an expression for the objects of the set'
        names.report.error(
            "SP020", f"`{declaration.name.text}` has no `iterator`", declaration.name.span, hint
        )
        return None
    iterator = names.host(keys["iterator"].host, scope)
    if iterator is None or None in supersets:
        return None
    return space.SetDef(
        name=declaration.name.text,
        params=tuple(variables(scope).values()),
        supersets=tuple(s for s in supersets if s is not None),
        disjoint=tuple(n.text for n in declaration.disjoint),
        iterator=iterator,
        type_name=keys["type"].host.text.strip() if "type" in keys else None,
        reverse=reverse,
        doc=declaration.doc,
        span=declaration.name.span,
    )


def check_keys(
    names: Names, keys: Iterable[syntax.Key], known: tuple[str, ...], ignored: tuple[str, ...] = IGNORED_KEYS
) -> dict[str, syntax.Key]:
    """The keys by name, without those that are ignored."""
    found: dict[str, syntax.Key] = {}
    given: dict[str, Span] = {}
    for key in keys:
        name = key.name.text
        if name in given:
            first = (given[name], "it is given here")
            names.report.error(
                "SP021", f"`{name}` is given twice", key.name.span, "remove one of the two", first
            )
            continue
        given[name] = key.name.span
        if name in ignored:
            names.report.note(
                "SP100", f"`{name}` is ignored", key.name.span, "objects need no description of their type"
            )
        elif name not in known:
            hint = did_you_mean(name, known, f"the keys are {', '.join((*known, 'disjoint'))}")
            names.report.error("SP021", f"unknown key `{name}`", key.name.span, hint)
        else:
            found[name] = key
    return found


def _check_disjoint(names: Names, declaration: syntax.Set) -> None:
    for other in declaration.disjoint:
        if names.find_set(other) is None:
            continue
        if names.overlap(Meant(declaration.name.text), Meant(other.text)):
            message = f"`{declaration.name.text}` cannot be disjoint from `{other.text}`"
            names.report.error("SP025", message, other.span, "one is a subset of the other")


def _reverse(
    names: Names, declaration: syntax.Set, key: syntax.Key | None
) -> tuple[space.Binder, HostExpression] | None:
    if key is None:
        return None
    if key.binding is None:
        hint = f'`reverse forall $x in SUPERSET = "{key.host.text}"`'
        names.report.error("SP023", "`reverse` needs a `forall`", key.span, hint)
        return None
    if len(declaration.params) != 1 or not declaration.supersets:
        message = "`reverse` needs a set with one parameter and a superset"
        names.report.error(
            "SP023", message, key.span, "it lists the arguments whose instance holds an object"
        )
        return None
    scope = names.parameters([key.binding])
    if scope is None:
        return None
    (binder,) = scope.values()
    above = [use.name.text for use in declaration.supersets]
    if binder.set.args or binder.set.name not in above:
        hint = f"quantify over {' or '.join(above)}"
        message = f"{names.meant(binder.set)} is no superset of `{declaration.name.text}`"
        names.report.error("SP023", message, key.binding.set.span, hint)
        return None
    host = names.host(key.host, scope)
    return None if host is None else (binder, host)

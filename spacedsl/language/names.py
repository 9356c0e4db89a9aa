"""The names that a file declares, and which objects a variable can stand for.

In: the declarations of a file and all that it includes. Out: tables of sets and choices, `Scope`s of
variables, and whether one set lies in another by what the file claims. Conditions are not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.diagnostics import DiagnosticError, Span
from spacedsl.language import space, syntax
from spacedsl.language.host import AMBIENT, HostExpression, HostKind, host_expression
from spacedsl.language.report import Report, did_you_mean

RESERVED_VARIABLES = (*AMBIENT, "fun")

Scope = Mapping[str, space.Binder]
"""The variables in scope, in the order in which they were bound."""


@dataclass(frozen=True, slots=True)
class SetNames:
    """What can be said of a set from its header alone."""

    name: syntax.Name
    params: tuple[str, ...]
    param_sets: tuple[space.SetRef, ...]
    """Of each parameter, over the names of those before it."""
    supersets: tuple[space.SetRef, ...]
    """Over the names of the parameters."""


@dataclass(frozen=True, slots=True)
class CounterNames:
    """What can be said of a counter from its header alone; `position` orders the declarations."""

    name: str
    params: tuple[space.Binder, ...]
    visibility: space.Visibility
    product: bool
    position: int
    span: Span


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A declared name that cannot be used yet: its declaration has been reported, its uses need not be."""

    span: Span


ChoiceNames = space.EnumChoice | space.IntegerChoice | CounterNames | Unsupported


@dataclass(slots=True)
class Names:
    report: Report
    sets: dict[str, SetNames] = field(default_factory=dict)
    choices: dict[str, ChoiceNames] = field(default_factory=dict)
    used_sets: set[str] = field(default_factory=set)
    used_choices: set[str] = field(default_factory=set)

    # Sets

    def includes(self, inner: space.SetRef, outer: space.SetRef) -> bool:
        """Whether every object of `inner` lies in `outer`, by the supersets that are declared."""
        stack, seen = [inner], set()
        while stack:
            ref = stack.pop()
            if ref.name == outer.name and (not outer.args or ref.args == outer.args):
                return True
            if ref in seen or ref.name not in self.sets:
                continue
            seen.add(ref)
            header = self.sets[ref.name]
            actual = dict(zip(header.params, ref.args, strict=False))
            for superset in header.supersets:
                args = tuple(actual[a] for a in superset.args if a in actual)
                # Where an argument is not known, what is left is the union of the superset's instances.
                complete = len(args) == len(superset.args)
                stack.append(space.SetRef(superset.name, args if complete else ()))
        return False

    def overlap(self, left: space.SetRef, right: space.SetRef) -> bool:
        """Whether one of the two lies in the other."""
        return self.includes(left, right) or self.includes(right, left)

    def set_ref(self, use: syntax.SetUse, scope: Scope) -> space.SetRef | None:
        """The set that is meant; None where something is wrong with it, which has been reported."""
        header = self.find_set(use.name)
        args = self.variables(use.args, scope)
        if header is None or args is None:
            return None
        if args and len(args) != len(header.params):
            self._wrong_count(use.name, len(header.params), len(args), use.span)
            return None
        if args and not self._fit(header.params, header.param_sets, use.args, scope):
            return None
        return space.SetRef(use.name.text, args)

    def _fit(
        self,
        params: Sequence[str],
        sets: Sequence[space.SetRef],
        args: Sequence[syntax.Argument],
        scope: Scope,
    ) -> bool:
        """Whether each argument, a variable in scope, can only stand for objects of its parameter's set."""
        variables = [a for a in args if isinstance(a, syntax.Variable)]
        actual = {param: v.name for param, v in zip(params, variables, strict=True)}
        ok = True
        for of, variable in zip(sets, variables, strict=True):
            expected = space.SetRef(of.name, tuple(actual[a] for a in of.args if a in actual))
            if not self.includes(scope[variable.name].set, expected):
                self._outside(variable.name, scope[variable.name], expected, variable.span)
                ok = False
        return ok

    def find_set(self, name: syntax.Name) -> SetNames | None:
        if name.text not in self.sets:
            hint = did_you_mean(name.text, self.sets, f'declare it: `set {name.text}: iterator = "..." end`')
            self.report.error("SP012", f"unknown set `{name.text}`", name.span, hint)
            return None
        self.used_sets.add(name.text)
        return self.sets[name.text]

    # Variables

    def bind(self, bindings: Iterable[syntax.Binding], scope: Scope) -> dict[str, space.Binder] | None:
        """The scope with the bindings added, in order; None where one of them is wrong."""
        extended = dict(scope)
        ok = True
        for binding in bindings:
            binder = self._binder(binding, extended)
            if binder is None:
                ok = False
            else:
                extended[binder.name] = binder
        return extended if ok else None

    def _binder(self, binding: syntax.Binding, scope: Scope) -> space.Binder | None:
        variable = binding.variable
        ref = self.set_ref(binding.set, scope)
        if variable.name in RESERVED_VARIABLES:
            self.report.error(
                "SP018", f"`${variable.name}` is always in scope", variable.span, "choose another name"
            )
            return None
        if variable.name in scope:
            self.report.error(
                "SP019",
                f"`${variable.name}` is bound twice",
                variable.span,
                "choose another name",
                (scope[variable.name].span, "it is bound here"),
            )
            return None
        if ref is None:
            return None
        binder = space.Binder(variable.name, ref, variable.span)
        if binding.where is None:
            return binder
        where = self.host(binding.where, [*scope, variable.name])
        return None if where is None else space.Binder(variable.name, ref, variable.span, where)

    def variables(self, args: Iterable[syntax.Argument], scope: Scope) -> tuple[str, ...] | None:
        """The names of variables that are arguments; None where one of them is wrong."""
        names: list[str] = []
        ok = True
        for arg in args:
            if isinstance(arg, syntax.Use):
                self.report.unsupported("a map as an argument", arg.span)
                ok = False
            elif arg.name not in scope:
                self._unknown_variable(arg.name, scope, arg.span)
                ok = False
            else:
                names.append(arg.name)
        return tuple(names) if ok else None

    def _unknown_variable(self, name: str, known: Iterable[str], span: Span) -> None:
        names = [f"${n}" for n in known]
        hint = did_you_mean(f"${name}", names, f"in scope: {', '.join(names)}" if names else None)
        self.report.error("SP015", f"unknown variable `${name}`", span, hint)

    # Choices

    def find_choice(self, name: syntax.Name) -> ChoiceNames | None:
        if name.text not in self.choices:
            hint = did_you_mean(name.text, self.choices)
            self.report.error("SP013", f"unknown choice `{name.text}`", name.span, hint)
            return None
        self.used_choices.add(name.text)
        return self.choices[name.text]

    def use(self, use: syntax.Use, scope: Scope) -> tuple[space.Use, ChoiceNames] | None:
        """A choice on variables, checked for the sets that they stand for; None where something is wrong."""
        choice = self.find_choice(use.name)
        args = self.variables(use.args, scope)
        if choice is None or args is None or isinstance(choice, Unsupported):
            return None
        if len(args) != len(choice.params):
            self._wrong_count(use.name, len(choice.params), len(args), use.span)
            return None
        params = choice.params
        ok = self._fit([p.name for p in params], [p.set for p in params], use.args, scope)
        if len(set(args)) < len(args):
            message = f"`{use.name.text}` is used twice on one object"
            self.report.error("SP016", message, use.span, "the objects of a choice are distinct")
            ok = False
        return (space.Use(use.name.text, args), choice) if ok else None

    def _outside(self, name: str, binder: space.Binder, expected: space.SetRef, span: Span) -> None:
        self.report.error(
            "SP017",
            f"`${name}` is of {show(binder.set)}, which is not a subset of {show(expected)}",
            span,
            f"quantify over {show(expected)}, or declare `{binder.set.name} subsetof {show(expected)}`",
            (binder.span, f"`${name}` is bound here"),
        )

    def _wrong_count(self, name: syntax.Name, expected: int, found: int, span: Span) -> None:
        arguments = "argument" if expected == 1 else "arguments"
        self.report.error("SP016", f"`{name.text}` takes {expected} {arguments}, not {found}", span)

    def value_mask(self, choice: space.EnumChoice, values: Iterable[syntax.Name]) -> int | None:
        """The mask of values and aliases by name; None where one does not exist."""
        mask = 0
        ok = True
        for value in values:
            if value.text in choice.aliases or value.text in choice.values:
                mask |= choice.mask(value.text)
            else:
                known = [*choice.values, *choice.aliases]
                hint = did_you_mean(value.text, known, f"it has {', '.join(known)}")
                message = f"`{choice.name}` has no value `{value.text}`"
                self.report.error("SP014", message, value.span, hint)
                ok = False
        return mask if ok else None

    # Host expressions

    def host(
        self, host: syntax.Host, scope: Iterable[str], kind: HostKind = HostKind.VALUE
    ) -> HostExpression | None:
        """The compiled expression; None where it is not allowed or uses a variable that is not in scope."""
        known = [*scope, *AMBIENT]
        try:
            expression = host_expression(host.text, host.span, kind)
        except DiagnosticError as error:
            self.report.problems.extend(error.diagnostics)
            return None
        unknown = [(name, span) for name, span in expression.uses if name not in known]
        for name, span in unknown:
            self._unknown_variable(name, known, span)
        return None if unknown else expression


def show(ref: space.SetRef) -> str:
    """A set as it is written."""
    return f"{ref.name}({', '.join('$' + a for a in ref.args)})" if ref.args else ref.name

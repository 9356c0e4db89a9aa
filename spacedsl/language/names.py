"""The names that a file declares, and which objects a variable can stand for.

In: the declarations of a file and all that it includes. Out: tables of sets and choices, `Scope`s of
variables, and whether one set lies in another by what the file claims. Conditions are not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.language import space, syntax
from spacedsl.language.applications import application, identifier
from spacedsl.language.headers import Declared, Misdeclared, SetHeader, Valued
from spacedsl.language.host import AMBIENT, HostExpression, HostKind, host_expression
from spacedsl.language.host_runtime import BUILTINS
from spacedsl.language.inclusion import Meant, includes, meant, substituted
from spacedsl.language.report import Report, did_you_mean

RESERVED_VARIABLES = (*AMBIENT, "fun")

Scope = dict[str, space.Binder]
"""The variables in scope, in the order in which they were bound. Map applications that are written as
arguments are added to it: they are variables with a name that no variable in a file can have."""


@dataclass(slots=True)
class Names:
    """All that is declared, by name; what is wrong with a use of it is reported."""

    report: Report
    sets: dict[str, SetHeader] = field(default_factory=dict)
    choices: dict[str, Declared] = field(default_factory=dict)
    images: dict[str, space.SetDef] = field(default_factory=dict)
    """What parameters and supersets with maps in their arguments stand for: no file can name them."""
    quotients: frozenset[str] = frozenset()
    """The sets of them whose members are representatives."""
    used_sets: set[str] = field(default_factory=set)
    used_choices: set[str] = field(default_factory=set)

    # Sets

    def includes(self, inner: Meant, outer: Meant) -> bool:
        """Whether every object of `inner` lies in `outer`, by the supersets that are declared."""
        return includes(inner, outer, self._claims)

    def _claims(self, name: str) -> tuple[tuple[str, ...], tuple[Meant, ...]]:
        header = self.sets.get(name)
        return ((), ()) if header is None else (header.params, header.supersets)

    def meant(self, ref: space.SetRef, scope: Mapping[str, space.Binder] = MappingProxyType({})) -> Meant:
        """A set, with the maps that its arguments stand for."""
        return meant(ref, scope, self.images)

    def overlap(self, left: Meant, right: Meant) -> bool:
        """Whether one of the two lies in the other."""
        return self.includes(left, right) or self.includes(right, left)

    def set_ref(self, use: syntax.SetUse, scope: Scope, within_branch: bool = False) -> space.SetRef | None:
        """The set that is meant; None where something is wrong with it, which has been reported."""
        header = self.find_set(use.name)
        args = self.arguments(use.args, scope, within_branch)
        if header is None or args is None:
            return None
        if args and len(args) != len(header.params):
            self._wrong_count(use.name, len(header.params), len(args), use.span)
            return None
        spans = [a.span for a in use.args]
        if args and not self._fit(header.params, header.param_sets, args, spans, scope, within_branch):
            return None
        return space.SetRef(use.name.text, args)

    def _fit(
        self,
        params: Sequence[str],
        sets: Sequence[Meant],
        args: Sequence[str],
        spans: Sequence[Span],
        scope: Scope,
        within_branch: bool,
    ) -> bool:
        """Whether each argument can only stand for objects of its parameter's set.

        `within_branch` of a quantity, which may not exist, it is enough that it can stand for some of them.
        """
        actual = dict(zip(params, self.meant(space.SetRef("", tuple(args)), scope).args, strict=True))
        ok = True
        for of, arg, span in zip(sets, args, spans, strict=True):
            expected = substituted(of, actual)
            given = self._set_of(scope[arg], scope)
            if not (self.includes(given, expected) or (within_branch and self.includes(expected, given))):
                self._outside(scope[arg], given, expected, span)
                ok = False
        return ok

    def _set_of(self, binder: space.Binder, scope: Scope) -> Meant:
        """The set that a variable ranges over; of a map application, the one that its values lie in."""
        ref = self.meant(binder.set, scope)
        mapped = self.choices.get(ref.name)
        if not binder.by_map or not isinstance(mapped, space.Map):
            return ref
        params = (param.name for param in mapped.params)
        return substituted(self.meant(mapped.target), dict(zip(params, ref.args, strict=True)))

    def find_set(self, name: syntax.Name) -> SetHeader | None:
        if name.text not in self.sets:
            hint = did_you_mean(name.text, self.sets, f'declare it: `set {name.text}: iterator = "..." end`')
            self.report.error("SP012", f"unknown set `{name.text}`", name.span, hint)
            return None
        self.used_sets.add(name.text)
        return self.sets[name.text]

    # Variables

    def bind(
        self,
        bindings: Iterable[syntax.Binding],
        scope: Scope,
        within_branch: bool = False,
        is_listing: bool = False,
    ) -> Scope | None:
        """The scope with the bindings added, in order; None where one of them is wrong.

        `is_listing`: whether objects are only gone through, so that it does not matter whom they represent.
        """
        extended = dict(scope)
        ok = True
        for binding in bindings:
            binder = self._binder(binding, extended, within_branch)
            if binder is not None and not is_listing and self._is_unknown_union(binder):
                binder = None
            if binder is None:
                ok = False
            else:
                extended[binder.name] = binder
        return extended if ok else None

    def _binder(self, binding: syntax.Binding, scope: Scope, within_branch: bool) -> space.Binder | None:
        variable = binding.variable
        ref = self.set_ref(binding.set, scope, within_branch)
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
        where = self.host(binding.where, {**scope, variable.name: binder})
        return None if where is None else space.Binder(variable.name, ref, variable.span, where)

    def _is_unknown_union(self, binder: space.Binder) -> bool:
        """Whether it follows from decisions who is in any instance of the set, which is reported."""
        name = binder.set.name
        if binder.set.args or not self.sets[name].params or not self._is_undecided(binder.set):
            return False
        message = f"the members of {name} are known only for given parameters"
        self.report.error("SP302", message, binder.span, "write its arguments")
        return True

    def parameters(self, bindings: Iterable[syntax.Binding]) -> Scope | None:
        """The scope of a declaration's parameters, over sets without maps; None where one is wrong."""
        bindings = tuple(bindings)
        spans = {binding.variable.name: binding.set.span for binding in bindings}
        scope = self.bind(bindings, {})
        if scope is None:
            return None
        own: Scope = {}
        for name, binder in scope.items():
            ref = binder.set if binder.by_map else self.without_maps(binder.set, own, spans[name])
            if ref is None:
                return None
            own[name] = replace(binder, set=ref)
        return variables(own)

    def without_maps(self, ref: space.SetRef, scope: Scope, span: Span) -> space.SetRef | None:
        """The same set over variables alone; None where it cannot be one, which is reported at `span`."""
        if not any(scope[arg].by_map for arg in ref.args):
            return ref
        if ref.name in self.quotients:
            self._undecided(ref.name, "no map can be applied in it here", span)
            return None
        needed: dict[str, space.Binder] = {}

        def need(name: str) -> None:
            for arg in scope[name].set.args:
                need(arg)
            needed.setdefault(name, scope[name])

        for arg in ref.args:
            need(arg)
        params = tuple(binder for binder in needed.values() if not binder.by_map)
        image = space.Image(tuple(binder for binder in needed.values() if binder.by_map), ref, span)
        name = "__".join((ref.name, *map(identifier, ref.args)))
        made = space.SetDef(name, params, (), (), image, None, None, "", span)
        while name in self.sets or self.images.get(name, made) != made:
            name += "_"
            made = replace(made, name=name)
        self.images[name] = made
        return space.SetRef(name, tuple(param.name for param in params))

    def claimed(self, ref: space.SetRef, scope: Scope, span: Span) -> space.SetRef | None:
        """The same of a superset, and of the set that a map's values lie in: who is in them is known."""
        if self._is_undecided(ref):
            self._undecided(ref.name, "nothing can be declared to lie in it", span)
            return None
        return self.without_maps(ref, scope, span)

    def _is_undecided(self, ref: space.SetRef) -> bool:
        """Whether it follows from decisions who is in the set; of a set with arguments, given those."""
        over = () if ref.args else self.sets[ref.name].param_sets
        return not self.quotients.isdisjoint((ref.name, *(each.name for each in over)))

    def _undecided(self, name: str, consequence: str, span: Span) -> None:
        message = f"who is in `{name}` follows from decisions: {consequence}"
        hint = "name the set that it is a quotient of, and ask in a condition who represents a class"
        self.report.error("SP026", message, span, hint)

    def arguments(
        self, args: Iterable[syntax.Argument], scope: Scope, within_branch: bool = False
    ) -> tuple[str, ...] | None:
        """The variables that are arguments; None where one of them is wrong."""
        names: list[str] = []
        ok = True
        for arg in args:
            if isinstance(arg, syntax.Use):
                name = self._apply(arg, scope, within_branch)
            elif arg.name not in scope:
                self._unknown_variable(arg.name, (n for n, b in scope.items() if not b.by_map), arg.span)
                name = None
            else:
                name = arg.name
            if name is None:
                ok = False
            else:
                names.append(name)
        return tuple(names) if ok else None

    def _apply(self, use: syntax.Use, scope: Scope, within_branch: bool) -> str | None:
        """The variable of a map application, which is added to the scope where it is not in it yet."""
        mapped = self.find_choice(use.name)
        if mapped is None or isinstance(mapped, Misdeclared):
            return None
        if not isinstance(mapped, space.Map):
            message = f"`{use.name.text}` gives no object: it cannot be an argument"
            self.report.error("SP027", message, use.span, "arguments are variables and maps on them")
            return None
        args = self._checked_arguments(use, mapped.params, scope, within_branch)
        if args is None:
            return None
        ref = space.SetRef(use.name.text, args)
        name = application(use.name.text, args)
        scope.setdefault(name, space.Binder(name, ref, use.span, by_map=True))
        return name

    def _checked_arguments(
        self, use: syntax.Use, params: Sequence[space.Binder], scope: Scope, within_branch: bool
    ) -> tuple[str, ...] | None:
        """The arguments of a choice, quantity or map, fit for its parameters; None where one is wrong."""
        args = self.arguments(use.args, scope, within_branch)
        if args is None:
            return None
        if len(args) != len(params):
            self._wrong_count(use.name, len(params), len(args), use.span)
            return None
        spans = [a.span for a in use.args]
        sets = [self.meant(param.set) for param in params]
        ok = self._fit([p.name for p in params], sets, args, spans, scope, within_branch)
        if len(set(args)) < len(args):
            message = f"`{use.name.text}` is used twice on one object"
            self.report.error("SP016", message, use.span, "the objects of a choice are distinct")
            ok = False
        return args if ok else None

    def _unknown_variable(self, name: str, known: Iterable[str], span: Span) -> None:
        names = [f"${n}" for n in known]
        otherwise = f"in scope: {', '.join(names)}" if names else f"bind it: `forall ${name} in SET:`"
        hint = did_you_mean(f"${name}", names, otherwise)
        self.report.error("SP015", f"unknown variable `${name}`", span, hint)

    # Choices

    def find_choice(self, name: syntax.Name) -> Declared | None:
        if name.text not in self.choices:
            operators = "quantities have min, max, floor, ceil; Python stands in double quotes"
            hint = did_you_mean(name.text, self.choices, operators if name.text in BUILTINS else None)
            self.report.error("SP013", f"unknown choice `{name.text}`", name.span, hint)
            return None
        self.used_choices.add(name.text)
        return self.choices[name.text]

    def find_value(self, name: syntax.Name) -> Valued | None:
        """What has a value on objects, by name; None where there is no such thing."""
        found = self.find_choice(name)
        if isinstance(found, space.Map):
            message = f"`{name.text}` is a map: it gives an object, which has no value"
            hint = f"apply a choice to it: `choice({name.text}($x))`"
            self.report.error("SP028", message, name.span, hint, (found.span, "declared here"))
            return None
        return None if isinstance(found, Misdeclared) else found

    def use(
        self, use: syntax.Use, scope: Scope, within_branch: bool = False
    ) -> tuple[space.Use, Valued] | None:
        """A choice or quantity on objects, checked for their sets; None where something is wrong."""
        choice = self.find_value(use.name)
        if choice is None:
            self.arguments(use.args, scope, within_branch)
            return None
        args = self._checked_arguments(use, choice.params, scope, within_branch)
        return None if args is None else (space.Use(use.name.text, args), choice)

    def _outside(
        self,
        binder: space.Binder,
        given: Meant,
        expected: Meant,
        span: Span,
    ) -> None:
        name = binder.span.text if binder.by_map else f"${binder.name}"
        self.report.error(
            "SP017",
            f"`{name}` is of {given}, which is not a subset of {expected}",
            span,
            f"quantify over {expected}, or declare `{given.name} subsetof {expected}`",
            *(() if binder.by_map else ((binder.span, f"`{name}` is bound here"),)),
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
        self, host: syntax.Host, scope: Mapping[str, space.Binder], kind: HostKind = HostKind.VALUE
    ) -> HostExpression | None:
        """The compiled expression; None where it is not allowed or uses a variable that is not in scope."""
        known = [name for name, binder in scope.items() if not binder.by_map] + [*AMBIENT]
        try:
            expression = host_expression(host.text, host.span, kind)
        except DiagnosticError as error:
            self.report.problems.extend(map(self._explained, error.diagnostics))
            return None
        unknown = [(name, span) for name, span in expression.uses if name not in known]
        for name, span in unknown:
            self._unknown_variable(name, known, span)
        return None if unknown else expression

    def _explained(self, problem: Diagnostic) -> Diagnostic:
        """With another hint where a host expression speaks of what is decided."""
        if problem.span.text not in self.choices:
            return problem
        return replace(problem, hint="what is decided is not known yet: ask for it outside of the quotes")


def variables(scope: Scope) -> Scope:
    """What is bound by quantifiers and parameters, without the map applications."""
    return {name: binder for name, binder in scope.items() if not binder.by_map}

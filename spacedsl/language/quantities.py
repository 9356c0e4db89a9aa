"""Checks quantities: their types, and the terms that they are computed from.

In: the quantities of a file and the table of all names. Out: `space.Quantity`s. A quantity is of integers or
of positions in the order of an ordered enum; which, its body shows: `order_of_quantity` reads it before any
term is translated, so that quantities may use each other in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from spacedsl.language import space, syntax
from spacedsl.language.conditions import Conditions, Purpose
from spacedsl.language.constants import constant
from spacedsl.language.headers import CounterHeader, Misdeclared, QuantityHeader, Valued
from spacedsl.language.names import Names, Scope
from spacedsl.language.ordered import Order, order_of, show_order, value_number

# Types


def order_of_quantity(
    names: Names, declarations: Mapping[str, syntax.Quantity], declaration: syntax.Quantity
) -> Order | Misdeclared | None:
    """The order that the values of a quantity have; None for integers.

    The first leaf that leaves no doubt decides: an integer operator, a number, or something with an order.
    Values by themselves must belong to one ordered enum.
    """
    seen: set[str] = set()
    values: list[syntax.Name] = []
    pending = [declaration]
    while pending:
        current = pending.pop(0)
        if current.name.text in seen:
            continue
        seen.add(current.name.text)
        for leaf in _leaves(current.body):
            order = order_of(names, leaf)
            if order is not None:
                return order
            if isinstance(leaf, syntax.ValueUse):
                values.append(leaf.name)
            elif isinstance(leaf, syntax.Use) and leaf.name.text in declarations:
                pending.append(declarations[leaf.name.text])
            elif not isinstance(leaf, syntax.Host):
                return None
    return _order_with(names, values, declaration) if values else None


def _leaves(expression: syntax.Expression) -> Iterator[syntax.Expression]:
    """The parts of a term that its value is taken from unchanged."""
    match expression:
        case syntax.Group(operand):
            yield from _leaves(operand)
        case syntax.Conditional(_, then, otherwise):
            yield from _leaves(then)
            yield from _leaves(otherwise)
        case syntax.Case(_, branches):
            for branch in branches:
                yield from _leaves(branch.body)
        case syntax.Application(function, operands) if function.text in ("min", "max"):
            for operand in operands:
                yield from _leaves(operand)
        case syntax.Aggregate(function, _, body) if function.text in ("min", "max"):
            yield from _leaves(body)
        case _:
            yield expression


def _order_with(
    names: Names, values: Iterable[syntax.Name], declaration: syntax.Quantity
) -> Order | Misdeclared:
    """The one order among those of all ordered enums that has these values."""
    wanted = {value.text for value in values}
    orders = {
        choice.values: choice
        for choice in names.choices.values()
        if isinstance(choice, space.EnumChoice) and choice.ordered
    }
    found = [order for order in orders if wanted & {*order, *orders[order].aliases}]
    if len(found) == 1:
        return found[0]
    shown = f"`{'`, `'.join(sorted(wanted))}`"
    if found:
        message = f"{shown}: several ordered enums have such values"
        hint = "write a use of the one that is meant into the quantity, as in `min(choice($x), ..)`"
    else:
        message = f"{shown}: no ordered enum has such values"
        hint = "declare `choice ordered enum NAME(..): LOW < HIGH end`"
    names.report.error("SP046", message, declaration.name.span, hint)
    return Misdeclared(declaration.name.span)


# Terms


def check_quantity(
    names: Names, declaration: syntax.Quantity, header: QuantityHeader
) -> space.Quantity | None:
    """The quantity; None where something is wrong with it, which has been reported."""
    scope: Scope = {p.name: p for p in header.params}
    body = _Terms(names, header.values, scope).term(declaration.body)
    if body is None:
        return None
    return space.Quantity(
        name=header.name,
        params=header.params,
        maps=tuple(binder for binder in scope.values() if binder.by_map),
        body=body,
        values=header.values,
        doc=declaration.doc,
        span=header.span,
    )


@dataclass(frozen=True, slots=True)
class _Terms:
    """Translates the terms of one quantity, all of one type."""

    names: Names
    order: Order | None
    scope: Scope
    within_branch: bool = False
    """Whether what is translated exists only where the initial domains allow it."""

    def term(self, expression: syntax.Expression) -> space.Term | None:
        match expression:
            case syntax.Group(operand):
                return self.term(operand)
            case syntax.Number(value):
                return space.Literal(value) if self._integers(expression) else None
            case syntax.ValueUse(name):
                return self._value(name)
            case syntax.Host():
                host = self.names.host(expression, self.scope)
                return None if host is None else space.HostTerm(host)
            case syntax.Use():
                return self._reading(expression)
            case syntax.Total(terms):
                return self._sum(expression, terms)
            case syntax.Negative(operand):
                return self._sum(expression, ((-1, operand),))
            case syntax.Product(factors):
                parts = self._terms(factors) if self._integers(expression) else None
                return None if parts is None else space.Product(parts)
            case syntax.Application():
                return self._application(expression)
            case syntax.Aggregate():
                return self._aggregate(expression)
            case syntax.Conditional():
                return self._conditional(expression)
            case syntax.Case():
                return self._case(expression)
            case _:
                message = "a condition stands where a value is needed"
                hint = "write `condition ? 1 : 0` to count it"
                self.names.report.error("SP057", message, expression.span, hint)
                return None

    def _terms(self, expressions: Iterable[syntax.Expression]) -> tuple[space.Term, ...] | None:
        parts = [self.term(each) for each in expressions]
        complete = tuple(part for part in parts if part is not None)
        return complete if len(complete) == len(parts) else None

    def _integers(self, expression: syntax.Expression) -> bool:
        """Whether the quantity is of integers, which alone can be counted with."""
        if self.order is not None:
            message = f"an integer stands among values of {show_order(self.order)}"
            hint = "values, uses, strings that name values, `min`, `max`, `? :` and `case` give values"
            self.names.report.error("SP047", message, expression.span, hint)
        return self.order is None

    # Leaves

    def _value(self, name: syntax.Name) -> space.Term | None:
        if self.order is None:
            message = f"the value `{name.text}` stands among integers"
            hint = f"say what it counts for: `choice($x) is {name.text} ? 1 : 0`"
            self.names.report.error("SP047", message, name.span, hint)
            return None
        number = value_number(self.names, self.order, name)
        return None if number is None else space.Literal(number)

    def _reading(self, use: syntax.Use) -> space.Term | None:
        found = self.names.use(use, self.scope, self.within_branch)
        if found is None or not self._readable(use, found[1]):
            return None
        return space.Reading(found[0], use.span)

    def _readable(self, use: syntax.Use, named: Valued) -> bool:
        """Whether the values of what is used are of the quantity's type, and known at both ends."""
        report = self.names.report
        declared = (named.span, "declared here")
        if isinstance(named, space.EnumChoice) and not named.ordered:
            message = f"`{named.name}` is an enum without an order: it has no value to compute with"
            hint = f"`{use.span.text} is VALUE ? 1 : 0`, or `case {use.span.text} {{..}}`"
            report.error("SP057", message, use.span, hint, declared)
            return False
        order = order_of(self.names, use)
        if order != self.order:
            of, among = (
                "integers" if each is None else f"values of {show_order(each)}"
                for each in (order, self.order)
            )
            message = f"`{named.name}` gives {of}, among {among}"
            report.error("SP047", message, use.span, "a quantity is of one type", declared)
            return False
        if isinstance(named, CounterHeader) and named.visibility is not space.Visibility.FULL:
            word = named.visibility.value
            message = f"`{named.name}` does not show both its ends"
            report.error("SP044", message, use.span, f"declare it without `{word}`", declared)
            return False
        return True

    # Operators

    def _sum(
        self, expression: syntax.Expression, terms: Iterable[tuple[int, syntax.Expression]]
    ) -> space.Term | None:
        if not self._integers(expression):
            return None
        signs = [sign for sign, _ in terms]
        parts = self._terms(term for _, term in terms)
        return None if parts is None else space.Sum(tuple(zip(signs, parts, strict=True)))

    def _application(self, expression: syntax.Application) -> space.Term | None:
        function, operands = expression.function.text, expression.operands
        if function in ("min", "max"):
            parts = self._terms(operands)
            return None if parts is None else space.Extremum(function == "max", parts, expression.span)
        if not self._integers(expression):
            return None
        if len(operands) != 2:
            message = f"`{function}` takes a dividend and a divisor, not {len(operands)}"
            self.names.report.error("SP016", message, expression.span, f"`{function}(a, b)`")
            return None
        dividend, divisor = (self.term(operand) for operand in operands)
        if dividend is None or divisor is None:
            return None
        self._check_divisor(operands[1], divisor)
        return space.Division(function == "ceil", dividend, divisor, expression.span)

    def _check_divisor(self, written: syntax.Expression, divisor: space.Term) -> None:
        """What is wrong on every kernel; in a branch, which may not exist, it is hardly meant."""
        value = constant(divisor)
        if value is not None and value < 1:
            report = self.names.report.warning if self.within_branch else self.names.report.error
            report("SP442", f"this divisor is {value}", written.span, "divide by what is at least 1")

    def _aggregate(self, expression: syntax.Aggregate) -> space.Term | None:
        function = space.Aggregation(expression.function.text)
        adds = function in (space.Aggregation.SUM, space.Aggregation.PROD)
        if adds and not self._integers(expression):
            return None
        known = set(self.scope)
        inner = self.names.bind([expression.binding], self.scope, self.within_branch)
        if inner is None:
            return None
        binder = inner[expression.binding.variable.name]
        body = replace(self, scope=inner).term(expression.body)
        if body is None:
            return None
        maps: list[space.Binder] = []
        for name in [n for n in inner if n not in known and n != binder.name]:
            applied = inner[name]
            if {binder.name, *(m.name for m in maps)} & set(applied.set.args):
                maps.append(applied)
            else:
                # It depends on what is outside alone, where others may need it too.
                self.scope[name] = applied
        return space.Aggregate(function, binder, tuple(maps), body, expression.span)

    # Branches

    def _conditional(self, expression: syntax.Conditional) -> space.Term | None:
        conditions = Conditions(self.names, self.scope, Purpose.OBSERVED, within_branch=self.within_branch)
        condition = conditions.formula(expression.test)
        branches = replace(self, within_branch=True)
        then, otherwise = branches.term(expression.then), branches.term(expression.otherwise)
        if condition is None or then is None or otherwise is None:
            return None
        return space.Conditional(condition, then, otherwise, expression.span)

    def _case(self, expression: syntax.Case) -> space.Term | None:
        subject = expression.subject
        while isinstance(subject, syntax.Group):
            subject = subject.operand
        use: space.Use | None = None
        choice: Valued | None = None
        if isinstance(subject, syntax.Use):
            found = self.names.use(subject, self.scope, self.within_branch)
            if found is None:
                return None
            use, choice = found
        if use is None or not isinstance(choice, space.EnumChoice):
            message = "`case` asks for the value of an enum"
            hint = "`case choice($x) {VALUE: .., else: ..}`; for numbers, `condition ? a : b`"
            self.names.report.error("SP058", message, subject.span, hint)
            return None
        masks = self._branch_masks(choice, expression)
        bodies = replace(self, within_branch=True)._terms(b.body for b in expression.branches)
        if masks is None or bodies is None:
            return None
        return space.Case(use, tuple(zip(masks, bodies, strict=True)), expression.span)

    def _branch_masks(self, choice: space.EnumChoice, expression: syntax.Case) -> list[int] | None:
        """The values of each branch, which are disjoint; `else` is the last one and takes the others."""
        report = self.names.report
        left = choice.full
        masks: list[int] = []
        ok = True
        for branch in expression.branches:
            mask = self.names.value_mask(choice, branch.values) if branch.values else left
            if mask is None:
                ok = False
            elif not left:
                report.error("SP048", "no value is left for this branch", branch.span, "remove it")
                ok = False
            elif mask & ~left:
                taken = ", ".join(choice.names(mask & ~left))
                report.error("SP048", f"an earlier branch takes {taken}", branch.span, "remove it from one")
                ok = False
            else:
                masks.append(mask)
                left &= ~mask
        if ok and left:
            missing = ", ".join(choice.names(left))
            report.error("SP048", f"no branch for {missing}", expression.span, "add `else: ..`")
        return masks if ok and not left else None

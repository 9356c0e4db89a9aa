"""Lark's parse tree to the syntax tree: one method for each rule of `grammars/space.lark`.

In: a tree of bounded depth. Out: `syntax` nodes with spans. What the grammar cannot express (a number that
is too large, two conditions on one line, a stray `for` in an ordering) is collected, not raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from spacedsl.diagnostics import Diagnostic, Source, Span
from spacedsl.language import syntax

GREATEST_INTEGER = 2**63 - 1

_CONTINUATION = re.compile(r"\\\r?\n")


@v_args(inline=True, meta=True)
class Builder(Transformer[Token, syntax.File]):
    """Called bottom-up with the children of each node; an absent optional part is None."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source
        self.problems: list[Diagnostic] = []

    def _span(self, meta: Meta) -> Span:
        return Span(self.source, meta.start_pos, meta.end_pos)

    def _token_span(self, token: Token) -> Span:
        assert token.start_pos is not None and token.end_pos is not None
        return Span(self.source, token.start_pos, token.end_pos)

    def _problem(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.problems.append(Diagnostic(code, message, span, hint))

    # Words

    def _name(self, token: Token) -> syntax.Name:
        return syntax.Name(str(token), self._token_span(token))

    NAME = VALUE_NAME = SET_NAME = _name

    def VARIABLE(self, token: Token) -> syntax.Variable:  # noqa: N802 -- named as the terminal
        return syntax.Variable(token[1:], self._token_span(token))

    def HOST(self, token: Token) -> syntax.Host:  # noqa: N802
        span = self._token_span(token)
        # A continuation becomes blanks, so that each character keeps its place.
        text = _CONTINUATION.sub(lambda m: " " * len(m.group()), token[1:-1])
        return syntax.Host(text, Span(self.source, span.start + 1, span.end - 1))

    def NUMBER(self, token: Token) -> syntax.Number:  # noqa: N802
        span = self._token_span(token)
        digits = token.lstrip("0") or "0"
        if len(digits) > len(str(GREATEST_INTEGER)) or int(digits) > GREATEST_INTEGER:
            self._problem("SP006", "this number is too large", span, "the greatest integer is 2**63 - 1")
            return syntax.Number(GREATEST_INTEGER, span)
        return syntax.Number(int(digits), span)

    def doc(self, meta: Meta, *lines: Token) -> str:
        return "\n".join(line.removeprefix("///").strip() for line in lines)

    # Sets

    def arguments(self, meta: Meta, *args: syntax.Argument) -> tuple[syntax.Argument, ...]:
        return tuple(a for a in args if a is not None)

    def variable(self, meta: Meta, variable: syntax.Variable) -> syntax.Variable:
        return variable

    def parameters(self, meta: Meta, *params: syntax.Binding | None) -> tuple[syntax.Binding, ...]:
        return tuple(p for p in params if p is not None)

    def binding(self, meta: Meta, variable: syntax.Variable, of: syntax.SetUse) -> syntax.Binding:
        return syntax.Binding(variable, of, None, self._span(meta))

    def set_use(
        self, meta: Meta, name: syntax.Name, args: tuple[syntax.Argument, ...] | None
    ) -> syntax.SetUse:
        return syntax.SetUse(name, args or (), self._span(meta))

    def supersets(self, meta: Meta, *uses: syntax.SetUse) -> tuple[syntax.SetUse, ...]:
        return uses

    def set_names(self, meta: Meta, *names: syntax.Name) -> tuple[syntax.Name, ...]:
        return names

    def disjoint(self, meta: Meta, names: tuple[syntax.Name, ...]) -> tuple[syntax.Name, ...]:
        return names

    def key(
        self, meta: Meta, name: syntax.Name, binding: syntax.Binding | None, host: syntax.Host
    ) -> syntax.Key:
        return syntax.Key(name, binding, host, self._span(meta))

    def set(
        self, meta: Meta, doc: str | None, name: syntax.Name, params: Any, supersets: Any, *items: Any
    ) -> syntax.Set:
        return syntax.Set(
            name,
            params or (),
            supersets or (),
            tuple(n for item in items if isinstance(item, tuple) for n in item),
            tuple(item for item in items if isinstance(item, syntax.Key)),
            doc or "",
            self._span(meta),
        )

    # Choices

    def use(self, meta: Meta, name: syntax.Name, args: tuple[syntax.Argument, ...]) -> syntax.Use:
        return syntax.Use(name, args, self._span(meta))

    def values(self, meta: Meta, *names: syntax.Name) -> tuple[syntax.Name, ...]:
        return names

    def requires(self, meta: Meta, *parts: Any) -> syntax.Requires:
        foralls, conditions = self._quantified(parts)
        return syntax.Requires(foralls, conditions, self._span(meta))

    def value(
        self, meta: Meta, doc: str | None, name: syntax.Name, *requires: syntax.Requires
    ) -> syntax.Value:
        return syntax.Value(name, requires, doc or "", self._span(meta))

    def alias(
        self, meta: Meta, doc: str | None, name: syntax.Name, values: Any, *requires: syntax.Requires
    ) -> syntax.Alias:
        return syntax.Alias(name, values, requires, doc or "", self._span(meta))

    def symmetric(self, meta: Meta) -> syntax.Symmetric:
        return syntax.Symmetric(self._span(meta))

    def inverse(self, meta: Meta, left: syntax.Name, right: syntax.Name) -> tuple[syntax.Name, syntax.Name]:
        return left, right

    def antisymmetric(self, meta: Meta, *pairs: tuple[syntax.Name, syntax.Name]) -> syntax.Antisymmetric:
        return syntax.Antisymmetric(pairs, self._span(meta))

    def enum_choice(
        self, meta: Meta, doc: str | None, name: syntax.Name, params: Any, *items: Any
    ) -> syntax.EnumChoice:
        return syntax.EnumChoice(name, params, items, doc or "", self._span(meta))

    def chain(self, meta: Meta, *names: syntax.Name) -> tuple[syntax.Name, ...]:
        return names

    def ordered_choice(
        self, meta: Meta, doc: str | None, name: syntax.Name, params: Any, chain: Any, *items: Any
    ) -> syntax.OrderedChoice:
        return syntax.OrderedChoice(name, params, chain, items, doc or "", self._span(meta))

    def integer_choice(
        self, meta: Meta, doc: str | None, name: syntax.Name, params: Any, universe: syntax.Host
    ) -> syntax.IntegerChoice:
        return syntax.IntegerChoice(name, params, universe, doc or "", self._span(meta))

    def visibility(self, meta: Meta, token: Token) -> syntax.Name:
        return self._name(token)

    def base(self, meta: Meta, amount: syntax.Number | syntax.Host) -> syntax.Number | syntax.Host:
        return amount

    def operation(self, meta: Meta, token: Token) -> syntax.Name:
        return self._name(token)

    def when(self, meta: Meta, *conditions: syntax.Expression) -> tuple[syntax.Expression, ...]:
        return conditions

    def counter_choice(self, meta: Meta, doc: str | None, *parts: Any) -> syntax.CounterChoice:
        visibility, name, params, base, *foralls, operation, amount, conditions = parts
        return syntax.CounterChoice(
            name,
            params,
            visibility,
            base,
            tuple(foralls),
            operation,
            amount,
            conditions,
            doc or "",
            self._span(meta),
        )

    # What follows from decisions

    def quantity(
        self, meta: Meta, doc: str | None, name: syntax.Name, params: Any, body: syntax.Expression
    ) -> syntax.Quantity:
        return syntax.Quantity(name, params, body, doc or "", self._span(meta))

    def map(
        self,
        meta: Meta,
        doc: str | None,
        name: syntax.Name,
        params: Any,
        target: syntax.SetUse,
        host: syntax.Host,
    ) -> syntax.Map:
        return syntax.Map(name, params, target, host, doc or "", self._span(meta))

    def equivalence(
        self, meta: Meta, choice: syntax.Name, values: tuple[syntax.Name, ...]
    ) -> syntax.Equivalence:
        return syntax.Equivalence(choice, values, self._span(meta))

    def quotient(
        self,
        meta: Meta,
        doc: str | None,
        name: syntax.Name,
        params: tuple[syntax.Binding, ...] | None,
        item: syntax.Binding,
        representative: syntax.Name,
        condition: syntax.Expression,
        equivalence: syntax.Equivalence,
        *keys: syntax.Key,
    ) -> syntax.Quotient:
        span = self._span(meta)
        return syntax.Quotient(
            name, params or (), item, representative, condition, equivalence, keys, doc or "", span
        )

    def trigger(self, meta: Meta, doc: str | None, *parts: Any) -> syntax.Trigger:
        *foralls, callback, condition = parts
        return syntax.Trigger(tuple(foralls), callback, condition, doc or "", self._span(meta))

    # Constraints

    def require(self, meta: Meta, doc: str | None, *parts: Any) -> syntax.Require:
        foralls, conditions = self._quantified(parts)
        return syntax.Require(foralls, conditions, doc or "", self._span(meta))

    def forall(self, meta: Meta, binding: syntax.Binding, where: syntax.Host | None) -> syntax.Binding:
        return syntax.Binding(binding.variable, binding.set, where, self._span(meta))

    def _quantified(
        self, parts: Iterable[Any]
    ) -> tuple[tuple[syntax.Binding, ...], tuple[syntax.Expression, ...]]:
        """The quantifiers and the conditions, each of which begins on a line of its own."""
        foralls: list[syntax.Binding] = []
        conditions: list[syntax.Expression] = []
        for part in parts:
            if isinstance(part, syntax.Binding):
                foralls.append(part)
                continue
            if conditions and "\n" not in self.source.text[conditions[-1].span.end : part.span.start]:
                self._problem(
                    "SP005",
                    "a second condition on the same line",
                    part.span,
                    "join the two with `&&` or `||`, or begin a new line: all conditions of a prefix hold",
                )
            conditions.append(part)
        return tuple(foralls), tuple(conditions)

    def implies(self, meta: Meta, left: syntax.Expression, right: syntax.Expression) -> syntax.Implies:
        return syntax.Implies(left, right, self._span(meta))

    def either(self, meta: Meta, *operands: syntax.Expression) -> syntax.Either:
        return syntax.Either(operands, self._span(meta))

    def both(self, meta: Meta, *operands: syntax.Expression) -> syntax.Both:
        return syntax.Both(operands, self._span(meta))

    def negated(self, meta: Meta, operand: syntax.Expression) -> syntax.Negated:
        return syntax.Negated(operand, self._span(meta))

    def comparator(self, meta: Meta, token: Token) -> syntax.Name:
        return self._name(token)

    def compared(
        self, meta: Meta, left: syntax.Expression, operator: syntax.Name, right: syntax.Expression
    ) -> syntax.Compared:
        return syntax.Compared(left, operator, right, self._span(meta))

    def one_of(self, meta: Meta, subject: syntax.Expression, values: tuple[syntax.Name, ...]) -> syntax.OneOf:
        return syntax.OneOf(subject, False, values, self._span(meta))

    def none_of(
        self, meta: Meta, subject: syntax.Expression, values: tuple[syntax.Name, ...]
    ) -> syntax.OneOf:
        return syntax.OneOf(subject, True, values, self._span(meta))

    def conditional(self, meta: Meta, test: Any, then: Any, otherwise: Any) -> syntax.Conditional:
        return syntax.Conditional(test, then, otherwise, self._span(meta))

    # Arithmetic

    def sign(self, meta: Meta, token: Token) -> int:
        return 1 if token == "+" else -1

    def total(self, meta: Meta, first: syntax.Expression, *rest: Any) -> syntax.Total:
        terms = ((1, first), *zip(rest[::2], rest[1::2], strict=True))
        return syntax.Total(terms, self._span(meta))

    def product(self, meta: Meta, *factors: syntax.Expression) -> syntax.Product:
        return syntax.Product(factors, self._span(meta))

    def negative(self, meta: Meta, operand: syntax.Expression) -> syntax.Negative:
        return syntax.Negative(operand, self._span(meta))

    def group(self, meta: Meta, operand: syntax.Expression) -> syntax.Group:
        return syntax.Group(operand, self._span(meta))

    def number(self, meta: Meta, number: syntax.Number) -> syntax.Number:
        return number

    def host(self, meta: Meta, host: syntax.Host) -> syntax.Host:
        return host

    def truth(self, meta: Meta, token: Token) -> syntax.Truth:
        return syntax.Truth(token == "true", self._span(meta))

    def value_use(self, meta: Meta, name: syntax.Name) -> syntax.ValueUse:
        return syntax.ValueUse(name, name.span)

    def function(self, meta: Meta, token: Token) -> syntax.Name:
        return self._name(token)

    def application(
        self, meta: Meta, function: syntax.Name, *operands: syntax.Expression
    ) -> syntax.Application:
        return syntax.Application(function, operands, self._span(meta))

    def aggregator(self, meta: Meta, token: Token) -> syntax.Name:
        return self._name(token)

    def aggregate(
        self,
        meta: Meta,
        function: syntax.Name,
        binding: syntax.Binding,
        where: syntax.Host | None,
        body: syntax.Expression,
    ) -> syntax.Aggregate:
        binding = syntax.Binding(binding.variable, binding.set, where, binding.span)
        return syntax.Aggregate(function, binding, body, self._span(meta))

    def branch(self, meta: Meta, *parts: Any) -> syntax.Branch:
        values = parts[0] if len(parts) == 2 else ()
        return syntax.Branch(values, parts[-1], self._span(meta))

    def case(self, meta: Meta, subject: syntax.Expression, *branches: syntax.Branch) -> syntax.Case:
        return syntax.Case(subject, branches, self._span(meta))

    # Orderings

    def groups(self, meta: Meta, *names: syntax.Name) -> tuple[syntax.Name, ...]:
        return names

    def listed(self, meta: Meta, choice: syntax.Name, args: Any, groups: Any) -> syntax.Listed:
        return syntax.Listed(choice, args, None, groups or (), self._span(meta))

    def listed_for(self, meta: Meta, binding: syntax.Binding, groups: Any) -> _ListedFor:
        return _ListedFor(binding, groups or (), self._span(meta))

    def object_major(
        self, meta: Meta, binding: syntax.Binding, by: syntax.Host | None, *items: Any
    ) -> syntax.ObjectMajor:
        return syntax.ObjectMajor(binding, by, self._items(items), self._span(meta))

    def dynamic(self, meta: Meta, rule: syntax.Name) -> syntax.Dynamic:
        return syntax.Dynamic(rule, self._span(meta))

    def ordering(self, meta: Meta, doc: str | None, name: syntax.Name, *items: Any) -> syntax.Ordering:
        body = items[0] if items and isinstance(items[0], syntax.Dynamic) else self._items(items)
        return syntax.Ordering(name, body, doc or "", self._span(meta))

    def _items(self, parts: Iterable[Any]) -> tuple[syntax.OrderingItem, ...]:
        """Joins each `for` to the item in front of it."""
        items: list[syntax.OrderingItem] = []
        for part in parts:
            if not isinstance(part, _ListedFor):
                items.append(part)
                continue
            last = items[-1] if items else None
            if isinstance(last, syntax.Listed) and last.binding is None and not last.groups:
                span = last.span.to(part.span)
                items[-1] = syntax.Listed(last.choice, last.args, part.binding, part.groups, span)
            else:
                hint = "write `choice($v) for $v in SET`, or `for $v in SET: ... end`"
                self._problem("SP002", "this `for` belongs to no choice", part.span, hint)
        return tuple(items)

    def spelled(self, meta: Meta, *items: Any) -> syntax.Ordering:
        span = self._span(meta)
        body = items[0] if isinstance(items[0], syntax.Dynamic) else items
        return syntax.Ordering(syntax.Name(self.source.name, span), body, "", span)

    def spelled_choice(
        self, meta: Meta, choice: syntax.Name, args: Any, binding: syntax.Binding | None, groups: Any
    ) -> syntax.Listed:
        return syntax.Listed(choice, args, binding, groups or (), self._span(meta))

    def spelled_block(
        self, meta: Meta, binding: syntax.Binding, by: syntax.Host | None, *items: Any
    ) -> syntax.ObjectMajor:
        return syntax.ObjectMajor(binding, by, items, self._span(meta))

    def spelled_groups(self, meta: Meta, *names: syntax.Name) -> tuple[syntax.Name, ...]:
        return names

    def viewed(self, meta: Meta, choice: syntax.Name, groups: Any) -> syntax.Viewed:
        return syntax.Viewed(choice, groups or (), self._span(meta))

    def view(self, meta: Meta, doc: str | None, name: syntax.Name, *items: syntax.Viewed) -> syntax.View:
        return syntax.View(name, items, doc or "", self._span(meta))

    # A file

    def include(self, meta: Meta, path: syntax.Host) -> syntax.Include:
        return syntax.Include(path, self._span(meta))

    def file(self, meta: Meta, *declarations: syntax.Declaration) -> syntax.File:
        return syntax.File(declarations)


class _ListedFor:
    """A `for` that continues the ordering item in front of it."""

    def __init__(self, binding: syntax.Binding, groups: tuple[syntax.Name, ...], span: Span) -> None:
        self.binding = binding
        self.groups = groups
        self.span = span

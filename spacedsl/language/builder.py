"""Lark's parse tree to the syntax tree: one method for each rule of `grammars/space.lark` about declarations.

In: a tree of bounded depth. Out: `syntax` nodes with spans. What the grammar cannot express (two conditions
on one line, a stray `for` in an ordering) is collected, not raised. The expressions in declarations are built
in `expression_builder.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from spacedsl.diagnostics import Span
from spacedsl.language import syntax
from spacedsl.language.expression_builder import ExpressionBuilder


@v_args(inline=True, meta=True)
class Builder(ExpressionBuilder):
    """Declarations, and the file of them."""

    def doc(self, meta: Meta, *lines: Token) -> str:
        return "\n".join(line.removeprefix("///").strip() for line in lines)

    # Sets

    def parameters(self, meta: Meta, *params: syntax.Binding | None) -> tuple[syntax.Binding, ...]:
        return tuple(p for p in params if p is not None)

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
            if conditions and conditions[-1].span.end >= self.source.line_start(part.span.start):
                self._problem(
                    "SP005",
                    "a second condition on the same line",
                    part.span,
                    "join the two with `&&` or `||`, or begin a new line: all conditions of a prefix hold",
                )
            conditions.append(part)
        return tuple(foralls), tuple(conditions)

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

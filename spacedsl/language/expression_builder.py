"""Lark's parse tree to the syntax tree: words, uses, bindings, conditions and terms.

In: what is below a declaration in a tree of bounded depth. Out: nodes of `expressions.py` with spans. A
number that is too large is collected, not raised. Declarations are built in `builder.py`.
"""

from __future__ import annotations

import re
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from spacedsl.diagnostics import Diagnostic, Source, Span
from spacedsl.language import syntax
from spacedsl.language.expressions import GREATEST_INTEGER

_CONTINUATION = re.compile(r"\\(?:\r\n?|\n)")


@v_args(inline=True, meta=True)
class ExpressionBuilder(Transformer[Token, syntax.File]):
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

    # Uses and bindings

    def arguments(self, meta: Meta, *args: syntax.Argument) -> tuple[syntax.Argument, ...]:
        return tuple(a for a in args if a is not None)

    def variable(self, meta: Meta, variable: syntax.Variable) -> syntax.Variable:
        return variable

    def use(self, meta: Meta, name: syntax.Name, args: tuple[syntax.Argument, ...]) -> syntax.Use:
        return syntax.Use(name, args, self._span(meta))

    def values(self, meta: Meta, *names: syntax.Name) -> tuple[syntax.Name, ...]:
        return names

    def binding(self, meta: Meta, variable: syntax.Variable, of: syntax.SetUse) -> syntax.Binding:
        return syntax.Binding(variable, of, None, self._span(meta))

    def set_use(
        self, meta: Meta, name: syntax.Name, args: tuple[syntax.Argument, ...] | None
    ) -> syntax.SetUse:
        return syntax.SetUse(name, args or (), self._span(meta))

    # Conditions

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

"""What the names of a `.space` file stand for, wherever they are written.

In: the syntax of a file with all that it includes; it may be wrong, as it is while somebody types. Out: an
`Index`. Names that stand for nothing are left out; the checker reports them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.diagnostics import Span
from spacedsl.language import syntax
from spacedsl.language.host_syntax import translate
from spacedsl.lsp.symbols import Index, Occurrence, Symbol, SymbolKind


def index(declarations: Sequence[syntax.Declaration]) -> Index:
    """The index of a file's declarations."""
    indexer = _Indexer()
    for declaration in declarations:
        indexer.declare(declaration)
    for declaration in declarations:
        indexer.walk(declaration)
    return Index(
        occurrences=tuple(indexer.occurrences),
        sets=indexer.sets,
        choices=indexer.choices,
        values=indexer.values,
        symbols=tuple(o.symbol for o in indexer.occurrences if o.span is o.symbol.place),
    )


_Scope = Mapping[str, Symbol]

_KINDS: dict[type, SymbolKind] = {syntax.Quantity: SymbolKind.QUANTITY, syntax.Map: SymbolKind.MAP}

_Enum = syntax.EnumChoice | syntax.OrderedChoice
_Named = _Enum | syntax.IntegerChoice | syntax.CounterChoice | syntax.Quantity | syntax.Map


@dataclass(slots=True)
class _Indexer:
    occurrences: list[Occurrence] = field(default_factory=list)
    sets: dict[str, Symbol] = field(default_factory=dict)
    choices: dict[str, Symbol] = field(default_factory=dict)
    values: dict[str, dict[str, Symbol]] = field(default_factory=dict)

    # Declarations

    def declare(self, declaration: syntax.Declaration) -> None:
        match declaration:
            case syntax.Set(name, params):
                self._add(self.sets, SymbolKind.SET, name, declaration, params)
            case syntax.Quotient(name, params, item, representative):
                self._add(self.sets, SymbolKind.SET, name, declaration, params)
                choice = self._add(
                    self.choices, SymbolKind.CHOICE, representative, declaration, (*params, item)
                )
                # Nobody writes these two down: they are declared where their choice is.
                self.values[choice.name] = {
                    text: Symbol(SymbolKind.VALUE, text, choice.place, choice.declaration, owner=choice)
                    for text in ("FALSE", "TRUE")
                }
            case syntax.Ordering(name) | syntax.View(name):
                is_view = isinstance(declaration, syntax.View)
                kind = SymbolKind.VIEW if is_view else SymbolKind.ORDERING
                self._add({}, kind, name, declaration, ())
            case _ if isinstance(declaration, _Named):
                kind = _KINDS.get(type(declaration), SymbolKind.CHOICE)
                choice = self._add(self.choices, kind, declaration.name, declaration, declaration.params)
                if isinstance(declaration, _Enum):
                    self._declare_values(choice, declaration)

    def _add(
        self,
        table: dict[str, Symbol],
        kind: SymbolKind,
        name: syntax.Name,
        node: syntax.Set | syntax.Quotient | syntax.Ordering | syntax.View | _Named,
        params: Sequence[syntax.Binding],
    ) -> Symbol:
        sets = tuple(p.set.name.text for p in params)
        symbol = Symbol(kind, name.text, name.span, node.span, node.doc, sets, node=node)
        table.setdefault(name.text, symbol)
        self._name(name.span, symbol)
        return symbol

    def _declare_values(self, choice: Symbol, declaration: _Enum) -> None:
        values = self.values.setdefault(choice.name, {})
        chain = declaration.chain if isinstance(declaration, syntax.OrderedChoice) else ()
        documented = [i for i in declaration.items if isinstance(i, syntax.Value | syntax.Alias)]
        docs = {item.name.text: item.doc for item in documented}
        named = [(name, name.span) for name in chain] + [(item.name, item.span) for item in documented]
        for name, span in named:
            if name.text in values:  # a value of the chain, documented or restricted further down
                self._name(name.span, values[name.text])
                continue
            doc = docs.get(name.text, "")
            symbol = Symbol(SymbolKind.VALUE, name.text, name.span, span, doc, owner=choice)
            values[name.text] = symbol
            self._name(name.span, symbol)

    def _name(self, span: Span, symbol: Symbol | None) -> None:
        if symbol is not None:
            self.occurrences.append(Occurrence(span, symbol))

    # Uses

    def walk(self, declaration: syntax.Declaration) -> None:
        match declaration:
            case syntax.Set():
                self._set(declaration)
            case syntax.Quotient():
                self._quotient(declaration)
            case syntax.Trigger(foralls, callback, condition):
                scope = self._bind(foralls, {})
                self._host(callback, scope)
                self._expression(condition, scope)
            case syntax.Require(foralls, conditions):
                self._expressions(conditions, self._bind(foralls, {}))
            case syntax.Ordering(items=items):
                if not isinstance(items, syntax.Dynamic):
                    self._items(items, {})
            case syntax.View(items=viewed):
                for item in viewed:
                    self._listed(item.choice, item.groups)
            case _ if isinstance(declaration, _Named):
                self._choice(declaration, self._bind(declaration.params, {}))

    def _set(self, declaration: syntax.Set) -> None:
        scope = self._bind(declaration.params, {})
        for use in declaration.supersets:
            self._set_use(use, scope)
        for name in declaration.disjoint:
            self._name(name.span, self.sets.get(name.text))
        self._keys(declaration.keys, scope)

    def _keys(self, keys: Sequence[syntax.Key], scope: _Scope) -> None:
        for key in keys:
            inner = scope if key.binding is None else self._bind([key.binding], {})
            self._host(key.host, inner)

    def _quotient(self, declaration: syntax.Quotient) -> None:
        scope = self._bind([*declaration.params, declaration.item], {})
        self._expression(declaration.condition, scope)
        equivalence = declaration.equivalence
        self._listed(equivalence.choice, equivalence.values)
        self._keys(declaration.keys, scope)

    def _choice(self, declaration: _Named, scope: _Scope) -> None:
        match declaration:
            case syntax.IntegerChoice(universe=host):
                self._host(host, scope)
            case syntax.Map(target=target, host=host):
                self._set_use(target, scope)
                self._host(host, scope)
            case syntax.Quantity(body=body):
                self._expression(body, scope, [use.name.text for use in _uses(body)])
            case syntax.CounterChoice(base=base, foralls=foralls, amount=amount, conditions=conditions):
                if base is not None:
                    self._expression(base, scope)
                self._expressions((amount, *conditions), self._bind(foralls, scope))
            case syntax.EnumChoice() | syntax.OrderedChoice():
                self._enum(declaration, scope)

    def _enum(self, declaration: _Enum, scope: _Scope) -> None:
        for item in declaration.items:
            match item:
                case syntax.Antisymmetric(pairs):
                    self._values(declaration.name.text, [name for pair in pairs for name in pair])
                case syntax.Alias(values=values):
                    self._values(declaration.name.text, values)
            if isinstance(item, syntax.Value | syntax.Alias):
                for requires in item.requires:
                    self._expressions(requires.conditions, self._bind(requires.foralls, scope))

    # Sets and variables

    def _bind(self, bindings: Sequence[syntax.Binding], scope: _Scope) -> _Scope:
        """The scope with the bindings added, in order."""
        inner = dict(scope)
        for binding in bindings:
            self._set_use(binding.set, inner)
            variable = binding.variable
            symbol = Symbol(
                SymbolKind.VARIABLE,
                variable.name,
                variable.span,
                binding.span,
                ranges_over=binding.set.name.text,
            )
            inner[variable.name] = symbol
            self._name(variable.span, symbol)
            if binding.where is not None:
                self._host(binding.where, inner)
        return inner

    def _set_use(self, use: syntax.SetUse, scope: _Scope) -> None:
        self._name(use.name.span, self.sets.get(use.name.text))
        self._arguments(use.args, scope)

    def _arguments(self, args: Sequence[syntax.Argument], scope: _Scope) -> None:
        for arg in args:
            if isinstance(arg, syntax.Use):
                self._use(arg, scope)
            else:
                self._name(arg.span, scope.get(arg.name))

    def _use(self, use: syntax.Use, scope: _Scope) -> None:
        self._name(use.name.span, self.choices.get(use.name.text))
        self._arguments(use.args, scope)

    def _host(self, host: syntax.Host, scope: _Scope) -> None:
        for use in translate(host.text, is_callback=False).uses:
            span = Span(host.span.source, host.span.start + use.start, host.span.start + use.end)
            self._name(span, scope.get(use.name))

    # Values

    def _values(self, choice: str, names: Sequence[syntax.Name]) -> None:
        known = self.values.get(choice, {})
        for name in names:
            self._name(name.span, known.get(name.text))

    def _listed(self, choice: syntax.Name, groups: Sequence[syntax.Name]) -> None:
        self._name(choice.span, self.choices.get(choice.text))
        self._values(choice.text, groups)

    def _single_value(self, name: syntax.Name, near: Sequence[str]) -> None:
        """A value by itself: of a choice that it is compared with, or of the only one that has it."""
        owners = [c for c in near if name.text in self.values.get(c, {})]
        if not owners:
            owners = [c for c, values in self.values.items() if name.text in values]
            owners = owners if len(owners) == 1 else []
        if owners:
            self._name(name.span, self.values[owners[0]][name.text])

    # Orderings

    def _items(self, items: Sequence[syntax.OrderingItem], scope: _Scope) -> None:
        for item in items:
            bindings = [] if item.binding is None else [item.binding]
            inner = self._bind(bindings, scope)
            if isinstance(item, syntax.ObjectMajor):
                if item.by is not None:
                    self._host(item.by, inner)
                self._items(item.items, inner)
            else:
                self._listed(item.choice, item.groups)
                self._arguments(item.args or (), inner)

    # Expressions

    def _expressions(self, expressions: Sequence[syntax.Expression], scope: _Scope) -> None:
        for expression in expressions:
            self._expression(expression, scope)

    def _expression(self, expression: syntax.Expression, scope: _Scope, near: Sequence[str] = ()) -> None:
        """`near`: choices whose values may stand by themselves here."""
        match expression:
            case syntax.Use():
                self._use(expression, scope)
            case syntax.Host():
                self._host(expression, scope)
            case syntax.ValueUse(name):
                self._single_value(name, near)
            case syntax.OneOf(subject, _, values):
                self._expression(subject, scope, near)
                self._values(_subject(subject), values)
            case syntax.Case(subject, branches):
                self._expression(subject, scope, near)
                for branch in branches:
                    self._values(_subject(subject), branch.values)
                    self._expression(branch.body, scope, near)
            case syntax.Aggregate(_, binding, body):
                self._expression(body, self._bind([binding], scope), near)
            case syntax.Compared(left, _, right):
                used = [use.name.text for use in (*_uses(left), *_uses(right))]
                self._expression(left, scope, used)
                self._expression(right, scope, used)
            case _:
                for operand in operands(expression):
                    self._expression(operand, scope, near)


def operands(expression: syntax.Expression) -> tuple[syntax.Expression, ...]:
    """The expressions that one is made of."""
    match expression:
        case syntax.Group(operand) | syntax.Negated(operand) | syntax.Negative(operand):
            return (operand,)
        case syntax.Conditional(test, then, otherwise):
            return (test, then, otherwise)
        case syntax.Implies(left, right) | syntax.Compared(left, _, right):
            return (left, right)
        case syntax.Either(parts) | syntax.Both(parts) | syntax.Product(parts):
            return parts
        case syntax.Application(_, parts):
            return parts
        case syntax.Total(terms):
            return tuple(term for _, term in terms)
        case syntax.OneOf(subject):
            return (subject,)
        case syntax.Aggregate(_, _, body):
            return (body,)
        case syntax.Case(subject, branches):
            return (subject, *(branch.body for branch in branches))
    return ()


def _uses(expression: syntax.Expression) -> Iterator[syntax.Use]:
    if isinstance(expression, syntax.Use):
        yield expression
    for operand in operands(expression):
        yield from _uses(operand)


def _subject(expression: syntax.Expression) -> str:
    """The choice whose values stand behind `is` or in the branches of a `case`."""
    while isinstance(expression, syntax.Group):
        expression = expression.operand
    return expression.name.text if isinstance(expression, syntax.Use) else ""

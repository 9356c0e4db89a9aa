"""Cycles of presence: a trigger's condition must not depend on what it adds.

In: the memberships that triggers may add, with their reasons. Out: nothing, or a `DiagnosticError` that shows
a cycle. A membership depends on its reasons; a firing on the memberships of its objects and on what its
condition reads: a counter, a representative or a quantity reads the memberships of all that it ranges over.
"""

from __future__ import annotations

from collections.abc import Iterator

from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.objects import Key, Objects
from spacedsl.engine.quantities.dependencies import quantity_reads
from spacedsl.engine.triggers import Expansion, Fact, Firing, binder_facts
from spacedsl.language.space import (
    Affine,
    And,
    Binder,
    Compare,
    ComparePositions,
    Counter,
    Formula,
    Is,
    Not,
    Or,
    Quantity,
    Quotient,
    SameEnum,
    Space,
    Use,
)

Value = tuple[str, Key]
"""A counter, representative or quantity on objects."""
Node = Fact | Firing | Value


def refuse_cycles(space: Space, objects: Objects, expansion: Expansion) -> None:
    """Raises `DiagnosticError` (SP423) where the presence of something depends on itself."""
    graph = _Graph(space, objects, expansion)
    done: set[Node] = set()
    for start in expansion.firings:
        path: list[Node] = []
        pending: list[Iterator[Node]] = [iter((start,))]
        while pending:
            node = next(pending[-1], None)
            if node is None:
                pending.pop()
                if path:
                    done.add(path.pop())
            elif node in path:
                raise _error(graph, [*path[path.index(node) :], node])
            elif node not in done:
                path.append(node)
                pending.append(graph.successors(node))


class _Graph:
    def __init__(self, space: Space, objects: Objects, expansion: Expansion) -> None:
        self.space, self.objects, self.expansion = space, objects, expansion
        self._quotients = {q.representative: q for q in space.quotients.values()}

    def successors(self, node: Node) -> Iterator[Node]:
        match node:
            case Firing(trigger, key, facts):
                yield from self._open(facts)
                definition = self.space.triggers[trigger]
                environment = self._environment(definition.foralls, key)
                yield from self._representatives(definition.foralls, environment)
                yield from self._formula(definition.condition, environment)
            case (name, key) if name in self.space.quantities:
                yield from self._quantity(self.space.quantities[name], key)
            case (name, key) if name in self._quotients:
                yield from self._quotient(self._quotients[name], key)
            case (name, key):
                counter = self.space.choices[name]
                assert isinstance(counter, Counter)
                yield from self._counter(counter, key)
            case _:
                for reason in self.expansion.reasons[node]:
                    yield from self._open(reason.facts)
                    if reason.firing is not None:
                        yield reason.firing

    def _open(self, facts: tuple[Fact, ...]) -> Iterator[Fact]:
        return (fact for fact in facts if fact in self.expansion.reasons)

    def _counter(self, counter: Counter, key: Key) -> Iterator[Node]:
        outer = self._environment(counter.params, key)
        for inner in self._bindings((*counter.params, *counter.foralls), outer):
            yield from self._open(binder_facts(self.objects, counter.foralls, inner))
            yield from self._representatives((*counter.params, *counter.foralls), inner)
            yield from self._formula(counter.condition, inner)
            if isinstance(counter.value, Use):
                yield from self._use(counter.value, inner)

    def _quotient(self, quotient: Quotient, key: Key) -> Iterator[Node]:
        outer = self._environment(quotient.params, key[:-1])
        for inner in self._bindings((*quotient.params, quotient.item, *quotient.maps), outer):
            yield from self._open(binder_facts(self.objects, (quotient.item, *quotient.maps), inner))
            yield from self._representatives((quotient.item,), inner)
            yield from self._formula(quotient.condition, inner)

    def _quantity(self, quantity: Quantity, key: Key) -> Iterator[Node]:
        for read in quantity_reads(self.objects, quantity, key):
            match read:
                case (name, ids):
                    if self.space.is_derived(name):
                        yield name, ids
                case _:
                    yield from self._open((read,))

    def _representatives(self, binders: tuple[Binder, ...], environment: dict[str, int]) -> Iterator[Node]:
        for binder in binders:
            yield from self.objects.representatives(binder, environment)

    def _formula(self, formula: Formula, environment: dict[str, int]) -> Iterator[Node]:
        match formula:
            case Not(operand):
                yield from self._formula(operand, environment)
            case And(operands) | Or(operands):
                for each in operands:
                    yield from self._formula(each, environment)
            case Is(use):
                yield from self._use(use, environment)
            case SameEnum(left, right):
                yield from self._use(left, environment)
                yield from self._use(right, environment)
            case Compare(Affine(left_use), _, Affine(right_use)):
                for side in (left_use, right_use):
                    if side is not None:
                        yield from self._use(side, environment)
            case ComparePositions(lower, _, upper):
                for place in (lower, upper):
                    if isinstance(place, Use):
                        yield from self._use(place, environment)

    def _use(self, use: Use, environment: dict[str, int]) -> Iterator[Node]:
        if self.space.is_derived(use.choice):
            yield use.choice, tuple(environment[a] for a in use.args)

    def _bindings(self, binders: tuple[Binder, ...], fixed: dict[str, int]) -> Iterator[dict[str, int]]:
        """The bindings in which the outer variables have these objects."""

        def extend(place: int, bound: dict[str, int]) -> Iterator[dict[str, int]]:
            if place == len(binders):
                yield bound
                return
            binder = binders[place]
            if binder.name in fixed:
                yield from extend(place + 1, bound)
                return
            for item in self.objects.of(binder.set, bound):
                inner = {**bound, binder.name: item}
                taken = (bound[b.name] for b in binders if b.name in bound and not b.by_map)
                if (binder.by_map or item not in taken) and self.objects.passes(binder.where, inner):
                    yield from extend(place + 1, inner)

        return extend(0, dict(fixed))

    def _environment(self, binders: tuple[Binder, ...], key: Key) -> dict[str, int]:
        return dict(zip((b.name for b in binders), key, strict=True))

    def label(self, node: Node) -> str:
        names = self.objects.names
        match node:
            case Firing(trigger, key, _):
                span = self.space.triggers[trigger].span
                return f"the trigger of line {span.line} on {', '.join(names[k] for k in key) or 'nothing'}"
            case (name, key, member):
                shown = "" if not key else f"({', '.join(names[k] for k in key)})"
                return f"{names[member]} in {name}{shown}"
            case (name, key):
                return f"{name}({', '.join(names[k] for k in key)})"


def _error(graph: _Graph, cycle: list[Node]) -> DiagnosticError:
    trigger = next(node for node in cycle if isinstance(node, Firing)).trigger
    message = "whether this trigger fires depends on what it adds: " + " <- ".join(
        graph.label(n) for n in cycle
    )
    hint = "a condition must not read counters or quotients over a set that the trigger adds to"
    return DiagnosticError([Diagnostic("SP423", message, graph.space.triggers[trigger].span, hint)])

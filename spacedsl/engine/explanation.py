"""Explanations: derivations in the words of a space, its objects and its lines.

In: an instance, decisions, and a question: why is a choice instance not one of these values, or why is there
nothing left at all? Out: an `Explanation`: steps in order, each a decision or a line of the space on objects,
what it removed, and the numbers of the steps that it followed from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spacedsl.diagnostics import Span
from spacedsl.engine.blame import responsible_lines
from spacedsl.engine.claims import Claim
from spacedsl.engine.decision import Decision, UnknownDecisionError
from spacedsl.engine.derivation import (
    Derivation,
    Goal,
    Inference,
    Narrowing,
    Restriction,
    derive,
)
from spacedsl.engine.differences import Difference
from spacedsl.engine.instance import Instance
from spacedsl.engine.layout import PRESENT
from spacedsl.engine.quantity_reasons import Bounding, End, Key, boundings, claimed, reasoned_graph
from spacedsl.language.space import Counter, EnumChoice

Value = str | int


@dataclass(frozen=True, slots=True)
class Change:
    """What a step removed. Of the least or greatest value of a counter or quantity: what it was and is."""

    what: str
    """`order(load_A, fma)`, or whether something is present or fires."""
    before: tuple[Value, ...]
    after: tuple[Value, ...]
    is_interval: bool

    @property
    def removed(self) -> tuple[Value, ...]:
        return () if self.is_interval else tuple(v for v in self.before if v not in self.after)


@dataclass(frozen=True, slots=True)
class Step:
    """`decision` is None for a line of the space; `spans` are empty for a decision and for presence."""

    decision: Decision | None
    spans: tuple[Span, ...]
    binding: tuple[tuple[str, str], ...]
    """Variables and the names of their objects."""
    changes: tuple[Change, ...]
    reasons: tuple[int, ...]
    """Positions of earlier steps."""
    relation: str | None = None
    """What a comparison of counters says in a circle: `cold() is at least hot() + 1`."""


@dataclass(frozen=True, slots=True)
class Explanation:
    steps: tuple[Step, ...]
    is_contradiction: bool
    """Whether nothing is left at all after the last step."""


def explain_loss(instance: Instance, decisions: Sequence[Decision], lost: Decision) -> Explanation | None:
    """Why the choice has none of these values left after the decisions; None where it has one."""
    cell, mask = _place(instance, lost)
    return _explain(instance, decisions, lambda v: not v[cell] & mask, flipped=cell)


def explain_limit(
    instance: Instance,
    decisions: Sequence[Decision],
    counter: tuple[str, tuple[str, ...]],
    claim: Claim,
) -> Explanation | None:
    """Why the claim holds of the counter or quantity; None where it does not.

    Quantities of an ordered enum's type are compared by positions.
    """
    if counter[0] in instance.space.quantities:
        return _explain_quantity(instance, decisions, _quantity(instance, *counter), claim)
    cell = _counter(instance, *counter)
    return _explain(instance, decisions, lambda v: claim.holds((v[cell], v[cell + 1])))


def explain_contradiction(instance: Instance, decisions: Sequence[Decision]) -> Explanation | None:
    """Why nothing is left after the decisions; None where propagators leave something."""
    return _explain(instance, decisions, lambda v: False)


def _explain_quantity(
    instance: Instance, decisions: Sequence[Decision], quantity: Key, claim: Claim
) -> Explanation | None:
    """The chain, and behind it the quantities that lead from it to the one that is asked about."""
    circle = instance.propagation.circle()
    if circle:
        return _Namer(instance, None).circle(circle)
    graph = reasoned_graph(instance)
    restrictions = [Restriction(*_place(instance, decision)) for decision in decisions]
    derivation = derive(instance, restrictions, claimed(instance, graph, quantity, claim))
    if derivation is None:
        return None
    names = {id(r): d for r, d in zip(restrictions, decisions, strict=True)}
    namer = _Namer(instance, None)
    chain = namer.explanation(derivation, names)
    if derivation.is_contradiction:
        return chain
    found = boundings(instance, graph, quantity, claim, derivation)
    behind = tuple(namer.bounding(bounding, len(chain.steps)) for bounding in found)
    return Explanation((*chain.steps, *behind), is_contradiction=False)


def _explain(
    instance: Instance, decisions: Sequence[Decision], goal: Goal, flipped: int | None = None
) -> Explanation | None:
    circle = instance.propagation.circle()
    if circle:
        return _Namer(instance, None).circle(circle)
    restrictions = [Restriction(*_place(instance, decision)) for decision in decisions]
    derivation = derive(instance, restrictions, goal)
    if derivation is None:
        return None
    names = {id(r): d for r, d in zip(restrictions, decisions, strict=True)}
    return _Namer(instance, flipped).explanation(derivation, names)


def _place(instance: Instance, decision: Decision) -> tuple[int, int]:
    """The cell of a choice on objects, in the orientation asked for, and the mask of values."""
    try:
        choice = instance.space.choices[decision.choice]
        key = tuple(instance.objects.names.index(name) for name in decision.objects)
        cell = instance.layout.cells[choice.name][key]
        if isinstance(choice, EnumChoice):
            return cell, choice.mask(*map(str, decision.values))
        universe = instance.layout.universes[cell]
        return cell, sum(1 << universe.index(int(value)) for value in dict.fromkeys(decision.values))
    except (KeyError, ValueError):
        raise UnknownDecisionError(decision) from None


def _counter(instance: Instance, choice: str, objects: tuple[str, ...]) -> int:
    try:
        key = tuple(instance.objects.names.index(name) for name in objects)
        return instance.layout.cells[choice][key]
    except (KeyError, ValueError):
        raise UnknownDecisionError(Decision(choice, objects, ())) from None


def _quantity(instance: Instance, name: str, objects: tuple[str, ...]) -> Key:
    known = set(instance.objects.keys(instance.space.quantities[name].params))
    key = tuple(instance.objects.names.index(o) for o in objects if o in instance.objects.names)
    if len(key) != len(objects) or key not in known:
        raise UnknownDecisionError(Decision(name, objects, ()))
    return name, key


@dataclass(frozen=True, slots=True)
class _Namer:
    """Words for cells and calls."""

    instance: Instance
    flipped: int | None
    """The cell of a pair whose orientation is the one to be shown."""

    def explanation(self, derivation: Derivation, decisions: Mapping[int, Decision]) -> Explanation:
        steps = tuple(self._step(inference, decisions) for inference in derivation.inferences)
        return Explanation(steps, derivation.is_contradiction)

    def _step(self, inference: Inference, decisions: Mapping[int, Decision]) -> Step:
        changes = tuple(self._change(narrowing) for narrowing in inference.narrowings)
        part = inference.part
        if isinstance(part, Restriction):
            return Step(decisions[id(part)], (), (), changes, inference.reasons)
        if part.propagator is None:
            return Step(None, (), (), changes, inference.reasons)
        spans = responsible_lines(self.instance, part, inference.before, inference.narrowings)
        names = self.instance.objects.names
        spans = tuple(self._definitions().get(span, span) for span in spans)
        pairs = zip(part.propagator.arguments, part.arguments, strict=True)
        binding = tuple((variable, names[number]) for variable, number in pairs)
        return Step(None, spans, binding, changes, inference.reasons)

    def _definitions(self) -> dict[Span, Span]:
        """Whole definitions of counters, by the places of their names."""
        choices = self.instance.compiled.complete.choices.values()
        return {choice.span: choice.definition for choice in choices if isinstance(choice, Counter)}

    def circle(self, circle: Sequence[Difference]) -> Explanation:
        """From the first counter back to itself, which would have to be greater than it is."""
        steps: list[Step] = []
        more = 0
        for edge in circle:
            more += edge.weight
            shown = "" if not more else f" + {more}" if more > 0 else f" - {-more}"
            relation = f"{self._use(edge.target)} is at least {self._use(circle[0].source)}{shown}"
            names = self.instance.objects.names
            binding = tuple((v, names[edge.binding[v]]) for v in edge.propagator.arguments)
            reasons = (len(steps) - 1,) if steps else ()
            steps.append(Step(None, edge.propagator.spans, binding, (), reasons, relation))
        return Explanation(tuple(steps), is_contradiction=True)

    def bounding(self, bounding: Bounding, count: int) -> Step:
        """Of a quantity, behind a chain of so many steps."""
        name, key = bounding.ends[0].quantity
        quantity, names = self.instance.space.quantities[name], self.instance.objects.names
        binding = tuple((p.name, names[k]) for p, k in zip(quantity.params, key, strict=True))
        changes = tuple(self._end(end) for end in bounding.ends)
        reasons = (*bounding.parts, *(count + bound for bound in bounding.bounds))
        return Step(None, (quantity.span,), binding, changes, reasons)

    def _end(self, end: End) -> Change:
        name, key = end.quantity
        use = f"{name}({', '.join(self.instance.objects.names[k] for k in key)})"
        order = self.instance.space.quantities[name].values
        before: Value = end.before if order is None else order[end.before]
        after: Value = end.after if order is None else order[end.after]
        return Change(f"{'greatest' if end.is_greatest else 'least'} {use}", (before,), (after,), True)

    def _change(self, narrowing: Narrowing) -> Change:
        layout = self.instance.layout
        cell, before, after = narrowing.cell, narrowing.before, narrowing.after
        if cell not in layout.owners:
            if not self._is_counter(cell - 1):
                return self._presence(cell, before, after)
            cell -= 1  # the greatest value of a counter
        twin = layout.twins.get(cell)
        name, _ = layout.owners[cell]
        choice = self.instance.compiled.complete.choices[name]
        if isinstance(choice, Counter):
            is_low = narrowing.cell == cell
            return Change(f"{'least' if is_low else 'greatest'} {self._use(cell)}", (before,), (after,), True)
        if isinstance(choice, EnumChoice):
            if twin is not None and twin == self.flipped:
                cell, before, after = twin, choice.invert(before), choice.invert(after)
            return Change(self._use(cell), choice.names(before), choice.names(after), False)
        universe = layout.universes[cell]
        return Change(self._use(cell), _values(universe, before), _values(universe, after), False)

    def _is_counter(self, cell: int) -> bool:
        owner = self.instance.layout.owners.get(cell)
        return owner is not None and isinstance(self.instance.compiled.complete.choices[owner[0]], Counter)

    def _use(self, cell: int) -> str:
        name, key = self.instance.layout.owners[cell]
        return f"{name}({', '.join(self.instance.objects.names[k] for k in key)})"

    def _presence(self, cell: int, before: int, after: int) -> Change:
        layout, names = self.instance.layout, self.instance.objects.names
        what = "?"
        for (set_name, key, member), place in layout.presence.items():
            if place == cell:
                shown = f"({', '.join(names[k] for k in key)})" if key else ""
                what = f"{names[member]} in {set_name}{shown}"
        for (trigger, key), place in layout.firings.items():
            if place == cell:
                line = self.instance.space.triggers[trigger].span.line
                what = f"the trigger of line {line} on {', '.join(names[k] for k in key) or 'nothing'}"
        words = ("no", "yes")
        return Change(
            what,
            words if before == 1 | PRESENT else (words[before == PRESENT],),
            (words[after == PRESENT],),
            False,
        )


def _values(universe: Sequence[int], mask: int) -> tuple[int, ...]:
    return tuple(value for bit, value in enumerate(universe) if mask >> bit & 1)

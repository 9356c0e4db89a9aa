"""From quantities and comparisons with them to the graph of an instance.

In: the typed terms, the objects with their static values, and the working vector at the root, after
everything that involves no quantity has been propagated. Out: a `Graph`, and for each comparison of a
requirement on objects its node.

Equal nodes are one node; see `terms.py` for what each term makes. Instances of quantities refer to each other
to any depth: what one needs is built on the way, and where that nests too deeply it is built first, and what
needs it begins anew, with the nodes that there are then. A cycle of instances is a located error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from spacedsl.compiler.ir import Limit
from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.objects import Key, Objects
from spacedsl.engine.quantities.building import Builder
from spacedsl.engine.quantities.nodes import Graph
from spacedsl.engine.quantities.scope import Scope, located
from spacedsl.engine.quantities.terms import Grounded, Instance, Terms, height
from spacedsl.engine.static import Statics
from spacedsl.language.space import Binder, Quantity

MOST_FRAMES = 300
"""Of Python, about, that instances built within each other take: less than a third of what it has."""
FRAMES_OF_INSTANCE, FRAMES_OF_LEVEL = 4, 3
"""Of an instance, and of each level that its term nests to."""


class _TooDeepError(Exception):
    """An instance is needed within too many others."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self.instance = instance


@dataclass(frozen=True, slots=True)
class _Definition:
    """Of a quantity."""

    quantity: Quantity
    names: tuple[str, ...]
    maps: Mapping[str, Binder]
    body: Grounded
    frames: int

    @classmethod
    def of(cls, quantity: Quantity, terms: Terms) -> _Definition:
        names = tuple(param.name for param in quantity.params)
        maps = {each.name: each for each in quantity.maps}
        frames = FRAMES_OF_INSTANCE + FRAMES_OF_LEVEL * height(quantity.body)
        return cls(quantity, names, maps, terms.term(quantity.body), frames)

    def grounded(self, objects: Objects, key: Key) -> int:
        ids = dict(zip(self.names, key, strict=True))
        values, span = self.quantity.values or (), self.quantity.span
        return self.body(Scope(objects, ids, self.maps, frozenset(key), values, span))


@dataclass(slots=True, eq=False)
class Grounding:
    statics: Statics
    builder: Builder
    _instances: dict[Instance, int] = field(default_factory=dict)
    _definitions: dict[str, _Definition] = field(default_factory=dict)
    _path: dict[Instance, None] = field(default_factory=dict)
    """Instances that are being built, each needed by the one before it."""
    _frames: int = 0
    """Of those that are being built within each other now."""
    _nested: int = 0
    """How often they nested too deeply."""
    _objects: Objects = field(init=False)
    _quantities: Mapping[str, Quantity] = field(init=False)
    _terms: Terms = field(init=False)

    def __post_init__(self) -> None:
        self._objects = self.statics.objects
        self._quantities = self._objects.space.quantities
        keys = {name: frozenset(self._objects.keys(q.params)) for name, q in self._quantities.items()}
        self._terms = Terms(self.statics, self.builder, self._instances, keys, self._instance)

    def all_instances(self) -> None:
        """Grounds every quantity on all objects of its parameters."""
        for name, quantity in self._quantities.items():
            keys = deque(self._objects.keys(quantity.params))
            while keys:
                instance, before = (name, keys.popleft()), self._nested
                if instance not in self._instances:
                    self._built(partial(self._instance, instance))
                if self._nested > before:
                    # What it needs lies towards the other end.
                    keys.reverse()

    def condition(self, limit: Limit) -> Callable[[Key], int]:
        """What gives the node of a comparison of a requirement on objects, in order of its names."""
        formula, names = limit.formula, limit.names
        grounded = self._terms.formula(formula)

        def node(key: Key) -> int:
            ids = dict(zip(names, key, strict=True))
            scope = Scope(self._objects, ids, {}, frozenset(), (), formula.span)
            return self._built(partial(grounded, scope))

        return node

    def graph(self) -> Graph:
        return self.builder.graph(self._instances)

    def _built(self, first: Callable[[], int]) -> int:
        """What comes of it; where it nests too deeply, after what is needed that deep inside."""
        needing = [(first, 0)]
        while True:
            build, above = needing[-1]
            while len(self._path) > above:
                self._path.popitem()
            self._frames = 0
            try:
                node = build()
            except _TooDeepError as needed:
                self._nested += 1
                needing.append((partial(self._instance, needed.instance), len(self._path)))
                continue
            needing.pop()
            if not needing:
                return node

    def _instance(self, instance: Instance) -> int:
        if instance in self._path:
            raise self._cycle(instance)
        name, key = instance
        if name not in self._definitions:
            self._definitions[name] = _Definition.of(self._quantities[name], self._terms)
        definition = self._definitions[name]
        if self._frames and self._frames + definition.frames > MOST_FRAMES:
            raise _TooDeepError(instance)
        self._path[instance] = None
        self._frames += definition.frames
        value = definition.grounded(self._objects, key)
        self._frames -= definition.frames
        self._path.popitem()
        node = self._instances[instance] = self.builder.quantity(value)
        return node

    def _cycle(self, needed: Instance) -> DiagnosticError:
        path: Sequence[Instance] = [*self._path, needed]
        cycle = path[path.index(needed) :]
        names = self._objects.names
        shown = " <- ".join(f"{name}({', '.join(names[k] for k in key)})" for name, key in cycle)
        span = self._quantities[needed[0]].span
        hint = "a value must not depend on itself, in no branch that is possible"
        return located("SP441", f"this quantity depends on itself: {shown}", span, hint)

"""Propagation: the queue of changed domains, and the propagators that each change runs.

In: the compiled propagators, the layout and the static tables of an instance. Out: `Propagation`, which takes
a vector, narrows one domain and runs propagators until nothing changes. It works in place on one list and
keeps nothing between calls; vectors are copied in and out. It is not for two threads at a time.

Changed domains are served first come, first served. Counters run once no other change is waiting. The result
does not depend on the order.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from spacedsl.compiler import CompiledSpace
from spacedsl.compiler.ir import InMask, Propagator, Settle, Wake
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.differences import Difference, contradictory_circle
from spacedsl.engine.domains import Contradiction, Domains, without
from spacedsl.engine.integers import Equality
from spacedsl.engine.layout import INTEGER_WORDS, WORD_BITS, Layout, by_ids, decided_cells
from spacedsl.engine.objects import Objects
from spacedsl.engine.presence import PresenceWakes, presence_tables, presence_update
from spacedsl.engine.quantities.building import Builder
from spacedsl.engine.quantities.evaluation import Evaluation
from spacedsl.engine.quantities.grounding import Grounding
from spacedsl.engine.quantities.limits import Limits, Ungrounded
from spacedsl.engine.quantities.sites import askings, bindings
from spacedsl.engine.static import Statics, set_tables
from spacedsl.engine.triggers import Expansion
from spacedsl.engine.twins import twins
from spacedsl.engine.wakes import Call, Wakes
from spacedsl.language.host_runtime import describe
from spacedsl.language.space import EnumChoice

Around = Callable[[Propagator | None, Callable[..., None]], Callable[..., None]]
"""Of a propagator (None: of what recomputes presence) and the function that runs it, another function."""


@dataclass(slots=True, eq=False)
class Propagation:
    compiled: CompiledSpace
    objects: Objects
    expansion: Expansion
    layout: Layout
    pick: Callable[[int], int] | None = None
    """For tests: which of the waiting domains, of so many, is served next."""
    around: Around | None = None
    """For explanations: what runs in place of each propagator's function."""
    _domains: Domains = field(init=False)
    _limits: Limits = field(init=False)
    _graph: Evaluation | None = None
    """Of the quantities, once the root has been propagated as far as nothing involves one."""
    _later: dict[tuple[Any, ...], None] = field(default_factory=dict)
    """Waiting counters: the function and its arguments."""
    _statics: Statics = field(init=False)
    _namespace: dict[str, Any] = field(default_factory=dict)
    _wakes: list[Wakes | None] = field(default_factory=list)
    """By cell, as they are asked for."""
    _by_choice: dict[str, list[tuple[Propagator, Wake]]] = field(default_factory=dict)
    _presence: PresenceWakes = field(init=False)

    def __post_init__(self) -> None:
        layout = self.layout
        self._wakes = [None] * len(layout.initial)
        self._statics = Statics(self.objects, layout)
        self._domains = Domains(list(layout.initial), layout.universes, twins(self.compiled.complete, layout))
        self._limits = Limits(self._domains, frozenset(decided_cells(self.compiled.complete, self.layout)))
        for propagator in self.compiled.module.propagators:
            for wake in propagator.wakes:
                self._by_choice.setdefault(wake.use.choice, []).append((propagator, wake))
        self._namespace = {**self._tables(), **self._operations()}
        exec(self.compiled.code, self._namespace)
        self._namespace["update_presence"] = presence_update(self._namespace)
        if self.around is not None:
            for propagator in self.compiled.module.propagators:
                run = self._namespace[propagator.name]
                self._namespace[propagator.name] = self.around(propagator, run)
            self._namespace["update_presence"] = self.around(None, self._namespace["update_presence"])
        self._presence = PresenceWakes(
            self.compiled.module, layout, self._statics, self.expansion, self._namespace
        )

    # ---- For the instance ---------------------------------------------------------------------------------

    def root(self) -> array[int] | None:
        """Every propagator on every binding, to the fixpoint; None: the space is empty."""
        if self.circle():
            return None
        return self.root_by_propagators()

    def circle(self) -> tuple[Difference, ...]:
        """Comparisons of counters that contradict each other in a circle, whatever is decided; or none."""
        return contradictory_circle(self.compiled, self._statics)

    def root_by_propagators(self) -> array[int] | None:
        """The same where comparisons of counters do not contradict each other in a circle."""
        self._domains.v[:] = self.layout.initial
        if not self.compiled.space.quantities:
            return self._run(self._start_everywhere)
        self._limits.evaluation = None
        plain = self._run(self._start_everywhere)
        if plain is None:
            return None
        if self._graph is None:
            # In the form that propagators see, which a vector is packed from.
            self._load(plain)
            self._ground()
        self._load(plain)
        return self._run(self._start_limited)

    def quantities(self, vector: array[int]) -> Iterator[tuple[str, tuple[int, ...], tuple[int, int]]]:
        """All that exist here: name, ids of objects, the interval in a vector."""
        graph = self.evaluated(vector)
        for (name, key), node in graph.graph.instances.items():
            yield name, key, (graph.low[node], graph.high[node])

    def quantity(self, vector: array[int], name: str, key: tuple[int, ...]) -> tuple[int, int]:
        """The interval of a quantity on objects, of their ids, in a vector."""
        graph = self.evaluated(vector)
        node = graph.graph.instances[name, key]
        return graph.low[node], graph.high[node]

    def node(self, name: str, key: tuple[int, ...]) -> int:
        """Of a quantity on objects, of their ids, in the graph."""
        return self._known_graph().graph.instances[name, key]

    def evaluated(self, vector: array[int]) -> Evaluation:
        """The intervals of all nodes in a vector, until something else is propagated."""
        graph = self._known_graph()
        self._load(vector)
        graph.load()
        graph.refresh()
        return graph

    def _known_graph(self) -> Evaluation:
        if self._graph is None:
            self.root()
        if self._graph is None:
            raise ValueError("the space is empty")
        return self._graph

    def _ground(self) -> None:
        """Makes the graph of quantities, in which what is settled at the root is constant, without a reason.

        Explanations need reasons: there, only what is settled before any propagation is constant.
        """
        if self.around is not None:
            # A branch that propagation rules out may read what does not exist; it needs the root.
            with suppress(DiagnosticError):
                self._ground_on(list(self.layout.initial))
                return
        self._ground_on(self._domains.v)

    def _ground_on(self, vector: Sequence[int]) -> None:
        """The graph for a vector, and the tables of comparisons with quantities."""
        builder = Builder(vector, self.layout.universes)
        grounding = Grounding(self._statics, builder)
        grounding.all_instances()
        calls: dict[int, dict[Call, None]] = {}
        numbers = {limit: number for number, limit in enumerate(self.compiled.python.limits)}
        for propagator in self.compiled.module.propagators:
            for asking in askings(propagator, self._statics):
                condition = grounding.condition(asking.template)
                table = self._namespace[f"limit_{numbers[asking.template]}"]
                for key, arguments in asking.sites:
                    node = table[key[0] if len(key) == 1 else key] = condition(key)
                    call = self._namespace[propagator.name], arguments
                    calls.setdefault(node, {})[call] = None
        self._graph = Evaluation(grounding.graph(), self._domains.v, self.layout.universes)
        self._limits.calls = {node: tuple(each) for node, each in calls.items()}

    def _start_limited(self) -> None:
        for propagator in self.compiled.module.propagators:
            if propagator.limits:
                self._namespace[f"{propagator.name}_everywhere"]()

    def _start_everywhere(self) -> None:
        """Counters first and alone: comparing two that have no bounds yet could raise each for ever."""
        propagators = self.compiled.module.propagators
        for propagator in propagators:
            if propagator.deferred:
                self._namespace[f"{propagator.name}_everywhere"]()
                while self._later:
                    counter, *objects = self._later.popitem()[0]
                    counter(*objects)
        for propagator in propagators:
            if not propagator.deferred:
                self._namespace[f"{propagator.name}_everywhere"]()

    def restrict(self, vector: array[int], cell: int, mask: int) -> array[int] | None:
        """A new vector in which the domain keeps the values of `mask`; None: a contradiction."""
        self._load(vector)
        kept = self._domains.v[cell] & mask
        if kept == self._domains.v[cell]:
            return vector
        return self._run(lambda: self._domains.narrow(cell, kept))

    @property
    def working(self) -> list[int]:
        """The vector that calls work on, in place; an integer domain is one mask, in its first word."""
        return self._domains.v

    def unpacked(self, vector: array[int]) -> list[int]:
        """The same as a working vector."""
        self._load(vector)
        return self._domains.v

    def keep(self, cell: int, mask: int) -> None:
        """In the working vector: the domain keeps the values of `mask`. Runs nothing."""
        if self._domains.v[cell] & ~mask:
            self._domains.narrow(cell, self._domains.v[cell] & mask)

    def replay(self, calls: Iterable[Callable[[], None]]) -> bool:
        """Runs calls on the initial vector, and nothing that they would wake; False: a contradiction."""
        self._domains.v[:] = self.layout.initial
        # What is true of a quantity is asked anew at each call: changes come from outside, too.
        self._limits.listening, self._limits.evaluation = False, self._graph
        try:
            for call in calls:
                call()
        except Contradiction:
            return False
        finally:
            self._forget()
        return True

    def _run(self, start: Callable[[], object]) -> array[int] | None:
        try:
            self._limits.listening = self._limits.evaluation is not None
            start()
            self._fixpoint()
        except Contradiction:
            return None
        finally:
            self._forget()
        return self._store()

    def _forget(self) -> None:
        """What is waiting."""
        self._domains.queue.clear()
        self._domains.before.clear()
        self._later.clear()
        self._limits.forget()

    def _load(self, vector: array[int]) -> None:
        v = self._domains.v
        v[:] = vector
        for cell in self.layout.wide:
            v[cell] = sum(v[cell + word] << WORD_BITS * word for word in range(INTEGER_WORDS))
        if self._graph is not None:
            self._graph.load()
            self._limits.evaluation = self._graph

    def _store(self) -> array[int]:
        v = self._domains.v
        for cell in self.layout.wide:
            mask = v[cell]
            for word in range(INTEGER_WORDS):
                v[cell + word] = mask >> WORD_BITS * word & (1 << WORD_BITS) - 1
        return array("Q", v)

    def _fixpoint(self) -> None:
        v, queue, before_of = self._domains.v, self._domains.queue, self._domains.before
        later, wakes, limits = self._later, self._wakes, self._limits
        while queue or later or limits.waiting:
            if not queue and not later:
                limits.run()
                continue
            if not queue:
                counter, *objects = later.popitem()[0]
                counter(*objects)
                continue
            if self.pick is not None:
                queue.rotate(-self.pick(len(queue)))
            cell = queue.popleft()
            before, now = before_of.pop(cell), v[cell]
            limits.notice(cell)
            woken = wakes[cell]
            if woken is None:
                woken = wakes[cell] = self._woken_by(cell)
            for function, arguments in woken.always:
                function(*arguments)
            for gate, calls in woken.gated:
                if before & gate and not now & gate:
                    for function, arguments in calls:
                        function(*arguments)
            for key in woken.counters:
                later[key] = None
            if before:
                for key in woken.itself:
                    later[key] = None

    # ---- Wakes --------------------------------------------------------------------------------------------

    def _woken_by(self, cell: int) -> Wakes:
        if cell not in self.layout.owners:
            return self._presence.woken_by(cell)
        choice, key = self.layout.owners[cell]
        # Mappings to None keep the order and hold each call once.
        always: dict[Call, None] = {}
        gated: dict[int, dict[Call, None]] = {}
        counters: dict[tuple[Any, ...], None] = {}
        itself: dict[tuple[Any, ...], None] = {}
        for propagator, wake in self._by_choice.get(choice, ()):
            for objects, swapped in ((key, False), (key[::-1], True))[: 2 if wake.mirrored else 1]:
                environment = dict(zip(wake.use.args, objects, strict=True))
                if not all(self._statics.holds(test, environment) for test in wake.tests):
                    continue
                function = self._namespace[wake.name]
                arguments = objects if wake.loops else tuple(environment[a] for a in propagator.arguments)
                if wake.gate is not None:
                    # Its host expressions are about members of the sets that the wake loops over.
                    if any(True for _ in bindings(self._statics, wake.loops, environment)):
                        gate = self._gate(wake, environment, swapped)
                        gated.setdefault(gate, {})[function, arguments] = None
                elif not propagator.deferred or wake.loops:
                    always[function, arguments] = None
                elif any(isinstance(s, Settle) and s.use == wake.use for s in propagator.body):
                    itself[function, *arguments] = None
                else:
                    counters[function, *arguments] = None
        gates = tuple((gate, tuple(calls)) for gate, calls in gated.items() if gate)
        return Wakes(tuple(always), gates, tuple(counters), tuple(itself))

    def _gate(self, wake: Wake, environment: dict[str, int], swapped: bool) -> int:
        if isinstance(wake.gate, InMask):
            choice = self.compiled.complete.choices[wake.use.choice]
            assert isinstance(choice, EnumChoice)
            return choice.invert(wake.gate.mask) if swapped else wake.gate.mask
        assert wake.gate is not None
        return self._statics.mask(wake.gate, environment)

    # ---- The namespace of generated code ------------------------------------------------------------------

    def _tables(self) -> dict[str, object]:
        space, objects, python = self.compiled.complete, self.objects, self.compiled.python
        count = len(objects.objects)
        found: dict[str, object] = {
            f"at_{name}": by_ids(self.layout.cells[name], choice.params, count)
            for name, choice in space.choices.items()
        }
        for name in space.sets:
            found.update(set_tables(objects, name))
        found.update({f"host_{n}": self._statics.table(host) for n, host in enumerate(python.hosts)})
        found.update({f"mask_{n}": self._statics.table(mask) for n, mask in enumerate(python.masks)})
        found.update({f"limit_{number}": Ungrounded() for number in range(len(python.limits))})
        if space.triggers:
            found.update(presence_tables(space, self.layout))
        return found

    def _operations(self) -> dict[str, object]:
        domains, equality, limits = self._domains, Equality(self._domains), self._limits
        methods = (
            *(domains.narrow, domains.settle, domains.raise_low, domains.lower_high),
            *(domains.translate, domains.make_same, domains.make_other, domains.make_ordered),
            *(domains.least, domains.greatest, domains.drop_below, domains.drop_above),
            *(domains.cap_integer, domains.cap_counter, domains.follow),
            *(equality.may_be_equal, equality.may_differ, equality.make_equal, equality.make_different),
            *(limits.possible, limits.require),
        )
        return {
            "v": domains.v,
            "later": self._later,
            "Contradiction": Contradiction,
            "too_small": self._too_small,
            "without": without,
            **{method.__name__: method for method in methods},
        }

    def _too_small(self, number: int, value: int) -> None:
        check = self.compiled.python.checks[number]
        message = (
            f"a contribution of {describe(value)} to a counter that needs at least {check.least} from each"
        )
        raise DiagnosticError([Diagnostic("SP413", message, check.span)])

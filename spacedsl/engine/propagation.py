"""Propagation: a queue of changed domains, and the operations on domains that propagators use.

In: the compiled propagators, the layout and the static tables of an instance. Out: `Propagation`, which takes
a vector, narrows one domain and runs propagators until nothing changes. It works in place on one list and
keeps nothing between calls; candidates are copied in and out. It is not for two threads at a time.

Changed domains are served first come, first served, each with the value that it had when it was queued.
Counters run once no other change is waiting. The result does not depend on the order.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from spacedsl.compiler import CompiledSpace
from spacedsl.compiler.ir import InMask, Propagator, Settle, Wake
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.integers import integer_operations
from spacedsl.engine.layout import INTEGER_WORDS, WORD_BITS, Layout, by_ids
from spacedsl.engine.objects import Objects
from spacedsl.engine.presence import PresenceWakes, presence_tables
from spacedsl.engine.static import Statics
from spacedsl.engine.triggers import Expansion
from spacedsl.engine.wakes import Call, Contradiction, Wakes
from spacedsl.language.space import EnumChoice, Symmetry

INVERSE_TABLE_BITS = 12


@dataclass(slots=True, eq=False)
class Propagation:
    compiled: CompiledSpace
    objects: Objects
    expansion: Expansion
    layout: Layout
    statics: Statics = field(init=False)
    namespace: dict[str, Any] = field(default_factory=dict)
    pick: Callable[[int], int] | None = None
    """For tests: which of the waiting domains is served next."""
    _v: list[int] = field(default_factory=list)
    _queue: deque[int] = field(default_factory=deque)
    _before: dict[int, int] = field(default_factory=dict)
    _later: dict[tuple[Any, ...], None] = field(default_factory=dict)
    _wakes: list[Wakes | None] = field(default_factory=list)
    _by_choice: dict[str, list[tuple[Propagator, Wake]]] = field(default_factory=dict)
    _wide: tuple[int, ...] = ()
    _presence: PresenceWakes = field(init=False)

    def __post_init__(self) -> None:
        self._v = list(self.layout.initial)
        self._wakes = [None] * len(self._v)
        self._wide = self.layout.wide
        self.statics = Statics(self.objects, self.layout, {}, {})
        for propagator in self.compiled.module.propagators:
            for wake in propagator.wakes:
                self._by_choice.setdefault(wake.use.choice, []).append((propagator, wake))
        self.namespace.update(self._tables())
        self.namespace.update(self._operations())
        exec(self.compiled.code, self.namespace)
        self._presence = PresenceWakes(
            self.compiled.module, self.layout, self.statics, self.expansion, self.namespace
        )

    # ---- For the instance -------------------------------------------------------------------------------

    def root(self) -> array[int] | None:
        """Every propagator on every binding, to the fixpoint; None: the space is empty."""
        self._v[:] = self.layout.initial
        calls = [self.namespace[f"{p.name}_everywhere"] for p in self.compiled.module.propagators]
        return self._run(lambda: [call() for call in calls])

    def restrict(self, vector: array[int], cell: int, mask: int) -> array[int] | None:
        """A new vector in which the domain keeps the values of `mask`, at the fixpoint; None: a contradiction."""
        self._load(vector)
        narrow, kept = self.namespace["narrow"], self._v[cell] & mask
        if kept == self._v[cell]:
            return vector
        return self._run(lambda: narrow(cell, kept))

    def _run(self, start: Callable[[], object]) -> array[int] | None:
        try:
            start()
            self._fixpoint()
        except Contradiction:
            return None
        finally:
            self._queue.clear()
            self._before.clear()
            self._later.clear()
        return self._store()

    def _load(self, vector: array[int]) -> None:
        v = self._v
        v[:] = vector
        for cell in self._wide:
            v[cell] = sum(v[cell + word] << WORD_BITS * word for word in range(INTEGER_WORDS))

    def _store(self) -> array[int]:
        v = self._v
        for cell in self._wide:
            mask = v[cell]
            for word in range(INTEGER_WORDS):
                v[cell + word] = mask >> WORD_BITS * word & (1 << WORD_BITS) - 1
        return array("Q", v)

    def _fixpoint(self) -> None:
        queue, before_of, later, wakes, v = self._queue, self._before, self._later, self._wakes, self._v
        while queue or later:
            if not queue:
                call, *args = later.popitem()[0]
                call(*args)
                continue
            if self.pick is not None:
                queue.rotate(-self.pick(len(queue)))
            cell = queue.popleft()
            before, now = before_of.pop(cell), v[cell]
            woken = wakes[cell]
            if woken is None:
                woken = wakes[cell] = self._woken_by(cell)
            for function, objects in woken.always:
                function(*objects)
            for gate, calls in woken.gated:
                if before & gate and not now & gate:
                    for function, objects in calls:
                        function(*objects)
            for counter in woken.counters:
                later[counter] = None
            if before:
                for counter in woken.itself:
                    later[counter] = None

    # ---- Wakes ------------------------------------------------------------------------------------------

    def _woken_by(self, cell: int) -> Wakes:
        if cell not in self.layout.owners:
            return self._presence.woken_by(cell)
        choice, key = self.layout.owners[cell]
        always: dict[Call, None] = {}
        gated: dict[int, dict[Call, None]] = {}
        counters: dict[tuple[Any, ...], None] = {}
        itself: dict[tuple[Any, ...], None] = {}
        for propagator, wake in self._by_choice.get(choice, ()):
            for objects, swapped in ((key, False), (key[::-1], True)) if wake.mirrored else ((key, False),):
                environment = dict(zip(wake.use.args, objects, strict=True))
                if not all(self.statics.holds(test, environment) for test in wake.tests):
                    continue
                function = self.namespace[wake.name]
                arguments = objects if wake.loops else tuple(environment[a] for a in propagator.arguments)
                if wake.gate is not None:
                    gate = self._gate(wake, environment, swapped)
                    gated.setdefault(gate, {})[function, arguments] = None
                elif not propagator.deferred or wake.loops:
                    always[function, arguments] = None
                elif any(isinstance(s, Settle) and s.use == wake.use for s in propagator.body):
                    itself[function, *arguments] = None
                else:
                    counters[function, *arguments] = None
        return Wakes(
            tuple(always),
            tuple((g, tuple(calls)) for g, calls in gated.items() if g),
            tuple(counters),
            tuple(itself),
        )

    def _gate(self, wake: Wake, environment: dict[str, int], swapped: bool) -> int:
        if isinstance(wake.gate, InMask):
            choice = self.compiled.complete.choices[wake.use.choice]
            assert isinstance(choice, EnumChoice)
            return choice.invert(wake.gate.mask) if swapped else wake.gate.mask
        assert wake.gate is not None
        return self.statics.mask(wake.gate, environment)

    # ---- The namespace of generated code ----------------------------------------------------------------

    def _tables(self) -> dict[str, object]:
        space, objects, python = self.compiled.complete, self.objects, self.compiled.python
        count = len(objects.objects)
        found: dict[str, object] = {
            f"at_{name.replace('.', '_')}": by_ids(self.layout.cells[name], choice.params, count)
            for name, choice in space.choices.items()
        }
        for name, definition in space.sets.items():
            found.update(set_tables(name, len(definition.params), objects, count))
        found.update(self.statics.tables(python.hosts, python.masks))
        if space.triggers:
            found.update(presence_tables(self.compiled.space, self.layout))
        return found

    def _operations(self) -> dict[str, object]:
        """The run-time functions of generated code, closed over the list and the queue."""
        v, queue, before_of = self._v, self._queue, self._before
        twin: list[tuple[int, Any] | None] = [None] * len(v)
        for cell, other in self.layout.twins.items():
            choice = self.compiled.complete.choices[self.layout.owners[cell][0]]
            assert isinstance(choice, EnumChoice)
            twin[cell] = (other, _inverse_table(choice))

        def narrow(cell: int, mask: int) -> None:
            """The domain becomes `mask`, which is smaller; so does that of the other orientation."""
            if not mask:
                raise Contradiction
            before = v[cell]
            v[cell] = mask
            pair = twin[cell]
            if pair is not None:
                other, inverse = pair
                v[other] = inverse[mask]
                if other < cell:
                    cell, before = other, inverse[before]
            if cell not in before_of:
                before_of[cell] = before
                queue.append(cell)

        def limit(cell: int, low: int, high: int, limited: int) -> None:
            if low > high:
                raise Contradiction
            v[cell], v[cell + 1] = low, high
            if cell not in before_of:
                before_of[cell] = limited
                queue.append(cell)
            elif limited:
                before_of[cell] = limited

        def settle(cell: int, low: int, high: int) -> None:
            if low > v[cell] or high < v[cell + 1]:
                limit(cell, max(low, v[cell]), min(high, v[cell + 1]), 0)

        def raise_low(cell: int, bound: int) -> None:
            if bound > v[cell]:
                limit(cell, bound, v[cell + 1], 1)

        def lower_high(cell: int, bound: int) -> None:
            if bound < v[cell + 1]:
                limit(cell, v[cell], bound, 1)

        def translate(mask: int, numbers: tuple[int, ...]) -> int:
            return sum(1 << numbers[bit] for bit in range(len(numbers)) if mask >> bit & 1)

        def make_same(left: int, right: int, numbers: tuple[int, ...] | None) -> None:
            shared = (v[left] if numbers is None else translate(v[left], numbers)) & v[right]
            if shared != v[right]:
                narrow(right, shared)
            if numbers is not None:
                shared = (
                    sum(1 << bit for bit, number in enumerate(numbers) if v[right] >> number & 1) & v[left]
                )
            if shared != v[left]:
                narrow(left, shared)

        def make_other(left: int, right: int, numbers: tuple[int, ...] | None) -> None:
            image = v[left] if numbers is None else translate(v[left], numbers)
            if not image & (image - 1) and image & v[right]:
                narrow(right, v[right] & ~image)
            value = v[right]
            if not value & (value - 1):
                if numbers is not None:
                    value = sum(1 << bit for bit, number in enumerate(numbers) if value >> number & 1)
                if value & v[left]:
                    narrow(left, v[left] & ~value)

        def too_small(number: int, value: int) -> None:
            check = self.compiled.python.checks[number]
            message = f"a contribution of {value} to a counter; at least {check.least} is needed here"
            raise DiagnosticError([Diagnostic("SP413", message, check.span)])

        operations: dict[str, object] = {
            "v": v,
            "later": self._later,
            "Contradiction": Contradiction,
            "narrow": narrow,
            "settle": settle,
            "raise_low": raise_low,
            "lower_high": lower_high,
            "translate": translate,
            "make_same": make_same,
            "make_other": make_other,
            "too_small": too_small,
        }
        operations.update(
            integer_operations(v, self.layout.universes, narrow, raise_low, lower_high, Contradiction)
        )
        return operations


class Inverses(dict[int, int]):
    """The inverses of masks too wide for a table, as they are asked for."""

    def __init__(self, choice: EnumChoice) -> None:
        super().__init__()
        self._choice = choice

    def __missing__(self, mask: int) -> int:
        value = self[mask] = self._choice.invert(mask)
        return value


_inverse_tables: dict[tuple[int, ...], tuple[int, ...]] = {}


def _inverse_table(choice: EnumChoice) -> tuple[int, ...] | Inverses:
    if len(choice.values) > INVERSE_TABLE_BITS or choice.symmetry is Symmetry.NONE:
        return Inverses(choice)
    if choice.inverse not in _inverse_tables:
        _inverse_tables[choice.inverse] = tuple(choice.invert(mask) for mask in range(choice.full + 1))
    return _inverse_tables[choice.inverse]


def set_tables(name: str, params: int, objects: Objects, count: int) -> dict[str, object]:
    """The members of a set as generated code asks for them, by ids of its arguments."""
    instances = objects.members[name]
    union = objects.members[name].values()
    everything = tuple(dict.fromkeys(m for members in union for m in members))
    if params == 0:
        plain: Iterable[int] = instances.get((), {})
        return {
            f"set_{name}": tuple(plain),
            f"in_{name}": frozenset(plain),
            f"rank_{name}": {member: rank for rank, member in enumerate(plain)},
        }
    if params == 1:
        rows: list[tuple[int, ...]] = [()] * count
        owners: list[tuple[int, ...]] = [()] * count
        for (owner,), members in instances.items():
            rows[owner] = tuple(members)
            for member in members:
                owners[member] = (*owners[member], owner)
        found: dict[str, object] = {
            f"set_{name}": rows,
            f"in_{name}": [frozenset(row) for row in rows],
            f"rank_{name}": [{member: rank for rank, member in enumerate(row)} for row in rows],
            f"owners_{name}": owners,
        }
    else:
        found = {
            f"set_{name}": {key: tuple(members) for key, members in instances.items()},
            f"in_{name}": {key: frozenset(members) for key, members in instances.items()},
            f"rank_{name}": {
                k: {m: rank for rank, m in enumerate(members)} for k, members in instances.items()
            },
        }
    return {**found, f"union_{name}": everything}

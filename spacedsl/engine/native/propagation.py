"""Propagation by compiled code: what `engine/propagation.py` defines, on the same vectors.

In: a native instance. Out: `NativePropagation`, which makes vectors from vectors. Each thread works on a
state of its own; the interpreter's lock is not held meanwhile.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spacedsl.compiler import CompiledSpace
from spacedsl.compiler.c import UnprintableError
from spacedsl.compiler.c.build import NoCompilerError
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.layout import INTEGER_WORDS, WORD_BITS, Layout
from spacedsl.engine.native.bindings import NativeLimitError
from spacedsl.engine.native.instance import NativeInstance, Quantity, build_native
from spacedsl.engine.native.library import CONTRADICTION, FAULT
from spacedsl.engine.objects import Key, Objects
from spacedsl.engine.triggers import Expansion
from spacedsl.language.host_runtime import describe

WORD = (1 << WORD_BITS) - 1


def mask_words(masks: Sequence[int]) -> NDArray[np.uint64]:
    """The words of each, the lowest first."""
    words = np.zeros((len(masks), INTEGER_WORDS), np.uint64)
    for word in range(INTEGER_WORDS if max(masks, default=0) > WORD else 1):
        words[:, word] = [mask >> WORD_BITS * word & WORD for mask in masks]
    return words


class State:
    """Memory in which C propagates one vector at a time; freed with this object."""

    def __init__(self, instance: NativeInstance) -> None:
        self.instance = instance
        self._functions = instance.library.functions
        self.address: int = self._functions.new_state(ctypes.byref(instance.tables))
        if not self.address:
            raise MemoryError("no memory for propagation")

    def __del__(self) -> None:
        if getattr(self, "address", None):
            self._functions.free_state(self.address)

    def refuse(self) -> None:
        """Raises the located error of the check that failed."""
        value = (ctypes.c_uint64 * 2)()
        number = self._functions.fault_of(self.address, value) - 1
        if number < 0:
            raise MemoryError("no memory for descents")
        check = self.instance.checks[number]
        found = int.from_bytes(bytes(value), "little", signed=True)
        message = (
            f"a contribution of {describe(found)} to a counter that needs at least {check.least} from each"
        )
        raise DiagnosticError([Diagnostic("SP413", message, check.span)])


def native_or_reason(
    compiled: CompiledSpace, objects: Objects, expansion: Expansion, layout: Layout
) -> tuple[NativePropagation | None, str | None]:
    """The native engine of an instance, or why it cannot run here."""
    try:
        return NativePropagation(build_native(compiled, objects, expansion, layout)), None
    except (UnprintableError, NoCompilerError, NativeLimitError) as error:
        return None, str(error)
    except DiagnosticError as error:
        # The reference computes a static value only once it is asked for, which may be never.
        return None, f"a value of the kernel cannot be computed: {error.diagnostics[0].message}"


@dataclass(slots=True, eq=False)
class NativePropagation:
    instance: NativeInstance
    _states: threading.local = field(default_factory=threading.local)
    _plain_root: array[int] | None = None
    """Without the limits on quantities, if there are any."""
    _nodes: Mapping[Quantity, int] = field(default_factory=dict)

    def root(self) -> array[int] | None:
        """Every propagator on every binding, to the fixpoint; None: the space is empty."""
        vector = array("Q", bytes(8 * self.instance.words))
        functions = self.instance.library.functions
        if self._plain_root is None:
            state = self.state()
            end = functions.propagate_root(state.address, vector.buffer_info()[0])
            if self._ended(state, end, vector) is None or not self.instance.has_limits:
                return None if end == CONTRADICTION else vector
            self._plain_root = vector[:]
            self._nodes = self.instance.ground(vector)
            # States made before have no room for the graph.
            self._states = threading.local()
        state = self.state()
        vector = self._plain_root[:]
        return self._ended(state, functions.propagate_limits(state.address, vector.buffer_info()[0]), vector)

    def restrict(self, vector: array[int], cell: int, mask: int) -> array[int] | None:
        """A new vector in which the domain keeps the values of `mask`; None: a contradiction."""
        words = (ctypes.c_uint64 * INTEGER_WORDS)(mask & WORD)
        for word in range(1, INTEGER_WORDS if mask > WORD else 1):
            words[word] = mask >> WORD_BITS * word & WORD
        child = vector[:]
        state = self.state()
        functions = self.instance.library.functions
        end = functions.restrict_domain(state.address, child.buffer_info()[0], cell, words)
        return self._ended(state, end, child)

    def restrict_all(
        self, vector: array[int], cells: Sequence[int], masks: Sequence[int]
    ) -> array[int] | None:
        """A new vector in which each of these domains keeps the values of its mask; None: a contradiction."""
        restrict = self.instance.library.functions.restrict_domains
        return self._several(restrict, vector, np.array(cells, np.intp), mask_words(masks))

    def restrict_allowed(
        self, vector: array[int], cells: NDArray[np.intp], masks: NDArray[np.uint64]
    ) -> array[int]:
        """The same one after the other, but for those that are refused then, or are decided.

        `masks`: a row of words for each, the lowest first.
        """
        child = self._several(self.instance.library.functions.restrict_allowed, vector, cells, masks)
        assert child is not None
        return child

    def _several(
        self,
        restrict: Callable[..., int],
        vector: array[int],
        cells: NDArray[np.intp],
        masks: NDArray[np.uint64],
    ) -> array[int] | None:
        places, words = np.ascontiguousarray(cells, np.int32), np.ascontiguousarray(masks)
        child = vector[:]
        state = self.state()
        addresses = (each.ctypes.data for each in (places, words))
        end = restrict(state.address, child.buffer_info()[0], len(places), *addresses)
        return self._ended(state, end, child)

    def node(self, name: str, key: Key) -> int:
        """Of a quantity on objects, of their ids; raises `ValueError` where the space is empty."""
        return self._grounded()[name, key]

    def quantities(self, vector: array[int]) -> Iterator[tuple[str, Key, tuple[int, int]]]:
        """All that exist here: name, ids of objects, the interval in a vector."""
        nodes = self._grounded()
        lows, highs = self._ends(vector)
        for (name, key), node in nodes.items():
            yield name, key, (lows[node], highs[node])

    def quantity(self, vector: array[int], name: str, key: Key) -> tuple[int, int]:
        """The interval of a quantity on objects, of their ids, in a vector."""
        node = self.node(name, key)
        lows, highs = self._ends(vector)
        return lows[node], highs[node]

    def highs(self, vector: array[int]) -> array[int]:
        """The greatest values of all nodes in a vector."""
        return self._ends(vector)[1]

    def _grounded(self) -> Mapping[Quantity, int]:
        if not self._nodes and self.root() is None:
            raise ValueError("the space is empty")
        return self._nodes

    def _ends(self, vector: array[int]) -> tuple[array[int], array[int]]:
        """The least and the greatest values."""
        room = bytes(8 * self.instance.tables.node_count)
        ends = array("q", room), array("q", room)
        addresses = (each.buffer_info()[0] for each in (vector, *ends))
        self.instance.library.functions.least_and_greatest_values(self.state().address, *addresses)
        return ends

    def state(self) -> State:
        """This thread's."""
        try:
            return self._states.state  # type: ignore[no-any-return]
        except AttributeError:
            self._states.state = State(self.instance)
            return self._states.state  # type: ignore[no-any-return]

    def _ended(self, state: State, end: int, vector: array[int]) -> array[int] | None:
        if end == FAULT:
            state.refuse()
        return None if end == CONTRADICTION else vector

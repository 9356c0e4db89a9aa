"""A run taken up from its record: everything that happened is folded into a fresh state.

In: a state in which nothing has happened yet, and a store. Out: the state as it was left. Nothing is drawn,
lowered or measured.
"""

from __future__ import annotations

import json

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.comparison import Comparison
from spacedsl.search.state import Contender, Evaluation, State
from spacedsl.search.store import DamagedError, Store
from spacedsl.search.tree import Tree


def restore(state: State, store: Store) -> str | None:
    """The random state after the last iteration; None where there was none. Raises `DamagedError`."""
    random_state: str | None = None
    for happened in store.history():
        if isinstance(happened, Comparison):
            state.compare(happened)
            continue
        try:
            if isinstance(happened, Evaluation):
                state.evaluate(happened)
            else:
                random_state = happened.random_state
                state.absorb(happened)
        except IndexError:
            message = (
                f"the record in {store.folder} is damaged: iteration {state.iterations + 1} has no place"
            )
            raise DamagedError(message) from None
    return random_state


def take_up(random: np.random.Generator, state: str, store: Store) -> None:
    """Has a generator go on from a state that was recorded; raises `DamagedError`."""
    try:
        random.bit_generator.state = json.loads(state)
    except (ValueError, TypeError, KeyError):
        raise DamagedError(f"the record in {store.folder} is damaged: a random state is none") from None


def implementations(instance: Instance, root: Candidate, bound: Bound, store: Store) -> list[Contender]:
    """All that a run found to be right, fastest first, with distinct code. Raises `DamagedError`."""
    state = State(Tree(instance, root, bound(root), kept_times=1), kept_contenders=1)
    restore(state, store)
    return sorted([*state.contenders, *state.reserve], key=lambda contender: contender.comparable_ns)

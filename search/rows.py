"""Iterations and outcomes as rows of the record of a run, and back.

In: a record. Out: the cells of its row in the order of the columns in `store.py`; or the other way round. No
file is read or written here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spacedsl.engine.decision import Decision
from spacedsl.kernels.evaluation import Failure, Outcome, Timing
from spacedsl.search.measurements import Measurement
from spacedsl.search.state import Drawn, Iteration
from spacedsl.search.tree import Expansion, Step


def row_of(iteration: Iteration) -> tuple[object, ...]:
    e, d = iteration.expansion, iteration.drawn
    expansion = json.dumps([e.forced, e.bound_ns, e.variable, e.masks, e.bounds_ns, e.refused])
    drawn = (None,) * 3 if d is None else (json.dumps(d.steps), d.bound_ns, d.digest)
    return (
        json.dumps(iteration.path), expansion, *drawn, iteration.proven_ns, iteration.refused,
        iteration.seconds, iteration.evaluations, iteration.random_state,
    )  # fmt: skip


def cells_of(outcome: Outcome) -> tuple[object, ...]:
    """The columns `time_ns` to `message`."""
    t = outcome.timing
    timing = (None,) * 4 if t is None else (t.time_ns, t.low_ns, t.high_ns, t.samples)
    return (*timing, outcome.failure, outcome.message)


def outcome_of(
    time_ns: float | None,
    low_ns: float,
    high_ns: float,
    samples: int,
    failure: str | None,
    message: str,
) -> Outcome:
    timing = None if time_ns is None else Timing(time_ns, low_ns, high_ns, samples)
    return Outcome(timing, None if failure is None else Failure(failure), message)


def phases_of(text: str) -> tuple[tuple[str, float], ...]:
    return tuple((str(name), float(time_ns)) for name, time_ns in json.loads(text))


def iteration_of(row: Mapping[str, Any]) -> Iteration:
    forced, bound_ns, variable, masks, bounds_ns, refused = json.loads(row["expansion"])
    return Iteration(
        path=tuple(json.loads(row["path"])),
        expansion=Expansion(_steps(forced), bound_ns, variable, tuple(masks), tuple(bounds_ns), refused),
        drawn=None if row["steps"] is None else _drawn(row),
        proven_ns=row["proven_ns"],
        refused=row["refused"],
        seconds=row["seconds"],
        evaluations=row["evaluations"],
        random_state=row["random_state"],
    )


def row_of_measurement(measurement: Measurement) -> tuple[object, ...]:
    m = measurement
    decisions = json.dumps([[d.choice, d.objects, d.values] for d in m.decisions])
    return (m.digest, m.device, *cells_of(m.outcome), m.bound_ns, decisions)


def measurement_of(digest: str, device: str, *cells: Any) -> Measurement:
    *outcome, bound_ns, decisions = cells
    return Measurement(
        digest,
        device,
        outcome_of(*outcome),
        bound_ns,
        tuple(Decision(choice, tuple(o), tuple(v)) for choice, o, v in json.loads(decisions)),
    )


def _drawn(row: Mapping[str, Any]) -> Drawn:
    return Drawn(_steps(json.loads(row["steps"])), row["bound_ns"], row["digest"])


def _steps(pairs: list[list[int]]) -> tuple[Step, ...]:
    return tuple(Step(variable, mask) for variable, mask in pairs)

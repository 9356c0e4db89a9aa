"""`explain --bound`: what the bound of a candidate consists of, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spacedsl.cli.console import Console
from spacedsl.cli.faults import ExitCode
from spacedsl.cli.options import parse_sizes
from spacedsl.cli.summary import duration

if TYPE_CHECKING:
    from spacedsl.api.bounding import Bounded
    from spacedsl.engine.decision import Decision


def explain_bound(
    console: Console,
    kernel: Path,
    *,
    decide: Sequence[str],
    decisions: Path | None,
    sizes: Sequence[str],
    space: Path | None,
    target: str | None,
    device: Path | None,
    json: bool,
) -> ExitCode:
    """Of this machine, which is measured where it has no description yet, or of the one that is named."""
    from spacedsl import api, record
    from spacedsl.api import statements
    from spacedsl.api.bounding import explain_bound as explained
    from spacedsl.api.problem import apply, load_rules
    from spacedsl.api.targets import TARGETS, named_device, target_of
    from spacedsl.files import resolved

    read = api.load_kernel(kernel, parse_sizes(sizes))
    named = named_device(read, target, device)
    kind = (TARGETS["cpu"] if named is None else target_of(named)).kind
    path = resolved(space or read.space_for(kind))
    # What is wrong in a file is said before this machine is measured.
    rules = load_rules(path, read, kind, lambda event: None)
    machine = named or api.local_device(progress=console.say, warn=console.warn)
    problem = apply(rules, read.made_for(machine.kind), machine, lambda event: None)
    taken: list[Decision] = list(record.read(decisions).as_decisions()) if decisions is not None else []
    taken += [statements.parse_decision(problem.instance, text) for text in decide]
    found = explained(problem, taken)
    if json:
        terms = [{"resource": t.resource, "bound_ns": t.bound_ns, "detail": t.detail} for t in found.terms]
        document = {"schema": 1, "kernel": read.name, "device": machine.name}
        console.document({**document, "bound_ns": found.bound_ns, "terms": terms})
    else:
        console.data("\n".join(_lines(found, machine.name)))
    return ExitCode.OK


def _lines(found: Bounded, device: str) -> Iterator[str]:
    yield (
        f"no implementation that is left takes less than {duration(found.bound_ns)} on {device}: the largest "
        "of these times, each of which one resource needs by itself"
    )
    for term in found.terms:
        if term.bound_ns:
            yield f"{duration(term.bound_ns):>10}  {term.resource}: {term.detail}"
    idle = [term.resource for term in found.terms if not term.bound_ns]
    if idle:
        yield f"no time is certain for {', '.join(idle)}"

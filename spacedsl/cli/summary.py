"""What is said at the end of a run or a replay.

In: a `Result` or `Replay` of `spacedsl.api`. Out: text for people, and the JSON documents.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacedsl.api import Best, Replay, Result

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


def duration(time_ns: float) -> str:
    """`12.34 ms`: four significant digits in the largest unit in which the number is at least 1."""
    scale, unit = next(((s, u) for s, u in _UNITS if time_ns >= s), _UNITS[-1])
    value = time_ns / scale
    digits = 3 if value < 10 else 2 if value < 100 else 1
    return f"{value:.{digits}f} {unit}"


def percent(share: float) -> str:
    """`97.3 %`; with as many decimals, up to four, as keep what is short of the whole visible."""
    text = f"{100 * share:.1f}"
    for digits in (2, 3, 4):
        if share >= 1 or float(text) < 100:
            break
        text = f"{100 * share:.{digits}f}"
    return f"{text} %"


def shown(place: Path) -> str:
    """The path from the working folder where it lies below it."""
    here = Path.cwd()
    return str(place.relative_to(here) if place.is_relative_to(here) else place)


def path(place: Path) -> str:
    """The same, quoted for a shell."""
    return shlex.quote(shown(place))


def text(result: Result) -> str:
    """The end of a run, for people."""
    sizes = ", ".join(f"{name}={value}" for name, value in result.kernel.sizes.items())
    title = f"{result.kernel.name} ({sizes})" if sizes else result.kernel.name
    lines = [f"{title} on {result.device.name}, {result.device.threads} threads", ""]
    lines += _best(result, result.best) if result.best is not None else _nothing_valid(result)
    if result.stop == "exhausted":
        lines.append("go on      nothing is left to explore")
    else:
        lines.append(f"go on      spacedsl resume {path(result.run)}")
    return "\n".join(lines)


def rates(result: Result, time_ns: float) -> str:
    """Operations per second where each byte has many, distinct bytes per second where it has few."""
    intensity = result.flops / result.footprint_bytes
    # A count per nanosecond is one in units of 1e9 per second.
    parts = [f"{result.flops / time_ns:.1f} GFLOP/s"] if intensity >= 1 else []
    return ", ".join([*parts, *([f"{result.footprint_bytes / time_ns:.1f} GB/s"] if intensity <= 10 else [])])


def _best(result: Result, best: Best) -> list[str]:
    low, high = best.time_ci_ns
    tensors = result.kernel.backbone.tensors
    arguments = [t.name for t in tensors if not t.is_output] + [
        p.name for p in result.kernel.backbone.parameters
    ]
    tie = " (others cannot be told from it)" if best.is_tied else ""
    return [
        f"best       {duration(best.time_ns)}  (95 %: {duration(low)} to {duration(high)}), "
        f"{rates(result, best.time_ns)}{tie}",
        *_bound(result, best),
        *_counts(result),
        "",
        f"code       {path(best.code)}",
        f"decisions  {path(best.decisions)}",
        f"from C     {path(best.header)}",
        f"in Python  spacedsl.load({shown(best.decisions)!r})({', '.join(arguments)})",
        f"again      spacedsl replay {path(best.decisions)}",
    ]


def _bound(result: Result, best: Best) -> Iterator[str]:
    least_ns = result.progress.least_bound_ns
    own = f"own bound {duration(best.bound_ns)}"
    if least_ns >= best.time_ns:
        yield f"bound      nothing faster is left in the space ({own})"
    else:
        gap = percent((best.time_ns - least_ns) / best.time_ns)
        yield f"bound      {duration(least_ns)} for whatever is left, gap {gap} ({own})"


def _counts(result: Result) -> Iterator[str]:
    p = result.progress
    yield (
        f"search     {p.evaluations} evaluations, {p.valid} valid, in {p.seconds:.1f} s; "
        f"{percent(p.share_cut)} of the space cut"
    )
    if p.failures:
        yield "failures   " + ", ".join(f"{name} {entry.count}" for name, entry in p.failures.items())
    if p.bound_violations:
        what = (
            "which has been raised"
            if result.is_device_raised
            else "measure it again with `spacedsl device characterize`"
        )
        yield (
            f"violations {p.bound_violations} times below the bound: the machine is faster than its "
            f"description, {what}"
        )


def _nothing_valid(result: Result) -> list[str]:
    p = result.progress
    lines = [f"no valid implementation in {p.evaluations} evaluations and {p.seconds:.1f} s"]
    for name, entry in p.failures.items():
        first, *rest = entry.first_message.strip().splitlines() or [""]
        lines.append(f"  {name} {entry.count}: {first}")
        lines += [f"    {line}" for line in rest[:8]]
    return [*lines, ""]


def document(result: Result) -> dict[str, object]:
    """The end of a run for `--json`; paths are absolute."""
    p, best = result.progress, result.best
    return {
        "schema": 1,
        "kernel": result.kernel.name,
        "target": result.target,
        "device": result.device.name,
        "seed": result.seed,
        "evaluations": p.evaluations,
        "valid": p.valid,
        "failures": {str(name): entry.count for name, entry in p.failures.items()},
        "best": None
        if best is None
        else {
            "time_ns": best.time_ns,
            "time_ci_ns": list(best.time_ci_ns),
            "bound_ns": best.bound_ns,
            "code": str(best.code),
            "decisions": str(best.decisions),
            "verified": True,
        },
        "root_bound_ns": result.root_bound_ns,
        "bound_violations": p.bound_violations,
        "search_s": p.seconds,
        "run": str(result.run),
    }


def replay_text(replayed: Replay) -> str:
    """What a replay gave, for people."""
    recorded, timing = replayed.record, replayed.outcome.timing
    same = "identical to the recorded code" if replayed.is_identical else "NOT the recorded code"
    lines = [f"code       {same} (sha256 {replayed.digest[:16]})"]
    lines += [f"changed    {change}" for change in replayed.changes]
    if timing is None:
        lines.append(f"failed     {replayed.outcome.failure}: {replayed.outcome.message.strip()}")
    else:
        lines.append("checked    equal to the reference")
        interval = f"95 %: {duration(timing.low_ns)} to {duration(timing.high_ns)}"
        lines.append(
            f"time       {duration(timing.time_ns)}  ({interval}), recorded {duration(recorded.time_ns)}"
        )
    return "\n".join(lines)


def replay_document(replayed: Replay) -> dict[str, object]:
    """What a replay gave, for `--json`."""
    timing, failure = replayed.outcome.timing, replayed.outcome.failure
    return {
        "schema": 1,
        "kernel": replayed.record.kernel.name,
        "identical": replayed.is_identical,
        "code_sha256": replayed.digest,
        "changes": list(replayed.changes),
        "verified": timing is not None,
        "time_ns": None if timing is None else timing.time_ns,
        "time_ci_ns": None if timing is None else [timing.low_ns, timing.high_ns],
        "recorded_time_ns": replayed.record.time_ns,
        "failure": None if failure is None else {"class": str(failure), "message": replayed.outcome.message},
    }

"""What is said at the end of a run or a replay.

In: a `Result` or `Replay` of `spacedsl.api`. Out: text for people, and the JSON documents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spacedsl.commands import command, path, shown
from spacedsl.diagnostics import counted

if TYPE_CHECKING:
    from spacedsl.api import Best, Replay, Result

BLAME = (
    "the space or the code generator is wrong; most often the .space file lacks a rule on data dependences"
)
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


def text(result: Result) -> str:
    """The end of a run, for people."""
    sizes = ", ".join(f"{name}={value}" for name, value in result.kernel.sizes.items())
    title = f"{result.kernel.name} ({sizes})" if sizes else result.kernel.name
    device = result.device
    units = f"{device.threads} threads" if device.kind == "cpu" else f"{device.sms} SMs"
    lines = [f"{title} on {device.name}, {units}", ""]
    lines += _best(result, result.best) if result.best is not None else _nothing_valid(result)
    if result.stop == "exhausted":
        lines.append("go on      nothing is left to explore")
    else:
        lines.append(f"go on      {command('resume', result.run)}")
    lines += _defects(result)
    return "\n".join(lines)


def rates(result: Result, time_ns: float) -> str:
    """Operations per second where each byte has many, distinct bytes per second where it has few."""
    intensity = result.flops / result.footprint_bytes
    # A count per nanosecond is one in units of 1e9 per second.
    parts = [f"{result.flops / time_ns:.1f} GFLOP/s"] if intensity >= 1 else []
    return ", ".join([*parts, *([f"{result.footprint_bytes / time_ns:.1f} GB/s"] if intensity <= 10 else [])])


def _best(result: Result, best: Best) -> list[str]:
    low, high = best.time_ci_ns
    tensors = result.kernel.tensors
    arguments = [t.name for t in tensors if not t.is_output] + [p.name for p in result.kernel.parameters]
    tie = " (others cannot be told from it)" if best.is_tied else ""
    how = f"95 %: {duration(low)} to {duration(high)}"
    if best.is_predicted:
        how = "predicted: no GPU has run it"
    elif best.measured_on is not None:
        how += f", measured on {best.measured_on}"
    measure = f"measure    {command('batch', result.run, '-o', 'batch')}, for a machine with a GPU"
    call = f"in Python  spacedsl.load({shown(best.decisions)!r})({', '.join(arguments)})"
    return [
        f"best       {duration(best.time_ns)}  ({how}), {rates(result, best.time_ns)}{tie}",
        *_bound(result, best),
        *_counts(result),
        "",
        f"code       {path(best.code)}",
        f"decisions  {path(best.decisions)}",
        f"from C     {path(best.header)}",
        *([] if result.target == "cuda" else [call]),
        f"again      {command('replay', best.decisions)}",
        *([measure] if best.is_predicted else []),
    ]


def _bound(result: Result, best: Best) -> Iterator[str]:
    progress = result.progress
    # Where times are predicted, the tree is cut by these, whatever a GPU has measured since.
    least_ns = min(progress.least_bound_ns, math.inf if progress.best_ns is None else progress.best_ns)
    own = f"own bound {duration(best.bound_ns)}"
    if least_ns >= best.time_ns:
        yield f"bound      nothing faster is left in the space ({own})"
    else:
        gap = percent((best.time_ns - least_ns) / best.time_ns)
        yield f"bound      {duration(least_ns)} for whatever is left, gap {gap} ({own})"


def _counts(result: Result) -> Iterator[str]:
    p = result.progress
    yield (
        f"search     {counted(p.evaluations, 'evaluation')}, {p.valid} valid, in {p.seconds:.1f} s; "
        f"{percent(p.share_cut)} of the space cut"
    )
    if p.remarks:
        yield "remarks    " + ", ".join(f"{remark} {count}" for remark, count in p.remarks.items())
    if p.failures:
        yield "failures   " + ", ".join(f"{name} {entry.count}" for name, entry in p.failures.items())
    if p.bound_violations:
        what = (
            "which has been raised"
            if result.is_device_raised
            else f"measure it again with `{command('device', 'characterize')}`"
        )
        yield (
            f"violations {p.bound_violations} times below the bound: the machine is faster than its "
            f"description, {what}"
        )


def _defects(result: Result) -> Iterator[str]:
    """The commands that reproduce what must not have happened."""
    if not result.defects:
        return
    failures = result.progress.failures
    counts = {d.failed.failure: failures[d.failed.failure].count for d in result.defects}
    yield ""
    yield f"WRONG      {', '.join(f'{name} {count}' for name, count in counts.items())}: {BLAME}"
    for defect in result.defects:
        yield f"reproduce  {command('replay', defect.record)}  ({defect.failed.failure})"
    more = sum(counts.values()) - len(result.defects)
    if more:
        yield f"           {more} more are counted only"


def _nothing_valid(result: Result) -> list[str]:
    p = result.progress
    spent = f"{counted(p.evaluations, 'evaluation')} and {p.seconds:.1f} s"
    lines = [f"no valid implementation in {spent}"]
    if p.valid:
        lines = [f"{counted(p.valid, 'implementation')} valid in {spent}, and all of them failed on a GPU"]
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
        "remarks": dict(p.remarks),
        "best": None
        if best is None
        else {
            "time_ns": best.time_ns,
            "time_ci_ns": list(best.time_ci_ns),
            "is_predicted": best.is_predicted,
            "measured_on": best.measured_on,
            "bound_ns": best.bound_ns,
            "code": str(best.code),
            "decisions": str(best.decisions),
            "verified": True,
        },
        "root_bound_ns": result.root_bound_ns,
        "defects": [
            {"class": str(d.failed.failure), "message": d.failed.message, "record": str(d.record)}
            for d in result.defects
        ],
        "bound_violations": p.bound_violations,
        "search_s": p.seconds,
        "run": str(result.run),
    }


def replay_text(replayed: Replay) -> str:
    """What a replay gave, for people."""
    return "\n".join([*_code(replayed), *_result(replayed), *_verdict(replayed)])


def _code(replayed: Replay) -> Iterator[str]:
    if replayed.lowered is not None:
        same = "identical to the recorded code" if replayed.is_identical else "NOT the recorded code"
        yield f"code       {same} (sha256 {replayed.lowered.digest[:16]})"
    for change in replayed.changes:
        yield f"changed    {change}"


def _result(replayed: Replay) -> Iterator[str]:
    outcome, recorded = replayed.outcome, replayed.record
    if outcome is None:
        yield f"refused    {replayed.refusal}"
    elif outcome.timing is None:
        yield f"failed     {outcome.failure}: {outcome.message.strip()}"
    else:
        timing = outcome.timing
        before = f", recorded {duration(recorded.time_ns)}" if recorded.verified else ""
        if recorded.verified and recorded.measured_on is not None:
            before += f", measured on {recorded.measured_on}"
        how = f"95 %: {duration(timing.low_ns)} to {duration(timing.high_ns)}"
        yield "checked    equal to the reference"
        yield f"time       {duration(timing.time_ns)}  ({how if timing.samples else 'predicted'}){before}"


def _verdict(replayed: Replay) -> Iterator[str]:
    """Whether a recorded failure was seen again."""
    recorded = replayed.record
    if recorded.verified:
        return
    if replayed.is_reproduced:
        yield f"recorded   reproduced: {recorded.failure}; {BLAME}"
    else:
        first = recorded.message.strip().partition("\n")[0]
        yield f"recorded   NOT reproduced: it was {recorded.failure}: {first}"


def difference(replayed: Replay) -> str:
    """Why the code of a replay is not the recorded one."""
    causes = " and ".join(change.partition(", then ")[0] for change in replayed.changes)
    cause = (
        f"{causes} {'has' if len(replayed.changes) == 1 else 'have'} changed since"
        if causes
        else "space, generator, compiler and flags are as they were, so the record itself has been changed"
    )
    return f"the code is not the recorded one: {cause}; explore anew for a record of today"


def replay_document(replayed: Replay) -> dict[str, object]:
    """What a replay gave, for `--json`."""
    outcome, recorded = replayed.outcome, replayed.record
    timing = None if outcome is None else outcome.timing
    return {
        "schema": 1,
        "kernel": recorded.kernel.name,
        "identical": replayed.is_identical,
        "code_sha256": None if replayed.lowered is None else replayed.lowered.digest,
        "changes": list(replayed.changes),
        "verified": timing is not None,
        "time_ns": None if timing is None else timing.time_ns,
        "time_ci_ns": None if timing is None else [timing.low_ns, timing.high_ns],
        "recorded_time_ns": recorded.time_ns if recorded.verified else None,
        "failure": None
        if outcome is None or outcome.failure is None
        else {"class": str(outcome.failure), "message": outcome.message},
        "recorded_failure": None
        if recorded.verified
        else {"class": str(recorded.failure), "message": recorded.message},
        "reproduced": None if recorded.verified else replayed.is_reproduced,
        "refusal": replayed.refusal or None,
    }

"""The `search:` block of kernel files: how they are to be searched where the command line says nothing.

In: the block, and its document. Out: `SearchOptions`, or diagnostics. Whether there are such targets,
orderings and policies is for the search to say.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from spacedsl.diagnostics import Diagnostic
from spacedsl.kernels.located_yaml import Document
from spacedsl.kernels.schema import SearchEntry


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The `search:` block; None where the file says nothing."""

    target: str | None = None
    device: str | None = None
    time_s: float | None = None
    evaluations: int | None = None
    ordering: str | None = None
    policy: str | None = None
    seed: int | None = None


def search_options(document: Document, entry: SearchEntry, report: list[Diagnostic]) -> SearchOptions:
    """KF042 where the time is none."""
    time_s: float | None = None
    if entry.time is not None:
        time_s = duration_s(entry.time)
        if time_s is None:
            hint = "for example `10m`, `90s`, `1h30m`, or a number of seconds"
            span = document.value("search", "time")
            report.append(Diagnostic("KF042", "this is no span of time", span, hint))
    return SearchOptions(
        entry.target, entry.device, time_s, entry.evaluations, entry.ordering, entry.policy, entry.seed
    )


_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


def duration_s(text: str | float) -> float | None:
    """Seconds of `10m`, `90s`, `1h30m` or a plain number; None for anything else, or nothing."""
    if isinstance(text, str):
        match = _DURATION.fullmatch(text.replace(" ", ""))
        if match is None or not any(match.groups()):
            return None
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        total = 3600 * hours + 60 * minutes + seconds
    else:
        total = float(text)
    return total if total > 0 and math.isfinite(total) else None


def budget_s(text: str | float) -> float | None:
    """The same where nothing tells a number from text, as on a command line: `45` may be either."""
    try:
        return duration_s(float(text))
    except ValueError:
        return duration_s(text)

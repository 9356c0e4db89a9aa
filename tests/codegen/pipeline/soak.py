"""Tries random schedules of applications for long: `python -m tests.codegen.pipeline.soak [--names A,B] ..`.

Schedule by schedule, the applications in turns, each is lowered, verified, built as it is for users, and
compared with the reference on a case at a small size, until of each application `--count` have passed or time
is over. A record on disk holds how many that are: the next soak goes on where this one ended. Out: a table;
of the first schedule that fails its number, its message and its loops, and exit status 1. Code runs in this
process: where it crashes, the schedule that was named last is the one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from spacedsl.codegen.parts import statements
from spacedsl.codegen.pipeline.lower import lower
from spacedsl.codegen.pipeline.schedule import CandidateDecisions, schedule, text
from spacedsl.codegen.verify import VerificationError, verify
from spacedsl.engine.descent import DescentCounts
from tests.codegen.pipeline.running import compiled_difference
from tests.codegen.pipeline.test_cases import cases_of
from tests.kernels.pipeline.cases import drawn
from tests.kernels.pipeline.test_library import NAMES

VECTOR_BYTES = (16, 32, 64)
MOST_STATEMENTS = 5_000
"""Of a program; what is longer takes its compiler minutes, and is left out."""


def fault(name: str, seed: int) -> str | None:
    """What is wrong with a schedule of an application: empty for nothing, None where it is not tried."""
    file, (case, *_) = cases_of(name)
    candidate = next(drawn(file, 1, seed, DescentCounts()), None)
    if candidate is None:
        return None
    decisions = CandidateDecisions(candidate)
    program = lower(file.backbone, file.boxes, decisions, VECTOR_BYTES[seed % 3])
    if sum(1 for _ in statements(program.body)) > MOST_STATEMENTS:
        return None
    loops = text(schedule(file.backbone.steps, decisions))
    try:
        verify(program)
    except VerificationError as error:
        return f"{error}\n{loops}"
    with tempfile.TemporaryDirectory() as folder:
        difference = compiled_difference(file, program, case, Path(folder) / "program.so")
    return difference and f"{difference}\n{loops}"


def main() -> int:
    asked = argparse.ArgumentParser(prog="make soak-pipelines", description="random schedules in C")
    minutes = float(os.environ.get("SOAK_MINUTES", "5"))
    asked.add_argument("--names", default=",".join(NAMES), help="of applications, with commas (all)")
    asked.add_argument("--count", type=int, default=200, help="schedules of each that pass (200)")
    asked.add_argument("--seconds", type=float, default=60 * minutes, help="($SOAK_MINUTES, or 300)")
    asked.add_argument("--record", type=Path, default=Path("build/soak-pipelines.json"), help="(%(default)s)")
    options = asked.parse_args()
    names = options.names.split(",")
    record: dict[str, dict[str, int]] = (
        json.loads(options.record.read_text(encoding="utf-8")) if options.record.exists() else {}
    )
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        name = min(names, key=lambda n: record.get(n, {}).get("passed", 0))
        known = record.setdefault(name, {"tried": 0, "passed": 0})
        if known["passed"] >= options.count:
            break
        print(f"\r{name}:{known['tried']:<8}", end="", file=sys.stderr, flush=True)
        found = fault(name, known["tried"])
        if found:
            print(f"\n{name}:{known['tried']}: {found}")
            return 1
        known["tried"] += 1
        known["passed"] += found == ""
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record), encoding="utf-8")
    for name in names:
        known = record.get(name, {"tried": 0, "passed": 0})
        print(f"{name:<26} {known['passed']:>6,} passed of {known['tried']:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Gives Halide random schedules for long: `python -m tests.codegen.halide.soak [--names A,B] [--count N]`.

Application by application, at a small size, each schedule is printed, run by Halide in a process of its own,
and compared with the reference on a random case. Out: what fails, with the file that its text was kept in;
how many passed; exit status 1 where one failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from spacedsl.codegen.halide.export import schedule_text
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.engine.descent import DescentCounts
from tests.codegen.halide.running import Job, differences
from tests.codegen.pipeline.test_cases import cases_of
from tests.kernels.pipeline.cases import drawn
from tests.kernels.pipeline.test_library import NAMES

VECTOR_BYTES = (16, 32, 64)


def main() -> int:
    asked = argparse.ArgumentParser(prog="make soak-halide", description="random schedules, run by Halide")
    asked.add_argument("--names", default=",".join(NAMES), help="of applications, with commas (all)")
    asked.add_argument("--count", type=int, default=10, help="schedules of each (10)")
    asked.add_argument("--seed", type=int, default=0, help="(0)")
    asked.add_argument("--keep", type=Path, default=Path("build/soak-halide"), help="(%(default)s)")
    options = asked.parse_args()
    failed = 0
    for name in options.names.split(","):
        file, (random, *_) = cases_of(name)
        passed = 0
        for number, candidate in enumerate(drawn(file, options.count, options.seed, DescentCounts())):
            text = schedule_text(file, CandidateDecisions(candidate), VECTOR_BYTES[number % 3])
            with tempfile.TemporaryDirectory() as folder:
                (said,) = differences([Job(file, text, random)], Path(folder))
            passed += not said
            if said:
                failed += 1
                options.keep.mkdir(parents=True, exist_ok=True)
                kept = options.keep / f"{name}_{options.seed}_{number}.py"
                kept.write_text(text, encoding="utf-8")
                print(f"{kept}: {said}", flush=True)
        print(f"{name:<26} {passed} of {options.count}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

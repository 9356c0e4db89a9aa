"""Tries new random pipelines for as long as wanted: `python -m tests.codegen.pipeline.soak_generated [SEED]`.

Of each, two random schedules become C and a third one becomes CUDA, whose twin is watched for races; all are
compared with the reference. Out: how many there were; of the first that is wrong, made as small as it stays
wrong, the pipeline and its decisions, and exit status 1. SOAK_MINUTES says for how long (5).
"""

from __future__ import annotations

import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

from spacedsl.codegen.pipeline.cases import make_cases
from spacedsl.codegen.pipeline.lower import lower
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.descent import DescentCounts
from tests.codegen.pipeline import on_gpus
from tests.codegen.pipeline.running import compiled_difference
from tests.codegen.pipeline.soak import VECTOR_BYTES
from tests.kernels.pipeline.cases import drawn
from tests.kernels.pipeline.images import Image, images

TOGETHER = 50
"""Pipelines between two looks at the clock."""
MOST_STAGES, MOST_POINTS = 12, 6000


def disagreement(image: Image, number: int, tried: Counter[str]) -> str:
    """What is wrong with some schedules of it; empty for nothing."""
    file = image.file()
    assume(sum(math.prod(e.size for e in box) for box in file.boxes.values()) <= MOST_POINTS)
    (case, *_) = make_cases(file, np.random.default_rng(number))
    with tempfile.TemporaryDirectory() as folder:
        for candidate in drawn(file, 2, number, DescentCounts()):
            program = lower(file.backbone, CandidateDecisions(candidate), VECTOR_BYTES[number % 3])
            path = Path(folder) / f"{tried['cpu']}.so"
            tried["cpu"] += 1
            if found := compiled_difference(file, verify(program), case, path, ("-O1",)):
                return f"{found}\n{candidate.decisions()}"
        programs = [
            (candidate, on_gpus.grids_of(file, candidate)) for candidate in on_gpus.drawn(file, 1, number)
        ]
        for candidate, found in on_gpus.twin_differences(file, case, programs, Path(folder)):
            tried["cuda"] += 1
            if found:
                return f"for a GPU: {found}\n{candidate.decisions()}"
    tried["pipelines"] += 1
    return ""


def main() -> int:
    first = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1 << 32)
    until = time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", "5"))
    tried: Counter[str] = Counter()
    number = first
    while time.monotonic() < until:

        @seed(number)
        @settings(
            max_examples=TOGETHER, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(images(MOST_STAGES), st.integers(0, 2**32))
        def no_schedule_disagrees(image: Image, number: int) -> None:
            found = disagreement(image, number, tried)
            assert not found, f"{image}\n{found}"

        print(f"\rseed {number}", end="", file=sys.stderr, flush=True)
        try:
            no_schedule_disagrees()
        except AssertionError as error:
            print(f"\nseed {number}: {error}")
            return 1
        number += 1
    print(f"\nseeds {first} to {number - 1}: {dict(tried)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Tries new random kernels for as long as wanted: `SOAK_MINUTES=60 python -m tests.codegen.soak [SEED]`.

Out: what became of them, and the share of each ingredient; for the first disagreement the kernel, and exit
status 1. Code is built and run in this process: where it crashes, the seed that was named last is the one.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tests.codegen.agreement import DisagreementError, outcome
from tests.codegen.random_kernels import random_kernel

BUILT_EVERY = 3
"""Of so many kernels one is built, which takes as long as all that is done with the others."""


def main() -> int:
    first = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1 << 32)
    until = time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", "5"))
    outcomes: Counter[str] = Counter()
    ingredients: Counter[str] = Counter()
    seed = first
    while time.monotonic() < until:
        print(f"\rseed {seed}", end="", file=sys.stderr, flush=True)
        kernel = random_kernel(random.Random(seed))
        ingredients.update(kernel.ingredients)
        try:
            with tempfile.TemporaryDirectory() as folder:
                is_built = seed % BUILT_EVERY == 0
                outcomes[
                    outcome(kernel, np.random.default_rng(seed), Path(folder) if is_built else None)
                ] += 1
        except DisagreementError as error:
            print(f"\nseed {seed}: {error}")
            return 1
        seed += 1
    print(f"\n{seed - first} kernels from seed {first}: {dict(outcomes)}")
    for name, count in ingredients.most_common():
        print(f"  {name:<20} {count / (seed - first):6.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

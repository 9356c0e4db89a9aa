"""Tries new random kernels for as long as wanted: `SOAK_MINUTES=60 python -m tests.codegen.soak [SEED]`.

Out: what became of them, and the share of each ingredient; for the first disagreement the kernel, and exit
status 1. Code is built and run in this process: where it crashes, the seed that was named last is the one.
With `--target cuda` it is code for a GPU: twins of several kernels are one library, which runs in a process
of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.codegen.agreement import DisagreementError, outcome
from tests.codegen.cuda.agreement import agree, drawn
from tests.codegen.cuda.soak_batch import Corner
from tests.codegen.random_kernels import RandomKernel, random_kernel

BUILT_EVERY = 3
"""Of so many kernels one is built, or compiled for a GPU, which takes as long as all that is done with the
others."""

TOGETHER = 16
"""Twins in one library."""


class OnCpus:
    """What becomes of kernels, one after the other."""

    def outcome(self, seed: int, kernel: RandomKernel) -> str:
        with tempfile.TemporaryDirectory() as folder:
            is_built = seed % BUILT_EVERY == 0
            return outcome(kernel, np.random.default_rng(seed), Path(folder) if is_built else None)

    def end(self) -> None:
        """Nothing is left to be done."""


@dataclass
class OnGpus:
    """The same of code for GPUs, which runs once there is enough of it."""

    corners: list[Corner] = field(default_factory=list)
    kernels: list[RandomKernel] = field(default_factory=list)

    def outcome(self, seed: int, kernel: RandomKernel) -> str:
        found = drawn(kernel, np.random.default_rng(seed), is_compiled=seed % BUILT_EVERY == 0)
        if isinstance(found, str):
            return found
        self.corners.append(found)
        self.kernels.append(kernel)
        if len(self.corners) == TOGETHER:
            self.end()
        return "implemented"

    def end(self) -> None:
        agree(self.corners, self.kernels)
        self.corners.clear()
        self.kernels.clear()


TARGETS = {"cpu": OnCpus, "cuda": OnGpus}


def main() -> int:
    asked = argparse.ArgumentParser(prog="make soak-kernels", description="random kernels against NumPy")
    asked.add_argument("seed", nargs="?", type=int, default=random.randrange(1 << 32), help="the first one")
    asked.add_argument("--target", choices=TARGETS, default="cpu", help="of the code (cpu)")
    options = asked.parse_args()
    first, made = options.seed, TARGETS[options.target]()
    until = time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", "5"))
    outcomes: Counter[str] = Counter()
    ingredients: Counter[str] = Counter()
    seed = first
    try:
        while time.monotonic() < until:
            print(f"\rseed {seed}", end="", file=sys.stderr, flush=True)
            kernel = random_kernel(random.Random(seed))
            ingredients.update(kernel.ingredients)
            outcomes[made.outcome(seed, kernel)] += 1
            seed += 1
        made.end()
    except DisagreementError as error:
        print(f"\nseed {seed}, or one before it: {error}")
        return 1
    print(f"\n{seed - first} kernels from seed {first}: {dict(outcomes)}")
    for name, count in ingredients.most_common():
        print(f"  {name:<20} {count / (seed - first):6.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

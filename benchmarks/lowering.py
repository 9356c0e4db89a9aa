"""How long it takes to make programs of pipelines: to lower them, to verify them, to print them as C.

    python -m benchmarks.lowering [camera_pipe ..] [--count 4] [--steps 60] [--seed 0] [--profile FILE]

Of each application as many implementations as are asked for: a plan, and so many steps downhill from it by
the cost model, as a search begins, on the device of `generic-x86-64.yaml`. Times are processor time of one
thread. The digest is that of all programs: what only makes this faster leaves it as it was. `--profile`
writes what took how long, for `pstats`.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TypeVar

import numpy as np

from benchmarks.arguments import application, new_file, positive, run
from benchmarks.tables import console, headed
from benchmarks.walks import walks
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.generation import generation
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.device import DEVICES, CpuDevice, load_device

T = TypeVar("T")

LARGE = ("harris", "camera_pipe", "interpolate", "stencil_chain", "local_laplacian")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lowering", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "applications",
        nargs="*",
        type=application,
        metavar="APPLICATION",
        help=f"default: {', '.join(LARGE)}",
    )
    parser.add_argument("--count", type=positive, default="4", metavar="N", help="implementations of each")
    parser.add_argument("--steps", type=positive, default="60", metavar="N", help="of the walks to them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", type=new_file, metavar="FILE")
    options = parser.parse_args(arguments)
    names = options.applications or LARGE
    profile = cProfile.Profile() if options.profile else None
    device = load_device(DEVICES / "generic-x86-64.yaml")
    table = headed(
        "Seconds to make a program, medians",
        ("application", "walk", "lower", "verify", "print", "lines of C", "digest"),
        words=("application", "digest"),
    )
    for name in names:
        table.add_row(name, *_row(name, device, options, profile))
    console().print(table)
    if profile is not None:
        profile.dump_stats(options.profile)
    return 0


def _row(
    name: str, device: CpuDevice, options: argparse.Namespace, profile: cProfile.Profile | None
) -> Iterator[str]:
    here = walks(name, device)
    kernel, lower = here.kernel, generation(here.kernel).lower
    rng = np.random.default_rng(options.seed)
    spent_s: dict[str, list[float]] = {}
    lines: list[int] = []
    digest = hashlib.sha256()

    def timed(stage: str, make: Callable[[], T]) -> T:
        started = time.thread_time()
        made = make()
        spent_s.setdefault(stage, []).append(time.thread_time() - started)
        return made

    for _ in range(options.count):
        candidate = timed("walk", lambda: here.walked(here.planned(rng), options.steps, rng))
        if profile is not None:
            profile.enable()
        lowered = timed("lower", lambda: lower(kernel, device, candidate, {}))  # noqa: B023 (called at once)
        verified = timed("verify", lambda: verify(lowered))  # noqa: B023
        code = timed("print", lambda: print_c(verified, device.threads))  # noqa: B023
        if profile is not None:
            profile.disable()
        lines.append(code.count("\n"))
        digest.update(code.encode())
    yield from (f"{median(spent_s[stage]):.2f}" for stage in ("walk", "lower", "verify", "print"))
    yield f"{median(lines):.0f}"
    yield digest.hexdigest()[:8]


if __name__ == "__main__":
    run(main)

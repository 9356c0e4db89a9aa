"""Against what a user would write without this project: explored kernels beside plain loops with OpenMP.

    python -m benchmarks.first_slice [matmul|axpy ..] [--time 3m] [--size m=256 ..] [--json FILE]

Explores a kernel with the product, builds the peer, and measures both in one run: each in a process of its
own, with its threads pinned, in turns of a fraction of a second, so that drift of the machine hits both
alike. Prints a table, and JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from spacedsl import api
from spacedsl.cli.options import parse_duration, parse_sizes
from spacedsl.codegen.build import build_library, find_compiler
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.names import c_name
from spacedsl.codegen.timing import summarise
from spacedsl.kernels.evaluation import Timing
from spacedsl.kernels.kernel_file import KernelFile, load_kernel

_ROOT = Path(__file__).resolve().parent.parent
_PEERS = Path(__file__).resolve().parent / "peers.c"
_PEER_FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")
_ROUNDS = 15
_ROUND_MS = 300
_PAUSE_S = 0.05
"""Threads of a pool spin for a while after a call."""


@dataclass(frozen=True, slots=True)
class Side:
    """Wall time of a call, with its interval; CPU time of all threads in a call."""

    wall: Timing
    cpu: Timing


@dataclass(frozen=True, slots=True)
class Comparison:
    """`speedup`: peer's time over ours, the median over rounds of the ratio of medians, with its interval."""

    kernel: str
    sizes: dict[str, int]
    threads: int
    ours: Side
    peer: Side
    speedup: Timing
    evaluations: int
    bound_violations: int
    root_bound_ns: float | None
    search_s: float
    code: str


def compare(kernel: KernelFile, time_s: float, seed: int) -> Comparison:
    """Explores, then measures side by side."""
    result = api.explore(kernel, time_s=time_s, seed=seed, on_event=_show)
    if result.best is None:
        raise SystemExit(f"{kernel.name}: no implementation was found")
    with tempfile.TemporaryDirectory(prefix="spacedsl-") as folder:
        ours = build_library(result.best.code.read_text(encoding="utf-8"), Path(folder, "ours.so"))
        peer = _build_peer(kernel, Path(folder, "peer.so"))
        rounds = _measure(
            kernel, [(ours, c_name(kernel.name)), (peer, f"peer_{kernel.name}")], result.device.threads
        )
    ratios = [
        summarise([w for w, _ in theirs]).time_ns / summarise([w for w, _ in mine]).time_ns
        for mine, theirs in zip(*rounds, strict=True)
    ]
    sides = [
        Side(*(summarise([sample[n] for turn in turns for sample in turn]) for n in (0, 1)))
        for turns in rounds
    ]
    return Comparison(
        kernel=kernel.name,
        sizes=dict(kernel.sizes),
        threads=result.device.threads,
        ours=sides[0],
        peer=sides[1],
        speedup=summarise(ratios),
        evaluations=result.progress.evaluations,
        bound_violations=result.progress.bound_violations,
        root_bound_ns=result.root_bound_ns,
        search_s=result.progress.seconds,
        code=str(result.best.code),
    )


def _show(activity: object) -> None:
    if isinstance(activity, api.Preparing):
        print(activity.activity, file=sys.stderr)


def _build_peer(kernel: KernelFile, library: Path) -> Path:
    sizes = [f"-D{name.upper()}={value}" for name, value in kernel.sizes.items()]
    command = [*find_compiler().command, *_PEER_FLAGS, *sizes, str(_PEERS), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


Samples = list[tuple[float, float]]


def _measure(kernel: KernelFile, sides: Sequence[tuple[Path, str]], threads: int) -> list[list[Samples]]:
    """For each side, the samples of each round."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true"}
    rounds: list[list[Samples]] = [[] for _ in sides]
    with machine_lock(), ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.side", str(library), symbol, str(kernel.path),
                     json.dumps(dict(kernel.sizes))],
                    cwd=_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                )
            )
            for library, symbol in sides
        ]  # fmt: skip
        for process, (_, symbol) in zip(processes, sides, strict=True):
            if _answer(process) is not True:
                raise SystemExit(f"{symbol}: its result is wrong")
        for number in range(_ROUNDS + 1):
            for turns, process in zip(rounds, processes, strict=True):
                time.sleep(_PAUSE_S)
                assert process.stdin is not None
                process.stdin.write(f"{_ROUND_MS}\n")
                process.stdin.flush()
                samples = _answer(process)
                assert isinstance(samples, list)
                if number > 0:  # the first round warms up
                    turns.append([(wall, cpu) for wall, cpu in samples])
    return rounds


def _answer(process: subprocess.Popen[str]) -> object:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{process.args!r} ended with status {process.wait()}")
    return json.loads(line)


def _table(comparisons: Sequence[Comparison]) -> str:
    lines = [
        f"{'kernel':10} {'ours, ms':>24} {'cpu':>8} {'peer, ms':>24} {'cpu':>8} "
        f"{'peer / ours':>20} {'bound':>8}"
    ]
    for c in comparisons:
        bound = "" if c.root_bound_ns is None else f"{c.root_bound_ns / 1e6:.3f}"
        lines.append(
            f"{c.kernel:10} {_ms(c.ours.wall):>24} {c.ours.cpu.time_ns / 1e6:8.3f} {_ms(c.peer.wall):>24} "
            f"{c.peer.cpu.time_ns / 1e6:8.3f} {_interval(c.speedup):>20} {bound:>8}"
        )
    return "\n".join(lines)


def _ms(timing: Timing) -> str:
    return f"{timing.time_ns / 1e6:.3f} [{timing.low_ns / 1e6:.3f}, {timing.high_ns / 1e6:.3f}]"


def _interval(ratio: Timing) -> str:
    return f"{ratio.time_ns:.2f} [{ratio.low_ns:.2f}, {ratio.high_ns:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.first_slice", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="*", default=["matmul", "axpy"], choices=["matmul", "axpy"])
    parser.add_argument("--time", default="3m", help="search time for each kernel")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    comparisons = []
    for name in options.kernels:
        kernel = load_kernel(_ROOT / "kernels" / "library" / f"{name}.yaml", parse_sizes(options.size))
        comparisons.append(compare(kernel, parse_duration(options.time), options.seed))
    document = json.dumps([asdict(c) for c in comparisons], indent=2)
    print(_table(comparisons), file=sys.stderr)
    if options.json is not None:
        options.json.write_text(document + "\n", encoding="utf-8")
    else:
        print(document)


if __name__ == "__main__":
    main()

"""Measures the peers of a folder, then its implementations: what all benchmarks on a GPU have in common.

In: visits, each to some peers of a problem, and a function that measures these. Out: `peers.jsonl`, a line
for each peer with its times or why there are none, and what `run_batch.py` writes. A visit is a process of
its own: what ends it, or never ends, costs its own peers. What has a line already is not measured again. The
module is copied beside `run_benchmark.py`, to a machine that has nothing of this project.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacedsl.codegen.cuda.batches.arena import Arena, CasesError
from spacedsl.codegen.cuda.batches.driver import DeviceError
from spacedsl.codegen.cuda.batches.measuring import device_of

HERE = Path(__file__).resolve().parent
PEERS = HERE / "peers.jsonl"

NO_DEVICE, INTERRUPTED = 5, 130
"""Exit codes, as `run_batch.py` has them."""

NO_ARENA = 6
"""Of a visit to a problem whose arrays do not fit, or that has no test cases: the next call tries again."""


@dataclass(frozen=True, slots=True)
class Visit:
    """Peers of a problem that one process measures; in the end, each of them has a line."""

    problem: str
    peers: tuple[str, ...]
    limit_s: float


Line = dict[str, Any]
"""Of `peers.jsonl`: `peer`, and `warm_ns` and `cold_ns`, or `failure` and `message`."""


def main(
    script: str,
    description: str,
    visits: Callable[[str], Iterable[Visit]],
    measured: Callable[[Arena, tuple[str, ...]], Iterable[Line]],
) -> int:
    """The command line of `script`; `visits`: of a problem, whose folder has that name."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--visit", nargs="+", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=None, help="of implementations, as of run_batch.py")
    options = parser.parse_args()
    if options.visit is not None:
        problem, *peers = options.visit
        code = _work(problem, tuple(peers), measured)
        sys.stdout.flush()
        # Libraries end with code of their own, which may call what is gone by then.
        os._exit(code)
    try:
        for problem in json.loads((HERE / "batch.json").read_text())["problems"]:
            for visit in visits(problem):
                if _missing(visit.problem, visit.peers) and _paid(script, visit) == NO_DEVICE:
                    return NO_DEVICE
        flags = [] if options.seconds is None else ["--seconds", str(options.seconds)]
        return subprocess.run([sys.executable, str(HERE / "run_batch.py"), *flags], check=False).returncode
    except KeyboardInterrupt:
        print("interrupted: the same command goes on", file=sys.stderr)
        return INTERRUPTED


def _paid(script: str, visit: Visit) -> int:
    """Pays a visit, and says of peers that it had nothing of what became of them."""
    print(f"{visit.problem}: {', '.join(visit.peers)}", flush=True)
    command = [sys.executable, script, "--visit", visit.problem, *visit.peers]
    try:
        code = subprocess.run(command, check=False, timeout=visit.limit_s).returncode
        failure, message = "crash", f"its process ended with status {code}"
    except subprocess.TimeoutExpired:
        code, failure, message = 0, "run_timeout", f"no result in {visit.limit_s:g} s"
    if code not in (NO_DEVICE, INTERRUPTED, NO_ARENA):
        for peer in _missing(visit.problem, visit.peers):
            print(f"{visit.problem}: {peer}: {message}", file=sys.stderr)
            _append({"problem": visit.problem, "peer": peer, "failure": failure, "message": message})
    return code


def _work(
    problem: str, peers: tuple[str, ...], measured: Callable[[Arena, tuple[str, ...]], Iterable[Line]]
) -> int:
    """In a process of its own."""
    try:
        device = device_of(HERE)
    except DeviceError as error:
        print(f"no GPU can be used here: {error}", file=sys.stderr)
        return NO_DEVICE
    try:
        arena = Arena(device, HERE / problem)
    except (DeviceError, CasesError, MemoryError) as error:
        print(f"{problem} cannot be run here: {error}", file=sys.stderr)
        return NO_ARENA
    about = {"problem": problem, "device": arena.device.name}
    try:
        for line in measured(arena, peers):
            _append({**about, **line})
    except DeviceError as error:
        for peer in _missing(problem, peers):
            _append({**about, "peer": peer, "failure": "crash", "message": str(error)})
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _missing(problem: str, peers: tuple[str, ...]) -> list[str]:
    """Those that have no line yet."""
    known = {line["peer"] for line in _lines() if line["problem"] == problem}
    return [peer for peer in peers if peer not in known]


def _lines() -> Iterator[Line]:
    """A line that was cut off is removed."""
    if not PEERS.exists():
        return
    text = PEERS.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        PEERS.write_text(whole)
    yield from map(json.loads, whole.splitlines())


def _append(line: Line) -> None:
    with PEERS.open("a") as peers:
        peers.write(json.dumps(line) + "\n")

"""Tries random implementations for GPUs for long: `python -m tests.codegen.cuda.soak [--kernels A,B] ..`.

Batches of implementations (`soak_batch.py`) run beside each other, each in a process of its own, the kernels
of the library in turns, until each has `--count` that passed or time is over. A record on disk keeps what
became of each batch: the next soak goes on where this one ended, and begins with what failed. Out: a table,
a file for each implementation that failed, and exit status 1 where there is any.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path

from spacedsl.codegen.machine.processor import usable_cpus
from tests.codegen.cuda.grids import compiled
from tests.codegen.cuda.soak_batch import Batch, Failed, Found, examined
from tests.kernels.library_formulas import DIRECT

COUNT = 20
"""Implementations of a batch."""

LONGEST_S = 900.0
"""Of a batch."""

COLUMNS = (
    "drawn", "dead ends", "over limits", "compiled", "spilled", "not run", "passed", "sanitized", "failed",
)  # fmt: skip


@dataclass(slots=True)
class Record:
    """What became of batches; what was found out last counts."""

    path: Path
    found: dict[Batch, Found] = field(default_factory=dict)

    def load(self) -> None:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        for line in lines:
            known = json.loads(line)
            failed = [Failed(**each) for each in known["failed"]]
            self.found[Batch(**known["batch"])] = Found(Counter(known["counts"]), failed)

    def add(self, batch: Batch, found: Found) -> None:
        self.found[batch] = found
        self.path.parent.mkdir(parents=True, exist_ok=True)
        failed = [asdict(each) for each in found.failed]
        line = json.dumps({"batch": asdict(batch), "counts": found.counts, "failed": failed})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def total(self, kernel: str | None = None) -> Counter[str]:
        """Of a kernel, or of all."""
        total: Counter[str] = Counter()
        for batch, found in self.found.items():
            if kernel in (None, batch.kernel):
                total.update(found.counts)
                total.update({f"failed: {failed.cause}": 1 for failed in found.failed})
        return total

    def table(self, kernels: Sequence[str]) -> str:
        lines = [" ".join([f"{'kernel':<22}", *(f"{column:>11}" for column in COLUMNS)])]
        for name in [*kernels, None] if len(kernels) > 1 else kernels:
            total = self.total(name)
            lines.append(" ".join([f"{name or 'all':<22}", *(f"{total[column]:>11,}" for column in COLUMNS)]))
        causes = {what: n for what, n in self.total().items() if what.startswith("failed: ")}
        return "\n".join(lines + [f"{what:<22} {n:>11,}" for what, n in causes.items()])


@dataclass(slots=True)
class Running:
    batch: Batch
    process: ForkProcess
    answer: Connection
    since: float


@dataclass(slots=True)
class Soak:
    record: Record
    kernels: Sequence[str]
    wanted: int
    """Implementations of each kernel that pass."""
    again: list[Batch] = field(init=False)
    """Those that failed in a soak before."""
    running: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        failed = (batch for batch, found in self.record.found.items() if found.failed)
        self.again = [batch for batch in failed if batch.kernel in self.kernels]

    def run(self, until: float, processes: int) -> None:
        """Prints a line for each batch."""
        while True:
            while len(self.running) < processes and time.monotonic() < until:
                if (batch := self.next_batch()) is None:
                    break
                self.running.append(started(batch))
            if not self.running:
                return
            wait([running.answer for running in self.running], timeout=1)
            for running in self.running[:]:
                if (found := ended(running)) is not None:
                    self.running.remove(running)
                    self._say(running, found)

    def next_batch(self) -> Batch | None:
        """The next one of the kernel of which the fewest have passed, or may have soon."""
        if self.again:
            return self.again.pop(0)
        promised = {name: self.record.total(name)["passed"] for name in self.kernels}
        begun = set(self.record.found) | {running.batch for running in self.running}
        for running in self.running:
            promised[running.batch.kernel] += running.batch.count
        kernel = min(promised, key=lambda name: promised[name])
        if promised[kernel] >= self.wanted:
            return None
        seeds = {batch.seed for batch in begun if batch.kernel == kernel}
        return Batch(kernel, next(seed for seed in range(len(seeds) + 1) if seed not in seeds), COUNT)

    def _say(self, running: Running, found: Found) -> None:
        batch = running.batch
        self.record.add(batch, found)
        seconds = time.monotonic() - running.since
        print(
            f"{batch.kernel}:{batch.seed} passed {found.counts['passed']} of {batch.count}, {seconds:.0f} s; "
            f"of the kernel {self.record.total(batch.kernel)['passed']}",
            flush=True,
        )
        for failed in found.failed:
            print(f"  {written(self.record.path.parent, batch, failed)}: {failed.cause}", flush=True)


def started(batch: Batch) -> Running:
    answer, told = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_tell, args=(batch, told))
    process.start()
    told.close()
    return Running(batch, process, answer, time.monotonic())


def _tell(batch: Batch, told: Connection) -> None:
    # The process ends with its batch: whatever it leaves need not be collected.
    gc.disable()
    os.setpgid(0, 0)
    try:
        found = examined(batch)
    except Exception:
        found = Found(Counter(failed=1), [Failed(-1, "lost", traceback.format_exc())])
    told.send(found)


def ended(running: Running) -> Found | None:
    """What a batch has found out, or what became of it; None where it goes on."""
    if running.answer.poll():
        try:
            found: Found = running.answer.recv()
        except EOFError:
            running.process.join()
            message = f"its process ended with {running.process.exitcode}"
            found = Found(Counter(failed=1), [Failed(-1, "lost", message)])
    elif time.monotonic() - running.since > LONGEST_S:
        os.killpg(running.process.pid or 0, signal.SIGKILL)
        found = Found(Counter(failed=1), [Failed(-1, "lost", f"timed out after {LONGEST_S:g} s")])
    else:
        return None
    running.process.join()
    running.answer.close()
    return found


def written(folder: Path, batch: Batch, failed: Failed) -> Path:
    """The file of an implementation that failed: how, and its code."""
    path = folder / f"{batch.kernel}-{batch.seed}-{failed.number}.cu"
    about = [f"--replay {batch.kernel}:{batch.seed}", f"number {failed.number}: {failed.cause}"]
    lines = [f"// {line}\n" for line in [*about, *failed.message.splitlines()]]
    path.write_text("".join(lines) + failed.code, encoding="utf-8")
    return path


def _kernels(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in DIRECT]:
        known = ", ".join(get_close_matches(unknown[0], DIRECT) or DIRECT)
        raise argparse.ArgumentTypeError(f"no kernel of the library is called {unknown[0]!r}: {known}")
    return names


def _batch(text: str) -> Batch:
    kernel, _, seed = text.partition(":")
    if "," in kernel or not seed.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no KERNEL:SEED, such as matmul:0")
    return Batch(_kernels(kernel)[0], int(seed), COUNT)


def main() -> int:
    asked = argparse.ArgumentParser(prog="make soak-cuda", description="random implementations for GPUs")
    minutes = float(os.environ.get("SOAK_MINUTES", "5"))
    asked.add_argument(
        "--kernels", type=_kernels, default=[*DIRECT], help="of the library, with commas between them (all)"
    )
    asked.add_argument("--count", type=int, default=300, help="implementations of each that pass (300)")
    asked.add_argument("--seconds", type=float, default=60 * minutes, help="($SOAK_MINUTES, or 300)")
    asked.add_argument("--processes", type=int, default=len(usable_cpus()), help="batches at a time")
    asked.add_argument(
        "--record", type=Path, default=Path("build/soak-cuda/record.jsonl"), help="(%(default)s)"
    )
    asked.add_argument(
        "--replay", type=_batch, metavar="KERNEL:SEED", help="that batch alone, without a record"
    )
    options = asked.parse_args()
    if options.replay:
        found = examined(options.replay)
        print(", ".join(f"{what} {n}" for what, n in found.counts.items()))
        for failed in found.failed:
            print(f"number {failed.number}, {failed.cause}: {failed.message}")
        return bool(found.failed)
    record = Record(options.record)
    record.load()
    # What is made before the processes fork is made once.
    compiled()
    soak = Soak(record, options.kernels, options.count)
    # Also where a shell has started it behind itself, which ignores Ctrl-C.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        soak.run(time.monotonic() + options.seconds, options.processes)
    except KeyboardInterrupt:
        for running in soak.running:
            os.killpg(running.process.pid or 0, signal.SIGKILL)
    print(record.table(options.kernels))
    return any(found.failed for batch, found in record.found.items() if batch.kernel in options.kernels)


if __name__ == "__main__":
    sys.exit(main())

"""Tries random implementations for long, side by side, and goes on where the last soak ended.

In: names of kernels, and what examines a batch of implementations of one. Each batch runs in a process of its
own, the kernels in turns, until each has as many that passed as are wanted, or time is over. A record on disk
keeps what became of each batch: the next soak goes on where this one ended, and begins with what failed.
Out: a line for each batch, a table, a file for each implementation that failed, and exit status 1 where there
is any. What a batch is and what becomes of it is for who examines.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from itertools import count
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path

from spacedsl.codegen.machine.processor import usable_cpus

LONGEST_S = 900.0
"""Of a batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    kernel: str
    seed: int
    count: int
    """Implementations that are drawn."""


@dataclass(frozen=True, slots=True)
class Failed:
    number: int
    """Of the implementation in its batch."""
    cause: str
    message: str
    code: str = ""
    """Its text, where there is any: of the twin, if that is what failed."""


@dataclass(slots=True)
class Found:
    """What has been found out of a batch."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: list[Failed] = field(default_factory=list)


Examine = Callable[[Batch], Found]


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

    def table(self, kernels: Sequence[str], columns: Sequence[str]) -> str:
        lines = [" ".join([f"{'kernel':<24}", *(f"{column:>11}" for column in columns)])]
        for name in [*kernels, None] if len(kernels) > 1 else kernels:
            total = self.total(name)
            lines.append(" ".join([f"{name or 'all':<24}", *(f"{total[column]:>11,}" for column in columns)]))
        causes = {what: n for what, n in self.total().items() if what.startswith("failed: ")}
        return "\n".join(lines + [f"{what:<24} {n:>11,}" for what, n in causes.items()])


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
    together: int
    """Implementations of a batch."""
    examine: Examine
    first: int = 0
    """The least seed."""
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
                self.running.append(started(batch, self.examine))
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
        return Batch(kernel, next(seed for seed in count(self.first) if seed not in seeds), self.together)

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


def started(batch: Batch, examine: Examine) -> Running:
    answer, told = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_tell, args=(batch, examine, told))
    process.start()
    told.close()
    return Running(batch, process, answer, time.monotonic())


def _tell(batch: Batch, examine: Examine, told: Connection) -> None:
    # The process ends with its batch: whatever it leaves need not be collected.
    gc.disable()
    os.setpgid(0, 0)
    try:
        found = examine(batch)
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
    ending = "cu" if "__global__" in failed.code else "c"
    path = folder / f"{batch.kernel}-{batch.seed}-{failed.number}.{ending}"
    about = [f"--replay {batch.kernel}:{batch.seed}", f"number {failed.number}: {failed.cause}"]
    lines = [f"// {line}\n" for line in [*about, *failed.message.splitlines()]]
    path.write_text("".join(lines) + failed.code, encoding="utf-8")
    return path


# ---- Commands ------------------------------------------------------------------------------------------


def parser(prog: str, description: str, known: Sequence[str], wanted: int) -> argparse.ArgumentParser:
    """Of the options that all soaks have. `known`: kernels. `wanted`: implementations that pass, of each."""

    def kernels(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            near = ", ".join(get_close_matches(unknown[0], known) or known)
            raise argparse.ArgumentTypeError(f"no kernel is called {unknown[0]!r}: {near}")
        return names

    def replayed(text: str) -> tuple[str, int]:
        kernel, _, seed = text.partition(":")
        if "," in kernel or not seed.isdecimal():
            raise argparse.ArgumentTypeError(f"{text!r} is no KERNEL:SEED, such as {known[0]}:0")
        return kernels(kernel)[0], int(seed)

    asked = argparse.ArgumentParser(prog=prog, description=description)
    minutes = float(os.environ.get("SOAK_MINUTES", "5"))
    asked.add_argument("--kernels", type=kernels, default=[*known], help="with commas between them (all)")
    asked.add_argument(
        "--count", type=int, default=wanted, help="implementations of each that pass (%(default)s)"
    )
    asked.add_argument("--first", type=int, default=0, help="seed that each begins with (0)")
    asked.add_argument("--seconds", type=float, default=60 * minutes, help="($SOAK_MINUTES, or 300)")
    asked.add_argument("--processes", type=int, default=len(usable_cpus()), help="batches at a time")
    asked.add_argument("--record", type=Path, help="file of what has been tried before (under build/)")
    asked.add_argument(
        "--replay", type=replayed, metavar="KERNEL:SEED", help="that batch alone, without a record"
    )
    return asked


def soak(
    options: argparse.Namespace, examine: Examine, *, record: str, columns: Sequence[str], together: int
) -> int:
    """What the options ask for. Returns the exit status."""
    if options.replay:
        kernel, seed = options.replay
        found = examine(Batch(kernel, seed, together))
        print(", ".join(f"{what} {n}" for what, n in found.counts.items()))
        for failed in found.failed:
            print(f"number {failed.number}, {failed.cause}: {failed.message}")
        return bool(found.failed)
    known = Record(options.record or Path(record))
    known.load()
    some = Soak(known, options.kernels, options.count, together, examine, options.first)
    # Also where a shell has started it behind itself, which ignores Ctrl-C.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        some.run(time.monotonic() + options.seconds, options.processes)
    except KeyboardInterrupt:
        for running in some.running:
            os.killpg(running.process.pid or 0, signal.SIGKILL)
    print(known.table(options.kernels, columns))
    return any(found.failed for batch, found in known.found.items() if batch.kernel in options.kernels)

"""Contenders take turns: each in a process of its own, pinned, checked before and after.

In: sides and the interpreters that run them. Out: `Contender`s with their turns, round by round, so that
drift of the machine hits all alike, and who is absent or wrong, with the reason. Nothing is judged here.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.cpu.side import Side, Turn

ROOT = Path(__file__).resolve().parents[2]
_PAUSE_S = 0.05
"""Threads of a pool spin for a while after a call."""

_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
"""What a library allocates is memory that it has used before, as in a program that runs for long."""

_FORCED = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
)
"""What makes a library take other kernels than those it has for this CPU."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A side under the name that reports give it."""

    name: str
    label: str
    """Tells entries of one name apart."""
    side: Side
    python: str


@dataclass(frozen=True, slots=True)
class Contender:
    """One variant of an entry, and its turns."""

    name: str
    label: str
    """Tells those of one name apart: of the entry, and of the variant."""
    variant: str
    rounds: list[Turn] = field(default_factory=list)

    @property
    def least_ns(self) -> float:
        """Of all calls."""
        return min(ns for turn in self.rounds for ns in turn.wall_ns)

    @property
    def medians_ns(self) -> list[float]:
        """Of each round."""
        return [statistics.median(turn.wall_ns) for turn in self.rounds]


@dataclass(frozen=True, slots=True)
class Work:
    """Of one call: floating-point operations, and distinct bytes read or written."""

    flops: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Contest:
    work: Work | None
    """None: nobody took part."""
    contenders: tuple[Contender, ...]
    absent: dict[str, str]
    """By name, why an entry did not take part, or a variant does not count."""


@dataclass(frozen=True, slots=True)
class _Process:
    entry: Entry
    process: subprocess.Popen[str]

    def ask(self, line: str | None = None) -> object:
        """An answer; raises `EOFError` where the process has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if line is not None:
            try:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                raise EOFError from None
        for answer in self.process.stdout:
            try:
                return json.loads(answer)
            except json.JSONDecodeError:
                continue  # a library that prints
        raise EOFError


def hold(entries: Sequence[Entry], rounds: int, round_ms: int) -> Contest:
    """Starts all sides, one after the other, has them take turns, and ends them."""
    absent: dict[str, str] = {}
    work: Work | None = None
    contenders: list[tuple[_Process, Contender]] = []
    with ExitStack() as stack:
        for entry in entries:
            process = stack.enter_context(_started(entry))
            introduced = _introduced(process, absent)
            if introduced is not None:
                work, found = introduced
                contenders += [(process, contender) for contender in found]
        # The first round warms up.
        for number in range(rounds + 1):
            for process, contender in tuple(contenders):
                time.sleep(_PAUSE_S)
                try:
                    answer = process.ask(f"{contender.variant}\t{round_ms}")
                except EOFError:
                    absent[_name(contender)] = f"it ended with status {process.process.wait()}"
                    contenders.remove((process, contender))
                    continue
                assert isinstance(answer, dict)
                if number > 0:
                    contender.rounds.append(Turn(**answer))
        right = [contender for process, contender in contenders if _is_right(process, contender, absent)]
    return Contest(work, tuple(right), absent)


def _name(contender: Contender) -> str:
    return f"{contender.name} {contender.label}".rstrip()


def environment(threads: int) -> dict[str, str]:
    """Of a side: every library has so many threads, and the kernels that it takes by itself."""
    pools = ("OMP", "OPENBLAS", "MKL", "NUMBA", "TVM")
    return {
        **{name: value for name, value in os.environ.items() if name not in _FORCED},
        **{f"{pool}_NUM_THREADS": str(threads) for pool in pools},
        "OMP_PROC_BIND": "true",
        "NUMBA_THREADING_LAYER": "omp",
        **_MALLOC,
    }


@contextmanager
def _started(entry: Entry) -> Iterator[_Process]:
    command = [entry.python, "-m", "benchmarks.cpu.side", json.dumps(asdict(entry.side))]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(len(entry.side.cpus)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield _Process(entry, process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        process.wait()


def _introduced(process: _Process, absent: dict[str, str]) -> tuple[Work, list[Contender]] | None:
    name = process.entry.name
    try:
        answer = process.ask()
    except EOFError:
        absent[name] = f"it ended with status {process.process.wait()}"
        return None
    assert isinstance(answer, dict)
    if "absent" in answer:
        absent[name] = answer["absent"]
        return None
    if not answer["variants"]:
        absent[name] = "nobody would use it for this"
    found = []
    for variant, error in answer["variants"].items():
        contender = Contender(name, " ".join(filter(None, (process.entry.label, variant))), variant)
        if error:
            absent[_name(contender)] = f"its result is wrong: {error}"
        else:
            found.append(contender)
    return Work(answer["flops"], answer["nbytes"]), found


def _is_right(process: _Process, contender: Contender, absent: dict[str, str]) -> bool:
    """Whether the result is still right after all turns."""
    try:
        error = process.ask(f"{contender.variant}\tcheck")
    except EOFError:
        error = "it ended"
    if error:
        absent[_name(contender)] = f"its result was wrong in the end: {error}"
    return not error

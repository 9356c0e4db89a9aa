"""Contenders take turns: each in processes of its own, pinned, checked before and after.

In: sides and the interpreters that run them. Out: `Contender`s with their turns, round by round, so that
drift of the machine hits all alike, and who is absent or wrong, with the reason. What is computed is for the
sides (`turns.py` is the part that all have), and nothing is judged here.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from benchmarks.turns import Turn

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = "product"
"""What entries are called that have code of the product."""

LEAST_ROUNDS = 7
"""Of which the median is worth something."""

_PAUSE_S = 0.05
"""Threads of a pool spin for a while after a call."""

_MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36)}
"""What a library allocates is memory that it has used before, however large.

Else the system would map and clear large arrays at each call: two thirds of the time of some pipelines.
"""

_FORCED = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
)
"""What makes a library take other kernels than those it has for this CPU."""


class Side(Protocol):
    """What a process is to run: a dataclass that JSON can hold, the argument of `python -m MODULE`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    module: ClassVar[str]

    @property
    def cpus(self) -> tuple[int, ...]:
        """One for each thread that is pinned, the calling one first."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A side under the name that reports give it."""

    name: str
    label: str
    """Tells entries of one name apart."""
    side: Side
    python: str

    @property
    def title(self) -> str:
        return f"{self.name} {self.label}".rstrip()


@dataclass(frozen=True, slots=True)
class Contender:
    """One variant of an entry, and its turns."""

    name: str
    label: str
    """Tells those of one name apart: of the entry, and of the variant."""
    variant: str
    rounds: list[Turn] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.name} {self.label}".rstrip()

    @property
    def least_ns(self) -> float:
        """Of all calls."""
        return min(ns for turn in self.rounds for ns in turn.wall_ns)

    @property
    def medians_ns(self) -> list[float]:
        """Of each round."""
        return [statistics.median(turn.wall_ns) for turn in self.rounds]


@dataclass(frozen=True, slots=True)
class Contest:
    contenders: tuple[Contender, ...]
    absent: dict[str, str]
    """By title, why an entry did not take part, or a variant does not count."""
    told: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the title of an entry that took part, what its side had to say beside times."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What slow contenders are left out for, or have fewer turns."""

    opening_s: float = math.inf
    """Until a side has begun, its first calls included."""
    slower: float = math.inf
    """Than the fastest, that one call takes so many times as long."""
    rounds_s: float = math.inf
    """Of all rounds: after that no more are begun, but for the first `LEAST_ROUNDS`."""


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


@dataclass(frozen=True, slots=True)
class _Seat:
    """A contender whose first result was right."""

    process: _Process
    contender: Contender
    call_ns: float


def hold(
    entries: Sequence[Entry],
    rounds: int,
    round_ms: int,
    patience: Patience | None = None,
    processes: int = 1,
) -> Contest:
    """Starts all sides, one after the other, has them take turns, and ends them.

    So often as there are `processes`, each time for its share of the rounds: where the memory of a process
    lies is luck, and lasts as long as it does. Without `patience`, it waits for everybody.
    """
    shares = [len(range(number, rounds, processes)) for number in range(min(processes, rounds))]
    held = [_held(entries, share, round_ms, patience or Patience()) for share in shares]
    absent = {title: reason for contest in held for title, reason in contest.absent.items()}
    turns: dict[str, list[Turn]] = defaultdict(list)
    for contest in held:
        for contender in contest.contenders:
            turns[contender.title] += contender.rounds
    present = [each for each in held[0].contenders if each.title not in absent]
    together = tuple(replace(each, rounds=turns[each.title]) for each in present)
    return Contest(together, absent, held[0].told)


def _held(entries: Sequence[Entry], rounds: int, round_ms: int, patience: Patience) -> Contest:
    absent: dict[str, str] = {}
    told: dict[str, Mapping[str, Any]] = {}
    seats: list[_Seat] = []
    with ExitStack() as stack:
        for entry in entries:
            process = stack.enter_context(_started(entry))
            opening = _opening(process, patience.opening_s, absent)
            if opening is not None:
                told[entry.title] = opening["told"]
                seats += _seats(process, opening["variants"], absent)
        seats = _fast_ones(seats, patience.slower, absent)
        began = time.monotonic()
        # The first round warms up.
        for number in range(rounds + 1):
            if number > LEAST_ROUNDS and time.monotonic() - began > patience.rounds_s:
                break
            for seat in tuple(seats):
                time.sleep(_PAUSE_S)
                try:
                    answer = seat.process.ask(f"{seat.contender.variant}\t{round_ms}")
                except EOFError:
                    absent[seat.contender.title] = f"it ended with status {seat.process.process.wait()}"
                    seats.remove(seat)
                    continue
                assert isinstance(answer, dict)
                if number > 0:
                    seat.contender.rounds.append(Turn(**answer))
        right = [seat.contender for seat in seats if _is_right(seat, absent)]
    return Contest(tuple(right), absent, told)


def environment(threads: int) -> dict[str, str]:
    """Of a side: every library has so many threads, and the kernels that it takes by itself."""
    pools = ("OMP", "OPENBLAS", "MKL", "NUMBA", "TVM", "HL")
    return {
        **{name: value for name, value in os.environ.items() if name not in _FORCED},
        **{f"{pool}_NUM_THREADS": str(threads) for pool in pools},
        "OMP_PROC_BIND": "true",
        "NUMBA_THREADING_LAYER": "omp",
        **_MALLOC,
    }


@contextmanager
def _started(entry: Entry) -> Iterator[_Process]:
    command = [entry.python, "-m", entry.side.module, json.dumps(asdict(entry.side))]
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


def _opening(process: _Process, seconds: float, absent: dict[str, str]) -> dict[str, Any] | None:
    """What a side begins with; None, with the reason noted, where it is absent."""
    title, killed = process.entry.title, threading.Event()

    def kill() -> None:
        killed.set()
        process.process.kill()

    # No clock of threads holds more than this.
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), kill)
    timer.daemon = True
    timer.start()
    try:
        answer = process.ask()
    except EOFError:
        status = process.process.wait()
        absent[title] = f"no result in {seconds:g} s" if killed.is_set() else f"it ended with status {status}"
        return None
    finally:
        timer.cancel()
    assert isinstance(answer, dict)
    if "absent" in answer:
        absent[title] = answer["absent"]
        return None
    return answer


def _seats(
    process: _Process, variants: Mapping[str, Mapping[str, Any]], absent: dict[str, str]
) -> Iterator[_Seat]:
    """Of the variants whose first result is right."""
    entry = process.entry
    if not variants:
        absent[entry.title] = "nobody would use it for this"
    for variant, found in variants.items():
        contender = Contender(entry.name, " ".join(filter(None, (entry.label, variant))), variant)
        if found["error"]:
            absent[contender.title] = f"its result is wrong: {found['error']}"
        else:
            yield _Seat(process, contender, found["call_ns"])


def _fast_ones(seats: list[_Seat], slower: float, absent: dict[str, str]) -> list[_Seat]:
    """Those whose turns are worth the time that they take."""
    least_ns = min((seat.call_ns for seat in seats), default=0.0)
    fast = [seat for seat in seats if seat.call_ns <= slower * least_ns]
    for seat in seats:
        if seat not in fast:
            times = f"{seat.call_ns / least_ns:.0f} times as long as that of the fastest"
            absent[seat.contender.title] = f"a call takes {seat.call_ns / 1e6:.4g} ms, {times}"
    return fast


def _is_right(seat: _Seat, absent: dict[str, str]) -> bool:
    """Whether the result is still right after all turns."""
    try:
        error = seat.process.ask(f"{seat.contender.variant}\tcheck")
    except EOFError:
        error = "it ended"
    if error:
        absent[seat.contender.title] = f"its result was wrong in the end: {error}"
    return not error

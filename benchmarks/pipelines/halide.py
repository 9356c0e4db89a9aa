"""Halide's schedules of an application, as libraries: made once, kept in a folder, not measured.

In: what an algorithm is in Halide, and a scheduler. Out: a `Prepared`, with the schedule and the time that it
took, or the reason why there is none. Each schedule is made by a process of its own (`scheduling.py`), since
what schedulers do may take for ever, all of the memory, or the process with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.contest import ROOT, environment
from benchmarks.installed import versions
from benchmarks.pipelines.buffers import SYMBOL
from benchmarks.pipelines.calls import rooms
from benchmarks.pipelines.scheduling import AT_ROOT, INLINE, Task
from benchmarks.pipelines.signature import Box, Signature, box_of
from benchmarks.turns import AbsentError
from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.machine import processor
from spacedsl.files import replace_text

DISTRIBUTION = "halide"
_THREADS = "parallelism"
"""What the autoschedulers call the number of threads."""

_WITHOUT_DRIVER = """
int halide_cuda_initialize_kernels(void *user, void **state, const char *code, int size) { return 0; }
void halide_cuda_finalize_kernels(void *user, void *state) {}
"""
"""Code for a GPU loads its kernels even where it is only asked what it reads."""

_IN_CONTEXT = """
static void *context;
void use_context(void *given) { context = given; }
int halide_cuda_acquire_context(void *user, void **found, _Bool is_new) { *found = context; return 0; }
"""
"""Who calls code for a GPU says first in which context of the driver it works, instead of one of its own."""

_MEMORY_SHARE = 0.75
"""Of the memory of this machine, what making a schedule may take."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One of Halide's ways to schedule; `parameters` beside the number of threads, or with another one."""

    name: str
    kind: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_automatic(self) -> bool:
        return self.kind not in (INLINE, AT_ROOT)


SCHEDULERS: Mapping[str, Scheduler] = {
    scheduler.name: scheduler
    for scheduler in (
        Scheduler(INLINE, INLINE),
        Scheduler(AT_ROOT, AT_ROOT),
        Scheduler("Mullapudi2016", "Mullapudi2016"),
        Scheduler("Li2018", "Li2018"),
        Scheduler("Adams2019-beam1", "Adams2019", {"beam_size": "1"}),
        Scheduler("Adams2019-beam32", "Adams2019", {"beam_size": "32"}),
    )
}
OPTIONAL = ("Li2018",)
"""Only where it is asked for."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """What schedules are made with, and how much they may take."""

    python: Path
    """Of the environment that has Halide."""
    version: str
    """Of Halide; empty: it is not installed there."""
    processor: str
    threads: int
    limit_s: float
    memory_bytes: int
    target: str = ""
    """What the code is for, as Halide says it; empty: this machine."""


def workplace(python: Path, limit_s: float, target: str = "") -> Workplace:
    """This machine, with the Halide of an environment."""
    return Workplace(
        python=python,
        version=versions(python, [DISTRIBUTION]).get(DISTRIBUTION, ""),
        processor=processor.model_name(),
        threads=len(processor.usable_cpus()),
        limit_s=limit_s,
        memory_bytes=int(_MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
        target=target,
    )


@dataclass(frozen=True, slots=True)
class Prepared:
    scheduler: str
    made_of: str
    """Equal for equal algorithms, parameters and machines."""
    absent: str = ""
    """Why there is no library."""
    limit_s: float = 0.0
    """In which that was tried."""
    schedule_s: float = 0.0
    compile_s: float = 0.0
    target: str = ""
    rooms: Mapping[str, Box] = field(default_factory=dict)
    """Of the inputs: the points that it may read. Empty: those that they have."""

    def is_of(self, made_of: str, limit_s: float) -> bool:
        """Whether it need not be made again: what was given up may end in more time."""
        return self.made_of == made_of and (not self.absent or self.limit_s >= limit_s)


def library_of(scheduler: Scheduler, folder: Path) -> Path:
    return folder / f"{scheduler.name}.so"


def prepare(
    algorithm: Path, scheduler: Scheduler, called: Signature, folder: Path, at: Workplace
) -> Prepared:
    """Into `folder`: `NAME.so`, `NAME.schedule`, and `NAME.json` last; what lies there is taken.

    Where a schedule reads beyond the inputs, and only there, their sizes are no facts to the compiler.
    """
    if not at.version:
        return Prepared(scheduler.name, "", absent=f"{DISTRIBUTION} is not installed")
    parameters = dict(scheduler.parameters)
    if scheduler.is_automatic:
        parameters.setdefault(_THREADS, str(at.threads))
    machine = at.target or at.processor
    facts = [algorithm.read_text(encoding="utf-8"), scheduler.kind, parameters, at.version, machine]
    made_of = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    kept = folder / f"{scheduler.name}.json"
    if kept.exists():
        known = _prepared(json.loads(kept.read_text(encoding="utf-8")))
        if known.is_of(made_of, at.limit_s) and (known.absent or library_of(scheduler, folder).exists()):
            return known
    task = Task(
        str(algorithm.resolve()),
        tuple(scalar.value for scalar in called.scalars),
        scheduler.kind,
        parameters,
        SYMBOL,
        str((folder / f"{scheduler.name}.o").resolve()),
        at.memory_bytes,
        are_inputs_fixed=True,
        target=at.target,
    )
    # What others build and measure meanwhile would count against the limit.
    with machine_lock():
        answer = _made(task, library_of(scheduler, folder), called, at)
    Path(task.result).unlink(missing_ok=True)
    said = answer.pop("schedule", None)
    if said is not None:
        replace_text(folder / f"{scheduler.name}.schedule", said.strip() + "\n")
    prepared = Prepared(scheduler.name, made_of, limit_s=at.limit_s, **answer)
    replace_text(kept, json.dumps(asdict(prepared), indent=2) + "\n")
    return prepared


def _prepared(document: dict[str, Any]) -> Prepared:
    rooms = {name: box_of(box) for name, box in document["rooms"].items()}
    return Prepared(**{**document, "rooms": rooms})


def _made(task: Task, library: Path, called: Signature, at: Workplace) -> dict[str, Any]:
    """A library, and what is to be known of it; or why there is none."""
    answer = _answer(task, at)
    # The loader knows libraries by their paths: what is asked here gets one that no other has had.
    asked = library.with_suffix(".fixed.so" if task.are_inputs_fixed else ".sized.so")
    if "absent" not in answer:
        answer |= _linked(task.result, asked, _WITHOUT_DRIVER if at.target else "")
    if "absent" in answer:
        return answer
    try:
        needed = rooms(str(asked), SYMBOL, called)
    except AbsentError as error:
        if task.are_inputs_fixed:
            return _made(replace(task, are_inputs_fixed=False), library, called, at)
        return answer | {"absent": str(error)}
    finally:
        asked.unlink()
    answer |= _linked(task.result, library, _IN_CONTEXT if at.target else "")
    return answer if task.are_inputs_fixed else answer | {"rooms": needed}


def _answer(task: Task, at: Workplace) -> dict[str, Any]:
    """What the process says of its result, or why there is none."""
    command = [str(at.python), "-m", "benchmarks.pipelines.scheduling", json.dumps(asdict(task))]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(at.threads),
            timeout=at.limit_s,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"absent": f"no schedule in {at.limit_s:g} s"}
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        return {"absent": f"its scheduling ended with status {done.returncode}: {last}".rstrip(": ")}
    answer: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return answer


def _linked(object_file: str, library: Path, code: str = "") -> dict[str, str]:
    """Why that failed, if it did. Functions of `code` take the places of those of Halide's runtime."""
    command = [*find_compiler().command, "-shared", "-fPIC", "-o", str(library), object_file, "-x", "c", "-"]
    libraries = ("-lpthread", "-ldl", "-lm")
    done = subprocess.run([*command, *libraries], input=code, capture_output=True, text=True, check=False)
    return {} if done.returncode == 0 else {"absent": f"it cannot be linked: {done.stderr.strip()}"}

"""Parts of programs that have been built before: of what differs little from others, little is compiled.

In: programs in units (`printer.print_units`). Out: the objects that their libraries are linked of, which
are built while the caller does something else. The first unit of a program, which all others are called from,
is its own and not kept here. Objects lie in a scratch folder and end with it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from spacedsl.codegen.c.build import BuildError, build_object
from spacedsl.codegen.machine import processor
from spacedsl.kernels.evaluation import Lowered

KEPT = 4000
"""Objects, of some 20 KB each; then all of them are forgotten."""

PATIENCE, PATIENT_S = 20.0, 5.0
"""What is still built after so many times as long as most units take, and so many seconds, is given up."""


@dataclass(slots=True, eq=False)
class Units:
    folder: Path
    timeout_s: float
    """Of a unit, at most."""
    _lasted_s: list[float] = field(default_factory=list, init=False)
    """Of units that were built."""
    _compilers: ThreadPoolExecutor | None = field(default=None, init=False)
    """While something is built: a process with threads should not fork."""
    _objects: dict[str, Future[Path]] = field(default_factory=dict, init=False)
    """A `BuildError` where there is none."""
    _begun: int = field(default=0, init=False)

    def has(self, program: Lowered) -> bool:
        """Whether all units of a program are built, or begun."""
        return self._objects.keys() >= {*program.units[1:]}

    def begin(self, programs: Iterable[Lowered]) -> None:
        """Begins to build what is missing of some programs, side by side."""
        wanted = dict.fromkeys(unit for program in programs for unit in program.units[1:])
        missing = [unit for unit in wanted if unit not in self._objects]
        if len(self._objects) + len(missing) > KEPT:
            self._forget()
            missing = [*wanted]
        if not missing:
            return
        compilers = self._compilers = self._compilers or ThreadPoolExecutor(len(processor.usable_cpus()))
        for unit in missing:
            target = self.folder / f"{self._begun}.o"
            self._begun += 1
            self._objects[unit] = compilers.submit(self._built, unit, target)

    def build(self, programs: Sequence[Lowered]) -> None:
        """Returns once all that there may be of some programs is built, and nothing is any more; raises what
        is no fault of theirs.
        """
        try:
            self.begin(programs)
            for program in programs:
                for unit in program.units[1:]:
                    with suppress(BuildError):
                        self._objects[unit].result()
        finally:
            self.settle()

    def of(self, program: Lowered) -> Sequence[Path]:
        """The objects of a program that was built, but for its first unit; raises `BuildError`."""
        return [self._objects[unit].result() for unit in program.units[1:]]

    def settle(self) -> None:
        """Returns once no compiler runs any more. What none has begun with is forgotten, and what went wrong
        for another reason than the program.
        """
        if self._compilers is not None:
            self._compilers.shutdown(cancel_futures=True)
            self._compilers = None
            self._objects = {unit: each for unit, each in self._objects.items() if _is_known(each)}

    def _built(self, unit: str, target: Path) -> Path:
        limit_s, begun_s = self.timeout_s, time.monotonic()
        if self._lasted_s:
            limit_s = min(limit_s, max(PATIENT_S, PATIENCE * statistics.median(self._lasted_s)))
        found = build_object(unit, target, timeout_s=limit_s)
        self._lasted_s.append(time.monotonic() - begun_s)
        return found

    def _forget(self) -> None:
        self.settle()
        for built in self._objects.values():
            if not built.exception():
                built.result().unlink(missing_ok=True)
        self._objects.clear()


def _is_known(built: Future[Path]) -> bool:
    return not built.cancelled() and isinstance(built.exception(), BuildError | None)

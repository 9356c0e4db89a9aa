"""Parts of programs that have been built before: of what differs little from others, little is compiled.

In: programs in units (`c_printer.print_units`). Out: the objects that their libraries are linked of. The
first unit of a program, which all others are called from, is its own and not kept here. Objects lie in a
scratch folder and end with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

from spacedsl.codegen.c.build import BuildError, build_object
from spacedsl.kernels.evaluation import Lowered

KEPT = 4000
"""Objects, of some 20 KB each; then all of them are forgotten."""


@dataclass(slots=True, eq=False)
class Units:
    folder: Path
    timeout_s: float
    _objects: dict[str, Path | BuildError] = field(default_factory=dict, init=False)
    _made: int = field(default=0, init=False)

    def build(self, programs: Iterable[Lowered], compilers: Executor) -> None:
        """What is missing of some programs, side by side."""
        wanted = dict.fromkeys(unit for program in programs for unit in program.units[1:])
        missing = [unit for unit in wanted if unit not in self._objects]
        if len(self._objects) + len(missing) > KEPT:
            self._forget()
            missing = [*wanted]
        targets = [self.folder / f"{self._made + number}.o" for number in range(len(missing))]
        self._made += len(missing)
        self._objects.update(zip(missing, compilers.map(self._built, missing, targets), strict=True))

    def of(self, program: Lowered) -> Sequence[Path]:
        """The objects of a program that was built, but for its first unit; raises `BuildError`."""
        found: list[Path] = []
        for unit in program.units[1:]:
            built = self._objects[unit]
            if isinstance(built, BuildError):
                raise built
            found.append(built)
        return found

    def _built(self, unit: str, target: Path) -> Path | BuildError:
        try:
            return build_object(unit, target, timeout_s=self.timeout_s)
        except BuildError as error:
            return error

    def _forget(self) -> None:
        for built in self._objects.values():
            if isinstance(built, Path):
                built.unlink(missing_ok=True)
        self._objects.clear()

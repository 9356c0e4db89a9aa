"""What an exploration hands back and leaves behind: `Result`, and the files of its folder.

In: finalists and defects of a search, and what its run is about. Out: `best.c` (or `best.cu`), `best.h`,
`best.json` for the fastest implementation, `wrong-*.json` for those that are wrong, and values that say where
these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacedsl import record
from spacedsl.api.problem import Defect
from spacedsl.codegen.c.interface import print_header
from spacedsl.engine.decision import Decision
from spacedsl.files import replace_text
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.device import Device
from spacedsl.kernels.evaluation import Failure, Timing
from spacedsl.record import (
    CodeRecord,
    DecisionRecord,
    FailedRecord,
    KernelRecord,
    MeasuredRecord,
    SpaceRecord,
)
from spacedsl.search.comparison import Finalist
from spacedsl.search.events import Failed, Progress
from spacedsl.search.measurements import fastest_first
from spacedsl.search.results import Stop
from spacedsl.search.state import Trial
from spacedsl.search.store import About, Store

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class Best:
    """The files of the fastest implementation, and its times in nanoseconds."""

    time_ns: float
    time_ci_ns: tuple[float, float]
    bound_ns: float
    code: Path
    header: Path
    decisions: Path
    is_predicted: bool
    """Whether no GPU has run it, and its time is that of a model."""
    measured_on: str | None
    """The GPU that measured it, where that was on another machine."""
    is_tied: bool
    """Whether another implementation's time cannot be told from it."""


@dataclass(frozen=True, slots=True)
class Fastest:
    """What becomes the best of a run."""

    digest: str
    code: str
    decisions: tuple[Decision, ...]
    timing: Timing
    bound_ns: float
    is_tied: bool = False
    measured_on: str | None = None

    @classmethod
    def of(cls, finalist: Finalist) -> Fastest:
        """What the search itself found."""
        f = finalist
        return cls(f.digest, f.code, f.decisions, f.timing, f.bound_ns, f.is_tied)


def fastest_measured(store: Store) -> Fastest | None:
    """The fastest of what a GPU measured, whatever was predicted; None where nothing was right."""
    found = fastest_first(store.measurements())
    if not found:
        return None
    best, timing = found[0], found[0].outcome.timing
    code = store.code(best.digest)
    assert timing is not None and code is not None
    is_tied = any(
        m.outcome.timing is not None and m.outcome.timing.low_ns <= timing.high_ns for m in found[1:]
    )
    return Fastest(best.digest, code, best.decisions, timing, best.bound_ns, is_tied, best.device)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """What an exploration found. `flops` and `footprint_bytes` are those of one call of the kernel."""

    kernel: MeasurableKernel
    target: str
    device: Device
    run: Path
    stop: Stop
    seed: int
    progress: Progress
    root_bound_ns: float | None
    trials: tuple[Trial, ...]
    best: Best | None
    defects: tuple[Defect, ...]
    """The first implementations of each class of failure that show the space or the generator to be wrong."""
    is_device_raised: bool
    """Whether a time below its bound raised the description of this machine, for the runs to come."""

    def __repr__(self) -> str:
        """In one line: all of it is the kernel, the machine and thousands of trials."""
        found = "nothing found" if self.best is None else f"best {self.best.time_ns:.4g} ns"
        return (
            f"<Result of {self.kernel.name}: {found} in {self.progress.evaluations} evaluations, {self.run}>"
        )

    @property
    def flops(self) -> int:
        """Floating-point operations of one call, a fused multiply-add counted as two."""
        return self.kernel.flops

    @property
    def footprint_bytes(self) -> int:
        """Distinct bytes that one call reads or writes."""
        return sum(t.elements * t.dtype.nbytes for t in self.kernel.tensors)

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each implementation that was met; needs pandas."""
        import pandas as pd

        rows = [
            {
                "iteration": t.iteration,
                "seconds": t.seconds,
                "digest": t.digest,
                "time_ns": t.outcome.timing.time_ns if t.outcome.timing is not None else None,
                "bound_ns": t.bound_ns,
                "failure": str(t.outcome.failure) if t.outcome.failure is not None else None,
                "is_duplicate": t.is_duplicate,
            }
            for t in self.trials
        ]
        return pd.DataFrame(
            rows, columns=["iteration", "seconds", "digest", "time_ns", "bound_ns", "failure", "is_duplicate"]
        )


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What lies in the folder of a run beside its store. Each file is replaced at once, `best.json` last."""

    folder: Path
    about: About
    kernel: MeasurableKernel
    suffix: str
    """Of files with code."""

    def write_best(self, best: Fastest) -> Best:
        name, tensors, parameters = (
            self.kernel.name,
            self.kernel.tensors,
            self.kernel.parameters,
        )
        code, header, decisions = self._paths()
        timing = best.timing
        replace_text(code, best.code)
        replace_text(header, print_header(name, tensors, parameters, is_for_gpu=self.about.target == "cuda"))
        record.write(
            MeasuredRecord(
                **self._rebuilding(best.digest, best.decisions),
                time_ns=timing.time_ns,
                time_ci_ns=(timing.low_ns, timing.high_ns),
                samples=timing.samples,
                measured_on=best.measured_on,
                bound_ns=best.bound_ns,
                verified=True,
            ),
            decisions,
        )
        return Best(
            time_ns=timing.time_ns,
            time_ci_ns=(timing.low_ns, timing.high_ns),
            bound_ns=best.bound_ns,
            code=code,
            header=header,
            decisions=decisions,
            is_predicted=timing.samples == 0,
            measured_on=best.measured_on,
            is_tied=best.is_tied,
        )

    def remove_best(self) -> None:
        """What seemed to be the best and then failed is not left behind under that name."""
        for path in reversed(self._paths()):
            path.unlink(missing_ok=True)

    def write_defect(self, failed: Failed, decisions: Sequence[Decision]) -> Defect:
        path = self.folder / f"wrong-{failed.digest[:12]}.json"
        has_code = failed.failure is not Failure.LOWERING
        record.write(
            FailedRecord(
                **self._rebuilding(failed.digest if has_code else None, decisions),
                verified=False,
                failure=failed.failure,
                message=failed.message,
            ),
            path,
        )
        return Defect(failed, path)

    def _rebuilding(self, digest: str | None, decisions: Sequence[Decision]) -> dict[str, Any]:
        """The fields that all records have."""
        about = self.about
        return {
            "kernel": KernelRecord(
                name=about.kernel, path=about.kernel_path, text=about.kernel_text, sizes=dict(about.sizes)
            ),
            "space": SpaceRecord(path=about.space_path, digest=about.space_digest),
            "target": about.target,
            "device": dict(about.device),
            "code": CodeRecord(
                digest=digest,
                generator=about.generator_digest,
                compiler=about.compiler,
                flags=about.flags,
            ),
            "decisions": tuple(
                DecisionRecord(choice=d.choice, objects=d.objects, values=d.values) for d in decisions
            ),
        }

    def _paths(self) -> tuple[Path, Path, Path]:
        return self.folder / f"best.{self.suffix}", self.folder / "best.h", self.folder / "best.json"

"""Runs for a GPU, measured on the one of this machine: a batch that is run here and taken back at once.

In: the folder of a run. Out: what the best of it take, beside what was predicted. The batch stays in the
folder of the run. On another machine, `batching.py` and `importing.py` do the same by hand.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from spacedsl.api.batching import DEFAULT_TOP, NothingToMeasureError, batch
from spacedsl.api.importing import Imported, check_same_device, import_results
from spacedsl.api.problem import Listener, Preparing, UnknownNameError
from spacedsl.api.targets import TARGETS, recorded_machine
from spacedsl.codegen.cuda.batches.driver import DeviceError, Gpu
from spacedsl.codegen.cuda.batches.folders import RESULTS
from spacedsl.codegen.cuda.batches.writing import RUNNER
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.commands import command
from spacedsl.diagnostics import counted
from spacedsl.files import resolved
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.search.store import Store


class NoGpuError(EnvironmentLack):
    """This machine has no GPU that the code is for."""


class BrokenOffError(EnvironmentLack):
    """The GPU cannot be used, or no longer; what it has measured before is taken back."""

    def __init__(self, message: str, imported: Imported | None) -> None:
        super().__init__(message)
        self.imported = imported
        """None where nothing had been measured."""


PYTHON = (sys.executable,)
"""What runs a batch."""

BATCHES = "batches"
"""In the folder of a run: those that were measured here, by number."""


def _gpu_for(device: GpuDevice) -> str:
    """The name of the GPU of this machine, on which code for `device` runs. Raises `NoGpuError`."""
    try:
        gpu = Gpu()
    except DeviceError as error:
        raise NoGpuError(f"there is no GPU to measure here: {error}") from None
    if gpu.compute_capability != device.compute_capability:
        raise NoGpuError(
            f"{gpu.name} is of compute capability {gpu.compute_capability}, and {device.name}, which the "
            f"code is for, of {device.compute_capability}"
        )
    return gpu.name


def check_gpu(name: str | None) -> None:
    """Raises `NoGpuError` where this machine has none on which code for the GPU of that name runs."""
    device = TARGETS["cuda"].device(name, lambda _: None)
    assert isinstance(device, GpuDevice)
    _gpu_for(device)


def check_gpu_of(run: Path) -> str:
    """The name of the GPU of this machine that a run is for.

    Raises `NoGpuError` where there is none, `ChangedError` where another one has measured the run before,
    `StoreError`, `UnknownNameError` for a run for a CPU.
    """
    with Store.open(run, read_only=True) as store:
        about = store.about()
        _, device = recorded_machine(about.target, about.device, run)
        if not isinstance(device, GpuDevice):
            raise UnknownNameError(f"{run}: a run for a CPU, whose times are measured already")
        name = _gpu_for(device)
        check_same_device(store, name)
    return name


def measure(
    run: Path | str,
    *,
    top: int = DEFAULT_TOP,
    seconds: float | None = None,
    on_event: Listener = lambda event: None,
) -> Imported:
    """Checks and times those of a run on the GPU of this machine that are predicted to be the fastest, `top`
    of those that have not been measured before; after `seconds`, no further one is begun. The fastest becomes
    the best of the run.

    Raises what `check_gpu_of`, `batch` and `import_results` do, and `BrokenOffError` where the GPU cannot be
    used to the end. What was measured before a `KeyboardInterrupt` is taken back, too.
    """
    run = resolved(Path(run))
    on_event(Preparing(f"measuring on {check_gpu_of(run)}"))
    with Store.open(run):
        pass  # Another process that writes to it is not found out about only when all has been measured.
    folder = _new_folder(run / BATCHES)
    written = batch([run], folder, top=top, has_cases=False, on_event=on_event)
    if not written.implementations:
        raise NothingToMeasureError(f"{run}: the compiler makes code of none that is left")
    try:
        _run(folder, written.implementations, seconds, on_event)
    except EnvironmentLack as error:
        raise BrokenOffError(str(error), _taken_back(folder, on_event)) from None
    except KeyboardInterrupt as error:
        if (imported := _taken_back(folder, on_event)) is not None:
            error.add_note(f"what was measured is kept: {counted(imported.measured, 'implementation')}")
        raise
    imported = _taken_back(folder, on_event)
    if imported is None:
        limit = "" if seconds is None else f" in {seconds:g} s"
        raise NothingToMeasureError(f"{run}: nothing was begun{limit}")
    return imported


def _taken_back(folder: Path, on_event: Listener) -> Imported | None:
    """None where not even the device has a line."""
    results = folder / RESULTS
    if not results.is_file() or "\n" not in results.read_text(encoding="utf-8"):
        return None
    try:
        (imported,) = import_results(folder, on_event)
    except BaseException as error:
        error.add_note(f"what was measured is taken back by: {command('import', folder)}")
        raise
    return imported


def _new_folder(batches: Path) -> Path:
    numbers = [int(path.name) for path in batches.glob("*") if path.name.isdecimal()]
    return batches / str(1 + max(numbers, default=0))


def _run(folder: Path, count: int, seconds: float | None, on_event: Listener) -> None:
    """In a process of its own, whose workers a kernel may take down."""
    options = [] if seconds is None else ["--seconds", str(seconds)]
    runner = [*PYTHON, RUNNER[0], *options]
    with (folder / "errors.txt").open("w+") as errors:
        with subprocess.Popen(
            runner, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            assert process.stdout is not None
            for number, _ in enumerate(process.stdout, 1):
                on_event(Preparing(f"measured {number} of {counted(count, 'implementation')}"))
        errors.seek(0)
        said = errors.read().strip()
    if process.returncode:
        raise EnvironmentLack(said or f"{folder / RUNNER[0]} ended with status {process.returncode}")

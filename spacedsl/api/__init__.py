"""Everything above the packages: wires language, engine, kernels, search and code generation together.

In: kernel files, spaces, folders of runs, records of implementations. Out: `Result`, `Replay`, callables on
NumPy arrays. Nothing here prints; whoever wants to watch passes a listener.

`problem.py` poses what is to be searched, `exploration.py` searches it, `results.py` holds and writes what
was found, `replaying.py` takes up what was written. `solving.py` finds solutions of any space without
measuring, `explaining.py` says why something is so, `checking.py` what is wrong in a kernel file.
"""

from pathlib import Path

from spacedsl import kernels
from spacedsl.api.batching import Batch, NothingToMeasureError, batch
from spacedsl.api.characterizing import GpuCharacterization, characterize_gpu
from spacedsl.api.explaining import Answer, explain
from spacedsl.api.exploration import explore, resume
from spacedsl.api.importing import Imported, import_results
from spacedsl.api.measuring import BrokenOffError, NoGpuError, check_gpu, check_gpu_of, measure
from spacedsl.api.problem import (
    Activity,
    ChangedError,
    Defect,
    EmptySpaceError,
    Planned,
    Preparing,
    Stopping,
    UnknownNameError,
    UnverifiedError,
    Waiting,
    Warned,
)
from spacedsl.api.replaying import Replay, emit, emit_halide, emit_launcher, load, replay
from spacedsl.api.results import Best, Result
from spacedsl.api.solving import Solution, Unmeasured, pose_unmeasured, solve
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.machine.characterize import (
    Characterization,
    characterize,
    devices_folder,
    local_device,
    write_description,
)
from spacedsl.codegen.running.memory import TooLargeError
from spacedsl.kernels.backbones import load_measurable as load_kernel
from spacedsl.kernels.device import load_any_device, load_device
from spacedsl.kernels.sizes import SizeOverrideError
from spacedsl.language.loader import load_space
from spacedsl.search.results import Stop
from spacedsl.search.store import DamagedError, StoreError
from spacedsl.search.tree import ReplayError

__all__ = [
    "Activity", "Answer", "Batch", "Best", "BrokenOffError", "ChangedError", "Characterization",
    "DamagedError", "Defect", "EmptySpaceError", "EnvironmentLack", "GpuCharacterization", "Imported",
    "NoGpuError", "NothingToMeasureError", "Planned", "Preparing", "Replay", "ReplayError", "Result",
    "SizeOverrideError", "Solution", "Stop", "Stopping", "StoreError", "TooLargeError", "UnknownNameError",
    "Unmeasured", "UnverifiedError", "Waiting", "Warned", "batch", "characterize", "characterize_gpu",
    "check_gpu", "check_gpu_of", "device_files", "emit", "emit_halide", "emit_launcher", "explain",
    "explore", "import_results", "load", "load_any_device", "load_device", "load_kernel", "load_space",
    "local_device", "measure", "pose_unmeasured", "replay", "resume", "solve", "write_description",
]  # fmt: skip


def device_files() -> tuple[Path, ...]:
    """Descriptions of machines: those shipped, then those measured here, whatever program wrote them."""
    shipped = Path(kernels.__file__).parent / "devices"
    return (*sorted(shipped.glob("*.yaml")), *sorted(devices_folder().glob("*.yaml")))

"""What differs from target to target: the machine, its rules, its bound, its evaluator, its code.

In: the name of a target. Out: a `Target`, from which searches and records get all that. What is the same on
every target is for the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from pydantic import ValidationError

from spacedsl.api.problem import (
    ChangedError,
    Listener,
    Preparing,
    UnknownNameError,
    Waiting,
    Warned,
    check_known,
)
from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.cuda import nvrtc
from spacedsl.codegen.cuda.evaluator import PredictingEvaluator
from spacedsl.codegen.cuda.twin import FLAGS as TWIN_FLAGS
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.machine.characterize import local_device, raise_peaks
from spacedsl.codegen.running.memory import check_memory, flush_bytes
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.files import resolved
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.device import CpuDevice, Device, gpus, load_any_device, load_gpu
from spacedsl.kernels.evaluation import Evaluator
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import Kind, locate
from spacedsl.kernels.linalg import backbone as linalg
from spacedsl.kernels.pipeline import backbone as pipeline
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.bounds.gpu.bound import GpuBound
from spacedsl.search.bounds.pipeline import GpuPipelineBound, PipelineBound
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.costs.gpu_pipeline import GpuPipelineCosts
from spacedsl.search.costs.linalg import LinalgNeeds
from spacedsl.search.costs.model import CostModel, Needs
from spacedsl.search.costs.pipeline import PipelineCosts


class PatientEvaluator(Evaluator, Protocol):
    """One that says how long it waited for others on this machine."""

    waited_s: float


class SearchBound(Bound, Protocol):
    """One that says why no compiled code computes it, although that was asked for."""

    no_native: str | None


class Target(ABC):
    """What implementations are made for."""

    name: str
    suffix: str
    """Of files with its code."""
    kind: Kind
    """Of its machines."""
    batch: int
    """Programs that a search draws before it evaluates them."""
    bounded_every: int
    """Decisions of a rollout from one bound to the next: a bound that takes longer is asked less often."""

    @abstractmethod
    def device(self, name: str | None, on_event: Listener) -> Device:
        """A machine of that name, or the file of one; None: this one.

        Raises `UnknownNameError`, `DiagnosticError`, `OSError`, `EnvironmentLack`.
        """

    @abstractmethod
    def recorded_device(self, data: Mapping[str, Any]) -> Device:
        """From a record; raises `ValidationError`."""

    @abstractmethod
    def check(self, kernel: MeasurableKernel, device: Device) -> None:
        """Raises `TooLargeError`, `EnvironmentLack` for a kernel that this machine cannot check."""

    @abstractmethod
    def compiler(self) -> tuple[str, tuple[str, ...]]:
        """What compiles its code, and with which flags; raises `EnvironmentLack`."""

    @abstractmethod
    def bound(self, instance: Instance, device: Device) -> SearchBound: ...

    def costs(self, instance: Instance, device: Device) -> CostModel | None:
        """What implementations may take, in nanoseconds, to compare them; None: the bound is enough."""
        return None

    def needs(self, kernel: MeasurableKernel, instance: Instance, device: Device) -> Needs | None:
        """What implementations need of each resource, to compare them; None: what the bound says."""
        return None

    @abstractmethod
    def evaluator(self, kernel: MeasurableKernel, device: Device, on_event: Listener) -> PatientEvaluator: ...

    def estimate_ns(self, evaluator: PatientEvaluator) -> Callable[[Candidate], float] | None:
        """What implementations take before they are built; None: only measuring says it."""
        return None

    @abstractmethod
    def raise_peaks(self, device: Device, factor: float) -> bool:
        """Makes a machine's description faster for later runs; whether that was done."""


class Cpu(Target):
    """This machine's CPU."""

    name, suffix, kind = "cpu", "c", "cpu"
    batch, bounded_every = 4, 1

    def device(self, name: str | None, on_event: Listener) -> CpuDevice:
        if name is not None:
            raise UnknownNameError(
                "code for a CPU is measured where it is made: no device can be named, unless the target is a "
                "GPU (--target cuda)"
            )
        return local_device(
            progress=lambda activity: on_event(Preparing(activity)),
            warn=lambda message: on_event(Warned(message)),
        )

    def recorded_device(self, data: Mapping[str, Any]) -> CpuDevice:
        return CpuDevice.model_validate(data)

    def check(self, kernel: MeasurableKernel, device: Device) -> None:
        assert isinstance(device, CpuDevice)
        check_memory(kernel, flush_bytes(kernel, device))

    def compiler(self) -> tuple[str, tuple[str, ...]]:
        compiler = find_compiler()
        return compiler.version, compiler.flags

    def bound(self, instance: Instance, device: Device) -> SearchBound:
        assert isinstance(device, CpuDevice)
        return _CPU_BOUNDS[type(instance.kernel)](instance, device)

    def costs(self, instance: Instance, device: Device) -> PipelineCosts | None:
        assert isinstance(device, CpuDevice)
        is_pipeline = isinstance(instance.kernel, pipeline.Kernel)
        return PipelineCosts(instance, device) if is_pipeline else None

    def needs(self, kernel: MeasurableKernel, instance: Instance, device: Device) -> LinalgNeeds | None:
        assert isinstance(device, CpuDevice)
        if not isinstance(instance.kernel, linalg.Kernel):
            return None
        return LinalgNeeds(instance, device, is_cold=kernel.cache == "cold")

    def evaluator(self, kernel: MeasurableKernel, device: Device, on_event: Listener) -> CpuEvaluator:
        assert isinstance(device, CpuDevice)
        return CpuEvaluator(
            kernel,
            device,
            warn=lambda message: on_event(Warned(message)),
            waits=lambda is_waiting: on_event(Waiting(is_over=not is_waiting)),
            tell=lambda activity: on_event(Preparing(activity)),
        )

    def raise_peaks(self, device: Device, factor: float) -> bool:
        assert isinstance(device, CpuDevice)
        return raise_peaks(device, factor)


class Cuda(Target):
    """An NVIDIA GPU, which need not be here: times are those of a model."""

    name, suffix, kind = "cuda", "cu", "gpu"
    batch, bounded_every = 16, 5
    """The model says in milliseconds which of them promise something."""

    def device(self, name: str | None, on_event: Listener) -> GpuDevice:
        known = gpus()
        if name is None:
            raise UnknownNameError(f"for which GPU? name one with --device: {', '.join(known)}, or a file")
        if Path(name).suffix in {".yaml", ".yml"}:
            resolved(Path(name))
            return load_gpu(Path(name))
        check_known("GPU", name, known)
        return load_gpu(known[name])

    def recorded_device(self, data: Mapping[str, Any]) -> GpuDevice:
        return GpuDevice.model_validate(data)

    def check(self, kernel: MeasurableKernel, device: Device) -> None:
        """Implementations are checked on corners of the kernel, which are small."""

    def compiler(self) -> tuple[str, tuple[str, ...]]:
        return f"{nvrtc.version()}; {find_compiler().version}", (*nvrtc.OPTIONS, *TWIN_FLAGS)

    def bound(self, instance: Instance, device: Device) -> SearchBound:
        assert isinstance(device, GpuDevice)
        return _GPU_BOUNDS[type(instance.kernel)](instance, device)

    def costs(self, instance: Instance, device: Device) -> GpuPipelineCosts | None:
        assert isinstance(device, GpuDevice)
        is_pipeline = isinstance(instance.kernel, pipeline.Kernel)
        return GpuPipelineCosts(instance, device) if is_pipeline else None

    def evaluator(self, kernel: MeasurableKernel, device: Device, on_event: Listener) -> PredictingEvaluator:
        assert isinstance(device, GpuDevice)
        return PredictingEvaluator(kernel, device, warn=lambda message: on_event(Warned(message)))

    def estimate_ns(self, evaluator: PatientEvaluator) -> Callable[[Candidate], float]:
        assert isinstance(evaluator, PredictingEvaluator)
        return evaluator.estimate_ns

    def raise_peaks(self, device: Device, factor: float) -> bool:
        return False


_CPU_BOUNDS: Mapping[type, Callable[[Instance, CpuDevice], SearchBound]] = MappingProxyType(
    {linalg.Kernel: CpuBound, pipeline.Kernel: PipelineBound}
)
_GPU_BOUNDS: Mapping[type, Callable[[Instance, GpuDevice], SearchBound]] = MappingProxyType(
    {linalg.Kernel: GpuBound, pipeline.Kernel: GpuPipelineBound}
)
"""By the class of the kernel that an instance is about."""

TARGETS: Mapping[str, Target] = MappingProxyType({target.name: target for target in (Cpu(), Cuda())})


def recorded_machine(target: str, device: Mapping[str, Any], where: Path) -> tuple[Target, Device]:
    """What the record or the run in `where` is for; raises `ChangedError` for what is unknown here."""
    if target not in TARGETS:
        raise ChangedError(f"{where}: it is for a target `{target}`, which there is not")
    try:
        return TARGETS[target], TARGETS[target].recorded_device(device)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise ChangedError(f"{where}: its `device` is no description of a machine: {message}") from None


def target_of(device: Device) -> Target:
    """The target that a machine belongs to."""
    return next(target for target in TARGETS.values() if target.kind == device.kind)


def gpu_of_file(kernel: MeasurableKernel) -> Device | None:
    """The GPU that a kernel file names; raises `DiagnosticError`, KF044 where there is none of that name."""
    name = kernel.search.device
    if name is None:
        return None
    try:
        return TARGETS["cuda"].device(name, lambda event: None)
    except (UnknownNameError, OSError) as error:
        said = f"{name}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise DiagnosticError([Diagnostic("KF044", said, locate(kernel, "search", "device"))]) from None


def named_device(kernel: MeasurableKernel, target: str | None, device: Path | None) -> Device | None:
    """The machine of a description, or else the GPU that the kernel file names; None: a CPU.

    Raises `UnknownNameError` where target and machine do not go together, else as reading a description does.
    """
    if target is not None:
        check_known("target", target, TARGETS)
    if device is not None:
        machine = load_any_device(device)
        if target not in (None, target_of(machine).name):
            raise UnknownNameError(f"{machine.name} is no machine of the target `{target}`")
        return machine
    if (target or kernel.search.target or "cpu") == "cpu":
        return None
    return gpu_of_file(kernel) or TARGETS["cuda"].device(None, lambda event: None)

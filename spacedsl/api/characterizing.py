"""A GPU of this machine beside its description.

In: the name or file of a description, or nothing: then the shipped one that is most like the device. Out:
what was measured, and the description with what was better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spacedsl.api.problem import UnknownNameError
from spacedsl.api.targets import TARGETS
from spacedsl.codegen.cuda.batches.driver import Device, DeviceError
from spacedsl.codegen.cuda.characterize import Figure, improved, measure, open_device
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.kernels.device import gpus, load_gpu
from spacedsl.kernels.gpu_device import GpuDevice


@dataclass(frozen=True, slots=True)
class GpuCharacterization:
    """A device as its driver calls it, its description, and what was measured."""

    name: str
    described: GpuDevice
    figures: tuple[Figure, ...]
    improved: GpuDevice
    """The description with what was better."""


def characterize_gpu(name: str | None, progress: Callable[[str], None]) -> GpuCharacterization:
    """Measures the first GPU of this machine.

    Raises `EnvironmentLack` where there is none, `UnknownNameError`, `DiagnosticError`, `OSError`.
    """
    device = open_device()
    described = _like(device) if name is None else TARGETS["cuda"].device(name, lambda event: None)
    assert isinstance(described, GpuDevice)
    try:
        figures = measure(device, described, progress)
    except DeviceError as error:
        raise EnvironmentLack(f"{device.name} cannot be measured: {error}") from None
    return GpuCharacterization(device.name, described, figures, improved(described, figures))


def _like(device: Device) -> GpuDevice:
    """Of the shipped descriptions of its architecture, that of as many SMs and as large a cache."""
    found = [d for d in map(load_gpu, gpus().values()) if d.compute_capability == device.compute_capability]
    if not found:
        raise UnknownNameError(
            f"no description is shipped for {device.name}, of compute capability "
            f"{device.compute_capability}: give the file of one with --device"
        )
    return min(found, key=lambda d: (abs(d.sms - device.sms), abs(d.l2_bytes - device.l2_bytes)))

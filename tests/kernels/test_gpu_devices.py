"""The GPUs that are shipped: what is known of them adds up to what they are sold for."""

from __future__ import annotations

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.device import DEVICES, CpuDevice, load_any_device, load_device, load_gpu

TERAFLOPS = {
    "k4000": 1.24, "titan": 4.71, "v100": 15.7, "rtx2080ti": 14.2, "a100": 19.5, "h100": 67.0, "h200": 67.0
}  # fmt: skip
"""Of f32, as the makers say."""

BOOST_GHZ = {"titan": 0.876, "rtx2080ti": 1.635}
"""What they say it at, of those that go beyond it by themselves."""


@pytest.mark.parametrize("name", TERAFLOPS)
def test_peaks_are_those_of_the_data_sheets(name: str) -> None:
    device = load_gpu(DEVICES / f"{name}.yaml")
    clock_ghz = BOOST_GHZ.get(name, device.clock_ghz)
    peak = 2 * device.throughput.f32 * device.sms * clock_ghz / 1000
    assert peak == pytest.approx(TERAFLOPS[name], rel=0.01)
    assert clock_ghz <= device.clock_ghz < 1.3 * clock_ghz
    assert device.shared_bytes_per_block <= device.shared_bytes_per_sm
    assert device.l2_bytes_per_ns > device.dram_bytes_per_ns


def test_every_number_of_a_gpu_has_a_source() -> None:
    for name in TERAFLOPS:
        lines = (DEVICES / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
        sources = {line.split(":")[0].removeprefix("#   ") for line in lines if line.startswith("#   ")}
        figures = [
            line for line in lines if not line.startswith("#") and line.split(":")[0] not in ("kind", "name")
        ]
        for line in figures:
            named = line.partition("#")[2].replace(" ", "").split(",")
            assert named != [""] and sources.issuperset(named), line


@pytest.mark.parametrize(
    ("name", "shared_bytes", "rooms"),
    [("rtx2080ti", 65 << 10, 0), ("rtx2080ti", 64 << 10, 1), ("rtx2080ti", 32 << 10, 2),
     ("v100", 48 << 10, 2), ("a100", 81 << 10, 2), ("a100", 82 << 10, 1), ("h100", 0, 16),
     ("k4000", 16 << 10, 3)],
)  # fmt: skip
def test_shared_memory_is_kept_back_from_compute_capability_8_on(
    name: str, shared_bytes: int, rooms: int
) -> None:
    """Blocks of 128 threads with 32 registers each."""
    assert load_gpu(DEVICES / f"{name}.yaml").rooms(128, 32, shared_bytes) == rooms


def test_kinds_are_told_apart() -> None:
    assert isinstance(load_any_device(DEVICES / "generic-x86-64.yaml"), CpuDevice)
    assert load_any_device(DEVICES / "a100.yaml").kind == "gpu"
    with pytest.raises(DiagnosticError):
        load_device(DEVICES / "a100.yaml")

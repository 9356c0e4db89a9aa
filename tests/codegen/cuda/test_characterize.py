"""Measuring a GPU: on a driver whose kernels are twins, and whose clock ticks once each time it is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.cuda import characterize
from spacedsl.codegen.cuda.batches.driver import Device
from spacedsl.codegen.cuda.characterize import STEPS, Figure, improved, measure, open_device, ring
from spacedsl.codegen.cuda.nvrtc import Cubin
from spacedsl.codegen.lack import EnvironmentLack
from tests.codegen.cuda.fake_gpu import build_image, environment
from tests.codegen.cuda.grids import device as described

CLOCK = """
static long long twin_clock;
static long long clock64() { return twin_clock += 1 << 20; }
template <class T> static T __ldca(const T *at) { return *at; }
template <class T> static T __ldcg(const T *at) { return *at; }
"""


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    def compile_cubin(code: str, compute_capability: str) -> Cubin:
        return Cubin(build_image(CLOCK + code, tmp_path / f"{len(list(tmp_path.iterdir()))}.so"), {})

    environment(tmp_path)
    monkeypatch.setattr(characterize, "compile_cubin", compile_cubin)
    monkeypatch.setattr(characterize, "DRAM_BYTES", 1 << 21)
    return Device(str(tmp_path / "libcuda.so.1"))


def test_cycles_are_of_one_step_and_rates_of_all_bytes(gpu: Device) -> None:
    said: list[str] = []
    figures = {f.name: f for f in measure(gpu, described(), said.append)}
    assert len(said) == len(figures) == 12
    ticks = 1 << 20
    for name in ("f32", "f64", "shared", "l1", "l2", "dram"):
        assert figures[f"latency.{name}"].measured == ticks / STEPS
    # All threads of a block read the clock, the first of them twice.
    assert figures["latency.barrier"].measured == 128 * ticks / STEPS
    for name in ("shared", "l1"):
        assert figures[f"{name}_bytes_per_cycle"].measured == 1024 * 16 * STEPS / (1024 * ticks)
    assert all(f.measured > 0 for f in figures.values())
    assert figures["dram_bytes_per_ns"].described == 3352


@pytest.mark.parametrize("spacing", [1, 32])
def test_a_ring_leads_through_all_of_its_places(spacing: int) -> None:
    words = ring(50, spacing, np.random.default_rng(3))
    at, seen = 0, set()
    while at not in seen:
        seen.add(at)
        at = int(words[at])
    assert (at, len(seen)) == (0, 50)
    assert all(place % spacing == 0 for place in seen)


def test_a_description_takes_over_only_what_was_better() -> None:
    before = described()
    figures = (
        Figure("latency.l2", before.latency.l2, before.latency.l2 - 1, False),
        Figure("latency.dram", before.latency.dram, before.latency.dram + 1, False),
        Figure("dram_bytes_per_ns", before.dram_bytes_per_ns, 9000.0, True),
        Figure("l2_bytes_per_ns", before.l2_bytes_per_ns, 1.0, True),
    )
    after = improved(before, figures)
    assert (after.latency.l2, after.latency.dram) == (before.latency.l2 - 1, before.latency.dram)
    assert (after.dram_bytes_per_ns, after.l2_bytes_per_ns) == (9000.0, before.l2_bytes_per_ns)


def test_without_a_gpu_there_is_nothing_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(characterize, "Device", lambda: Device("libcuda-that-is-not-there.so"))
    with pytest.raises(EnvironmentLack, match="there is no GPU to measure here: there is no driver"):
        open_device()

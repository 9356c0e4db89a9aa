"""Descriptions of this machine: what the system says, what measurements become, where it is kept."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from spacedsl import c_compilers
from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.machine import characterize, core_peaks, memory_peaks, peaks, processor
from spacedsl.codegen.machine.characterize import Characterization
from spacedsl.codegen.machine.memory_peaks import Bandwidth, Traffic
from spacedsl.codegen.machine.processor import Cache
from spacedsl.kernels.device import CpuDevice, load_device

READ = Traffic(0)


def bandwidth(read: float, streamed: float, plain: float) -> Bandwidth:
    """Of loads, of copies around the caches, and of stores through them."""
    return {READ: read, Traffic(0.5, True): streamed, Traffic(1): plain}


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


def both(device: CpuDevice) -> Characterization:
    """As if both measurements had given this."""
    return Characterization(device, device, device)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[CpuDevice, Path]:
    """A real measurement, in one round, and its file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setattr(core_peaks, "_ROUNDS", 1)
        patch.setattr(memory_peaks, "_MOST_ROUNDS", 1)
        patch.setattr(memory_peaks, "_LARGEST_BYTES", 1 << 26)
        activities: list[str] = []
        device = characterize.local_device(progress=activities.append)
        assert activities
        return device, characterize.device_path()


# ---- The system ----------------------------------------------------------------------------------------


def write_cache(system: Path, cpu: int, index: int, level: int, kind: str, size: str, sharers: str) -> None:
    folder = system / f"cpu{cpu}" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, text in (("level", str(level)), ("type", kind), ("size", size), ("shared_cpu_list", sharers)):
        (folder / name).write_text(text + "\n")


def test_shared_caches_count_once_and_instruction_caches_not_at_all(tmp_path: Path) -> None:
    for cpu in range(4):
        pair = "0-1" if cpu < 2 else "2-3"
        write_cache(tmp_path, cpu, 0, 1, "Data", "48K", str(cpu))
        write_cache(tmp_path, cpu, 1, 1, "Instruction", "32K", str(cpu))
        write_cache(tmp_path, cpu, 2, 2, "Unified", "1M", pair)
        write_cache(tmp_path, cpu, 3, 3, "Unified", "32768K", "0-3")
    assert processor.caches((0, 1, 2), tmp_path) == (
        Cache("L1", 48 << 10, 3 * 48 << 10),
        Cache("L2", 1 << 20, 2 << 20),
        Cache("L3", 32 << 20, 32 << 20),
    )


def test_without_a_description_of_caches_there_are_none(tmp_path: Path) -> None:
    assert processor.caches((0, 1), tmp_path) == ()


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2.0),
        ({}, None),
    ],
)
def test_a_control_group_limits_the_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], granted: float | None
) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert processor.granted_cpus(tmp_path) == granted
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 3, 1, 7})
    expected = 4 if granted is None else round(granted + 0.49)
    assert processor.usable_cpus(tmp_path) == (1, 3, 5, 7)[:expected]


def test_vectors_come_from_the_macros_of_the_compiler() -> None:
    found = processor.vectors(find_compiler())
    assert found.nbytes in (16, 32, 64)
    assert found.registers in (16, 32)


# ---- From lines to records -----------------------------------------------------------------------------

LINES = """
arithmetic f32 4 multiply 2.0
arithmetic f32 4 multiply 2.5
arithmetic f32 4 add 2.0
arithmetic f32 4 any {mixed}
chain f32 1 add 1.1
chain f32 4 add 2.2
chain f32 4 fma 4.4
window f32 1 - 80.0
window f32 1 - 100.0
load f32 16 - 3.0
load i32 16 - 4.0
store f32 16 - 1.0
"""


def test_the_best_sample_counts_and_a_margin_is_added() -> None:
    core = core_peaks.read_core(LINES.format(mixed=2.6).strip().splitlines())
    rates = {r.unit: r.instructions_per_ns for r in core.arithmetic}
    assert rates == {"multiply": 2.75, "add": 2.2, "any": 2.86}
    assert {c.op: c.latency_ns for c in core.latencies} == {"add": 1.0, "fma": 4.0}
    assert core.window == 150
    assert {(a.kind, a.dtype): a.instructions_per_ns for a in core.accesses} == {
        ("load", "f32"): 3.3,
        ("load", "i32"): 4.4,
        ("store", "f32"): 1.1,
    }


def test_units_that_work_side_by_side_are_as_fast_as_both_together() -> None:
    core = core_peaks.read_core(LINES.format(mixed=3.5).strip().splitlines())
    assert {r.unit: r.instructions_per_ns for r in core.arithmetic}["any"] == 4.95


def test_working_sets_do_not_fit_into_the_caches_inside() -> None:
    capacities = [48 << 10, 1 << 20, 32 << 20]
    sets = memory_peaks.working_sets(capacities)
    assert len(sets) == 4
    # Some sets fit into a small part of a cache that others may have filled.
    assert min(sets[2]) <= 2 * ((48 << 10) + (1 << 20))
    inner = 0
    for group, capacity in zip(sets, [*capacities, None], strict=True):
        assert all(nbytes > inner for nbytes in group)
        if capacity is not None:
            inner += capacity
            assert all(nbytes <= 1.2 * inner for nbytes in group)


def test_no_level_is_slower_than_the_one_outside_it_and_all_threads_do_what_one_does() -> None:
    caches = (Cache("L1", 1 << 15, 1 << 16), Cache("L2", 1 << 20, 1 << 20))
    one = [bandwidth(100, 90, 90), bandwidth(50, 50, 50), bandwidth(60, 70, 65)]
    every = [bandwidth(90, 200, 200), bandwidth(80, 80, 80), bandwidth(60, 60, 60)]
    l1, l2, dram = memory_peaks.levels(caches, one, every)
    assert l1.capacity_bytes == 1 << 16
    assert dram.capacity_bytes is None
    assert l1.bytes_per_ns == pytest.approx(100 * peaks.CORE_MARGIN)
    assert l1.bytes_per_ns_all >= l1.bytes_per_ns
    assert l2.bytes_per_ns == dram.bytes_per_ns == pytest.approx(60 * peaks.SHARED_MARGIN)
    streamed, plain = dram.mixtures
    assert (streamed.stored, streamed.is_streamed, plain.stored, plain.is_streamed) == (0.5, True, 1, False)
    assert streamed.bytes_per_ns_all == pytest.approx(70 * peaks.SHARED_MARGIN)
    assert plain.bytes_per_ns_all == pytest.approx(65 * peaks.SHARED_MARGIN)
    assert [m.bytes_per_ns for m in l2.mixtures] == [m.bytes_per_ns for m in dram.mixtures]
    assert (l1.core_bytes, l2.core_bytes, dram.core_bytes) == (1 << 15, 1 << 20, None)


def test_what_is_usual_has_no_margin() -> None:
    caches = (Cache("L1", 1 << 15, 1 << 16),)
    rates = [bandwidth(100, 90, 90), bandwidth(60, 70, 65)]
    l1, dram = memory_peaks.levels(caches, rates, rates, is_raised=False)
    assert (l1.bytes_per_ns, dram.bytes_per_ns_all) == (100, 60)
    assert [m.bytes_per_ns for m in dram.mixtures] == [70, 65]


def test_best_and_usual_rates_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of patterns that are the same traffic, the better counts."""
    lines = ["moved 1 4096 0.0 plain 8 3", "moved 1 4096 0.0 plain 7 5", "moved 1 4096 0.5 streamed 6 2"]
    monkeypatch.setattr(memory_peaks, "output", lambda *_: lines)
    vectors = processor.vectors(find_compiler())
    (rates,) = memory_peaks._rates(find_compiler(), vectors, [0], [[4096]], tmp_path)
    streamed = Traffic(0.5, is_streamed=True)
    assert (rates.best, rates.usual) == ({READ: 8, streamed: 6}, {READ: 5, streamed: 2})


def test_a_shared_cache_is_as_large_as_others_leave_it() -> None:
    cache = Cache("L3", 480 << 20, 480 << 20)
    sets = ((1 << 14,), (4 << 20, 16 << 20, 120 << 20, 360 << 20), (1 << 30,))
    rates = [bandwidth(r, r, r) for r in (400, 40, 38, 25, 21, 19)]
    one = memory_peaks.shared_out(sets, rates)
    assert [b[READ] for b in one.best] == [400, 40, 21], "larger sets come from memory"
    usually = memory_peaks.shared_out(sets, rates, is_usual=True)
    assert [b[READ] for b in usually.best] == [400, 40, 19], "as far as it is not kept"
    every = memory_peaks.shared_out(sets, [bandwidth(r, r, r) for r in (800, 80, 78, 60, 40, 39)])
    assert (one.full_bytes, every.full_bytes) == (120 << 20, 360 << 20)
    inner = Cache("L1", 1 << 15, 1 << 16)
    assert memory_peaks.shortened((inner, cache), one, every) == (inner, Cache("L3", 360 << 20, 360 << 20))
    disturbed = memory_peaks.shared_out(sets, [bandwidth(r, r, r) for r in (400, 40, 20, 38, 37, 19)])
    assert disturbed.full_bytes is None, "a larger set is fast, and does not belong to memory"
    assert [b[READ] for b in disturbed.best] == [400, 40, 19]
    as_said = memory_peaks.shared_out(sets, [bandwidth(r, r, r) for r in (400, 40, 38, 37, 36, 19)])
    assert as_said.full_bytes is None
    assert memory_peaks.shortened((inner, cache), as_said, as_said) == (inner, cache)


def test_rounds_are_repeated_while_they_get_better() -> None:
    first = memory_peaks.better([], [bandwidth(10, 20, 15), bandwidth(5, 5, 5)])
    assert memory_peaks.has_risen([], first)
    second = memory_peaks.better(first, [bandwidth(9, 30, 16), bandwidth(5.1, 5, 5)])
    assert second == [bandwidth(10, 30, 16), bandwidth(5.1, 5, 5)]
    assert memory_peaks.has_risen(first, second)
    assert not memory_peaks.has_risen(
        second, memory_peaks.better(second, [bandwidth(10.1, 30, 16), bandwidth(1, 1, 1)])
    )


def test_caches_are_found_by_the_steps_of_the_bandwidth() -> None:
    sizes = [1 << n for n in range(14, 24)]
    rates = [100.0, 110.0, 100.0, 60.0, 55.0, 55.0, 50.0, 20.0, 18.0, 18.0]
    assert memory_peaks.steps(sizes, rates, 2) == (
        Cache("L1", 1 << 17, 2 << 17),
        Cache("L2", 1 << 21, 2 << 21),
    )


def test_a_program_that_cannot_be_built_is_a_lack_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.c"
    broken.write_text("int main(void) { return")
    monkeypatch.setattr(core_peaks, "CORE_SOURCE", broken)
    compiler = find_compiler()
    with pytest.raises(EnvironmentLack, match=r"broken\.c"):
        core_peaks.measure_core(compiler, processor.vectors(compiler), 0, tmp_path)


# ---- This machine --------------------------------------------------------------------------------------


def test_this_machine_is_described_completely(measured: tuple[CpuDevice, Path]) -> None:
    device, path = measured
    assert device.threads == len(processor.usable_cpus())
    widths = {r.lanes for r in device.arithmetic if r.dtype == "f32"}
    assert {1, device.vector_bytes // 4} <= widths
    for dtype in ("f32", "f64", "i32"):
        units = {r.unit for r in device.arithmetic if r.dtype == dtype}
        assert {"multiply", "add", "any"} <= units
    assert {a.kind for a in device.accesses} == {"load", "store"}
    assert {c.dtype for c in device.latencies} == {"f32", "f64", "i32"}
    assert {c.op for c in device.latencies} == {"add", "fma"}
    assert device.window is not None
    assert (device.start_ns is None) == (device.threads == 1)
    assert len(device.memory) >= 3
    capacities = [level.capacity_bytes for level in device.memory]
    assert capacities[-1] is None
    assert None not in capacities[:-1]
    for level in device.memory:
        mixtures = {(round(1 / m.stored), m.is_streamed) for m in level.mixtures}
        assert mixtures == {(n, is_streamed) for n in (1, 2, 3) for is_streamed in (False, True)}
        assert level.bytes_per_ns >= max((1 - m.stored) * m.bytes_per_ns for m in level.mixtures)
    rates = [level.bytes_per_ns_all for level in device.memory]
    assert rates == sorted(rates, reverse=True)
    assert [level.name for level in device.usual_memory] == [level.name for level in device.memory]
    assert load_device(path) == device


def test_a_description_is_measured_once_and_again_when_asked_or_unreadable(
    data_folder: Path, measured: tuple[CpuDevice, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def measure(progress: object) -> Characterization:
        calls.append(progress)
        return both(measured[0])

    monkeypatch.setattr(characterize, "_measure", measure)
    monkeypatch.setattr(characterize, "machine_lock", lambda waiting: nullcontext())
    assert characterize.local_device() == characterize.local_device() == measured[0]
    assert len(calls) == 1
    path = characterize.device_path()
    assert data_folder in path.parents
    path.write_text("threads: many\n")
    assert characterize.local_device() == measured[0]
    assert len(calls) == 2
    characterize.local_device(force=True)
    assert len(calls) == 3
    assert [p.name for p in path.parent.iterdir()] == [path.name], "nothing half-written is left"


def test_a_description_that_cannot_be_kept_is_used_with_a_warning(
    tmp_path: Path, measured: tuple[CpuDevice, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(characterize, "_measure", lambda progress: both(measured[0]))
    monkeypatch.setattr(characterize, "machine_lock", lambda waiting: nullcontext())
    warnings: list[str] = []
    assert characterize.local_device(warn=warnings.append) == measured[0]
    (warning,) = warnings
    assert str(characterize.device_path()) in warning
    assert "Not a directory" in warning
    assert not characterize.raise_peaks(measured[0], 1.25)


def test_measured_again_rates_only_rise(
    data_folder: Path, measured: tuple[CpuDevice, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = measured[0]
    first, *others = device.arithmetic
    inner, *outer = device.memory
    first_mixture = inner.mixtures[0].model_copy(update={"bytes_per_ns": 1e6, "bytes_per_ns_all": 0.001})
    mixtures = inner.mixtures[1:]
    mixed = device.model_copy(
        update={
            "arithmetic": (first.model_copy(update={"instructions_per_ns": 1000.0}), *others),
            "memory": (
                inner.model_copy(update={"bytes_per_ns": 0.001, "mixtures": (first_mixture, *mixtures)}),
                *outer,
            ),
            "latencies": tuple(c.model_copy(update={"latency_ns": 9.0}) for c in device.latencies),
        }
    )
    answers = [device, mixed]
    monkeypatch.setattr(characterize, "_measure", lambda progress: both(answers.pop(0)))
    monkeypatch.setattr(characterize, "machine_lock", lambda waiting: nullcontext())
    characterize.local_device()
    again = characterize.local_device(force=True)
    assert again.arithmetic[0].instructions_per_ns == 1000.0
    assert again.arithmetic[1:] == device.arithmetic[1:]
    assert again.memory[0].bytes_per_ns == device.memory[0].bytes_per_ns
    assert again.memory[0].mixtures[0].bytes_per_ns == 1e6
    assert again.memory[0].mixtures[0].bytes_per_ns_all == inner.mixtures[0].bytes_per_ns_all
    assert again.memory[0].mixtures[1:] == mixtures
    assert again.latencies == device.latencies
    assert characterize.local_device() == again


def test_a_time_below_the_bound_raises_the_description_for_good(
    data_folder: Path, measured: tuple[CpuDevice, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(characterize, "_measure", lambda progress: both(measured[0]))
    monkeypatch.setattr(characterize, "machine_lock", lambda waiting: nullcontext())
    before = characterize.local_device()
    assert characterize.raise_peaks(before, 1.25)
    after = characterize.local_device()
    for old, new in zip(before.arithmetic + before.accesses, after.arithmetic + after.accesses, strict=True):
        assert new.instructions_per_ns == pytest.approx(1.25 * old.instructions_per_ns)
    for slow, fast in zip(before.latencies, after.latencies, strict=True):
        assert fast.latency_ns == pytest.approx(slow.latency_ns / 1.25)
    for slower, faster in zip(before.memory, after.memory, strict=True):
        assert faster.bytes_per_ns_all == pytest.approx(1.25 * slower.bytes_per_ns_all)
        assert faster.capacity_bytes == slower.capacity_bytes
        for few, many in zip(slower.mixtures, faster.mixtures, strict=True):
            assert many.bytes_per_ns == pytest.approx(1.25 * few.bytes_per_ns)
    # The factor is that of the device of the run: less than what is known already changes nothing.
    assert characterize.raise_peaks(before, 1.1)
    assert characterize.local_device() == after


def test_a_time_far_below_the_bound_or_on_another_machine_raises_nothing(
    data_folder: Path, measured: tuple[CpuDevice, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(characterize, "_measure", lambda progress: both(measured[0]))
    monkeypatch.setattr(characterize, "machine_lock", lambda waiting: nullcontext())
    here = characterize.local_device()
    assert not characterize.raise_peaks(here, 3.0)
    assert not characterize.raise_peaks(here.model_copy(update={"name": "elsewhere"}), 1.5)
    assert characterize.local_device() == here


@pytest.mark.parametrize("change", ["cpus", "processor", "compiler"])
def test_another_machine_has_another_file(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    before = characterize.device_path()
    assert characterize.device_path() == before
    match change:
        case "cpus":
            monkeypatch.setattr(processor, "usable_cpus", lambda: (0, 1, 2, 99))
        case "processor":
            monkeypatch.setattr(c_compilers, "processor", lambda: "another one")
        case _:
            other = find_compiler().__class__(("cc",), "cc 99", is_clang=False)
            monkeypatch.setattr(characterize, "find_compiler", lambda: other)
    assert characterize.device_path() != before
    assert characterize.device_path().parent == data_folder / "spacedsl" / "devices"

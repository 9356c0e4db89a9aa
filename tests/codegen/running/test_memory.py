"""What test cases take is known before they are made, and so is what the machine can give."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.running import buffers, memory
from spacedsl.codegen.running.buffers import TensorBuffer, guarded_buffer
from spacedsl.codegen.running.loaded_cases import load_cases
from spacedsl.codegen.running.memory import Room, TooLargeError, available_memory, check_memory, needed_bytes
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.devices import DEVICE
from tests.codegen.kernels import axpy, matmul, parse

DIVIDED = """
kernel: divided
backbone: linalg
sizes: {n: 3000}
cache: cold
tensors:
  x: {dtype: f64, shape: [n], strides: [2]}
  y: {dtype: f64, shape: [n], output: true}
compute:
  - y[i] = x[i] / (x[i] + 3.0)
"""
LARGE = 1 << 23


@pytest.mark.parametrize(
    ("kernel", "is_exact"),
    [(matmul(33, 50, 7), True), (axpy(LARGE), True), (parse(DIVIDED), False)],
    ids=lambda value: value.name if isinstance(value, KernelFile) else "",
)
def test_as_many_bytes_are_needed_as_are_mapped(
    kernel: KernelFile, is_exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped: list[int] = []
    map_memory = buffers._libc.mmap

    def mmap(address: None, length: int, *others: int) -> int:
        mapped.append(length)
        start: int = map_memory(address, length, *others)
        return start

    monkeypatch.setattr(buffers._libc, "mmap", mmap)
    load_cases(kernel, 0)
    for tensor in kernel.backbone.tensors:
        if tensor.is_output:
            TensorBuffer.of(tensor)
    if flush := memory.flush_bytes(kernel, DEVICE):
        guarded_buffer(flush)
    needed = needed_bytes(kernel, memory.flush_bytes(kernel, DEVICE))
    assert sum(mapped) == needed if is_exact else 0.5 * needed < sum(mapped) <= needed


def test_a_kernel_that_is_too_large_is_refused_at_its_largest_tensor_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = matmul(100_000, 200, 1000)
    room = needed_bytes(kernel, memory.flush_bytes(kernel, DEVICE))
    monkeypatch.setattr(memory, "available_memory", lambda: Room(room, "so much"))
    check_memory(kernel, memory.flush_bytes(kernel, DEVICE))
    monkeypatch.setattr(memory, "available_memory", lambda: Room(room - 1, "so much"))
    with pytest.raises(TooLargeError) as caught:
        CpuEvaluator(kernel, DEVICE).open()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span.line == kernel.text[: kernel.text.index("A:")].count("\n") + 1
    # Two cases of three tensors each, one output for the worker, each between two pages.
    data = 4 * (2 * (100_000 * 1000 + 1000 * 200 + 100_000 * 200) + 100_000 * 200)
    assert 0 <= room - data - 7 * 2 * 4096 < 7 * 4096
    for number in (f"{room:,}", f"{room - 1:,}"):
        assert number in diagnostic.message


GIB = 1 << 30


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("memory_", "memory.")).write_text(f"{text}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    write(folder, meminfo=f"MemTotal: 1 kB\nMemAvailable:   {8 * GIB >> 10} kB")
    write(folder / "self", cgroup="0::/", statm="1000 1 1")
    return folder


def test_without_limits_the_system_says_what_is_available(proc: Path, tmp_path: Path) -> None:
    assert available_memory(proc, tmp_path / "groups") == Room(8 * GIB, "MemAvailable of the system")
    assert available_memory().nbytes > 1 << 20


def test_a_control_group_and_those_around_it_limit_what_is_available(proc: Path, tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    write(proc / "self", cgroup="4:cpu:/elsewhere\n0::/outer/inner")
    write(groups / "outer", memory_max=3 * GIB, memory_current=2 * GIB, memory_stat=f"inactive_file {GIB}")
    write(groups / "outer" / "inner", memory_max="max", memory_current=GIB, memory_stat="anon 1")
    assert available_memory(proc, groups) == Room(2 * GIB, "limit of the control group")


def test_control_groups_of_version_1_limit_what_is_available(proc: Path, tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    write(proc / "self", cgroup="5:devices:/a\n4:cpu,memory:/not/seen")
    write(
        groups / "memory",
        memory_limit_in_bytes=GIB,
        memory_usage_in_bytes=2 * GIB,
        memory_stat="total_inactive_file 0",
    )
    assert available_memory(proc, groups) == Room(0, "limit of the control group")


def test_a_limit_on_the_address_space_counts(
    proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (GIB, GIB))
    found = available_memory(proc, tmp_path / "groups")
    assert found == Room(GIB - 1000 * resource.getpagesize(), "limit on the address space, `ulimit -v`")

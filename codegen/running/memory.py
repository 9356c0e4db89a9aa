"""Memory: what the test cases of a kernel take, and what this machine gives.

In: a kernel file, what displaces the caches; /proc, the control groups and limits of this process. Out:
numbers of bytes, and a diagnostic where the one is more than the other, before anything is allocated.
"""

from __future__ import annotations

import mmap
import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spacedsl.codegen.checks import checks
from spacedsl.codegen.running.buffers import mapped_bytes
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.device import CpuDevice

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


class TooLargeError(DiagnosticError):
    """Nothing is wrong with the kernel, but this machine has not the memory to check it."""


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that can still be allocated, and who says so."""

    nbytes: int
    limit: str


def check_memory(kernel: MeasurableKernel, flush: int) -> None:
    """Raises `TooLargeError`, at the largest tensor, where the test cases cannot be held.

    `flush`: bytes of the array that displaces the caches.
    """
    needed, room = needed_bytes(kernel, flush), available_memory()
    if needed <= room.nbytes:
        return
    largest = max(kernel.tensors, key=lambda t: t.nbytes)
    calls = checks(kernel).most_cases(kernel)
    message = (
        f"this machine is too small for the kernel: its {calls} test cases, outputs and guard pages take "
        f"{needed:,} bytes, and {room.nbytes:,} bytes are left ({room.limit})"
    )
    place = checks(kernel).declared(kernel, largest)
    raise TooLargeError([Diagnostic("KF046", message, place, "smaller sizes, or more memory")])


def needed_bytes(kernel: MeasurableKernel, flush: int) -> int:
    """Of all test cases and what makes them, the outputs of a worker and the array that flushes caches.

    With guard pages. Never too little; too much by the results of test cases that turn out not to be exact.
    """
    tensors, known = kernel.tensors, checks(kernel)
    cases = known.most_cases(kernel) * sum(mapped_bytes(t.nbytes) for t in tensors)
    outputs = sum(mapped_bytes(t.nbytes) for t in tensors if t.is_output)
    flushed = mapped_bytes(flush) if flush else 0
    return cases + known.making_bytes(kernel) + outputs + scratch_bytes(kernel) + flushed


def scratch_bytes(kernel: MeasurableKernel) -> int:
    """Of what every implementation allocates for itself, with room for its alignment."""
    return sum(mapped_bytes(t.nbytes) + (2 << 20) for t in checks(kernel).own_arrays(kernel))


def flush_bytes(kernel: MeasurableKernel, device: CpuDevice) -> int:
    """Of an array whose reading displaces the caches before each sample; 0 for warm runs."""
    caches = sum(level.capacity_bytes or 0 for level in device.memory)
    return 2 * caches if kernel.cache == "cold" else 0


def available_memory(proc: Path = _PROC, groups: Path = _GROUPS) -> Room:
    """The least of what the system, the control groups and the limit on the address space leave."""
    return min(_rooms(proc, groups), key=lambda room: room.nbytes)


def _rooms(proc: Path, groups: Path) -> Iterator[Room]:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", (proc / "meminfo").read_text(), re.MULTILINE)
    if match:
        yield Room(int(match[1]) << 10, "MemAvailable of the system")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        used = int((proc / "self" / "statm").read_text().split()[0]) * mmap.PAGESIZE
        yield Room(max(0, limit - used), "limit on the address space, `ulimit -v`")
    for line in (proc / "self" / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _of_groups(groups, path, _VERSION_2)
        elif "memory" in controllers.split(","):
            yield from _of_groups(groups / "memory", path, _VERSION_1)


_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _of_groups(root: Path, path: str, names: tuple[str, str, str]) -> Iterator[Room]:
    """A group and those that it lies in, each with a limit of its own. Cached files give way."""
    limit_name, used_name, cached_name = names
    group = root / path.lstrip("/")
    while group.is_relative_to(root):
        try:
            limit, used = ((group / name).read_text().strip() for name in (limit_name, used_name))
            cached = re.search(rf"^{cached_name} (\d+)", (group / "memory.stat").read_text(), re.MULTILINE)
        except OSError:
            pass  # A container may not see the groups around it.
        else:
            if limit != "max":
                left = int(limit) - int(used) + (int(cached[1]) if cached else 0)
                yield Room(max(0, left), "limit of the control group")
        group = group.parent

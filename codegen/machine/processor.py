"""What the operating system and the compiler say about this machine's processor; nothing is measured.

In: /proc, /sys, the process's affinity and control group, the compiler's macros. Out: which CPUs may be
used, the caches that they share, the widest vectors.
"""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spacedsl.codegen.c.build import Compiler
from spacedsl.codegen.lack import EnvironmentLack

_SYSTEM = Path("/sys/devices/system/cpu")
_GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Cache:
    """One level of cache: bytes that one CPU of those in use can fill, and all of them together."""

    name: str
    one_cpu_bytes: int
    all_cpus_bytes: int


@dataclass(frozen=True, slots=True)
class Vectors:
    nbytes: int
    registers: int


def usable_cpus(groups: Path = _GROUPS) -> tuple[int, ...]:
    """The CPUs of the process's affinity, no more than its control group grants time for."""
    allowed = sorted(os.sched_getaffinity(0))
    granted = granted_cpus(groups)
    return tuple(allowed if granted is None else allowed[: max(1, math.ceil(granted))])


def granted_cpus(groups: Path = _GROUPS) -> float | None:
    """CPU time per time that the control group grants, in the words of its version 2 or 1; None: no limit."""
    version_1 = "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"
    for names in (("cpu.max",), version_1):
        try:
            words = [word for name in names for word in (groups / name).read_text().split()]
        except OSError:
            continue
        return None if words[0] in ("max", "-1") else int(words[0]) / int(words[1])
    return None


def model_name() -> str:
    """The processor's name for itself, else its architecture."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = match.group(1) if match else platform.processor() or platform.machine()
    return " ".join(re.sub(r"\((R|TM)\)|\bCPU\b|@.*", "", name).split())


def caches(cpus: Sequence[int], system: Path = _SYSTEM) -> tuple[Cache, ...]:
    """The data caches that the CPUs use, inner to outer, each shared one counted once; empty: not known."""
    found: dict[int, dict[str, int]] = {}
    of_one: dict[int, int] = {}
    for cpu in cpus:
        for folder in sorted((system / f"cpu{cpu}" / "cache").glob("index*")):
            try:
                level, kind, size, sharers = (
                    (folder / name).read_text().strip()
                    for name in ("level", "type", "size", "shared_cpu_list")
                )
            except OSError:
                continue
            nbytes = _size(size)
            if kind == "Instruction" or nbytes is None:
                continue
            found.setdefault(int(level), {})[sharers] = nbytes
            of_one[int(level)] = max(of_one.get(int(level), 0), nbytes)
    return tuple(Cache(f"L{n}", of_one[n], sum(found[n].values())) for n in sorted(found))


def _size(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if match is None or match.group(1) == "0":
        return None
    return int(match.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[match.group(2)]


_VECTORS = (
    ("__AVX512F__", Vectors(64, 32)),
    ("__AVX__", Vectors(32, 16)),
    ("__SSE2__", Vectors(16, 16)),
    ("__ARM_NEON", Vectors(16, 32)),
)


def vectors(compiler: Compiler) -> Vectors:
    """The widest vectors that the compiler uses for this machine; raises `EnvironmentLack`."""
    command = [*compiler.command, *compiler.flags, "-dM", "-E", "-x", "c", os.devnull]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise EnvironmentLack("the C compiler does not answer") from None
    macros = {line.split()[1] for line in answer.stdout.splitlines() if line.startswith("#define ")}
    for macro, found in _VECTORS:
        if macro in macros:
            return found
    raise EnvironmentLack(
        f"no vectors are known on this processor ({platform.machine()}): x86-64 and AArch64 are"
    )

"""The description of this machine: measured once, kept in the user's data folder.

In: this machine and its compiler. Out: a `CpuDevice`. It is measured again when the processor, the CPUs that
may be used, the compiler or the measuring itself has changed, since each of them has a file of its own.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from ruamel.yaml import YAML

from spacedsl import c_compilers
from spacedsl.codegen.c.build import Compiler, find_compiler
from spacedsl.codegen.c.printer import POOL
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.machine import processor
from spacedsl.codegen.machine.core_peaks import CORE_SOURCE, WINDOW_MARGIN, measure_core
from spacedsl.codegen.machine.memory_peaks import MEMORY_SOURCE, measure_memory, probed_caches
from spacedsl.codegen.machine.peaks import CORE_MARGIN, SHARED_MARGIN
from spacedsl.codegen.machine.start_peaks import START_SOURCE, measure_start
from spacedsl.codegen.scratch import scratch_folder
from spacedsl.diagnostics import DiagnosticError
from spacedsl.files import replace_text
from spacedsl.kernels.device import CpuDevice, MemoryLevel, load_device

_HEADER = f"""\
Measured here by `spacedsl device characterize`. Rates are the best of many samples and raised by a margin
({CORE_MARGIN} for one core, {SHARED_MARGIN} for what cores share): no bound is above what is possible.
What memory usually does stands beside them, as it was when this was measured last."""

MOST_RAISED = 2.0
"""A machine that others kept busy while it was measured may be so many times as fast as its description."""

_BYTE_RATES = ("bytes_per_ns", "bytes_per_ns_all")


def _ignore(words: str) -> None:
    pass


def local_device(
    force: bool = False, progress: Callable[[str], None] = _ignore, warn: Callable[[str], None] = _ignore
) -> CpuDevice:
    """This machine's description, measured where there is none yet, or in any case if `force`.

    Measuring takes some seconds; measured again, rates only rise. A description that cannot be kept is good
    all the same, and `warn` hears of it. Raises `EnvironmentLack` without a compiler, or on a processor whose
    vectors are not known.
    """
    known = _known(device_path())
    return known if known is not None and not force else characterize(progress, warn).device


@dataclass(frozen=True, slots=True)
class Characterization:
    """A description, and the two measurements of this time that went into it."""

    device: CpuDevice
    first: CpuDevice
    second: CpuDevice


def characterize(
    progress: Callable[[str], None] = _ignore, warn: Callable[[str], None] = _ignore
) -> Characterization:
    """Measures this machine, twice, in less than 20 s; as `local_device`."""
    path = device_path()
    known = _known(path)
    with machine_lock(waiting=lambda: progress("waiting for another process that builds or measures here")):
        measured = _measure(progress)
    device = measured.device if known is None else faster(measured.device, known)
    try:
        write_description(device, path, _HEADER)
    except OSError as error:
        warn(
            f"the description of this machine is used but not kept, since {path} cannot be written "
            f"({error.strerror or error}): set XDG_DATA_HOME to a folder that can"
        )
    return Characterization(device, measured.first, measured.second)


def _known(path: Path) -> CpuDevice | None:
    """The description that is there; None where none can be read, or one that another version wrote."""
    try:
        return load_device(path)
    except (OSError, DiagnosticError):
        return None


def faster(device: CpuDevice, other: CpuDevice) -> CpuDevice:
    """The better of each two rates: what this machine has done once it can do again.

    Rates that `other` lacks stay as they are, and so does what is usual.
    """
    arithmetic = {(r.dtype, r.lanes, r.unit): r for r in other.arithmetic}
    accesses = {(a.kind, a.dtype, a.nbytes): a for a in other.accesses}
    latencies = {(c.dtype, c.op): c for c in other.latencies}
    memory = {level.name: level for level in other.memory}
    return device.model_copy(
        update={
            "arithmetic": tuple(
                max(r, arithmetic.get((r.dtype, r.lanes, r.unit), r), key=lambda r: r.instructions_per_ns)
                for r in device.arithmetic
            ),
            "accesses": tuple(
                max(a, accesses.get((a.kind, a.dtype, a.nbytes), a), key=lambda a: a.instructions_per_ns)
                for a in device.accesses
            ),
            "latencies": tuple(
                min(c, latencies.get((c.dtype, c.op), c), key=lambda c: c.latency_ns)
                for c in device.latencies
            ),
            "window": max(device.window, other.window) if device.window and other.window else None,
            "start_ns": min(device.start_ns, other.start_ns) if device.start_ns and other.start_ns else None,
            "memory": tuple(_faster_level(level, memory.get(level.name, level)) for level in device.memory),
        }
    )


def raise_peaks(device: CpuDevice, factor: float) -> bool:
    """Raises this machine's description to `factor` times the rates of `device`, which a bound used in vain.

    False, and nothing is done, where this is another machine, the description cannot be written, or the
    factor is too large to be noise of a measurement: then the bound itself is wrong, and no peak should hide
    it.
    """
    path = device_path()
    known = _known(path)
    if known is None or known.name != device.name or factor > MOST_RAISED:
        return False
    try:
        write_description(faster(_times(device, factor), known), path, _HEADER)
    except OSError:
        return False
    return True


def _times(device: CpuDevice, factor: float) -> CpuDevice:
    """All rates so many times as high."""

    def raised(model: BaseModel, *names: str) -> dict[str, float | None]:
        rates = {name: getattr(model, name) for name in names}
        return {name: rate if rate is None else rate * factor for name, rate in rates.items()}

    return device.model_copy(
        update={
            "arithmetic": tuple(
                r.model_copy(update=raised(r, "instructions_per_ns")) for r in device.arithmetic
            ),
            "accesses": tuple(a.model_copy(update=raised(a, "instructions_per_ns")) for a in device.accesses),
            "latencies": tuple(
                c.model_copy(update={"latency_ns": c.latency_ns / factor}) for c in device.latencies
            ),
            "memory": tuple(
                level.model_copy(
                    update={
                        **raised(level, *_BYTE_RATES),
                        "mixtures": tuple(
                            m.model_copy(update=raised(m, *_BYTE_RATES)) for m in level.mixtures
                        ),
                    }
                )
                for level in device.memory
            ),
            "start_ns": device.start_ns / factor if device.start_ns else None,
        }
    )


def _faster_level(level: MemoryLevel, other: MemoryLevel) -> MemoryLevel:
    """And the larger one: how much of a shared cache others leave changes from one moment to the next."""
    mixtures = {(m.stored, m.is_streamed): m for m in other.mixtures}
    return level.model_copy(
        update={
            **_greater(level, other, *_BYTE_RATES, "capacity_bytes", "core_bytes"),
            "mixtures": tuple(
                m.model_copy(update=_greater(m, mixtures.get((m.stored, m.is_streamed), m), *_BYTE_RATES))
                for m in level.mixtures
            ),
        }
    )


def _greater(one: BaseModel, other: BaseModel, *names: str) -> dict[str, float | None]:
    """The greater of each two figures; None where neither is known."""
    return {name: max(getattr(one, name) or 0, getattr(other, name) or 0) or None for name in names}


def devices_folder() -> Path:
    """Where descriptions that were measured here lie."""
    root = os.environ.get("XDG_DATA_HOME")
    return (Path(root) if root else Path.home() / ".local" / "share") / "spacedsl" / "devices"


def device_path() -> Path:
    """Where this machine's description lies, or will lie."""
    return devices_folder() / f"{_key()}.yaml"


def _key() -> str:
    """Equal for equal processors, CPUs in use, compilers, flags and measuring programs."""
    parts = [c_compilers.processor(), repr(processor.usable_cpus()), find_compiler().digest]
    parts += [
        source.read_text(encoding="utf-8") for source in (CORE_SOURCE, MEMORY_SOURCE, START_SOURCE, POOL)
    ]
    parts += [repr((CORE_MARGIN, SHARED_MARGIN, WINDOW_MARGIN))]
    slug = re.sub(r"[^a-z0-9]+", "-", processor.model_name().lower()).strip("-")
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{slug}-{digest[:12]}"


def _measure(progress: Callable[[str], None]) -> Characterization:
    """Twice, at different moments."""
    compiler, cpus = find_compiler(), processor.usable_cpus()
    with scratch_folder() as folder:
        first = _pass(compiler, cpus, folder, progress)
        second = _pass(compiler, cpus, folder, lambda activity: progress(f"{activity}, once more"))
    return Characterization(faster(first, second), first, second)


def _pass(
    compiler: Compiler, cpus: Sequence[int], folder: Path, progress: Callable[[str], None]
) -> CpuDevice:
    vectors = processor.vectors(compiler)
    progress("measuring the arithmetic of one core")
    core = measure_core(compiler, vectors, cpus[0], folder)
    caches = processor.caches(cpus)
    if not caches:
        progress("looking for the sizes of caches")
        caches = probed_caches(compiler, vectors, cpus, folder)
    progress("measuring caches and memory")
    memory = measure_memory(compiler, vectors, cpus, caches, folder)
    return CpuDevice(
        name=_key(),
        threads=len(cpus),
        vector_bytes=vectors.nbytes,
        vector_registers=vectors.registers,
        arithmetic=core.arithmetic,
        memory=memory.best,
        usual_memory=memory.usual,
        accesses=core.accesses,
        latencies=core.latencies,
        window=core.window,
        start_ns=measure_start(compiler, vectors, cpus, folder),
        compiler=compiler.version,
    )


def write_description(device: BaseModel, path: Path, header: str) -> None:
    """Whole or not at all: another process may read at the same time. An `OSError` names the file."""
    yaml = YAML()
    yaml.default_flow_style = None
    yaml.width = 160
    text = io.StringIO()
    text.write("".join(f"# {line}\n" for line in header.splitlines()))
    yaml.dump(device.model_dump(mode="json"), text)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text.getvalue())

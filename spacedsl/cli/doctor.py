"""`doctor`: what is installed, what can run here, how steady the machine is, what to do about each lack."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path

from spacedsl.cli.console import Console
from spacedsl.cli.faults import ExitCode
from spacedsl.cli.options import Json, Quiet, Verbose
from spacedsl.commands import command

GOVERNORS = Path("/sys/devices/system/cpu")
LITTLE_DISK_BYTES = 1 << 30
NOISY = 0.05
"""Relative spread of a fixed computation above which small differences between implementations are lost."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `state`: `ok`, `note` (works, could be better) or `lack` (cannot work)."""

    subject: str
    state: str
    detail: str
    remedy: str | None = None


def doctor(json: Json = False, verbose: Verbose = False, quiet: Quiet = False) -> ExitCode:
    """Say what is installed and what can run here, and what to do about each lack."""
    console = Console.of(verbose=verbose, quiet=quiet)
    findings = tuple(examine())
    is_able = all(finding.state != "lack" for finding in findings)
    if json:
        console.document({"schema": 1, "ok": is_able, "findings": [asdict(f) for f in findings]})
    else:
        for finding in findings:
            console.data(f"{finding.state:5} {finding.subject:10} {finding.detail}")
            if finding.remedy is not None:
                console.data(f"{'':16} -> {finding.remedy}")
    return ExitCode.OK if is_able else ExitCode.ENVIRONMENT


def examine() -> Iterator[Finding]:
    yield Finding("spacedsl", "ok", f"{metadata.version('spacedsl')} in {Path(__file__).parents[1]}")
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield _compiler()
    yield _device()
    yield _cuda()
    yield _clocks()
    yield _noise()
    yield _temporary()
    yield _disk(Path.cwd())
    yield _pandas()


def _compiler() -> Finding:
    from spacedsl.codegen.c.build import find_compiler
    from spacedsl.codegen.lack import EnvironmentLack

    try:
        found = find_compiler()
    except EnvironmentLack as error:
        return Finding("compiler", "lack", str(error), "gcc, clang, or: pip install 'spacedsl[zig]'")
    return Finding("compiler", "ok", f"{' '.join(found.command)}: {found.version}")


def _device() -> Finding:
    from spacedsl.codegen.lack import EnvironmentLack
    from spacedsl.codegen.machine.characterize import device_path
    from spacedsl.codegen.machine.processor import model_name, usable_cpus

    machine = f"{model_name()}, {len(usable_cpus())} threads"
    try:
        path = device_path()
    except EnvironmentLack:
        return Finding("device", "note", f"{machine}, not measured: this needs a compiler")
    if os.access(path, os.R_OK):
        return Finding("device", "ok", f"{machine}, described in {path}")
    if not _is_writable(path.parent):
        detail = f"{machine}, measured anew by every exploration: {path.parent} cannot be written"
        return Finding("device", "note", detail, "set XDG_DATA_HOME to a folder that can")
    detail = f"{machine}, not measured yet: the first exploration does it"
    return Finding("device", "note", detail, command("device", "characterize"))


def _cuda() -> Finding:
    from spacedsl.codegen.cuda.nvrtc import version
    from spacedsl.codegen.lack import EnvironmentLack

    try:
        found = version()
    except EnvironmentLack:
        return Finding("cuda", "note", "no code can be made for GPUs", "pip install 'spacedsl[cuda]'")
    return Finding("cuda", "ok", f"{found}; code for GPUs is checked on the CPU, its times are predicted")


def _is_writable(folder: Path) -> bool:
    """Whether files can be made there, the folder itself included where it does not exist."""
    nearest = next(f for f in (folder, *folder.parents) if os.path.lexists(f))
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _clocks() -> Finding:
    governors = {path.read_text().strip() for path in GOVERNORS.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    if not governors:
        return Finding("clocks", "note", "the system does not say how it sets clock frequencies")
    if governors == {"performance"}:
        return Finding("clocks", "ok", "governor performance")
    remedy = "cpupower frequency-set -g performance makes times steadier"
    return Finding("clocks", "note", f"governor {', '.join(sorted(governors))}", remedy)


def _noise() -> Finding:
    """The spread of one computation's time: from the 5th to the 95th percentile, halved, over the median."""
    samples = []
    for _ in range(200):
        start = time.perf_counter_ns()
        sum(range(20_000))
        samples.append(time.perf_counter_ns() - start)
    cuts = statistics.quantiles(samples, n=20)
    spread = (cuts[-1] - cuts[0]) / 2 / statistics.median(samples)
    load = os.getloadavg()[0]
    detail = f"one computation varies by {100 * spread:.1f} %; load average {load:.1f}"
    if spread < NOISY:
        return Finding("noise", "ok", detail)
    return Finding(
        "noise", "note", detail, "end what else runs here: small differences between programs are lost"
    )


def _temporary() -> Finding:
    from spacedsl.codegen.lack import EnvironmentLack
    from spacedsl.codegen.scratch import scratch_folder

    try:
        with scratch_folder() as folder:
            return Finding("temporary", "ok", f"files are built in {folder.parent}")
    except EnvironmentLack as error:
        return Finding("temporary", "lack", str(error))


def _disk(folder: Path) -> Finding:
    if not os.access(folder, os.W_OK):
        return Finding(
            "disk", "note", f"{folder} is not writable: no run can be kept there", "use --runs FOLDER"
        )
    free = shutil.disk_usage(folder).free
    state = "note" if free < LITTLE_DISK_BYTES else "ok"
    return Finding("disk", state, f"{free / 1e9:.1f} GB free for runs in {folder}")


def _pandas() -> Finding:
    if util.find_spec("pandas") is None:
        return Finding("pandas", "note", "Result.to_pandas() needs it", "pip install 'spacedsl[pandas]'")
    return Finding("pandas", "ok", metadata.version("pandas"))

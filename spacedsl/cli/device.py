"""`device list`, `show` and `characterize`: the machines that bounds and spaces know about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode
from spacedsl.cli.options import Json, Quiet, Verbose
from spacedsl.commands import command

if TYPE_CHECKING:
    from spacedsl.kernels.device import CpuDevice


def list_devices(json: Json = False, verbose: Verbose = False, quiet: Quiet = False) -> ExitCode:
    """List the descriptions that are shipped and those measured on this machine."""
    from spacedsl.api import device_files, load_device

    console = Console.of(verbose=verbose, quiet=quiet)
    found = [(load_device(path), path) for path in device_files()]
    if json:
        rows = [{"name": device.name, "kind": device.kind, "path": str(path)} for device, path in found]
        console.document({"schema": 1, "devices": rows})
        return ExitCode.OK
    for device, path in found:
        console.data(f"{device.name}  ({device.kind}, {device.threads} threads)  {path}")
    if not found:
        console.say(f"no description yet: `{command('device', 'characterize')}` measures this machine")
    return ExitCode.OK


def show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|FILE]", help="A device of `device list`; this machine by default."),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Show one description: threads, vectors, arithmetic rates, memory levels."""
    console = Console.of(verbose=verbose, quiet=quiet)
    _present(console, _named(name, console), json=json)
    return ExitCode.OK


def characterize(json: Json = False, verbose: Verbose = False, quiet: Quiet = False) -> ExitCode:
    """Measure this machine again: arithmetic peaks and the bandwidths of its memory levels."""
    from spacedsl.api import local_device

    console = Console.of(verbose=verbose, quiet=quiet)
    _present(console, local_device(force=True, progress=console.say, warn=console.warn), json=json)
    return ExitCode.OK


def _named(name: str | None, console: Console) -> CpuDevice:
    from spacedsl.api import device_files, load_device, local_device

    if name is None:
        return local_device(progress=console.say, warn=console.warn)
    if Path(name).suffix in {".yaml", ".yml"}:
        return load_device(Path(name))
    known = {device.name: device for device in map(load_device, device_files())}
    if name not in known:
        raise CommandError(f"no device is called `{name}`", hint=f"known: {', '.join(known) or 'none'}")
    return known[name]


def _present(console: Console, device: CpuDevice, *, json: bool) -> None:
    if json:
        console.document({"schema": 1, "device": device.model_dump(mode="json")})
        return
    console.data("\n".join(described(device)))


def described(device: CpuDevice) -> Iterator[str]:
    """The description, a kind of instruction or a level of memory a line."""
    yield (
        f"{device.name}: {device.threads} threads, vectors of {device.vector_bytes} bytes "
        f"in {device.vector_registers} registers"
    )
    if device.compiler:
        yield f"rates are those of {device.compiler}"
    yield "one thread, instructions/ns"
    yield from _rows((f"{r.dtype} x {r.lanes}", r.unit, r.instructions_per_ns) for r in device.arithmetic)
    yield from _rows((f"{a.nbytes} bytes", a.kind, a.instructions_per_ns) for a in device.accesses)
    if device.latencies:
        yield "from one accumulation to the next"
        yield from _rows((latency.dtype, "ns", latency.latency_ns) for latency in device.latencies)
    yield "memory"
    for level in device.memory:
        room = "" if level.capacity_bytes is None else f"   {level.capacity_bytes / 1024:,.0f} KiB"
        one, every = level.bytes_per_ns, level.bytes_per_ns_all
        yield f"  {level.name:10} one thread {one:.1f} GB/s   all {every:.1f} GB/s{room}"


def _rows(figures: Iterable[tuple[str, str, float]]) -> Iterator[str]:
    """A line for each row name, with all its figures."""
    rows: dict[str, list[str]] = {}
    for row, column, value in figures:
        rows.setdefault(row, []).append(f"{column} {value:.2f}")
    for row, cells in rows.items():
        yield f"  {row:10} " + "   ".join(cells)

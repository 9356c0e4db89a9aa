"""`device list`, `show` and `characterize`: the machines that bounds and spaces know about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode
from spacedsl.cli.options import Json, Quiet, Verbose
from spacedsl.commands import command

if TYPE_CHECKING:
    from spacedsl.api.characterizing import GpuCharacterization
    from spacedsl.kernels.device import CpuDevice, Device, MemoryLevel, Mixture
    from spacedsl.kernels.gpu_device import GpuDevice


def list_devices(json: Json = False, verbose: Verbose = False, quiet: Quiet = False) -> ExitCode:
    """List the descriptions that are shipped and those measured on this machine."""
    console = Console.of(verbose=verbose, quiet=quiet)
    found = _readable(console)
    if json:
        rows = [{"name": device.name, "kind": device.kind, "path": str(path)} for device, path in found]
        console.document({"schema": 1, "devices": rows})
        return ExitCode.OK
    for device, path in found:
        units = f"{device.threads} threads" if device.kind == "cpu" else f"{device.sms} SMs"
        console.data(f"{device.name}  ({device.kind}, {units})  {path}")
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


UNSTABLE = 0.05
"""Figures that differ by more between two measurements are shown."""


def characterize(
    target: Annotated[
        str, typer.Option("--target", metavar="cpu|cuda", help="What is measured: the CPU, or a GPU.")
    ] = "cpu",
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME|FILE", help="The description that a GPU is compared with."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Its description, with what was better."),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Measure this machine again, twice: arithmetic, loads and stores, caches, memory, threads.

    Of a GPU (--target cuda): latencies, what each level of memory gives, what a launch costs.
    """
    from spacedsl.api import characterize as measure

    console = Console.of(verbose=verbose, quiet=quiet)
    if target not in ("cpu", "cuda"):
        raise CommandError(f"no target is called `{target}`", hint="known: cpu, cuda")
    if target == "cuda":
        return _characterize_gpu(console, device, output, json=json)
    if device is not None or output is not None:
        raise CommandError("the description of a CPU is always this one's", hint="--target cuda: a GPU's")
    found = measure(progress=console.say, warn=console.warn)
    figures = list(both(found.first, found.second))
    if json:
        rows = [{"figure": f.name, "first": f.first, "second": f.second} for f in figures]
        document = {"schema": 1, "device": found.device.model_dump(mode="json"), "measured": rows}
        console.document(document)
        return ExitCode.OK
    shown = figures if verbose else [f for f in figures if f.difference > UNSTABLE]
    console.data("\n".join((*described(found.device), *_stability(figures, shown))))
    return ExitCode.OK


def _characterize_gpu(console: Console, name: str | None, output: Path | None, *, json: bool) -> ExitCode:
    from spacedsl.api import characterize_gpu, write_description

    found = characterize_gpu(name, console.say)
    _say_gpu(console, found, json=json)
    if output is not None:
        # Last: nothing that was measured is lost where it cannot be written.
        header = (
            f"{found.described.name}, where {found.name} was better as measured: the least latencies, the "
        )
        write_description(found.improved, output, f"{header}greatest rates.")
        console.say(f"{output}: written")
    return ExitCode.OK


def _say_gpu(console: Console, found: GpuCharacterization, *, json: bool) -> None:
    if json:
        rows = [
            {"figure": f.name, "described": f.described, "measured": f.measured, "is_better": f.is_better}
            for f in found.figures
        ]
        console.document(
            {"schema": 1, "device": found.name, "described": found.described.name, "measured": rows}
        )
        return
    console.data(f"{found.name} beside the description of {found.described.name}")
    console.data(f"  {'':24} {'described':>12} {'measured':>12}")
    for f in found.figures:
        better = "  better than its description: bounds are too high" if f.is_better else ""
        console.data(f"  {f.name:24} {f.described:12.4g} {f.measured:12.4g}{better}")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that was measured twice."""

    name: str
    first: float
    second: float

    @property
    def difference(self) -> float:
        """As a share of the smaller one."""
        return abs(self.first - self.second) / min(self.first, self.second)


def both(first: CpuDevice, second: CpuDevice) -> Iterator[Figure]:
    """All figures of two measurements, where both have them."""
    other = dict(_figures(second))
    for name, value in _figures(first):
        if value is not None and (again := other.get(name)) is not None:
            yield Figure(name, value, again)


def _figures(device: CpuDevice) -> Iterator[tuple[str, float | None]]:
    for r in device.arithmetic:
        yield f"{r.unit}, {r.dtype} x {r.lanes}, instructions/ns", r.instructions_per_ns
    for a in device.accesses:
        yield f"{a.kind}, {a.nbytes} bytes of {a.dtype}, instructions/ns", a.instructions_per_ns
    for c in device.latencies:
        yield f"latency of {c.op}, {c.dtype}, ns", c.latency_ns
    yield "window of a core, accumulations", device.window
    yield "start of a parallel loop, ns", device.start_ns
    for level in device.memory:
        named: list[tuple[str, MemoryLevel | Mixture]] = [("loads", level)]
        named += [(_mixture(m), m) for m in level.mixtures]
        for what, rates in named:
            yield f"{level.name}, {what}, one thread, GB/s", rates.bytes_per_ns
            yield f"{level.name}, {what}, all threads, GB/s", rates.bytes_per_ns_all


def _mixture(mixture: Mixture) -> str:
    way = ", streamed" if mixture.is_streamed else ""
    return f"{100 * mixture.stored:.0f} % stored{way}"


def _stability(figures: Sequence[Figure], shown: Sequence[Figure]) -> Iterator[str]:
    count = sum(f.difference > UNSTABLE for f in figures)
    yield (
        f"measured twice: of {len(figures)} figures, {count} differ by more than {100 * UNSTABLE:g} %"
        + (", the largest of them first" if shown else "")
    )
    if shown:
        yield f"  {'':56} {'first':>10} {'second':>10} difference"
    for f in sorted(shown, key=lambda f: -f.difference):
        yield f"  {f.name:56} {f.first:10.4g} {f.second:10.4g} {100 * f.difference:8.1f} %"


def _named(name: str | None, console: Console) -> Device:
    from spacedsl.api import load_any_device, local_device
    from spacedsl.kernels.validation import closest

    if name is None:
        return local_device(progress=console.say, warn=console.warn)
    if Path(name).suffix in {".yaml", ".yml"}:
        return load_any_device(Path(name))
    found = _readable(console)
    known = {device.name: device for device, _ in found}
    known |= {path.stem: device for device, path in found if device.kind == "gpu"}
    if name not in known:
        hint = closest(name, known) or f"known: {', '.join(known) or 'none'}"
        raise CommandError(f"no device is called `{name}`", hint=hint)
    return known[name]


def _readable(console: Console) -> list[tuple[Device, Path]]:
    """The descriptions that this program can read; a warning for each of the others."""
    from spacedsl.api import device_files, load_any_device
    from spacedsl.diagnostics import DiagnosticError, counted

    found: list[tuple[Device, Path]] = []
    for path in device_files():
        try:
            found.append((load_any_device(path), path))
        except (DiagnosticError, OSError) as error:
            shown = f"`{command('device', 'show', path)}` says why"
            count = ""
            if isinstance(error, DiagnosticError):
                count = f", with {counted(len(error.diagnostics), 'diagnostic')}"
            console.warn(f"{path} is passed over{count}: {shown}")
    return found


def _present(console: Console, device: Device, *, json: bool) -> None:
    if json:
        console.document({"schema": 1, "device": device.model_dump(mode="json")})
        return
    console.data("\n".join(described(device) if device.kind == "cpu" else described_gpu(device)))


def described_gpu(device: GpuDevice) -> Iterator[str]:
    """The description, a kind of limit or rate a line."""
    peak = 2 * device.throughput.f32 * device.sms * device.clock_ghz / 1000
    yield (
        f"{device.name}: {device.sms} SMs of compute capability {device.compute_capability} at "
        f"{device.clock_ghz:g} GHz, {peak:.1f} TFLOP/s of f32"
    )
    yield (
        f"a block has up to {device.threads_per_block} threads of {device.registers_per_thread} registers, "
        f"and {device.shared_bytes_per_block // 1024} KiB of shared memory"
    )
    yield (
        f"an SM has room for {device.threads_per_sm} threads in {device.blocks_per_sm} blocks, "
        f"{device.registers_per_sm} registers, {device.shared_bytes_per_sm // 1024} KiB of shared memory"
    )
    yield f"an SM issues {device.instructions_per_cycle:g} instructions of warps in a cycle; threads a cycle"
    yield from _rows(("", kind, float(rate)) for kind, rate in device.throughput)
    yield "cycles from an instruction to the next one that needs its result"
    yield from _rows(("", kind, float(cycles)) for kind, cycles in device.latency)
    yield "memory"
    yield f"  shared          {device.shared_bytes_per_cycle:g} bytes/cycle of an SM"
    yield f"  L1              {device.l1_bytes_per_cycle:g} bytes/cycle of an SM"
    yield f"  L2              {device.l2_bytes_per_ns:g} GB/s   {device.l2_bytes / 1024:,.0f} KiB"
    yield f"  DRAM            {device.dram_bytes_per_ns:g} GB/s   {device.dram_bytes / 2**30:,.0f} GiB"
    yield f"a kernel that does nothing takes at least {device.launch_ns:g} ns"


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
    accesses = sorted(device.accesses, key=lambda a: (a.dtype or "", a.nbytes))
    yield from _rows(
        (f"{a.dtype}, {a.nbytes} bytes" if a.dtype else f"{a.nbytes} bytes", a.kind, a.instructions_per_ns)
        for a in accesses
    )
    if device.latencies:
        yield "from one accumulation to the next, ns"
        yield from _rows((c.dtype, c.op, c.latency_ns) for c in device.latencies)
    if device.window is not None:
        yield f"a core looks beyond at most {device.window} accumulations that wait for each other"
    if device.start_ns is not None:
        yield f"a parallel loop takes at least {device.start_ns:g} ns to start and to end"
    yield "memory"
    yield from map(_level, device.memory)
    if device.usual_memory:
        yield "memory, usually"
        yield from map(_level, device.usual_memory)


def _level(level: MemoryLevel) -> str:
    room = "" if level.capacity_bytes is None else f"   {level.capacity_bytes / 1024:,.0f} KiB"
    one, every = level.bytes_per_ns, level.bytes_per_ns_all
    return f"  {level.name:15} one thread {one:.1f} GB/s   all {every:.1f} GB/s{room}"


def _rows(figures: Iterable[tuple[str, str, float]]) -> Iterator[str]:
    """A line for each row name, with all its figures."""
    rows: dict[str, list[str]] = {}
    for row, column, value in figures:
        rows.setdefault(row, []).append(f"{column} {value:.2f}")
    for row, cells in rows.items():
        yield f"  {row:15} " + "   ".join(cells)

"""`stats`: what a space is like on a kernel: implementations, open decisions, dead ends, random descents."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.faults import ExitCode
from spacedsl.cli.options import (
    AnyKernel,
    DeviceFile,
    Json,
    Quiet,
    Sizes,
    SpaceFile,
    Target,
    Verbose,
    parse_duration,
    parse_sizes,
)
from spacedsl.diagnostics import counted

if TYPE_CHECKING:
    from spacedsl.api.space_size import Estimate, SpaceSize

DEFAULT_TIME = "1s"
_PLAIN_LOG10 = 6
_TENTH = 0.1


def stats(
    kernel: AnyKernel,
    size: Sizes = None,
    space: SpaceFile = None,
    ordering: Annotated[
        str | None, typer.Option("--ordering", metavar="NAME", help="Which decision is taken next.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="The seed of all random choices.")
    ] = 0,
    time: Annotated[
        str,
        typer.Option(
            "--time",
            "-t",
            metavar="1s",
            help="Processor time for descents, and again for the size of the space.",
        ),
    ] = DEFAULT_TIME,
    engine: Annotated[
        str, typer.Option("--engine", metavar="native|python", help="What propagates.")
    ] = "native",
    target: Target = None,
    device: DeviceFile = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Describe a space on a kernel: implementations, decisions, dead ends, random descents a second."""
    from spacedsl.api.solving import pose_unmeasured
    from spacedsl.api.statistics import measure_space
    from spacedsl.cli.faults import CommandError
    from spacedsl.engine.instance import Engine

    console = Console.of(verbose=verbose, quiet=quiet)
    if engine not in {e.value for e in Engine}:
        raise CommandError(f"there is no engine `{engine}`", hint="native or python")
    problem = pose_unmeasured(
        kernel,
        sizes=parse_sizes(size or ()),
        space=space,
        target=target,
        device=device,
        engine=Engine(engine),
    )
    found = measure_space(problem, seed=seed, ordering=ordering, seconds=parse_duration(time))
    if found.no_native is not None:
        console.warn(f"the reference engine ran, some hundred times slower: {found.no_native}")
    if json:
        console.document(
            {"schema": 1, "kernel": problem.kernel.name, **asdict(found), "size": document_of(found.size)}
        )
        return ExitCode.OK
    rows = [
        ("engine", found.engine),
        *_size_rows(found.size),
        ("complete descents / s", f"{found.descents_per_s:,.0f}"),
        ("decisions / descent", f"{found.decisions_per_descent:.1f}"),
        ("refutations / descent", f"{found.refutations_per_descent:.2f}"),
        ("candidate", f"{found.vector_bytes:,} bytes, packed {found.packed_bytes:,}"),
        ("open decisions", f"{found.open_decisions:,}"),
        *((f"  {choice}", f"{count:,}") for choice, count in found.by_choice.items()),
    ]
    width = max(len(label) for label, _ in rows)
    console.data("\n".join(f"{label:<{width}}  {value}" for label, value in rows))
    return ExitCode.OK


def _size_rows(size: SpaceSize) -> list[tuple[str, str]]:
    low, high = size.dead_end_ci
    estimates = [(f"  by {e.method}", estimated(e)) for e in size.estimates]
    if not any(e.method == "chen" for e in size.estimates):
        estimates.append(("  by chen", "no probe ended in this time: more --time"))
    dead_ends = (
        f"{percent(size.dead_end_rate)} ({percent(low)} to {percent(high)}) of {size.walks:,} random walks"
    )
    implementations = estimated(size.best) if size.exact is None else f"{size.exact:,}, counted"
    return [("implementations", implementations), *estimates, ("dead ends", dead_ends)]


def estimated(estimate: Estimate) -> str:
    """`1.83e21 (1.5e21 to 2.2e21), 1,000 probes`."""
    probes = counted(estimate.probes, "probe")
    if estimate.log10 is None:
        return f"none met by {probes}"
    doubt = f", {100 * estimate.largest_share:.0f} % of it from one" if estimate.is_doubtful else ""
    return f"{number(estimate.log10)} ({_interval(estimate.log10, estimate.relative_ci)}), {probes}{doubt}"


def _interval(log10: float, relative_ci: tuple[float, float] | None) -> str:
    if relative_ci is None:
        return "interval unknown"
    low, high = ("0" if end == 0 else number(log10 + math.log10(end), digits=1) for end in relative_ci)
    return f"{low} to {high}"


def number(log10: float, digits: int = 2) -> str:
    """A number from its logarithm, since it may be beyond a float; in powers of ten from a million on."""
    if log10 < _PLAIN_LOG10:
        value = 10**log10
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    exponent = math.floor(log10)
    mantissa = round(10 ** (log10 - exponent), digits)
    return f"1.0e{exponent + 1}" if mantissa >= 10 else f"{mantissa:.{digits}f}e{exponent}"


def percent(share: float) -> str:
    """With two digits, however small it is."""
    return f"{100 * share:.2g} %" if share < _TENTH else f"{100 * share:.1f} %"


def document_of(size: SpaceSize) -> dict[str, object]:
    """For JSON."""
    return {**asdict(size), "best": size.best.method}

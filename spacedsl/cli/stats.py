"""`stats`: what a space is like on a kernel: open decisions, size of a candidate, random descents."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.faults import ExitCode
from spacedsl.cli.options import (
    DeviceFile,
    Json,
    Quiet,
    Sizes,
    SpaceFile,
    Verbose,
    parse_duration,
    parse_sizes,
)

DEFAULT_TIME = "1s"


def stats(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.yaml", help="A kernel file of any backbone.")],
    size: Sizes = None,
    space: SpaceFile = None,
    ordering: Annotated[
        str | None, typer.Option("--ordering", metavar="NAME", help="Which decision is taken next.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="The seed of the descents.")] = 0,
    time: Annotated[
        str, typer.Option("--time", "-t", metavar="1s", help="Processor time to spend on descents.")
    ] = DEFAULT_TIME,
    engine: Annotated[
        str, typer.Option("--engine", metavar="native|python", help="What propagates.")
    ] = "native",
    device: DeviceFile = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Describe a space on a kernel: decisions, bytes of a candidate, random descents a second."""
    from spacedsl.api.solving import pose_unmeasured
    from spacedsl.api.statistics import measure_space
    from spacedsl.cli.faults import CommandError
    from spacedsl.engine.instance import Engine

    console = Console.of(verbose=verbose, quiet=quiet)
    if engine not in {e.value for e in Engine}:
        raise CommandError(f"there is no engine `{engine}`", hint="native or python")
    problem = pose_unmeasured(
        kernel, sizes=parse_sizes(size or ()), space=space, device=device, engine=Engine(engine)
    )
    found = measure_space(problem, seed=seed, ordering=ordering, seconds=parse_duration(time))
    if found.no_native is not None:
        console.warn(f"the reference engine ran, some hundred times slower: {found.no_native}")
    if json:
        console.document({"schema": 1, "kernel": problem.kernel.name, **asdict(found)})
        return ExitCode.OK
    rows = [
        ("engine", found.engine),
        ("complete descents / s", f"{found.descents_per_s:,.0f}"),
        ("decisions / descent", f"{found.decisions_per_descent:.1f}"),
        ("refutations / descent", f"{found.refutations_per_descent:.2f}"),
        ("dead ends", f"{found.dead_end_rate:.2%} of {found.descents:,} descents"),
        ("candidate", f"{found.vector_bytes:,} bytes, packed {found.packed_bytes:,}"),
        ("open decisions", f"{found.open_decisions:,}"),
        *((f"  {choice}", f"{count:,}") for choice, count in found.by_choice.items()),
    ]
    width = max(len(label) for label, _ in rows)
    console.data("\n".join(f"{label:<{width}}  {value}" for label, value in rows))
    return ExitCode.OK

"""`solve`: solutions of a space on a kernel, without code and without measuring."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode
from spacedsl.cli.options import (
    AnyKernel,
    DeviceFile,
    Json,
    Quiet,
    Sizes,
    SpaceFile,
    Target,
    Verbose,
    explain_hint,
    parse_duration,
    parse_sizes,
)
from spacedsl.diagnostics import counted

if TYPE_CHECKING:
    from spacedsl.api.solving import Solution

DEFAULT_TIME = "1m"


def solve(
    kernel: AnyKernel,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="So many solutions. Default: 1.")
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option("--all", help="Every solution, in order; for small spaces.")
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="The seed of all random choices.")
    ] = 0,
    time: Annotated[
        str, typer.Option("--time", "-t", metavar="1m", help="Give up after this long: 90s, 3m, 1h30m.")
    ] = DEFAULT_TIME,
    size: Sizes = None,
    space: SpaceFile = None,
    ordering: Annotated[
        str | None, typer.Option("--ordering", metavar="NAME", help="Which decision is taken next.")
    ] = None,
    target: Target = None,
    device: DeviceFile = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Find solutions of a space: complete candidates, by random descents or all of them."""
    from spacedsl.api import EmptySpaceError, solving
    from spacedsl.engine.instance import Engine

    console = Console.of(verbose=verbose, quiet=quiet)
    time_s = parse_duration(time)
    problem = solving.pose_unmeasured(
        kernel, sizes=parse_sizes(size or ()), space=space, target=target, device=device, engine=Engine.NATIVE
    )
    if problem.instance.no_native is not None:
        console.warn(f"the reference engine propagates, which is slower: {problem.instance.no_native}")
    found: list[Solution] = []
    wanted = None if exhaustive and limit is None else limit or 1
    is_all = False
    try:
        solutions = solving.solve(problem, exhaustive=exhaustive, seed=seed, ordering=ordering, time_s=time_s)
        for solution in islice(solutions, wanted):
            found.append(solution)
            if not json:
                console.data(text(solution, len(found)))
        is_all = wanted is None or len(found) < wanted
    except EmptySpaceError as error:
        if json:
            console.document(_document(problem.kernel.name, found, is_all=True))
        raise CommandError(
            str(error), ExitCode.EMPTY_SPACE, explain_hint(kernel, size, space, target, device)
        ) from None
    except TimeoutError:
        console.say(f"stopped after {time}; there may be more solutions (--time gives it longer)")
    if json:
        console.document(_document(problem.kernel.name, found, is_all=is_all))
    elif is_all:
        console.say(f"{counted(len(found), 'solution')}; there are no others")
    else:
        console.say(counted(len(found), "solution"))
    return ExitCode.OK if found else ExitCode.NO_CANDIDATE


def text(solution: Solution, number: int) -> str:
    """The loops of a pipeline; a line for each decision, then for each counter and quantity that follows.

    Quantities of a pipeline say the same as its loops.
    """
    lines = [f"solution {number}"]
    if solution.loops is not None:
        lines += [f"  {line}" for line in solution.loops.splitlines()]
    lines += [f"  {_use(choice, objects)} = {value}" for choice, objects, value in solution.decisions]
    lines += [
        f"  {_use(choice, objects)} = {value} (counter)" for choice, objects, value in solution.counters
    ]
    if solution.loops is None:
        quantities = solution.quantities
        lines += [f"  {_use(name, objects)} = {value} (quantity)" for name, objects, value in quantities]
    return "\n".join(lines) + "\n"


def _use(choice: str, objects: tuple[str, ...]) -> str:
    return f"{choice}({', '.join(objects)})"


def _document(kernel: str, found: list[Solution], *, is_all: bool) -> dict[str, object]:
    return {
        "schema": 1,
        "kernel": kernel,
        "complete": is_all,
        "solutions": [
            {
                "decisions": [
                    {"choice": choice, "objects": list(objects), "values": [value]}
                    for choice, objects, value in solution.decisions
                ],
                "counters": [
                    {"choice": choice, "objects": list(objects), "value": value}
                    for choice, objects, value in solution.counters
                ],
                "quantities": [
                    {"quantity": name, "objects": list(objects), "value": value}
                    for name, objects, value in solution.quantities
                ],
                **({} if solution.loops is None else {"loops": solution.loops.splitlines()}),
            }
            for solution in found
        ],
    }

"""`schema`: what editors need to know of kernel and device files."""

from __future__ import annotations

from typing import Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode


def schema(
    kind: Annotated[str, typer.Argument(metavar="kernel|device", help="The kind of file.")],
) -> ExitCode:
    """Print the JSON Schema of kernel or device files, with which editors complete and check them."""
    from spacedsl.kernels.json_schema import STORED, json_schema

    for known in STORED:
        if kind == known:
            Console().data(json_schema(known))
            return ExitCode.OK
    raise CommandError(f"there is no schema of {kind} files: choose {' or '.join(STORED)}")

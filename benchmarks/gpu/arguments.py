"""The command line of benchmarks on a GPU that is somewhere else: `write` a folder, `report` what came of it.

In: what a benchmark is called, and its defaults. Out: parsers with the options that all have. What is written
is for each benchmark to name.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.arguments import duration_s, existing_folder, new_file, positive


def parsers(
    prog: str, description: str, device: str, time: str
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """That of the command line, and that of `write`, which others add options to."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="make the folder that goes to a machine with a GPU")
    write.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    write.add_argument("--device", default=device, help=f"the GPU to explore for; default: {device}")
    write.add_argument("--runs", type=existing_folder, metavar="DIR", help="take these, explore nothing")
    write.add_argument("--time", type=duration_s, default=time, help=f"of each exploration; default: {time}")
    write.add_argument("--top", type=positive, default=100, metavar="N", help="of each run")
    write.add_argument(
        "--others", type=positive, default=0, metavar="N", help="and so many slower ones, spread"
    )
    write.add_argument("--cases-there", action="store_true", help="spacedsl makes the test cases over there")
    made = commands.add_parser("report", help="what was measured there")
    made.add_argument("folder", type=existing_folder, metavar="FOLDER")
    made.add_argument("--json", type=new_file, metavar="FILE")
    return parser, write

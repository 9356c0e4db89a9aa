"""The product beside what a user would take instead, on this CPU.

    python -m benchmarks.cpu [CASE ..] [--time 2m] [--seeds N] [--records DIR] [--peer torch ..] [--json FILE]

Explores each kernel from nothing for so long, once for each seed, then has the best of each seed and the
peers take turns: in processes of their own, with pinned threads, checked against NumPy. With `--records` it
explores nothing and compares the records (best.json) that lie below a folder. `make peers` installs the peers
into an environment of their own; one that is not there is reported.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import duration_s, existing_folder, new_file, positive, run, write_document
from benchmarks.contest import PRODUCT, ROOT, Entry, hold
from benchmarks.cpu import product
from benchmarks.cpu.cases import BY_NAME, Case
from benchmarks.cpu.peers import LIMITS, MODULES
from benchmarks.cpu.report import CaseReport, report, show
from benchmarks.cpu.side import Side
from benchmarks.explorations import SkippedError
from benchmarks.installed import PEERS_PYTHON, peers_python, versions
from benchmarks.tables import console
from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.machine import processor

DEFAULT_TIME = "2m"
_DISTRIBUTIONS = ("numpy", "torch", "numba", "apache-tvm")


def main() -> None:
    options = _arguments()
    err = Console(stderr=True)
    records = options.records or ROOT / "runs" / f"cpu-{datetime.now():%Y%m%d-%H%M%S}"
    reports: list[CaseReport] = []
    skipped: dict[str, str] = {}
    for name in options.cases or BY_NAME:
        case = BY_NAME[name]
        try:
            product.kernel_of(case)
            if options.records is None:
                _explore(case, records, options, err)
            _tune(case, options, err)
            reports.append(_compare(case, records, options, err))
        except SkippedError as error:
            skipped[name] = str(error)
            err.print(f"{name} is skipped: {error}", highlight=False)
        if options.json is not None:
            # All that is known so far: a full run takes hours.
            document = _document(reports, skipped, options)
            write_document(document, options.json)
    show(reports, skipped, console())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cpu", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {', '.join(BY_NAME)}; default: all")
    parser.add_argument(
        "--time", type=duration_s, default=DEFAULT_TIME, help="of each exploration; 10m is the full measure"
    )
    parser.add_argument("--seeds", type=positive, default=1, metavar="N", help="explorations of each kernel")
    parser.add_argument(
        "--records", type=existing_folder, metavar="DIR", help="compare these, explore nothing"
    )
    parser.add_argument("--peer", action="append", choices=MODULES, help="these only; repeatable")
    parser.add_argument("--peers-python", type=Path, default=PEERS_PYTHON, metavar="FILE")
    parser.add_argument(
        "--tvm-trials",
        type=int,
        default=64,
        metavar="N",
        help="of TVM's tuning, once for each kernel; 0: none",
    )
    parser.add_argument("--rounds", type=positive, default=45)
    parser.add_argument("--round-ms", type=positive, default=100)
    parser.add_argument(
        "--processes",
        type=positive,
        default=5,
        metavar="N",
        help="of each contender, one after the other, which share its rounds",
    )
    parser.add_argument("--json", type=new_file, metavar="FILE")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in BY_NAME]
    if unknown:
        parser.error(f"no case is called {', '.join(unknown)}; known: {', '.join(BY_NAME)}")
    return options


def _explore(case: Case, folder: Path, options: argparse.Namespace, err: Console) -> None:
    for seed in range(options.seeds):
        err.print(f"{case.name}: exploring for {options.time:.0f} s, seed {seed}", highlight=False)
        product.explore(case, folder, options.time, seed, err.print)


def _tune(case: Case, options: argparse.Namespace, err: Console) -> None:
    """Has TVM tune what it has not tuned yet; where it cannot, the comparison says that it is not there."""
    cpus, folder = processor.usable_cpus(), _schedules(options)
    if not options.tvm_trials or "tvm" not in (options.peer or MODULES) or not options.peers_python.exists():
        return
    tuning = {
        "problem": case.problem,
        "sizes": dict(case.sizes),
        "threads": len(cpus),
        "trials": options.tvm_trials,
        "folder": str(folder),
    }
    command = [str(options.peers_python), "-m", "benchmarks.cpu.peers.tvm_schedules", json.dumps(tuning)]
    with machine_lock(), tempfile.TemporaryFile("w+") as log:
        if subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False).returncode != 0:
            log.seek(0)
            last = log.read().strip().rpartition("\n")[2]
            err.print(f"{case.name}: TVM was not tuned: {last}", highlight=False)


def _schedules(options: argparse.Namespace) -> Path:
    """Beside the peers, so that they end with the versions that made them."""
    folder: Path = options.peers_python.absolute().parent.parent / "tvm"
    return folder


def _compare(case: Case, records: Path, options: argparse.Namespace, err: Console) -> CaseReport:
    err.print(f"{case.name}: comparing", highlight=False)
    found = product.records(case, records)
    if not found:
        raise SkippedError(f"there is no record of it below {records}")
    with tempfile.TemporaryDirectory(prefix="spacedsl-") as folder:
        entries = list(_entries(case, found, options, Path(folder)))
        with machine_lock():
            contest = hold(entries, options.rounds, options.round_ms, processes=options.processes)
    made = report(case, contest)
    if made is None:
        raise SkippedError("; ".join(f"{name}: {reason}" for name, reason in contest.absent.items()))
    return made


def _entries(
    case: Case, found: dict[str, Path], options: argparse.Namespace, folder: Path
) -> Iterable[Entry]:
    cpus = processor.usable_cpus()
    for label, path in found.items():
        yield product.entry(PRODUCT, label, case, product.build(case, path, folder))
    python = str(peers_python(options.peers_python))
    for peer in options.peer or MODULES:
        kept = str(_schedules(options)) if peer == "tvm" else None
        yield Entry(peer, "", Side(peer, case.problem, case.sizes, cpus, folder=kept), python)
    yield Entry(LIMITS, "", Side(LIMITS, case.problem, case.sizes, cpus), sys.executable)


def _document(
    reports: list[CaseReport], skipped: dict[str, str], options: argparse.Namespace
) -> dict[str, object]:
    return {
        "schema": 1,
        "processor": processor.model_name(),
        "threads": len(processor.usable_cpus()),
        "compiler": find_compiler().version,
        "peers": versions(peers_python(options.peers_python), _DISTRIBUTIONS),
        "cases": [r.as_document() for r in reports],
        "skipped": skipped,
    }


if __name__ == "__main__":
    run(main)

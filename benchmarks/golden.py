"""The golden decision lists beside C written by hand, and beside the peers.

    python -m benchmarks.golden [KERNEL ..] [--records DIR] [--peer torch ..] [--print LIST]

Each list of `tests/codegen/golden_lists` becomes code through its space. All lists of a kernel, what searches
found (`--records`, as `python -m benchmarks.cpu` leaves them), the C of `benchmarks/cpu/peers/hand.c` and the
peers that are named take turns. Shown is their time over that of each list, and in brackets the ratio of
least times. `--print` shows the C of one list and measures nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import existing_folder, positive, run
from benchmarks.contest import PRODUCT, Contender, Contest, Entry, hold
from benchmarks.cpu import product
from benchmarks.cpu.cases import BY_NAME, CASES, Case
from benchmarks.cpu.peers import LIMITS, MODULES
from benchmarks.cpu.peers.limits import ARITHMETIC, MOVES
from benchmarks.cpu.side import Side
from benchmarks.explorations import SkippedError
from benchmarks.installed import PEERS_PYTHON
from benchmarks.ratios import Ratio
from benchmarks.tables import console, headed
from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.machine import processor
from spacedsl.codegen.tree.verify import verify
from tests.codegen.golden import GoldenList, candidate, golden_lists
from tests.codegen.scripts import RefusedError

HAND = "hand"
"""The module of C written by hand."""

FOUND = "found"
"""What the records of searches are called."""


def main() -> None:
    options = _arguments()
    lists = [g for g in golden_lists() if not options.kernels or g.kernel in options.kernels]
    if options.print is not None:
        print(_code(next(g for g in golden_lists() if g.name == options.print)))
        return
    table = headed(
        "Golden lists: others' time over theirs",
        ("list", "median", FOUND, HAND, "limit", *MODULES),
        words=("list",),
    )
    err = Console(stderr=True)
    for name in dict.fromkeys(_case(g).name for g in lists):
        table.add_section()
        for row in _measure(BY_NAME[name], [g for g in lists if _case(g).name == name], options, err):
            table.add_row(*row)
    console().print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.golden", description=(__doc__ or "").partition("\n")[0]
    )
    known = sorted({g.kernel for g in golden_lists()})
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of: {', '.join(known)}; default: all")
    parser.add_argument(
        "--records", type=existing_folder, metavar="DIR", help="of searches: the best takes part"
    )
    parser.add_argument("--peer", action="append", choices=MODULES, default=[], help="repeatable")
    parser.add_argument("--peers-python", type=Path, default=PEERS_PYTHON, metavar="FILE")
    parser.add_argument("--rounds", type=positive, default=15)
    parser.add_argument("--round-ms", type=positive, default=100)
    parser.add_argument("--print", choices=[g.name for g in golden_lists()], metavar="LIST")
    options = parser.parse_args()
    unknown = [kernel for kernel in options.kernels if kernel not in known]
    if unknown:
        parser.error(f"there is no list of {', '.join(unknown)}")
    if options.peer and not options.peers_python.exists():
        parser.error(f"there is no {options.peers_python}, which has the peers: `make peers` makes it")
    return options


def _code(golden: GoldenList) -> str:
    kernel = golden.kernel_file()
    implementation = CandidateImplementation(candidate(golden, kernel))
    return print_c(verify(lower(kernel.backbone, implementation)), golden.device.threads)


def _measure(
    case: Case, lists: Sequence[GoldenList], options: argparse.Namespace, err: Console
) -> Iterable[tuple[str, ...]]:
    cpus = processor.usable_cpus()
    with tempfile.TemporaryDirectory(prefix="spacedsl-") as folder:
        entries = []
        for golden in lists:
            try:
                library = build_library(_code(golden), Path(folder, f"{golden.name}.so"))
            except RefusedError as error:
                err.print(f"{golden.name}: {error}", highlight=False, markup=False)
                continue
            code = product.described(golden.kernel_file(), library)
            entries.append(product.entry(PRODUCT, golden.name, case, code))
        found = {} if options.records is None else product.records(case, options.records)
        for label, path in found.items():
            try:
                code = product.build(case, path, Path(folder))
                entries.append(product.entry(FOUND, label, case, code))
            except SkippedError as error:
                err.print(str(error), highlight=False, markup=False)
        pythons = dict.fromkeys(options.peer, str(options.peers_python))
        entries += [
            Entry(name, "", Side(name, case.problem, case.sizes, cpus), python)
            for name, python in (pythons | dict.fromkeys((HAND, LIMITS), sys.executable)).items()
        ]
        with machine_lock():
            contest = hold(entries, options.rounds, options.round_ms)
    for name, reason in contest.absent.items():
        err.print(f"{case.name}, {name}: {reason}", highlight=False, markup=False)
    yield from shown_rows(contest)


def _case(golden: GoldenList) -> Case:
    """The one of the comparison with peers that has the sizes of the list."""
    sizes = golden.kernel_file().sizes
    return next(
        case for case in CASES if case.kernel == golden.kernel and product.kernel_of(case).sizes == sizes
    )


def shown_rows(contest: Contest) -> Iterable[tuple[str, ...]]:
    """A list for each row; of several records, or variants of a peer, the fastest."""
    for ours in (c for c in contest.contenders if c.name == PRODUCT):
        best: dict[str, _Ratio] = {}
        limits: dict[str, _Ratio] = {}
        for contender in (c for c in contest.contenders if c.name != PRODUCT):
            ratio = _ratio(contender, ours)
            if contender.name == LIMITS:
                limits[contender.variant] = ratio
            else:
                best[contender.name] = min(ratio, best.get(contender.name, ratio))
        shown = [str(best.get(name, "")) for name in (FOUND, HAND, *MODULES)]
        limit = str(max(limits[ARITHMETIC], min(limits[move] for move in MOVES)))
        yield ours.label, f"{statistics.median(ours.medians_ns) / 1e3:.4g} us", *shown[:2], limit, *shown[2:]


@dataclass(frozen=True, slots=True, order=True)
class _Ratio:
    """Of medians, the median over rounds; and of least times, which other work disturbs least."""

    median: float
    least: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f})"


def _ratio(contender: Contender, ours: Contender) -> _Ratio:
    median = Ratio.of([a / b for a, b in zip(contender.medians_ns, ours.medians_ns, strict=True)]).median
    return _Ratio(median, contender.least_ns / ours.least_ns)


if __name__ == "__main__":
    run(main)

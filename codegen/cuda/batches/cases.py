"""The test cases of a batch: inputs, and what must come out, in the folder of a problem.

In: a kernel and a seed. Out: `cases.npz`, arrays by number of the case, kind and name (`0/in/A`, `0/out/C`,
and `0/tolerance/C` where each element has its own), and `cases.json`, what else there is to say of each.
They need not travel: on a machine that has spacedsl,
`python -m spacedsl.codegen.cuda.batches.cases FOLDER` makes them from `problem.json` alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spacedsl.codegen.checks import checks, finite
from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.backbones import MeasurableKernel, check_recorded


def write_cases(folder: Path, kernel: MeasurableKernel, seed: int) -> None:
    """Makes the folder; raises `DiagnosticError` (KF047) where results are not finite, `OSError`."""
    arrays: dict[str, Any] = {}
    about: list[dict[str, Any]] = []
    made = checks(kernel).make_cases(kernel, np.random.default_rng(seed))
    with finite(kernel):
        for number, case in enumerate(made):
            arrays |= {f"{number}/in/{name}": array for name, array in case.inputs.items()}
            arrays |= {f"{number}/out/{name}": array for name, array in case.expected.items()}
            own = {n: t for n, t in case.tolerances.items() if isinstance(t, np.ndarray)}
            arrays |= {f"{number}/tolerance/{name}": tolerance for name, tolerance in own.items()}
            tolerances = {n: t for n, t in case.tolerances.items() if n not in own}
            about.append({"name": case.name, "parameters": dict(case.parameters), "tolerances": tolerances})
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "cases.npz", **arrays)
    # Last: where it lies, the arrays are whole.
    (folder / "cases.json").write_text(json.dumps(about) + "\n", encoding="utf-8")


def kernel_of(problem: Mapping[str, Any]) -> MeasurableKernel:
    """Of what `problem.json` says."""
    return check_recorded(problem["kernel_path"], problem["kernel_text"], problem["sizes"], "gpu")


def main(folder: Path) -> None:
    problem = json.loads((folder / "problem.json").read_text(encoding="utf-8"))
    write_cases(folder, kernel_of(problem), problem["seed"])


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except DiagnosticError as error:
        # Whoever waits for the cases shows a line.
        sys.exit(str(error).partition("\n")[0])

"""The test cases of a batch: inputs, and what must come out, in the folder of a problem.

In: a kernel and a seed. Out: `cases.npz`, arrays by number of the case, kind and name (`0/in/A`, `0/out/C`),
and `cases.json`, what else there is to say of each. They need not travel: on a machine that has spacedsl,
`python -m spacedsl.codegen.cuda.batches.cases FOLDER` makes them from `problem.json` alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from spacedsl.codegen.cases import make_cases
from spacedsl.diagnostics import Source
from spacedsl.kernels.kernel_file import KernelFile, check_kernel


def write_cases(folder: Path, kernel: KernelFile, seed: int) -> None:
    """Raises `NotFiniteError`, `OSError`."""
    arrays: dict[str, Any] = {}
    about: list[dict[str, Any]] = []
    for number, case in enumerate(make_cases(kernel, np.random.default_rng(seed))):
        arrays |= {f"{number}/in/{name}": array for name, array in case.inputs.items()}
        arrays |= {f"{number}/out/{name}": array for name, array in case.expected.items()}
        about.append(
            {"name": case.name, "parameters": dict(case.parameters), "tolerances": dict(case.tolerances)}
        )
    np.savez(folder / "cases.npz", **arrays)
    # Last: where it lies, the arrays are whole.
    (folder / "cases.json").write_text(json.dumps(about) + "\n", encoding="utf-8")


def main(folder: Path) -> None:
    problem = json.loads((folder / "problem.json").read_text(encoding="utf-8"))
    source = Source(problem["kernel_path"], problem["kernel_text"])
    kernel = check_kernel(source, Path(problem["kernel_path"]), problem["sizes"], "gpu")
    write_cases(folder, kernel, problem["seed"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Modules for Halide, run in a process of their own, which may crash."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.codegen.running.cases import Case
from spacedsl.codegen.running.differences import first_difference
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.reference import view

Array = NDArray[Any]

LEAST_NORMAL = float(np.finfo(np.float32).tiny)
"""Halide's functions give 0 for what is less."""

_PROCESS = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    jobs = pickle.load(file)
found = []
for text, given in jobs:
    namespace = {}
    exec(text, namespace)
    try:
        found.append(namespace["run"](**given))
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
    with open(sys.argv[2], "wb") as file:
        pickle.dump(found, file)
"""


@dataclass(frozen=True)
class Job:
    """A module, and a case of its pipeline."""

    file: PipelineFile
    text: str
    case: Case

    @property
    def given(self) -> dict[str, Array]:
        return {t.name: view(t, self.case.inputs[t.name]) for t in self.file.tensors if not t.is_output}


def answers(asked: Sequence[tuple[str, Mapping[str, Any]]], folder: Path) -> list[dict[str, Array] | str]:
    """What `run` of each module gives for its arguments, or how that ended."""
    questions, answered = folder / "asked", folder / "answered"
    questions.write_bytes(pickle.dumps([(text, dict(given)) for text, given in asked]))
    answered.unlink(missing_ok=True)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROCESS, str(questions), str(answered)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found: list[dict[str, Array] | str] = pickle.loads(answered.read_bytes()) if answered.exists() else []
    return found + [f"no answer: {ran.returncode}\n{ran.stderr}"] * (len(asked) - len(found))


def differences(jobs: Sequence[Job], folder: Path) -> list[str]:
    """Of each, the first difference from what its case expects, or how it ended; empty for none."""
    found = answers([(job.text, job.given) for job in jobs], folder)
    return [e if isinstance(e, str) else _difference(job, e) for job, e in zip(jobs, found, strict=True)]


def _difference(job: Job, found: Mapping[str, Array]) -> str:
    said = ""
    for tensor in job.file.tensors:
        if tensor.is_output:
            tolerance = job.case.tolerances[tensor.name]
            if tensor.dtype.is_float:
                tolerance = np.maximum(tolerance, np.float32(LEAST_NORMAL))
            expected = view(tensor, job.case.expected[tensor.name])
            said += first_difference(found[tensor.name], expected, tolerance)
    return said

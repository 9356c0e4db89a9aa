"""A machine that is described already, and one small run that several tests look at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spacedsl.codegen.machine.characterize import device_path
from tests.cli.running import run

ROOT = Path(__file__).parents[2]
SMALL = ("--size", "m=8", "--size", "n=16", "--size", "k=4")


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder in which this machine counts as measured; the user's own is left alone."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder))
        device_path().parent.mkdir(parents=True)
        device_path().write_bytes((ROOT / "kernels" / "devices" / "generic-x86-64.yaml").read_bytes())
        yield folder


@dataclass(frozen=True, slots=True)
class Run:
    folder: Path
    document: dict[str, Any]
    err: str

    @property
    def best(self) -> Path:
        return self.folder / "best.json"


@pytest.fixture(scope="session")
def explored(machine: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three evaluations of a small product of matrices."""
    runs = tmp_path_factory.mktemp("runs")
    flags = (*SMALL, "--evaluations", 3, "--seed", 5, "--runs", runs, "--json")
    ran = run("explore", ROOT / "kernels" / "library" / "matmul.yaml", *flags)
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    return Run(Path(document["run"]), document, ran.err)

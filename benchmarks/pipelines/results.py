"""A folder of results, which a later call goes on with, an application at a time.

    FOLDER/APPLICATION/explored/               our exploration, by its time
    FOLDER/APPLICATION/best.json, best.c       its result
    FOLDER/APPLICATION/halide/                 the algorithm in Halide; schedules and libraries of it
    FOLDER/APPLICATION/comparison.json         what came of it, and with which settings
    FOLDER/results.json, results.txt           all applications together

In: a folder. Out: paths in it, and comparisons that were written. A comparison counts as long as its settings
are those of the call; what was made for it is taken in any case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.pipelines.report import Comparison, Summary, show
from benchmarks.tables import LEAST_WIDTH
from spacedsl.files import replace_text


@dataclass(frozen=True, slots=True)
class Settings:
    """What a comparison depends on."""

    algorithm: str
    """A digest of what Halide schedules."""
    explored_s: float | None
    """None: with records that were given."""
    schedulers: tuple[str, ...]
    limit_s: float
    rounds: int
    round_ms: int
    processor: str
    threads: int
    compiler: str
    halide: str
    """Its version; empty: it is not there."""


@dataclass(frozen=True, slots=True)
class Place:
    """Of one application."""

    folder: Path

    @property
    def explored(self) -> Path:
        return self.folder / "explored"

    @property
    def halide(self) -> Path:
        return self.folder / "halide"

    @property
    def algorithm(self) -> Path:
        return self.halide / "algorithm.py"

    @property
    def _comparison(self) -> Path:
        return self.folder / "comparison.json"

    def known(self, settings: Settings) -> Comparison | None:
        """What was compared with the same settings."""
        if not self._comparison.exists():
            return None
        document = json.loads(self._comparison.read_text(encoding="utf-8"))
        return Comparison.of(document) if document["settings"] == _plain(settings) else None

    def keep(self, comparison: Comparison, settings: Settings) -> None:
        _write(self._comparison, {**comparison.as_document(), "settings": _plain(settings)})


def _plain(settings: Settings) -> dict[str, Any]:
    return {**asdict(settings), "schedulers": list(settings.schedulers)}


def keep_all(folder: Path, comparisons: Sequence[Comparison], skipped: Mapping[str, str]) -> None:
    """For a program, and for a person."""
    summary = Summary.of(comparisons)
    document = {
        "schema": 1,
        "applications": [c.as_document() for c in comparisons],
        "geometric_mean": summary.mean,
        "below_least": summary.below,
        "below_their_aim": summary.missed,
        "skipped": dict(skipped),
    }
    _write(folder / "results.json", document)
    with (folder / "results.txt").open("w", encoding="utf-8") as file:
        show(comparisons, skipped, Console(file=file, width=LEAST_WIDTH))


def _write(path: Path, document: Mapping[str, Any]) -> None:
    replace_text(path, json.dumps(document, indent=2) + "\n")

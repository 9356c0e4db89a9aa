"""The texts of `corpus/`: listings of the paper, mended as `errata.yaml` says, and two whole spaces."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
SETS, COUNTERS, GPU = (
    (CORPUS / f"listings-{numbers}.space").read_text(encoding="utf-8") for numbers in ("1-4", "5-6", "7-13")
)
ORIGINAL, PIPELINE = (
    (CORPUS / f"{name}.space").read_text(encoding="utf-8") for name in ("original", "pipeline")
)

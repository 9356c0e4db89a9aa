"""The listings of section 3 and 4 of the paper, mended: see `corpus/errata.yaml`."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
SETS, COUNTERS, GPU = (
    (CORPUS / f"listings-{numbers}.space").read_text(encoding="utf-8") for numbers in ("1-4", "5-6", "7-13")
)

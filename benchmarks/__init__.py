"""Measurements of the product on this machine, a module each: `python -m benchmarks.NAME --help`."""

from pathlib import Path

LIBRARY = Path(__file__).resolve().parent.parent / "kernels" / "library"
"""The kernel files that come with the product."""

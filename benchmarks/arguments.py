"""What benchmarks take on their command lines, beside plain numbers and words."""

from __future__ import annotations

import argparse
from pathlib import Path


def existing_file(text: str) -> Path:
    """The path of a file that is there, as a `type` of argparse: others are usage errors."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(
            f"{path}: {'a folder' if path.is_dir() else 'there is no such file'}"
        )
    return path

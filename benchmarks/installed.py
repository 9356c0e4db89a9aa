"""The environment that has the peers, which neither the product nor its tests need: `make peers` makes it.

In: the path of its Python. Out: the Python to run peers with, and which versions it has. Nothing is
installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contest import ROOT

PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
_VERSIONS = """
import importlib.metadata as m, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def peers_python(wanted: Path) -> Path:
    """This one where that is not there, which may have some of the peers."""
    return wanted if wanted.exists() else Path(sys.executable)


def versions(python: Path, distributions: Sequence[str]) -> dict[str, str]:
    """Of those that are installed."""
    command = [str(python), "-c", _VERSIONS, *distributions]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(answer.stdout)
    return found

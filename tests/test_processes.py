"""Processes that work for another one end with it, whatever its number is."""

from __future__ import annotations

import subprocess
import sys

_WORKER = """
import os, sys
from spacedsl.processes import die_with_parent
die_with_parent(os.getppid() + int(sys.argv[1]))
print("alive")
"""


def test_a_process_goes_on_while_the_one_that_it_works_for_is_there() -> None:
    for off, said in ((0, "alive\n"), (1, "")):
        ran = subprocess.run(
            [sys.executable, "-c", _WORKER, str(off)], capture_output=True, text=True, check=True
        )
        assert ran.stdout == said

"""Which C compilers this machine has: `$CC`, else cc, gcc, clang, else the compiler of the ziglang package.

In: the environment. Out: commands in the order in which they are tried, what each says of itself, and what
tells the processor that they compile for from others. Whether one builds what somebody needs is for that
somebody to try.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

Command = tuple[str, ...]

ANSWER_S = 60.0
"""A compiler that says nothing for so long does not run."""


def chosen() -> str | None:
    """The compiler that the user named."""
    return os.environ.get("CC") or None


def commands() -> tuple[Command, ...]:
    """What the user named, alone; else all that seem to be installed. `ValueError`: CC is not quoted well."""
    if (named := chosen()) is not None:
        return (tuple(shlex.split(named)),)
    found: list[Command] = [(name,) for name in ("cc", "gcc", "clang") if shutil.which(name)]
    if importlib.util.find_spec("ziglang"):
        found.append((sys.executable, "-m", "ziglang", "cc"))
    return tuple(found)


def version(command: Command) -> str | None:
    """All that the compiler says of itself; None: it does not run."""
    try:
        answer = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 and answer.stdout.strip() else None


@cache
def processor() -> str:
    """Whatever tells one processor from another: equal texts, equal processors."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.machine()
    wanted = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "CPU part")
    lines = (line for line in text.splitlines() if line.split(":")[0].strip() in wanted)
    return "\n".join(dict.fromkeys(lines))

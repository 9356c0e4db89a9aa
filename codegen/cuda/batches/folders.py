"""The folder of a batch: whether one may be written there, and what an earlier one has left.

In: a folder, and the names of the problems that are to lie in it. Out: why nothing may be written there; or
the folder without the earlier batch, of which nothing is removed but what a batch writes. Nothing is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

BATCH, PROBLEM = "batch.json", "problem.json"
RESULTS = "results.jsonl"
CODES = "implementations"
"""The folder with the code of a problem's implementations."""
DECISIONS = "decisions.json.gz"
"""What each implementation is made of, by its digest: much text, which only `import` reads."""
CASES = ("cases.npz", "cases.json")
MAKING = ".cases-"
"""How the folder begins in which test cases are made, before they take their places."""
RUNS = "runs"
"""Of explorations, which may lie beside a batch of theirs."""

_CODE = re.compile(r"[0-9a-f]{16}\.(cu|cubin)")


def code_path(digest: str) -> Path:
    """Of the code of an implementation, in the folder of its problem; its cubin lies beside it."""
    return Path(CODES) / f"{digest[:16]}.cu"


def occupied(folder: Path, names: Sequence[str] = ()) -> str | None:
    """Why no batch of these problems may be written there; None where it may, in place of an earlier one."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        return f"{there}: this is a file, not a folder"
    if (folder / RESULTS).exists():
        return f"{folder} holds results of an earlier batch: take another folder"
    if not folder.exists() or all(
        path.name == RUNS or path.name.startswith(MAKING) for path in folder.iterdir()
    ):
        return None
    earlier = _problems(folder)
    if earlier is None:
        return f"{folder} holds other things than a batch: take another folder"
    taken = next((name for name in names if name not in earlier and (folder / name).exists()), None)
    return None if taken is None else f"{folder / taken} is no part of a batch: take another folder"


def clear(folder: Path) -> None:
    """Removes the problems of an earlier batch; what else lies in their folders stays."""
    for name in _problems(folder) or ():
        problem = folder / name
        written = [problem / each for each in (PROBLEM, DECISIONS, *CASES)]
        written += (path for path in (problem / CODES).glob("*") if _CODE.fullmatch(path.name))
        for path in written:
            path.unlink(missing_ok=True)
        for emptied in (problem / CODES, problem):
            with suppress(OSError):
                emptied.rmdir()


def _problems(folder: Path) -> tuple[str, ...] | None:
    """Names of the batch's problems, which are folders in it; None where no batch lies there."""
    try:
        names = json.loads((folder / BATCH).read_text(encoding="utf-8"))["problems"]
        is_batch = isinstance(names, list) and all(
            name.strip(".") and Path(name).name == name for name in names
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return tuple(names) if is_batch else None

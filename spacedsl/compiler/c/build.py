"""Compiling generated C to a shared library, once for each text, compiler, set of flags and processor.

In: C text and definitions of its constants. Out: the path of a library in the user's cache, which is made
under a temporary name and renamed, so that several processes may make it at once. A library ends in a digest
of itself and of what it was made of; one without is made anew. Raises `NoCompilerError` where no compiler
answers or it refuses the text: the Python engine needs none.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spacedsl import c_compilers

FLAGS = ("-O1", "-std=gnu11", "-fvisibility=hidden", "-fno-sanitize=all", "-w", "-shared", "-fPIC")
TIMEOUT_S = 300.0
KEPT_S = 30 * 24 * 3600.0
"""What has not been asked for in this time is removed when another library is made."""
SEAL_BYTES = hashlib.sha256().digest_size


class NoCompilerError(Exception):
    """There is no C compiler that compiles what was printed; the message says why."""


@dataclass(frozen=True, slots=True)
class Compiler:
    command: tuple[str, ...]
    version: str
    """All that it says about itself."""


@functools.cache
def find_compiler() -> Compiler:
    """The first that answers."""
    try:
        commands = c_compilers.commands()
    except ValueError as error:
        raise NoCompilerError(f"CC names `{c_compilers.chosen()}`, which is no command: {error}") from None
    for command in commands:
        version = c_compilers.version(command)
        if version is not None:
            return Compiler(command, version)
    chosen = c_compilers.chosen()
    raise NoCompilerError(f"CC names `{chosen}`, which does not run" if chosen else "no C compiler was found")


def cache_folder() -> Path:
    """Where libraries are kept: below the user's cache, as XDG says."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spacedsl" / "engines"


def text_digest(source: str) -> str:
    """What a library is found by, of all that the text says."""
    return hashlib.sha256(source.encode()).hexdigest()


def find(text: str, constants: Mapping[str, int], folder: Path | None = None) -> Path | None:
    """The library of the text with this digest, if it is in the cache."""
    folder = folder if folder is not None else cache_folder()
    digest = _digest(text, constants)
    library = folder / f"{digest[:32]}.so"
    try:
        content = library.read_bytes()
    except OSError:
        return None
    if content[-SEAL_BYTES:] != _seal(digest, content[:-SEAL_BYTES]):
        return None
    with suppress(OSError):
        library.touch()
    return library


def _digest(text: str, constants: Mapping[str, int]) -> str:
    """Of everything that a library follows from."""
    compiler = find_compiler()
    parts = (*_command(compiler, constants), compiler.version, c_compilers.processor(), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _command(compiler: Compiler, constants: Mapping[str, int]) -> tuple[str, ...]:
    return (*compiler.command, *FLAGS, *(f"-D{name}={value}" for name, value in constants.items()))


def _seal(digest: str, content: bytes) -> bytes:
    return hashlib.sha256(digest.encode() + content).digest()


def build(source: str, constants: Mapping[str, int], folder: Path | None = None) -> Path:
    """The library of a translation unit, from the cache or compiled."""
    folder = folder if folder is not None else cache_folder()
    found = find(text_digest(source), constants, folder)
    if found is not None:
        return found
    compiler = find_compiler()
    command = _command(compiler, constants)
    digest = _digest(text_digest(source), constants)
    library = folder / f"{digest[:32]}.so"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="engine-", dir=folder) as place:
            text, result = Path(place, "engine.c"), Path(place, "engine.so")
            text.write_text(source, encoding="utf-8")
            done = subprocess.run(
                [*command, "-o", str(result), str(text)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
            if done.returncode != 0 or not result.exists():
                raise NoCompilerError(f"{compiler.command[0]} refused an engine: {done.stderr[:2000]}")
            # Loaders ignore what stands behind the last section.
            content = result.read_bytes()
            result.write_bytes(content + _seal(digest, content))
            result.replace(library)
        _prune(folder)
    except subprocess.TimeoutExpired:
        raise NoCompilerError(f"{compiler.command[0]} took more than {TIMEOUT_S:g} s for an engine") from None
    except OSError as error:
        raise NoCompilerError(f"no engine can be kept in {folder}: {error.strerror}") from None
    return library


def _prune(folder: Path) -> None:
    oldest = time.time() - KEPT_S
    for path in (*folder.glob("*.so"), *folder.glob("*.json")):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()

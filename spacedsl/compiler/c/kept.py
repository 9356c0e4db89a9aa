"""Libraries of spaces without printing their C anew: what a library asks of an instance is kept beside it.

In: a compiled space. Out: its `Interface` and the path of a library. A record, `KEY.json`, holds the digest
of the C text and the tables that the text asks for. Its key is a digest of everything that the text follows
from: the text of the space, and the sources of the language and of the compiler. A library is found by the
digest of its text, see `build.py`. Only what `compile_space` has made of a text is kept, and nothing once a
source has changed under the running process. A record that is not whole, of another key, or of a form that
does not fit the propagators, is written anew.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from spacedsl import loaded
from spacedsl.compiler import CompiledSpace
from spacedsl.compiler.c.build import build, cache_folder, find
from spacedsl.compiler.c.interface import Interface, decoded, encoded
from spacedsl.compiler.c.module import CModule, print_c

PACKAGE = Path(__file__).parents[2]
FORM = 1
"""Of a record; another one is written anew."""
SOURCES = ("diagnostics.py", "language", "compiler", "grammars")
"""What C follows from, besides the space."""
SUFFIXES = {".py", ".h", ".lark"}
MOST_KEPT = 16


def library_of(
    compiled: CompiledSpace, constants: Callable[[Interface], Mapping[str, int]]
) -> tuple[Interface, Path]:
    """The library of a space for constants that follow from its interface.

    Raises `UnprintableError` and `NoCompilerError`.
    """
    found, text_digest = _known(compiled)
    library = find(text_digest, constants(found))
    if library is not None:
        return found, library
    module = _printed(compiled)
    return module.interface, build(module.source, constants(module.interface))


@lru_cache(maxsize=MOST_KEPT)
def _known(compiled: CompiledSpace) -> tuple[Interface, str]:
    """The interface and the digest of the text: as kept, else as printed now."""
    kept = read(compiled)
    if kept is not None:
        return kept
    module = _printed(compiled)
    return module.interface, module.digest


@lru_cache(maxsize=MOST_KEPT)
def _printed(compiled: CompiledSpace) -> CModule:
    module = print_c(compiled.module, compiled.complete)
    write(compiled, module)
    return module


# ---- Records ----------------------------------------------------------------------------------------------


def read(compiled: CompiledSpace) -> tuple[Interface, str] | None:
    """What is kept of its C: the interface and the digest of the text; None: nothing that is sound."""
    key = key_of(compiled)
    if key is None:
        return None
    path = cache_folder() / f"{key}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        seal = record.pop("seal")
        if record["key"] != key or seal != _seal(record):
            return None
        found = decoded(record["interface"], compiled.module, compiled.complete), str(record["text"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    with suppress(OSError):
        path.touch()
    return found


def write(compiled: CompiledSpace, module: CModule) -> None:
    """Keeps it, as far as there is a folder that can be written."""
    key = key_of(compiled)
    if key is None:
        return
    record = {
        "form": FORM,
        "key": key,
        "space": compiled.space.name,
        "text": module.digest,
        "interface": encoded(module.interface, compiled.module),
    }
    folder = cache_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="record-", dir=folder) as place:
            made = Path(place, "record.json")
            made.write_text(json.dumps({**record, "seal": _seal(record)}, indent=1), encoding="utf-8")
            made.replace(folder / f"{key}.json")


def _seal(record: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def key_of(compiled: CompiledSpace) -> str | None:
    """None: nothing is kept of this space."""
    sources = _sources_digest()
    if not compiled.digest or sources is None:
        return None
    # The text names the files of the space.
    files = (Path(name).name for name in compiled.space.sources)
    parts = (str(FORM), sys.version, sources, compiled.digest, compiled.space.name, *files)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@cache
def _sources_digest() -> str | None:
    return digest_of(PACKAGE, loaded.SINCE_S)


def digest_of(package: Path, unchanged_since_s: float) -> str | None:
    """Of the sources in a package; None: one has changed since, so that it need not be what runs."""
    digest = hashlib.sha256()
    for name in SOURCES:
        place = package / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in SUFFIXES:
                if path.stat().st_ctime > unchanged_since_s:
                    return None
                content = path.read_bytes()
                # The length in front keeps the border between two files part of what is hashed.
                digest.update(f"{path.relative_to(package)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()

"""The harness: the library through which a worker calls, times and checks implementations of one kernel.

In: a kernel's signature. Out: a shared library, built once for each processor and kept in the user's cache,
where that can be written.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from spacedsl import c_compilers
from spacedsl.codegen.c.build import BuildError, Compiler, build_library
from spacedsl.codegen.c.interface import Interface
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.scratch import sweep

_FLAGS = ("-O3", "-ftree-vectorize")
"""It looks through large arrays, and no bound is stated for it: the compiler may do what it can."""

_SOURCE = Path(__file__).with_suffix(".c")


def harness_library(kernel: Interface, compiler: Compiler, scratch: Path) -> Path:
    """The library for entry points with this kernel's arguments; in `scratch` where there is no cache.

    Raises `EnvironmentLack`.
    """
    code = _SOURCE.read_text(encoding="utf-8") + "\n" + _call_function(kernel)
    parts = (code, compiler.digest, *_FLAGS, c_compilers.processor())
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    cache = _cache_folder()
    library = cache / f"harness-{digest[:24]}.so"
    if os.access(library, os.R_OK):
        return library
    if os.access(cache, os.W_OK | os.X_OK):
        sweep(cache)
    else:
        library = scratch / library.name
    try:
        return build_library(code, library, compiler, extra_flags=_FLAGS)
    except BuildError as error:
        command = " ".join(compiler.command)
        raise EnvironmentLack(
            f"`{command}` cannot build what implementations are run with: {error}"
        ) from None


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "spacedsl"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _call_function(kernel: Interface) -> str:
    """Spreads an array of pointers over tensors (by address) and parameters (by value)."""
    types = [f"{'' if t.is_output else 'const '}{t.dtype.c_name} *" for t in kernel.tensors]
    values = [f"({kind})arguments[{n}]" for n, kind in enumerate(types)]
    for n, parameter in enumerate(kernel.parameters, len(types)):
        types.append(parameter.dtype.c_name)
        values.append(f"*(const {parameter.dtype.c_name} *)arguments[{n}]")
    return (
        "void harness_call(void *function, void *const *arguments) {\n"
        f"  ((void (*)({', '.join(types)}))function)({', '.join(values)});\n"
        "}\n"
    )

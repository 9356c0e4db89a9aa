"""The twin of a CUDA program: the same text as C++ for the CPU, where its results can be checked.

In: the text of `printer.py`. Out: a shared library with the entry point that the C of the kernel would
have, on arrays of the host. `twin.h` says how threads run there, and what is seen of their mistakes;
`races.h`, what a twin is told of each access and which ones may not meet.
"""

from __future__ import annotations

from pathlib import Path

from spacedsl.codegen.c.build import BUILD_TIMEOUT_S, build_library

_HEADERS = tuple(Path(__file__).parent / name for name in ("twin.h", "races.h"))

FLAGS = (
    "-O1", "-march=native", "-x", "c++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing",
    "-ffp-contract=fast", "-w", "-shared", "-fPIC", "-fno-sanitize=all",
)  # fmt: skip

WATCHED = ("-fsanitize=thread", "-nodefaultlibs", "-Wl,--no-as-needed", "-lgcc_s", "-lm", "-lc")
"""Flags of GCC beside those: the twin sees races, and runs some times as long. The library of that sanitizer
is left out, as `races.h` takes its place."""

BYTEWISE = "-DTWIN_CELL_BYTES=1"
"""For arrays of single bytes, whose neighbours are no race; else, races are looked for in cells of two."""

MOST_SHARED_BYTES = 256 << 10
"""Of a block, on any device."""


def unoptimised(code: str) -> tuple[str, ...]:
    """Flags, beside those, of a twin that is built in little time.

    Its threads have on their stacks what else is in registers: 0.06 bytes for each character of their text,
    at most, where that was looked at, and a multiple where sanitizers see to them.
    """
    kibibytes = max(256, len(code) >> 11)
    return ("-O0", f"-DTWIN_STACK_BYTES=({kibibytes}<<10)")


def build_twin(
    code: str,
    library: Path,
    *,
    order: int = 0,
    timeout_s: float = BUILD_TIMEOUT_S,
    extra_flags: tuple[str, ...] = (),
) -> Path:
    """The library. `order`: in which order threads take turns; 0 ascending, 1 descending, above shuffled.

    Its variable `twin_order` may be given another one between calls.

    Raises what `build_library` does.
    """
    text = "\n".join([
        f"#define TWIN_ORDER {order}", f"#define TWIN_SHARED_BYTES {MOST_SHARED_BYTES}",
        *(header.read_text(encoding="utf-8") for header in _HEADERS), '#line 1 "kernel.cu"', code,
    ])  # fmt: skip
    return build_library(text, library, timeout_s=timeout_s, flags=FLAGS, extra_flags=extra_flags)

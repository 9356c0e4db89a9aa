"""Which of many random programs for GPUs a soak compiles as for users: that takes ten times as long."""

from __future__ import annotations

from spacedsl.codegen.cuda.nvrtc import QUICKLY

THOROUGH = 5
"""Of so many, one."""


def is_thorough(number: int) -> bool:
    return number % THOROUGH == 0


def compiler_options(number: int) -> tuple[str, ...]:
    """That NVRTC compiles it with."""
    return () if is_thorough(number) else (QUICKLY,)

"""spacedsl: describe a space of implementations, explore it, generate the code, measure it.

The names below lie in `spacedsl.api`, which is imported when one of them is first used.
"""

from typing import TYPE_CHECKING

import spacedsl.loaded  # noqa: F401 (before all others, to know since when)

if TYPE_CHECKING:
    from spacedsl.api import explore, load, load_kernel, load_space, replay, resume

__all__ = ["explore", "load", "load_kernel", "load_space", "replay", "resume"]


def __getattr__(name: str) -> object:
    if name in __all__:
        import spacedsl.api

        return getattr(spacedsl.api, name)
    raise AttributeError(f"module 'spacedsl' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*globals(), *__all__]

"""The `.space` language: text to a typed space.

    text --parser--> syntax --checker--> Space (`space.py`)

Nothing here knows of kernels, objects or propagation.
"""

from spacedsl.language.loader import check_file, check_source, load_space

__all__ = ["check_file", "check_source", "load_space"]

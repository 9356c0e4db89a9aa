"""The `.space` language: text to a typed space.

    text --parser--> syntax --checker--> Space (`space.py`)

Nothing here knows of kernels, objects or propagation. `loader.py` does all of it.
"""

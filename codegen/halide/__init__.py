"""Pipelines for Halide: the algorithm and a schedule as the text of a Python module."""

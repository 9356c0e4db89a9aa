"""A pipeline of all that integers of a type can do."""

from __future__ import annotations

from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from tests.kernels.pipeline.files import pipeline


def arithmetic(dtype: str) -> PipelineFile:
    """On values from their whole range, and on small ones."""
    made = [
        "a(x) + b(x)", "a(x) - b(x)", "a(x) * b(x)", "a(x) / b(x)", "a(x) % b(x)", "a(x) / c(x)",
        "a(x) % c(x)", "a(x) << c(x)", "a(x) >> c(x)", "a(x) << 200", "a(x) >> 200", "-a(x)", "~a(x)",
        "a(x) & b(x) | c(x) ^ a(x)", "min(a(x), b(x)) + max(b(x), c(x))", "abs(a(x))", "absd(a(x), b(x))",
        "select(a(x) < b(x) && !(c(x) == 0), a(x), c(x))", "bool(c(x))", "i32(a(x)) * i32(b(x)) - i32(c(x))",
        "clamp(a(x), 3, 90)", "u8_sat(a(x))", "i16_sat(a(x))", "u64(a(x)) + i8(b(x))",
        "mux(x, a(x), b(x), 7)",
        "f32(c(x)) * 0.5", "(a(x) + b(x) + 1) / 2", "a(x) / 3 - b(x) % 7", "a(x) + 1 > a(x)",
    ]  # fmt: skip
    made = [each for each in made if "200" not in each or dtype not in ("i8",)]
    stages = "\n".join(f"made{n}(x) = {each}" for n, each in enumerate(made))
    outputs = ", ".join(f"made{n}: {{x: 40}}" for n in range(len(made)))
    inputs = ", ".join(f"{name}: {{dtype: {dtype}, rank: 1}}" for name in "ab")
    least = -9 if dtype.startswith("i") else 0
    inputs += f", c: {{dtype: {dtype}, rank: 1, values: [{least}, 70]}}"
    return pipeline(stages, f"{{{outputs}}}", f"{{{inputs}}}")

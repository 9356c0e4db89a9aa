"""Pipelines as modules of Python that run with the package `halide`.

In: a kernel file of a pipeline. Out: the text of a module. Its function `build` gives inputs, parameters and
outputs by name; `run` takes and gives arrays. Nothing here needs Halide.
"""

from __future__ import annotations

from collections.abc import Mapping

from spacedsl.codegen.halide.definitions import Names, define, named, points
from spacedsl.codegen.halide.directives import copied, directives
from spacedsl.codegen.halide.python import (
    Assign,
    Atom,
    Blank,
    Call,
    Definition,
    Do,
    Return,
    Statement,
    Table,
    Verbatim,
    print_module,
)
from spacedsl.codegen.halide.unrolling import unrolled
from spacedsl.codegen.pipeline.schedule import Decisions, schedule
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import Algorithm, Box, expressions, walk
from spacedsl.kernels.pipeline.copies import without_copies
from spacedsl.kernels.pipeline.kernel_file import PipelineFile

MOST_TERMS = 25
"""Of a reduction that is written out."""


def has_bf16(algorithm: Algorithm) -> bool:
    """Whether a pipeline has values of a type that arrays of Halide in Python do not have."""
    stages = (value for stage in algorithm.stages for value in stage.values)
    updates = (value for s in algorithm.stages for update in s.updates for value in expressions(update))
    nodes = (node for value in (*stages, *updates) for node in walk(value))
    return any(each.dtype is DType.BF16 for each in (*algorithm.inputs, *algorithm.parameters, *nodes))


_IMPORTS = """
import halide as hl
import numpy as np

"""

_SIZED = '''

def sized(buffer, points):
    """Tells Halide how large an input or an output is."""
    for dim, (low, extent) in enumerate(points):
        buffer.dim(dim).set_bounds(low, extent)
        buffer.dim(dim).set_estimate(low, extent)


def wanted(func, points):
    """Tells Halide which part of a Func is an output."""
    sized(func.output_buffers()[0], points)  # what is known of one is known of all
    func.set_estimates([hl.Range(low, extent) for low, extent in points])


'''

_RUN = '''

def placed(buffer, points):
    """With its first element at the least point."""
    buffer.set_min([low for low, _ in points])
    return buffer


def run(**given):
    """The outputs by name, of inputs and parameters by theirs; the latter have values already.

    Arrays have the innermost dimension last: image[c, y, x] is image(x, y, c).
    """
    inputs, parameters, outputs = build()
    for name, value in given.items():
        if name in inputs:
            buffer = hl.Buffer(np.asarray(value, order="C"))
            inputs[name].set(placed(buffer, POINTS[name]))
        else:
            parameters[name].set(value)
    results = {}
    for name, func in outputs.items():
        for count, kind in enumerate(func.types()):
            buffer = hl.Buffer(kind, [extent for _, extent in POINTS[name]])
            results[f"{name}_{count}" if len(func.types()) > 1 else name] = placed(buffer, POINTS[name])
    hl.Pipeline(list(outputs.values())).realize(list(results.values()))
    return {name: np.array(buffer) for name, buffer in results.items()}
'''


def algorithm_text(kernel: PipelineFile, *, most_terms: int = MOST_TERMS, is_at_root: bool = False) -> str:
    """The algorithm alone, as one writes it for Halide by hand: what is computed where is left to Halide.

    A reduction over at most `most_terms` points is written out as an expression; with 0, none is. What
    `is_at_root` computes each stage by itself, before the next one.
    """
    algorithm = unrolled(kernel.algorithm, most_terms)
    names = named(algorithm)
    body = define(algorithm, kernel.boxes, names)
    if is_at_root:
        inner = {names.sources[s.name] for s in algorithm.stages} - set(names.results.values())
        roots = (Do(Call(f"{name}.compute_root", ())) for name in names.sources.values() if name in inner)
        body = (*body, Blank(), *roots)
    return module(algorithm, kernel.boxes, names, f"The algorithm of `{algorithm.name}`, for Halide.", body)


def schedule_text(kernel: PipelineFile, decisions: Decisions, vector_bytes: int) -> str:
    """The algorithm with the schedule of a complete candidate; `vector_bytes`: of the machine."""
    steps = kernel.backbone.steps
    inlined = {s.stage.name: s.copied for s in steps if s.copied and decisions.site(s) == "INLINE"}
    algorithm = without_copies(kernel.backbone.algorithm, inlined)
    names = named(algorithm)
    alone = {s.stage.name for s in steps if all(r.is_exit for r in s.readers)}
    results = alone.intersection(copied(schedule(steps, decisions)))
    body = define(algorithm, kernel.backbone.needed, names, results)
    body = (*body, Blank(), *directives(kernel.backbone, decisions, names, vector_bytes))
    about = f"`{algorithm.name}`, for Halide, with a schedule that spacedsl has found."
    return module(algorithm, kernel.boxes, names, about, body)


def module(
    algorithm: Algorithm, boxes: Mapping[str, Box], names: Names, about: str, body: tuple[Statement, ...]
) -> str:
    """`body`: statements that define, and maybe schedule, all Funcs that `names` knows."""
    inputs = [i for i in algorithm.inputs if i.name in boxes]
    run = _RUN
    if any(i.dtype is DType.U64 for i in inputs):
        # The package knows them by another one of their two names.
        known = "value.view(np.ulonglong) if value.dtype == np.uint64 else value"
        run = run.replace("np.asarray(value, ", f"np.asarray({known}, ")
    if any(p.dtype is DType.F64 for p in algorithm.parameters):
        held = "hl.Buffer(np.array(value, float)) if isinstance(parameters[name], hl.ImageParam) else value"
        run = run.replace("parameters[name].set(value)", f"parameters[name].set({held})")

    def table(names: Mapping[str, str]) -> Table:
        return Table(tuple((name, Atom(made)) for name, made in names.items()))

    returned = Return(
        (
            table({i.name: names.sources[i.name] for i in inputs}),
            table({p.name: names.sources[p.name] for p in algorithm.parameters}),
            table(names.results),
        )
    )
    statements = (
        Verbatim(_IMPORTS),
        Assign("POINTS", Table(tuple(points(algorithm, boxes)))),
        Verbatim(_SIZED),
        Definition("build", "Inputs, parameters and outputs by name.", (*body, Blank(), returned)),
        Verbatim(run),
    )
    return print_module(about, statements)

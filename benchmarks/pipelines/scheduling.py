"""Halide schedules an algorithm and compiles it, in a process of its own.

    python -m benchmarks.pipelines.scheduling TASK

In: a `Task` as JSON. Out: an object file, with Halide's runtime in it, and as the last line of the output
what is to be known of it as JSON: the schedule, and how long scheduling and compiling took; or why there is
none. Needs Halide and nothing of the product; what schedulers make of some algorithms ends the process,
which is for the caller to see. Nothing is measured here.
"""

from __future__ import annotations

import json
import resource
import runpy
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EDGES = ("repeat_edge", "repeat_image", "mirror_image", "mirror_interior", "constant_exterior")
"""Names of Funcs that Halide makes for what lies beyond inputs begin so."""

INLINE = "inline"
AT_ROOT = "root"


@dataclass(frozen=True, slots=True)
class Task:
    algorithm: str
    """A Python file, whose function `build` gives inputs, parameters and outputs by name."""
    values: tuple[float, ...]
    """Of its parameters, for estimates."""
    scheduler: str
    """`INLINE`, `AT_ROOT`, or what Halide calls an autoscheduler."""
    parameters: Mapping[str, str]
    """Of the autoscheduler."""
    symbol: str
    """What the function is called in the object file."""
    result: str
    """The object file."""
    memory_bytes: int
    """What the process may take."""
    are_inputs_fixed: bool
    """Else what the algorithm says of the sizes of inputs are estimates, and each call says them."""
    target: str
    """What the code is for, as Halide says it; empty: this machine."""


def main(text: str) -> None:
    task = Task(**json.loads(text))
    resource.setrlimit(resource.RLIMIT_AS, (task.memory_bytes, task.memory_bytes))
    print(json.dumps(_done(task)), flush=True)


def _done(task: Task) -> dict[str, object]:
    try:
        import halide as hl
    except ImportError:
        return {"absent": "halide is not installed"}
    inputs, parameters, outputs = runpy.run_path(task.algorithm)["build"]()
    pipeline, arguments = hl.Pipeline([*outputs.values()]), [*inputs.values(), *parameters.values()]
    for parameter, value in zip(parameters.values(), task.values, strict=True):
        parameter.set_estimate(value)
    if not task.are_inputs_fixed:
        for given in inputs.values():
            for dimension in range(given.dimensions()):
                given.dim(dimension).set_bounds(hl.Expr(), hl.Expr())
    target = hl.Target(task.target) if task.target else hl.get_host_target()
    try:
        began = time.perf_counter()
        schedule = _schedule(task, pipeline, target, hl)
        scheduled = time.perf_counter()
        pipeline.compile_to({hl.OutputFileType.object: task.result}, arguments, task.symbol, target)
        compiled = time.perf_counter()
    except hl.HalideError as error:
        words = str(error).removeprefix("Error:").strip()
        return {"absent": f"Halide refuses: {words or 'it does not say why'}"}
    return {
        "schedule": schedule,
        "schedule_s": scheduled - began,
        "compile_s": compiled - scheduled,
        "target": str(target),
    }


def _schedule(task: Task, pipeline: Any, target: Any, hl: Any) -> str:
    """Schedules the pipeline; says how, in Halide's words."""
    if task.scheduler == INLINE:
        return "\n".join(_naive(output, target, hl) for output in pipeline.outputs())
    if task.scheduler == AT_ROOT:
        return "\n".join(line for stage in _stages(pipeline, hl) for line in _at_root(stage, target, hl))
    plugin = f"libautoschedule_{task.scheduler.lower()}.so"
    hl.load_plugin(str(next(Path(hl.install_dir()).glob(f"lib*/{plugin}"))))
    parameters = hl.AutoschedulerParams(task.scheduler, dict(task.parameters))
    return str(pipeline.apply_autoscheduler(target, parameters).schedule_source)


def _stages(pipeline: Any, hl: Any) -> Iterator[Any]:
    """In an order in which each reads earlier ones; what wraps inputs, and what a border is, is inlined."""
    number = 0
    while True:
        try:
            stage = pipeline.get_func(number)
        except hl.HalideError:
            return
        if not stage.name().endswith("_im") and not stage.name().startswith(_EDGES):
            yield stage
        number += 1


def _at_root(stage: Any, target: Any, hl: Any) -> Iterator[str]:
    stage.compute_root()
    yield f"{stage.name()}.compute_root(){_naive(stage, target, hl).removeprefix(stage.name())}"
    for number in range(stage.num_update_definitions()):
        yield f"{stage.name()}.update({number}){_loops(stage.update(number), stage, target, hl)};"


def _naive(stage: Any, target: Any, hl: Any) -> str:
    return f"{stage.name()}{_loops(stage, stage, target, hl)};"


def _loops(definition: Any, stage: Any, target: Any, hl: Any) -> str:
    """The outermost variable in parallel, the innermost one in vectors, as far as the definition has them."""
    variables, said = stage.args(), ""
    lanes = target.natural_vector_size(stage.types()[0])
    if len(variables) > 1:
        said += _tried(lambda: definition.parallel(variables[-1]), f".parallel({variables[-1].name()})", hl)
    if variables:
        inner = variables[0]
        said += _tried(lambda: definition.vectorize(inner, lanes), f".vectorize({inner.name()}, {lanes})", hl)
    return said


def _tried(directive: Any, words: str, hl: Any) -> str:
    """Nothing for an update that does not have the variable."""
    try:
        directive()
    except hl.HalideError:
        return ""
    return words


if __name__ == "__main__":
    main(sys.argv[1])

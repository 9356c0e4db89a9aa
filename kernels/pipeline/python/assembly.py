"""A pipeline that Python has built, as a kernel file.

In: a `Pipeline`, and the sizes that it has been built with. Out: its algorithm, and the text that is read as
the same; or a `PipelineError`. The definitions of all Funcs that the outputs need follow each other as they
were made, those of reductions before what they stand in.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from spacedsl.kernels.located_yaml import MOST_CHARACTERS
from spacedsl.kernels.pipeline import definitions
from spacedsl.kernels.pipeline.algorithm import Algorithm, Box, Extent, Stage, Variable
from spacedsl.kernels.pipeline.arguments import ambiguous
from spacedsl.kernels.pipeline.bounds import infer
from spacedsl.kernels.pipeline.python.callers import Caller, PipelineError, failure, located
from spacedsl.kernels.pipeline.python.expressions import below
from spacedsl.kernels.pipeline.python.funcs import Func, Input, Output, Param, Pipeline
from spacedsl.kernels.pipeline.python.resolution import Callers, Definition, resolved
from spacedsl.kernels.pipeline.python.terms import Reading
from spacedsl.kernels.pipeline.text import print_pipeline
from spacedsl.kernels.pipeline.typing import DefinitionError
from spacedsl.kernels.unique_names import UniqueNames


def algorithm_of(pipeline: Pipeline, sizes: Mapping[str, int] = MappingProxyType({})) -> Algorithm:
    """Raises `PipelineError`; no stage, input, parameter or variable can be called as one of the sizes."""
    used = _Used(pipeline)
    names = used.names(sizes)
    callers = Callers()
    stages: dict[str, Stage] = {}
    for func, definition in used.definitions:
        before = stages.pop(func.name, None)
        found = located(
            lambda f=func, b=before, d=definition: resolved(f.name, b, d, names, callers),  # type: ignore[misc]
            definition.caller,
        )
        stages |= {stage.name: stage for stage in (*found.reductions, found.stage)}
    outputs: dict[str, Box] = {}
    for output in pipeline.outputs:
        if output.func.name in outputs:
            error = DefinitionError("KF011", f"`{output.func.name}` is an output already")
            raise failure(error, output.caller)
        outputs[output.func.name] = _box(output)
    inputs = tuple(i.declared for i in used.inputs)
    needed, problems = infer(tuple(stages.values()), inputs, outputs)
    if problems:
        raise PipelineError(
            diagnostic
            for problem in problems
            for diagnostic in failure(
                definitions.out_of_bounds(problem, inputs),
                callers.read((problem.stage, problem.update), problem.read),
            ).diagnostics
        )
    algorithm = Algorithm(
        pipeline.name,
        inputs,
        tuple(p.parameter for p in used.parameters),
        tuple(stage for stage in stages.values() if stage.name in needed),
        MappingProxyType(outputs),
    )
    for name, array in ambiguous(algorithm):
        output = next(each for each in pipeline.outputs if each.func.name == name)
        raise failure(definitions.called_twice(name, array), output.caller)
    return algorithm


def text_of(pipeline: Pipeline, sizes: Mapping[str, int] = MappingProxyType({})) -> str:
    """The kernel file; raises `PipelineError`."""
    algorithm = algorithm_of(pipeline, sizes)
    text = print_pipeline(
        algorithm,
        sizes=sizes,
        tolerance=pipeline.tolerance,
        cache=pipeline.cache,
        space=pipeline.space,
        decisions=pipeline.decisions,
    )
    if len(text) > MOST_CHARACTERS:
        message = f"a kernel file of more than {MOST_CHARACTERS:,} characters is not supported"
        raise failure(DefinitionError("KF008", message), pipeline.caller)
    return text


class _Used:
    """What the outputs of a pipeline need, in the order in which it was made."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        funcs = dict.fromkeys(output.func for output in pipeline.outputs)
        inputs: dict[Input, None] = {}
        parameters: dict[Param, None] = {}
        pending = list(funcs)
        while pending:
            for definition in pending.pop().definitions:
                for each in below(definition.expressions):
                    if isinstance(each, Param):
                        parameters[each] = None
                    elif isinstance(each, Reading) and isinstance(each.source, Input):
                        inputs[each.source] = None
                    elif isinstance(each, Reading) and each.source not in funcs:
                        assert isinstance(each.source, Func)
                        funcs[each.source] = None
                        pending.append(each.source)
        self.funcs = sorted(funcs, key=lambda f: f.order)
        self.inputs = sorted(inputs, key=lambda i: i.order)
        self.parameters = sorted(parameters, key=lambda p: p.order)

    @property
    def definitions(self) -> list[tuple[Func, Definition]]:
        all_of_them = [(func, definition) for func in self.funcs for definition in func.definitions]
        return sorted(all_of_them, key=lambda pair: pair[1].order)

    def names(self, sizes: Mapping[str, int]) -> UniqueNames:
        """All that mean something; raises `PipelineError` (KF011) where one means two things."""
        known: dict[str, tuple[str, Caller]] = {}
        for kind, makers in (
            ("an input", self.inputs), ("a parameter", self.parameters), ("a Func", self.funcs)
        ):  # fmt: skip
            for maker in makers:
                if maker.name in sizes:
                    message = f"`{maker.name}` is a size and cannot be {kind} as well"
                    raise failure(DefinitionError("KF011", message), maker.caller)
                if maker.name in known:
                    what, where = known[maker.name]
                    message = f"`{maker.name}` is {what} and cannot be {kind} as well"
                    if what == kind:
                        message = f"two of these are called `{maker.name}`"
                    raise failure(DefinitionError("KF011", message), maker.caller, (where, "the other one"))
                known[maker.name] = (kind, maker.caller)
        outside = {**dict.fromkeys(sizes, "a size"), **{n: k for n, (k, _) in known.items() if k != "a Func"}}
        for _, definition in self.definitions:
            for name in _variables(definition):
                if name in outside:
                    message = f"`{name}` is {outside[name]} and cannot be a variable as well"
                    raise failure(DefinitionError("KF011", message), definition.caller)
        return UniqueNames({*known, *sizes})


def _variables(definition: Definition) -> list[str]:
    """Also those of ranges, which stand in what they go through."""
    found = [e.node.name for e in below(definition.expressions) if isinstance(e.node, Variable)]
    return [*found, *(r.name for r in definition.ranges)]


def _box(output: Output) -> Box:
    def make() -> Box:
        stage = output.func.stage
        if stage is None:
            message = f"`{output.func.name}` has no value yet"
            raise DefinitionError("KF060", message, f"define it first: `{output.func.name}[..] = 0`")
        if len(output.extents) != len(stage.variables):
            variables = ", ".join(f"`{v}`" for v in stage.variables) or "none"
            numbers = ["640", "480", *["3"] * len(stage.variables)][: len(stage.variables)]
            hint = f"give the extent of each: `{stage.name}.output({', '.join(numbers)})`"
            raise DefinitionError("KF066", f"the variables of `{stage.name}` are {variables}", hint)
        return tuple(map(_extent, stage.variables, output.extents))

    return located(make, output.caller)


def _extent(variable: str, given: range) -> Extent:
    found = definitions.range_of(variable, given.start, given.stop)
    return Extent(found.low, definitions.points(found.high - found.low))

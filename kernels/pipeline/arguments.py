"""What a program for a pipeline is called with: its arrays, then its parameters.

In: an algorithm, and the boxes that `bounds.py` found. Out: a dense array for each input that is needed, then
one for each value of each output, in the order of the file; the parameters. Which values they have is for
`cases.py`, and where a program computes what is between them for code generation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import Algorithm, Box, Extent, Stage
from spacedsl.kernels.tensors import Parameter, Tensor, dense_strides


def held(algorithm: Algorithm, boxes: Mapping[str, Box]) -> dict[str, Box]:
    """The points that the arrays of each needed input and of each output have.

    The first element of an array is the least point. An input has all of its extents where these are
    declared, and what is needed of it elsewhere; an output what is wanted of it, even where more is needed.
    """
    inputs = {
        i.name: tuple(Extent(0, size) for size in i.extents) or boxes[i.name]
        for i in algorithm.inputs
        if i.name in boxes
    }
    return inputs | dict(algorithm.outputs)


def arguments(algorithm: Algorithm, boxes: Mapping[str, Box]) -> tuple[Tensor, ...]:
    """Inputs, then outputs; the innermost dimension of a box is the last one of its array."""
    points = held(algorithm, boxes)
    inputs = (_dense(i.name, i.dtype, points[i.name], False) for i in algorithm.inputs if i.name in points)
    outputs = (
        _dense(name, dtype, box, True)
        for stage, box in ((algorithm.stage(name), box) for name, box in algorithm.outputs.items())
        for name, dtype in zip(value_names(stage), stage.dtypes, strict=True)
    )
    return (*inputs, *outputs)


def parameters(algorithm: Algorithm) -> tuple[Parameter, ...]:
    """In the order of the file, whether something reads them or not."""
    return tuple(Parameter(p.name, p.dtype) for p in algorithm.parameters)


def value_names(stage: Stage) -> tuple[str, ...]:
    """Of the arrays with the values of a stage: its own where it has one, `name_0`, `name_1` of several."""
    if len(stage.values) == 1:
        return (stage.name,)
    return tuple(f"{stage.name}_{element}" for element in range(len(stage.values)))


def ambiguous(algorithm: Algorithm) -> Iterator[tuple[str, str]]:
    """Outputs of several values of which an array is called as another argument is: the output, the array."""
    outputs = {name: value_names(algorithm.stage(name)) for name in algorithm.outputs}
    given = [*(i.name for i in algorithm.inputs), *(p.name for p in algorithm.parameters)]
    count = Counter([*given, *chain.from_iterable(outputs.values())])
    for output, arrays in outputs.items():
        yield from ((output, array) for array in arrays if array != output and count[array] > 1)


def _dense(name: str, dtype: DType, box: Box, is_output: bool) -> Tensor:
    shape = tuple(extent.size for extent in reversed(box))
    return Tensor(name, dtype, shape, dense_strides(shape), is_output)

"""The arrays that a program for a pipeline is called with."""

from __future__ import annotations

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import Extent
from spacedsl.kernels.pipeline.arguments import arguments, held, parameters
from spacedsl.kernels.tensors import Parameter, Tensor
from tests.kernels.pipeline.files import pipeline

TEXT = """
part(x) = (input(x - 1) + table(x), u8(x))
more(x, y) = part(x).0 + gain + input(y)
best(x) = (part(2 * x).0, part(2 * x).1)
"""
INPUTS = """
  unread: {dtype: f64, rank: 3}
  input: {dtype: f32, rank: 1}
  table: {dtype: f32, extents: [40]}
"""


def test_arrays_are_the_needed_inputs_and_then_the_wanted_values_of_outputs() -> None:
    file = pipeline(
        TEXT, "{best: {x: 2:9}, more: {x: 5, y: -4:3}}", INPUTS, "params: {gain: {dtype: f32, value: 2}}\n"
    )
    assert arguments(file.algorithm, file.boxes) == (
        Tensor("input", DType.F32, (20,), (1,), False),
        Tensor("table", DType.F32, (40,), (1,), False),
        Tensor("best_0", DType.F32, (7,), (1,), True),
        Tensor("best_1", DType.U8, (7,), (1,), True),
        Tensor("more", DType.F32, (7, 5), (5, 1), True),
    )
    assert parameters(file.algorithm) == (Parameter("gain", DType.F32),)


def test_an_array_begins_at_the_least_point_of_its_box() -> None:
    file = pipeline(
        TEXT, "{best: {x: 2:9}, more: {x: 5, y: -4:3}}", INPUTS, "params: {gain: {dtype: f32, value: 2}}\n"
    )
    assert held(file.algorithm, file.boxes) == {
        "input": (Extent(-4, 20),),
        "table": (Extent(0, 40),),
        "best": (Extent(2, 7),),
        "more": (Extent(0, 5), Extent(-4, 7)),
    }


def test_an_output_has_what_is_wanted_of_it_and_not_what_others_read() -> None:
    file = pipeline("a(x) = f32(x)\nb(x) = a(x) + a(x + 9)", "{a: {x: 3}, b: {x: 2}}")
    assert file.boxes["a"] == (Extent(0, 11),)
    assert [t.shape for t in arguments(file.algorithm, file.boxes)] == [(3,), (2,)]

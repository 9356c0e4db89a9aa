"""The shape of a kernel file: which keys there are and what kind of value each takes.

In: plain data from YAML, through `validation.read_model`. Out: a `KernelEntry` or, of the plain backbone, a
`PlainEntry`. What the values mean together is checked in the two `kernel_file.py`; what editors read is made
from the same models by `json_schema.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

ComputedName = Literal["f32", "f64", "i32"]
"""Types that there is arithmetic for."""
DTypeName = Literal["f32", "f64", "i32", "bf16", "f16"]
PipelineTypeName = Literal[
    "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "bool"
]  # fmt: skip
Extent = Annotated[
    StrictInt | StrictStr, Field(description="a number, the name of a size, or arithmetic with them")
]

Tolerance = Annotated[StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)], Field(ge=0)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class TensorEntry(_Entry):
    """An array argument."""

    dtype: DTypeName
    """Element type."""
    shape: list[Extent]
    """Extent of each dimension."""
    strides: list[Extent] | None = None
    """Elements between neighbours along each dimension; packed row by row when absent."""
    output: StrictBool = False
    """Whether the kernel writes it."""
    pad: list[Extent] | None = None
    """Of an input: how many zeros are read before and after the elements of each dimension."""


class DecisionEntry(_Entry):
    """A decision that the expert has made: a choice on objects keeps only these values."""

    choice: StrictStr
    objects: list[StrictStr]
    values: list[StrictStr | StrictInt] = Field(min_length=1)


class SearchEntry(_Entry):
    """Defaults of the search; the command line wins."""

    target: Literal["cpu", "cuda"] | None = None
    time: StrictStr | StrictInt | StrictFloat | None = None
    """Budget: `10m`, `90s`, `1h30m`, or a number of seconds."""
    evaluations: StrictInt | None = Field(default=None, ge=1)
    device: StrictStr | None = None
    """A GPU: `h100`, or the file of one."""
    ordering: StrictStr | None = None
    policy: StrictStr | None = None
    seed: StrictInt | None = Field(default=None, ge=0)


Precision = Literal["full", "tensor", "tf32"]


class KernelEntry(_Entry):
    """A kernel of dense linear algebra."""

    kernel: StrictStr
    """Its name: a C identifier."""
    backbone: Literal["linalg"]
    sizes: dict[str, StrictInt] = {}
    """Named extents."""
    tensors: dict[str, TensorEntry]
    params: dict[str, ComputedName] = {}
    """Scalar arguments and their types."""
    extents: dict[str, Extent] = {}
    """Of indices that stand alone in no subscript, as those of a window do."""
    compute: list[StrictStr] = Field(min_length=1)
    """Assignments `T[i, ..] = expression`, in order."""
    accumulate: ComputedName | None = None
    """What lines compute in, partial sums above all; f32 for bf16 and f16, else the widest type of a line."""
    precision: Precision = "full"
    """Of sums of products that tensor cores can do: `tensor` lets them multiply bf16 and f16, and sum up in
    f32, in an order and with a rounding of their own; `tf32` also f32, of which they take 11 bits."""
    tiling: dict[str, list[list[StrictInt]]] = {}
    """For each index, the factors on offer at each level inside the outermost; inferred when absent."""
    tolerance: Tolerance | None = None
    """Relative error that is accepted against the reference."""
    cache: Literal["warm", "cold"] = "warm"
    """Whether a measured run finds its data in the caches."""
    space: StrictStr | None = None
    """The `.space` file, relative to this one; that of the backbone when absent."""
    decisions: list[DecisionEntry] = []
    """Decisions that have been made already."""
    search: SearchEntry = SearchEntry()


class InputEntry(_Entry):
    """An array that a pipeline reads."""

    dtype: PipelineTypeName
    """Element type."""
    rank: StrictInt | None = Field(default=None, ge=0)
    """How many dimensions it has; not needed where `extents` are given."""
    extents: list[Extent] | None = None
    """Of each dimension, from 0 on, the innermost first; what is read says it when absent."""
    values: list[StrictInt] | None = Field(default=None, min_length=2, max_length=2)
    """The least and the greatest element, where positions depend on it."""


class ScalarEntry(_Entry):
    """A scalar argument of a pipeline."""

    dtype: PipelineTypeName
    value: StrictBool | StrictInt | StrictFloat
    """What is explored and checked with."""


class PipelineEntry(_Entry):
    """A pipeline: stages over integer variables."""

    kernel: StrictStr
    """Its name: a C identifier."""
    backbone: Literal["pipeline"]
    sizes: dict[str, StrictInt] = {}
    """Named numbers."""
    params: dict[str, ScalarEntry] = {}
    """Scalar arguments."""
    inputs: dict[str, InputEntry] = {}
    """Array arguments."""
    stages: StrictStr
    """Definitions `f(x, y) = expression` and updates of them, in order."""
    outputs: dict[str, dict[str, Extent]] = Field(min_length=1)
    """Stages that are results, and which part: for each variable how many points from 0 on, or `low:high`."""
    tolerance: Tolerance | None = None
    """Error that is accepted of what is not exact, relative to the largest element of an output."""
    cache: Literal["warm", "cold"] = "warm"
    """Whether a measured run finds its data in the caches."""
    space: StrictStr | None = None
    """The `.space` file, relative to this one; that of the backbone when absent."""
    decisions: list[DecisionEntry] = []
    """Decisions that have been made already."""
    search: SearchEntry = SearchEntry()


class ObjectEntry(BaseModel):
    """An object of the plain backbone: its name and any attributes."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, JsonValue]

    name: StrictStr
    """Unlike that of every other object."""


def _named(entry: object) -> object:
    """An object without attributes is written as its name alone."""
    return {"name": entry} if isinstance(entry, str) else entry


class PlainEntry(_Entry):
    """Objects with attributes, about which a space of one's own decides."""

    kernel: StrictStr
    """Its name."""
    backbone: Literal["plain"]
    space: StrictStr
    """The `.space` file, relative to this one."""
    parameters: dict[str, JsonValue] = {}
    """Values of the kernel: numbers, true or false, names of objects, lists of these."""
    objects: dict[
        str, list[Annotated[ObjectEntry, BeforeValidator(_named, json_schema_input_type=ObjectEntry | str)]]
    ]
    """The objects of each kind."""
    decisions: list[DecisionEntry] = []

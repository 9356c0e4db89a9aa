"""The applications of the library: what each computes, and what it reads of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spacedsl.kernels.backbones import load_any
from spacedsl.kernels.formats import NUMPY_TYPE
from spacedsl.kernels.pipeline.algorithm import Input
from spacedsl.kernels.pipeline.bounds import infer
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.reference import evaluate, shape
from tests.kernels.pipeline import references

Array = NDArray[Any]
Inputs = dict[str, Array]

LIBRARY = Path(__file__).parents[3] / "kernels" / "library" / "pipelines"
NAMES = sorted(path.stem for path in LIBRARY.glob("*.yaml"))


@dataclass(frozen=True)
class Case:
    """An application at a small size, and how near to its reference it is."""

    sizes: Mapping[str, int]
    told: tuple[str, ...] = ()
    """Those sizes that its reference cannot see in the inputs."""
    given: Callable[[Inputs], Inputs] = lambda inputs: inputs
    """From random numbers to inputs that mean something."""
    rtol: float = 1e-5
    atol: float = 1e-6
    """Both of floats."""
    share: float = 0.0
    """Of integers, how many may be another one's neighbour, since they have been floats before."""


def toned(inputs: Inputs) -> Inputs:
    """What is wanted of an image depends on its colours, and not as an affine map would say."""
    small = inputs["small"]
    return inputs | {"wanted": np.sqrt(small[::-1]) * small}


def with_holes(inputs: Inputs) -> Inputs:
    """Half of the pixels are not there at all, and the others partly."""
    image = inputs["image"].copy()
    image[3] = np.maximum(2 * image[3] - 1, 0)
    return {"image": image}


def beyond_black_and_white(inputs: Inputs) -> Inputs:
    return {"image": inputs["image"] * np.float32(1.2) - np.float32(0.1)}


def of_little_contrast(inputs: Inputs) -> Inputs:
    return {"image": inputs["image"] / 8}


def darker_to_the_left(inputs: Inputs) -> Inputs:
    image = inputs["image"]
    return {"image": (image * np.linspace(0.1, 1, image.shape[2])).astype(image.dtype)}


def of_ten_bits(inputs: Inputs) -> Inputs:
    return {"sensor": inputs["sensor"] % np.uint16(1024)}


def of_both_signs(inputs: Inputs) -> Inputs:
    return {name: array - np.float32(0.5) for name, array in inputs.items()}


def lone_pixels(inputs: Inputs) -> Inputs:
    """About one in a thousand."""
    image = inputs["image"]
    return {"image": image * (image > 0.999)}


SMALL = {"width": 45, "height": 34}
CHANNELS = {"inputs": 5, "outputs": 3, "width": 9, "height": 7, "batch": 2}
CELLS = {"cell": 8, "bins": 4}
LENS = {"slices": 16, "focus": 5, "reach": 5, "samples": 12}

CASES = {
    "bilateral_grid": Case(SMALL, given=beyond_black_and_white),
    "bgu": Case(SMALL | CELLS | {"factor": 3}, tuple(CELLS), given=toned, rtol=1e-4, atol=1e-5),
    "blur": Case(SMALL),
    "camera_pipe": Case({"width": 46, "height": 34}, given=of_ten_bits),
    "conv_layer": Case(CHANNELS, given=of_both_signs),
    "depthwise_separable_conv": Case(CHANNELS, given=of_both_signs),
    "harris": Case(SMALL, atol=1e-8),
    "hist_eq": Case(SMALL, given=darker_to_the_left),
    "iir_blur": Case(SMALL),
    "interpolate": Case({"width": 200, "height": 180}, given=with_holes),
    "learned_demosaic": Case({"width": 13, "height": 9, "features": 5}, given=of_both_signs),
    "lens_blur": Case({"width": 90, "height": 70} | LENS, tuple(LENS)),
    "local_laplacian": Case(SMALL | {"levels": 4}, ("levels",), given=darker_to_the_left, share=0.01),
    "matmul": Case({"n": 17}),
    "max_filter": Case({"width": 90, "height": 70}, given=lone_pixels),
    "nl_means": Case(SMALL, given=of_little_contrast),
    "stencil_chain": Case(SMALL),
    "toy_add": Case(SMALL, ("width", "height")),
    "toy_blur": Case(SMALL),
    "toy_trig": Case(SMALL, ("width", "height")),
    "unsharp": Case(SMALL),
    "vgg": Case({"last": 1, "channels": 2, "batch": 2}, given=of_both_signs),
}


GRAY = [(0, 1535), (0, 2559)]
COLOURS = [*GRAY, (0, 2)]

VGG = [
    ("1_1", 64, 3), ("1_2", 64, 64), ("2_1", 128, 64), ("2_2", 128, 128), ("3_1", 256, 128),
    ("3_2", 256, 256), ("3_3", 256, 256), ("4_1", 512, 256), ("4_2", 512, 512), ("4_3", 512, 512),
    ("5_1", 512, 512), ("5_2", 512, 512), ("5_3", 512, 512),
]  # fmt: skip
"""Layers of VGG-16, and how many channels each makes of how many."""

READ = {
    "bilateral_grid": {"image": GRAY},
    "bgu": {
        "small": [(0, 191), (0, 319), (0, 2)],
        "wanted": [(0, 191), (0, 319), (0, 2)],
        "large": COLOURS,
    },
    "blur": {"input": [(0, 6401), (0, 4801)]},
    "camera_pipe": {"sensor": [(10, 2581), (6, 1937)]},
    "conv_layer": {
        "image": [(0, 63), (0, 129), (0, 129), (0, 3)],
        "filter": [(0, 63), (0, 2), (0, 2), (0, 63)],
        "bias": [(0, 63)],
    },
    "depthwise_separable_conv": {
        "image": [(0, 31), (0, 111), (0, 111), (0, 3)],
        "depthwise": [(0, 31), (0, 2), (0, 2)],
        "pointwise": [(0, 15), (0, 31)],
        "bias": [(0, 15)],
    },
    "harris": {"image": COLOURS},
    "hist_eq": {"image": COLOURS},
    "iir_blur": {"image": COLOURS},
    "interpolate": {"image": [*GRAY, (0, 3)]},
    "learned_demosaic": {
        "mosaic": GRAY,
        "filter_1": [(0, 15), (0, 2), (0, 2), (0, 3)],
        "bias_1": [(0, 15)],
        "filter_2": [(0, 15), (0, 2), (0, 2), (0, 15)],
        "bias_2": [(0, 15)],
        "filter_3": [(0, 11), (0, 2), (0, 2), (0, 15)],
        "bias_3": [(0, 11)],
    },
    "lens_blur": {eye: [(0, 191), (0, 319), (0, 2)] for eye in ("left", "right")},
    "local_laplacian": {"image": COLOURS},
    "matmul": {matrix: [(0, 2047), (0, 2047)] for matrix in ("a", "b")},
    "max_filter": {"image": COLOURS},
    "nl_means": {"image": COLOURS},
    "stencil_chain": {"input": GRAY},
    "toy_add": {},
    "toy_blur": {"input": [(0, 2049), (0, 2049)]},
    "toy_trig": {},
    "unsharp": {"image": COLOURS},
    "vgg": {"image": [(0, 2), (0, 223), (0, 223), (0, 3)]}
    | {
        name: box
        for layer, outputs, inputs in VGG
        for name, box in (
            (f"filter_{layer}", [(0, outputs - 1), (0, 2), (0, 2), (0, inputs - 1)]),
            (f"bias_{layer}", [(0, outputs - 1)]),
        )
    },
}
"""Of each input, the least and the greatest position along each dimension, the innermost first."""


def load(name: str, sizes: Mapping[str, int] = MappingProxyType({})) -> PipelineFile:
    file = load_any(LIBRARY / f"{name}.yaml", sizes)
    assert isinstance(file, PipelineFile)
    return file


def random_input(file: PipelineFile, given: Input, rng: np.random.Generator) -> Array:
    """Floats from 0 to 1, and integers of all values."""
    box, dtype = file.boxes[given.name], NUMPY_TYPE[given.dtype]
    if given.dtype.is_float:
        return rng.random(shape(box)).astype(dtype)
    return rng.integers(given.dtype.least, given.dtype.greatest, shape(box), dtype, endpoint=True)


def evaluated(file: PipelineFile, case: Case) -> tuple[Inputs, Inputs]:
    """Random inputs, and all stages."""
    rng = np.random.default_rng(7)
    inputs = case.given({i.name: random_input(file, i, rng) for i in file.algorithm.inputs})
    stages = evaluate(file.algorithm, file.boxes, inputs)
    return inputs, {name: elements[0] for name, elements in stages.items()}


def is_right(file: PipelineFile, case: Case) -> bool:
    """At the sizes that the file has been read with."""
    inputs, stages = evaluated(file, case)
    (output,) = file.algorithm.outputs
    reference = getattr(references, file.name)
    got, wanted = stages[output], reference(**inputs, **{size: file.sizes[size] for size in case.told})
    assert got.shape == wanted.shape
    if np.issubdtype(got.dtype, np.floating):
        return bool(np.allclose(got, wanted, case.rtol, case.atol, equal_nan=True))
    apart = abs(got.astype(np.int64) - wanted)
    return bool(apart.max() <= 1 and np.mean(apart > 0) <= case.share)


def test_every_application_has_a_case() -> None:
    assert sorted(CASES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_application_computes_what_its_description_says(name: str) -> None:
    assert is_right(load(name, CASES[name].sizes), CASES[name])


@pytest.mark.parametrize("name", [name for name in NAMES if "width" in CASES[name].sizes])
def test_it_does_so_where_an_image_is_smaller_than_its_filters(name: str) -> None:
    case = CASES[name]
    assert is_right(load(name, {**case.sizes, "width": 6, "height": 8}), case)


def test_lens_blur_smooths_costs_with_all_levels_of_its_pyramid() -> None:
    """They are seen only where the coarsest one has several pixels, and hardly in what depth is the best."""
    sizes = {"width": 400, "height": 264, "slices": 3, "focus": 1, "reach": 1, "samples": 1}
    inputs, stages = evaluated(load("lens_blur", sizes), CASES["lens_blur"])
    wanted = references.smoothed_costs(**inputs, slices=3, reach=1)
    # Where there is little confidence, it is the difference of numbers that are nearly the same.
    assert np.mean(np.isclose(stages["filtered"], wanted, 1e-5)) > 0.99
    np.testing.assert_allclose(stages["filtered"], wanted, 1e-2)


def read_of_inputs(file: PipelineFile) -> dict[str, list[tuple[int, int]]]:
    """What the stages read, whatever the file declares."""
    inputs = [replace(i, extents=()) for i in file.algorithm.inputs]
    needed, problems = infer(file.algorithm.stages, inputs, file.algorithm.outputs)
    assert not problems
    return {i.name: [(e.low, e.high) for e in needed[i.name]] for i in inputs}


@pytest.mark.parametrize("name", NAMES)
def test_it_reads_of_its_inputs_what_its_full_size_takes(name: str) -> None:
    assert read_of_inputs(load(name)) == READ[name]

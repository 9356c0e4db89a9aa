"""The applications of the comparison, and what is aimed at for each.

Data only: an application is a kernel file of `kernels/library/pipelines`, at its own sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LEAST_RATIO = 0.7
"""Of the time of the best of Halide's schedulers over ours, for each application."""

MEAN_RATIO = 1.0
"""The geometric mean of all applications."""


@dataclass(frozen=True, slots=True)
class Application:
    name: str
    """Stem of its file."""
    time_s: float = 600.0
    """Of its exploration, unless another one is asked for."""
    aim: float = LEAST_RATIO


_SMALL_S = 180.0

APPLICATIONS = (
    Application("toy_add", _SMALL_S),
    Application("toy_blur", _SMALL_S),
    Application("toy_trig", _SMALL_S),
    Application("blur", _SMALL_S),
    Application("matmul", _SMALL_S, aim=2.5),
    Application("conv_layer", _SMALL_S, aim=2.5),
    Application("depthwise_separable_conv", _SMALL_S),
    Application("unsharp", _SMALL_S),
    Application("harris"),
    Application("hist_eq"),
    Application("iir_blur"),
    Application("bilateral_grid"),
    Application("max_filter"),
    Application("learned_demosaic"),
    Application("nl_means"),
    Application("camera_pipe"),
    Application("bgu"),
    Application("interpolate"),
    Application("vgg"),
    Application("lens_blur"),
    Application("stencil_chain"),
    Application("local_laplacian"),
)
BY_NAME: Mapping[str, Application] = {application.name: application for application in APPLICATIONS}

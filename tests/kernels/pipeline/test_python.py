"""Pipelines that Python builds are those that a kernel file says: the same words mean the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from spacedsl import pipeline as pl
from spacedsl.diagnostics import Source
from spacedsl.kernels.backbones import check_file, load_any
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Expression,
    Stage,
    Update,
    operands,
    with_operands,
)
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.python.assembly import algorithm_of, text_of
from tests.kernels.pipeline.algorithms import algorithms
from tests.kernels.pipeline.built import built
from tests.kernels.pipeline.files import pipeline, read

LIBRARY = Path(__file__).parents[3] / "kernels" / "library" / "pipelines"
NAMES = sorted(path.stem for path in LIBRARY.glob("python/[a-z]*.py"))


# ---- Whatever an algorithm is -----------------------------------------------------------------------------


def joined(node: Expression) -> Expression:
    """With `&&` and `||` for the `&` and `|` of conditions, which Python has one operator for."""
    inner = with_operands(node, tuple(joined(part) for part in operands(node)))
    if isinstance(inner, Binary) and inner.dtype is DType.BOOL and inner.operator in ("&", "|"):
        return replace(inner, operator="&&" if inner.operator == "&" else "||")
    return inner


def with_joined(algorithm: Algorithm) -> Algorithm:
    def update(given: Update) -> Update:
        condition = None if given.condition is None else joined(given.condition)
        point, values = tuple(map(joined, given.point)), tuple(map(joined, given.values))
        return replace(given, point=point, values=values, condition=condition)

    def stage(given: Stage) -> Stage:
        values, updates = tuple(map(joined, given.values)), tuple(map(update, given.updates))
        return replace(given, values=values, updates=updates)

    return replace(algorithm, stages=tuple(map(stage, algorithm.stages)))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(algorithms())
def test_a_random_algorithm_is_the_same_in_python(drawn: Algorithm) -> None:
    wanted = with_joined(drawn)
    made = built(wanted)
    algorithm = algorithm_of(made)
    # What no stage reads does not come along.
    assert set(algorithm.inputs) <= set(wanted.inputs)
    assert set(algorithm.parameters) <= set(wanted.parameters)
    wanted = replace(wanted, inputs=algorithm.inputs, parameters=algorithm.parameters)
    assert repr(algorithm) == repr(wanted)
    assert read(text_of(made)).algorithm == wanted


# ---- The library ------------------------------------------------------------------------------------------


def loaded(path: Path | str, **sizes: int) -> PipelineFile:
    file = load_any(Path(path), sizes)
    assert isinstance(file, PipelineFile)
    return file


@pytest.mark.parametrize("name", NAMES)
def test_an_application_in_python_is_the_one_of_its_kernel_file(name: str) -> None:
    written, made = loaded(LIBRARY / f"{name}.yaml"), loaded(LIBRARY / "python" / f"{name}.py:build")
    assert made.algorithm == written.algorithm
    assert made.boxes == written.boxes
    assert made.sizes.items() >= written.sizes.items()


def test_stages_are_as_many_as_an_argument_says() -> None:
    path = LIBRARY / "python" / "local_laplacian.py:build"
    flat, deep = loaded(path, width=64, height=64, depth=2), loaded(path, width=64, height=64, depth=5)
    assert len(deep.algorithm.stages) - len(flat.algorithm.stages) == 3 * 13
    chain = loaded(LIBRARY / "python" / "stencil_chain.py:build", stages=100)
    assert len(chain.algorithm.stages) == 201


@pytest.mark.parametrize("name", NAMES)
def test_what_is_recorded_of_a_run_is_read_without_python(name: str) -> None:
    sizes = {"last": 1} if name == "vgg" else {"width": 200}
    made = loaded(LIBRARY / "python" / f"{name}.py:build", **sizes)
    again = check_file(Source(str(made.path), made.text), made.path, made.sizes)
    assert isinstance(again, PipelineFile)
    assert (again.algorithm, again.sizes, again.text) == (made.algorithm, made.sizes, made.text)


# ---- What text says by other means ------------------------------------------------------------------------

Build = Callable[[pl.Var, pl.Var, pl.Input, pl.Func, pl.Func], object]


def sums(x: pl.Var, y: pl.Var, image: pl.Input, f: pl.Func, g: pl.Func) -> None:
    r, s = pl.RDom(i=3, j=range(-1, 2)), pl.RDom(k=2)
    r.where(r.i + r.j < x)
    f[x, y] = pl.sum(r, image[x + r.i, y] * r.j) + pl.sum(s, image[x, y + s.k])
    g[x] = f[x, 0]


def nested(x: pl.Var, y: pl.Var, image: pl.Input, f: pl.Func, g: pl.Func) -> None:
    r, s = pl.RDom(i=3), pl.RDom(j=4)
    f[x, y] = pl.maximum(r, pl.product(s, image[x + r.i, y + s.j]) + y)
    g[x] = f[x, 0]


def best(x: pl.Var, y: pl.Var, image: pl.Input, f: pl.Func, g: pl.Func) -> None:
    r = pl.RDom(r=range(2, 9))
    f[x, y] = pl.argmin(r, image[r.r, y])
    g[x] = f[x, 0] + pl.argmax(r, image[x, r.r]) + pl.minimum(r, image[x, r.r])


def updates(x: pl.Var, y: pl.Var, image: pl.Input, f: pl.Func, g: pl.Func) -> None:
    r = pl.RDom(r=range(1, 5), s=3)
    r.where(r.r < r.s)
    f[x, y] = 0
    f[x, r.r] = pl.max(f[x, r.r], image[x, r.s])
    f[x, y] -= 1
    f[2, y] *= pl.sum(pl.RDom(k=3), image[0, y])
    g[x] = f[x, 0]


def several(x: pl.Var, y: pl.Var, image: pl.Input, f: pl.Func, g: pl.Func) -> None:
    r = pl.RDom(r=7)
    f[x, y] = (0, pl.u8(255))
    index, least = f[x, y]
    f[x, y] = (
        pl.select(image[r.r, y] < least, r.r, index),
        pl.min(least, image[r.r, y]),
    )
    g[x] = f[x, 1][0] + f[x, 2][1]


def beyond(x: pl.Var, y: pl.Var, image: pl.Input, f: pl.Func, g: pl.Func) -> None:
    f[x, y] = pl.mirror_image(image, x - 3, y) + pl.constant_exterior(image, 7, x, y + 1)
    g[x] = f[x, 0] + pl.mirror_interior(image, x, 3) + pl.repeat_image(image, x, -x)


def beyond_stages(x: pl.Var, y: pl.Var, image: pl.Input, f: pl.Func, g: pl.Func) -> None:
    several = pl.Func("several")
    several[x, y] = (x + y, image[x, y])
    f[x, y] = pl.mirror_image(several, x - 3, y, bounds=[5, None])[1] + y
    g[x] = pl.constant_exterior(f, -1, x, 2, bounds=[range(1, 4), None])


def types(x: pl.Var, y: pl.Var, image: pl.Input, f: pl.Func, g: pl.Func) -> None:
    f[x, y] = pl.select((image[x, y] > 3) & ~(x == 2), pl.i16(image[x, y]) << 2, y < 1, x, -1)
    g[x] = pl.saturated(pl.u8, pl.lerp(0.5, pl.bf16(f[x, 1]), 0.25) + 1) + pl.absd(image[x, 0], 7)


def numbers(x: pl.Var, y: pl.Var, image: pl.Input, f: pl.Func, g: pl.Func) -> None:
    f[x, y] = pl.mux(x, [1, 2.5, image[x, y]]) + pl.clamp(y, -1, 3) // 2 % 3
    g[x] = pl.min(2, 3) * image[x, 0] + pl.atan2(x, 1) + abs(f[x, 0] + 1) * pl.exp(pl.mux(x, 1, f[x, 1]))


SAME: dict[Build, str] = {
    sums: """
        f(x, y) = sum[i in 0:3, j in -1:2 where i + j < x](image(x + i, y) * j)
            + sum[k in 0:2](image(x, y + k))
        g(x) = f(x, 0)""",
    nested: """
        f(x, y) = max[i in 0:3](prod[j in 0:4](image(x + i, y + j)) + y)
        g(x) = f(x, 0)""",
    best: """
        f(x, y) = argmin[r in 2:9](image(r, y))
        g(x) = f(x, 0) + argmax[r in 2:9](image(x, r)) + min[r in 2:9](image(x, r))""",
    updates: """
        f(x, y) = 0
        f(x, r) max= image(x, s) for r in 1:5, s in 0:3 where r < s
        f(x, y) -= 1
        f(2, y) *= sum[k in 0:3](image(0, y))
        g(x) = f(x, 0)""",
    several: """
        f(x, y) = (0, u8(255))
        f(x, y) = (select(image(r, y) < f(x, y).1, r, f(x, y).0), min(f(x, y).1, image(r, y)))
            for r in 0:7
        g(x) = f(x, 1).0 + f(x, 2).1""",
    beyond: """
        f(x, y) = mirror_image(image, x - 3, y) + constant_exterior(image, 7, x, y + 1)
        g(x) = f(x, 0) + mirror_interior(image, x, 3) + repeat_image(image, x, -x)""",
    beyond_stages: """
        several(x, y) = (x + y, image(x, y))
        f(x, y) = mirror_image(several, x - 3 in 0:5, y).1 + y
        g(x) = constant_exterior(f, -1, x in 1:4, 2)""",
    types: """
        f(x, y) = select((image(x, y) > 3) && !(x == 2), i16(image(x, y)) << 2, y < 1, x, -1)
        g(x) = u8_sat(lerp(0.5, bf16(f(x, 1)), 0.25) + 1) + absd(image(x, 0), 7)""",
    numbers: """
        f(x, y) = mux(x, 1, 2.5, image(x, y)) + clamp(y, -1, 3) / 2 % 3
        g(x) = min(2, 3) * image(x, 0) + atan2(x, 1) + abs(f(x, 0) + 1) * exp(mux(x, 1, f(x, 1)))""",
}


@pytest.mark.parametrize("build", SAME, ids=lambda build: build.__name__)
def test_python_means_what_text_means(build: Build) -> None:
    f, g = pl.Func("f"), pl.Func("g")
    build(pl.Var("x"), pl.Var("y"), pl.Input("image", pl.u8, [20, 20]), f, g)
    made = algorithm_of(pl.Pipeline("k", g.output(6)))
    written = pipeline(SAME[build], "{g: {x: 6}}", "{image: {dtype: u8, extents: [20, 20]}}").algorithm
    assert made == written


def test_sums_may_have_many_terms() -> None:
    x, f = pl.Var("x"), pl.Func("f")
    f[x] = sum((pl.f32(x + n) * (n + 0.5) for n in range(1, 240)), pl.f32(x))
    made = pl.Pipeline("k", f.output(4))
    assert read(text_of(made)).algorithm == algorithm_of(made)


def test_a_reduction_that_is_used_twice_is_computed_once() -> None:
    x, f = pl.Var("x"), pl.Func("f")
    total = pl.sum(pl.RDom(r=3), x)
    f[x] = total * total
    assert [s.name for s in algorithm_of(pl.Pipeline("k", f.output(4))).stages] == ["f_sum", "f"]


def test_stages_of_reductions_keep_out_of_the_way_of_others() -> None:
    x, f, other = pl.Var("x"), pl.Func("f"), pl.Func("f_sum")
    f[x] = pl.sum(pl.RDom(r=3), x)
    other[x] = f[x]
    made = algorithm_of(pl.Pipeline("k", other.output(4)))
    assert [s.name for s in made.stages] == ["f_sum_2", "f", "f_sum"]
    text = "f(x) = sum[r in 0:3](x)\nf_sum(x) = f(x)"
    assert pipeline(text, "{f_sum: {x: 4}}").algorithm.stages == made.stages

"""The comparison with Halide: its data, its libraries, what it keeps and what it says of ratios.

Halide need not be installed: a library in C stands for what it compiles. Where it is, it schedules, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import LIBRARY
from benchmarks.contest import PRODUCT, Entry, hold
from benchmarks.pipelines import __main__ as program
from benchmarks.pipelines.applications import BY_NAME, LEAST_RATIO
from benchmarks.pipelines.buffers import SYMBOL
from benchmarks.pipelines.calls import halide_call, rooms
from benchmarks.pipelines.cases import signature, write_case
from benchmarks.pipelines.data import Data
from benchmarks.pipelines.halide import SCHEDULERS, Prepared, Workplace, library_of, prepare
from benchmarks.pipelines.inlining import values_of_a_point
from benchmarks.pipelines.report import Comparison, Making, Summary, comparison
from benchmarks.pipelines.results import Place, Settings
from benchmarks.pipelines.side import Side
from benchmarks.ratios import Ratio, Row
from benchmarks.turns import AbsentError
from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.halide.export import algorithm_text
from spacedsl.kernels.backbones import load_measurable
from spacedsl.kernels.evaluation import Timing
from spacedsl.kernels.pipeline.kernel_file import PipelineFile

PIPELINES = LIBRARY / "pipelines"

KERNEL = """\
kernel: slope
backbone: pipeline
sizes: {width: 40, height: 24}
params:
  scale: {dtype: f32, value: 3}
inputs:
  image: {dtype: f32, extents: [width, height]}
stages: |
  half(x, y) = image(x, y) / 2
  slope(x, y) = (half(x + 1, y) + half(x, y - 1)) * scale
outputs:
  slope: {x: "2:width - 1", y: "1:height"}
"""

PLAIN = """
void slope(const float *image, float *slope, float scale) {
  for (int y = 1; y < 24; y++)
    for (int x = 2; x < 39; x++)
      slope[(y - 1) * 37 + x - 2] = (image[y * 40 + x + 1] / 2 + image[(y - 1) * 40 + x] / 2) * scale;
}
void wrong(const float *image, float *result, float scale) {
  slope(image, result, scale);
  result[36] *= 1.01f;
}
"""

# As Halide's own header, HalideRuntime.h, has these records.
LIKE_HALIDE = """
#include <stdint.h>
#include <stddef.h>
struct dimension { int32_t min, extent, stride; uint32_t flags; };
struct buffer {
  uint64_t device; const void *interface; uint8_t *host; uint64_t flags;
  struct { uint8_t code, bits; uint16_t lanes; } type;
  int32_t dimensions; struct dimension *dim; void *padding;
};
static void (*handler)(void *, const char *);
void *halide_set_error_handler(void (*given)(void *, const char *)) { handler = given; return 0; }
static float *at(struct buffer *b, int x, int y) {
  return (float *)b->host + (x - b->dim[0].min) * b->dim[0].stride + (y - b->dim[1].min) * b->dim[1].stride;
}
int halide_pipeline(struct buffer *image, float scale, struct buffer *slope) {
  if (!image->host) {
    image->dim[0] = (struct dimension){2, 40, 1, 0};
    image->dim[1] = (struct dimension){-3, 26, 40, 0};
    return 0;
  }
  if (image->type.code != 2 || image->type.bits != 32 || image->dimensions != 2) return -2;
  if (image->dim[1].min > -3) { handler(0, "image is accessed at -3"); return -1; }
  for (int y = slope->dim[1].min; y < slope->dim[1].min + slope->dim[1].extent; y++)
    for (int x = slope->dim[0].min; x < slope->dim[0].min + slope->dim[0].extent; x++)
      *at(slope, x, y) = (*at(image, x + 1, y) / 2 + *at(image, x, y - 1) / 2) * scale;
  return 0;
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> PipelineFile:
    path = tmp_path / "slope.yaml"
    path.write_text(KERNEL)
    return _loaded(path)


def _loaded(path: Path, **sizes: int) -> PipelineFile:
    kernel = load_measurable(path, sizes)
    assert isinstance(kernel, PipelineFile)
    return kernel


@pytest.fixture
def case(kernel: PipelineFile, tmp_path: Path) -> Path:
    folder = tmp_path / "case"
    folder.mkdir()
    write_case(kernel, folder)
    return folder


def test_the_applications_are_those_of_the_library() -> None:
    assert set(BY_NAME) == {path.stem for path in PIPELINES.glob("*.yaml")}
    assert {a.name for a in BY_NAME.values() if a.aim != LEAST_RATIO} == {"matmul", "conv_layer"}


def test_a_result_that_is_wrong_in_one_element_is_noticed(kernel: PipelineFile, case: Path) -> None:
    data = Data.read(case, signature(kernel), {})
    data.poison()
    assert "nan" in data.error()
    (image,), (slope,) = ([placed.array for placed in side] for side in (data.inputs, data.outputs))
    half = image / 2
    slope[...] = (half[1:, 3:] + half[:-1, 2:-1]) * np.float32(3)
    assert data.error() == ""
    slope[5, 7] *= np.float32(1.001)
    assert "slope[5, 7]" in data.error()


def test_what_surrounds_an_input_in_a_larger_array_means_nothing(kernel: PipelineFile, case: Path) -> None:
    called = signature(kernel)
    (alone,) = Data.read(case, called, {}).inputs
    (surrounded,) = Data.read(case, called, {"image": ((-3, 28), (0, 42))}).inputs
    assert surrounded.array.ctypes.data % 4096 == alone.array.ctypes.data % 4096 == 0
    assert np.array_equal(surrounded.array[3:27, :40], alone.array)
    assert np.isnan(surrounded.array[:3]).all() and np.isnan(surrounded.array[:, 40:]).all()
    assert np.count_nonzero(np.isnan(surrounded.array)) == 28 * 42 - 24 * 40


def test_ours_and_halides_libraries_take_turns_on_the_same_data(
    kernel: PipelineFile, case: Path, tmp_path: Path
) -> None:
    plain = str(build_library(PLAIN, tmp_path / "plain.so"))
    halide = str(build_library(LIKE_HALIDE, tmp_path / "halide.so"))
    called = signature(kernel)
    needed = rooms(halide, SYMBOL, called)
    # Rows of Halide's first dimension lie innermost, and what the input has is needed in any case.
    assert needed == {"image": ((-3, 27), (0, 42))}
    sides = {
        PRODUCT: Side("c", plain, "slope", called, str(case), (0,)),
        "wrong": Side("c", plain, "wrong", called, str(case), (0,)),
        "root": Side("halide", halide, SYMBOL, called, str(case), (0,), needed),
        "refused": Side("halide", halide, SYMBOL, called, str(case), (0,)),
    }
    entries = [Entry(name, "", side, sys.executable) for name, side in sides.items()]
    contest = hold(entries, rounds=1, round_ms=1)
    assert [c.name for c in contest.contenders] == [PRODUCT, "root"]
    assert contest.absent["wrong"].startswith("its result is wrong: slope[0, 36]")
    assert contest.absent["refused"] == "Halide's code refuses: image is accessed at -3"


def test_what_halide_refuses_without_words_is_absent_too(
    kernel: PipelineFile, case: Path, tmp_path: Path
) -> None:
    code = "int halide_set_error_handler(void *h) { return 0; } int halide_pipeline(void) { return -5; }"
    library = str(build_library(code, tmp_path / "code.so"))
    called = signature(kernel)
    with pytest.raises(AbsentError, match="refuses"):
        rooms(library, SYMBOL, called)
    with pytest.raises(AbsentError, match="refuses"):
        halide_call(library, SYMBOL, Data.read(case, called, {}), called.scalars)()


def test_inlining_counts_each_place_once_and_ranges_as_often_as_they_go(tmp_path: Path) -> None:
    path = tmp_path / "counted.yaml"
    path.write_text("""\
kernel: counted
backbone: pipeline
sizes: {n: 8}
inputs:
  a: {dtype: f32, extents: [n + 2]}
stages: |
  b(x) = a(x) + 1
  c(x) = b(x) * b(x) + b(x + 1)   # 1 + 2
  d(x) = 0.0                      # 1 + 3 * (1 + 3)
  d(x) += c(x) for i in 0:3
  e(x) = d(x) + c(x)              # 1 + 13 + 3
outputs:
  e: {x: n}
""")
    assert values_of_a_point(_loaded(path).algorithm) == 17


# ---- Schedules -----------------------------------------------------------------------------------------

STUB = """
import os, pathlib, time
class HalideError(Exception): ...
with open("tries", "a") as tries: tries.write("x")
"""


def _workplace(**changes: object) -> Workplace:
    facts = {
        "python": Path(sys.executable), "version": "21", "processor": "p", "threads": 1, "limit_s": 20.0,
        "memory_bytes": 1 << 34,
    }  # fmt: skip
    return Workplace(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("algorithm", "limit_s", "reason"),
    [
        ("import os; os.abort()", 20.0, "its scheduling ended with status -6"),
        ("import time; time.sleep(60)", 1.0, "no schedule in 1 s"),
        ("raise RuntimeError('too much')", 20.0, "its scheduling ended with status 1: RuntimeError"),
    ],
)
def test_a_scheduler_that_ends_its_process_or_never_ends_is_reported_and_tried_again_with_more_time(
    algorithm: str,
    limit_s: float,
    reason: str,
    kernel: PipelineFile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = tmp_path / "tries"
    (tmp_path / "halide.py").write_text(STUB.replace('"tries"', repr(str(tries))))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    path = tmp_path / "algorithm.py"
    path.write_text(algorithm)
    called, scheduler = signature(kernel), SCHEDULERS["Mullapudi2016"]

    def prepared(limit_s: float) -> Prepared:
        return prepare(path, scheduler, called, tmp_path, _workplace(limit_s=limit_s))

    first = prepared(limit_s)
    assert first.absent.startswith(reason)
    tried = len(tries.read_text())
    assert prepared(limit_s) == first
    assert len(tries.read_text()) == tried
    path.write_text("import os; os.abort()")
    assert "status -6" in prepared(limit_s).absent


def test_without_halide_its_schedulers_are_absent(kernel: PipelineFile, tmp_path: Path) -> None:
    path = tmp_path / "algorithm.py"
    path.write_text(algorithm_text(kernel))
    found = prepare(path, SCHEDULERS["root"], signature(kernel), tmp_path, _workplace(version=""))
    assert found.absent == "halide is not installed"
    assert not list(tmp_path.glob("root.*"))


@pytest.mark.parametrize("name", ["inline", "root", "Mullapudi2016", "Adams2019-beam1"])
def test_halides_schedules_compute_what_the_reference_does(
    name: str, kernel: PipelineFile, case: Path, tmp_path: Path
) -> None:
    pytest.importorskip("halide")
    path = tmp_path / "algorithm.py"
    path.write_text(algorithm_text(kernel))
    called, scheduler = signature(kernel), SCHEDULERS[name]
    found = prepare(path, scheduler, called, tmp_path, _workplace())
    assert found.absent == ""
    assert "slope" in (tmp_path / f"{name}.schedule").read_text()
    data = Data.read(case, called, found.rooms)
    data.poison()
    halide_call(str(library_of(scheduler, tmp_path)), SYMBOL, data, called.scalars)()
    assert data.error() == ""


# ---- What is kept, and what is said --------------------------------------------------------------------


def _row(name: str, ratio: float, variant: str = "") -> Row:
    wall = Timing(1e6 * ratio, 0.9e6 * ratio, 1.1e6 * ratio, 9)
    return Row(name, variant, wall, 2e6 * ratio, 1.9, Ratio(ratio, 0.9 * ratio, 1.1 * ratio), ratio)


def _comparison(application: str, *ratios: float) -> Comparison:
    rows = [_row(PRODUCT, 1.0), *(_row(f"scheduler-{n}", ratio) for n, ratio in enumerate(ratios))]
    return comparison(application, rows, {"scheduler-0": Making(1.5, 2.5)}, {"inline": "too slow"})


def test_the_summary_is_of_the_best_schedulers() -> None:
    # Rows are the fastest first.
    found = [_comparison("blur", 0.5, 9.0), _comparison("harris", 2.0), _comparison("matmul", 1.0)]
    summary = Summary.of([*found, _comparison("unsharp")])
    assert summary.mean == pytest.approx(1.0)
    assert summary.below == ("blur",)
    assert summary.missed == ("matmul",)
    assert Summary.of([]).mean is None


def test_a_comparison_is_known_again_with_the_same_settings_alone(tmp_path: Path) -> None:
    settings = Settings("digest", 180.0, ("root",), 600.0, 45, 100, "processor", 2, "gcc", "21")
    place, found = Place(tmp_path), _comparison("blur", 0.5, 9.0)
    assert place.known(settings) is None
    place.keep(found, settings)
    assert place.known(settings) == found
    others = Settings("digest", 180.0, ("root", "inline"), 600.0, 45, 100, "processor", 2, "gcc", "21")
    assert place.known(others) is None


def test_a_second_call_goes_on_where_the_first_one_stood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"

    def call(*more: str) -> str:
        program.main([
            "--apps", "toy_add", "--schedulers", *more, "--time", "1s", "--rounds", "1", "--round-ms", "1",
            "--results", str(results), "--peers-python", sys.executable,
        ])  # fmt: skip
        return capsys.readouterr().err

    assert "exploring" in call()
    document = json.loads((results / "results.json").read_text())
    assert [a["application"] for a in document["applications"]] == ["toy_add"]
    assert "none" in (results / "results.txt").read_text()
    assert (results / "toy_add" / "best.c").exists()
    assert "toy_add: known" in call()
    # Another scheduler makes another comparison, of the same exploration.
    assert "toy_add: comparing" in call("inline")
    assert len(list((results / "toy_add" / "explored").rglob("run.sqlite"))) == 1

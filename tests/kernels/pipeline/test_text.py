"""What is printed of an algorithm is read as the same algorithm."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from spacedsl.kernels.backbones import load_any
from spacedsl.kernels.pipeline.algorithm import Algorithm
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.text import WIDTH, print_pipeline
from tests.kernels.pipeline.algorithms import algorithms
from tests.kernels.pipeline.files import mistakes, pipeline, read, text_of

LIBRARY = Path(__file__).parents[3] / "kernels" / "library" / "pipelines"


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(algorithms())
def test_a_random_algorithm_is_read_as_it_was_printed(algorithm: Algorithm) -> None:
    text = print_pipeline(algorithm)
    again = read(text).algorithm
    assert again == algorithm, text
    # Equal are also 0 and -0, and 1 and true.
    assert repr(again) == repr(algorithm), text


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.yaml")), ids=lambda p: p.stem)
def test_the_files_of_the_library_are_read_as_they_were_printed(path: Path) -> None:
    file = load_any(path)
    assert isinstance(file, PipelineFile)
    text = print_pipeline(file.algorithm)
    again = read(text)
    assert again.algorithm == file.algorithm
    assert again.boxes == file.boxes
    assert print_pipeline(again.algorithm) == text
    assert all(len(line) <= WIDTH for line in text.splitlines())


def lines(stages: str, output: str = "f", inputs: str = "{}") -> list[str]:
    """The stages as they are printed, the last of which has one variable."""
    printed = print_pipeline(pipeline(stages, f"{{{output}: {{x: 4}}}}", inputs).algorithm)
    body = printed.split("stages: |\n")[1].split("outputs:")[0]
    return [line.removeprefix("  ") for line in body.splitlines()]


@pytest.mark.parametrize(
    "line",
    [
        "f(x) = (x + 1) * 2 - -x",
        "f(x) = x - (x - 3) / 2 % 5",
        "f(x) = (x < 3 || x > 5) && !(x == 4)",
        "f(x) = x < 3 || x > 5 && !(x == 4)",
        "f(x) = 1 << x + 2 & ~x | 7",
        "f(x) = clamp(x, 0, 3)",
        "f(x) = min(x, 2 * x, 7)",
        "f(x) = select(x < 1, 5, x < 2, 6, 7)",
        "f(x) = u8(3)",
        "f(x) = u8(3) + 4",
        "f(x) = u64(18446744073709551615)",
        "f(x) = f64(x) * 0.1",
        "f(x) = 0.1",
        "f(x) = f16(0.1)",
        "f(x) = -inf",
        "f(x) = exp(2.0) + pow(0.5, 3)",
        "f(x) = undefined(f32)",
        "f(x) = true",
        "f(x) = bool(true) & false",
        "f(x) = f32(i32(3))",
        "f(x) = -i32(3)",
    ],
)
def test_a_line_has_no_more_parentheses_and_types_than_it_needs(line: str) -> None:
    assert lines(line) == [line]


def test_updates_and_elements_are_printed_as_they_are_written() -> None:
    stages = [
        "g(x) = (0, u8(1))",
        "g(x) min= (x * r, u8(r)) for r in -1:3, t in 0:2 where r < t",
        "f(x) = g(x + 1).0 + i32(g(0).1)",
    ]
    assert lines("\n".join(stages)) == stages


def test_long_lines_are_broken_between_operands() -> None:
    terms = " + ".join(f"image(clamp(x + {n}, 0, 15), 0)" for n in range(9))
    printed = lines(f"f(x) = {terms}", inputs="{image: {dtype: i32, extents: [16, 1]}}")
    assert len(printed) > 2
    assert all(line.lstrip().startswith(("f(x)", "+ image(")) for line in printed)
    assert " ".join(line.strip() for line in printed) == f"f(x) = {terms}"


@pytest.mark.parametrize("operator", ["+", "-", "/", "<<", "^"])
def test_long_sums_are_read_as_they_were_printed(operator: str) -> None:
    chain = f" {operator} ".join(f"u8(x + {n})" for n in range(240))
    algorithm = pipeline(f"f(x) = {chain}", "{f: {x: 4}}").algorithm
    text = print_pipeline(algorithm)
    assert read(text).algorithm == algorithm
    assert "(u8" not in text


@pytest.mark.parametrize("number", ["1e39", "-1e39", "inf - inf"])
def test_a_number_that_its_type_does_not_hold_is_refused(number: str) -> None:
    (mistake,) = mistakes(text_of(f"f(x) = f32(x) * ({number})", "{f: {x: 4}}"))
    assert mistake.code == "KF064"


def test_a_parameter_without_end_is_refused() -> None:
    text = text_of("f(x) = i32(p)", "{f: {x: 4}}", more="params: {p: {dtype: i32, value: .inf}}\n")
    (mistake,) = mistakes(text)
    assert mistake.code == "KF065"

"""What files and flags name: paths that lead nowhere, machines, orderings, configurations, kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.running import run
from tests.cli.test_mistakes import MATMUL, refused


@pytest.mark.parametrize("entry", ["space: loop.space", 'space: "a\\0.space"'])
def test_a_path_that_leads_nowhere_is_shown_where_a_kernel_file_names_it(entry: str, tmp_path: Path) -> None:
    (tmp_path / "loop.space").symlink_to("loop.space")
    kernel = tmp_path / "own.yaml"
    kernel.write_text(f"{MATMUL.read_text(encoding='utf-8')}\n{entry}\n", encoding="utf-8")
    refused(run("explore", kernel, "--runs", tmp_path / "runs"), 1, "error KF041")


def test_a_device_that_can_be_no_file_is_shown_where_a_kernel_file_names_it(tmp_path: Path) -> None:
    kernel = tmp_path / "own.yaml"
    search = 'search: {target: cuda, device: "a\\0.yaml"}'
    kernel.write_text(f"{MATMUL.read_text(encoding='utf-8')}\n{search}\n", encoding="utf-8")
    refused(run("solve", kernel), 1, "error KF044", "No such file")


@pytest.mark.parametrize(
    "command", [["resume"], ["measure"], ["explore", MATMUL, "--space"], ["explore", MATMUL, "--runs"]]
)
def test_a_link_that_leads_back_to_itself_is_a_usage_error(command: list[object], tmp_path: Path) -> None:
    loop = tmp_path / "loop.space"
    loop.symlink_to(loop)
    refused(run(*command, loop), 2, f"{loop}: ")


def test_an_ordering_of_the_configuration_is_shown_there(tmp_path: Path, machine: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text('[tool.spacedsl]\nordering = "luck"\n')
    flags = ("--size", "m=8,n=8,k=4", "--runs", tmp_path / "runs", "--config", config)
    ran = run("explore", MATMUL, *flags)
    refused(ran, 2, f"{config}: [tool.spacedsl] `ordering`: `luck` is neither an ordering")
    assert "--ordering" not in ran.err


@pytest.mark.parametrize("text", ["", "[spacedsl]\nseed = 1\n", "[tool.other]\n"])
def test_a_configuration_that_is_named_has_the_table(text: str, tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text(text)
    refused(run("explore", MATMUL, "--config", config), 2, f"{config}: there is no table [tool.spacedsl]")


@pytest.mark.parametrize("command", ["solve", "stats", "explain"])
@pytest.mark.parametrize("flags", [("--target", "bogus"), ("--target", "cpu"), ("--device", "h100")])
def test_a_plain_kernel_is_for_no_machine(command: str, flags: tuple[str, str]) -> None:
    plain = MATMUL.parent / "plain" / "registers.yaml"
    refused(
        run(command, plain, *flags), 2, f"{plain}: a plain kernel is for no machine: leave out {flags[0]}"
    )


def test_what_is_wrong_in_a_recorded_kernel_is_shown_at_its_path(explored: Run, tmp_path: Path) -> None:
    document = json.loads(explored.best.read_text(encoding="utf-8"))
    document["kernel"]["text"] += "tolerance: much\n"
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(document), encoding="utf-8")
    ran = run("replay", edited)
    refused(ran, 1, f"{document['kernel']['path']}:", "error KF")
    assert str(edited) not in ran.err


def test_a_bound_is_not_given_a_time() -> None:
    refused(run("explain", MATMUL, "--bound", "--time", "3m"), 2, "--time: a bound is not searched for")

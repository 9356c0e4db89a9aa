"""What the comparison of seeds shows of a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.spread import main, nest
from spacedsl import record
from spacedsl.kernels.kernel_file import load_kernel

_KERNEL = Path(__file__).resolve().parents[2] / "kernels" / "library" / "matmul_small.yaml"


def test_explorations_are_kept_and_the_nests_of_their_bests_make_up_the_kernel(tmp_path: Path) -> None:
    document = tmp_path / "spread.json"
    arguments = [str(_KERNEL), "--seeds", "2", "--evaluations", "1", "--rounds", "1", "--size", "m=32"]
    arguments += ["--runs", str(tmp_path / "runs"), "--json", str(document)]
    assert main(arguments) == 0
    records = sorted((tmp_path / "runs").rglob("best.json"))
    assert len(records) == 2
    kernel = load_kernel(_KERNEL, {"m": 32})
    for path in records:
        sizes = dict.fromkeys("ijp", 1)
        for loop in nest(kernel, record.read(path)).split():
            name, _, size = loop.rstrip("puv").partition(":")
            sizes[name[0]] *= int(size)
        assert sizes == {"i": 32, "j": 256, "p": 32}
    before = document.read_text()
    assert main(arguments) == 0
    assert sorted((tmp_path / "runs").rglob("best.json")) == records
    assert before.count('"seed"') == document.read_text().count('"seed"') == 2


def test_orderings_are_compared_and_those_that_are_spelled_out_have_short_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(_KERNEL), "--seeds", "1", "--evaluations", "1", "--rounds", "1", "--size", "m=32"]
    spelled = "dim_kind by LOOP | PARALLEL, size"
    arguments += ["--ordering", "default", "--ordering", spelled, "--runs", str(tmp_path)]
    assert main(arguments) == 0
    (digest,) = (
        folder.name.split("-")[1] for folder in tmp_path.glob("*/near-*-0") if "default" not in folder.name
    )
    shown = capsys.readouterr().out
    assert f"{digest}: {spelled}" in shown
    assert shown.count(f" {digest} ") == 2, "in both tables"

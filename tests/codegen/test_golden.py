"""Every golden list goes through the space of its kernel, and computes what NumPy computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.running.cases import make_cases
from spacedsl.codegen.tree.verify import verify
from tests.codegen.golden import FOLDER, GoldenList, candidate, golden_lists, read
from tests.codegen.runs import build, run_difference
from tests.codegen.scripts import RefusedError

LISTS = {golden.name: golden for golden in golden_lists()}


@pytest.mark.parametrize("golden", LISTS.values(), ids=LISTS)
def test_a_golden_list_is_in_the_space_and_right(golden: GoldenList, tmp_path: Path) -> None:
    kernel = golden.kernel_file(golden.test_sizes)
    made = candidate(golden, kernel)
    assert made.is_complete
    program = verify(lower(kernel.backbone, CandidateImplementation(made)))
    library = build(program, tmp_path / "program.so")
    for case in make_cases(kernel, np.random.default_rng(7)):
        assert run_difference(kernel, library, case) == ""


def test_a_refused_decision_is_shown_with_its_line_and_the_rule_behind_it(tmp_path: Path) -> None:
    golden = read(FOLDER / "axpy-streamed.txt")
    path = tmp_path / "axpy-parallel-inside.txt"
    head = "kernel: axpy\ntest: n=8192\n\n"
    path.write_text(head + golden.text.strip().replace("i0 P *", "i0 L *").replace("i1 L 64", "i1 P 64"))
    with pytest.raises(RefusedError) as refused:
        candidate(read(path), golden.kernel_file(golden.test_sizes))
    message = str(refused.value)
    assert "line 5: i1 P 64" in message
    assert "order($inner, $outer) is not INNER || dim_kind($inner) is not PARALLEL" in message


def test_a_tile_that_leaves_no_register_for_an_operand_is_refused(tmp_path: Path) -> None:
    golden = read(FOLDER / "matmul-8x2-copied.txt")
    path = tmp_path / "matmul-16x2-copied.txt"
    head = "kernel: matmul\ntest: m=128, n=128, k=32\n\n"
    path.write_text(head + golden.text.strip().replace("i2 U 8", "i2 U 16"))
    with pytest.raises(RefusedError, match=r"accumulators\(\$inst\) <"):
        candidate(read(path), golden.kernel_file(golden.test_sizes))

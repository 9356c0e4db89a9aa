"""What runs the programs of tests runs the program that it is given."""

from __future__ import annotations

from pathlib import Path

from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.verify import verify
from tests.codegen.kernels import axpy
from tests.codegen.listings import AXPY_VECTOR
from tests.codegen.runs import compiled_difference, integer_case
from tests.codegen.scripts import script


def test_a_program_in_the_place_of_another_is_what_runs(tmp_path: Path) -> None:
    kernel = axpy(480, "{i: [[10], [16]]}")
    program = verify(lower(kernel.backbone, script(kernel.backbone, AXPY_VECTOR.format(i0=3, i1=10))))
    case = integer_case(kernel)
    assert compiled_difference(kernel, program, case, tmp_path) == ""
    # As if it had been made where the first one had been dropped.
    object.__setattr__(program, "body", ())
    assert compiled_difference(kernel, program, case, tmp_path) != ""

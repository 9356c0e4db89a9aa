"""Values that go through memory: where their elements lie, whose memory it is, and that results are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.linalg.temporaries import Temporary, temporaries
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.kernels import matmul
from tests.codegen.listings import MATMUL_COPIED
from tests.codegen.runs import compiled_difference, integer_case, interpreted_difference
from tests.codegen.scripts import script, scripted

COPIED = MATMUL_COPIED.format(j0=3, i0=2, p0=3, p1=4)

COPY_FIRST = """
    p0 P 3
      p1 L 4
        j0 L 3
          j1 L 2
            j2 V 16
              load_B
    i0 P 2
      j0 L 3
        i1 U 4
          j1 U 2
            j2 V 16
              init
        p0 L 3
          p1 L 4
            i1 U 4
              load_A
            j1 U 2
              j2 V 16
                reload_B
            i1 U 4
              j1 U 2
                j2 V 16
                  fma
        i1 U 4
          j1 U 2
            j2 V 16
              store_C
"""
"""All threads share one copy of B, which they make together."""


def copied_product() -> KernelFile:
    return matmul(8, 96, 12, "{i: [[4]], j: [[2], [16]], p: [[4]]}")


def temporary(kernel: KernelFile, text: str) -> Temporary:
    made = temporaries(kernel.backbone, script(kernel.backbone, text), {}, lambda name: name)
    assert [maker.name for maker in made] == ["load_B"]
    return next(iter(made.values()))


@pytest.mark.parametrize("text", [COPIED, COPY_FIRST], ids=["own copies", "one copy"])
def test_a_product_of_copied_operands_is_right(text: str, tmp_path: Path) -> None:
    kernel = copied_product()
    program, case = scripted(kernel, text), integer_case(kernel)
    assert interpreted_difference(kernel, program, case) == ""
    assert compiled_difference(kernel, program, case, tmp_path) == ""


def test_what_surrounds_maker_and_reload_takes_no_room() -> None:
    made = temporary(copied_product(), COPIED)
    strides = {dim.name: stride for dim, stride in made.strides.items()}
    # In the order of the loops around the reload: p0, p1, j1, j2. The loop j0 is around both.
    assert {n: s for n, s in strides.items() if n.startswith("load")} == {
        "load_B.p0": 4 * 32, "load_B.p1": 32, "load_B.j1": 16, "load_B.j2": 1
    }  # fmt: skip
    assert {f"re{n}": s for n, s in strides.items() if n.startswith("load")} == {
        n: s for n, s in strides.items() if n.startswith("reload")
    }
    assert made.tensor.span == 12 * 32


def test_each_thread_has_memory_of_its_own_where_it_copies_for_itself() -> None:
    assert temporary(copied_product(), COPIED).is_private
    shared = temporary(copied_product(), COPY_FIRST)
    assert not shared.is_private
    assert shared.tensor.span == 12 * 96


def test_a_vector_across_the_layout_is_refused() -> None:
    # The copy would write a vector along p, whose neighbours lie a row of the temporary apart.
    _, _, tail = COPY_FIRST.partition("    i0 P 2")
    along_p = """
    p0 P 3
      j0 L 3
        j1 L 2
          j2 L 16
            p1 V 4
              load_B
"""
    text = f"{along_p}    i0 P 2{tail}"
    kernel = copied_product()
    with pytest.raises(LoweringError, match="accesses every"):
        lower(kernel.backbone, script(kernel.backbone, text))

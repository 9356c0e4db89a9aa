"""Intermediate arrays shrink to what one iteration of the loops around all their accesses needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.codegen.tree.program import Loop, ParallelLoop, Program
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.candidates import space_of
from tests.codegen.kernels import parse
from tests.codegen.runs import compiled_difference, integer_case, interpreted_difference
from tests.codegen.scripts import RefusedError, decide, script, scripted

_CHAIN = """
kernel: chain
backbone: linalg
sizes: {{m: {m}, n: {n}}}
tensors:
  A: {{dtype: f32, shape: [m, n]}}
  C: {{dtype: f32, shape: [m, n], output: true}}
compute:
  - B[i, j] = A[i, j] + A[i, j]
  - C[i, j] = {read} + A[i, j]
tiling: {{i: [], j: []}}
"""
_FUSED = """
    i0 {kind} *
      j0 L *
        load_A
        add
        store_B
      j0 L *
        load_B
        load_A_2
        add_2
        store_C
"""
_APART = """
    i0 {kind} *
      j0 L *
        load_A
        add
        store_B
    i0 {kind} *
      j0 L *
        load_B
        load_A_2
        add_2
        store_C
"""


def chain(m: int, n: int, read: str = "B[i, j]") -> KernelFile:
    return parse(_CHAIN.format(m=m, n=n, read=read))


def assert_right(kernel: KernelFile, program: Program, folder: Path) -> None:
    case = integer_case(kernel)
    assert interpreted_difference(kernel, program, case) == ""
    assert compiled_difference(kernel, program, case, folder) == ""


def test_an_array_that_each_parallel_iteration_writes_and_reads_is_a_row_of_the_thread(
    tmp_path: Path,
) -> None:
    kernel = chain(6, 10)
    program = scripted(kernel, _FUSED.format(kind="P"))
    (loop,) = program.body
    assert isinstance(loop, ParallelLoop)
    assert [(t.name, t.span) for t in loop.private] == [("B", 10)]
    assert program.scratch == ()
    assert_right(kernel, program, tmp_path)


def test_in_a_loop_of_one_thread_the_row_stays_the_program_s(tmp_path: Path) -> None:
    kernel = chain(6, 10)
    program = scripted(kernel, _FUSED.format(kind="L"))
    assert isinstance(program.body[0], Loop)
    assert [s.tensor.span for s in program.scratch] == [10]
    assert_right(kernel, program, tmp_path)


def test_an_array_that_lives_from_one_loop_to_another_keeps_its_size(tmp_path: Path) -> None:
    kernel = chain(6, 10)
    program = scripted(kernel, _APART.format(kind="P"))
    assert [s.tensor.span for s in program.scratch] == [60]
    assert_right(kernel, program, tmp_path)


def test_all_of_an_iteration_that_is_fused_innermost_is_one_element(tmp_path: Path) -> None:
    kernel = chain(6, 10)
    text = """
        i0 P *
          j0 L *
            load_A
            add
            store_B
            load_B
            load_A_2
            add_2
            store_C
    """
    program = scripted(kernel, text)
    (loop,) = program.body
    assert isinstance(loop, ParallelLoop)
    assert [t.span for t in loop.private] == [1]
    assert_right(kernel, program, tmp_path)


@pytest.mark.parametrize("read", ["B[j, i]", "B[i, 0]"])
def test_what_another_iteration_writes_is_not_read_in_a_fused_loop(read: str) -> None:
    kernel = chain(8, 8, read)
    instance = space_of(kernel)
    root = instance.root()
    assert root is not None
    inner = _FUSED.format(kind="L").replace("      j0 L *\n        load_B\n", "      load_B\n      j0 L *\n")
    text = inner if read == "B[i, 0]" else _FUSED.format(kind="L")
    if read == "B[i, 0]":
        # Row i is complete: only the columns have to be.
        assert decide(instance, root, script(kernel.backbone, text)).is_complete
        text = """
            i0 L *
              j0 L *
                load_A
                add
                store_B
                load_B
                load_A_2
                add_2
                store_C
        """
    with pytest.raises(RefusedError, match="the space refuses"):
        decide(instance, root, script(kernel.backbone, text))

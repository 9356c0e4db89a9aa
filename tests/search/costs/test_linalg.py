"""What implementations of linear algebra need: counted by hand, of decisions that were written by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacedsl.kernels.device import AccessRate, ArithmeticRate, ChainLatency, CpuDevice, MemoryLevel, Mixture
from spacedsl.search.costs.caches import ALONE_NS, RETURNED_NS
from spacedsl.search.costs.linalg import FORWARDED_NS, ITERATION_NS, SPILLED_NS, TESTED_NS, LinalgNeeds
from tests.codegen.golden import FOLDER, candidate, read
from tests.search.linalg import MATMUL, descent, instance_under

LATENCY_NS = 4.0


def level(name: str, capacity_bytes: int | None, one: float, both: float) -> MemoryLevel:
    """Rates of one thread and of both: what is stored takes twice as long as what is loaded."""
    return MemoryLevel(
        name=name,
        capacity_bytes=capacity_bytes,
        core_bytes=capacity_bytes and capacity_bytes // 2,
        bytes_per_ns=one,
        bytes_per_ns_all=both,
        mixtures=(Mixture(stored=1.0, bytes_per_ns=one / 2, bytes_per_ns_all=both / 2),),
    )


MEMORY = (level("L1", 1 << 16, 64, 128), level("L2", 1 << 21, 8, 16), level("DRAM", None, 1, 1))
DEVICE = CpuDevice(
    name="an instruction of each kind in a nanosecond",
    threads=2,
    vector_bytes=32,
    vector_registers=16,
    arithmetic=tuple(ArithmeticRate(dtype="f32", lanes=n, instructions_per_ns=1) for n in (1, 8)),
    memory=MEMORY,
    accesses=tuple(
        AccessRate(kind=kind, nbytes=n, instructions_per_ns=1) for kind in ("load", "store") for n in (4, 32)
    ),
    latencies=(ChainLatency(dtype="f32", op="fma", latency_ns=LATENCY_NS),),
)


def needs(
    name: str, *changes: tuple[str, str], device: CpuDevice = DEVICE, is_cold: bool = False
) -> list[float]:
    """Of a golden list, with other words in the place of some."""
    golden = replace(read(FOLDER / f"{name}.txt"), device=device)
    for old, new in changes:
        assert old in golden.text
        golden = replace(golden, text=golden.text.replace(old, new))
    kernel = golden.kernel_file(golden.test_sizes)
    implementation = candidate(golden, kernel)
    return LinalgNeeds(implementation.instance, device, is_cold=is_cold)(implementation)


def test_instructions_of_a_product_are_those_of_its_loops() -> None:
    """Of 772 rows by 768 columns and 16 terms, each thread has 24 panels of 16 columns. The last one of 129
    tiles of six rows has four.
    """
    loads, stores, arithmetic, waits, loops, *_ = needs("matmul-6x2-avx2")
    panels, tiles, rows, terms = 24, 129, 772, 16
    copied = panels * 2 * terms
    assert loads == copied + panels * tiles * terms * 2 + panels * rows * terms
    assert stores == copied + panels * rows * 2
    assert arithmetic == panels * rows * terms * 2
    assert waits == pytest.approx(arithmetic / 12 * LATENCY_NS)
    assert loops == pytest.approx(ITERATION_NS * (panels * terms + panels * tiles * terms / 2), rel=0.02)


def test_memory_is_asked_for_what_does_not_stay_in_caches() -> None:
    """What a thread comes to is hardly more than its part of C, which is larger than the second cache: all
    comes from memory once, and what is stored is written back.
    """
    *_, memory, _, _ = needs("matmul-6x2-avx2")
    once = 772 * 16 * 4 + 16 * 384 * 4 + 2 * 772 * 384 * 4
    # What is copied is in the memory of the thread: a panel of 64 columns at a time.
    assert memory == pytest.approx((once + 2 * 16 * 64 * 4) / 0.5, rel=0.05)


def test_lines_of_the_second_cache_come_while_a_core_computes() -> None:
    """Twice as many nanoseconds of them take so much more than what is hidden behind the arithmetic."""
    slow, slower = (
        needs("matmul-6x2-avx2", device=DEVICE.model_copy(update={"memory": (MEMORY[0], second, MEMORY[2])}))
        for second in (level("L2", 1 << 21, 0.5, 1), level("L2", 1 << 21, 0.25, 0.5))
    )
    hidden = slow[2]
    assert slow[5] > 0
    assert slower[5] + hidden == pytest.approx(2 * (slow[5] + hidden))


def test_what_comes_from_memory_is_waited_for() -> None:
    """Also where there is but one cache; where there is none, nobody knows what there is to wait for."""
    slow, slower, unknown = (
        needs("matmul-6x2-avx2", device=DEVICE.model_copy(update={"memory": memory}))
        for memory in (MEMORY[::2], (MEMORY[0], level("DRAM", None, 0.5, 0.5)), MEMORY[2:])
    )
    assert slower[5] == pytest.approx(2 * slow[5])
    assert unknown[:5] == slow[:5]
    assert len(unknown) == len(slow) - 1


def test_a_warm_call_finds_in_caches_what_the_one_before_has_left() -> None:
    """All three matrices of a thread fit into its second cache, and not into its first."""
    device = DEVICE.model_copy(update={"memory": (MEMORY[0], level("L2", 1 << 21, 0.5, 1), MEMORY[2])})
    warm, cold = (needs("matmul_small-4x2-avx2", device=device, is_cold=is_cold) for is_cold in (False, True))
    assert warm[6] == 0.0
    assert cold[6] >= (32 * 32 + 32 * 64 + 2 * 32 * 64) * 4 / 0.5
    assert cold[:5] == warm[:5]


def test_a_load_to_all_lanes_is_as_slow_as_one_of_so_many() -> None:
    """Loads of single elements are twice as fast here. Those of A are none: all lanes are multiplied."""
    fast = AccessRate(kind="load", nbytes=4, instructions_per_ns=2)
    device = DEVICE.model_copy(update={"accesses": (*DEVICE.accesses, fast)})
    assert needs("matmul-6x2-avx2", device=device)[0] == needs("matmul-6x2-avx2")[0]


def test_what_ends_inside_padded_tiles_is_tested_for_in_each_iteration() -> None:
    """The loads of A, and what is stored; what is copied has no rows."""
    panels, rows, terms = 24, 65 * 12, 16
    plain, padded = needs("matmul-6x2-avx2"), needs("matmul-6x2-avx2", ("i0 L *", "i0 L * padded"))
    assert padded[4] - plain[4] == pytest.approx(TESTED_NS * panels * rows * (terms + 2))


BY_ROWS = """            i2 U 6
              j2 U 2
                j3 V 8
                  fma
"""
BY_COLUMNS = """            j2 U 2
              i2 U 6
                j3 V 8
                  fma
"""


def test_what_is_read_again_further_out_takes_registers() -> None:
    """Of sixteen, twelve have sums. Row by row, one has an element of A and two have B; column by column, six
    have A, since all are read again: four are lacking.
    """
    iterations = 24 * 65 * 2 * 8
    by_rows, by_columns = needs("matmul-6x2-avx2"), needs("matmul-6x2-avx2", (BY_ROWS, BY_COLUMNS))
    assert by_columns[3] - by_rows[3] == pytest.approx(iterations * (4 * SPILLED_NS + FORWARDED_NS))


ROWS, LINES = 1024, 16
"""Of a softmax: those of a thread, and of each row."""


def test_arrays_that_live_in_an_iteration_need_no_memory() -> None:
    """Rows are loaded, what is stored is loaded before and written back, and nothing of what lies between."""
    *_, memory, _, _ = needs("softmax-split-avx2", (" next", ""))
    assert memory == pytest.approx(3 * ROWS * LINES * 64 / 0.5, rel=0.01)


def test_what_is_stored_around_the_caches_comes_back_from_memory() -> None:
    """It is loaded twice. What nobody loads has nothing to wait for."""
    plain = needs("softmax-split-avx2", (" next", ""))
    result = needs("softmax-split-avx2", (" next", ""), ("store_Y", "store_Y streamed"))
    between = needs("softmax-split-avx2", (" next", ""), ("store_E", "store_E streamed"))
    assert result[3] == plain[3]
    assert result[-3] == pytest.approx(2 * ROWS * LINES * 64 / 0.5, rel=0.01)
    assert between[3] - plain[3] == pytest.approx(2 * ROWS * LINES * RETURNED_NS)
    assert between[-3] > plain[-3] + ROWS * LINES * 64 / 0.5


def test_rows_that_are_asked_for_come_while_others_are_computed_with() -> None:
    """Each line is asked for by an instruction. Maxima take no time here, powers that of ten sums."""
    plain, *others = (
        needs("softmax-split-avx2", (" next", ""), *changes)
        for changes in ((), (("load_X_2", "load_X_2 next"),), (("load_X\n", "load_X next\n"),))
    )
    exponents, maxima = others
    for asked in others:
        assert asked[0] - plain[0] == ROWS * LINES
    assert plain[-3] - exponents[-3] == ROWS * 256 / 8 * (1 + 10 + 1)
    assert maxima[-3] == plain[-3]


def test_of_many_lines_that_are_asked_for_at_once_few_come_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Straight code asks for two."""

    def gained(at_once: int) -> float:
        monkeypatch.setattr("spacedsl.search.costs.caches.AT_ONCE", at_once)
        plain = needs("softmax-split-avx2", (" next", ""))
        return plain[-3] - needs("softmax-split-avx2", (" next", ""), ("load_X_2", "load_X_2 next"))[-3]

    assert gained(1) == gained(2) / 2 > 0
    assert gained(16) == gained(2)


def test_memory_is_as_fast_as_it_usually_is() -> None:
    """Not as it is at most, which bounds go by."""
    slow = (MEMORY[0], level("L2", 1 << 21, 0.5, 1), level("DRAM", None, 0.1, 0.1))
    usually, always = (
        needs("softmax-split-avx2", device=DEVICE.model_copy(update={what: slow}))
        for what in ("usual_memory", "memory")
    )
    assert usually == always
    assert usually != needs("softmax-split-avx2")


BEFORE = ("reload_A under", "reload_A")


def test_what_is_copied_while_others_are_computed_with_comes_meanwhile() -> None:
    """As long as that takes; nothing else is different."""
    before, under = needs("matmul_strided-6x2-under-avx2", BEFORE), needs("matmul_strided-6x2-under-avx2")
    assert before[-3] - under[-3] == pytest.approx(before[2])
    assert before[:-3] == under[:-3]


def test_a_line_by_itself_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of A lie two lines apart: of a thread nine tiles of 48 rows, of 16 terms each. Those of B are
    neighbours, and not waited for.
    """
    before = needs("matmul_strided-6x2-under-avx2", BEFORE)
    monkeypatch.setattr("spacedsl.search.costs.caches.ALONE_NS", 0.0)
    assert before[-3] - needs("matmul_strided-6x2-under-avx2", BEFORE)[-3] == ALONE_NS * 9 * 48 * 16


def test_lines_that_are_asked_for_beyond_the_end_of_a_row_come_in_vain() -> None:
    """512 bytes ahead, which is half of a row: of its eight iterations of 128 bytes, the last four."""
    plain, ahead = (
        needs("softmax-split-avx2", (" next", ""), *changes)
        for changes in ((), (("load_X\n", "load_X ahead\n"),))
    )
    assert ahead[-3] - plain[-3] == pytest.approx(ROWS * LINES / 2 * 64 / 0.5)
    assert ahead[0] > plain[0]


def test_a_space_may_store_nothing(tmp_path: Path) -> None:
    trigger = """trigger forall $inst in Storable: forall $user in Consumers($inst):
  "$kernel.reload($inst, $user)" when storage($inst) is TEMPORARY
"""
    storable = ('requires "$inst.is_storable"', 'requires "len($inst.dims) < 0"')
    instance = instance_under(tmp_path, MATMUL, (trigger, ""), storable, device=DEVICE)
    needs = LinalgNeeds(instance, DEVICE)
    *_, implementation = descent(instance, np.random.default_rng(0))
    assert implementation.is_complete
    assert all(0 <= each < math.inf for each in needs(implementation))

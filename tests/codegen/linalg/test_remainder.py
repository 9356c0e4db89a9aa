"""Tiles that end where their index ends: the same results as NumPy's, and nothing touched beyond the end."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.c.functions import functions
from spacedsl.codegen.c.types import arithmetic_type, vector_type
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.linalg.nest import nest
from spacedsl.codegen.linalg.remainder import divide
from spacedsl.codegen.running.measurement import Options
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Type, type_of
from spacedsl.codegen.tree.parts import blocks
from spacedsl.codegen.tree.program import (
    Assign,
    Branch,
    Loop,
    ParallelLoop,
    PartialStore,
    Program,
    Statement,
    Store,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.kernels.linalg.operations import ELEMENT_TYPES
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.devices import DEVICE
from tests.codegen.evaluating import lowered
from tests.codegen.golden import LIBRARY
from tests.codegen.kernels import axpy, dot, matmul, parse
from tests.codegen.listings import DOT_PARALLEL, DOT_SPLIT, MATMUL_ANY, MATMUL_TILED
from tests.codegen.runs import compiled_difference, integer_case, interpreted_difference
from tests.codegen.scripts import decide, script, scripted

LOCK = Path(tempfile.gettempdir(), f"spacedsl-test-{os.getpid()}.lock")
TILED = "{i: [[2], [8]], j: [[2], [16]], p: []}"


def assert_right(kernel: KernelFile, program: Program, folder: Path | None = None) -> None:
    case = integer_case(kernel)
    assert interpreted_difference(kernel, program, case) == ""
    if folder is not None:
        assert compiled_difference(kernel, program, case, folder) == ""


def tiled(m: int, n: int, k: int, kind: str = "P") -> tuple[KernelFile, str]:
    """`kind`: of the outermost loop over rows; W has whole tiles alone, also of columns."""
    i0, j0 = math.ceil(m / 16), math.ceil(n / 32)
    text = MATMUL_TILED.format(i0=i0, i1=2, j0=j0, k=k).replace("i0 P", f"i0 {kind}")
    if kind == "G":
        text = text.replace("j0 L", "j0 G")
    if kind == "W":
        text = text.replace(f"i0 W {i0}", f"i0 P {i0} padded").replace(f"j0 L {j0}", f"j0 L {j0} padded")
    return matmul(m, n, k, TILED), text


# ---- Results -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["L", "G", "W"])
@pytest.mark.parametrize(
    "sizes", [(2, 2, 2), (5, 7, 3), (16, 32, 2), (17, 33, 5), (97, 61, 53), (31, 95, 4), (48, 65, 3)]
)
def test_a_product_of_any_size_is_right_in_tiles_of_16_x_32(
    sizes: tuple[int, int, int], kind: str, tmp_path: Path
) -> None:
    kernel, text = tiled(*sizes, kind)
    assert_right(kernel, scripted(kernel, text), tmp_path)


@pytest.mark.parametrize("dtype", ["f64", "i32", "bf16", "f16"])
def test_other_element_types_are_right(dtype: str, tmp_path: Path) -> None:
    kernel = matmul(19, 21, 5, "{i: [[2], [8]], j: [[2], [8]], p: []}", dtype)
    text = MATMUL_TILED.format(i0=2, i1=2, j0=2, k=5).replace("V 16", "V 8")
    assert_right(kernel, scripted(kernel, text), tmp_path)


@pytest.mark.parametrize("n", [2, 7, 8, 9, 159, 161, 475])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_a_sum_in_vectors_takes_no_term_twice_and_none_from_beyond(
    n: int, dtype: str, tmp_path: Path
) -> None:
    kernel = dot(n, "{p: [[20], [8]]}", dtype)
    assert_right(kernel, scripted(kernel, DOT_PARALLEL.format(p0=math.ceil(n / 160), p1=20)), tmp_path)


@pytest.mark.parametrize("n", [2, 7, 31, 33, 95, 475])
@pytest.mark.parametrize("kind", ["L", "G", "P"])
def test_a_sum_whose_last_terms_are_fewer_than_its_accumulators_is_right(
    n: int, kind: str, tmp_path: Path
) -> None:
    kernel = dot(n, "{p: [[4], [8]]}")
    text = DOT_SPLIT.format(kind=kind, p0=math.ceil(n / 32), p1=4)
    assert_right(kernel, scripted(kernel, text), tmp_path)


def test_lanes_without_a_term_keep_what_is_neutral(tmp_path: Path) -> None:
    """What is added there would be exp(0 - top), and the greatest of 0 and negative numbers is 0."""
    kernel = parse("""
kernel: spread
backbone: linalg
sizes: {n: 11}
tensors:
  x: {dtype: f32, shape: [n]}
  top: {dtype: f32, shape: [], output: true}
  total: {dtype: f32, shape: [], output: true}
compute:
  - top = max[p](0 - abs(x[p]) - 1)
  - total = sum[q](exp(x[q]))
tiling: {p: [[4]], q: [[8]]}
""")
    instance, random = space_of(kernel), np.random.default_rng(4)
    blended = 0
    for number in range(6):
        candidate = random_candidate(instance, random, {"dim_kind": "VECTOR"})
        assert candidate is not None
        program = verify(lower(kernel.backbone, CandidateImplementation(candidate)))
        blended += "Blend" in repr(program)
        assert_right(kernel, program, tmp_path if number < 2 else None)
    assert blended


EXTENTS = st.integers(2, 40)
FACTORS = st.lists(
    st.lists(st.sampled_from([1, 2, 3, 4, 7, 8, 16]), min_size=1, max_size=3, unique=True), max_size=2
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    extents=st.tuples(EXTENTS, EXTENTS, st.integers(2, 13)),
    factors=st.tuples(FACTORS, FACTORS, FACTORS),
    seed=st.integers(0, 1000),
)
def test_random_tilings_of_random_extents_are_right(
    extents: tuple[int, int, int], factors: tuple[list[list[int]], ...], seed: int
) -> None:
    i, j, p = factors
    kernel = matmul(*extents, f"{{i: {i}, j: {j}, p: {p}}}")
    instance, random = space_of(kernel), np.random.default_rng(seed)
    for kind, remainder in (("VECTOR", "PEELED"), ("UNROLL", "PADDED"), ("PARALLEL", "PADDED")):
        candidate = random_candidate(instance, random, {"dim_kind": kind, "remainder": remainder})
        if candidate is not None:
            assert_right(kernel, verify(lower(kernel.backbone, CandidateImplementation(candidate))))


@pytest.mark.parametrize(("j0", "p0"), [("L", "L"), ("G", "L"), ("L", "G")])
@pytest.mark.parametrize("extent", [1000, 1023, 1024])
def test_the_space_has_the_same_tiles_at_extents_that_they_divide_and_at_others(
    extent: int, j0: str, p0: str
) -> None:
    kernel = load_kernel(LIBRARY / "matmul.yaml", dict.fromkeys("mnk", extent))
    instance = space_of(kernel)
    root = instance.root()
    assert root is not None
    text = MATMUL_ANY.format(j0=j0, p0=p0)
    candidate = decide(instance, root, script(kernel.backbone, text))
    program = verify(lower(kernel.backbone, CandidateImplementation(candidate)))
    found = list(stores(program.body))
    assert sum(times * count for times, count in found) == extent**2
    assert sum(times for times, _ in found) == extent * math.ceil(extent / 16)


# ---- What is executed ----------------------------------------------------------------------------------


def stores(
    body: tuple[Statement, ...], around: Mapping[str, range] | None = None
) -> Iterator[tuple[int, int]]:
    """Pairs (how often, elements) of stores. `around`: the iterations of the loops around them."""
    loops = around or {}
    times = math.prod(map(len, loops.values()))
    for statement in body:
        match statement:
            case Store(_, _, value):
                yield times, type_of(value).lanes
            case PartialStore(_, _, _, count):
                yield times, count
            case Loop(variable, extent, inner) | ParallelLoop(variable, extent, inner):
                yield from stores(inner, {**loops, variable: range(extent)})
            case Branch(variable, limit, inner, otherwise):
                low, high = loops[variable].start, loops[variable].stop
                yield from stores(inner, {**loops, variable: range(low, limit)})
                yield from stores(otherwise, {**loops, variable: range(limit, high)})
            case Assign():
                pass


@pytest.mark.parametrize("kind", ["L", "G", "W"])
def test_every_element_is_stored_once_in_the_fewest_vectors(kind: str) -> None:
    kernel, text = tiled(97, 61, 3, kind)
    found = list(stores(scripted(kernel, text).body))
    assert sum(times * count for times, count in found) == 97 * 61
    assert sum(times for times, _ in found) == 97 * math.ceil(61 / 16)
    assert {count for _, count in found} == {16, 61 % 16}


def test_a_tiling_that_divides_has_nothing_but_whole_tiles() -> None:
    kernel = matmul(32, 64, 9, TILED).backbone
    decided = script(kernel, MATMUL_TILED.format(i0=2, i1=2, j0=2, k=9))
    tree = nest(kernel, decided)
    assert repr(divide(tree, kernel, decided)) == repr(tree)


def test_guarded_loops_branch_and_peeled_ones_do_not() -> None:
    def branches(body: tuple[Statement, ...]) -> int:
        return sum(isinstance(s, Branch) + sum(branches(block) for block in blocks(s)) for s in body)

    found = {kind: branches(scripted(*tiled(33, 65, 2, kind)).body) for kind in "LGP"}
    # One for i and, in each of its blocks, one for j: a parallel loop always has it.
    assert found == {"L": 0, "G": 3, "P": 1}


def test_a_padded_tile_has_one_copy_of_its_arithmetic() -> None:
    def products(kind: str) -> int:
        return repr(scripted(*tiled(97, 61, 3, kind))).count("Fma(")

    assert products("W") == 8 * 2
    assert products("G") > 2 * products("W")


def test_what_is_computed_beyond_the_end_is_copied_beyond_it() -> None:
    kernel = matmul(9, 11, 3, "{i: [[4]], j: [[2]], p: []}")
    instance, random = space_of(kernel), np.random.default_rng(2)
    seen: set[tuple[str, str]] = set()
    for _ in range(12):
        candidate = random_candidate(
            instance, random, {"storage": "TEMPORARY", "dim_kind": "LOOP", "remainder": "PADDED"}
        )
        if candidate is None:
            continue
        decided = {
            v.names[0]: str(candidate.value("remainder", *v.objects))
            for v in instance.variables_of("remainder")
        }
        seen.add((decided["load_A.i0"], decided["fma.i0"]))
        assert_right(kernel, verify(lower(kernel.backbone, CandidateImplementation(candidate))))
    assert ("PADDED", "PADDED") in seen
    assert not {made for made, used in seen if used == "PADDED"} - {"PADDED"}


@pytest.mark.parametrize(
    ("old", "new"),
    [("i0 P 3", "i0 P 2"), ("i0 P 3", "i0 P 4"), ("i1 L 2", "i1 L 3")],
    ids=["too short", "an empty tile", "tiles too large"],
)
def test_sizes_that_do_not_end_where_the_index_ends_are_refused(old: str, new: str) -> None:
    kernel = matmul(33, 64, 2, TILED)
    text = MATMUL_TILED.format(i0=3, i1=2, j0=2, k=2)
    with pytest.raises(LoweringError, match=r"do not end at 33"):
        scripted(kernel, text.replace(old, new))


def test_an_index_whose_tiles_are_all_whole_is_not_cut(tmp_path: Path) -> None:
    """32 is divided by all that is on offer: bounds count on it."""
    kernel = matmul(32, 64, 2, TILED)
    text = MATMUL_TILED.format(i0=2, i1=3, j0=2, k=2)
    with pytest.raises(LoweringError, match=r"do not end at 32"):
        scripted(kernel, text)


def test_a_level_outside_of_the_one_around_it_is_refused() -> None:
    kernel = axpy(100, "{i: [[16]]}")
    text = """
        i1 L 16
          i0 L 7
            load_x
            load_y
            fma
            store_z
    """
    with pytest.raises(LoweringError, match="are not nested in the levels outside them"):
        scripted(kernel, text)


# ---- Memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["P", "W"])
def test_nothing_is_touched_between_guard_pages(kind: str) -> None:
    """Where arrays end, memory ends: a vector that is read beyond would end the process."""
    kernel, text = tiled(19, 45, 3, kind)
    options = Options(budget_s=0.02, memory_headroom_bytes=512 << 20, lock=LOCK)
    with CpuEvaluator(kernel, DEVICE, options) as evaluator:
        outcome = evaluator.run(lowered(kernel, text), None)
    assert outcome.failure is None, outcome.message


@pytest.mark.parametrize("is_masked", [True, False], ids=["masked", "element by element"])
@pytest.mark.parametrize(
    "kind",
    [Type(dtype, lanes) for dtype in ELEMENT_TYPES for lanes in (2, 4, 8, 16) if dtype.nbytes * lanes <= 64],
    ids=str,
)
def test_partial_vectors_end_in_front_of_memory_that_is_not_there(
    kind: Type, is_masked: bool, tmp_path: Path
) -> None:
    """Copies of the first lanes, from the end of one page to the end of another."""
    element = arithmetic_type(kind.dtype)
    text = "\n".join([
        "#include <stdint.h>", vector_type(kind),
        *functions([(kind, "load_first"), (kind, "store_first"), (kind, "blend")]),
        f"void copy(const {element} *from, {element} *to, {element} *whole, int count) {{",
        "  switch (count) {",
        *(f"    case {n}: {{ {kind} x = {kind}_load_first(from, {n}); {kind}_store_first(to, x, {n});"
          f" *({kind}_unaligned *)whole = {kind}_blend(x, x + 1, {n}); break; }}"
          for n in range(1, kind.lanes)),
        "  }", "}",
    ])  # fmt: skip
    if not is_masked:
        text = text.replace("#if defined(", "#if 0 && defined(")
    library = ctypes.CDLL(str(build_library(text, tmp_path / "copy.so")))
    numbers = {DType.F32: np.float32, DType.F64: np.float64, DType.I32: np.int32}
    dtype = numbers.get(kind.dtype, np.uint16)
    nbytes, whole = kind.dtype.nbytes, np.empty(kind.lanes, dtype)
    with _Guarded() as source, _Guarded() as target:
        for count in range(1, kind.lanes):
            values = np.arange(7, 7 + count, dtype=dtype)
            source.before_end(values.tobytes())
            target.before_end(b"\xff" * 4 * nbytes + bytes(count * nbytes))
            places = (p.end - count * nbytes for p in (source, target))
            library.copy(*map(ctypes.c_void_p, places), ctypes.c_void_p(whole.ctypes.data), count)
            assert target.last((count + 4) * nbytes) == b"\xff" * 4 * nbytes + values.tobytes()
            assert whole.tolist() == [*values.tolist(), *[1] * (kind.lanes - count)]


class _Guarded:
    """A page behind which there is one that nobody may touch."""

    def __enter__(self) -> _Guarded:
        self.memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.end = start + mmap.PAGESIZE
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(self.end), mmap.PAGESIZE, 0) == 0
        return self

    def __exit__(self, *_: object) -> None:
        """The mapping ends with the last object that looks at it."""

    def before_end(self, data: bytes) -> None:
        self.memory[mmap.PAGESIZE - len(data) : mmap.PAGESIZE] = data

    def last(self, nbytes: int) -> bytes:
        return self.memory[mmap.PAGESIZE - nbytes : mmap.PAGESIZE]

"""Blocks combine parts of a reduction in memory: in any order, each of them once, from nothing on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.cuda.checking import EASILY_EXECUTED, executed
from spacedsl.codegen.cuda.corners import WHOLE_TILES, on_corner
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.cuda.starting import starting
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import Index, Load, Number, Register, Type, type_of
from spacedsl.codegen.tree.parts import combined_into, overwritten, statements
from spacedsl.codegen.tree.program import (
    Assign,
    AtomicCombine,
    Branch,
    Grid,
    Multiply,
    Program,
    Statement,
    Store,
    Where,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.kernels.linalg.operations import Combine
from spacedsl.kernels.tensors import Tensor
from spacedsl.kernels.unique_names import UniqueNames
from tests.codegen.cuda.grids import (
    compiled,
    in_blocks,
    on_tensor_cores,
    orders,
    random_from,
    space_of,
    twins,
)
from tests.codegen.kernels import parse
from tests.codegen.runs import brief_case, integer_case, run_difference
from tests.codegen.scripts import script
from tests.kernels.samples import LIBRARY

SIZES: dict[str, dict[str, int]] = {
    "dot": {"n": 1 << 13}, "dot_f64": {"n": 1000}, "sum_all": {"m": 64, "n": 96},
    "matvec": {"m": 48, "k": 256}, "column_sum": {"m": 256, "n": 40}, "column_sum_i32": {"m": 128, "n": 64},
    "bicg": {"m": 64, "n": 64}, "matmul": {"m": 16, "n": 12, "k": 64},
    "matmul_strided": {"m": 20, "n": 24, "k": 72}, "matmul_deep": {"m": 16, "n": 16, "pieces": 8, "k": 32},
    "max_all": {"m": 64, "n": 96}, "column_max": {"m": 128, "n": 40}, "row_max_i32": {"m": 40, "n": 128},
}  # fmt: skip
COUNT = 4


@pytest.mark.parametrize("name", SIZES)
def test_random_implementations_with_parts_of_sums_are_right(name: str, tmp_path: Path) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", SIZES[name], "gpu")
    instance = space_of(kernel)
    programs: list[Program] = []
    roots = list(in_blocks(instance))
    for number, root in enumerate(roots):
        count = -(-COUNT // len(roots))
        made = map(CandidateImplementation, random_from(root, count, seed=number))
        programs += (verify(lower_grids(kernel.backbone, each)) for each in made)
    assert len(programs) >= COUNT and all(combined_into(program.body) for program in programs)
    library = ctypes.CDLL(str(twins(programs, tmp_path, "-O0")))
    for case in (integer_case(kernel), brief_case(kernel)):
        for order in orders(library):
            for number in range(len(programs)):
                wrong = run_difference(kernel, library, case, f"program_{number}")
                assert wrong == "", f"implementation {number} in order {order}"


LINES = {
    "norm": ("s = sqrt(sum[p](x[p] * x[p]))", ()),
    "scaled": ("s = alpha * sum[p](x[p]) - max[p](x[p])", ()),
    "greatest": ("s = max[p](x[p] * alpha) + 1", ()),
    "least": ("s = 2 * min[p](x[p])", ()),
    "product": ("s = alpha * prod[p](1 + x[p] * 0.001)", ()),
    "centred": ("y[p] = x[p] - sum[q](x[q]) / 16384", ("y: {dtype: DTYPE, shape: [n], output: true}",)),
}


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize("name", LINES)
def test_what_is_used_further_on_is_combined_in_memory_before(name: str, dtype: str, tmp_path: Path) -> None:
    line, others = LINES[name]
    if dtype == "i32" and name != "least":
        pytest.skip("integers have neither roots nor quotients nor parameters here")
    outputs = others or ("s: {dtype: DTYPE, shape: [], output: true}",)
    text = "\n  ".join(["x: {dtype: DTYPE, shape: [n]}", *outputs]).replace("DTYPE", dtype)
    kernel = parse(
        f"kernel: {name}\nbackbone: linalg\nsizes: {{n: 16384}}\ntensors:\n  {text}\n"
        + (f"params: {{alpha: {dtype}}}\n" if "alpha" in line else "")
        + f"compute:\n  - {line}\n"
    ).made_for("gpu")
    instance = space_of(kernel)
    roots = list(in_blocks(instance))
    assert roots
    made = [CandidateImplementation(c) for n, root in enumerate(roots) for c in random_from(root, 3, seed=n)]
    programs = [verify(lower_grids(kernel.backbone, each)) for each in made]
    assert all(combined_into(program.body) for program in programs)
    library = ctypes.CDLL(str(twins(programs, tmp_path, "-O0")))
    case = brief_case(kernel)
    for order in orders(library):
        for number in range(len(programs)):
            wrong = run_difference(kernel, library, case, f"program_{number}")
            assert wrong == "", f"implementation {number} in order {order}"


INF = float("inf")
VALUES = [[-5.0, -0.25, -3e38], [-5.0, 0.5, -0.25], [0.0, -5.0], [-0.0, -5.0], [INF, -INF], [-INF], [INF]]


def assert_reduced(library: ctypes.CDLL, programs: int, x: NDArray[Any], wanted: object) -> None:
    """So many programs make this one number of an array, in every order of threads."""
    for _ in orders(library):
        for number in range(programs):
            found = np.full(1, 77, x.dtype)
            call = getattr(library, entry_name(f"program_{number}"))
            call(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(found.ctypes.data))
            np.testing.assert_equal(found[0], wanted)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize("function", ["max", "min"])
def test_the_bits_of_numbers_are_in_their_order(function: str, dtype: str, tmp_path: Path) -> None:
    """Each block has one number, and all others of a row are the first of its numbers."""
    kernel = parse(
        "kernel: extreme\nbackbone: linalg\ntensors:\n"
        f"  x: {{dtype: {dtype}, shape: [256]}}\n  s: {{dtype: {dtype}, shape: [], output: true}}\n"
        f"compute:\n  - s = {function}[p](x[p])\ntiling: {{p: [[1]]}}\n"
    ).made_for("gpu")
    (root,) = in_blocks(space_of(kernel))
    programs = [
        verify(lower_grids(kernel.backbone, CandidateImplementation(c))) for c in random_from(root, 3, seed=1)
    ]
    library = ctypes.CDLL(str(twins(programs, tmp_path, "-O0")))
    type_of_numbers = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[dtype]
    greatest = np.iinfo(np.int32).max if dtype == "i32" else INF
    for values in (np.clip(each, -greatest, greatest) for each in VALUES):
        x = np.full(256, values[0], type_of_numbers)
        x[100 : 100 + len(values)] = values
        wanted = np.max(x) if function == "max" else np.min(x)
        assert_reduced(library, len(programs), x, wanted)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_products_are_combined_whatever_memory_holds(dtype: str, tmp_path: Path) -> None:
    """Powers of two are exact, those of 3 in integers that wrap around; 0 and what is no number stay."""
    kernel = parse(
        "kernel: product\nbackbone: linalg\ntensors:\n"
        f"  x: {{dtype: {dtype}, shape: [256]}}\n  s: {{dtype: {dtype}, shape: [], output: true}}\n"
        "compute:\n  - s = prod[p](x[p])\ntiling: {p: [[1]]}\n"
    ).made_for("gpu")
    (root,) = in_blocks(space_of(kernel))
    programs = [
        verify(lower_grids(kernel.backbone, CandidateImplementation(c))) for c in random_from(root, 3, seed=1)
    ]
    assert all(combined_into(program.body) == {"s": Combine.PROD} for program in programs)
    library = ctypes.CDLL(str(twins(programs, tmp_path, "-O0")))
    type_of_numbers = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[dtype]
    odd = np.resize([3, -5, 7, 1], 256)
    powers = np.resize([2.0, -0.25, 4.0, -0.5, 1.0], 256)
    rows = (
        [odd, odd * (np.arange(256) != 77)]
        if dtype == "i32"
        else [powers, [0, *powers[1:]], [*powers[1:], np.nan]]
    )
    for x in (np.asarray(row, type_of_numbers) for row in rows):
        with np.errstate(over="ignore"):
            wanted = np.prod(x, dtype=type_of_numbers)
        assert_reduced(library, len(programs), x, wanted)


def test_parts_may_be_made_on_tensor_cores(tmp_path: Path) -> None:
    kernel = load_kernel(LIBRARY / "matmul_bf16_tensor.yaml", {"m": 32, "n": 32, "k": 256}, "gpu")
    multiplied = on_tensor_cores(kernel)
    (root,) = in_blocks(multiplied.instance, multiplied)
    made = map(CandidateImplementation, random_from(root, 4, seed=5))
    programs = [verify(lower_grids(kernel.backbone, each)) for each in made]
    for program in programs:
        assert combined_into(program.body) == {"C": Combine.SUM}
        assert any(isinstance(s, Multiply) for s in statements(program.body))
    library = ctypes.CDLL(str(twins(programs, tmp_path, "-O0")))
    for order in orders(library):
        for number in range(len(programs)):
            wrong = run_difference(kernel, library, integer_case(kernel), f"program_{number}")
            assert wrong == "", f"implementation {number} in order {order}"


def test_a_corner_has_parts_of_sums_as_well(tmp_path: Path) -> None:
    kernel = load_kernel(LIBRARY / "matvec.yaml", {"m": 1024, "k": 8192}, "gpu")
    instance = space_of(kernel)
    (root,) = in_blocks(instance)
    corners = [on_corner(kernel, c, WHOLE_TILES) for c in random_from(root, 6, seed=1)]
    made = [(cut, verify(lower_grids(cut.backbone, smaller))) for cut, smaller in corners]
    run = [(cut, program) for cut, program in made if executed(program.body) <= EASILY_EXECUTED]
    library = ctypes.CDLL(str(twins([program for _, program in run], tmp_path, "-O0")))
    for number, (cut, program) in enumerate(run):
        assert combined_into(program.body) == {"y": Combine.SUM}
        assert cut.computation.extents["p"] < 8192
        assert run_difference(cut, library, brief_case(cut), f"program_{number}") == ""
    assert run


# ---- Faults --------------------------------------------------------------------------------------------

LISTS = {
    "dot": ({"n": 4096}, """
        i0 B *
          init
          i1 T 64
            i2 V 4
              load_x
            i2 V 4
              load_y
            i2 U 4
              fma
          store_s
        """),
    "matmul": ({"m": 16, "n": 16, "k": 256}, """
        i0 B *
          p0 B *
            i1 T 4 @16
              j0 T 4 @4
                j1 T 4
                  init
            p1 L 16
              p2 L 4
                i1 T 4 @16
                  j0 T 4 @4
                    j1 T 4
                      load_A
                      load_B
                      fma
            i1 T 4 @16
              j0 T 4 @4
                j1 T 4
                  store_C
        """),
}  # fmt: skip


@cache
def kernel_of(name: str) -> KernelFile:
    return load_kernel(LIBRARY / f"{name}.yaml", LISTS[name][0], "gpu")


@cache
def sound(name: str) -> Program:
    backbone = kernel_of(name).backbone
    return verify(lower_grids(backbone, script(backbone, LISTS[name][1])))


def grids(program: Program) -> tuple[Grid, Grid]:
    """What puts zeros, and what adds to them."""
    zeros, adding = program.body
    assert isinstance(zeros, Grid) and isinstance(adding, Grid)
    return zeros, adding


Edit = Callable[[Program], Program]


def edit(change: Callable[[Statement], Sequence[Statement] | None]) -> Edit:
    """Another sequence of statements in place of each for which there is one."""

    def block(body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(made for statement in body for made in one(statement))

    def one(statement: Statement) -> Sequence[Statement]:
        found = change(statement)
        if found is None and isinstance(statement, Grid | Where):
            return (replace(statement, body=block(statement.body)),)
        return (statement,) if found is None else found

    return lambda program: replace(program, body=block(program.body))


def stored(statement: Statement) -> Sequence[Statement] | None:
    match statement:
        case AtomicCombine(tensor, index, value, _):
            return (Store(tensor, index, value),)
    return None


FAULTS: dict[str, tuple[Edit, str, tuple[str, ...]]] = {
    "no zeros": (lambda p: replace(p, body=grids(p)[1:]), "not all of which starts", ("dot", "matmul")),
    "zeros behind": (lambda p: replace(p, body=grids(p)[::-1]), "not all of which starts", ("dot", "matmul")),
    "a block of zeros too few": (
        lambda p: replace(p, body=(_smaller(grids(p)[0]), grids(p)[1])), "not all of which", ("matmul",)
    ),
    "stored in place of added": (edit(stored), "may store to the same", ("dot", "matmul")),
    "added by all threads": (
        edit(lambda s: s.body if isinstance(s, Where) and combined_into(s.body) else None),
        "threads of a block combine what they have with the same s", ("dot",),
    ),
    "added twice": (edit(lambda s: (s, s) if isinstance(s, AtomicCombine) else None), "", ("dot", "matmul")),
}  # fmt: skip
"""What is done to a sound program, what the verifier says of it, and the lists that it is done to."""


def _smaller(grid: Grid) -> Grid:
    """Of half the threads."""
    (thread,) = grid.coordinates
    return replace(grid, threads=128, coordinates=(replace(thread, extent=128),))


@pytest.mark.parametrize(("name", "fault"), [(n, f) for f, (_, _, names) in FAULTS.items() for n in names])
def test_faults_are_seen(name: str, fault: str, tmp_path: Path) -> None:
    change, message, _ = FAULTS[fault]
    faulty = change(sound(name))
    assert faulty != sound(name)
    if message:
        with pytest.raises(VerificationError, match=message):
            verify(faulty)
    library = ctypes.CDLL(str(twins([sound(name), faulty], tmp_path, "-O0")))
    case = integer_case(kernel_of(name))
    for _ in orders(library):
        assert run_difference(kernel_of(name), library, case, "program_0") == ""
        assert run_difference(kernel_of(name), library, case, "program_1") != ""


def test_what_is_added_to_is_not_read_or_stored_to_beside() -> None:
    zeros, adding = grids(sound("dot"))
    first, kind = Index(0), Type(DType.F32)
    for statement in (
        Assign(Register("seen", kind), Load("s", first, kind)),
        Store("s", first, Number(0.0, kind)),
    ):
        beside = replace(adding, body=(*adding.body, statement))
        with pytest.raises(VerificationError, match="has a sum in s, and does something else with it"):
            verify(replace(sound("dot"), body=(zeros, beside)))
    again = replace(zeros, name="again")
    with pytest.raises(VerificationError, match="s is stored to after parts were combined with it"):
        verify(replace(sound("dot"), body=(zeros, adding, again)))


# ---- Zeros ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "strides", "blocks"),
    [
        ((), (), 1), ((1,), (1,), 1), ((7,), (3,), 1), ((256,), (1,), 1), ((257,), (1,), 2),
        ((12, 100), (100, 1), 5), ((12, 100), (128, 1), 12), ((100, 12), (1, 128), 12),
        ((2, 3, 300), (2000, 640, 2), 12), ((5, 1, 6), (6, 6, 1), 1),
    ],
)  # fmt: skip
def test_zeros_are_all_elements_and_nothing_between_them(
    shape: tuple[int, ...], strides: tuple[int, ...], blocks: int
) -> None:
    out = Tensor("out", DType.F64, shape, strides, is_output=True)
    (grid,) = starting({out: Combine.SUM}, UniqueNames({"out"}).fresh)
    assert grid.blocks == blocks
    verify(Program("zeros", (out,), (), (grid,)))
    written = sorted(_written(grid))
    wanted = np.array([0])
    for extent, stride in zip(shape, strides, strict=True):
        wanted = np.add.outer(wanted, stride * np.arange(extent)).ravel()
    assert written == sorted(wanted.tolist())


def test_small_arrays_start_together() -> None:
    """Of one, three and 256 elements; larger ones by themselves."""
    shapes = {"one": (), "few": (3,), "many": (256,), "more": (257,), "rows": (2, 3)}
    arrays = [
        Tensor(n, DType.F32, s, (100, 1) if n == "rows" else (1,) * len(s), is_output=True)
        for n, s in shapes.items()
    ]
    grids = list(starting(dict.fromkeys(arrays, Combine.MIN), UniqueNames(set(shapes)).fresh))
    verify(Program("starts", tuple(arrays), (), tuple(grids)))
    assert [grid.name for grid in grids] == ["start", "start_more", "start_rows"]
    assert [sorted(overwritten(grid.body)) for grid in grids] == [["few", "many", "one"], ["more"], ["rows"]]
    (alone,) = starting({arrays[0]: Combine.SUM}, UniqueNames({"one"}).fresh)
    assert alone.name == "start_one"


def _written(grid: Grid) -> Iterator[int]:
    """Elements that blocks and threads store to, each as often as it is."""
    for block, thread in product(range(grid.blocks), range(grid.threads)):
        at = {c.variable: (block if c.is_block else thread) // c.stride % c.extent for c in grid.coordinates}
        yield from _stored(grid.body, at, thread)


def _stored(body: Sequence[Statement], at: Mapping[str, int], thread: int) -> Iterator[int]:
    for statement in body:
        match statement:
            case Branch(variable, limit, inner, otherwise):
                yield from _stored(inner if at[variable] < limit else otherwise, at, thread)
            case Where(((low, high, period),), inner):
                yield from _stored(inner, at, thread) if low <= thread % period < high else ()
            case Store(_, index, Number(0.0)):
                yield index.constant + sum(at[variable] * stride for variable, stride in index.terms)
            case _:
                raise AssertionError(statement)


# ---- What there is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "name", "count"), [
    ("k4000", "dot", 1), ("k4000", "dot_f64", 0), ("titan", "dot_f64", 0), ("v100", "dot_f64", 1),
])  # fmt: skip
def test_old_gpus_add_no_numbers_of_64_bits(device: str, name: str, count: int) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", {}, "gpu")
    instance = instantiate(compiled(), kernel.backbone, load_gpu(DEVICES / f"{device}.yaml"), Engine.NATIVE)
    assert len(list(in_blocks(instance))) == count


def test_lanes_are_added_one_by_one() -> None:
    kernel = load_kernel(LIBRARY / "column_sum.yaml", {"m": 64, "n": 22}, "gpu")
    instance = space_of(kernel)
    (root,) = in_blocks(instance)
    (store,) = kernel.backbone.stores
    variable = instance.variable("dim_kind", store.dims[-1])
    vector = instance.restrict(root, variable, 1 << [str(k) for k in variable.universe].index("VECTOR"))
    assert vector is not None
    (candidate,) = random_from(vector, 1, seed=3)
    program = verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))
    added = [s for s in statements(program.body) if isinstance(s, AtomicCombine)]
    assert len(added) > 1 and all(type_of(s.value).lanes == 1 for s in added)
    assert print_cuda(program).count("atomicAdd(&s[") == len(added)

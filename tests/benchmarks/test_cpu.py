"""The comparison with peers: its data, its processes and its ratios. No peer has to be installed."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.contest import LEAST_ROUNDS, PRODUCT, Contender, Contest, Entry, Patience, environment, hold
from benchmarks.cpu import product
from benchmarks.cpu.cases import BY_NAME, Aim, Case
from benchmarks.cpu.peers import LIMITS, hand, libraries
from benchmarks.cpu.problems import make
from benchmarks.cpu.report import CaseReport, report
from benchmarks.cpu.side import Side
from benchmarks.explorations import SkippedError
from benchmarks.turns import AbsentError, Turn
from spacedsl.codegen.c.build import build_library

SIZES = {
    "axpy": {"n": 4096},
    "matmul": {"m": 48, "n": 32, "k": 40},
    "matmul_bias_relu": {"m": 48, "n": 32, "k": 40},
    "matmul_strided": {"m": 48, "n": 32, "k": 40},
    "batched_matmul": {"b": 3, "m": 8, "n": 16, "k": 8},
    "matvec": {"m": 64, "k": 96},
    "gesummv": {"m": 64, "k": 96},
    "atax": {"m": 64, "n": 96},
    "doitgen": {"r": 8, "q": 4, "p": 16},
    "conv2d": {"h": 8, "w": 6, "c": 16, "f": 16},
    "softmax": {"m": 32, "n": 64},
    "layer_norm": {"m": 32, "n": 64},
}


def test_every_case_has_a_problem_in_its_sizes() -> None:
    assert {case.problem for case in BY_NAME.values()} == set(SIZES)
    assert all(set(case.sizes) == set(SIZES[case.problem]) for case in BY_NAME.values())


@pytest.mark.parametrize("name", SIZES)
def test_numpy_in_32_bits_meets_the_reference(name: str) -> None:
    problem = make(name, SIZES[name])
    for variant in libraries.variants(name, SIZES[name], problem, 1).values():
        assert problem.error(variant.result()) == ""


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("axpy", {"n": 4096}),
        ("matmul", {"m": 14, "n": 256, "k": 80}),
        # Sums that are worth no copy; extents that no tile divides.
        ("matmul", {"m": 8, "n": 128, "k": 32}),
        ("matmul", {"m": 13, "n": 83, "k": 71}),
        ("matmul_bias_relu", {"m": 14, "n": 256, "k": 80}),
        # Several blocks of rows, of which the last ends in the middle of a tile.
        ("matmul_strided", {"m": 310, "n": 128, "k": 128}),
        ("batched_matmul", {"b": 3, "m": 8, "n": 32, "k": 8}),
        ("matvec", {"m": 64, "k": 128}),
        ("gesummv", {"m": 64, "k": 96}),
        ("atax", {"m": 64, "n": 96}),
        ("doitgen", {"r": 8, "q": 4, "p": 64}),
        ("conv2d", {"h": 8, "w": 14, "c": 16, "f": 32}),
        ("softmax", {"m": 32, "n": 64}),
        ("layer_norm", {"m": 32, "n": 64}),
    ],
)
def test_c_written_by_hand_meets_the_reference(name: str, sizes: dict[str, int]) -> None:
    problem = make(name, sizes)
    try:
        variants = hand.variants(name, sizes, problem, 1)
    except AbsentError as reason:
        pytest.skip(str(reason))
    assert [problem.error(variant.result()) for variant in variants.values()] == [""]


@pytest.mark.parametrize("name", SIZES)
def test_a_result_that_is_wrong_in_one_element_is_noticed(name: str) -> None:
    problem = make(name, SIZES[name])
    result = problem.expected.astype(np.float32)
    assert problem.error(result) == ""
    greatest = np.unravel_index(int(np.abs(result).argmax()), result.shape)
    result[greatest] *= np.float32(0.999)
    assert "off by" in problem.error(result)
    result[greatest] = np.nan
    assert "not a number" in problem.error(result)
    assert "shape" in problem.error(result[:-1])


def test_the_reference_of_a_convolution_is_the_sum_that_defines_it() -> None:
    problem = make("conv2d", {"h": 3, "w": 4, "c": 2, "f": 3})
    image, weights = problem.inputs
    y, x, f = 2, 1, 2
    # The last row of the image: the zeros below it add nothing.
    by_hand = sum(
        float(image[0, y + i - 1, x + j - 1, c]) * float(weights[i, j, c, f])
        for i in range(2)
        for j in range(3)
        for c in range(2)
    )
    assert problem.expected[0, y, x, f] == pytest.approx(by_hand)


def _matmul(name: str, peer: str, **more: object) -> Entry:
    side = Side(peer, "matmul", SIZES["matmul"], (0,), **more)  # type: ignore[arg-type]
    return Entry(name, "", side, sys.executable)


def _product(library: str) -> dict[str, object]:
    """Of a function `multiply`."""
    return {
        "library": library,
        "symbol": "multiply",
        "inputs": [["A", (48, 40), (40, 1)], ["B", (40, 32), (32, 1)]],
        "output": ["C", (48, 32), (32, 1)],
        "is_output_at": 2,
        "scalars": 0,
    }


CODE = """
void multiply(const float *A, const float *B, float *C) {
  for (int i = 0; i < 48; i++)
    for (int j = 0; j < 32; j++) {
      float sum = 0;
      for (int p = 0; p < 40; p++) sum += A[i * 40 + p] * B[p * 32 + j];
      C[i * 32 + j] = sum;
    }
}
void wrong(const float *A, const float *B, float *C) {
  multiply(A, B, C);
  C[7] += 1;
}
void crashes(const float *A, const float *B, float *C) {
  static int calls;
  multiply(A, B, C);
  if (++calls > 1) *(volatile int *)0 = 0;
}
"""


def test_libraries_take_the_kernels_that_they_have_for_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "64")
    monkeypatch.setenv("SOMETHING_ELSE", "kept")
    found = environment(2)
    assert "OPENBLAS_CORETYPE" not in found
    assert (found["OPENBLAS_NUM_THREADS"], found["SOMETHING_ELSE"]) == ("2", "kept")


def test_contenders_take_turns_and_those_that_do_not_count_are_named(tmp_path: Path) -> None:
    library = str(build_library(CODE, tmp_path / "code.so"))
    document = _product(library)
    contest = hold(
        [
            _matmul(PRODUCT, PRODUCT, product=document),
            _matmul("wrong", PRODUCT, product={**document, "symbol": "wrong"}),
            _matmul("crashes", PRODUCT, product={**document, "symbol": "crashes"}),
            _matmul("transposed", PRODUCT, product={**document, "output": ["C", (48, 32), (1, 48)]}),
            _matmul("nothing", "nothing"),
            _matmul("numpy", "numpy"),
        ],
        rounds=2,
        round_ms=1,
    )
    assert [c.name for c in contest.contenders] == [PRODUCT, "numpy"]
    work = {"flops": 2 * 48 * 32 * 40, "nbytes": 4 * (48 * 40 + 40 * 32 + 48 * 32)}
    assert contest.told[PRODUCT] == contest.told["numpy"] == work
    assert all(len(c.rounds) == 2 and min(t.wall_ns[0] for t in c.rounds) > 0 for c in contest.contenders)
    assert set(contest.absent) == {"wrong", "crashes", "transposed", "nothing"}
    assert "wrong: it is off by" in contest.absent["wrong"]
    assert "ended with status -11" in contest.absent["crashes"]
    assert "`C` is not laid out" in contest.absent["transposed"]
    assert "not installed" in contest.absent["nothing"]


def test_the_rounds_of_several_processes_count_together(tmp_path: Path) -> None:
    library = str(build_library(CODE, tmp_path / "code.so"))
    document = _product(library)
    contest = hold(
        [
            _matmul(PRODUCT, PRODUCT, product=document),
            _matmul("crashes", PRODUCT, product={**document, "symbol": "crashes"}),
            _matmul("numpy", "numpy"),
        ],
        rounds=5,
        round_ms=1,
        processes=2,
    )
    assert [(c.name, len(c.rounds)) for c in contest.contenders] == [(PRODUCT, 5), ("numpy", 5)]
    assert set(contest.told) == {PRODUCT, "numpy"}
    assert set(contest.absent) == {"crashes"}


SLOW_CODE = """
#include <time.h>
static void rest(long ns) { nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, 0); }
void at_once(const float *A, const float *B, float *C) { multiply(A, B, C); }
void slow(const float *A, const float *B, float *C) { multiply(A, B, C); rest(300000000); }
void for_ever(const float *A, const float *B, float *C) { for (;;) rest(1000000000); }
"""


def test_who_is_too_slow_is_not_waited_for(tmp_path: Path) -> None:
    library = str(build_library(CODE + SLOW_CODE, tmp_path / "code.so"))
    document = _product(library)
    entries = [
        _matmul(symbol, PRODUCT, product={**document, "symbol": symbol})
        for symbol in ("at_once", "slow", "for_ever")
    ]
    contest = hold(entries, rounds=1, round_ms=1, patience=Patience(opening_s=3, slower=100))
    assert [c.name for c in contest.contenders] == ["at_once"]
    assert contest.absent["for_ever"] == "no result in 3 s"
    assert re.match(r"a call takes 30\d.* ms, .* times as long", contest.absent["slow"])


def test_where_rounds_take_long_there_are_fewer(tmp_path: Path) -> None:
    document = _product(str(build_library(CODE, tmp_path / "code.so")))
    entries = [_matmul(PRODUCT, PRODUCT, product=document)]
    contest = hold(entries, rounds=100, round_ms=1, patience=Patience(rounds_s=0.0))
    assert [len(c.rounds) for c in contest.contenders] == [LEAST_ROUNDS]


def _turns(*medians_ns: float) -> list[Turn]:
    return [Turn([0.9 * ns, ns, 1.5 * ns], 2 * ns, 1.8) for ns in medians_ns]


def _report(*contenders: Contender) -> CaseReport:
    case = Case("a", "a", "matmul", {}, (Aim(1.5, ("torch",)), Aim(1.0), Aim(2.0, ("tvm",))))
    told = {PRODUCT: {"flops": 1, "nbytes": 1}}
    found = report(case, Contest(contenders, {"tvm": "not installed"}, told))
    assert found is not None
    return found


def test_ratios_are_of_the_rounds_and_against_our_fastest_record() -> None:
    found = _report(
        Contender(PRODUCT, "seed-0", "", _turns(11, 22, 44)),
        Contender(PRODUCT, "seed-1", "", _turns(10, 20, 40)),
        Contender("torch", "", "", _turns(16, 32, 64)),
        Contender("numpy", "", "", _turns(12, 24, 48)),
        Contender(LIMITS, "multiply-add", "multiply-add", _turns(5, 10, 20)),
        Contender(LIMITS, "move", "move", _turns(8, 16, 32)),
        Contender(LIMITS, "move, non-temporal", "move, non-temporal", _turns(4, 8, 16)),
    )
    assert [row.variant for row in found.ours] == ["seed-1", "seed-0"]
    # The machine became slower from round to round, and no ratio noticed.
    assert [row.name for row in found.peers] == ["numpy", "torch"]
    assert found.peers[1].ratio.low == found.peers[1].ratio.high == pytest.approx(1.6)
    assert found.peers[1].least_ratio == pytest.approx(1.6)
    torch, best, tvm = (found.achieved(aim) for aim in found.case.aims)
    assert (torch, best, tvm) == (found.peers[1], found.peers[0], None)
    assert found.spread is not None and found.spread.median == pytest.approx(1.1)
    assert found.least_spread == pytest.approx(1.1)
    # The operations take longer than moving the bytes past the caches.
    assert found.limit_share == pytest.approx(0.5)


def test_without_a_right_result_of_ours_there_is_nothing_to_compare() -> None:
    case = BY_NAME["matmul-1024"]
    contest = Contest((Contender("numpy", "", "", _turns(1)),), {PRODUCT: "its result is wrong"})
    assert report(case, contest) is None


def test_records_are_those_of_the_kernel_in_its_sizes_by_seed_or_run(tmp_path: Path) -> None:
    case = BY_NAME["matmul-small"]
    kernel = product.kernel_of(case)
    about = {"name": kernel.name, "path": str(kernel.path), "text": kernel.text}
    others = {
        "kernel": {**about, "sizes": dict(kernel.sizes)},
        "space": {"path": "", "digest": ""},
        "target": "cpu",
        "device": {},
        "code": {"digest": None, "generator": "", "compiler": "", "flags": ()},
        "decisions": (),
        "time_ns": 1,
        "time_ci_ns": (1, 1),
        "samples": 1,
        "bound_ns": 0,
        "verified": True,
    }
    of_another_size = {**others, "kernel": {**about, "sizes": {"m": 8, "n": 8, "k": 8}}}
    for folder, content in (
        ("a/seed-0/first", others),
        ("a/seed-1/second", others),
        ("b/seed-1/third", others),
        ("alone", others),
        ("small", of_another_size),
        ("broken", {}),
    ):
        path = tmp_path / folder / "best.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"schema": 1, **content}))
    found = product.records(case, tmp_path)
    assert set(found) == {"seed-0", "seed-1", "b/seed-1/third", "alone"}
    with pytest.raises(SkippedError, match=r"best\.json"):
        product.build(case, found["alone"], tmp_path)


def test_a_kernel_that_does_not_exist_is_a_reason_to_skip_a_case() -> None:
    case = Case("a", "nowhere", "matmul", {}, ())
    with pytest.raises(SkippedError, match="no kernels/library/nowhere"):
        product.kernel_of(case)

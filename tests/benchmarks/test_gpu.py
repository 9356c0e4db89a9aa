"""The comparison on a GPU: its naive kernels, its figures, its folder. No GPU has to be there."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu.cases import BY_NAME, CASES, COPY, NAIVE, TORCH, Aim, Case
from benchmarks.gpu.folder import HERE, add_naive, kernel_of, write_runner
from benchmarks.gpu.report import report
from spacedsl.codegen.cuda.batches.writing import BatchedProblem, Written, write_batch
from tests.codegen.cuda.fake_gpu import environment, substitute
from tests.codegen.cuda.grids import device
from tests.codegen.cuda.test_batch import problem

SIZES = {
    "axpy": {"n": 1000},
    "matmul_small": {"m": 6, "n": 5, "k": 7},
    "matmul": {"m": 20, "n": 30, "k": 9},
    "matmul_strided": {"m": 6, "n": 5, "k": 7},
    "batched_matmul": {"b": 3, "m": 4, "n": 5, "k": 6},
    "matvec": {"m": 300, "k": 17},
    "gesummv": {"m": 17, "n": 30},
    "conv2d_nhwc": {"n": 2, "y": 5, "x": 4, "c": 3, "f": 6},
    "softmax": {"m": 7, "n": 9},
    "matmul_bf16_tensor": {"m": 6, "n": 5, "k": 7},
}
SMALL = [
    replace(next(c for c in CASES if c.kernel == kernel), sizes=sizes) for kernel, sizes in SIZES.items()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_says_what_its_kernel_reads_and_writes(case: Case) -> None:
    tensors = kernel_of(case).backbone.tensors
    assert case.nbytes == sum(t.elements * t.dtype.nbytes for t in tensors)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.kernel.startswith(("mat", "batched"))], ids=lambda c: c.name
)
def test_a_product_has_two_operations_for_each_multiply_add(case: Case) -> None:
    assert case.flops == 2 * math.prod(case.sizes.values())


def test_naive_kernels_are_right_and_what_is_missing_is_said(tmp_path: Path) -> None:
    assert {case.kernel for case in CASES} == SIZES.keys()
    folder = tmp_path / "batch"
    assert write_batch(
        folder, device(), [BatchedProblem(kernel_of(case), (), ()) for case in SMALL], 5
    ) == Written(0, 0, 0)
    for name in SIZES:
        add_naive(folder / name, "9.0")
    write_runner(HERE / "run_benchmark.py", folder)
    substitute(folder)
    (tmp_path / "driver").mkdir()
    ran = subprocess.run(
        [sys.executable, "run_benchmark.py"], cwd=folder, env=environment(tmp_path / "driver"), text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in (folder / "peers.jsonl").read_text().splitlines()]
    naive = {line["problem"]: line for line in lines if line["peer"] == "naive"}
    assert {name: line.get("message", "") for name, line in naive.items()} == dict.fromkeys(SIZES, "")
    assert {line["problem"] for line in lines if line.get("failure") == "absent"} == SIZES.keys()


def test_ratios_and_shares_are_those_of_the_best_beside_the_limits(tmp_path: Path) -> None:
    sizes, aims = {"n": 64}, (Aim(0.5, COPY), Aim(2.0, NAIVE), Aim(1.0, TORCH))
    case = replace(BY_NAME["axpy"], sizes=sizes, flops=128, nbytes=768, aims=aims)
    batched = problem(kernel_of(case), 3)
    write_batch(tmp_path, device(), [batched], 5, has_cases=False)
    entries = json.loads((tmp_path / "axpy" / "problem.json").read_text())["implementations"]
    limits = {"launch_warm_ns": 2000.0, "copy_bytes_per_ns": 2.0, "fma_f32_flops_per_ns": 4.0}
    about = {
        "device": {"name": "H200", "compute_capability": "9.0", "driver": "13.0", "sms": 132},
        "limits": limits,
    }
    timed = [
        {"problem": "axpy", "digest": e["digest"], "warm_ns": [warm] * 9, "cold_ns": [900.0], "sm_mhz": None}
        for e, warm in zip(entries, (700.0, 600.0), strict=False)
    ]
    failed = {"problem": "axpy", "digest": entries[2]["digest"], "failure": "crash", "message": ""}
    write_lines(tmp_path / "results.jsonl", about, *timed, failed)
    peers = {"problem": "axpy", "peer": "naive", "warm_ns": [1500.0, 1500.0, 9999.0], "cold_ns": [1.0]}
    absent = {"problem": "axpy", "peer": "torch", "failure": "absent", "message": "no torch"}
    write_lines(tmp_path / "peers.jsonl", peers, absent)
    made = report(tmp_path, [case, BY_NAME["softmax"]])
    (found,) = made.cases
    best = found.best
    assert (best.timing.time_ns, best.cold_ns, best.predicted_ns) == (600.0, 900.0, 1001.0)
    assert (best.measured, best.failed, best.violations) == (3, 1, 0)
    # 768 bytes at 2 a nanosecond are 384 ns, 128 operations at 4 are 32.
    assert found.limit_share == 384 / 600
    assert [found.achieved(aim) for aim in case.aims] == [384 / 600, 1500 / 600, None]
    assert made.skipped == {"softmax": "not in this batch"}


def write_lines(path: Path, *lines: object) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

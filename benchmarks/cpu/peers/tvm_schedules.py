"""TVM MetaSchedule: tuned beforehand, then called.

    python -m benchmarks.cpu.peers.tvm_schedules TUNING

The argument is a `Tuning` as JSON; the best schedule is kept in its folder as a module of TVM, and `variants`
takes it from there. Tuning runs programs: the caller keeps others off the machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import te, topi
from tvm.s_tir import meta_schedule
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from benchmarks.cpu.peers import Variant
from benchmarks.cpu.problems import Problem, make
from benchmarks.turns import AbsentError

_BATCH = 32
_CPU_FLAGS = Path("/proc/cpuinfo")
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Tuning:
    problem: str
    sizes: Mapping[str, int]
    threads: int
    trials: int
    folder: str


def variants(
    name: str, sizes: Mapping[str, int], problem: Problem, threads: int, folder: Path
) -> dict[str, Variant]:
    """Raises `AbsentError` where nothing has been tuned."""
    if name not in _COMPUTATIONS:
        return {}
    kept = kept_at(folder, name, sizes, threads)
    if not kept.exists():
        raise AbsentError("not tuned: see --tvm-trials")
    function = tvm.compile(tvm.ir.load_json(kept.read_text()), target=_target(threads))["main"]
    out = problem.output()
    arguments = [tvm.runtime.from_dlpack(array) for array in (*problem.inputs, out)]
    return {"": Variant(lambda: function(*arguments), out)}


def kept_at(folder: Path, name: str, sizes: Mapping[str, int], threads: int) -> Path:
    words = [name, *(f"{size}{value}" for size, value in sizes.items()), f"x{threads}"]
    return folder / f"{'-'.join(words)}.json"


def tune(tuning: Tuning) -> None:
    """Does nothing for what is tuned already, or is no computation here; raises `SystemExit`."""
    kept = kept_at(Path(tuning.folder), tuning.problem, tuning.sizes, tuning.threads)
    if kept.exists() or tuning.problem not in _COMPUTATIONS:
        return
    problem = make(tuning.problem, tuning.sizes)
    function = te.create_prim_func(_COMPUTATIONS[tuning.problem](problem)).with_attr("global_symbol", "main")
    target = _target(tuning.threads)
    with tempfile.TemporaryDirectory(prefix="spacedsl-") as work:
        database = meta_schedule.tune_tir(
            tvm.IRModule({"main": function}),
            target,
            work,
            tuning.trials,
            num_trials_per_iter=min(_BATCH, tuning.trials),
            builder=meta_schedule.builder.LocalBuilder(
                max_workers=tuning.threads, timeout_sec=_TIMEOUT_S, f_build=_build
            ),
            runner=meta_schedule.runner.LocalRunner(
                timeout_sec=_TIMEOUT_S,
                evaluator_config=meta_schedule.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=30),
            ),
            seed=0,
            num_tuning_cores=tuning.threads,
        )
        schedule = meta_schedule.tir_integration.compile_tir(
            database, tvm.IRModule({"main": function}), target
        )
    if schedule is None:
        raise SystemExit("no schedule that was tried is valid")
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(tvm.ir.save_json(schedule.mod))


def _target(threads: int) -> Any:
    """LLVM's name of this processor; where it knows too old a one, the oldest with the same vectors."""
    flags = _CPU_FLAGS.read_text() if _CPU_FLAGS.exists() else ""
    name = "sapphirerapids" if "avx512_fp16" in flags else tvm.target.codegen.llvm_get_system_cpu()
    return tvm.target.Target({"kind": "llvm", "mcpu": name, "num-cores": threads})


def _build(module: Any, target: Any, parameters: Any) -> Any:
    """As the builder of TVM does, without the intrinsics of all GPUs, which take it seconds to import."""
    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    return tvm.compile(module, target=target).mod


# ---- What is tuned: operands, then the result ------------------------------------------------------------


def _placeholders(problem: Problem) -> list[Any]:
    return [
        te.placeholder(a.shape, name=f"operand{n}", dtype="float32") for n, a in enumerate(problem.inputs)
    ]


def _product(problem: Problem) -> list[Any]:
    """Over the last index of the first and the last but one of the second; leading indices are shared."""
    a, b, *_ = _placeholders(problem)
    p = te.reduce_axis((0, a.shape[-1]), name="p")
    shared = len(b.shape) - 2 if len(b.shape) > 2 else 0

    def element(*at: Any) -> Any:
        rows = len(a.shape) - 1
        left, right = a(*at[:rows], p), b(*at[:shared], p, *at[rows:])
        return te.sum(left * right, axis=p)

    return [a, b, te.compute(problem.expected.shape, element, name="result")]


def _matmul_bias_relu(problem: Problem) -> list[Any]:
    a, b, c = _product(problem)
    bias = _placeholders(problem)[-1]
    return [a, b, bias, topi.nn.relu(topi.add(c, bias))]


def _gesummv(problem: Problem) -> list[Any]:
    a, b, x = _placeholders(problem)

    def times(matrix: Any, name: str) -> Any:
        p = te.reduce_axis((0, x.shape[0]), name=f"p_{name}")
        return te.compute((matrix.shape[0],), lambda i: te.sum(matrix[i, p] * x[p], axis=p), name=name)

    left, right = times(a, "left"), times(b, "right")
    alpha, beta = problem.scalars
    y = te.compute(left.shape, lambda i: left[i] * alpha + right[i] * beta, name="result")
    return [a, b, x, y]


def _conv2d(problem: Problem) -> list[Any]:
    image, weights = _placeholders(problem)
    padded = topi.nn.pad(image, (0, 1, 1, 0))
    i, j, c = (te.reduce_axis((0, n), name=f"r{n}") for n in (3, 3, weights.shape[2]))
    return [
        image,
        weights,
        te.compute(
            problem.expected.shape,
            lambda n, y, x, f: te.sum(padded[n, y + i, x + j, c] * weights[i, j, c, f], axis=[i, j, c]),
            name="result",
        ),
    ]


_COMPUTATIONS: Mapping[str, Callable[[Problem], list[Any]]] = {
    "matmul": _product,
    "matmul_bias_relu": _matmul_bias_relu,
    "batched_matmul": _product,
    "matvec": _product,
    "doitgen": _product,
    "gesummv": _gesummv,
    "conv2d": _conv2d,
}

if __name__ == "__main__":
    tune(Tuning(**json.loads(sys.argv[1])))

"""Measures this folder on the GPU of this machine: `python run_benchmark.py [--seconds N]`.

In: the batch that lies here, and a naive kernel for each of its problems. Out: `peers.jsonl`, a line for each
peer of each problem, and what `run_batch.py` writes, which has the seconds. Peers are the naive kernels and,
where torch is installed, its operators: cuBLAS and cuDNN, with TF32 and without. They are timed as the
implementations are, each problem in a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu.runner import Line, Visit, main
from spacedsl.codegen.cuda.batches.arena import Arena
from spacedsl.codegen.cuda.batches.driver import Array
from spacedsl.codegen.cuda.batches.measuring import measure

LIMIT_S = 600.0
"""Of all peers of a problem."""

EXACT, ROUNDED = 1e-4, 2e-2
"""How far results may be off, as a share of the largest: f32, and TF32 or bf16."""


def operator(
    kernel: str, torch: Any, inputs: dict[str, Any], parameters: dict[str, float]
) -> Callable[[], Any]:
    """What torch is called with for a kernel, on tensors of the device."""
    a, b, x = (inputs.get(name) for name in ("A", "B", "x"))
    alpha, beta = parameters.get("alpha", 0.0), parameters.get("beta", 0.0)
    if kernel == "axpy":
        z = torch.empty_like(x)
        return partial(torch.add, inputs["y"], x, alpha=alpha, out=z)
    if kernel == "matvec":
        return partial(torch.mv, a, x)
    if kernel == "gesummv":
        return lambda: torch.add(alpha * torch.mv(a, x), torch.mv(b, x), alpha=beta)
    if kernel == "softmax":
        return partial(torch.softmax, inputs["X"], 1)
    if kernel == "conv2d_nhwc":
        image = inputs["I"].permute(0, 3, 1, 2)
        weight = inputs["W"].permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        convolution = torch.nn.functional.conv2d
        return lambda: convolution(image, weight, padding=1).permute(0, 2, 3, 1)
    if kernel == "matmul_bf16_tensor":
        return partial(torch.mm, a, b, out_dtype=torch.float32)
    # Of an operand with strides, torch makes a packed copy first.
    return partial(torch.matmul, a, b)


def torch_peers(arena: Arena, torch: Any) -> Iterator[Line]:
    problem, case = arena.problem, arena.cases[0]
    inputs = {
        tensor["name"]: _on_device(torch, arena.arrays[f"0/in/{tensor['name']}"], tensor)
        for tensor in problem["tensors"]
        if f"0/in/{tensor['name']}" in arena.arrays
    }
    (output,) = (t for t in problem["tensors"] if f"0/out/{t['name']}" in arena.arrays)
    expected = arena.arrays[f"0/out/{output['name']}"].reshape(output["shape"])
    call = operator(problem["kernel"], torch, inputs, case["parameters"])
    is_bf16 = any(tensor["dtype"] == "bf16" for tensor in problem["tensors"])
    for name, has_tf32 in (("torch", False), ("torch, TF32", True)):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = has_tf32
        off = float(np.abs(call().cpu().numpy() - expected).max() / np.abs(expected).max())
        if not off <= (ROUNDED if has_tf32 or is_bf16 else EXACT):
            yield {"peer": name, "failure": "wrong_result", "message": f"off by {off:.1e} of the largest"}
            continue
        timed = {
            f"{cache}_ns": arena.stopwatch.samples_ns(call, is_cold=cache == "cold")
            for cache in ("warm", "cold")
        }
        yield {"peer": name, **timed, "version": torch.__version__}


def _on_device(torch: Any, flat: Array, tensor: dict[str, Any]) -> Any:
    """A tensor of torch with the shape and the strides of the kernel's."""
    values = torch.from_numpy(flat.view(np.int16) if tensor["dtype"] == "bf16" else flat).cuda()
    values = values.view(torch.bfloat16) if tensor["dtype"] == "bf16" else values
    return torch.as_strided(values, tensor["shape"], tensor["strides"])


def measured(arena: Arena, peers: tuple[str, ...]) -> Iterator[Line]:
    naive = json.loads((arena.folder / "naive.json").read_text())
    yield {"peer": "naive", **measure(arena, naive)}
    try:
        import torch
    except ImportError as error:
        yield {"peer": "torch", "failure": "absent", "message": str(error)}
        return
    if not torch.cuda.is_available():
        yield {"peer": "torch", "failure": "absent", "message": "this torch sees no GPU"}
        return
    try:
        yield from torch_peers(arena, torch)
    except (RuntimeError, TypeError) as error:
        yield {"peer": "torch", "failure": "crash", "message": str(error).partition("\n")[0]}


def visits(problem: str) -> list[Visit]:
    return [Visit(problem, ("naive", "torch"), LIMIT_S)]


if __name__ == "__main__":
    sys.exit(main(__file__, (__doc__ or "").partition("\n")[0], visits, measured))

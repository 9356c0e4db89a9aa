"""One contender of a comparison of kernels: the product's code or a peer, on the data of a problem.

In: one argument, a `Side` as JSON, and then what `benchmarks/turns.py` asks. Out: what that answers. The work
of a call is told with it. Needs NumPy and the peer, and nothing of the product.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.cpu import peers
from benchmarks.cpu.peers import Variant, product
from benchmarks.cpu.problems import Problem, make
from benchmarks.turns import Caller, Opening, serve


@dataclass(frozen=True, slots=True)
class Side:
    """What a process is to run. `product`: a `peers.product.Product`, for the product itself."""

    module: ClassVar[str] = "benchmarks.cpu.side"
    peer: str
    problem: str
    sizes: Mapping[str, int]
    cpus: tuple[int, ...]
    product: Mapping[str, Any] | None = None
    folder: str | None = None
    """Where a peer keeps what it has prepared, if it prepares anything."""


def main(text: str) -> None:
    side = Side(**json.loads(text))
    serve(lambda: _opening(side), side.cpus)


def _opening(side: Side) -> Opening:
    problem = make(side.problem, side.sizes)
    told = {"flops": problem.flops, "nbytes": problem.read_bytes + problem.written_bytes}
    return Opening({n: _caller(side, problem, v) for n, v in _variants(side, problem).items()}, told)


def _caller(side: Side, problem: Problem, variant: Variant) -> Caller:
    if side.peer == peers.LIMITS:
        return Caller(variant.run, lambda: "")  # nothing is computed
    return Caller(variant.run, lambda: problem.error(variant.result()))


def _variants(side: Side, problem: Problem) -> dict[str, Variant]:
    if side.product is not None:
        return {"": product.variant(product.Product.of(side.product), problem)}
    module = peers.MODULES.get(side.peer, side.peer)
    make_variants = importlib.import_module(f"benchmarks.cpu.peers.{module}").variants
    settings = {} if side.folder is None else {"folder": Path(side.folder)}
    found: dict[str, Variant] = make_variants(side.problem, side.sizes, problem, len(side.cpus), **settings)
    return found


if __name__ == "__main__":
    main(sys.argv[1])

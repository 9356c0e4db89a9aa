"""One contender of a comparison of pipelines: a library, on the data of an application.

In: one argument, a `Side` as JSON, and then what `benchmarks/turns.py` asks. Out: what that answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from benchmarks.pipelines.calls import halide_call, plain_call
from benchmarks.pipelines.data import Data
from benchmarks.pipelines.signature import Box, Signature, box_of
from benchmarks.turns import Caller, Opening, serve


@dataclass(frozen=True, slots=True)
class Side:
    """What a process is to run."""

    module: ClassVar[str] = "benchmarks.pipelines.side"
    convention: Literal["c", "halide"]
    library: str
    symbol: str
    signature: Signature
    case: str
    """The folder of the data."""
    cpus: tuple[int, ...]
    rooms: Mapping[str, Box] = field(default_factory=dict)
    """Of inputs that lie in larger arrays."""


def main(text: str) -> None:
    document = json.loads(text)
    rooms = {name: box_of(box) for name, box in document["rooms"].items()}
    side = Side(**{**document, "signature": Signature.of(document["signature"]), "rooms": rooms})
    serve(lambda: _opening(side), side.cpus)


def _opening(side: Side) -> Opening:
    data = Data.read(Path(side.case), side.signature, side.rooms)
    call = halide_call if side.convention == "halide" else plain_call
    run = call(side.library, side.symbol, data, side.signature.scalars)

    def error() -> str:
        data.poison()
        run()
        return data.error()

    return Opening({"": Caller(run, error)}, {})


if __name__ == "__main__":
    main(sys.argv[1])

"""Tries random implementations for GPUs for long: `python -m tests.codegen.cuda.soak [--kernels A,B] ..`.

Of kernels of linear algebra, in batches as `soak_batch.py` says, until of each `--count` have passed.
"""

from __future__ import annotations

import sys

from tests.codegen.cuda.grids import compiled
from tests.codegen.cuda.soak_batch import examined
from tests.codegen.soaks import parser, soak
from tests.kernels.library_formulas import DIRECT

TOGETHER = 20
"""Implementations of a batch."""

COLUMNS = (
    "drawn", "dead ends", "over limits", "compiled", "spilled", "not run", "passed", "sanitized", "failed",
)  # fmt: skip


def main() -> int:
    options = parser("make soak-cuda", "random implementations for GPUs", [*DIRECT], wanted=300).parse_args()
    # What is made before the processes fork is made once.
    compiled()
    record = "build/soak-cuda/record.jsonl"
    return soak(options, examined, record=record, columns=COLUMNS, together=TOGETHER)


if __name__ == "__main__":
    sys.exit(main())

"""Programs that were not met before, of implementations as they are drawn."""

from __future__ import annotations

from collections.abc import Callable

from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.evaluation import Lowered


def new_programs(
    evaluator: CpuEvaluator, draw: Callable[[], Candidate | None], met: set[str], count: int, draws: int
) -> list[tuple[Candidate, Lowered]]:
    """So many with their implementations, or fewer where all draws are spent. `met`, the digests of programs,
    grows by theirs.
    """
    found: list[tuple[Candidate, Lowered]] = []
    for _ in range(draws):
        candidate = draw()
        program = None if candidate is None else evaluator.lower(candidate)
        if candidate is None or not isinstance(program, Lowered) or program.digest in met:
            continue
        met.add(program.digest)
        found.append((candidate, program))
        if len(found) == count:
            break
    return found

"""Tries new random spaces for as long as wanted: `SOAK_MINUTES=60 python -m tests.engine.soak [SEED]`.

Between them, the spaces that people write on small kernels. Out: how much was tried, and the share of each
ingredient; for the first disagreement its smallest form found, as text to make a test of, and exit status 1.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import EnumerationLimitError
from spacedsl.engine.native import tallies
from spacedsl.engine.native.propagation import native_or_reason
from spacedsl.oracle.cp_sat import CpSatModel, NotTranslatedError
from tests.engine.agreement import Agreement, Tally
from tests.engine.examples import Example, example_of
from tests.engine.generated_objects import Backbone, Machine
from tests.engine.generated_spaces import GeneratedSpace, generate_space
from tests.engine.ingredients import Coverage
from tests.engine.native import Both, check_descents
from tests.engine.real_spaces import POSED, RealSpace, real_space

DESCENTS = 6
NATIVE_EVERY = 4
"""Of so many spaces one is compiled, which takes as long as all that is done with the others."""
REAL_EVERY = 12
"""After so many spaces one walk through a space that people write."""
MOST_SOLUTIONS_TO_SEARCH = 1000


def disagreement(
    generated: GeneratedSpace,
    tally: Tally,
    seed: int = 0,
    coverage: Coverage | None = None,
) -> str | None:
    """What the engine and the oracles disagree on for one space. Other errors pass through."""
    example = example_of(generated)
    if coverage is not None:
        coverage.add(example.space, example.solutions)
    compared = example.agreement()
    compared.tally = tally
    try:
        for number in range(DESCENTS):
            rng = random.Random(f"{seed} {number}")
            compared.check_descent(rng)
            compared.check_order(rng)
            compared.check_monotone(rng)
            compared.check_queue(rng)
        if seed % NATIVE_EVERY == 0:
            check_native(compared, seed)
        if len(compared.solutions) <= MOST_SOLUTIONS_TO_SEARCH:
            compared.check_exhaustively()
            check_count(example, compared)
    except AssertionError as error:
        return str(error)
    return None


def check_count(example: Example, compared: Agreement) -> None:
    """CP-SAT counts as many solutions, where its numbers suffice."""
    try:
        model = CpSatModel(example.space, example.kernel, Machine())
    except NotTranslatedError as error:
        compared.tally.uncounted.append(str(error))
        return
    count = model.count()
    assert count == len(compared.solutions), f"CP-SAT counts {count}"
    compared.tally.counts += 1


def check_native(compared: Agreement, seed: int) -> None:
    """The native engine, where it runs, gives the vectors of the reference."""
    instance = compared.instance
    native, _ = native_or_reason(instance.compiled, instance.objects, instance.expansion, instance.layout)
    if native is not None:
        compared.tally.natives += 1
        here = Both(instance, native)
        for number in range(DESCENTS):
            here.descend(random.Random(f"{seed} native {number}"))
        check_descents(here, seed, DESCENTS)


def shrink(generated: GeneratedSpace, seed: int) -> GeneratedSpace:
    """Drops declarations, lines and objects for as long as the oracles still disagree with the engine."""
    for smaller in _smaller(generated):
        try:
            if disagreement(smaller, Tally(), seed) is not None:
                return shrink(smaller, seed)
        except (DiagnosticError, EnumerationLimitError):
            continue
    return generated


def _smaller(generated: GeneratedSpace) -> Iterator[GeneratedSpace]:
    blocks = generated.text.split("\n\n")
    for index in range(len(blocks)):
        yield replace(generated, text="\n\n".join(blocks[:index] + blocks[index + 1 :]))
    lines = generated.text.split("\n")
    for index in range(len(lines)):
        yield replace(generated, text="\n".join(lines[:index] + lines[index + 1 :]))
    backbone = generated.backbone
    if backbone.fillers:
        yield replace(generated, backbone=replace(backbone, fillers=0))
    last = len(backbone.sizes) - 1
    if last > 0:
        yield replace(generated, backbone=_without(backbone, last))
    for index, sizes in enumerate(backbone.sizes):
        if len(sizes) > 1:
            fewer = (*backbone.sizes[:index], sizes[:-1], *backbone.sizes[index + 1 :])
            yield replace(generated, backbone=replace(backbone, sizes=fewer))


def _without(backbone: Backbone, last: int) -> Backbone:
    return Backbone(
        backbone.sizes[:last],
        backbone.weights[:last],
        tuple(i for i in backbone.reds if i != last),
        tuple(i for i in backbone.blues if i != last),
        tuple(tuple(j for j in near if j != last) for near in backbone.near[:last]),
        backbone.fillers,
    )


@dataclass(slots=True)
class Soak:
    """All that has been tried."""

    folder: Path
    tally: Tally = field(default_factory=Tally)
    coverage: Coverage = field(default_factory=Coverage)
    outcomes: Counter[str] = field(default_factory=Counter)
    real: dict[str, RealSpace] = field(default_factory=dict)
    walks: Counter[str] = field(default_factory=Counter)

    def try_generated(self, seed: int) -> bool:
        """Whether nobody disagrees on the space of a seed; prints what was found."""
        generated = generate_space(random.Random(seed))
        try:
            found = disagreement(generated, self.tally, seed, self.coverage)
        except DiagnosticError as error:
            self.outcomes[f"refused {error.diagnostics[0].code}"] += 1
            return True
        except EnumerationLimitError:
            self.outcomes["too large"] += 1
            return True
        except Exception:
            print(f"seed {seed}\n{generated}", flush=True)
            raise
        self.outcomes["compared"] += 1
        if found is not None:
            print(f"seed {seed}: {found}\n{generated}\nin a smaller form:", flush=True)
            print(shrink(generated, seed))
        return found is None

    def try_real(self, seed: int) -> bool:
        """The same for a walk through one of the spaces that people write."""
        name = tuple(POSED)[sum(self.walks.values()) % len(POSED)]
        self.walks[name] += 1
        try:
            if name not in self.real:
                self.real[name] = real_space(name, self.folder)
                self.real[name].count(self.tally)
            self.real[name].walk(random.Random(seed), self.tally)
        except AssertionError as error:
            print(f"{name}, seed {seed}: {error}")
            return False
        return True

    def __str__(self) -> str:
        tally = self.tally
        counted = {name: real.solutions for name, real in self.real.items() if real.solutions is not None}
        return (
            f"{sum(self.outcomes.values())} spaces: {dict(self.outcomes)}\n"
            f"{self.coverage}\n"
            f"{sum(self.walks.values())} walks through {len(self.real)} written spaces; "
            f"solutions, by CP-SAT and by exhaustive search: {counted}\n"
            f"{tally.decisions} decisions, {tally.contradictions} contradictions, {tally.leaves} leaves, "
            f"{tally.vectors} pairs of vectors compared\n"
            f"{tally.natives} instances on the native engine; {tally.counts} counted by CP-SAT, "
            f"{len(tally.uncounted)} not; {tally.questions} questions about values, dead ends and leaves"
        )


def main() -> int:
    minutes = float(os.environ.get("SOAK_MINUTES", "5"))
    first = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(1 << 32)
    end = time.monotonic() + 60 * minutes
    # Sets are small here: what is done for counters of many contributions is done for all.
    tallies.FEWEST = 1
    print(f"seeds from {first}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        # Thousands of engines that nobody asks for again.
        os.environ["XDG_CACHE_HOME"] = folder
        here = Soak(Path(folder))
        seed = first
        while time.monotonic() < end:
            if not here.try_generated(seed):
                return 1
            if seed % REAL_EVERY == 0 and not here.try_real(seed):
                return 1
            seed += 1
    print(here)
    return 0


if __name__ == "__main__":
    sys.exit(main())

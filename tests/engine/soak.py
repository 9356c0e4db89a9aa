"""Tries new random spaces for as long as wanted: `SOAK_MINUTES=60 python -m tests.engine.soak [SEED]`.

Out: how much was tried; for the first disagreement its smallest form found, as text to make a test of, and
exit status 1.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import EnumerationLimitError
from spacedsl.engine.native.propagation import native_or_reason
from spacedsl.oracle.cp_sat import CpSatModel, NotTranslatedError
from tests.engine.agreement import Agreement, Tally
from tests.engine.examples import Example, example_of
from tests.engine.generated_objects import Backbone, Machine
from tests.engine.generated_spaces import GeneratedSpace, generate_space
from tests.engine.native import Both

DESCENTS = 6
NATIVE_EVERY = 4
"""Of so many spaces one is compiled, which takes as long as all that is done with the others."""
MOST_SOLUTIONS_TO_SEARCH = 1000


def disagreement(generated: GeneratedSpace, tally: Tally, seed: int = 0) -> str | None:
    """What the engine and the oracles disagree on for one space. Other errors pass through."""
    example = example_of(generated)
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
            _check_native(compared, seed)
        if len(compared.solutions) <= MOST_SOLUTIONS_TO_SEARCH:
            compared.check_exhaustively()
            _check_count(example, compared)
    except AssertionError as error:
        return str(error)
    return None


def _check_count(example: Example, compared: Agreement) -> None:
    """CP-SAT counts as many solutions, where its numbers suffice."""
    try:
        model = CpSatModel(example.space, example.kernel, Machine())
    except NotTranslatedError as error:
        compared.tally.uncounted.append(str(error))
        return
    count = model.count()
    assert count == len(compared.solutions), f"CP-SAT counts {count}"
    compared.tally.counts += 1


def _check_native(compared: Agreement, seed: int) -> None:
    """The native engine, where it runs, gives the vectors of the reference."""
    instance = compared.instance
    native, _ = native_or_reason(instance.compiled, instance.objects, instance.expansion, instance.layout)
    if native is not None:
        compared.tally.natives += 1
        here = Both(instance, native)
        for number in range(DESCENTS):
            here.descend(random.Random(f"{seed} native {number}"))


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
    )


def main() -> int:
    minutes = float(os.environ.get("SOAK_MINUTES", "5"))
    first = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(1 << 32)
    end = time.monotonic() + 60 * minutes
    tally, outcomes = Tally(), Counter[str]()
    seed = first
    print(f"seeds from {first}", flush=True)
    while time.monotonic() < end:
        generated = generate_space(random.Random(seed))
        try:
            found = disagreement(generated, tally, seed)
        except DiagnosticError as error:
            outcomes[f"refused {error.diagnostics[0].code}"] += 1
        except EnumerationLimitError:
            outcomes["too large"] += 1
        except Exception:
            print(f"seed {seed}\n{generated}", flush=True)
            raise
        else:
            outcomes["compared"] += 1
            if found is not None:
                print(f"seed {seed}: {found}\n{generated}\nin a smaller form:", flush=True)
                print(shrink(generated, seed))
                return 1
        seed += 1
    print(f"{seed - first} spaces: {dict(outcomes)}")
    print(
        f"{tally.decisions} decisions, {tally.contradictions} contradictions, {tally.leaves} leaves, "
        f"{tally.vectors} pairs of vectors compared"
    )
    print(
        f"{tally.natives} spaces on the native engine; {tally.counts} counted by CP-SAT, "
        f"{len(tally.uncounted)} not: {dict(Counter(tally.uncounted))}"
    )
    return 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        # Thousands of engines that nobody asks for again.
        os.environ["XDG_CACHE_HOME"] = cache
        sys.exit(main())

"""Descents with counters of many contributions: decisions of the reference, and only changes are read."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from spacedsl.compiler import compile_space
from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.instance import instantiate
from spacedsl.engine.native import tallies
from spacedsl.engine.native.descents import native_ordering, random_descents
from spacedsl.engine.native.sizes import count_leaves
from tests.engine.examples import load_text
from tests.engine.generated_objects import Machine
from tests.engine.generated_spaces import generate_space
from tests.engine.native import Both, both, check_descents, needs_compiler, places
from tests.engine.small import KIND, Things, things, world

SIZE = 'choice integer size($x in Things): "$x.sizes" end\n'
NEAR = "choice enum near($x in Things, $y in Things):\n  symmetric\n  value YES:\n  value NO:\nend\n"
RARE = "choice enum kind($x in Things):\n" + "".join(f"  value {v}:\n" for v in "ABCDEFGH") + "end\n"
COUNT = 24
SPACES = {
    "a sum of ones between limits": KIND
    + "choice counter total(): base 3 forall $x in Things: sum 1 when: kind($x) is A end\n"
    + "require total() <= 9\nrequire total() >= 7\n",
    "a sum of weights that is fixed": KIND
    + 'choice counter total(): forall $x in Things: sum "$x.weight" when: kind($x) is A | B end\n'
    + "require total() == 31\n",
    "a sum of integers": KIND
    + SIZE
    + "choice counter total(): forall $x in Things: sum size($x) when: kind($x) is A end\n"
    + "require total() <= 20\nrequire total() >= 12\n",
    "a sum on a condition of several choices": KIND
    + SIZE
    + "choice counter total(): forall $x in Things:\n"
    + "  sum 2 when: kind($x) is A && (size($x) >= 2 || kind($x) is B)\nend\nrequire total() == 8\n",
    "a product within limits": KIND
    + SIZE
    + 'choice counter volume(): base "2" forall $x in Things: mul size($x) when: kind($x) is not B end\n'
    + "require volume() <= 4096\n",
    "a product above a limit": KIND
    + SIZE
    + "choice counter volume(): forall $x in Things: mul size($x) when: kind($x) is not B end\n"
    + f"require volume() >= {2**20}\n",
    "a product that is fixed": SIZE
    + "choice counter volume(): forall $x in Things: mul size($x) when: end\nrequire volume() == 16\n",
    "a product beyond all numbers": RARE
    + f"choice counter volume(): forall $x in Things: mul {2**40 + 1} when: kind($x) is A end\n"
    + f"require volume() >= {2**62}\n",
    "counters of a pair's two ends": NEAR
    + "choice counter degree($x in Things): forall $y in Things: sum 1 when: near($x, $y) is YES end\n"
    + "require forall $x in Some: degree($x) <= 3\n",
    "both objects of a pair": KIND
    + "choice counter same(): forall $x in Some: forall $y in Some:\n"
    + "  sum 1 when: kind($x) is A && kind($y) is A\nend\nrequire same() <= 30\n",
    "a counter of counters": KIND
    + "choice counter one($x in Things): forall $y in Near($x): sum 1 when: kind($y) is A end\n"
    + "choice counter all(): forall $x in Things: sum one($x) when: kind($x) is not C end\n"
    + "require all() <= 20\nrequire all() >= 6\n",
    "what a filter leaves": KIND
    + 'choice counter total(): forall $x in Things where "$x.weight > 1": sum 1 when: kind($x) is A end\n'
    + "require total() == 5\n",
}


def thing_world(text: str, count: int = COUNT) -> Both:
    ring = things(count)
    for number, thing in enumerate(ring):
        thing.weight = 1 + number * 7 % 5
        thing.near = tuple(ring[(number + step) % count] for step in (1, 2, 5))
    return both(world(text, Things(ring, some=ring[: max(6, count // 3)])).instance)


@needs_compiler
@pytest.mark.usefixtures("quickly_compiled")
@pytest.mark.parametrize("name", SPACES)
def test_descents_by_totals_take_the_decisions_of_the_reference(name: str) -> None:
    here = thing_world(SPACES[name])
    assert here.native.instance.tables.tally_count >= 1
    check_descents(here, seed=3, count=12)


@needs_compiler
@pytest.mark.usefixtures("quickly_compiled")
def test_descents_in_generated_spaces_take_the_decisions_of_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tallies, "FEWEST", 1)
    found = 0
    for seed in range(40, 52):
        generated = generate_space(random.Random(seed))
        compiled = compile_space(replace(load_text(generated.text), digest=""))
        if not any(propagator.contribution for propagator in compiled.module.propagators):
            continue
        try:
            here = both(instantiate(compiled, generated.backbone.build(), Machine()))
        except DiagnosticError:
            continue
        found += here.native.instance.tables.tally_count
        check_descents(here, seed, 10)
    assert found > 10


def contributions_per_decision(text: str, count: int) -> float:
    """Those read in descents; and no descent is in vain."""
    here = thing_world(text, count)
    root = here.native.root()
    assert root is not None
    ordering = native_ordering(places(here.instance), {})
    found = random_descents(here.native, root, ordering, seed=1, count=4).counts
    assert found.complete == 4
    read: int = here.native.instance.library.functions.contributions_read(here.native.state().address)
    return read / (found.decisions + found.refutations)


@needs_compiler
@pytest.mark.usefixtures("quickly_compiled")
@pytest.mark.parametrize(
    "counter",
    [
        "sum 1 when: kind($x) is A end\nrequire total() <= 300\n",
        'sum "$x.weight" when: kind($x) is A end\nrequire total() >= 250\n',
        "mul 2 when: kind($x) is A end\nrequire total() <= 1048576\n",
    ],
)
def test_a_decision_reads_no_more_contributions_in_a_counter_of_a_thousand(counter: str) -> None:
    text = f"{KIND}choice counter total(): forall $x in Things: {counter}"
    assert contributions_per_decision(text, 1000) < 8


@needs_compiler
def test_a_counter_of_few_contributions_has_no_totals() -> None:
    here = thing_world(SPACES["a sum of ones between limits"], tallies.FEWEST - 1)
    assert here.native.instance.tables.tally_count == 0


@needs_compiler
def test_leaves_are_counted_by_totals_that_go_back_with_the_vector() -> None:
    text = KIND + (
        "require forall $x in Things: kind($x) is not C\n"
        "choice counter total(): forall $x in Things: sum 1 when: kind($x) is A end\nrequire total() <= 3\n"
    )
    here = thing_world(text, 20)
    root = here.native.root()
    assert root is not None
    assert here.native.instance.tables.tally_count == 1
    ordering = native_ordering(places(here.instance), {})
    assert count_leaves(here.native, root, ordering, 100_000) == sum(math.comb(20, n) for n in range(4))
